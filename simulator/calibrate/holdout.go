package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
)

// Holdout is the accuracy of models learnt from the runs that ended first on the
// later half.
type Holdout struct {
	Learned []Estimate `json:"learned"`
	LeftOut LeftOut    `json:"left_out"`
	// Runs of the later half were preempted or spread and can be compared.
	Runs int `json:"runs"`
	// Given and After are the median relative errors of their time on GPUs, by the models
	// given and the learnt ones.
	Given float64 `json:"error_given"`
	After float64 `json:"error_learnt"`
}

// Halves learns models from the runs that ended first, and compares them with the given ones on
// the later half. Sections that are not learnt are the given ones.
func Halves(runs []Run, given *simulator.ModelSpec) (*simulator.ModelSpec, *Holdout, error) {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(a.End, b.End) })
	first, later := runs[:len(runs)/2], runs[len(runs)/2:]
	spec, learned, left, err := Models(first)
	if err != nil {
		return nil, nil, fmt.Errorf("the half of the runs that ended first: %w", err)
	}
	out := given.Complete()
	if spec.Restart != nil {
		out.Restart = spec.Restart
	}
	if spec.Classes != nil {
		out.Classes = spec.Classes
	}
	h := &Holdout{Learned: learned, LeftOut: left}
	base := undisturbed(first)
	h.Given, h.Runs = medianError(later, base, given.Complete().Models())
	h.After, _ = medianError(later, base, out.Models())
	if h.Runs < minRuns {
		return nil, nil, fmt.Errorf("the half of the runs that ended last: %d preempted or spread ones can be compared, "+
			"and it takes %d", h.Runs, minRuns)
	}
	return out, h, nil
}

// medianError is the median of the relative errors of the time on GPUs that models predict for
// disturbed runs, and their number. base has the times of undisturbed ones.
func medianError(runs []Run, base map[group]float64, m *simulator.Models) (float64, int) {
	var errs []float64
	for _, r := range runs {
		alone, ok := base[group{r.Key, r.GPUs}]
		if (&LeftOut{}).add(&r) || !ok || r.Stops == 0 && !r.Spread {
			continue
		}
		predicted := alone
		if r.Stops == 1 {
			predicted += m.Restart(r.GPUs, 0).Seconds()
		} else if i := slices.IndexFunc(m.Classes, func(c simulator.Class) bool { return c.Name == r.Model }); i >= 0 {
			predicted *= m.Classes[i].Slowdown
		}
		errs = append(errs, math.Abs(predicted/r.Held.Seconds()-1))
	}
	slices.Sort(errs)
	return stats.Quantile(errs, .5), len(errs)
}
