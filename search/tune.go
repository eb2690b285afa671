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

// Preset is a named configuration. Its trial's origin is Origin:Name, or
// preset:Name if there is no Origin.
type Preset struct {
	Name   string
	Config space.Config
	Origin string
}

// Options configure a study. Space and Evaluate are required.
type Options struct {
	Space    *space.Space
	Evaluate Evaluator

	// Incumbent is the configuration in use; none means the default.
	Incumbent space.Config
	// Presets are measured before the proposals of a sampler. They are projected first,
	// as they may be older than the space.
	Presets []Preset

	// Method names one of Samplers; "" is DefaultSampler. Sampler, if set, is
	// used instead.
	Method  string
	Sampler Sampler
	// State continues a Learner: the State of an earlier Result.
	State json.RawMessage

	// Budget is the number of different configurations to measure, the portfolio
	// included; 0 means 40, the paper's. The default and the incumbent are always
	// measured. Configurations found in Cache count too, so that a warm cache gives the
	// same result, only sooner.
	Budget int
	// Workers is the number of concurrent evaluations; 0 means GOMAXPROCS. It does not
	// change the result.
	Workers int
	Seed    uint64
	// Time, if positive, bounds the wall time of the study; its result then depends on
	// the machine. The default and the incumbent are always measured.
	Time time.Duration

	Ranking Ranking

	// Cache may hold measurements of earlier studies with the same Context, which
	// identifies all but the configuration that measurements depend on.
	Cache   *Cache
	Context string
	Record  Record

	// Reject, if set, returns why a proposal is not worth measuring, "" if it is.
	// The portfolio is never rejected. history holds the trials so far.
	Reject func(history []Trial, c space.Config) string

	// Scope, if set, may change a proposal before Reject sees it, and returns why:
	// parameters that need not be searched keep their values. The portfolio is never
	// changed, nor a proposal that would become one measured before.
	Scope func(history []Trial, c space.Config) (space.Config, []string)

	// Begin, if set, is called before each batch of evaluations with the trials so far:
	// the knowledge of an evaluation about them, for any number of workers.
	Begin func(history []Trial)

	// Progress, if set, is called after each trial, in step order, from the
	// goroutine that called Tune.
	Progress func(Trial)
}

// Record configures the record of a study. The zero value is none.
type Record struct {
	// To, if set, receives the study as JSON lines while it runs: a Header, then a
	// Line per trial and rejection.
	To io.Writer
	// Space is the space of the record if Options.Space is a part of it; nil means
	// Options.Space.
	Space *space.Space
	// About goes into the header: a description of the tuned system.
	About map[string]string
}

// Why a study stopped.
const (
	StoppedBudget    = "budget"    // all of it was used
	StoppedTime      = "time"      // Options.Time was up
	StoppedExhausted = "exhausted" // no new configuration was proposed
	StoppedCancelled = "cancelled" // the context ended
)

// Rejection is a proposal that Options.Reject rejected.
type Rejection struct {
	Round  int          `json:"round"` // the request to the sampler it came from
	Config space.Config `json:"config"`
	Provenance
	Reason string `json:"reason"`
}

// Result is the result of a study.
type Result struct {
	Trials []Trial `json:"trials"` // in step order, each configuration once
	// Best is the trial with the lowest posterior mean of the objective: the lowest of
	// noisy measurements is biased (winner's curse). Without noise it is the lowest one.
	// It keeps the limits, if there are any.
	// Incumbent and Default are their trials (one trial may be all three). -1 for
	// none.
	Best        int             `json:"best"`
	Incumbent   int             `json:"incumbent"`
	Default     int             `json:"default"`
	Evaluations int             `json:"evaluations"` // calls of Evaluate that returned
	Rejected    []Rejection     `json:"rejected,omitempty"`
	Stopped     string          `json:"stopped"`
	Sampler     string          `json:"sampler"`
	Choice      string          `json:"choice,omitempty"` // of an Explainer
	State       json.RawMessage `json:"state,omitempty"`  // of a Learner, for Options.State
}

// Tune measures the default, the incumbent and the presets, then the proposals
// of a sampler, until the budget is used, nothing new is proposed or the context
// ends. The same options give the same trials for any number of workers.
//
// A failed evaluation fails its trial and not the study. The error is not nil if the
// options are invalid or no trial has an objective; the result then holds the trials.
func Tune(ctx context.Context, o Options) (Result, error) {
	if o.Evaluate == nil {
		return Result{Best: -1, Incumbent: -1, Default: -1}, errors.New("search: Evaluate is required")
	}
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
	for s.recordErr == nil && s.result.Stopped == "" {
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

// errTime is the cancellation cause when Options.Time expires.
var errTime = errors.New("the time is up")

// study is the state of one call of Tune, or of a Session.
type study struct {
	Options
	sampler Sampler
	result  Result
	seen    map[string]int // trial by configuration hash
	stale   int            // proposals since the last new one
	step    int            // requests made to the sampler
	asked   []proposal     // the last suggestions of a Learner, until it knows the trials
	pending []proposal     // pending reports of Session.Tell, in the order proposed

	futures int     // of the first good trial; all others must agree
	based   bool    // base is known
	base    float64 // the mean objective that rewards are ratios to
	settled int     // how many trials have been rewarded and reported

	recordErr error
}

// maxStale is the number of known proposals in a row that ends a study. Random sampling
// then misses one of 100 configurations with probability 4e-5.
const maxStale = 1000

func newStudy(o Options) (*study, error) {
	if o.Space == nil {
		return nil, errors.New("search: Space is required")
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
	if err := s.newSampler(); err != nil {
		return nil, err
	}
	if s.write(s.header()); s.recordErr != nil {
		return nil, s.recordErr
	}
	return s, nil
}

// newSampler sets the sampler for the budget, or the given one.
func (s *study) newSampler() (err error) {
	o := &s.Options
	if o.Sampler == nil {
		s.sampler, err = NewSampler(o.Method, Setup{
			Space: o.Space, Start: o.Incumbent, Seed: o.Seed, State: o.State, Budget: o.Budget,
			Filtered: o.Scope != nil,
		})
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
	Provenance
}

// portfolio lists the configurations that are always measured and the presets
// that fit the budget, each once.
func (s *study) portfolio() []proposal {
	var out []proposal
	listed := map[string]bool{}
	add := func(c space.Config, from Provenance) {
		if h := c.Hash(); !listed[h] {
			listed[h] = true
			out = append(out, proposal{c, h, from})
		}
	}
	add(s.Space.Default(), Provenance{Origin: "default"})
	add(s.Options.Incumbent, Provenance{Origin: "incumbent"})
	for _, p := range s.Presets {
		if len(out) < s.Budget {
			c, changes := s.Space.Project(p.Config)
			from := Provenance{Origin: cmp.Or(p.Origin, "preset") + ":" + p.Name}
			if len(changes) > 0 {
				from.Suggested = valuesOf(p.Config)
			}
			add(c, from)
		}
	}
	return out
}

// valuesOf returns the values of a configuration.
func valuesOf(c space.Config) space.Values {
	out := space.Values{}
	for _, id := range c.IDs() {
		out[id] = c.Get(id)
	}
	return out
}

// round is one iteration of Algorithm 1: it samples once, projects, scopes and
// rejects each suggestion, measures the new ones and updates the sampler.
func (s *study) round(ctx context.Context) error {
	room := s.Budget - len(s.result.Trials)
	if s.result.Stopped = s.stop(ctx, room); s.result.Stopped != "" {
		return nil
	}
	fresh, err := s.ask(room)
	if len(fresh) > 0 {
		s.measure(ctx, fresh)
	}
	s.update()
	return err
}

// ask samples at most room configurations once, projects, scopes and rejects each, and returns
// the new ones, at most room.
func (s *study) ask(room int) ([]proposal, error) {
	suggested := s.sample(room)
	proposed := make([]proposal, len(suggested))
	listed := map[string]bool{}
	rejected := false
	var fresh []proposal
	for i := range suggested {
		p, err := s.project(&suggested[i])
		if err == nil {
			p, err = s.scope(p, listed)
		}
		if err != nil {
			return nil, err
		}
		proposed[i] = p
		switch {
		case s.known(p, listed):
			s.stale++
		case s.reject(p):
			rejected = true
		default:
			if listed[p.hash] = true; len(fresh) < room {
				fresh = append(fresh, p)
			}
		}
	}
	if learner, learns := s.sampler.(Learner); rejected && learns {
		learner.Discard() // half a pair gives no gradient
		return nil, nil
	} else if learns {
		s.asked = proposed
	}
	if len(fresh) > 0 {
		s.stale = 0
	}
	return fresh, nil
}

// stop returns why the study ends before another round, "" if it does not.
func (s *study) stop(ctx context.Context, room int) string {
	switch {
	case context.Cause(ctx) == errTime:
		return StoppedTime
	case ctx.Err() != nil:
		return StoppedCancelled
	case room <= 0:
		return StoppedBudget
	case float64(len(s.seen)) >= s.Space.Size() || s.stale >= maxStale:
		return StoppedExhausted
	}
	return ""
}

// sample asks the sampler for at most left configurations. An empty answer ends the
// study.
func (s *study) sample(left int) []Suggestion {
	out := s.sampler.Suggest(Request{History: s.believed(), Rejected: s.result.Rejected, Step: s.step, N: left})
	s.step++
	if len(out) == 0 {
		s.result.Stopped = StoppedExhausted
		if _, pairs := s.sampler.(Learner); pairs && left == 1 { // a pair does not fit
			s.result.Stopped = StoppedBudget
		}
	}
	return out
}

// project returns a suggestion as a proposal: its configuration, which samplers
// project into the space, with its provenance.
func (s *study) project(g *Suggestion) (proposal, error) {
	if err := s.Space.Check(g.Config); err != nil {
		return proposal{}, fmt.Errorf("search: sampler %s proposed an invalid configuration: %w", s.result.Sampler, err)
	}
	return proposal{g.Config, g.Config.Hash(), Provenance{
		Origin: cmp.Or(g.Origin, s.result.Sampler), Prediction: g.Prediction, Suggested: g.unprojected(s.Space),
	}}, nil
}

// scope returns a proposal as Options.Scope changes it. A proposal that would become a
// known configuration is not changed: a repeated measurement has no information, and a
// sampler without observations would propose similar ones forever.
func (s *study) scope(p proposal, listed map[string]bool) (proposal, error) {
	if s.Scope == nil {
		return p, nil
	}
	c, why := s.Scope(s.rewarded(), p.config)
	if err := s.Space.Check(c); err != nil {
		return p, fmt.Errorf("search: narrowing the scope made an invalid configuration: %w", err)
	}
	out := proposal{c, c.Hash(), p.Provenance}
	if s.known(out, listed) {
		return p, nil
	}
	if out.Narrowed = why; len(why) > 0 {
		out.Projected = &p.config
	}
	return out, nil
}

// known reports whether a configuration was measured or is about to be.
func (s *study) known(p proposal, listed map[string]bool) bool {
	_, measured := s.seen[p.hash]
	return measured || listed[p.hash] || s.awaits(p.hash) >= 0
}

// rewarded returns the trials that have their reward.
func (s *study) rewarded() []Trial { return s.result.Trials[:s.settled] }

// reject reports whether Options.Reject rejects a proposal, and records it.
func (s *study) reject(p proposal) bool {
	if s.Reject == nil {
		return false
	}
	why := s.Reject(s.rewarded(), p.config)
	if why == "" {
		return false
	}
	r := Rejection{Round: s.step, Config: p.config, Provenance: p.Provenance, Reason: why}
	s.result.Rejected = append(s.result.Rejected, r)
	s.stale++
	s.write(Line{Rejection: &r})
	return true
}

// update passes a learner the trials of its last proposals.
func (s *study) update() {
	l, learns := s.sampler.(Learner)
	if !learns || len(s.asked) == 0 {
		return
	}
	trials := make([]Trial, 0, len(s.asked))
	shown := s.view()
	for _, p := range s.asked {
		if i, ok := s.seen[p.hash]; ok {
			trials = append(trials, shown[i])
		}
	}
	if len(trials) < len(s.asked) { // the context ended
		l.Discard()
	} else {
		l.Observe(trials)
	}
	s.asked = nil
}

// measure evaluates proposals in parallel and records them in order.
func (s *study) measure(ctx context.Context, batch []proposal) {
	if s.Begin != nil {
		s.Begin(s.result.Trials)
	}
	s.evaluateAll(ctx, batch, s.add)
	s.firstBase()
}

// add adds a trial.
func (s *study) add(p proposal, out outcome) {
	t := Trial{Step: len(s.result.Trials), Round: s.step, Config: p.config, Provenance: p.Provenance,
		Cached: out.cached}
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
	if p.hash == s.Options.Incumbent.Hash() {
		s.result.Incumbent = t.Step
	}
	s.result.Trials = append(s.result.Trials, t)
	if t.OK() && s.result.Incumbent == t.Step {
		s.setBase(t)
	}
	s.settle()
}

// firstBase takes the first good trial as the base if the incumbent is none.
func (s *study) firstBase() {
	for _, t := range s.result.Trials {
		if t.OK() {
			s.setBase(t)
			break
		}
	}
	s.settle()
}

// setBase sets the objective that rewards are ratios to, once.
func (s *study) setBase(t Trial) {
	if !s.based {
		s.based, s.base = true, t.Measurement.Mean()
	}
}

// settle rewards and reports the trials that precede the base: the default comes before
// the incumbent.
func (s *study) settle() {
	for ; s.based && s.settled < len(s.result.Trials); s.settled++ {
		t := &s.result.Trials[s.settled]
		if t.OK() {
			t.Reward = ratio(s.base, t.Measurement.Mean())
		}
		s.report(*t)
	}
}

// report records a trial with its reward and calls Progress.
func (s *study) report(t Trial) {
	s.write(Line{Trial: &t})
	if s.Progress != nil {
		s.Progress(t)
	}
}

// finish picks the winner.
func (s *study) finish() Result {
	r := &s.result
	for ; s.settled < len(r.Trials); s.settled++ { // without any good trial
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
	if j, ok := s.sampler.(judge); ok && len(s.Ranking.ParetoMetrics) == 0 {
		if at := j.winner(trials); at >= 0 {
			return at
		}
	}
	e := newEncoder(s.Space)
	f := fitter{nominal: e.nominal}
	if _, good := lowestMean(trials); good >= fewest {
		f.once(e.gather(trials))
	}
	return f.pick(e, trials)
}

// failure returns the reason why no trial has an objective.
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

// outcome is the result of one evaluation.
type outcome struct {
	m      Measurement
	err    error
	cached bool
}

// evaluateAll runs a batch on the workers and delivers the outcomes in order
// from this goroutine. It drops the first one that the end of the context cut off
// and all after it, so that the trials are a prefix of the whole study's.
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
