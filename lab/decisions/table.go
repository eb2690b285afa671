package decisions

import (
	"math"
	"slices"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/replay"
)

// MatrixRow compares the methods on a window with a scheduler, or over the windows of a
// scheduler. Values without measured cells are NaN.
type MatrixRow struct {
	Window, Scheduler string
	DefaultJCT        float64 // seconds
	// Ratio is the default's average JCT over the method's, the mean over seeds.
	Ratio map[string]float64
	// Share is the part of the gain over the default that autosched has, of the gain of the best
	// fixed configurations that keep the guards, ShareFree of the gain of the best: both
	// by the means of their neighbours. NaN where that is less than leastGain.
	Share, ShareFree float64
	// Kept is the share of seeds with which autosched keeps the guards, Width the worst
	// ratio of the mean wait of a class of widths to the default's, Short the worst of the
	// average JCT of short jobs.
	Kept, Width, Short float64
	// WorstToDefault and WorstToRandom are the least ratios of a seed; ToRandom is the
	// mean ratio of random-preset's average JCT over autosched's.
	WorstToDefault, WorstToRandom, ToRandom float64
	// Spread is the largest average JCT of a seed over the least, minus 1.
	Spread float64
	// CPU is the CPU seconds of a replay with autosched, Rounds its rounds, Changes
	// its adoptions.
	CPU, Rounds, Changes float64
}

// leastGain is the gain of the best fixed configuration, as a share, below which
// MatrixRow.Share would compare noise.
const leastGain = .005

// group is the cells of a window and a scheduler by method, in order of seed.
type group map[string][]*Cell

// MatrixRows compares the methods on each window with each scheduler that has a cell of
// the default.
func MatrixRows(cells []Cell, windows, schedulers []string) []MatrixRow {
	var out []MatrixRow
	for _, w := range windows {
		for _, s := range schedulers {
			g := group{}
			for i := range cells {
				if c := &cells[i]; c.Window == w && c.Scheduler == s {
					g[c.CellKey.Method] = append(g[c.CellKey.Method], c)
				}
			}
			if len(g["default"]) > 0 {
				out = append(out, g.compare(w, s))
			}
		}
	}
	return out
}

func (g group) compare(window, scheduler string) MatrixRow {
	nan := math.NaN()
	base := g["default"][0].Outcome.AvgJCT
	out := MatrixRow{Window: window, Scheduler: scheduler, DefaultJCT: base, Ratio: map[string]float64{},
		Share: nan, ShareFree: nan, Kept: nan, Width: nan, Short: nan,
		WorstToDefault: nan, WorstToRandom: nan, ToRandom: nan, Spread: nan,
		CPU: nan, Rounds: nan, Changes: nan}
	for method, cells := range g {
		slices.SortFunc(cells, func(a, b *Cell) int { return int(a.Seed) - int(b.Seed) })
		out.Ratio[method] = base / g.mean(method, func(c *Cell) float64 { return c.Outcome.AvgJCT })
	}
	for name, of := range map[string]func(*replay.Hindsight) float64{
		"fixed-robust":         func(h *replay.Hindsight) float64 { return h.RobustJCT },
		"fixed-guarded":        func(h *replay.Hindsight) float64 { return h.GuardedJCT },
		"fixed-guarded-robust": func(h *replay.Hindsight) float64 { return h.GuardedRobustJCT },
	} {
		if len(g["fixed-oracle"]) > 0 {
			out.Ratio[name] = base / g.mean("fixed-oracle", func(c *Cell) float64 { return of(c.Outcome.Hindsight) })
		}
	}
	own := g["autosched"]
	if len(own) == 0 {
		return out
	}
	jct := g.each("autosched", func(c *Cell) float64 { return c.Outcome.AvgJCT })
	out.WorstToDefault = base / slices.Max(jct)
	out.Spread = slices.Max(jct)/slices.Min(jct) - 1
	out.CPU = g.mean("autosched", func(c *Cell) float64 { return c.CPUSeconds })
	out.Rounds = g.mean("autosched", func(c *Cell) float64 { return float64(c.Outcome.Rounds) })
	out.Changes = g.mean("autosched", func(c *Cell) float64 { return float64(c.Outcome.Changes) })
	if n := min(len(own), len(g["random-preset"])); n > 0 {
		out.ToRandom, out.WorstToRandom = 0, math.Inf(1)
		for i := range n {
			ratio := g["random-preset"][i].Outcome.AvgJCT / jct[i]
			out.ToRandom += ratio / float64(n)
			out.WorstToRandom = min(out.WorstToRandom, ratio)
		}
	}
	gain := 1 - stats.Mean(jct)/base
	for name, share := range map[string]*float64{"fixed-guarded-robust": &out.Share, "fixed-robust": &out.ShareFree} {
		if best := 1 - 1/out.Ratio[name]; best >= leastGain {
			*share = gain / best
		}
	}
	out.Kept = g.mean("autosched", func(c *Cell) float64 {
		if len(c.Outcome.Guards.Broken) > 0 {
			return 0
		}
		return 1
	})
	out.Width = slices.Max(g.each("autosched", func(c *Cell) float64 { return c.Outcome.Guards.WidthRatio }))
	out.Short = slices.Max(g.each("autosched", func(c *Cell) float64 { return c.Outcome.Guards.ShortRatio }))
	return out
}

func (g group) each(method string, of func(*Cell) float64) []float64 {
	var out []float64
	for _, c := range g[method] {
		out = append(out, of(c))
	}
	return out
}

func (g group) mean(method string, of func(*Cell) float64) float64 {
	return stats.Mean(g.each(method, of))
}

// Condense returns a scheduler's comparison over windows: means, but the least of the
// worst ratios and the largest spread. NaNs are left out.
func Condense(scheduler string, rows []MatrixRow) MatrixRow {
	over := func(to func([]float64) float64, of func(*MatrixRow) float64) float64 {
		var v []float64
		for i := range rows {
			if x := of(&rows[i]); rows[i].Scheduler == scheduler && !math.IsNaN(x) {
				v = append(v, x)
			}
		}
		if len(v) == 0 {
			return math.NaN()
		}
		return to(v)
	}
	out := MatrixRow{Window: "all", Scheduler: scheduler, Ratio: map[string]float64{}}
	out.DefaultJCT = over(stats.Mean, func(c *MatrixRow) float64 { return c.DefaultJCT })
	out.Share = over(stats.Mean, func(c *MatrixRow) float64 { return c.Share })
	out.ShareFree = over(stats.Mean, func(c *MatrixRow) float64 { return c.ShareFree })
	out.Kept = over(stats.Mean, func(c *MatrixRow) float64 { return c.Kept })
	out.Width = over(slices.Max[[]float64], func(c *MatrixRow) float64 { return c.Width })
	out.Short = over(slices.Max[[]float64], func(c *MatrixRow) float64 { return c.Short })
	out.ToRandom = over(stats.Mean, func(c *MatrixRow) float64 { return c.ToRandom })
	out.WorstToDefault = over(slices.Min[[]float64], func(c *MatrixRow) float64 { return c.WorstToDefault })
	out.WorstToRandom = over(slices.Min[[]float64], func(c *MatrixRow) float64 { return c.WorstToRandom })
	out.Spread = over(slices.Max[[]float64], func(c *MatrixRow) float64 { return c.Spread })
	out.CPU = over(stats.Mean, func(c *MatrixRow) float64 { return c.CPU })
	out.Rounds = over(stats.Mean, func(c *MatrixRow) float64 { return c.Rounds })
	out.Changes = over(stats.Mean, func(c *MatrixRow) float64 { return c.Changes })
	for i := range rows {
		for method := range rows[i].Ratio {
			out.Ratio[method] = over(stats.Mean, func(c *MatrixRow) float64 {
				if v, ok := c.Ratio[method]; ok {
					return v
				}
				return math.NaN()
			})
		}
	}
	return out
}
