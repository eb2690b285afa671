// Package chronus is Chronus (Gao et al., SoCC 2021): jobs with deadlines (SLO
// jobs) and best-effort jobs share a cluster by leases. In each lease term the SLO
// jobs with a feasible deadline come first, the earliest deadline first; the rest
// of the GPUs goes to best-effort jobs, least attained service first. SLO jobs with
// an infeasible deadline, and those beyond the share of the cluster that SLO jobs
// may have, count as best-effort jobs.
//
// Chronus packs lease blocks by a mixed-integer program and admits an SLO job only
// if its deadline can be guaranteed; this is its greedy form, which guarantees
// none. Terms begin at the same instants for all jobs. A deadline is feasible if
// the estimated run time (simulator.Options.Estimate) fits before it; without an
// estimate, until it has passed. Profiling is left out.
//
// Where a trace has no deadlines, a share of the jobs can be given synthetic ones,
// at a multiple of the estimated run time. Jobs are drawn by their key, so that
// recurring jobs agree. Synthetic deadlines matter to this scheduler alone; the
// metrics count declared deadlines.
package chronus

import (
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Chronus's parameters.
func Space() []space.Param {
	return []space.Param{
		{ID: "lease_term", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 14400, Log: true, Unit: "s",
			Default:     space.Num(1200),
			Description: "time between decisions on which jobs run; a started job keeps its GPUs for as much progress"},
		{ID: "slo_gpus", Module: "admission", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(1),
			Description: "share of the GPUs that jobs with deadlines may have before best-effort jobs"},
		{ID: "slo_share", Module: "workload", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(0),
			Description: "share of the jobs without a deadline that are given one, if their run time is reported"},
		{ID: "slo_factor", Module: "workload", Kind: space.KindFloat, Min: 1, Max: 20, Log: true, Default: space.Num(2),
			Description: "such a deadline is the submission plus this many times the reported run time"},
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return rounds.New(c.Get("lease_term").Duration(),
		&ranker{gpus: c.Get("slo_gpus").Float(), share: c.Get("slo_share").Float(),
			factor: c.Get("slo_factor").Float()})
}

// none is the deadline of best-effort jobs.
const none = time.Duration(math.MaxInt64)

type ranker struct {
	gpus, share, factor float64

	s       *simulator.View
	service *rounds.Service
	jobs    []job         // by job
	slo     []lanes.Entry // jobs with a feasible deadline
}

type job struct {
	deadline time.Duration // declared or synthetic; 0 until it is asked for
	first    bool          // comes before best-effort jobs in this round
}

func (r *ranker) Begin(s *simulator.View, received *rounds.Service) {
	r.s, r.service = s, received
	r.jobs = r.jobs[:0]
}

// deadlineOf returns the instant by which a job should end, none for best-effort
// jobs.
func (r *ranker) deadlineOf(j simulator.ID) time.Duration {
	r.jobs = lanes.Grow(r.jobs, j)
	x := &r.jobs[j]
	if x.deadline == 0 {
		x.deadline = r.find(j)
	}
	return x.deadline
}

func (r *ranker) find(j simulator.ID) time.Duration {
	if at := r.s.JobDeadline(j); at != 0 {
		return at
	}
	estimate, ok := r.s.JobEstimate(j)
	if !ok || r.share <= 0 {
		return none
	}
	key := r.s.JobKey(j)
	if key == "" {
		key = r.s.JobName(j)
	}
	if draw(key) >= r.share {
		return none
	}
	return r.s.JobSubmit(j) + time.Duration(float64(estimate)*r.factor)
}

// draw hashes a key to a number from 0 to 1. FNV alone maps short keys that differ
// in the last letter to close numbers, so the finaliser of MurmurHash3 follows.
func draw(key string) float64 {
	h := fnv.New32a()
	h.Write([]byte(key))
	x := h.Sum32()
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return float64(x^x>>16) / (1 << 32)
}

// feasible reports whether a deadline can be met if the job runs from now on.
func (r *ranker) feasible(j simulator.ID, deadline time.Duration) bool {
	rest := time.Duration(1)
	if estimate, ok := r.s.JobEstimate(j); ok {
		rest = max(rest, estimate-r.service.Received(j))
	}
	return r.s.Now() <= deadline-rest
}

func (r *ranker) Prepare(active *lanes.List) {
	r.slo = r.slo[:0]
	for i := range active.Len() {
		j := active.At(i).ID
		d := r.deadlineOf(j)
		r.jobs[j].first = false
		if d != none && r.feasible(j, d) {
			r.slo = append(r.slo, lanes.Entry{Key: int64(d), ID: j})
		}
	}
	slices.SortFunc(r.slo, lanes.Entry.Compare)
	quota := int(r.gpus * float64(r.s.TotalGPUs()))
	for _, e := range r.slo {
		if g := r.s.JobDemand(e.ID); g <= quota {
			quota -= g
			r.jobs[e.ID].first = true
		}
	}
}

// beforeAll ranks SLO jobs before all others, in seconds.
const beforeAll = 1e11

func (r *ranker) Rank(j simulator.ID) float64 {
	if x := r.jobs[j]; x.first {
		return x.deadline.Seconds() - beforeAll
	}
	return r.service.Attained(j).Seconds()
}

// Line orders SLO jobs first, by deadline, whether it is feasible or not: the key
// must not change while a job waits.
func (r *ranker) Line(j simulator.ID) int64 {
	if d := r.deadlineOf(j); d != none && r.gpus > 0 {
		return int64(d/2) + math.MinInt64/2
	}
	return int64(r.service.Attained(j))
}
