package workload

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Stats describe a workload. Times are in seconds, GPU-time in GPU-hours,
// shares between 0 and 1.
type Stats struct {
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

	Sizes      []SizeStats     `json:"gpu_sizes"` // in order of GPUs
	Durations  Quantiles       `json:"duration_s"`
	Arrivals   ArrivalStats    `json:"arrivals_per_hour"`
	Batches    BatchStats      `json:"batches"`
	Recurrence RecurrenceStats `json:"recurrence"`
	Tenants    []TenantStats   `json:"tenants"` // most GPU-time first
	Load       *LoadStats      `json:"load,omitempty"`
}

// SizeStats are the jobs of one size.
type SizeStats struct {
	GPUs         float64 `json:"gpus"`
	Jobs         int     `json:"jobs"`
	JobShare     float64 `json:"job_share"`
	GPUTimeShare float64 `json:"gpu_time_share"`
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

// ArrivalStats count per whole hour of the wall clock, from the hour of the
// first submission to that of the last.
type ArrivalStats struct {
	Hours int     `json:"hours"`
	Mean  float64 `json:"mean"`
	CV    float64 `json:"cv"` // standard deviation over mean
	Max   int     `json:"max"`
}

// BatchStats describe sweeps: jobs of one tenant, of any size, with gaps of at
// most BatchGap.
type BatchStats struct {
	Batches  int          `json:"batches"`
	PerHour  ArrivalStats `json:"per_hour"` // of first submissions
	MeanSize float64      `json:"mean_size"`
	MaxSize  int          `json:"max_size"`
	// JobsIn2, 10 and 100 are the shares of jobs in batches of at least so many.
	JobsIn2   float64 `json:"jobs_in_2"`
	JobsIn10  float64 `json:"jobs_in_10"`
	JobsIn100 float64 `json:"jobs_in_100"`
}

// RecurrenceStats tell how often keys come back. Jobs without a key count as
// not recurring.
type RecurrenceStats struct {
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

// TenantStats are the jobs of one tenant.
type TenantStats struct {
	Tenant       string  `json:"tenant"`
	Jobs         int     `json:"jobs"`
	JobShare     float64 `json:"job_share"`
	GPUHours     float64 `json:"gpu_hours"`
	GPUTimeShare float64 `json:"gpu_time_share"`
	MeanGPUs     float64 `json:"mean_gpus"`
	P50S         float64 `json:"p50_duration_s"`
}

// LoadStats compare the workload with a cluster.
type LoadStats struct {
	Nodes       int `json:"nodes"`
	GPUsPerNode int `json:"gpus_per_node"`
	// Offered is the GPU-time asked for over what the cluster has between the
	// first and the last submission: above 1 jobs must queue. It is 0 for a
	// workload without a span.
	Offered float64 `json:"offered"`
	// Wider counts the jobs that ask for more GPUs than the cluster has.
	Wider int `json:"wider_than_cluster"`
}

// Describe computes the statistics; cluster may be nil.
func Describe(w *Workload, cluster *Cluster) Stats {
	s := Stats{Name: w.Name(), Digest: w.Digest(), Synthetic: w.Synthetic(), Zero: w.Zero(), Jobs: w.Len()}
	if w.Len() == 0 {
		return s
	}
	jobs := w.Jobs()
	first, last := w.Span()
	s.First, s.Last, s.SpanS = w.Clock(first), w.Clock(last), (last - first).Seconds()

	all := make([]float64, len(jobs))
	type group struct {
		durations []float64
		gpus      float64
		gpuHours  float64
	}
	sizes, tenants := map[MilliGPU]*group{}, map[string]*group{}
	for i := range jobs {
		j := &jobs[i]
		d, g := j.Duration.Seconds(), float64(j.GPUs)/1000
		gh := float64(g*d) / 3600
		all[i] = d
		s.GPUHours += gh
		s.MeanGPUs += g
		if sizes[j.GPUs] == nil {
			sizes[j.GPUs] = &group{}
		}
		if tenants[j.Tenant] == nil {
			tenants[j.Tenant] = &group{}
		}
		for _, t := range [...]*group{sizes[j.GPUs], tenants[j.Tenant]} {
			t.durations = append(t.durations, d)
			t.gpus += g
			t.gpuHours += gh
		}
	}
	n := float64(len(jobs))
	s.MeanGPUs /= n
	for g, t := range sizes {
		s.Sizes = append(s.Sizes, SizeStats{GPUs: float64(g) / 1000, Jobs: len(t.durations), JobShare: float64(len(t.durations)) / n, GPUTimeShare: t.gpuHours / s.GPUHours})
	}
	sort.Slice(s.Sizes, func(a, b int) bool { return s.Sizes[a].GPUs < s.Sizes[b].GPUs })
	for name, t := range tenants {
		k := float64(len(t.durations))
		slices.Sort(t.durations)
		s.Tenants = append(s.Tenants, TenantStats{Tenant: name, Jobs: len(t.durations), JobShare: k / n, GPUHours: t.gpuHours,
			GPUTimeShare: t.gpuHours / s.GPUHours, MeanGPUs: t.gpus / k, P50S: quantile(t.durations, .5)})
	}
	sort.Slice(s.Tenants, func(a, b int) bool {
		if x, y := &s.Tenants[a], &s.Tenants[b]; x.GPUHours != y.GPUHours {
			return x.GPUHours > y.GPUHours
		}
		return s.Tenants[a].Tenant < s.Tenants[b].Tenant
	})
	s.Durations = quantilesOf(all)
	s.Arrivals = perHour(w, jobs, func(int) bool { return true })
	s.Batches = batchStats(w)
	s.Recurrence = recurrence(jobs)
	if cluster != nil {
		s.Load = loadOf(w, *cluster)
	}
	return s
}

func quantilesOf(v []float64) Quantiles {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	slices.Sort(v)
	return Quantiles{P10: quantile(v, .1), P25: quantile(v, .25), P50: quantile(v, .5), P75: quantile(v, .75), P90: quantile(v, .9),
		P95: quantile(v, .95), P99: quantile(v, .99), Max: v[len(v)-1], Mean: sum / float64(len(v))}
}

// quantile of sorted values.
func quantile(v []float64, q float64) float64 {
	pos := q * float64(len(v)-1)
	i := int(pos)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + float64((pos-float64(i))*(v[i+1]-v[i]))
}

func perHour(w *Workload, jobs []Job, counts func(i int) bool) ArrivalStats {
	hour := func(i int) int64 { return floorDiv(w.Clock(jobs[i].Submit).Unix(), 3600) }
	first, last := hour(0), hour(len(jobs)-1)
	a := ArrivalStats{Hours: int(last - first + 1)}
	n, squares := 0, 0.0
	for i := 0; i < len(jobs); {
		h, k := hour(i), 0
		for ; i < len(jobs) && hour(i) == h; i++ {
			if counts(i) {
				k++
			}
		}
		n += k
		squares += float64(k) * float64(k)
		a.Max = max(a.Max, k)
	}
	hours := float64(a.Hours)
	a.Mean = float64(n) / hours
	if variance := squares/hours - float64(a.Mean*a.Mean); variance > 0 {
		a.CV = math.Sqrt(variance) / a.Mean
	}
	return a
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func batchStats(w *Workload) BatchStats {
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
		if !ok || j.Submit-b.last > BatchGap {
			b.size = new(int)
			sizes = append(sizes, b.size)
			begins[i] = true
		}
		*b.size++
		b.last = j.Submit
		open[j.Tenant] = b
	}
	n := float64(len(jobs))
	s := BatchStats{Batches: len(sizes), MeanSize: n / float64(len(sizes))}
	for _, p := range sizes {
		k := float64(*p)
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

func recurrence(jobs []Job) RecurrenceStats {
	type key struct {
		n       int
		sum     float64
		squares float64
	}
	keys := map[string]*key{}
	var order []*key // sums in order of appearance: the same on every run
	var r RecurrenceStats
	n, sum, squares, seen := float64(len(jobs)), 0.0, 0.0, 0
	for i := range jobs {
		j := &jobs[i]
		ln := math.Log(j.Duration.Seconds())
		sum += ln
		squares += float64(ln * ln)
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
		k.sum += ln
		k.squares += float64(ln * ln)
	}
	r.Keys = len(order)
	r.Seen = float64(seen) / n
	r.LnSD = math.Sqrt(max(0, squares/n-float64((sum/n)*(sum/n))))
	within, in, over := 0.0, 0, 0
	for _, k := range order {
		if k.n > 10 {
			over += k.n
		}
		if k.n >= 2 {
			within += max(0, k.squares-float64(k.sum*k.sum)/float64(k.n))
			in += k.n - 1
		}
	}
	r.Over10 = float64(over) / n
	if in > 0 {
		r.KeyLnSD = math.Sqrt(within / float64(in))
	}
	return r
}

func loadOf(w *Workload, c Cluster) *LoadStats {
	l := &LoadStats{Nodes: c.Nodes, GPUsPerNode: c.GPUsPerNode}
	first, last := w.Span()
	gpuTime := 0.0
	for i := range w.jobs {
		j := &w.jobs[i]
		gpuTime += float64(j.Duration.Seconds() * float64(j.GPUs) / 1000)
		if j.GPUs > GPUs(c.TotalGPUs()) {
			l.Wider++
		}
	}
	if capacity := (last - first).Seconds() * float64(c.TotalGPUs()); capacity > 0 {
		l.Offered = gpuTime / capacity
	}
	return l
}
