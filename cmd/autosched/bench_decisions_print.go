package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/lab"
)

// printDecisions prints the tables of a matrix.
func printDecisions(w io.Writer, m *lab.Matrix, cells []lab.Cell) error {
	var windows, methods, versions []string
	for _, x := range m.Windows {
		windows = append(windows, x.Name)
	}
	for i := range cells {
		c := &cells[i]
		if !slices.Contains(methods, c.CellKey.Method) {
			methods = append(methods, c.CellKey.Method)
		}
		versions = append(versions, c.Version[:strings.LastIndexByte(c.Version, '+')])
	}
	slices.Sort(versions)
	rows := lab.MatrixRows(cells, windows, m.Schedulers)
	var all []lab.MatrixRow
	for _, s := range m.Schedulers {
		if slices.ContainsFunc(rows, func(r lab.MatrixRow) bool { return r.Scheduler == s }) {
			all = append(all, lab.Condense(s, rows))
		}
	}
	fmt.Fprintf(w, "Versions: %s. %d cells.\n", strings.Join(slices.Compact(versions), ", "), len(cells))

	fmt.Fprintf(w, "\nRatio of the default's average JCT to each method's, mean over seeds; above 1 is better.\n\n")
	methods = slices.DeleteFunc(methods, func(s string) bool { return s == "default" })
	fmt.Fprintf(w, "| window | scheduler | default s | %s |\n| --- | --- |%s\n", strings.Join(methods, " | "),
		strings.Repeat(" ---: |", len(methods)+1))
	for _, r := range append(rows, all...) {
		fmt.Fprintf(w, "| %s | %s | %.0f |", r.Window, r.Scheduler, r.DefaultJCT)
		for _, name := range methods {
			v, ok := r.Ratio[name]
			if !ok {
				v = math.NaN()
			}
			fmt.Fprintf(w, " %s |", known("%.3f", v))
		}
		fmt.Fprintln(w)
	}

	fmt.Fprintf(w, "\nautosched: share of the best fixed configuration's gain over the default; the least ratio of a seed "+
		"to the default and to random presets, and the mean to these; the largest average JCT of a seed over the "+
		"least; means over seeds of rounds, changes and CPU time. Over windows: means, but the worst of the worst.\n\n")
	fmt.Fprintln(w, "| window | scheduler | share | to default, worst | to random, worst | to random | spread | rounds | "+
		"changes | CPU s |")
	fmt.Fprintf(w, "| --- | --- |%s\n", strings.Repeat(" ---: |", 8))
	for _, r := range append(rows, all...) {
		if math.IsNaN(r.CPU) {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %.0f | %.0f | %.0f |\n", r.Window, r.Scheduler,
			known("%.0f %%", 100*r.Share), known("%.3f", r.WorstToDefault), known("%.3f", r.WorstToRandom),
			known("%.3f", r.ToRandom), known("%.1f %%", 100*r.Spread), r.Rounds, r.Changes, r.CPU)
	}
	return nil
}

// known formats a value, a NaN as nothing.
func known(format string, v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf(format, v)
}
