package paper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// rejecter rejects proposals as the paper's Algorithm 1 does in lines 7 to 9: whenever the model expects no more than
// relax of the best reward, however good the model is. It keeps the model from round to round.
type rejecter struct {
	ctx      context.Context
	columns  *prune.Columns
	model    *model.Model
	rows     [][]float64
	fresh    int // rows since the model was fitted
	learnt   int // trials of the round
	spent    int // proposals rejected in the round
	draw     *rand.Rand
	rejected int
	err      error
}

const (
	// relax is the paper's gamma, exploit the share of proposals that may be rejected: its epsilon, of unknown size.
	relax   = .95
	exploit = .9
	// keptRows bounds the trials that the model is fitted to, the latest.
	keptRows = 400
	// refit is the number of trials between two fits.
	refit = 20
)

// relative names the column of the objective over the incumbent's.
const relative = "objective_over_incumbent"

func newRejecter(ctx context.Context, s *space.Space, seed uint64) *rejecter {
	return &rejecter{ctx: ctx, columns: prune.NewColumns(s), draw: rng.Stream("paper rejection", seed)}
}

// learn adds the trials of the round that are new.
func (r *rejecter) learn(history []search.Trial) {
	for _, t := range history[min(r.learnt, len(history)):] {
		if t.OK() && t.Reward > 0 {
			r.rows = append(r.rows, append(r.columns.Append(nil, t.Config), 1/t.Reward))
			r.fresh++
		}
	}
	r.learnt = len(history)
	if r.fresh < refit {
		return
	}
	r.fresh = 0
	r.rows = r.rows[max(0, len(r.rows)-keptRows):]
	n := r.columns.Len()
	values := func(i int) []float64 {
		out := make([]float64, len(r.rows))
		for k, row := range r.rows {
			out[k] = row[i]
		}
		return out
	}
	s := model.Structure{Tiers: slices.Repeat([]string{causal.TierConfig}, n+1), Parents: make([][]int, n+1)}
	s.Tiers[n] = causal.TierObjective
	var all []causal.Column
	for i := range n {
		all = append(all, r.columns.Column(i, values(i)))
		s.Parents[n] = append(s.Parents[n], i)
	}
	t, err := causal.NewTable(append(all, causal.Column{Name: relative, Values: values(n)})...)
	if err == nil {
		r.model, err = model.Fit(r.ctx, t, s, model.Options{LogObjectives: true, Bootstrap: 1, Seed: 1})
	}
	r.err = err
}

// Reject implements round.Pruner.
func (r *rejecter) Reject(history []search.Trial, c space.Config) string {
	r.learn(history)
	if len(history)+r.spent >= samples {
		return "the samples of the round are spent"
	}
	if r.err != nil || r.model == nil || r.draw.Float64() > exploit {
		return ""
	}
	got, err := r.model.Predict(relative, []model.Point{append(r.columns.Append(nil, c), 0)})
	if err != nil {
		r.err = err
		return ""
	}
	best := 0.
	for i := range history {
		best = max(best, history[i].Reward)
	}
	if 1/got[0].Mean > relax*best {
		return ""
	}
	r.rejected++
	r.spent++
	return fmt.Sprintf("expected reward %.3g of %.3g", 1/got[0].Mean, best)
}

// Scope implements round.Pruner: nothing is narrowed.
func (r *rejecter) Scope(_ []search.Trial, c space.Config) (space.Config, []string) { return c, nil }

// Finish implements round.Pruner.
func (r *rejecter) Finish(trials []search.Trial) error {
	r.learn(trials)
	r.learnt, r.spent = 0, 0
	return r.err
}

// within is the share of the trials whose reward is above relax of the best.
func within(trials []search.Trial) (share float64) {
	best := 0.
	for i := range trials {
		best = max(best, trials[i].Reward)
	}
	for i := range trials {
		if trials[i].Reward > relax*best {
			share += 1 / float64(len(trials))
		}
	}
	return share
}
