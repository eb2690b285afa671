package round

import (
	"slices"

	"github.com/autosched/autosched/search"
)

// ranked returns a trial with metric k of a goal's ranks as its objective: 0 is the
// objective itself.
func (g *Goal) ranked(t search.Trial, k int) search.Trial {
	if k == 0 || !t.OK() {
		return t
	}
	side, _ := t.Measurement.Metric(g.Then[k-1].Metric)
	t.Measurement.Values, t.Measurement.Floors = side.Values, side.Floors
	return t
}

// name of rank k.
func (g *Goal) name(k int) string {
	switch {
	case k > 0:
		return g.Then[k-1].Metric
	case len(g.Terms) == 1:
		return g.Terms[0].Metric
	}
	return g.String()
}

// formatRank formats a value of rank k.
func (g *Goal) formatRank(k int, v float64) string { return FormatMetric(g.name(k), v) }

// gain compares a candidate with the incumbent: by the first metric whose ratio is enough,
// provided that in those before it it is within the tolerance; otherwise by the first in
// which it is better.
func (g *Goal) gain(t, incumbent search.Trial, enough float64) (gain search.Improvement, rank int) {
	found := false
	for k := range len(g.Then) + 1 {
		a, b := g.ranked(t, k), g.ranked(incumbent, k)
		x := search.Gain(a, b)
		better := x.Ratio > 1
		if better && x.Ratio >= enough {
			return x, k
		}
		if k == 0 || !found && better {
			gain, rank, found = x, k, better
		}
		if k == len(g.Then) || !b.OK() || a.Measurement.Mean() > (1+g.Then[k].Within)*b.Measurement.Mean() {
			break
		}
	}
	return gain, rank
}

// first keeps the trials that are within the tolerance of the best in all ranks but
// the last.
func (g *Goal) first(trials []search.Trial) []search.Trial {
	kept := slices.Clone(trials)
	for k := range g.Then {
		low := -1.0
		for i := range kept {
			if m := g.ranked(kept[i], k).Measurement.Mean(); low < 0 || m < low {
				low = m
			}
		}
		kept = slices.DeleteFunc(kept, func(t search.Trial) bool {
			return g.ranked(t, k).Measurement.Mean() > (1+g.Then[k].Within)*low
		})
	}
	return kept
}
