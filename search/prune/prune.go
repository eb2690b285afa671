// Package prune rejects proposals of a search that are not worth measuring and
// narrows its scope, by a causal model of the objective that it learns from the
// trials of the search (AutoSched, Gao et al., ICS 2024, section on causal
// pruning). [Pruner.Reject] and [Pruner.Scope] are fields of search.Options.
//
// Costs are objectives over the incumbent's: below 1 is better.
package prune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

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
// of the objective given the configuration. It is not safe for concurrent use.
type Pruner struct {
	ctx     context.Context
	seed    uint64
	columns *Columns
	life    life
	warmup  int // trials to learn before any proposal is rejected

	model *model.Model
	wait  [][]float64 // rows before the first fit
	fit   int         // rows when families were chosen

	learnt   int // trials of the search
	explored int // trials measured although the model rejects them
	err      error

	// Objectives of trials as predicted before they were learnt, and as measured.
	predicted, measured []float64

	incumbent space.Config
	round     int   // of the latest review of the scope
	scope     []int // indices of the Scopes in force
	until     int   // round of the next narrowing
	better    int   // round of the latest better trial
	least     float64

	// Rejected counts rejected proposals, Narrowed suggestions that Scope changed.
	Rejected, Narrowed int
	Audits             []Audit
	// Scopes are all narrowings of the search in their order.
	Scopes []Scoped
}

// New returns the pruner of a search from an incumbent. The context bounds the fits
// of the model.
func New(ctx context.Context, s *space.Space, incumbent space.Config, seed uint64) *Pruner {
	return &Pruner{ctx: ctx, seed: seed, columns: NewColumns(s), life: usual, incumbent: incumbent, least: math.Inf(1),
		warmup: max(minTrials, trialsPerParam*len(s.Params()))}
}

// rows returns how many trials the pruner has learnt from.
func (p *Pruner) rows() int {
	if p.model == nil {
		return len(p.wait)
	}
	return p.model.Rows()
}

// row returns a trial as a row of the model's table: configuration and objective.
func (p *Pruner) row(t *search.Trial) []float64 {
	return append(p.columns.Append(nil, t.Config), costOf(t))
}

// costOf is a trial's objective over the incumbent's.
func costOf(t *search.Trial) float64 { return 1 / max(t.Reward, 1/search.MaxRatio) }

func (p *Pruner) table(rows [][]float64) (*causal.Table, error) {
	column := func(i int) []float64 {
		out := make([]float64, len(rows))
		for r := range rows {
			out[r] = rows[r][i]
		}
		return out
	}
	var all []causal.Column
	for i := range p.columns.Len() {
		all = append(all, p.columns.Column(i, column(i)))
	}
	all = append(all, causal.Column{Name: cost, Values: column(p.columns.Len())})
	return causal.NewTable(all...)
}

// cost names the column of the objective over the incumbent's.
const cost = "objective_over_incumbent"

// structure has the configuration as the parents of the objective.
func (p *Pruner) structure() model.Structure {
	n := p.columns.Len()
	s := model.Structure{Tiers: slices.Repeat([]string{causal.TierConfig}, n+1), Parents: make([][]int, n+1)}
	s.Tiers[n] = causal.TierObjective
	for i := range n {
		s.Parents[n] = append(s.Parents[n], i)
	}
	return s
}

// learn updates the model. It reports whether the objective drifted, upon which
// the model forgets earlier rows.
func (p *Pruner) learn(rows [][]float64) (drifted bool, err error) {
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
		p.model, err = model.Fit(p.ctx, t, p.structure(), model.Options{
			LogObjectives: true, HalfLife: halfLife, MaxRows: maxRows, Seed: p.seed,
		})
		p.fit = len(p.wait)
		p.wait = nil
		return false, err
	}
	t, err := p.table(rows)
	if err != nil {
		return false, err
	}
	u, err := p.model.Update(p.ctx, t)
	if err == nil && !u.Reset && p.model.Rows() >= 2*p.fit {
		err = p.model.Refit(p.ctx) // more rows support richer families
	}
	if u.Reset || p.model.Rows() >= 2*p.fit {
		p.fit = p.model.Rows()
	}
	return u.Reset, err
}

// The model is used once it has ranked configurations well: the rank correlation
// between predicted and measured objectives, over at least rankTrials predicted
// trials, is at least minRank.
const (
	minRank    = .5
	rankTrials = 8
)

// reliable reports whether the model may be used.
func (p *Pruner) reliable() bool {
	return p.model != nil && len(p.predicted) >= rankTrials && stats.Spearman(p.predicted, p.measured) >= minRank
}

// Audit is a rejected proposal that is measured to check the rejection.
type Audit struct {
	Config space.Config
	// Measured says that there is a trial of it, Worse that it was not interesting.
	Measured, Worse bool
}

// Observe learns the trials measured since, as Reject and Scope do before they decide.
func (p *Pruner) Observe(history []search.Trial) { p.update(history) }

// update learns the trials measured since its last call.
func (p *Pruner) update(history []search.Trial) {
	if p.err != nil {
		return
	}
	var rows [][]float64
	for i := p.learnt; i < len(history); i++ {
		if t := &history[i]; t.OK() && t.Reward > 0 {
			rows = append(rows, p.row(t))
		}
	}
	if err := p.predict(rows); err != nil {
		p.err = err
		return
	}
	p.learnt = len(history)
	drifted, err := p.learn(rows)
	p.err = err
	if round := len(history) / batch; drifted {
		p.end(Drifted, round, func(int) bool { return true })
		p.until = round + p.life.ttl
	}
}

// predict records the model's predictions of rows before it learns them.
func (p *Pruner) predict(rows [][]float64) error {
	if p.model == nil {
		return nil
	}
	points := make([]model.Point, len(rows))
	for i, row := range rows {
		points[i] = row
	}
	got, err := p.model.Predict(cost, points)
	if err != nil {
		return err
	}
	for i, row := range rows {
		p.predicted, p.measured = append(p.predicted, got[i].Mean), append(p.measured, row[len(row)-1])
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

func (p *Pruner) point(c space.Config) model.Point { return append(p.columns.Append(nil, c), 0) }

// ready reports whether there are enough trials and the model is reliable.
func (p *Pruner) ready(history []search.Trial) bool {
	return p.err == nil && len(history) > 0 && p.rows() >= p.warmup && p.reliable()
}

// Reject returns why a proposal is not worth measuring, "" if it is.
func (p *Pruner) Reject(history []search.Trial, c space.Config) string {
	p.update(history)
	if !p.ready(history) {
		return ""
	}
	got, err := p.model.Predict(cost, []model.Point{p.point(c)})
	if err != nil {
		p.err = err
		return ""
	}
	interesting := got[0].Below(least(history) / gamma)
	if interesting >= tau {
		return ""
	}
	// Both quotas are shares of the trials so far, so that they spread over the study.
	trials := float64(len(history) + 1)
	if float64(len(p.Audits)+1) <= audit*trials {
		p.Audits = append(p.Audits, Audit{Config: c})
		return ""
	}
	if float64(p.explored+1) <= explore*trials {
		p.explored++
		return ""
	}
	p.Rejected++
	return fmt.Sprintf(
		"expected %.3gx the incumbent's objective (%.3g to %.3g): within %.0f %% of the best with probability %.2f",
		got[0].Mean, got[0].Low, got[0].High, 100*(1/gamma-1), interesting)
}

// Finish learns the remaining trials and completes the audits.
func (p *Pruner) Finish(trials []search.Trial) error {
	p.update(trials)
	best := least(trials)
	for i := range p.Audits {
		a := &p.Audits[i]
		for k := range trials {
			if t := &trials[k]; t.Config.Equal(a.Config) && (t.OK() || t.Measurement.Exhausted) {
				a.Measured = true
				a.Worse = !t.OK() || costOf(t) > best/gamma
			}
		}
	}
	return p.err
}
