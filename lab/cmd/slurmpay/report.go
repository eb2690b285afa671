package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/stats"
)

// report prints the tables of the file of results.
func (o *options) report(w io.Writer) error {
	all, err := o.results()
	if err != nil {
		return err
	}
	e := gather(all, strings.Split(o.only, ","))
	if len(e.seeds) == 0 {
		return fmt.Errorf("%s has no workload with a run of each of %v", o.out, e.arms)
	}
	if len(e.arms) < 2 {
		return errors.New(o.out + " has runs of fewer than two arms")
	}
	e.runs(w)
	e.gains(w)
	e.tails(w)
	e.rule(w)
	for _, first := range e.repeated() {
		fmt.Fprintf(w, "\nWorkload %d under %s again: mean wait %.1f s", first.Seed, first.Arm, first.Wait)
		for _, r := range e.repeats {
			if r.Seed == first.Seed && r.Arm == first.Arm {
				fmt.Fprintf(w, ", %.1f s", r.Wait)
			}
		}
		fmt.Fprintln(w, ".")
	}
	return nil
}

// evaluation has the compared arms on the workloads on which all of them ran.
type evaluation struct {
	arms    []string
	seeds   []uint64
	by      map[uint64]map[string]*result
	repeats []*result // of runs of by
}

func gather(all []result, only []string) *evaluation {
	e := &evaluation{by: map[uint64]map[string]*result{}}
	for i := range all {
		r := &all[i]
		if r.Repeat > 0 {
			e.repeats = append(e.repeats, r)
			continue
		}
		if e.by[r.Seed] == nil {
			e.by[r.Seed] = map[string]*result{}
		}
		e.by[r.Seed][r.Arm] = r
	}
	for _, arm := range arms {
		if slices.Contains(only, arm) && slices.ContainsFunc(all, func(r result) bool { return r.Arm == arm }) {
			e.arms = append(e.arms, arm)
		}
	}
	for seed, runs := range e.by {
		if !slices.ContainsFunc(e.arms, func(arm string) bool { return runs[arm] == nil }) {
			e.seeds = append(e.seeds, seed)
		}
	}
	slices.Sort(e.seeds)
	return e
}

// repeated are the first of runs that were repeated.
func (e *evaluation) repeated() (out []*result) {
	for _, r := range e.repeats {
		if first := e.by[r.Seed][r.Arm]; first != nil && !slices.Contains(out, first) {
			out = append(out, first)
		}
	}
	return out
}

// bases are the arms that others are compared with.
func (e *evaluation) bases() (out []string) {
	for _, base := range []string{"default", "intervals", "site", "fixed"} {
		if slices.Contains(e.arms, base) {
			out = append(out, base)
		}
	}
	return out
}

// compared reports whether an arm is compared with a base: the arms after it.
func compared(arm, base string) bool { return slices.Index(arms, arm) > slices.Index(arms, base) }

// measure is a figure of a run, as it came and as promised; NaN for none.
type measure func(*result) (came, promised float64)

func meanWait(r *result) (came, promised float64) { return r.Wait, r.Promised }

// p95 is the p95 of the waits of some jobs. The promise for a job is the mean over the members.
func p95(in func(*recorded) bool) measure {
	return func(r *result) (float64, float64) {
		came, promised := r.of(in)
		slices.Sort(came)
		slices.Sort(promised)
		return stats.Quantile(came, .95), stats.Quantile(promised, .95)
	}
}

// of are the waits of some jobs, as they came and as promised.
func (r *result) of(in func(*recorded) bool) (came, promised []float64) {
	for i := range r.Jobs {
		if in(&r.Jobs[i]) {
			came, promised = append(came, r.Jobs[i].wait()), append(promised, r.WaitOf[i])
		}
	}
	return came, promised
}

// each has the figure of an arm on each workload, paired with a base's by f.
func (e *evaluation) each(arm, base string, m measure, f func(arm, base float64) float64) (came, promised []float64) {
	for _, seed := range e.seeds {
		x, px := m(e.by[seed][arm])
		y, py := m(e.by[seed][base])
		if !math.IsNaN(x) {
			came, promised = append(came, f(x, y)), append(promised, f(px, py))
		}
	}
	return came, promised
}

// interval is the mean and its 95 % interval, Student's: of differences between runs of the same workload, it
// holds for workloads drawn as these are.
func interval(x []float64) (mean, low, high float64) {
	n := float64(len(x))
	if mean = stats.Mean(x); n < 2 {
		return mean, math.Inf(-1), math.Inf(1)
	}
	sum := 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975) * math.Sqrt(sum/(n-1)/n)
	return mean, mean - half, mean + half
}

func minus(x, y float64) float64 { return x - y }

// table begins a table of Markdown.
func table(w io.Writer, columns ...string) {
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
}

func row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// runs prints the result of each run.
func (e *evaluation) runs(w io.Writer) {
	table(w, "workload", "arm", "mean wait, s", "promised", "p95 wait, s", "promised", "wait at 16 GPUs and more, s",
		"promised", "longest cycle, s", "changes", "chosen")
	for _, seed := range e.seeds {
		for _, arm := range e.arms {
			r := e.by[seed][arm]
			tail, promisedTail := p95(func(*recorded) bool { return true })(r)
			wide, promisedWide := r.of(wide)
			chosen := r.Chosen
			if r.Forecast != 0 {
				chosen = fmt.Sprintf("forecast %+.0f %%", 100*(r.Forecast-1))
			}
			cycle := fmt.Sprintf("%.1f", max(r.Machine.Main, r.Machine.Backfill))
			if r.Machine.disturbed() {
				cycle += "*"
			}
			row(w, fmt.Sprint(seed), arm, fmt.Sprintf("%.1f | %.1f", r.Wait, r.Promised),
				fmt.Sprintf("%.0f | %.0f", tail, promisedTail),
				fmt.Sprintf("%.0f | %.0f", stats.Mean(wide), stats.Mean(promisedWide)), cycle,
				fmt.Sprint(len(r.Changes)-1), chosen)
		}
	}
}

// gains prints the mean wait of arms against bases: the effects of the intervals, of the order, and of both.
func (e *evaluation) gains(w io.Writer) {
	table(w, "part", "against", "arm", "mean wait, ratio", "95 % interval", "promised", "gain, s", "95 % interval",
		"promised, s", "arrives")
	for _, base := range e.bases() {
		for _, arm := range e.arms {
			if !compared(arm, base) {
				continue
			}
			part := "order" // all arms but the default have the same intervals
			if base == "default" {
				if part = "both"; arm == "intervals" {
					part = "cadence"
				}
			}
			logs, promisedLogs := e.each(arm, base, meanWait, func(x, y float64) float64 { return math.Log(x / y) })
			ratio, low, high := interval(logs)
			gains, promisedGains := e.each(arm, base, meanWait, func(x, y float64) float64 { return y - x })
			gain, least, most := interval(gains)
			promised, arrives := stats.Mean(promisedGains), "-"
			if promised >= 1 { // Slurm's unit
				arrives = fmt.Sprintf("%.0f %%", 100*gain/promised)
			}
			row(w, part, base, arm, fmt.Sprintf("%.2f | %.2f to %.2f | %.2f", math.Exp(ratio), math.Exp(low),
				math.Exp(high), math.Exp(stats.Mean(promisedLogs))),
				fmt.Sprintf("%.1f | %.1f to %.1f | %.1f", gain, least, most, promised), arrives)
		}
	}
}

func wide(j *recorded) bool { return j.Nodes*j.GPUs >= 16 }

// group is jobs of a width or an account.
type group struct {
	name string
	in   func(*recorded) bool
}

// accounts lists the accounts with jobs.
func (e *evaluation) accounts() (out []group) {
	for _, a := range accounts {
		out = append(out, group{a.Name, func(j *recorded) bool { return j.Account == a.Name }})
	}
	return slices.DeleteFunc(out, func(g group) bool { return e.jobs(g) == 0 })
}

// groups are the widths and accounts of which there are jobs.
func (e *evaluation) groups() []group {
	widths := []group{
		{"1", func(j *recorded) bool { return j.Nodes*j.GPUs == 1 }},
		{"2-15", func(j *recorded) bool { return j.Nodes*j.GPUs > 1 && !wide(j) }},
		{"16 and more", wide},
	}
	return append(slices.DeleteFunc(widths, func(g group) bool { return e.jobs(g) == 0 }), e.accounts()...)
}

// jobs is how many jobs of a group the workloads have.
func (e *evaluation) jobs(g group) (n int) {
	for _, seed := range e.seeds {
		came, _ := e.by[seed][e.arms[0]].of(g.in)
		n += len(came)
	}
	return n
}

// tails prints the p95 of waits by width and account, mean of the workloads, and how it differs from the bases'.
func (e *evaluation) tails(w io.Writer) {
	table(w, append([]string{"p95 wait, came / promised, s", "jobs"}, e.arms...)...)
	for _, g := range e.groups() {
		cells := []string{g.name, fmt.Sprint(e.jobs(g))}
		for _, arm := range e.arms {
			came, promised := e.each(arm, arm, p95(g.in), func(x, _ float64) float64 { return x })
			cells = append(cells, fmt.Sprintf("%.0f / %.0f", stats.Mean(came), stats.Mean(promised)))
		}
		row(w, cells...)
	}
	table(w, append([]string{"against", "difference of p95 (95 % interval) / promised, s"}, e.arms[1:]...)...)
	for _, base := range e.bases() {
		for _, g := range e.groups() {
			cells := []string{base, g.name}
			for _, arm := range e.arms[1:] {
				cell := ""
				if compared(arm, base) {
					came, promised := e.each(arm, base, p95(g.in), minus)
					mean, low, high := interval(came)
					cell = fmt.Sprintf("%+.0f (%+.0f to %+.0f) / %+.0f", mean, low, high, stats.Mean(promised))
				}
				cells = append(cells, cell)
			}
			row(w, cells...)
		}
	}
}

// leastJobs is the jobs of an account in a run for which the rule holds: its p95 wait may not be worse by more than a
// tenth and graceSeconds, beyond the difference of repeats of a configuration.
const leastJobs, graceSeconds = 30, 15

// rule prints the runs that break the rule, with the difference that came and that was promised.
func (e *evaluation) rule(w io.Writer) {
	table(w, append([]string{"against", "account", "runs", "repeats differ by, s"}, e.arms[1:]...)...)
	for _, base := range e.bases() {
		for _, a := range e.accounts() {
			differ, runs := e.differ(p95(a.in)), 0
			lost := map[string][]string{}
			for _, seed := range e.seeds {
				of := e.by[seed][base]
				if jobs, _ := of.of(a.in); len(jobs) < leastJobs {
					continue
				}
				runs++
				before, promisedBefore := p95(a.in)(of)
				for _, arm := range e.arms[1:] {
					after, promised := p95(a.in)(e.by[seed][arm])
					if compared(arm, base) && after-before > .1*before+graceSeconds+differ {
						lost[arm] = append(lost[arm], fmt.Sprintf("%d: %+.0f / %+.0f", seed, after-before,
							promised-promisedBefore))
					}
				}
			}
			cells := []string{base, a.name, fmt.Sprint(runs), "-"}
			if len(e.repeated()) > 0 {
				cells[3] = fmt.Sprintf("%.0f", differ)
			}
			for _, arm := range e.arms[1:] {
				cell := strings.Join(lost[arm], ", ")
				if cell == "" && runs > 0 && compared(arm, base) {
					cell = "kept"
				}
				cells = append(cells, cell)
			}
			row(w, cells...)
		}
	}
}

// differ is the largest range of a figure over a run and its repeats.
func (e *evaluation) differ(m measure) (most float64) {
	for _, first := range e.repeated() {
		low, _ := m(first)
		high := low
		for _, r := range e.repeats {
			if r.Seed == first.Seed && r.Arm == first.Arm {
				x, _ := m(r)
				low, high = min(low, x), max(high, x)
			}
		}
		if high-low > most { // neither is NaN
			most = high - low
		}
	}
	return most
}
