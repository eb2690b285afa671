package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/internal/stats"
)

// runs are the results of an arm on a workload, by seed.
type runs []*result

// report prints the tables of the results.
func (o *options) report(to io.Writer) error {
	all, err := o.results()
	if err != nil {
		return err
	}
	by := map[string]map[string]runs{}
	for i := range all {
		r := &all[i]
		if by[r.Workload] == nil {
			by[r.Workload] = map[string]runs{}
		}
		by[r.Workload][r.Arm] = append(by[r.Workload][r.Arm], r)
	}
	workloads := slices.DeleteFunc(strings.Split(o.workloads, ","), func(w string) bool { return by[w][before] == nil })
	waits(to, workloads, by)
	promises(to, workloads, by)
	return nil
}

func table(w io.Writer, columns ...string) {
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
}

func row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// arms are the compared ones, in order.
var arms = []string{before, preset, once, live}

const tenants = 3

func tenant(i int) string { return fmt.Sprint("tenant-", i) }

// each is a figure of a class in each run.
func (x runs) each(class string, of func(rig.Class) float64) (out []float64) {
	for _, r := range x {
		out = append(out, of(r.class(class)))
	}
	return out
}

func wait(c rig.Class) float64 { return c.Wait.Seconds() }

func p95(c rig.Class) float64 { return c.P95.Seconds() }

func jct(c rig.Class) float64 { return c.JCT.Seconds() }

// ofTenants are the means of a figure of the tenants.
func (x runs) ofTenants(of func(rig.Class) float64, format string) string {
	var out []string
	for i := range tenants {
		out = append(out, fmt.Sprintf(format, stats.Mean(x.each(tenant(i), of))))
	}
	return strings.Join(out, ", ")
}

// waits prints the means of the runs of each arm.
func waits(w io.Writer, workloads []string, by map[string]map[string]runs) {
	table(w, "workload", "arm", "runs", "mean wait, s", "below 8 GPUs", "from 8 GPUs", "mean JCT", "tenants 0, 1, 2",
		"p95 of tenants 0, 1, 2")
	for _, name := range workloads {
		for _, arm := range arms {
			x := by[name][arm]
			if len(x) == 0 {
				continue
			}
			all := x.each("all", wait)
			row(w, name, arm, fmt.Sprint(len(x)), fmt.Sprintf("%.1f (%.1f-%.1f)", stats.Mean(all), slices.Min(all),
				slices.Max(all)), fmt.Sprintf("%.1f", stats.Mean(x.each("below 8 GPUs", wait))),
				fmt.Sprintf("%.1f", stats.Mean(x.each("from 8 GPUs", wait))),
				fmt.Sprintf("%.1f", stats.Mean(x.each("all", jct))), x.ofTenants(wait, "%.1f"),
				x.ofTenants(p95, "%.0f"))
		}
	}
}

// interval is the mean of differences between runs with the same arrivals, and half its 95 % interval, Student's.
func interval(x []float64) (mean, half float64) {
	n := float64(len(x))
	if n < 2 {
		return stats.Mean(x), math.Inf(1)
	}
	mean, deviation := stat.MeanStdDev(x, nil)
	return mean, distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975) * stat.StdErr(deviation, n)
}

// paired are the runs of two arms with the same arrivals.
func paired(x, y runs) (a, b runs) {
	for _, r := range x {
		if i := slices.IndexFunc(y, func(o *result) bool { return o.Seed == r.Seed }); i >= 0 {
			a, b = append(a, r), append(b, y[i])
		}
	}
	return a, b
}

// promises prints the promise and the outcome of each arm, and the tenants whose p95 rose.
func promises(w io.Writer, workloads []string, by map[string]map[string]runs) {
	table(w, "workload", "arm", "promised (range)", "came", "difference, s", "arrived",
		"p95 of tenants, difference in s", "changes")
	for _, name := range workloads {
		for _, arm := range arms[1:] {
			x, base := paired(by[name][arm], by[name][before])
			if len(x) == 0 {
				continue
			}
			now, was := x.each("all", wait), base.each("all", wait)
			differences := make([]float64, len(now))
			for i := range now {
				differences[i] = now[i] - was[i]
			}
			mean, half := interval(differences)
			came := 1 - stats.Mean(now)/stats.Mean(was)
			// A live rule that decides otherwise in another run promises something else.
			var gain, low, high []float64
			for _, r := range x {
				gain, low, high = append(gain, r.Gain), append(low, r.Low), append(high, r.High)
			}
			promised := stats.Mean(gain)
			arrived := "-"
			if promised > 0 {
				arrived = fmt.Sprintf("%.0f %%", 100*came/promised)
			}
			text := fmt.Sprintf("%.0f %%", 100*promised)
			if slices.Max(high) > 0 {
				text += fmt.Sprintf(" (%.0f to %.0f)", 100*stats.Mean(low), 100*stats.Mean(high))
			}
			row(w, name, arm, text,
				fmt.Sprintf("%.0f %%", 100*came), fmt.Sprintf("%+.1f ± %.1f", mean, half), arrived,
				losses(x, base, by[name][history]), x.said())
		}
	}
}

// said is the changes before the first job, and the ones while jobs ran.
func (x runs) said() string {
	first, then := map[string]bool{}, ""
	for _, r := range x {
		text := "none"
		for _, c := range r.Changes {
			if c.At == 0 {
				text = strings.Join(c.Settings, " ")
			} else {
				then += fmt.Sprintf("; seed %d at %.0f s: %s", r.Seed, c.At, strings.Join(c.Settings, " "))
			}
		}
		first[text] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(first)), " or ") + then
}

// losses are the differences of the tenants' mean p95, with a star at one that is worse than the default's by more than
// a tenth and a second, and by more than the means of as many runs of the default differ by chance (two standard
// errors).
func losses(x, base, repeats runs) string {
	var out []string
	for i := range tenants {
		was, now := stats.Mean(base.each(tenant(i), p95)), stats.Mean(x.each(tenant(i), p95))
		all := append(base.each(tenant(i), p95), repeats.each(tenant(i), p95)...)
		chance := 0.0
		if len(all) > 1 {
			chance = 2 * math.Sqrt2 * stat.StdErr(stat.StdDev(all, nil), float64(len(x)))
		}
		text := fmt.Sprintf("%+.0f", now-was)
		if worse := now - was; worse > .1*was+1 {
			text += " (more than 10 % and 1 s)"
			if worse > chance {
				text += "*"
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
