package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// guardFactor is how many times the baseline's a guarded metric may be.
var guardFactor = 1 + round.DefaultSettings().Guard

// Guards compare the waits of groups of jobs, short jobs and the longest JCTs under a method
// with the baseline: the losers of a gain of the average. Ratios are the method's value
// over the baseline's, 1 if nothing is compared.
type Guards struct {
	// Losers are the groups of jobs that wait longer than under the baseline, the worst first.
	Losers []round.Group `json:"losers,omitempty"`
	// Width is the class of widths whose mean wait is furthest above its bound.
	Width      string  `json:"width,omitempty"`
	WidthRatio float64 `json:"width_wait_ratio"`
	ShortRatio float64 `json:"short_avg_jct_ratio"`
	P99Ratio   float64 `json:"p99_jct_ratio"`
	// Broken names each guard that is broken with its values; empty if all are kept.
	Broken []string `json:"broken,omitempty"`
}

// guardsAgainst compares a method's outcome with the baseline's on the jobs that count.
func guardsAgainst(jobs []workload.Job, base, m *Outcome) *Guards {
	g := &Guards{}
	changes := Changes(jobs, base.Rows, m.Rows)
	g.Losers = round.Losers(changes)
	g.widths(round.Groups(changes))
	g.ShortRatio = g.check("average JCT of short jobs", base.ShortJCT, m.ShortJCT, round.GuardSlack)
	g.P99Ratio = g.check("p99 JCT", base.P99JCT, m.P99JCT, 0)
	return g
}

// check breaks a guard if a value, in seconds, is too far above the baseline's, and returns their ratio.
func (g *Guards) check(what string, was, is, slack float64) float64 {
	if is > guardFactor*was+slack {
		g.Broken = append(g.Broken, fmt.Sprintf("%s %s, was %s", what, units.Duration(is), units.Duration(was)))
	}
	if is == was {
		return 1
	}
	return finite(is / was)
}

// widths guards the mean wait of each class of widths.
func (g *Guards) widths(groups []round.Group) {
	g.WidthRatio = 1
	most := 0.
	for i := range groups {
		x := &groups[i]
		if x.By != round.ByWidth {
			continue
		}
		if x.Loses() {
			g.Broken = append(g.Broken, x.String())
		}
		excess := x.After.Mean - guardFactor*x.Before.Mean
		if g.Width != "" && excess <= most {
			continue
		}
		if g.Width, most = x.Name, excess; x.After != x.Before {
			g.WidthRatio = finite(x.After.Mean / x.Before.Mean)
		}
	}
}

// guard fills in the metrics that guards compare, from the rows.
func (out *Outcome) guard(jobs []workload.Job) {
	runs := make(map[string]*workload.Job, len(jobs))
	for i := range jobs {
		runs[jobs[i].ID] = &jobs[i]
	}
	var short, all []float64
	for i := range out.Rows {
		row := &out.Rows[i]
		if !row.Ended {
			continue
		}
		all = append(all, row.JCT)
		if runs[row.ID].Duration < round.ShortRun {
			short = append(short, row.JCT)
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		out.P99JCT = stats.Quantile(all, .99)
	}
	if len(short) > 0 {
		out.ShortJCT = stats.Mean(short)
	}
}

// base is the outcome of the baseline, simulated once.
func (e *Evaluation) base(ctx context.Context) (*Outcome, error) {
	e.baseMu.Lock()
	defer e.baseMu.Unlock()
	if e.baseline == nil {
		m := &Outcome{}
		if _, err := e.replay(ctx, &method{}, m, e.current()); err != nil {
			return nil, err
		}
		e.baseline = m
	}
	return e.baseline, nil
}
