// Package gavel is Gavel (Narayanan et al., OSDI 2020) on a cluster of equal
// GPUs: time is divided into rounds, and each round runs the jobs whose received
// time lags most behind their allocation.
//
// Gavel computes each job's allocation by a linear program over the throughput on
// each type of GPU. With equal GPUs max_min has a closed form: every job gets the
// same number of GPUs over time, or all it asks for if that is less
// (water-filling). Jobs run in order of the time received over the time due, as in
// Gavel's round-based mechanism (section 5). finish_time_fairness is greedy: the
// jobs with the largest expected finish-time fairness run, where the remaining run
// time follows from the estimate (simulator.Options.Estimate) or, without one,
// equals the time the job has run. Space sharing (packing) is left out.
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
		{ID: "policy", Module: "scheduling", Kind: space.KindCategorical,
			Categories: []string{"max_min", "finish_time_fairness"}, Default: space.Text("max_min"),
			Description: "which job is furthest behind: by GPU-time received over GPU-time due, or by expected " +
				"finish-time fairness"},
		{ID: "round_length", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 14400, Log: true, Unit: "s",
			Default:     space.Num(360),
			Description: "time between decisions on which jobs run; a started job keeps its GPUs for as much progress"},
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	length := c.Get("round_length").Duration()
	return rounds.New(length, &ranker{length: length, byRho: c.Get("policy").Text() == "finish_time_fairness"})
}

type ranker struct {
	length time.Duration
	byRho  bool

	s       *simulator.View
	service *rounds.Service
	widths  []int
	level   float64 // GPUs that each job gets over time, if it asks for as many
	active  int
}

func (r *ranker) Begin(s *simulator.View, received *rounds.Service) { r.s, r.service = s, received }

func (r *ranker) Prepare(active *lanes.List) {
	r.active = active.Len()
	if r.byRho {
		return
	}
	r.widths = r.widths[:0]
	for i := range active.Len() {
		r.widths = append(r.widths, r.s.JobDemand(active.At(i).ID))
	}
	slices.Sort(r.widths)
	r.level = fill(r.widths, r.s.TotalGPUs())
}

// fill is the water level of a number of GPUs poured over jobs of sorted widths:
// narrower jobs get their width, all others the level.
func fill(widths []int, gpus int) float64 {
	rest := gpus
	for i, w := range widths {
		if w*(len(widths)-i) > rest {
			return float64(rest) / float64(len(widths)-i)
		}
		rest -= w
	}
	return float64(gpus)
}

func (r *ranker) Rank(j simulator.ID) float64 {
	age := (r.s.Now() - r.s.JobSubmit(j)).Seconds()
	if r.byRho {
		return -r.rho(j, age)
	}
	due := min(1, r.level/float64(r.s.JobDemand(j))) * age
	if due <= 0 {
		return 0
	}
	return r.service.Received(j).Seconds() / due
}

// rho is the expected finish time over that on an equal share of the cluster.
func (r *ranker) rho(j simulator.ID, age float64) float64 {
	ran := r.service.Received(j)
	total := 2 * ran
	if estimate, ok := r.s.JobEstimate(j); ok {
		total = estimate
	}
	total = max(total, ran+r.length) // it is not done yet
	share := float64(r.s.JobDemand(j)) * float64(r.active) / float64(r.s.TotalGPUs())
	return (age + (total - ran).Seconds()) / (total.Seconds() * max(1, share))
}

func (r *ranker) Line(j simulator.ID) int64 { return int64(r.service.Received(j)) }
