package patterns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// batch is the span of records that are put into order at once.
const batch = time.Minute

// Scanner applies rules to a stream of records. It is for one goroutine.
type Scanner struct {
	o        Options
	zeroUnix time.Duration
	late     time.Duration // how late records may be

	rules    []*compiled
	byFact   map[string][]*compiled
	recorded map[string][]recorded // by kind of entity
	slots    slotNumbers

	now     time.Duration // until which all was examined
	newest  time.Duration // of a record
	ticked  time.Duration
	sampled time.Duration // a GPU, last
	begun   bool
	closed  bool
	buffer  []record
	sorted  bool

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
	two              [2]*pool
	tenants          map[string]*tenantState
	keys             map[string]*history
	all              struct {
		n   int
		sum float64
	}
	widths         [32][]waited
	widthSorted    [32][]float64
	seq            int
	keyBusy        map[string]keyBusy
	power          *energy.Assumptions
	waitingMatches map[*compiled][]Entity

	seen                  map[string]bool // inputs
	sawGPU                bool
	lateRecords, unjoined int
	overCap               map[string]int
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

// record is an event, sample or line as it waits to be put into order.
type record struct {
	at        time.Duration
	rank      uint8 // among records of one instant
	processes int32
	xid       int32
	known     fields
	gpu       *gpu
	job       string
	busy      float64
	used      float64
	total     float64
	power     float64
	clock     float64
	appClock  float64
	throttle  uint64
	any       any
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
	s := &Scanner{o: o, late: max(2*o.Period, 30*time.Second), sorted: true, byFact: map[string][]*compiled{},
		recorded: map[string][]recorded{}, jobs: map[string]*job{}, gpus: map[telemetry.GPU]*gpu{},
		gpuNames: map[string]*gpu{}, nodes: map[string]*node{}, tenants: map[string]*tenantState{},
		keys: map[string]*history{}, keyBusy: map[string]keyBusy{},
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
	slots := int(time.Duration(c.Over)/step) + 2 + int(s.late/step)
	i := slices.IndexFunc(s.recorded[kind], func(r recorded) bool { return r.name == c.Signal })
	if i < 0 {
		s.recorded[kind] = append(s.recorded[kind], recorded{c.Signal, step, slots})
		return
	}
	s.recorded[kind][i].slots = max(s.recorded[kind][i].slots, slots)
}

// number finds the places of the signals that rules ask for.
func (s *Scanner) number() {
	for name, at := range map[string]*int{"job.busy": &s.slots.busy, "job.power_excess": &s.slots.power,
		"job.processes": &s.slots.processes, "job.memory": &s.slots.memory, "gpu.busy": &s.slots.gpuBusy,
		"gpu.memory": &s.slots.gpuMemory, "gpu.clock": &s.slots.clock, "gpu.throttled": &s.slots.throttled,
		"gpu.throttled_power": &s.slots.throttledPower, "gpu.throttled_thermal": &s.slots.throttledThermal,
		"gpu.throttled_hardware": &s.slots.throttledHardware, "tenant.quota_use": &s.slots.quotaUse,
		"tenant.others_waiting": &s.slots.othersWaiting, "partition.blocked": &s.slots.blocked,
		"partition.free": &s.slots.partitionFree, "queue.pending_gpus": &s.slots.pendingGPUs,
		"queue.free": &s.slots.queued} {
		*at = -1
		for kind, list := range s.recorded {
			for i := range list {
				if kind+"."+list[i].name == name {
					*at = i
				}
			}
		}
	}
}

// over counts what a cap left out.
func (s *Scanner) over(what string) { s.overCap[what]++ }

// push adds a record to the buffer, and examines what no earlier record can precede.
func (s *Scanner) push(kind, name string, x record) error {
	switch {
	case s.closed:
		return fmt.Errorf("patterns: %s %s: the scanner is closed", kind, name)
	case x.at > workload.MaxSubmit || x.at < -workload.MaxSubmit:
		return fmt.Errorf("patterns: %s %s: time: is more than a hundred years from the zero", kind, name)
	}
	if !s.begun {
		s.begun = true
		s.now, s.newest = x.at-s.late, x.at
		s.ticked = s.now - s.now%tick
	}
	if x.at < s.now {
		s.lateRecords++
		return nil
	}
	if n := len(s.buffer); n > 0 && before(&x, &s.buffer[n-1]) {
		s.sorted = false
	}
	s.buffer = append(s.buffer, x)
	if x.at > s.newest {
		s.newest = x.at
		if s.newest-s.now >= batch+s.late {
			s.examine(s.newest - s.late)
		}
	}
	return nil
}

func before(a, b *record) bool { return a.at < b.at || a.at == b.at && a.rank < b.rank }

// examine processes what is before an instant.
func (s *Scanner) examine(until time.Duration) {
	if !s.sorted {
		slices.SortStableFunc(s.buffer, func(a, b record) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank))
		})
		s.sorted = true
	}
	n := 0
	for ; n < len(s.buffer) && s.buffer[n].at < until; n++ {
		x := &s.buffer[n]
		s.tickUntil(x.at)
		s.now = x.at
		s.take(x)
	}
	s.tickUntil(until)
	s.now = max(s.now, until)
	rest := copy(s.buffer, s.buffer[n:])
	clear(s.buffer[rest:])
	s.buffer = s.buffer[:rest]
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

// take processes a record.
func (s *Scanner) take(x *record) {
	switch v := x.any.(type) {
	case nil:
		s.takeSample(x)
	case *workload.Event:
		s.event(v, x.at)
	case *telemetry.QueueSample:
		name := cmp.Or(v.Queue, whole)
		p := s.poolOf(name)
		p.sampled, p.hasSample, p.everSeen, p.everSampled = x.at, true, true, true
		p.sampledPending, p.sampledFree, p.sampledTotal = v.PendingGPUs, v.FreeGPUs, v.TotalGPUs
	case telemetry.Iteration:
		j := s.jobs[v.Job]
		if j == nil {
			j = s.infer(v.Job, x.at)
		}
		if j != nil {
			j.progress = max(j.progress, x.at, 1)
			s.iterate(j, &v, x.at)
		}
	case *Message:
		s.seen[inputMessages] = true
		j := s.jobs[v.Job]
		if j != nil {
			j.progress = max(j.progress, x.at, 1)
		}
		s.fact(&fact{name: "message", at: x.at, job: j, node: v.Node, text: v.Text, source: v.Source})
	case *Guardrail:
		s.seen[inputGuardrails] = true
		for _, r := range s.rules {
			if r.detector != nil {
				r.detector.guardrail(s, v, x.at)
			}
		}
	}
}

// infer makes a job that only samples name.
func (s *Scanner) infer(name string, at time.Duration) *job {
	if len(s.jobs) >= s.o.Cap*4 {
		s.over("jobs")
		return nil
	}
	s.seq++
	j := &job{entity: entity{kind: "job", name: name}, submit: at, seq: s.seq, inferred: true, gpus: 1}
	s.jobs[name] = j
	s.occupy(j, at, nil)
	return j
}

func (s *Scanner) takeSample(x *record) {
	g := x.gpu
	s.sampled, s.sawGPU = x.at, true
	if x.job != "" && x.job != g.id {
		j := s.jobs[x.job]
		if j == nil {
			j = s.infer(x.job, x.at)
		}
		if j != nil && j.running {
			g.named = true
			s.join(g, j)
		}
	}
	s.sample(g, x)
}

// gpuOf returns the state of a GPU, and makes it.
func (s *Scanner) gpuOf(id telemetry.GPU) *gpu {
	g := s.gpus[id]
	if g == nil {
		if len(s.gpus) >= 4*s.o.Cap {
			s.over("GPUs")
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

// Event takes in what happened to a job, a node or the configuration.
func (s *Scanner) Event(e *workload.Event) error {
	if e.Kind.OfJob() && e.Job.ID == "" {
		return fmt.Errorf("patterns: event %s: job: id: is empty", e.Kind)
	}
	c := *e
	return s.push("event", e.ID, record{at: e.Time, rank: 1, any: &c})
}

// GPU takes in a sample of a GPU.
func (s *Scanner) GPU(g *telemetry.GPUSample) error {
	known := plausible(g)
	if known == 0 {
		return nil // unknown, as if it had not been sampled
	}
	id := g.GPU
	x := record{at: g.Time - s.zeroUnix, rank: 3, known: fields(known), job: g.Job, used: g.MemoryUsed,
		total: g.MemoryTotal, power: g.Power, clock: g.SMClock, appClock: g.ApplicationClock, throttle: g.Throttle,
		xid: int32(g.Xid), processes: int32(g.Processes)}
	if x.gpu = s.gpuOf(id); x.gpu == nil {
		return nil
	}
	if known&telemetry.SMActive != 0 {
		x.busy = g.SMActive
	} else if known&telemetry.Utilization != 0 {
		x.busy = g.Utilization / 100
	}
	return s.push("sample of", x.gpu.name, x)
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

// Queue takes in a sample of a queue.
func (s *Scanner) Queue(q *telemetry.QueueSample) error {
	c := *q
	return s.push("sample of queue", q.Queue, record{at: q.Time - s.zeroUnix, rank: 2, any: &c})
}

// Iteration takes in an iteration of a job's worker. One without a time has the latest time read.
func (s *Scanner) Iteration(i *telemetry.Iteration) error {
	at := i.Time - s.zeroUnix
	if i.Time == 0 {
		at = s.newest
	}
	if i.Job == "" {
		return fmt.Errorf("patterns: iteration %d: job: is empty", i.Step)
	}
	return s.push("iteration of", i.Job, record{at: at, rank: 2, any: *i})
}

// Message takes in a line of a log.
func (s *Scanner) Message(m *Message) error {
	c := *m
	return s.push("message of", m.Job, record{at: m.Time - s.zeroUnix, rank: 0, any: &c})
}

// Guardrail takes in a measurement of a guardrail.
func (s *Scanner) Guardrail(g *Guardrail) error {
	if g.Revision == "" {
		return fmt.Errorf("patterns: guardrail %s: revision: is empty", g.Name)
	}
	c := *g
	return s.push("guardrail", g.Name, record{at: g.Time - s.zeroUnix, rank: 2, any: &c})
}

// Advance says that records until t, since Options.Zero, were read.
func (s *Scanner) Advance(t time.Duration) error {
	switch {
	case s.closed:
		return fmt.Errorf("patterns: advance: the scanner is closed")
	case t > workload.MaxSubmit || t < -workload.MaxSubmit:
		return fmt.Errorf("patterns: advance: time: is more than a hundred years from the zero")
	}
	if s.begun && t > s.newest {
		s.newest = t
		s.examine(t - s.late)
	}
	return nil
}

// Close examines what is left, and reports the findings still open as of the last record.
func (s *Scanner) Close() error {
	if s.closed {
		return nil
	}
	if s.begun {
		s.examine(s.newest + 1)
		s.now = s.newest
		for _, j := range slices.Clone(s.running.list) {
			s.passRows(j)
		}
		for _, r := range s.rules {
			for _, o := range r.opened {
				s.count(r, o)
				s.emit(o)
			}
		}
	}
	s.closed = true
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
