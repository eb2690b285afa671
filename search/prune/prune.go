// Package prune rejects proposals of a search that are not worth measuring and
// narrows its scope, by a causal model of the objective that it learns from the
// trials of this and earlier studies (AutoSched, Gao et al., ICS 2024, section on
// causal pruning). [Study.Reject] and [Study.Scope] are fields of search.Options.
//
// Costs are objectives over the incumbent's: below 1 is better.
package prune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// Options of a Pruner. The zero value means the defaults.
type Options struct {
	// Delta is model.Scope's: a parameter whose effect on the objective is below
	// this share is fixed; 0 is its default.
	Delta float64
	// TTL is for how many rounds, of batch trials each, a narrowing is in force;
	// default 5.
	TTL int
	// Release is the probability with which a narrowing is dropped in each round, so
	// that no parameter stays fixed for good; default 0.05.
	Release float64
	// Patience is after how many rounds without a better trial all narrowings are
	// dropped; default 8.
	Patience int
	Seed     uint64
}

// The thresholds of rejection.
const (
	// A proposal is interesting if its objective may be below the best so far over
	// gamma: at most 5 % worse (AutoSched, Algorithm 1).
	gamma = .95
	// A proposal is rejected if its probability of being interesting is below tau.
	tau = .1
	// explore is the share of a study's trials that are measured although the model
	// rejects them (the paper's 1 - epsilon; the paper takes it of the proposals,
	// with which most trials explore once most proposals are rejected).
	explore = .1
	// audit is the share of a study's trials that are rejected proposals measured to
	// check the rejection.
	audit = .05
	// minTrials is how many trials are learnt before any proposal is rejected, and
	// trialsPerParam how many for each parameter.
	minTrials      = 10
	trialsPerParam = 2
	// halfLife is the number of later trials after which a trial counts half.
	halfLife = 400
	// maxRows bounds the rows that the model keeps.
	maxRows = 4000
	// batch is the number of trials of a round, as samplers ask for them at once.
	batch = 4
)

// Pruner predicts which configurations are not worth measuring, by a causal model
// of the objective given the configuration and the workload (the context). It
// learns across studies. It is not safe for concurrent use.
type Pruner struct {
	o       Options
	columns *Columns
	context []string
	metrics []string
	warmup  int // trials to learn before any proposal is rejected

	studies uint64    // begun
	ranks   []float64 // of the latest studies, see reliable

	model *model.Model
	wait  [][]float64 // rows before the first fit
	fit   int         // rows when families were chosen
}

// New returns a pruner for a space. Context names the values that describe a
// study's workload, metrics the Measurement.Metrics that the structural head
// of the model goes through; it may be empty.
func New(s *space.Space, context, metrics []string, o Options) *Pruner {
	o.TTL, o.Release, o.Patience = cmp.Or(o.TTL, 5), cmp.Or(o.Release, .05), cmp.Or(o.Patience, 8)
	return &Pruner{
		o: o, columns: NewColumns(s), context: context, metrics: metrics,
		warmup: max(minTrials, trialsPerParam*len(s.Params())),
	}
}

// Rows returns how many trials the pruner has learnt from.
func (p *Pruner) Rows() int {
	if p.model == nil {
		return len(p.wait)
	}
	return p.model.Rows()
}

// row returns a trial as a row of the model's table: context, configuration,
// metrics, objective.
func (p *Pruner) row(context []float64, t *search.Trial) []float64 {
	row := append(make([]float64, 0, len(context)+p.columns.Len()+len(p.metrics)+1), context...)
	row = p.columns.Append(row, t.Config)
	for _, m := range p.metrics {
		row = append(row, t.Measurement.Metrics[m])
	}
	return append(row, costOf(t))
}

// costOf is a trial's objective over the incumbent's.
func costOf(t *search.Trial) float64 { return 1 / max(t.Reward, 1/search.MaxRatio) }

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

// cost names the column of the objective over the incumbent's.
const cost = "objective_over_incumbent"

// structure has three tiers: configuration and context are the parents of the
// metrics, the metrics the parents of the objective.
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

// learn updates the model. It reports whether the objective drifted, upon which
// the model forgets earlier rows.
func (p *Pruner) learn(ctx context.Context, rows [][]float64) (drifted bool, err error) {
	if len(rows) == 0 {
		return false, nil
	}
	if p.model == nil {
		p.wait = append(p.wait, rows...)
		if len(p.wait) < max(p.warmup, model.MinRows) {
			return false, nil
		}
		t, err := p.table(p.wait)
		if err != nil {
			return false, err
		}
		p.model, err = model.Fit(ctx, t, p.structure(), model.Options{
			LogObjectives: true, HalfLife: halfLife, MaxRows: maxRows, Seed: p.o.Seed,
		})
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
		err = p.model.Refit(ctx) // more rows support richer families
	}
	if u.Reset || p.model.Rows() >= 2*p.fit {
		p.fit = p.model.Rows()
	}
	return u.Reset, err
}

// The model is used once it has ranked configurations well: the mean, over the
// latest rankStudies studies with at least rankTrials predicted trials, of the
// rank correlation between predicted and measured objectives is at least minRank.
// Correlations are taken within studies: over all trials together, one can be
// high because the model distinguishes workloads.
const (
	minRank     = .5
	rankStudies = 3
	rankTrials  = 8
)

// reliable reports whether the model may be used in the study.
func (s *Study) reliable() bool {
	if s.p.model == nil {
		return false
	}
	ranks := s.p.ranks
	if r, ok := s.rank(); ok {
		ranks = append(slices.Clone(ranks), r)
	}
	ranks = ranks[max(0, len(ranks)-rankStudies):]
	return len(ranks) > 0 && stat.Mean(ranks, nil) >= minRank
}

// rank returns the rank correlation between the predictions and the measurements
// of the study's trials; ok is false if there are too few.
func (s *Study) rank() (r float64, ok bool) {
	if len(s.predicted) < rankTrials {
		return 0, false
	}
	return stats.Spearman(s.predicted, s.measured), true
}

// Audit is a rejected proposal that is measured to check the rejection.
type Audit struct {
	Config space.Config
	// Probability of being interesting, by the model.
	Probability float64
	// Measured says that there is a trial of it, Worse that it was not interesting.
	Measured, Worse bool
}

// Study is a pruner's part in one study: Reject and Scope are search.Options'.
type Study struct {
	p        *Pruner
	ctx      context.Context
	context  []float64
	learnt   int // trials of this study
	explored int // trials measured although the model rejects them
	err      error

	// Objectives of trials as predicted before they were learnt, and as measured.
	predicted, measured []float64

	incumbent space.Config
	study     uint64
	round     int   // of the latest review of the scope
	scope     []int // indices of the Scopes in force
	until     int   // round of the next narrowing
	better    int   // round of the latest better trial
	least     float64

	// Rejected counts rejected proposals, Narrowed suggestions that Scope changed.
	Rejected, Narrowed int
	Audits             []Audit
	// Scopes are all narrowings of the study in their order.
	Scopes []Scoped
}

// Begin starts a study of a workload that context describes. The context ctx
// bounds the fits of the model.
func (p *Pruner) Begin(ctx context.Context, incumbent space.Config, context []float64) (*Study, error) {
	if len(context) != len(p.context) {
		return nil, fmt.Errorf("prune: %d context values for %d names", len(context), len(p.context))
	}
	for i, v := range context {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("prune: context %s: %v is not a finite number", p.context[i], v)
		}
	}
	p.studies++
	return &Study{p: p, ctx: ctx, context: context, incumbent: incumbent, study: p.studies, least: math.Inf(1)}, nil
}

// Observe learns the trials measured since, as Reject and Scope do before they decide.
func (s *Study) Observe(history []search.Trial) { s.update(history) }

// update learns the trials measured since its last call.
func (s *Study) update(history []search.Trial) {
	if s.err != nil {
		return
	}
	var rows [][]float64
	for i := s.learnt; i < len(history); i++ {
		if t := &history[i]; t.OK() && t.Reward > 0 {
			rows = append(rows, s.p.row(s.context, t))
		}
	}
	if err := s.predict(rows); err != nil {
		s.err = err
		return
	}
	s.learnt = len(history)
	drifted, err := s.p.learn(s.ctx, rows)
	s.err = err
	if round := len(history) / batch; drifted {
		s.end(Drifted, round, func(int) bool { return true })
		s.until = round + s.p.o.TTL
	}
}

// predict records the model's predictions of rows before it learns them.
func (s *Study) predict(rows [][]float64) error {
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

// least returns the lowest cost so far, +Inf without any.
func least(history []search.Trial) float64 {
	best := math.Inf(1)
	for i := range history {
		if history[i].OK() && history[i].Reward > 0 {
			best = min(best, 1/history[i].Reward)
		}
	}
	return best
}

func (s *Study) point(c space.Config) model.Point {
	p := append(make(model.Point, 0, s.p.width()), s.context...)
	p = s.p.columns.Append(p, c)
	for len(p) < s.p.width() {
		p = append(p, 0)
	}
	return p
}

// ready reports whether there are enough trials and the model is reliable.
func (s *Study) ready(history []search.Trial) bool {
	return s.err == nil && len(history) > 0 && s.p.Rows() >= s.p.warmup && s.reliable()
}

// Reject returns why a proposal is not worth measuring, "" if it is.
func (s *Study) Reject(history []search.Trial, c space.Config) string {
	s.update(history)
	if !s.ready(history) {
		return ""
	}
	got, err := s.p.model.Predict(cost, []model.Point{s.point(c)})
	if err != nil {
		s.err = err
		return ""
	}
	interesting := got[0].Below(least(history) / gamma)
	if interesting >= tau {
		return ""
	}
	// Both quotas are shares of the trials so far, so that they spread over the study.
	trials := float64(len(history) + 1)
	if float64(len(s.Audits)+1) <= audit*trials {
		s.Audits = append(s.Audits, Audit{Config: c, Probability: interesting})
		return ""
	}
	if float64(s.explored+1) <= explore*trials {
		s.explored++
		return ""
	}
	s.Rejected++
	return fmt.Sprintf(
		"expected %.3gx the incumbent's objective (%.3g to %.3g): within %.0f %% of the best with probability %.2f",
		got[0].Mean, got[0].Low, got[0].High, 100*(1/gamma-1), interesting)
}

// Finish learns the remaining trials and completes the audits.
func (s *Study) Finish(trials []search.Trial) error {
	s.update(trials)
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
				a.Worse = !t.OK() || costOf(t) > best/gamma
			}
		}
	}
	return s.err
}
