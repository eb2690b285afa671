package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/decisions"
	"github.com/autosched/autosched/replay"
)

// tabulate returns the methods beside the default, and the rows of a matrix: those of windows, and those of schedulers
// over all windows.
func tabulate(m *decisions.Matrix, cells []decisions.Cell) (methods []string, rows, all []decisions.MatrixRow) {
	var windows []string
	for _, x := range m.Windows {
		windows = append(windows, x.Name)
	}
	for i := range cells {
		if name := cells[i].CellKey.Method; name != "default" && !slices.Contains(methods, name) {
			methods = append(methods, name)
		}
	}
	if i := slices.Index(methods, "fixed-oracle"); i >= 0 {
		methods = slices.Insert(methods, i+1, "fixed-robust", "fixed-guarded", "fixed-guarded-robust")
	}
	rows = decisions.MatrixRows(cells, windows, m.Schedulers)
	for _, s := range m.Schedulers {
		if slices.ContainsFunc(rows, func(r decisions.MatrixRow) bool { return r.Scheduler == s }) {
			all = append(all, decisions.Condense(s, rows))
		}
	}
	return methods, rows, all
}

// printDecisions prints the tables of a matrix.
func printDecisions(w io.Writer, m *decisions.Matrix, cells []decisions.Cell) error {
	var versions []string
	for i := range cells {
		c := &cells[i]
		versions = append(versions, c.Version[:strings.LastIndexByte(c.Version, '+')])
	}
	slices.Sort(versions)
	methods, rows, all := tabulate(m, cells)
	fmt.Fprintf(w, "Versions: %s. %d cells.\n", strings.Join(slices.Compact(versions), ", "), len(cells))

	fmt.Fprintf(w, "\nRatio of the default's average JCT to each method's, mean over seeds; above 1 is better. fixed-robust "+
		"is the mean of six configurations within 3 %% of the numbers of fixed-oracle's, fixed-guarded the best that "+
		"keeps the guards.\n\n")
	t := table.Numbers(w, "window\tscheduler\tdefault s\t"+strings.Join(methods, "\t"))
	for _, r := range append(rows, all...) {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t", r.Window, r.Scheduler, r.DefaultJCT)
		for _, name := range methods {
			v, ok := r.Ratio[name]
			if !ok {
				v = math.NaN()
			}
			fmt.Fprint(t, known("%.3f", v)+"\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}

	fmt.Fprintf(w, "\nautosched: share of the gain of fixed-guarded-robust over the default, and of that of fixed-robust; the "+
		"least ratio of a seed to the default and to random presets, and the mean to these; the largest average JCT of "+
		"a seed over the least, minus 1; seeds that keep the guards, the worst ratio of a tenant's p95 queueing delay "+
		"and of short jobs' average JCT to the default's; means of rounds, changes and CPU time. Over windows: means, "+
		"but the worst of the worst.\n\n")
	t = table.Numbers(w, "window\tscheduler\tshare\tof best\tto default, worst\tto random, worst\tto random\tspread\t"+
		"kept\ttenant\tshort\trounds\tchanges\tCPU s")
	for _, r := range append(rows, all...) {
		if math.IsNaN(r.CPU) {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t", r.Window, r.Scheduler)
		for _, v := range [...]struct {
			format string
			v      float64
		}{{"%.0f %%", 100 * r.Share}, {"%.0f %%", 100 * r.ShareFree}, {"%.3f", r.WorstToDefault},
			{"%.3f", r.WorstToRandom}, {"%.3f", r.ToRandom}, {"%.1f %%", 100 * r.Spread}, {"%.0f %%", 100 * r.Kept},
			{"%.2f", r.Width}, {"%.2f", r.Short}, {"%.0f", r.Rounds}, {"%.0f", r.Changes}, {"%.0f", r.CPU}} {
			fmt.Fprint(t, known(v.format, v.v)+"\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// known formats a value, a NaN as nothing, and a ratio to 0 as infinite.
func known(format string, v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v >= replay.MaxRatio:
		return "inf"
	}
	return fmt.Sprintf(format, v)
}
