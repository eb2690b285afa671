package search

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/space"
)

// PrunerOptions say when proposals are not worth measuring. The zero value means
// the defaults.
type PrunerOptions struct {
	// Gamma: a proposal is interesting if its objective may be below the best so
	// far over Gamma; default 0.95, so worse by up to 5 % (AutoSched, Algorithm 1).
	Gamma float64
	// Tau is the probability of that below which a proposal is rejected; default
	// 0.1.
	Tau float64
	// Explore is the share of a study's trials that may be measured whatever the
	// model says of them; default 0.1 (the paper's 1 - epsilon, which it takes of the
	// proposals: where most are rejected, most that is measured explores then).
	Explore float64
	// Audit is the share of the trials that may be rejected proposals measured all
	// the same, to see whether rejecting was right; default 0.05.
	Audit float64
	// Warmup is how many trials are learnt before anything is rejected; default 10,
	// or twice the parameters if that is more.
	Warmup int
	// Delta and KeepFree are those of model.Scope, and TTL for how many rounds, of
	// four trials each, a narrowing holds; default 5. NoScope leaves the scope as it
	// is.
	Delta    float64
	KeepFree int
	TTL      int
	NoScope  bool
	// Release is the probability with which a narrowing is given up in a round, so
	// that nothing stays fixed for good; default 0.05. Patience is after how many
	// rounds without a better trial all are; default 8.
	Release  float64
	Patience int
	// HalfLife is after how many trials of later studies one counts half; default
	// 400.
	HalfLife float64
	Seed     uint64
}

func (o PrunerOptions) withDefaults(params int) PrunerOptions {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.Gamma, .95)
	set(&o.Tau, .1)
	set(&o.Explore, .1)
	set(&o.Audit, .05)
	set(&o.HalfLife, 400)
	if o.Warmup == 0 {
		o.Warmup = max(10, 2*params)
	}
	set(&o.Release, .05)
	if o.TTL == 0 {
		o.TTL = 5
	}
	if o.Patience == 0 {
		o.Patience = 8
	}
	return o
}

// Pruner learns from trials which configurations are not worth measuring: a
// causal model of the objective over the configuration and the workload
// (context) it met. It remembers trials from study to study. It is for one
// goroutine.
type Pruner struct {
	o       PrunerOptions
	columns *Columns
	context []string
	metrics []string

	studies uint64    // begun
	ranks   []float64 // of the latest studies, see knows

	model *model.Model
	wait  [][]float64 // rows before there is a model
	fit   int         // rows when families were chosen
}

// NewPruner makes one for a space. Context and metrics are the names of what
// describes a study's workload, and of the Measurement.Metrics that the
// structural head goes through, if any.
func NewPruner(s *space.Space, context, metrics []string, o PrunerOptions) *Pruner {
	return &Pruner{o: o.withDefaults(len(s.Params())), columns: NewColumns(s), context: context, metrics: metrics}
}

// Rows is how many trials the model has learnt from.
func (p *Pruner) Rows() int {
	if p.model == nil {
		return len(p.wait)
	}
	return p.model.Rows()
}

// row is a trial as the model learns it: context, configuration, metrics,
// objective.
func (p *Pruner) row(context []float64, t *Trial) []float64 {
	row := append(make([]float64, 0, len(context)+p.columns.Len()+len(p.metrics)+1), context...)
	row = p.columns.Append(row, t.Config)
	for _, m := range p.metrics {
		row = append(row, t.Measurement.Metrics[m])
	}
	return append(row, 1/max(t.Reward, 1/MaxRatio))
}

func (p *Pruner) width() int { return len(p.context) + p.columns.Len() + len(p.metrics) + 1 }

func (p *Pruner) table(rows [][]float64) (*causal.Table, error) {
	column := func(i int) []float64 {
		out := make([]float64, len(rows))
		for r := range rows {
			out[r] = rows[r][i]
		}
		return out
	}
	var all []causal.Column
	for i, n := range p.context {
		all = append(all, causal.Column{Name: n, Values: column(i)})
	}
	for i := range p.columns.Len() {
		all = append(all, p.columns.Column(i, column(len(p.context)+i)))
	}
	for i, n := range p.metrics {
		all = append(all, causal.Column{Name: "metric:" + n, Values: column(len(p.context) + p.columns.Len() + i)})
	}
	all = append(all, causal.Column{Name: cost, Values: column(p.width() - 1)})
	return causal.NewTable(all...)
}

// cost is the objective over that of the incumbent.
const cost = "objective_over_incumbent"

// structure is the three layers of the design: configuration and context act on
// the metrics, and all that on the objective.
func (p *Pruner) structure() model.Structure {
	n := p.width()
	s := model.Structure{Tiers: make([]string, n), Parents: make([][]int, n)}
	var roots, metrics []int
	for i := range n {
		switch at := i - len(p.context); {
		case at < 0:
			s.Tiers[i] = causal.TierContext
			roots = append(roots, i)
		case at < p.columns.Len():
			s.Tiers[i] = causal.TierConfig
			roots = append(roots, i)
		case i < n-1:
			s.Tiers[i], s.Parents[i] = causal.TierMetric, roots
			metrics = append(metrics, i)
		default:
			s.Tiers[i], s.Parents[i] = causal.TierObjective, metrics
			if len(metrics) == 0 {
				s.Parents[i] = roots
			}
		}
	}
	return s
}

// learn takes rows in. It reports whether the objective drifted away from what
// was known, which is then forgotten.
func (p *Pruner) learn(ctx context.Context, rows [][]float64) (drifted bool, err error) {
	if len(rows) == 0 {
		return false, nil
	}
	if p.model == nil {
		p.wait = append(p.wait, rows...)
		if len(p.wait) < max(p.o.Warmup, model.MinRows) {
			return false, nil
		}
		t, err := p.table(p.wait)
		if err != nil {
			return false, err
		}
		p.model, err = model.Fit(ctx, t, p.structure(), model.Options{LogObjectives: true, HalfLife: p.o.HalfLife, MaxRows: 4000, Seed: p.o.Seed})
		p.fit = len(p.wait)
		p.wait = nil
		return false, err
	}
	t, err := p.table(rows)
	if err != nil {
		return false, err
	}
	u, err := p.model.Update(ctx, t)
	if err == nil && !u.Reset && p.model.Rows() >= 2*p.fit {
		err = p.model.Refit(ctx) // more rows bear more
	}
	if u.Reset || p.model.Rows() >= 2*p.fit {
		p.fit = p.model.Rows()
	}
	return u.Reset, err
}

// A model is gone by where it has shown that it tells configurations apart: where
// the rank correlation of what it predicted of trials with what was measured then
// is at least leastRank, study by study, in the mean over the latest rankStudies
// ones with at least rankTrials trials predicted. (Over all trials together it could
// be high because the model tells workloads apart.)
const (
	leastRank   = .5
	rankStudies = 3
	rankTrials  = 8
)

// knows reports whether there is a model to go by in a study.
func (s *Pruning) knows() bool {
	if s.p.model == nil {
		return false
	}
	ranks := s.p.ranks
	if r, ok := s.rank(); ok {
		ranks = append(slices.Clone(ranks), r)
	}
	ranks = ranks[max(0, len(ranks)-rankStudies):]
	return len(ranks) > 0 && stat.Mean(ranks, nil) >= leastRank
}

// rank is how well the study's trials were predicted before they were learnt.
func (s *Pruning) rank() (r float64, ok bool) {
	if len(s.predicted) < rankTrials {
		return 0, false
	}
	return model.Spearman(s.predicted, s.measured), true
}

// Audited is what became of a proposal that was to be rejected.
type Audited struct {
	Config space.Config `json:"config"`
	// Probability of being interesting, as the model saw it.
	Probability float64 `json:"probability"`
	// Worse says that it was not interesting indeed. Unset as long as it is not
	// measured.
	Worse    bool `json:"worse"`
	Measured bool `json:"measured"`
}

// Pruning is a pruner at work in one study: its Reject and Scope are Options'.
type Pruning struct {
	p        *Pruner
	ctx      context.Context
	context  []float64
	learnt   int // trials of this study
	explored int // proposals measured whatever the model says
	err      error

	// What the model said of trials before it learnt them, and what came.
	predicted, measured []float64

	incumbent space.Config
	study     uint64
	round     int   // of the latest look at the scope
	scope     []int // of Scopes, those in force
	until     int   // round in which the scope is looked at anew
	better    int   // round of the latest better trial
	least     float64

	// Rejected and Audits count proposals, Narrowed suggestions that were changed.
	Rejected int       `json:"rejected"`
	Narrowed int       `json:"narrowed"`
	Audits   []Audited `json:"audits,omitempty"`
	// Scopes are all narrowings that there were, in their order.
	Scopes []Scoped `json:"scopes,omitempty"`
}

// roundTrials is how many trials make a round: what samplers ask for at once.
const roundTrials = defaultBatch

// Study begins a study whose workload is described by context values.
func (p *Pruner) Study(ctx context.Context, incumbent space.Config, context []float64) (*Pruning, error) {
	if len(context) != len(p.context) {
		return nil, fmt.Errorf("search: %d context values for %d names", len(context), len(p.context))
	}
	for i, v := range context {
		if !finite(v) {
			return nil, fmt.Errorf("search: context %s: %v is not a finite number", p.context[i], v)
		}
	}
	p.studies++
	return &Pruning{p: p, ctx: ctx, context: context, incumbent: incumbent, study: p.studies, least: math.Inf(1)}, nil
}

// catchUp learns the trials that were measured since.
func (s *Pruning) catchUp(history []Trial) {
	if s.err != nil {
		return
	}
	var rows [][]float64
	for i := s.learnt; i < len(history); i++ {
		if t := &history[i]; t.OK() && t.Reward > 0 {
			rows = append(rows, s.p.row(s.context, t))
		}
	}
	if err := s.foresee(rows); err != nil {
		s.err = err
		return
	}
	s.learnt = len(history)
	drifted, err := s.p.learn(s.ctx, rows)
	s.err = err
	if round := len(history) / roundTrials; drifted {
		s.end(ScopeDrifted, round, func(int) bool { return true })
		s.until = round + s.p.o.TTL
	}
}

// foresee keeps what the model says of rows that it is about to learn.
func (s *Pruning) foresee(rows [][]float64) error {
	if s.p.model == nil {
		return nil
	}
	points := make([]model.Point, len(rows))
	for i, row := range rows {
		points[i] = row
	}
	got, err := s.p.model.Predict(cost, points)
	if err != nil {
		return err
	}
	for i, row := range rows {
		s.predicted, s.measured = append(s.predicted, got[i].Mean), append(s.measured, row[len(row)-1])
	}
	return nil
}

// least is the lowest cost measured so far, over the incumbent's.
func least(history []Trial) float64 {
	best := math.Inf(1)
	for i := range history {
		if history[i].OK() && history[i].Reward > 0 {
			best = min(best, 1/history[i].Reward)
		}
	}
	return best
}

func (s *Pruning) point(c space.Config) model.Point {
	p := append(make(model.Point, 0, s.p.width()), s.context...)
	p = s.p.columns.Append(p, c)
	for len(p) < s.p.width() {
		p = append(p, 0)
	}
	return p
}

// ready reports whether the model may be gone by.
func (s *Pruning) ready(history []Trial) bool {
	return s.err == nil && len(history) > 0 && s.p.Rows() >= s.p.o.Warmup && s.knows()
}

// Reject says why a proposal is not worth measuring, "" if it is.
func (s *Pruning) Reject(history []Trial, c space.Config) string {
	s.catchUp(history)
	if !s.ready(history) {
		return ""
	}
	got, err := s.p.model.Predict(cost, []model.Point{s.point(c)})
	if err != nil {
		s.err = err
		return ""
	}
	interesting := got[0].Below(least(history) / s.p.o.Gamma)
	if interesting >= s.p.o.Tau {
		return ""
	}
	// Exploring and auditing are spread over the study.
	trials := float64(len(history) + 1)
	if float64(len(s.Audits)+1) <= s.p.o.Audit*trials {
		s.Audits = append(s.Audits, Audited{Config: c, Probability: interesting})
		return ""
	}
	if float64(s.explored+1) <= s.p.o.Explore*trials {
		s.explored++
		return ""
	}
	s.Rejected++
	return fmt.Sprintf("expected %.3gx the incumbent's objective (%.3g to %.3g): within %.0f %% of the best with probability %.2f", got[0].Mean, got[0].Low, got[0].High, 100*(1/s.p.o.Gamma-1), interesting)
}

// Finish learns what is left, and judges the audits by the trials.
func (s *Pruning) Finish(trials []Trial) error {
	s.catchUp(trials)
	if r, ok := s.rank(); ok {
		s.p.ranks = append(s.p.ranks, r)
		s.p.ranks = s.p.ranks[max(0, len(s.p.ranks)-rankStudies):]
	}
	best := least(trials)
	for i := range s.Audits {
		a := &s.Audits[i]
		for k := range trials {
			if t := &trials[k]; t.Config.Equal(a.Config) && (t.OK() || t.Measurement.Exhausted) {
				a.Measured = true
				a.Worse = !t.OK() || 1/max(t.Reward, 1/MaxRatio) > best/s.p.o.Gamma
			}
		}
	}
	return s.err
}
