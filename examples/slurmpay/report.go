package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload"
)

// report prints the tables of the runs: arms over the workloads that have all of them.
func (o *options) report(ctx context.Context) error {
	all, err := o.results()
	if err != nil {
		return err
	}
	by := map[uint64]map[string]result{}
	var repeats []result
	for _, r := range all {
		if r.Repeat > 0 {
			repeats = append(repeats, r)
			continue
		}
		if by[r.Seed] == nil {
			by[r.Seed] = map[string]result{}
		}
		by[r.Seed][r.Arm] = r
	}
	var present []string
	for _, arm := range arms {
		if slices.Contains(strings.Split(o.only, ","), arm) &&
			slices.ContainsFunc(all, func(r result) bool { return r.Arm == arm }) {
			present = append(present, arm)
		}
	}
	var seeds []uint64
	for seed, runs := range by {
		if !slices.ContainsFunc(present, func(arm string) bool { _, ran := runs[arm]; return !ran }) {
			seeds = append(seeds, seed)
		}
	}
	if slices.Sort(seeds); len(seeds) == 0 {
		return errors.New(o.out + " has no workload with a run of each of " + fmt.Sprint(present))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "| workload |\tarm |\tmean wait, s |\tpromised, s |\tp95 wait, s |\twait at 16 GPUs and more, s |"+
		"\tmean JCT, s |\tlongest cycle, s |\tchanges |\tchosen |")
	fmt.Fprintln(w, "| --- |\t--- |\t--- |\t--- |\t--- |\t--- |\t--- |\t--- |\t--- |\t--- |")
	for _, seed := range seeds {
		for _, arm := range present {
			r := by[seed][arm]
			wide, _ := r.of(func(j *recorded) bool { return j.Nodes*j.GPUs >= 16 })
			jct := 0.0
			for _, j := range r.Jobs {
				jct += (j.End - j.Submit) / float64(len(r.Jobs))
			}
			chosen := r.Chosen
			if r.Forecast != 0 {
				chosen = fmt.Sprintf("forecast %+.0f %%", 100*(r.Forecast-1))
			}
			disturbed := ""
			if r.Machine.disturbed() {
				disturbed = "*"
			}
			fmt.Fprintf(w, "| %d |\t%s |\t%.1f |\t%.1f |\t%.0f |\t%.0f |\t%.1f |\t%.1f%s |\t%d |\t%s |\n", seed,
				arm, r.Wait, r.Promised, stats.Quantile(waits(r.Jobs), .95), stats.Mean(wide), jct,
				max(r.Machine.Main, r.Machine.Backfill), disturbed, len(r.Changes)-1, chosen)
		}
	}
	for _, seed := range seeds {
		r, ok := by[seed]["default"]
		if !ok {
			continue
		}
		wait, err := cadence(ctx, r.Jobs)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nWorkload %d in the default order with the site's intervals: promised %.1f s.\n", seed, wait)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| against |\tarm |\tmean wait, ratio |\t95 % interval |\tpromised |\tshare of the promised gain |")
	fmt.Fprintln(w, "| --- |\t--- |\t--- |\t--- |\t--- |\t--- |")
	for _, base := range []string{"default", "intervals", "site"} {
		if !slices.Contains(present, base) {
			continue
		}
		for _, arm := range present {
			if arm == base || arm == "default" {
				continue
			}
			var came, promised []float64 // logarithms of ratios by workload
			var a, b, pa, pb float64
			for _, seed := range seeds {
				x, y := by[seed][arm], by[seed][base]
				came = append(came, math.Log(x.Wait/y.Wait))
				promised = append(promised, math.Log(x.Promised/y.Promised))
				a, b, pa, pb = a+x.Wait, b+y.Wait, pa+x.Promised, pb+y.Promised
			}
			low, high := interval(came)
			fmt.Fprintf(w, "| %s |\t%s |\t%.2f |\t%.2f-%.2f |\t%.2f |\t%.0f %% |\n", base, arm,
				math.Exp(stats.Mean(came)), low, high, math.Exp(stats.Mean(promised)), 100*(b-a)/(pb-pa))
		}
	}
	fmt.Fprintln(w)
	base := "site"
	if !slices.Contains(present, base) {
		base = present[0]
	}
	fmt.Fprintf(w, "| account, or GPUs |\tjobs |\tarm |\tp95 wait, s |\tof %s |\n", base)
	fmt.Fprintln(w, "| --- |\t--- |\t--- |\t--- |\t--- |")
	groups := []struct {
		name string
		in   func(*recorded) bool
	}{{"1", func(j *recorded) bool { return j.Nodes*j.GPUs == 1 }},
		{"2-8", func(j *recorded) bool { n := j.Nodes * j.GPUs; return n > 1 && n <= 8 }},
		{"16 and more", func(j *recorded) bool { return j.Nodes*j.GPUs >= 16 }}}
	for _, a := range accounts {
		groups = append(groups, struct {
			name string
			in   func(*recorded) bool
		}{a.Name, func(j *recorded) bool { return j.Account == a.Name }})
	}
	for _, g := range groups {
		for _, arm := range present {
			var p95, of float64
			n := 0
			for _, seed := range seeds {
				r, s := by[seed][arm], by[seed][base]
				x, _ := r.of(g.in)
				y, _ := s.of(g.in)
				if len(x) == 0 || len(y) == 0 {
					continue
				}
				n += len(x)
				p95 += stats.Quantile(slices.Sorted(slices.Values(x)), .95) / float64(len(seeds))
				of += stats.Quantile(slices.Sorted(slices.Values(y)), .95) / float64(len(seeds))
			}
			fmt.Fprintf(w, "| %s |\t%d |\t%s |\t%.0f |\t%+.0f s |\n", g.name, n, arm, p95, p95-of)
		}
	}
	for _, r := range repeats {
		if first, ok := by[r.Seed][r.Arm]; ok {
			fmt.Fprintf(w, "\nWorkload %d under %s again: mean wait %.1f s, then %.1f s.\n", r.Seed, r.Arm,
				first.Wait, r.Wait)
		}
	}
	return w.Flush()
}

// cadence is the mean wait that the simulator gives jobs in the default order with the intervals of the site.
func cadence(ctx context.Context, jobs []recorded) (float64, error) {
	settings := func(text string) (slurm.Settings, error) {
		s := slurm.Defaults()
		c, err := conf.Read("slurm.conf", func(string) ([]byte, error) {
			return []byte("PriorityType=priority/multifactor\n" + fixedLines + "\n" + text + "\n"), nil
		})
		if err == nil {
			err = c.Apply(&s)
		}
		return s, err
	}
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: nodes, GPUsPerNode: gpusPerNode, CPUs: 64,
		Partition: "train"}}, Site: workload.Site{Partitions: []workload.Partition{{Name: "train"}}}}
	_, mean, err := promise(ctx, c, jobs, settings, []change{{Conf: siteIntervals}})
	return mean, err
}

func waits(jobs []recorded) []float64 {
	out := make([]float64, len(jobs))
	for i := range jobs {
		out[i] = jobs[i].wait()
	}
	slices.SortFunc(out, cmp.Compare)
	return out
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

// interval is Student's for the mean of logarithms, as ratios.
func interval(x []float64) (low, high float64) {
	n := float64(len(x))
	if n < 2 {
		return 0, math.Inf(1)
	}
	mean, sum := stats.Mean(x), 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	// Quantiles .975 for 1 to 9 degrees of freedom.
	t := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}[min(len(x)-2, 8)]
	half := t * math.Sqrt(sum/(n-1)/n)
	return math.Exp(mean - half), math.Exp(mean + half)
}
