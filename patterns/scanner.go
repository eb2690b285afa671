package patterns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Defaults of Options.
const (
	defaultPeriod = 15 * time.Second
	defaultCap    = 50_000
)

// Tick is the time between two examinations of what changes without an event.
const tick = time.Minute

// Scanner applies rules to a stream of records. It is for one goroutine.
type Scanner struct {
	o        Options
	zeroUnix time.Duration

	rules    []*compiled
	byFact   map[string][]*compiled
	recorded map[string][]recorded // by kind of entity
	slots    slotNumbers

	now     time.Duration // of the last record, or tick
	ticked  time.Duration
	sampled time.Duration // a GPU, last
	begun   bool
	closed  bool

	jobs             map[string]*job
	pending, running jobSet
	gpus             map[telemetry.GPU]*gpu
	gpuNames         map[string]*gpu
	gpuList          []*gpu
	workers          int // of all jobs
	nodes            map[string]*node
	numbered         []*node // those of the cluster whose names are not known yet
	pools            map[string]*pool
	poolNames        []string
	tenants          map[string]*tenantState
	keys             map[string]*history
	completed        struct { // jobs, and the sum of their hours
		n   int
		sum float64
	}
	widths         [32][]waited
	widthSorted    [32][]float64
	seq            int
	busyByKey      map[string]keyBusy
	power          *energy.Assumptions
	waitingMatches map[*compiled][]Entity

	seen     map[string]bool // inputs
	sawGPU   bool
	unjoined int
	overCap  map[string]int
}

// compiled is a rule with its state.
type compiled struct {
	rule          *Rule
	index         int
	kind          string // of its entities
	steps         []int
	every         time.Duration
	negativeReach time.Duration
	matchers      map[Entity]*matcher
	open          map[Entity]*open
	opened        []*open // in order of opening
	detector      detector
	exempt        []string
}

// fields is a set of the quantities of a sample.
type fields telemetry.Field

func (f fields) has(x telemetry.Field) bool { return telemetry.Field(f)&x == x }

func (f fields) any(x telemetry.Field) bool { return telemetry.Field(f)&x != 0 }

// reading is a sample of a GPU without what can not be true.
type reading struct {
	processes int32
	xid       int32
	known     fields
	job       string
	busy      float64
	used      float64
	total     float64
	power     float64
	clock     float64
	appClock  float64
	throttle  uint64
}

// New checks the options.
func New(o Options) (*Scanner, error) {
	switch {
	case o.Period < 0 || o.Period > time.Hour:
		return nil, fmt.Errorf("patterns: period: %v is not from 0 to 1h", o.Period)
	case o.Cap < 0:
		return nil, fmt.Errorf("patterns: cap: %d is negative", o.Cap)
	case !(o.Price >= 0 && o.Price < 1e9):
		return nil, fmt.Errorf("patterns: price: %g is not from 0 to 1e9", o.Price)
	case len(o.Cluster.Groups) > 0:
		if err := o.Cluster.Validate(); err != nil {
			return nil, fmt.Errorf("patterns: %w", err)
		}
	}
	o.Period, o.Cap = cmp.Or(o.Period, defaultPeriod), cmp.Or(o.Cap, defaultCap)
	if o.Rules == nil {
		o.Rules = Builtin()
	}
	s := &Scanner{o: o, byFact: map[string][]*compiled{},
		recorded: map[string][]recorded{}, jobs: map[string]*job{}, gpus: map[telemetry.GPU]*gpu{},
		gpuNames: map[string]*gpu{}, nodes: map[string]*node{}, tenants: map[string]*tenantState{},
		keys: map[string]*history{}, busyByKey: map[string]keyBusy{},
		waitingMatches: map[*compiled][]Entity{}, overCap: map[string]int{},
		seen: map[string]bool{}}
	s.pending.which, s.running.which = 0, 1
	if !o.Zero.IsZero() {
		s.zeroUnix = time.Duration(o.Zero.UnixNano())
	}
	for i := range o.Rules.Rules {
		s.compile(&o.Rules.Rules[i])
	}
	s.number()
	s.setUp()
	return s, nil
}

// compile prepares a rule.
func (s *Scanner) compile(rule *Rule) {
	r := &compiled{rule: rule, index: len(s.rules), kind: rule.GroupBy[len(rule.GroupBy)-1],
		every: max(tick, time.Duration(rule.Every)), matchers: map[Entity]*matcher{}, open: map[Entity]*open{}}
	s.rules = append(s.rules, r)
	for _, u := range rule.Unless {
		r.exempt = append(r.exempt, u.Label)
	}
	if rule.Detect != "" {
		r.detector = detectors[rule.Detect].make(r)
		return
	}
	m := rule.match()
	r.steps = m.steps()
	names := map[string]bool{}
	for _, list := range [][]Term{m.terms(), m.Negate, rule.Until, rule.Confirm} {
		for _, t := range list {
			if t.Event != "" {
				names[t.Event] = true
			}
			r.negativeReach = max(r.negativeReach, time.Duration(t.Window)+time.Duration(max(t.Slide, -t.Slide)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s.byFact[name] = append(s.byFact[name], r)
	}
	for i := range rule.Derive {
		d := &rule.Derive[i]
		s.need(r.kind, &d.Condition)
		if d.Leave != nil {
			s.need(r.kind, d.Leave)
		}
	}
	for i := range rule.Variants {
		s.need(r.kind, &rule.Variants[i].When)
	}
	if rule.RightSize.Busy > 0 {
		s.need("job", &Condition{Signal: "busy", Over: rule.RightSize.Over})
	}
}

// need notes the signals of a condition, and the windows that they are looked at over.
func (s *Scanner) need(kind string, c *Condition) {
	for _, list := range [][]Condition{c.Any, c.All} {
		for i := range list {
			s.need(kind, &list[i])
		}
	}
	if c.Signal == "" {
		return
	}
	if c.Each != "" {
		kind = c.Each
	}
	sig := signals[kind+"."+c.Signal]
	if sig.compute != nil {
		return
	}
	step := cmp.Or(sig.step, s.o.Period)
	slots := int(time.Duration(c.Over)/step) + 2 + int(Lateness(s.o.Period)/step)
	i := slices.IndexFunc(s.recorded[kind], func(r recorded) bool { return r.name == c.Signal })
	if i < 0 {
		s.recorded[kind] = append(s.recorded[kind], recorded{c.Signal, step, slots})
		return
	}
	s.recorded[kind][i].slots = max(s.recorded[kind][i].slots, slots)
}

// number finds the places of the signals that rules ask for.
func (s *Scanner) number() {
	for name, sig := range signals {
		if sig.compute != nil {
			continue
		}
		kind, field, _ := strings.Cut(name, ".")
		*sig.slot(&s.slots) = slices.IndexFunc(s.recorded[kind], func(r recorded) bool { return r.name == field })
	}
}

// countDropped counts what a cap left out.
func (s *Scanner) countDropped(what string) { s.overCap[what]++ }

// Lateness is how late records of a sampling period may be by default: two periods, and at least 30 s.
func Lateness(period time.Duration) time.Duration { return max(2*period, 30*time.Second) }

// Check returns the time of a record since Options.Zero, or what is wrong with it. An iteration without a time has that
// of the last record.
func (s *Scanner) Check(r Record) (at time.Duration, err error) {
	switch {
	case r.Event != nil:
		if at = r.Event.Time; r.Event.Kind.OfJob() && r.Event.Job.ID == "" {
			return 0, fmt.Errorf("patterns: event %s: job: id: is empty", r.Event.Kind)
		}
	case r.GPU != nil:
		at = r.GPU.Time - s.zeroUnix
	case r.Queue != nil:
		at = r.Queue.Time - s.zeroUnix
	case r.Iteration != nil:
		if at = r.Iteration.Time - s.zeroUnix; r.Iteration.Time == 0 {
			at = s.now
		}
		if r.Iteration.Job == "" {
			return 0, fmt.Errorf("patterns: iteration %d: job: is empty", r.Iteration.Step)
		}
	case r.Message != nil:
		at = r.Message.Time - s.zeroUnix
	default:
		if at = r.Guardrail.Time - s.zeroUnix; r.Guardrail.Revision == "" {
			return 0, fmt.Errorf("patterns: guardrail %s: revision: is empty", r.Guardrail.Name)
		}
	}
	if at > workload.MaxSubmit || at < -workload.MaxSubmit {
		return 0, fmt.Errorf("patterns: %s: time: is more than a hundred years from the zero", r.name())
	}
	return at, nil
}

// Apply takes in the next record in order of time, at the instant at which it counts; records of one instant must be in
// order of Record.Rank. Package feed puts records into that order.
func (s *Scanner) Apply(at time.Duration, r Record) error {
	if s.closed {
		return fmt.Errorf("patterns: %s: the scanner is closed", r.name())
	}
	if s.begun && at < s.now {
		return fmt.Errorf("patterns: %s: time: is %v, and %v was examined: records must be in order of time", r.name(),
			at, s.now)
	}
	s.until(at)
	switch {
	case r.Event != nil:
		s.event(r.Event, at)
	case r.GPU != nil:
		s.gpuSample(r.GPU, at)
	case r.Queue != nil:
		s.queueSample(r.Queue, at)
	case r.Iteration != nil:
		s.iteration(r.Iteration, at)
	case r.Message != nil:
		s.message(r.Message, at)
	default:
		s.guardrail(r.Guardrail, at)
	}
	return nil
}

// until examines the time before an instant.
func (s *Scanner) until(at time.Duration) {
	if !s.begun {
		s.begun, s.now = true, at
		s.ticked = at - Lateness(s.o.Period)
		s.ticked -= s.ticked % tick
	}
	s.tickUntil(at)
	s.now = at
}

// quiet is a gap without any record; ticks in it are an hour apart.
const quiet = 7 * 24 * time.Hour

// tickUntil does what is due before an instant.
func (s *Scanner) tickUntil(at time.Duration) {
	for s.ticked+tick <= at {
		if len(s.running.list)+len(s.pending.list) == 0 && s.ticked-s.sampled > time.Hour && !s.anyOpen() {
			s.ticked = at - at%tick
			if s.ticked > at {
				s.ticked -= tick
			}
			return
		}
		step := tick
		if at-s.ticked > quiet {
			step = time.Hour - time.Duration(mod(int64(s.ticked), int64(time.Hour)))
		}
		s.ticked += step
		s.now = s.ticked
		s.tick()
	}
}

func (s *Scanner) anyOpen() bool {
	for _, r := range s.rules {
		if len(r.opened) > 0 || len(s.waitingMatches[r]) > 0 {
			return true
		}
	}
	return false
}

func (s *Scanner) queueSample(q *telemetry.QueueSample, at time.Duration) {
	p := s.poolOf(cmp.Or(q.Queue, allJobs))
	p.sampled, p.hasSample, p.everSeen, p.everSampled = at, true, true, true
	p.sampledPending, p.sampledFree, p.sampledTotal = q.PendingGPUs, q.FreeGPUs, q.TotalGPUs
}

func (s *Scanner) iteration(i *telemetry.Iteration, at time.Duration) {
	j := s.jobs[i.Job]
	if j == nil {
		j = s.infer(i.Job, at)
	}
	if j != nil {
		j.progress = max(j.progress, at, 1)
		s.iterate(j, i, at)
	}
}

func (s *Scanner) message(m *Message, at time.Duration) {
	s.seen[inputMessages] = true
	j := s.jobs[m.Job]
	if j != nil {
		j.progress = max(j.progress, at, 1)
	}
	s.fact(&fact{name: "message", at: at, job: j, node: m.Node, text: m.Text, source: m.Source})
}

func (s *Scanner) guardrail(g *Guardrail, at time.Duration) {
	s.seen[inputGuardrails] = true
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.guardrail(s, g, at)
		}
	}
}

// infer makes a job that only samples name.
func (s *Scanner) infer(name string, at time.Duration) *job {
	if len(s.jobs) >= s.o.Cap*4 {
		s.countDropped("jobs")
		return nil
	}
	s.seq++
	j := &job{entity: entity{kind: "job", name: name}, submit: at, seq: s.seq, inferred: true, gpus: 1, share: 1}
	s.jobs[name] = j
	s.place(j, at, nil)
	return j
}

func (s *Scanner) gpuSample(v *telemetry.GPUSample, at time.Duration) {
	known := plausible(v)
	if known == 0 {
		return // unknown, as if it had not been sampled
	}
	g := s.gpuOf(v.GPU)
	if g == nil {
		return
	}
	s.sampled, s.sawGPU = at, true
	if v.Job != "" && v.Job != g.id {
		j := s.jobs[v.Job]
		if j == nil {
			j = s.infer(v.Job, at)
		}
		if j != nil && j.running {
			g.named = true
			s.join(g, j)
		}
	}
	x := reading{known: fields(known), job: v.Job, used: v.MemoryUsed, total: v.MemoryTotal, power: v.Power,
		clock: v.SMClock, appClock: v.ApplicationClock, throttle: v.Throttle, xid: int32(v.Xid),
		processes: int32(v.Processes)}
	if x.known.has(telemetry.SMActive) {
		x.busy = v.SMActive
	} else if x.known.has(telemetry.Utilization) {
		x.busy = v.Utilization / 100
	}
	s.sample(g, &x, at)
}

// gpuOf returns the state of a GPU, and makes it.
func (s *Scanner) gpuOf(id telemetry.GPU) *gpu {
	g := s.gpus[id]
	if g == nil {
		if len(s.gpus) >= 4*s.o.Cap {
			s.countDropped("GPUs")
			return nil
		}
		name := id.Node + ":" + strconv.Itoa(id.Index)
		if id.Instance >= 0 {
			name += "." + strconv.Itoa(id.Instance)
		}
		n := s.nodeOf(id.Node)
		g = &gpu{entity: entity{kind: "gpu", name: name}, node: n, index: id.Index, idle: n.idle}
		s.gpus[id], s.gpuNames[name] = g, g
		s.gpuList = append(s.gpuList, g)
		n.units = append(n.units, g)
		if j := soleJob(n); j != nil {
			s.join(g, j)
		}
	}
	return g
}

// unit is the GPU of an entity, nil if it is of another kind.
func (s *Scanner) unit(e *entity) *gpu {
	if e.kind != "gpu" {
		return nil
	}
	return s.gpuNames[e.name]
}

// plausible are the quantities of a sample that can be true. The others are unknown.
func plausible(g *telemetry.GPUSample) telemetry.Field {
	known := g.Known
	if g.Lost {
		known &= telemetry.Xid
	}
	for _, q := range [...]struct {
		field telemetry.Field
		value float64
		most  float64
	}{{telemetry.Utilization, g.Utilization, 100}, {telemetry.SMActive, g.SMActive, 1},
		{telemetry.MemoryUsed, g.MemoryUsed, 1e9}, {telemetry.MemoryTotal, g.MemoryTotal, 1e9},
		{telemetry.Power, g.Power, 1e5}, {telemetry.SMClock, g.SMClock, 1e5},
		{telemetry.ApplicationClock, g.ApplicationClock, 1e5}} {
		if !(q.value >= 0 && q.value <= q.most) {
			known &^= q.field
		}
	}
	return known
}

// Advance examines the time until t, since Options.Zero, of which all records were applied.
func (s *Scanner) Advance(t time.Duration) error {
	switch {
	case s.closed:
		return fmt.Errorf("patterns: advance: the scanner is closed")
	case t > workload.MaxSubmit || t < -workload.MaxSubmit:
		return fmt.Errorf("patterns: advance: time: is more than a hundred years from the zero")
	}
	if s.begun && t > s.now {
		s.until(t)
	}
	return nil
}

// Close reports the findings that are still open, as of the last record.
func (s *Scanner) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if !s.begun {
		return nil
	}
	for _, j := range slices.Clone(s.running.list) {
		s.passRows(j)
	}
	for _, r := range s.rules {
		for _, o := range r.opened {
			s.count(r, o)
			s.emit(o)
		}
	}
	return nil
}

// Open are the findings that hold, in order of rule and opening.
func (s *Scanner) Open() (out []*Finding) {
	for _, r := range s.rules {
		for _, o := range r.opened {
			out = append(out, s.stamp(o).Clone())
		}
	}
	return out
}
