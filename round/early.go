package round

import (
	"cmp"
	"context"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// slack is how much worse than the best trial's, as a share, a proposal's objective may
// be after one scenario and after two. After more it has to be better
// (docs/search.md#early).
var slack = [2]float64{.005, .002}

// leastPromised is the gain over the configuration in force, as a share, below which a proposal is cut under the daily
// rule: half of what the fast path asks for, as futures differ.
const leastPromised = fastGain / 2

// early reports whether proposals may be cut: measurements that others read, and goals
// of more than one metric, need all scenarios.
func (r *Round) early() bool {
	return r.Early && !r.Always && r.Cache == nil && r.Record.To == nil && r.Time == 0 &&
		len(r.Front) == 0 && len(r.Goal.Terms) == 1 && len(r.Goal.Then) == 0 && len(r.Goal.Constraints) == 0
}

// begin sets the references of the next batch: the best trial so far and, under the daily rule, the configuration in
// force. The portfolio is the first batch and has none.
func (r *Round) begin(sc *Scorer) func(history []search.Trial) {
	return func(history []search.Trial) {
		for i := range history {
			t := &history[i]
			if !t.OK() || t.Measurement.Measured > 0 {
				continue
			}
			if !r.refuses(t.Config) && (sc.best == nil || t.Measurement.Mean() < sc.best.Mean()) {
				sc.best = &t.Measurement
			}
			if r.Rule == RuleDaily && t.Config.Equal(r.Incumbent) {
				sc.inForce = &t.Measurement
			}
		}
	}
}

// against measures a configuration in one scenario after the other while it is ahead of the best, and of the
// configuration in force by leastPromised. The scenarios in which the best has the largest objective come first: they
// decide most of the mean. Scenarios left out count as the best's, times the ratio so far.
func (sc *Scorer) against(ctx context.Context, c space.Config, best *search.Measurement) (search.Measurement, error) {
	order := make([]int, len(sc.scenarios))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(best.Values[b], best.Values[a]) })
	m := search.Measurement{Values: slices.Clone(best.Values), Floors: slices.Clone(best.Floors),
		Metrics: map[string]float64{}}
	sum, of, was := 0.0, 0.0, 0.0
	for n, i := range order {
		f, err := sc.play(ctx, c, sc.scenarios[i:i+1])
		if err != nil {
			return search.Measurement{}, err
		}
		if f.exhausted {
			return sc.score(f), nil
		}
		v := f.values[sc.goal.Terms[0].Metric]
		m.Values[i], m.Floors[i] = v.all[0], v.floors[0]
		for name, x := range f.metrics {
			m.Metrics[name] += (x - m.Metrics[name]) / float64(n+1)
		}
		sum += v.all[0]
		of += best.Values[i]
		bar := of
		if n < len(slack) {
			bar *= 1 + slack[n]
		}
		if sc.inForce != nil {
			was += sc.inForce.Values[i]
			bar = min(bar, (1-leastPromised)*was)
		}
		if n+1 < len(order) && sum >= bar && of > 0 {
			for _, k := range order[n+1:] {
				m.Values[k] *= sum / of
			}
			m.Measured = n + 1
			break
		}
	}
	return m, nil
}
