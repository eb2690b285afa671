package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/autosched/autosched/space"
)

// Named is a preset configuration. Its trial's origin is Origin:Name, or
// preset:Name if there is no Origin.
type Named struct {
	Name   string
	Config space.Config
	Origin string
}

// Options say what to tune and how hard. Space and Evaluate are required.
type Options struct {
	Space    *space.Space
	Evaluate Evaluator

	// Incumbent is the configuration in use; none means the default.
	Incumbent space.Config
	// Presets are measured before anything a sampler proposes. They are
	// projected first, as they may be older than the space.
	Presets []Named

	// Method names one of Samplers; "" is DefaultSampler. Sampler, if set, is
	// used instead.
	Method  string
	Sampler Sampler
	// State continues a Learner: the State of an earlier Result.
	State json.RawMessage

	// Budget is how many different configurations to measure, the portfolio
	// included; 0 means 40, the paper's. The default and the incumbent are
	// measured whatever it is. Configurations found in Cache count too, so that
	// a warm cache gives the same answer, only sooner.
	Budget int
	// Batch is how many configurations a sampler with a model asks for at once; 0
	// means 4. It changes the result, unlike Workers.
	Batch int
	// Workers is how many evaluations run at once; 0 means GOMAXPROCS. It does
	// not change the result.
	Workers int
	Seed    uint64
	// Time, if positive, is how long the study may take; then its result depends
	// on the machine. The default and the incumbent are measured whatever it is.
	Time time.Duration

	// Likely is how probable it has to be that a configuration keeps to each paired
	// limit (Measurement.Kept); 0 asks only that it does so in the mean.
	Likely float64
	// Then are sides that trials within reach of the least objective are searched
	// by. Result.Best goes by the objective alone.
	Then []Rank
	// Front names sides of the measurements: suggestions then look for what no
	// other configuration beats in all of them (see Front), instead of the least
	// objective.
	Front []string

	// Cache may hold measurements of earlier studies made in the same Context:
	// a text that names everything but the configuration that decides them.
	Cache   *Cache
	Context string

	// Record, if set, gets the study as JSON lines while it goes on: a Header, then
	// a Line per trial and per rejection in the order they come. About goes into
	// the header: names that tell people what was tuned.
	// RecordSpace is the space that the record is of, where Space is a part of it;
	// nil means Space.
	Record      io.Writer
	RecordSpace *space.Space
	About       map[string]string
	// Resume, if set, is an earlier record in the same space, Context and Seed.
	// What it holds is not measured again. If it is of the same Method, too, the
	// study goes as it was planned: for the budgets that the record names, one after
	// the other, and then for Budget. So it only ever goes on where it stopped, and
	// with the same Budget it is the same as without Resume.
	Resume *Recording

	// Reject, if set, says why a proposal is not worth measuring, "" if it is.
	// The portfolio is never rejected. It sees the trials measured so far.
	Reject func(history []Trial, c space.Config) string

	// Scope, if set, may change a proposal before it is judged and measured, and
	// says why: parameters that need not be searched stay as they are. The
	// portfolio is never changed, nor a proposal that it would make one of those
	// measured before.
	Scope func(history []Trial, c space.Config) (space.Config, []string)

	// Progress, if set, is called after each trial, in step order, from the
	// goroutine that called Tune.
	Progress func(Trial)
}

// Why a study stopped.
const (
	StoppedBudget    = "budget"    // all of it was used
	StoppedTime      = "time"      // Options.Time was up
	StoppedExhausted = "exhausted" // nothing new was proposed any more
	StoppedCancelled = "cancelled" // the context ended
)

// Rejection is a proposal that Options.Reject turned down.
type Rejection struct {
	Round  int          `json:"round"` // the request to the sampler it came from
	Config space.Config `json:"config"`
	Proposed
	Reason string `json:"reason"`
}

// Result is what a study found.
type Result struct {
	Trials []Trial `json:"trials"` // in step order, each configuration once
	// Best is the trial whose objective is expected to be lowest, given how it and
	// those like it were measured: where measurements are noisy, the lowest is
	// more likely to be lucky than good. Without noise it is the lowest one. It
	// keeps to the limits, if there are any.
	// Incumbent and Default are where those were measured (one trial may be all
	// three). -1 where there is none.
	Best        int             `json:"best"`
	Incumbent   int             `json:"incumbent"`
	Default     int             `json:"default"`
	Evaluations int             `json:"evaluations"` // calls of Evaluate that returned
	Rejected    []Rejection     `json:"rejected,omitempty"`
	Stopped     string          `json:"stopped"`
	Sampler     string          `json:"sampler"`
	Choice      string          `json:"choice,omitempty"` // what an Explainer says
	State       json.RawMessage `json:"state,omitempty"`  // of a Learner, for Options.State
}

// Tune measures the default, the incumbent and the presets, then what a sampler
// proposes, until the budget is used, nothing new is proposed or the context
// ends. The same options give the same trials for any number of workers.
//
// A failed evaluation fails its trial and not the study. The error is not nil
// if the options are wrong or no trial has an objective; the result then holds
// what there is.
func Tune(ctx context.Context, o Options) (Result, error) {
	s, err := newStudy(o)
	if err != nil {
		return Result{Best: -1, Incumbent: -1, Default: -1}, err
	}
	first := s.portfolio()
	if s.Time > 0 {
		within, cancel := context.WithTimeoutCause(ctx, s.Time, errTime)
		defer cancel()
		fixed := min(len(first), 1)
		for fixed < len(first) && first[fixed].Origin == "incumbent" {
			fixed++
		}
		s.measure(ctx, first[:fixed])
		ctx, first = within, first[fixed:]
	}
	s.measure(ctx, first)
	for s.recordErr == nil && (s.result.Stopped == "" || s.extend(ctx)) {
		if err := s.round(ctx); err != nil {
			return s.finish(), err
		}
	}
	r := s.finish()
	if s.recordErr != nil {
		return r, s.recordErr
	}
	if r.Best < 0 && slices.ContainsFunc(r.Trials, Trial.OK) {
		return r, nil // all break the limits
	}
	if r.Best < 0 {
		return r, s.failure(ctx)
	}
	return r, nil
}

// errTime is why the context ends when Options.Time is up.
var errTime = errors.New("the time is up")

// study is one call of Tune in progress.
type study struct {
	Options       // Budget is what the sampler plans for at present
	target  int   // how many configurations to measure
	plans   []int // the budgets that are still to come
	sampler Sampler
	result  Result
	seen    map[string]int // trial by configuration hash
	stale   int            // proposals since the last new one
	step    int            // requests made to the sampler

	futures int     // of the first good trial; all others must agree
	based   bool    // base is known
	base    float64 // the mean objective that rewards are ratios to
	settled int     // how many trials have been rewarded and reported

	recordErr error
}

// maxStale is how many proposals in a row may bring nothing new. Drawing at
// random, it misses one of 100 configurations with probability 4e-5.
const maxStale = 1000

func newStudy(o Options) (*study, error) {
	if o.Space == nil || o.Evaluate == nil {
		return nil, errors.New("search: Space and Evaluate are required")
	}
	if o.Incumbent.IsZero() {
		o.Incumbent = o.Space.Default()
	}
	if err := o.Space.Check(o.Incumbent); err != nil {
		return nil, fmt.Errorf("search: incumbent: %w", err)
	}
	if o.Budget == 0 {
		o.Budget = 40
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	s := &study{Options: o, sampler: o.Sampler, seen: map[string]int{}}
	s.result = Result{Best: -1, Incumbent: -1, Default: -1, Sampler: o.Method}
	if s.sampler == nil {
		if s.result.Sampler == "" {
			s.result.Sampler = DefaultSampler
		}
	}
	if s.result.Sampler == "" {
		s.result.Sampler = "custom"
	}
	s.plan(o.Resume)
	if err := s.sample(); err != nil {
		return nil, err
	}
	h := s.header()
	if o.Resume != nil {
		if err := o.Resume.fits(&h); err != nil {
			return nil, err
		}
	}
	if s.write(h); s.recordErr != nil {
		return nil, s.recordErr
	}
	return s, nil
}

// plan sets what budgets the study is planned for, one after the other: a sampler's
// plan depends on its budget, as the last batch, for one, asks for what promises
// most. What was planned for a smaller one stays, and is not begun anew.
func (s *study) plan(was *Recording) {
	s.target = s.Budget
	if was == nil || was.Header.Sampler != s.result.Sampler || was.Header.Budget == 0 {
		return
	}
	s.plans = append([]int{was.Header.Budget}, was.budgets...)
	if s.target > s.plans[len(s.plans)-1] {
		s.plans = append(s.plans, s.target)
	}
	s.Budget, s.plans = s.plans[0], s.plans[1:]
}

// extend goes on with the next budget once one is used, and reports whether there
// is one.
func (s *study) extend(ctx context.Context) bool {
	if s.result.Stopped != StoppedBudget || s.Budget >= s.target || len(s.plans) == 0 {
		return false
	}
	s.Budget, s.plans = s.plans[0], s.plans[1:]
	s.result.Stopped = ""
	s.write(Line{Budget: s.Budget})
	if _, learns := s.sampler.(Learner); !learns { // which goes on with what it has learnt
		if err := s.sample(); err != nil {
			s.recordErr = err
			return false
		}
	}
	var fresh []proposal // presets that did not fit before
	for _, p := range s.portfolio() {
		if _, known := s.seen[p.hash]; !known {
			fresh = append(fresh, p)
		}
	}
	s.measure(ctx, fresh)
	return s.recordErr == nil
}

// sample makes the sampler for the present budget, unless one is given.
func (s *study) sample() (err error) {
	o := &s.Options
	if o.Sampler == nil {
		s.sampler, err = NewSampler(o.Method, Setup{Space: o.Space, Start: o.Incumbent, Seed: o.Seed, State: o.State, Budget: o.Budget, Batch: o.Batch, Judged: o.Scope != nil})
	}
	if e, ok := s.sampler.(Explainer); ok && err == nil {
		s.result.Choice = e.Explain()
	}
	return err
}

// proposal is a configuration to be measured.
type proposal struct {
	config space.Config
	hash   string
	Proposed
}

// portfolio lists the configurations that are always measured and the presets
// that fit the budget, each once.
func (s *study) portfolio() []proposal {
	var out []proposal
	listed := map[string]bool{}
	add := func(c space.Config, from Proposed) {
		if h := c.Hash(); !listed[h] {
			listed[h] = true
			out = append(out, proposal{c, h, from})
		}
	}
	add(s.Space.Default(), Proposed{Origin: "default"})
	add(s.Options.Incumbent, Proposed{Origin: "incumbent"})
	for _, p := range s.Presets {
		if len(out) < min(s.Budget, s.target) {
			c, changes := s.Space.Project(p.Config)
			from := Proposed{Origin: cmp.Or(p.Origin, "preset") + ":" + p.Name}
			if len(changes) > 0 {
				from.Suggested = valuesOf(p.Config)
			}
			add(c, from)
		}
	}
	return out
}

// valuesOf are the values that a configuration has.
func valuesOf(c space.Config) space.Values {
	out := space.Values{}
	for _, id := range c.IDs() {
		out[id] = c.Get(id)
	}
	return out
}

// round asks the sampler once and measures what is new.
func (s *study) round(ctx context.Context) error {
	left := s.Budget - len(s.result.Trials)
	room := min(left, s.target-len(s.result.Trials))
	switch {
	case context.Cause(ctx) == errTime:
		s.result.Stopped = StoppedTime
		return nil
	case ctx.Err() != nil:
		s.result.Stopped = StoppedCancelled
		return nil
	case left <= 0 || room <= 0:
		s.result.Stopped = StoppedBudget
		return nil
	case float64(len(s.seen)) >= s.Space.Size() || s.stale >= maxStale:
		s.result.Stopped = StoppedExhausted
		return nil
	}
	suggested := s.sampler.Suggest(Request{History: s.view(), Rejected: s.result.Rejected, Step: s.step, N: left})
	s.step++
	if len(suggested) == 0 {
		s.result.Stopped = StoppedExhausted
		if _, pairs := s.sampler.(Learner); pairs && left == 1 { // a pair does not fit
			s.result.Stopped = StoppedBudget
		}
		return nil
	}
	var fresh []proposal
	listed := map[string]bool{}
	rejected := false
	effective := make([]space.Config, len(suggested))
	for i, g := range suggested {
		c := g.Config
		if err := s.Space.Check(c); err != nil {
			return fmt.Errorf("search: sampler %s proposed an invalid configuration: %w", s.result.Sampler, err)
		}
		from := Proposed{Origin: cmp.Or(g.Origin, s.result.Sampler), Prediction: g.Prediction, Suggested: g.raw(s.Space)}
		if s.Scope != nil {
			c, from.Narrowed = s.Scope(s.result.Trials, c)
			if err := s.Space.Check(c); err != nil {
				return fmt.Errorf("search: narrowing the scope made an invalid configuration: %w", err)
			}
			if _, known := s.seen[c.Hash()]; known || listed[c.Hash()] {
				// Measuring it again would teach nothing, and a sampler that is told
				// nothing would go on proposing the like.
				c, from.Narrowed = g.Config, nil
			}
			if len(from.Narrowed) > 0 {
				from.Projected = &suggested[i].Config
			}
		}
		effective[i] = c
		h := c.Hash()
		if _, known := s.seen[h]; known || listed[h] {
			s.stale++
			continue
		}
		if s.Reject != nil {
			if why := s.Reject(s.result.Trials, c); why != "" {
				s.reject(Rejection{Round: s.step, Config: c, Proposed: from, Reason: why})
				rejected = true
				continue
			}
		}
		if listed[h] = true; len(fresh) < room {
			fresh = append(fresh, proposal{c, h, from})
		}
	}
	learner, learns := s.sampler.(Learner)
	if rejected && learns {
		learner.Discard() // half a pair says nothing
		return nil
	}
	if len(fresh) > 0 {
		s.stale = 0
		s.measure(ctx, fresh)
	}
	if !learns {
		return nil
	}
	trials := make([]Trial, 0, len(suggested))
	shown := s.view()
	for _, c := range effective {
		if i, ok := s.seen[c.Hash()]; ok {
			trials = append(trials, shown[i])
		}
	}
	if len(trials) < len(suggested) { // cancelled on the way
		learner.Discard()
	} else {
		learner.Observe(trials)
	}
	return nil
}

// reject notes what was turned down.
func (s *study) reject(r Rejection) {
	s.result.Rejected = append(s.result.Rejected, r)
	s.stale++
	s.write(Line{Rejection: &r})
}

// measure evaluates proposals in parallel and records them in order.
func (s *study) measure(ctx context.Context, batch []proposal) {
	incumbent := s.Options.Incumbent.Hash()
	s.evaluateAll(ctx, batch, func(p proposal, out outcome) {
		t := Trial{Step: len(s.result.Trials), Round: s.step, Config: p.config, Proposed: p.Proposed, Cached: out.cached}
		if !out.cached {
			s.result.Evaluations++
		}
		if out.err == nil {
			out.err = out.m.check(s.futures)
		}
		if out.err != nil {
			t.Err = out.err.Error()
		} else {
			t.Measurement = out.m
			if !out.cached {
				s.Cache.Put(s.Context, p.config, out.m)
			}
		}
		if t.OK() && s.futures == 0 {
			s.futures = len(t.Measurement.Values)
		}
		s.seen[p.hash] = t.Step
		if p.Origin == "default" {
			s.result.Default = t.Step
		}
		if p.hash == incumbent {
			s.result.Incumbent = t.Step
		}
		s.result.Trials = append(s.result.Trials, t)
		if t.OK() && s.result.Incumbent == t.Step {
			s.setBase(t)
		}
		s.settle()
	})
	for _, t := range s.result.Trials {
		if t.OK() {
			s.setBase(t) // no incumbent came: the first good trial stands in
			break
		}
	}
	s.settle()
}

// setBase fixes what rewards are ratios to, once.
func (s *study) setBase(t Trial) {
	if !s.based {
		s.based, s.base = true, t.Measurement.Mean()
	}
}

// settle rewards and reports the trials that had to wait for the base: the
// default comes before the incumbent.
func (s *study) settle() {
	for ; s.based && s.settled < len(s.result.Trials); s.settled++ {
		t := &s.result.Trials[s.settled]
		if t.OK() {
			t.Reward = ratio(s.base, t.Measurement.Mean())
		}
		s.report(*t)
	}
}

// report tells of a trial, with its reward.
func (s *study) report(t Trial) {
	s.write(Line{Trial: &t})
	if s.Progress != nil {
		s.Progress(t)
	}
}

// finish picks the winner.
func (s *study) finish() Result {
	r := &s.result
	for ; s.settled < len(r.Trials); s.settled++ { // nothing good came at all
		s.report(r.Trials[s.settled])
	}
	r.Best = s.winner()
	if learner, ok := s.sampler.(Learner); ok {
		r.State = learner.State()
	}
	return *r
}

// modelled returns the trial with the best posterior mean.
func (s *study) modelled(trials []Trial) int {
	if j, ok := s.sampler.(judge); ok && len(s.Front) == 0 {
		if at := j.winner(trials); at >= 0 {
			return at
		}
	}
	e := newEncoder(s.Space)
	f := fitter{nominal: e.nominal}
	if _, good := luckiest(trials); good >= fewest {
		f.once(e.gather(trials))
	}
	return f.pick(e, trials)
}

// failure says why no trial has an objective.
func (s *study) failure(ctx context.Context) error {
	for _, t := range s.result.Trials {
		if t.Err != "" {
			return fmt.Errorf("search: every evaluation failed; the first (%s): %s", t.Origin, t.Err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("search: nothing was measured: %w", err)
	}
	return errors.New("search: every configuration exhausted its event budget")
}

// outcome is what came back from one evaluation.
type outcome struct {
	m      Measurement
	err    error
	cached bool
}

// evaluateAll runs a batch on the workers and delivers the outcomes in order
// from this goroutine. From the first on that the end of the context cut off,
// they are left out, so that what was measured is how the whole study begins.
func (s *study) evaluateAll(ctx context.Context, batch []proposal, deliver func(proposal, outcome)) {
	type numbered struct {
		i    int
		done bool
		outcome
	}
	work, results := make(chan int), make(chan numbered, len(batch))
	for range min(s.Workers, len(batch)) {
		go func() {
			for i := range work {
				out, done := s.evaluate(ctx, batch[i].config)
				results <- numbered{i, done, out}
			}
		}()
	}
	go func() {
		defer close(work)
		for i := range batch {
			work <- i
		}
	}()
	ready := make([]*numbered, len(batch))
	cut := false
	for next := 0; next < len(batch); {
		r := <-results
		ready[r.i] = &r
		for ; next < len(batch) && ready[next] != nil; next++ {
			if cut = cut || !ready[next].done; !cut {
				deliver(batch[next], ready[next].outcome)
			}
		}
	}
}

// evaluate measures one configuration; done is false if the context ended first.
func (s *study) evaluate(ctx context.Context, c space.Config) (out outcome, done bool) {
	if out, done = s.Resume.find(c); done {
		return out, true
	}
	if ctx.Err() != nil {
		return out, false
	}
	if out.m, out.cached = s.Cache.Get(s.Context, c); out.cached {
		return out, true
	}
	out.m, out.err = s.Evaluate(ctx, c)
	out.m = out.m.clean()
	return out, out.err == nil || ctx.Err() == nil
}
