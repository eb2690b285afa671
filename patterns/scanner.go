package patterns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
	"github.com/autosched/autosched/workload"
)

// viewOf returns the view by which conditions of a subject are judged.
func (s *Scanner) viewOf(r *compiled, e *cluster.Subject, d *Derive) view {
	v := view{s: s, r: r, e: e, expected: 1, trust: 1}
	if e.Kind == "job" {
		v.expected = max(1, e.Job.GPUs)
	}
	if d != nil {
		v.coverage = d.Coverage
		if e.Job != nil && d.WarmUp > 0 {
			v.from = e.Job.Start + time.Duration(d.WarmUp)
		}
	}
	return v
}

// exempt reports whether a rule leaves a job out.
func (s *Scanner) exempt(r *compiled, j *cluster.Job) bool {
	if len(r.exempt) == 0 || len(j.Labels) == 0 {
		return false
	}
	for _, u := range r.rule.Unless {
		if slices.Contains(j.Labels, u.Label) && (u.Younger == 0 || s.now()-j.Start < time.Duration(u.Younger)) {
			return true
		}
	}
	return false
}

// tick examines the state at an instant.
func (s *Scanner) tick() {
	s.cluster.SampleQueues()
	if cluster.StepOf(s.now(), time.Hour) != cluster.StepOf(s.now()-cluster.Tick, time.Hour) {
		for _, r := range s.rules {
			r.forget(s.now())
		}
		s.cluster.Hourly()
	}
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.tick(s)
		} else if len(r.rule.Derive) > 0 && s.now()%r.every == 0 {
			s.examineEntities(r)
		}
	}
	s.settle()
	for _, r := range s.rules {
		if len(r.opened) > 0 {
			s.attend(r)
		}
	}
}

// examineEntities judges the derived conditions of a rule.
func (s *Scanner) examineEntities(r *compiled) {
	c := s.cluster
	switch r.kind {
	case "job":
		set := &c.Running
		if r.rule.State == "pending" {
			set = &c.Pending
		}
		for _, j := range set.List {
			if !s.exempt(r, j) {
				s.derive(r, &j.Subject)
			} else {
				s.closeFinding(r, Entity{"job", j.Name}, s.now())
			}
		}
	case "gpu":
		for _, g := range c.GPUs {
			if g.Rings != nil {
				s.derive(r, &g.Subject)
			}
		}
	case "tenant":
		for _, vc := range s.o.Cluster.VCs {
			s.derive(r, &c.Tenants[vc.Tenant].Subject)
		}
	case "partition":
		for _, p := range c.Pools {
			if p.Name != cluster.AllJobs || !c.Split() {
				s.derive(r, &p.Part)
			}
		}
	case "queue":
		for _, p := range c.Pools {
			s.derive(r, &p.Subject)
		}
	}
}

// derive judges the conditions of an entity, and sends the ones that hold as facts.
func (s *Scanner) derive(r *compiled, e *cluster.Subject) {
	st := r.states[e]
	any := false
	for i := range r.rule.Derive {
		d := &r.rule.Derive[i]
		c := condState{}
		if st != nil {
			c = st[i]
		}
		was := c
		switch needed := r.needed(st, d); {
		case !needed:
			c = condState{}
		case c.on:
			if s.left(r, e, d, &c) {
				c = condState{}
			}
		default:
			v := s.viewOf(r, e, d)
			if v.judge(&d.Condition) != yes {
				c = condState{}
			} else if !c.holds {
				c = condState{holds: true, since: s.now(), trust: v.trust}
			}
			if c.holds && s.now()-c.since >= time.Duration(d.For) {
				c.on = true
			}
		}
		if c == was && st == nil {
			continue
		}
		if st == nil {
			st = make([]condState, len(r.rule.Derive))
			r.states[e] = st
		}
		st[i] = c
		any = any || c.on
		if was.on && !c.on && r.closes(d) {
			s.closeFinding(r, Entity{e.Kind, e.Name}, s.now())
		}
	}
	if !any {
		return
	}
	for i := range r.rule.Derive {
		if st[i].on {
			s.offer(r, &cluster.Fact{Name: "derived:" + r.rule.Derive[i].Name, At: s.now(), Job: e.Job, Subject: e})
		}
	}
}

// needed reports whether the condition that another needs holds.
func (r *compiled) needed(st []condState, d *Derive) bool {
	if d.Needs == "" {
		return true
	}
	for i := range r.rule.Derive {
		if r.rule.Derive[i].Name == d.Needs {
			return st != nil && st[i].on
		}
	}
	return false
}

// left reports whether a condition that entered has ended. An unknown one has not.
func (s *Scanner) left(r *compiled, e *cluster.Subject, d *Derive, c *condState) bool {
	v := s.viewOf(r, e, d)
	if d.Leave != nil {
		return v.judge(d.Leave) == yes
	}
	return v.judge(&d.Condition) == no
}

// closes reports whether the end of a condition closes a finding: the first condition of the
// match does.
func (r *compiled) closes(d *Derive) bool {
	return r.rule.match().terms()[0].Derived == d.Name
}

// Defaults of Options.
const (
	defaultPeriod = 15 * time.Second
	defaultCap    = 50_000
)

// Scanner applies rules to a stream of records. It is for one goroutine.
type Scanner struct {
	o       Options
	rules   []*compiled
	byFact  map[string][]*compiled
	cluster *cluster.State
	narrow  map[string]keyBusy // by key
	ticked  time.Duration
	begun   bool
	closed  bool
	// Inputs that have come.
	sawMessages, sawGuardrails bool
}

// compiled is a rule with its state.
type compiled struct {
	rule          *Rule
	kind          string // of its entities
	steps         []int
	every         time.Duration
	negativeReach time.Duration
	matchers      map[Entity]*matcher
	waiting       []Entity // of matches whose negative terms may yet come
	states        map[*cluster.Subject][]condState
	open          map[Entity]*open
	opened        []*open // in order of opening
	detector      detector
	exempt        []string
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
	s := &Scanner{o: o, byFact: map[string][]*compiled{}, narrow: map[string]keyBusy{}}
	s.cluster = cluster.New(cluster.Config{Cluster: o.Cluster, Nodes: o.Nodes, Period: o.Period,
		Late: Lateness(o.Period), Cap: o.Cap, Labels: o.Labels, OnFact: s.fact, OnRow: s.row, OnJobLeft: s.closeJob,
		OnGPULeft: s.closeGPU, OnJobEnded: s.report})
	for i := range o.Rules.Rules {
		s.compile(&o.Rules.Rules[i])
	}
	return s, nil
}

// now returns the instant of the last record or tick.
func (s *Scanner) now() time.Duration { return s.cluster.Now }

// compile prepares a rule.
func (s *Scanner) compile(rule *Rule) {
	r := &compiled{rule: rule, kind: rule.GroupBy[len(rule.GroupBy)-1],
		every: max(cluster.Tick, time.Duration(rule.Every)), matchers: map[Entity]*matcher{},
		states: map[*cluster.Subject][]condState{}, open: map[Entity]*open{}}
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

// need has the series of a condition recorded over its windows.
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
	s.cluster.Keep(kind, sig.series, time.Duration(c.Over))
}

// Lateness is how late records of a sampling period may be by default: two periods, and at least 30 s.
func Lateness(period time.Duration) time.Duration { return max(2*period, 30*time.Second) }

// zeroUnix returns Options.Zero since the Unix epoch.
func (s *Scanner) zeroUnix() time.Duration {
	if s.o.Zero.IsZero() {
		return 0
	}
	return time.Duration(s.o.Zero.UnixNano())
}

// Check returns the time of a record since Options.Zero, or the fault of a wrong record. An iteration without a time
// has that of the last record.
func (s *Scanner) Check(r Record) (at time.Duration, err error) {
	switch {
	case r.Event != nil:
		if at = r.Event.Time; r.Event.Kind.OfJob() && r.Event.Job.ID == "" {
			return 0, fmt.Errorf("patterns: event %s: job: id: is empty", r.Event.Kind)
		}
	case r.GPU != nil:
		at = r.GPU.Time - s.zeroUnix()
	case r.Queue != nil:
		at = r.Queue.Time - s.zeroUnix()
	case r.Iteration != nil:
		if at = r.Iteration.Time - s.zeroUnix(); r.Iteration.Time == 0 {
			at = s.now()
		}
		if r.Iteration.Job == "" {
			return 0, fmt.Errorf("patterns: iteration %d: job: is empty", r.Iteration.Step)
		}
	case r.Message != nil:
		at = r.Message.Time - s.zeroUnix()
	default:
		if at = r.Guardrail.Time - s.zeroUnix(); r.Guardrail.Revision == "" {
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
	if s.begun && at < s.now() {
		return fmt.Errorf("patterns: %s: time: is %v, and %v was examined: records must be in order of time", r.name(),
			at, s.now())
	}
	s.until(at)
	switch {
	case r.Event != nil:
		s.cluster.Event(r.Event, at)
	case r.GPU != nil:
		s.cluster.GPUSample(r.GPU, at)
	case r.Queue != nil:
		s.cluster.QueueSample(r.Queue, at)
	case r.Iteration != nil:
		s.cluster.Iteration(r.Iteration, at)
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
		s.begun, s.cluster.Now = true, at
		s.ticked = at - Lateness(s.o.Period)
		s.ticked -= s.ticked % cluster.Tick
	}
	s.tickUntil(at)
	s.cluster.Now = at
}

// quiet is a gap without any record; ticks in it are an hour apart.
const quiet = 7 * 24 * time.Hour

// tickUntil examines the ticks before an instant.
func (s *Scanner) tickUntil(at time.Duration) {
	for s.ticked+cluster.Tick <= at {
		c := s.cluster
		if len(c.Running.List)+len(c.Pending.List) == 0 && s.ticked-c.Sampled > time.Hour && !s.anyOpen() {
			s.ticked = at - at%cluster.Tick
			if s.ticked > at {
				s.ticked -= cluster.Tick
			}
			return
		}
		step := cluster.Tick
		if at-s.ticked > quiet {
			step = time.Duration(cluster.StepOf(s.ticked, time.Hour)+1)*time.Hour - s.ticked
		}
		s.ticked += step
		s.cluster.Now = s.ticked
		s.tick()
	}
}

func (s *Scanner) anyOpen() bool {
	for _, r := range s.rules {
		if len(r.opened) > 0 || len(r.waiting) > 0 {
			return true
		}
	}
	return false
}

func (s *Scanner) message(m *Message, at time.Duration) {
	s.sawMessages = true
	s.fact(&cluster.Fact{Name: "message", At: at, Job: s.cluster.Message(m.Job, at), Node: m.Node, Text: m.Text,
		Source: m.Source})
}

// row passes a row of iterations to the detectors.
func (s *Scanner) row(j *cluster.Job, x *cluster.Row) {
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.row(s, j, x)
		}
	}
}

func (s *Scanner) guardrail(g *Guardrail, at time.Duration) {
	s.sawGuardrails = true
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.guardrail(s, g, at)
		}
	}
}

// Advance examines the time until t, since Options.Zero, of which all records were applied.
func (s *Scanner) Advance(t time.Duration) error {
	switch {
	case s.closed:
		return fmt.Errorf("patterns: advance: the scanner is closed")
	case t > workload.MaxSubmit || t < -workload.MaxSubmit:
		return fmt.Errorf("patterns: advance: time: is more than a hundred years from the zero")
	}
	if s.begun && t > s.now() {
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
	for _, j := range slices.Clone(s.cluster.Running.List) {
		s.cluster.PassRows(j)
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
