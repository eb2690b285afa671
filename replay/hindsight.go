package replay

import (
	"cmp"
	"context"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// Hindsight has the neighbours of the best configuration of many on a window. The best
// of many is partly luck: a real optimum has good neighbours.
type Hindsight struct {
	// RobustJCT is the mean of the average JCTs of the configuration's neighbours.
	RobustJCT float64 `json:"robust_avg_jct_s"`
	// Guarded is the best of the configurations measured that keep the guards, with its
	// average JCT and the mean of its neighbours'.
	Guarded          string  `json:"guarded"`
	GuardedJCT       float64 `json:"guarded_avg_jct_s"`
	GuardedRobustJCT float64 `json:"guarded_robust_avg_jct_s"`
}

// Neighbours have numbers within nearby of the range that their parameter is searched
// in, which is logarithmic for times.
const (
	neighbours = 6
	nearby     = .03
)

// hindsight measures the neighbours of the best configuration, and the best of the
// trials that keeps the guards. The baseline, which is always a trial, does.
func (e *Evaluation) hindsight(ctx context.Context, best space.Config, trials []search.Trial) (*Hindsight, error) {
	base, err := e.base(ctx)
	if err != nil {
		return nil, err
	}
	out := &Hindsight{}
	if out.RobustJCT, err = e.robust(ctx, best); err != nil {
		return nil, err
	}
	trials = slices.DeleteFunc(slices.Clone(trials), func(t search.Trial) bool { return !t.OK() })
	slices.SortStableFunc(trials, func(a, b search.Trial) int {
		return cmp.Compare(a.Measurement.Mean(), b.Measurement.Mean())
	})
	for i := range trials {
		c := trials[i].Config
		var m Outcome
		if _, err := e.replay(ctx, &method{}, &m, c); err != nil {
			return nil, err
		}
		if len(guardsAgainst(e.counted().Jobs(), base, &m).Broken) > 0 {
			continue
		}
		out.Guarded, out.GuardedJCT, out.GuardedRobustJCT = c.String(), m.AvgJCT, out.RobustJCT
		if !c.Equal(best) {
			out.GuardedRobustJCT, err = e.robust(ctx, c)
		}
		break
	}
	return out, err
}

// robust is the mean of the average JCTs of a configuration's neighbours.
func (e *Evaluation) robust(ctx context.Context, c space.Config) (float64, error) {
	sum := 0.
	near := e.neighbours(c)
	for _, n := range near {
		var m Outcome
		if _, err := e.replay(ctx, &method{}, &m, n); err != nil {
			return 0, err
		}
		sum += m.AvgJCT
	}
	return sum / float64(len(near)), nil
}

// neighbours draws configurations with the same categories and special values, and
// numbers nearby. A space of few values has no others: then it returns c itself.
func (e *Evaluation) neighbours(c space.Config) []space.Config {
	s := e.Options.Scheduler.Space
	draw := rng.Stream("neighbours", e.Options.Seed)
	centre := s.Encode(c)
	var out []space.Config
	for tries := 0; len(out) < neighbours && tries < 50*neighbours; tries++ {
		x := slices.Clone(centre)
		for d := range x {
			step := nearby * (2*draw.Float64() - 1)
			if !s.Dim(d).Categorical {
				x[d] = max(0, min(1, x[d]+step))
			}
		}
		n := s.Decode(x)
		if !n.Equal(c) && sameSpecials(s, n, c) &&
			!slices.ContainsFunc(out, func(o space.Config) bool { return o.Equal(n) }) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return []space.Config{c}
	}
	return out
}

// sameSpecials reports whether two configurations have the same special values.
func sameSpecials(s *space.Space, a, b space.Config) bool {
	for _, p := range s.Params() {
		for _, special := range p.Special {
			has := func(c space.Config) bool { return c.Has(p.ID) && c.Get(p.ID).Float() == special.Value }
			if has(a) != has(b) {
				return false
			}
		}
	}
	return true
}
