// Package gavel is Gavel (Narayanan et al., OSDI 2020) on a cluster of equal
// GPUs: time is cut into rounds, and in each the jobs run that are furthest
// behind what the policy wants them to have.
//
// Gavel computes the wanted share of time of each job by a linear program over
// the throughput on each type of GPU. Here all GPUs are equal, so max_min has a
// closed form: the program gives every job the same number of GPUs over time, or
// all that it asks for if that is less (water-filling). Jobs run in order of the
// time they received over the time they were due, as in Gavel's round-based
// mechanism (section 5). finish_time_fairness is its greedy form: the jobs with
// the largest expected finish-time fairness run, where the rest of the run time
// is what the scheduler was told, or, told nothing, as long as the job has
// already run. Space sharing (packing) is left out.
package gavel

import (
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Gavel's parameters. The default round is the paper's.
func Space() []space.Param {
	return []space.Param{
		{ID: "policy", Module: "scheduling", Kind: space.KindCategorical, Categories: []string{"max_min", "finish_time_fairness"}, Default: space.Text("max_min"),
			Description: "who is furthest behind: by GPU-time received over GPU-time due, or by expected finish-time fairness"},
		{ID: "round_length", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 14400, Log: true, Unit: "s", Default: space.Num(360),
			Description: "time between decisions on who runs; a started job keeps its GPUs for as much progress"},
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	length := time.Duration(c.Get("round_length").Float() * float64(time.Second))
	return rounds.New(length, &ranker{length: length, byRho: c.Get("policy").Text() == "finish_time_fairness"})
}

type ranker struct {
	length time.Duration
	byRho  bool

	s       *simulator.Sim
	service *rounds.Service
	jobs    []job
	widths  []count // of the active jobs, narrowest first
	active  int
}

// job is what ranks need of a job again and again.
type job struct {
	submit   time.Duration
	received time.Duration // when it last began to wait
	seconds  float64       // the same
	due      float64       // share of the time that it should run
	gpus     int
}

type count struct{ width, jobs int }

func (r *ranker) Begin(s *simulator.Sim, received *rounds.Service) {
	r.s, r.service, r.jobs = s, received, r.jobs[:0]
}

// job is the record of a job.
func (r *ranker) job(j simulator.ID) *job {
	for int(j) >= len(r.jobs) {
		id := simulator.ID(len(r.jobs))
		r.jobs = append(r.jobs, job{submit: r.s.JobSubmit(id), gpus: r.s.JobGPUs(id)})
	}
	return &r.jobs[j]
}

// Prepare finds what jobs are due, which changes with who is active.
func (r *ranker) Prepare(active *lanes.List, changed bool) (keep bool) {
	r.active = active.Len()
	if r.byRho || !changed {
		return false
	}
	r.widths = r.widths[:0]
	for i := range active.Len() {
		r.widths = add(r.widths, r.job(active.At(i).ID).gpus)
	}
	level := fill(r.widths, r.active, r.s.Cluster().TotalGPUs())
	for i := range active.Len() {
		x := &r.jobs[active.At(i).ID]
		x.due = min(1, level/float64(x.gpus))
	}
	return false
}

// add counts a job of a width.
func add(widths []count, width int) []count {
	k := len(widths)
	for k > 0 && widths[k-1].width >= width {
		k--
	}
	if k == len(widths) || widths[k].width != width {
		widths = slices.Insert(widths, k, count{width: width})
	}
	widths[k].jobs++
	return widths
}

// fill is the level to which water poured over so many jobs of some widths rises:
// nobody gets more than his width, all others the same.
func fill(widths []count, jobs, gpus int) float64 {
	rest := gpus
	for _, w := range widths {
		if w.width*jobs > rest {
			return float64(rest) / float64(jobs)
		}
		rest -= w.width * w.jobs
		jobs -= w.jobs
	}
	return float64(gpus)
}

func (r *ranker) Rank(list []rounds.Ranked, running bool) {
	now := r.s.Now()
	for i := range list {
		id := list[i].ID
		x := r.job(id)
		age := (now - x.submit).Seconds()
		if r.byRho {
			ran := x.received
			if running {
				ran = r.service.Received(id)
			}
			list[i].Key = -r.rho(id, x.gpus, ran, age)
			continue
		}
		seconds := x.seconds
		if running {
			seconds = r.service.Received(id).Seconds()
		}
		list[i].Key = 0
		if due := x.due * age; due > 0 {
			list[i].Key = seconds / due
		}
	}
}

// rho is the expected finish time over that on an own share of the cluster.
func (r *ranker) rho(j simulator.ID, gpus int, ran time.Duration, age float64) float64 {
	total := 2 * ran
	if told, ok := r.s.JobEstimate(j); ok {
		total = told
	}
	total = max(total, ran+r.length) // it is not done yet
	share := float64(gpus) * float64(r.active) / float64(r.s.Cluster().TotalGPUs())
	return (age + (total - ran).Seconds()) / float64(total.Seconds()*max(1, share))
}

func (r *ranker) Line(j simulator.ID) int64 {
	x := r.job(j)
	x.received = r.service.Received(j)
	x.seconds = x.received.Seconds()
	return int64(x.received)
}
