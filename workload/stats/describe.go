// Package stats describes a workload: sizes, durations, arrivals and their
// periods, batches, recurrence, users, tenants, and the load on a cluster. Times
// are in seconds, GPU-time in GPU-hours.
package stats

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// Description is the result of Describe. Times are in seconds, GPU-time in GPU-hours,
// shares between 0 and 1.
type Description struct {
	Name      string    `json:"name"`
	Digest    string    `json:"digest"`
	Synthetic bool      `json:"synthetic"`
	Zero      time.Time `json:"zero"`
	Jobs      int       `json:"jobs"`
	First     time.Time `json:"first"` // first submission
	Last      time.Time `json:"last"`
	SpanS     float64   `json:"span_s"` // from the first to the last submission
	GPUHours  float64   `json:"gpu_hours"`
	MeanGPUs  float64   `json:"mean_gpus"`

	Sizes      []Size     `json:"gpu_sizes"` // in order of GPUs
	SizeBands  []Size     `json:"gpu_size_bands"`
	Durations  Quantiles  `json:"duration_s"`
	Service    Service    `json:"service"`
	Waits      *Waits     `json:"wait_s,omitempty"` // nil if no job's is known
	Arrivals   Arrivals   `json:"arrivals_per_hour"`
	Arrivals5  Bins       `json:"arrivals_per_5min"`
	Profile    Profile    `json:"arrival_profile"`
	Periods    []Periods  `json:"periods"` // of hourly counts, then of 5-minute ones
	Batches    Batches    `json:"batches"`
	Recurrence Recurrence `json:"recurrence"`
	Statuses   []Status   `json:"statuses"`
	Users      *Users     `json:"users,omitempty"` // nil if no job names one
	Models     []Model    `json:"models,omitempty"`
	Tenants    []Tenant   `json:"tenants"` // most GPU-time first
	Load       *Load      `json:"load,omitempty"`
}

// Size is the jobs of one size, or of more than the band before and at
// most GPUs; 0 stands for no limit. Bands without jobs are left out.
type Size struct {
	GPUs         float64 `json:"gpus"`
	Jobs         int     `json:"jobs"`
	JobShare     float64 `json:"job_share"`
	GPUTimeShare float64 `json:"gpu_time_share"`
	P50S         float64 `json:"p50_duration_s"`
	P90S         float64 `json:"p90_duration_s"`
	// WaitP50S is the median queueing delay of jobs with a known one.
	WaitP50S float64 `json:"p50_wait_s"`
}

// Quantiles of a distribution, linearly interpolated between order statistics.
type Quantiles struct {
	P10  float64 `json:"p10"`
	P25  float64 `json:"p25"`
	P50  float64 `json:"p50"`
	P75  float64 `json:"p75"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Arrivals count per whole hour of the wall clock, from the hour of the
// first submission to that of the last.
type Arrivals struct {
	Hours int     `json:"hours"`
	Mean  float64 `json:"mean"`
	CV    float64 `json:"cv"` // standard deviation over mean
	// VarOverMean is 1 for a Poisson process, and more for bursts.
	VarOverMean float64 `json:"variance_over_mean"`
	Max         int     `json:"max"`
	Empty       float64 `json:"empty"` // share of hours without any
}

// Batches describe sweeps: jobs of one tenant, of any size, with gaps of at
// most BatchGap.
type Batches struct {
	Batches  int      `json:"batches"`
	PerHour  Arrivals `json:"per_hour"` // of first submissions
	MeanSize float64  `json:"mean_size"`
	MaxSize  int      `json:"max_size"`
	Single   float64  `json:"single"` // share of batches that are one job
	// JobsIn2, 10 and 100 are the shares of jobs in batches of at least 2, 10 and 100.
	JobsIn2   float64 `json:"jobs_in_2"`
	JobsIn10  float64 `json:"jobs_in_10"`
	JobsIn100 float64 `json:"jobs_in_100"`
}

// Recurrence is how often keys recur. Jobs without a key count as
// not recurring.
type Recurrence struct {
	Keys int `json:"keys"`
	// Seen is the share of jobs whose key an earlier job had.
	Seen float64 `json:"seen"`
	// Over10 is the share of jobs whose key more than ten jobs have.
	Over10 float64 `json:"over_10"`
	// LnSD is the standard deviation of ln(duration) of all jobs; KeyLnSD that
	// around the mean of the job's key, over keys of two jobs or more. The
	// smaller it is, the better a job's key predicts its duration.
	LnSD    float64 `json:"ln_duration_sd"`
	KeyLnSD float64 `json:"ln_duration_sd_within_key"`
}

// Tenant is the jobs of one tenant.
type Tenant struct {
	Tenant       string  `json:"tenant"`
	Jobs         int     `json:"jobs"`
	JobShare     float64 `json:"job_share"`
	GPUHours     float64 `json:"gpu_hours"`
	GPUTimeShare float64 `json:"gpu_time_share"`
	MeanGPUs     float64 `json:"mean_gpus"`
	P50S         float64 `json:"p50_duration_s"`
	WaitP50S     float64 `json:"p50_wait_s"` // of jobs whose queueing delay is known
}

// Load compares the workload with a cluster.
type Load struct {
	Nodes       int `json:"nodes"`
	GPUsPerNode int `json:"gpus_per_node"` // 0 if nodes differ
	GPUs        int `json:"gpus"`
	// Offered is the GPU-time asked for over the cluster's between the first and
	// the last submission (workload.OfferedLoad): above 1 jobs must queue.
	Offered float64 `json:"offered"`
	// Wider counts the jobs that ask for more GPUs than the cluster has.
	Wider int `json:"wider_than_cluster"`
	// MeanInUse and MaxInUse are the GPUs in use between the first and the last
	// submission if no job ever waited, from an empty cluster; Over is the share
	// of that time in which they would be more than the cluster has.
	MeanInUse float64 `json:"mean_in_use_without_queue"`
	MaxInUse  float64 `json:"max_in_use_without_queue"`
	Over      float64 `json:"over_capacity_without_queue"`
}

// Describe computes the statistics; cluster may be nil.
func Describe(w *workload.Workload, cluster *workload.Cluster) Description {
	s := Description{Name: w.Name(), Digest: w.Digest(), Synthetic: w.Synthetic(), Zero: w.Zero(), Jobs: w.Len()}
	if w.Len() == 0 {
		return s
	}
	jobs := w.Jobs()
	first, last := w.Span()
	s.First, s.Last, s.SpanS = w.Clock(first), w.Clock(last), (last - first).Seconds()

	all := make([]float64, 0, len(jobs))
	for i := range jobs {
		if jobs[i].Status.Ended() {
			all = append(all, jobs[i].Duration.Seconds())
		}
		s.GPUHours += gpuHours(&jobs[i])
		s.MeanGPUs += float64(jobs[i].GPUs) / 1000
	}
	s.MeanGPUs /= float64(len(jobs))
	if len(all) > 0 {
		s.Durations = quantilesOf(all)
	}
	s.describeService(jobs, all)
	s.Arrivals = perHour(w, jobs, func(int) bool { return true })
	s.Arrivals5 = perBin(w, jobs, 5*time.Minute, func(int) bool { return true })
	s.Profile = profileOf(w)
	s.Periods = periodsOf(w)
	s.Batches = batchesOf(w)
	s.Recurrence = recurrence(jobs)
	if cluster != nil {
		s.Load = loadOf(w, cluster)
	}
	return s
}

// gpuHours returns a job's usage.
func gpuHours(j *workload.Job) float64 {
	if j.Status == workload.Pending {
		return 0
	}
	return float64(j.GPUs) / 1000 * j.Duration.Seconds() / 3600
}

func quantilesOf(v []float64) Quantiles {
	mean := stats.Mean(v)
	slices.Sort(v)
	return Quantiles{P10: stats.Quantile(v, .1), P25: stats.Quantile(v, .25), P50: stats.Quantile(v, .5),
		P75: stats.Quantile(v, .75), P90: stats.Quantile(v, .9),
		P95: stats.Quantile(v, .95), P99: stats.Quantile(v, .99), Max: v[len(v)-1], Mean: mean}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func batchesOf(w *workload.Workload) Batches {
	jobs := w.Jobs()
	type batch struct {
		last time.Duration
		size *int
	}
	open := map[string]batch{}
	var sizes []*int
	begins := make([]bool, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		b, ok := open[j.Tenant]
		if !ok || j.Submit-b.last > workload.BatchGap {
			b.size = new(int)
			sizes = append(sizes, b.size)
			begins[i] = true
		}
		*b.size++
		b.last = j.Submit
		open[j.Tenant] = b
	}
	n := float64(len(jobs))
	s := Batches{Batches: len(sizes), MeanSize: n / float64(len(sizes))}
	for _, p := range sizes {
		k := float64(*p)
		if *p == 1 {
			s.Single += 1 / float64(len(sizes))
		}
		s.MaxSize = max(s.MaxSize, *p)
		if *p >= 2 {
			s.JobsIn2 += k / n
		}
		if *p >= 10 {
			s.JobsIn10 += k / n
		}
		if *p >= 100 {
			s.JobsIn100 += k / n
		}
	}
	s.PerHour = perHour(w, jobs, func(i int) bool { return begins[i] })
	return s
}

func recurrence(jobs []workload.Job) Recurrence {
	type key struct {
		n, ended int
		sum      float64
		squares  float64
	}
	keys := map[string]*key{}
	var order []*key // sums in order of appearance: the same on every run
	var r Recurrence
	n, ended, sum, squares, seen := float64(len(jobs)), 0.0, 0.0, 0.0, 0
	for i := range jobs {
		j := &jobs[i]
		ln, known := math.Log(j.Duration.Seconds()), j.Status.Ended()
		if known {
			ended++
			sum += ln
			squares += ln * ln
		}
		if j.Key == "" {
			continue
		}
		k := keys[j.Key]
		if k == nil {
			k = &key{}
			keys[j.Key] = k
			order = append(order, k)
		} else {
			seen++
		}
		k.n++
		if known {
			k.ended++
			k.sum += ln
			k.squares += ln * ln
		}
	}
	r.Keys = len(order)
	r.Seen = float64(seen) / n
	if ended > 0 {
		r.LnSD = math.Sqrt(max(0, squares/ended-(sum/ended)*(sum/ended)))
	}
	within, in, over := 0.0, 0, 0
	for _, k := range order {
		if k.n > 10 {
			over += k.n
		}
		if k.ended >= 2 {
			within += max(0, k.squares-k.sum*k.sum/float64(k.ended))
			in += k.ended - 1
		}
	}
	r.Over10 = float64(over) / n
	if in > 0 {
		r.KeyLnSD = math.Sqrt(within / float64(in))
	}
	return r
}
