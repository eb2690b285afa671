package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	"github.com/autosched/autosched/workload"
)

const (
	nodes       = 16
	gpusPerNode = 8
	shortest    = 3.0 // run times in seconds
	longest     = 180.0
)

// accounts have two users each, who exist on Debian.
var accounts = []slurmtest.Account{
	{Name: "vc1", Share: 10, Users: []string{"games", "man"}},
	{Name: "vc2", Share: 20, Users: []string{"lp", "mail"}},
	{Name: "vc3", Share: 10, Users: []string{"news", "uucp"}},
	{Name: "vc4", Share: 5, Users: []string{"proxy", "backup"}},
}

// job is a submission.
type job struct {
	at  float64 // seconds after the first submission
	run float64 // s
	slurmtest.Job
}

func (j *job) gpus() int { return max(1, j.Nodes) * j.Job.GPUs }

// limits are the time limits, in minutes, that users ask for.
var limits = []int{1, 2, 3, 5, 8, 10, 15, 20, 30, 60}

// draw compresses jobs of a trace in order of submission: arrivals are divided by a factor so that the submissions take
// a span, and run times by another, clipped, so that they are the load of the span. GPUs, order and spacing are
// the trace's, and accounts its virtual clusters, the three largest and the rest; users, QOS and limits are drawn. It
// reports false where no factor gives the load.
func draw(from []workload.Job, span time.Duration, load float64, seed uint64) ([]job, bool) {
	r := rand.New(rand.NewPCG(seed, 5))
	factor := (from[len(from)-1].Submit - from[0].Submit).Seconds() / span.Seconds()
	account := byJobs(from)
	run := func(j *workload.Job, factor float64) float64 {
		return max(shortest, min(j.Duration.Seconds()/factor, longest))
	}
	work := func(factor float64) (sum float64) {
		for i := range from {
			sum += width(&from[i]) * run(&from[i], factor)
		}
		return sum / (span.Seconds() * nodes * gpusPerNode)
	}
	low, high := 1.0, 1e6
	if work(low) < load || work(high) > load {
		return nil, false
	}
	for range 60 {
		if middle := math.Sqrt(low * high); work(middle) > load {
			low = middle
		} else {
			high = middle
		}
	}
	var out []job
	for i := range from {
		f := &from[i]
		a := accounts[account[f.Tenant]]
		j := job{at: (f.Submit - from[0].Submit).Seconds() / factor, run: run(f, high)}
		gpus := int(width(f))
		j.Nodes = (gpus + gpusPerNode - 1) / gpusPerNode
		j.GPUs = (gpus + j.Nodes - 1) / j.Nodes
		j.Seconds = int(math.Round(j.run))
		j.Account, j.User = a.Name, a.Users[r.IntN(len(a.Users))]
		j.QOS = "normal"
		switch x := r.Float64(); {
		case x < .1:
			j.QOS = "high"
		case x < .3:
			j.QOS = "low"
		}
		asked := j.run * 2.5 * math.Exp(.6*r.NormFloat64())
		j.Minutes = 10 // the partition's default
		if r.Float64() >= .15 || j.run > 540 {
			k, _ := slices.BinarySearch(limits, int(math.Ceil(max(asked, j.run+20)/60)))
			j.Minutes = limits[min(k, len(limits)-1)]
		}
		out = append(out, j)
	}
	return out, true
}

// width is the GPUs of a job, at most a quarter of the cluster's.
func width(j *workload.Job) float64 {
	return float64(min(max(1, j.GPUs.Whole()), nodes*gpusPerNode/4))
}

// byJobs numbers the tenants by their jobs: 0 to 2, and 3 for the rest.
func byJobs(from []workload.Job) map[string]int {
	count := map[string]int{}
	for i := range from {
		count[from[i].Tenant]++
	}
	var names []string
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	out := map[string]int{}
	for i, name := range names {
		out[name] = min(i, len(accounts)-1)
	}
	return out
}

// windows are the part of a trace that a seed runs, and the part before it, which is its history.
type windows struct {
	history, run []job
	first        int // row of the trace of the first job of run
}

// historyRuns is how many runs long the history is.
const historyRuns = 4

// mixed reports whether jobs are of several accounts, widths and run times: the largest account has at most four of
// five, two are of 16 GPUs and more, and half are shorter than a minute.
func mixed(jobs []job) bool {
	count, wide, short := map[string]int{}, 0, 0
	for i := range jobs {
		count[jobs[i].Account]++
		if jobs[i].gpus() >= 16 {
			wide++
		}
		if jobs[i].run < 60 {
			short++
		}
	}
	for _, n := range count {
		if 5*n > 4*len(jobs) {
			return false
		}
	}
	return wide >= 2 && 2*short >= len(jobs)
}

// choose draws the windows of a seed: of the mixed windows that do not overlap, in order, one of as many parts as
// there are seeds. The history is a number of windows long.
func choose(jobs []workload.Job, n, before int, span time.Duration, load float64, seed, seeds int) (*windows, error) {
	var all []windows
	for first := n * before; first+n <= len(jobs); first += n / 4 {
		if len(all) > 0 && first < all[len(all)-1].first+n {
			continue
		}
		run, ok := draw(jobs[first:first+n], span, load, uint64(first))
		if !ok || !mixed(run) {
			continue
		}
		var history []job
		for k := range before {
			begin := first - (before-k)*n
			drawn, ok := draw(jobs[begin:begin+n], span, load, uint64(begin))
			if !ok {
				break
			}
			for i := range drawn {
				drawn[i].at += float64(k) * span.Seconds()
			}
			history = append(history, drawn...)
		}
		if len(history) == before*n {
			all = append(all, windows{history: history, run: run, first: first})
		}
	}
	if len(all) < seeds {
		return nil, fmt.Errorf("of the trace, %d windows of %d jobs are mixed and can have a load of %g in %v: "+
			"fewer than --seeds %d",
			len(all), n, load, span, seeds)
	}
	return &all[(seed-1)*len(all)/seeds], nil
}
