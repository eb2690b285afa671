package workloads

import (
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// Stats describe the jobs of a workload. Times are in seconds, GPU-time in GPU-hours.
type Stats struct {
	Jobs     int       `json:"jobs"`
	GPUs     float64   `json:"gpus"` // of all jobs, summed up
	GPUHours float64   `json:"gpu_hours"`
	First    time.Time `json:"first"` // submission
	Last     time.Time `json:"last"`
	// Load is workload.OfferedLoad of the scheduler's cluster, Wider the jobs that do not fit it.
	Load     float64   `json:"load"`
	Wider    int       `json:"wider,omitempty"`
	Duration Quantiles `json:"duration_s"`
	Width    Quantiles `json:"width_gpus"`
}

// Quantiles of a distribution, linearly interpolated between order statistics.
type Quantiles struct {
	P10  float64 `json:"p10"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// newStats describes a workload that has jobs.
func newStats(w *workload.Workload, c *workload.Cluster) Stats {
	first, last := w.Span()
	s := Stats{Jobs: w.Len(), First: w.Clock(first), Last: w.Clock(last)}
	durations, widths := make([]float64, s.Jobs), make([]float64, s.Jobs)
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		durations[i], widths[i] = j.Duration.Seconds(), float64(j.GPUs)/1000
		s.GPUs += widths[i]
		s.GPUHours += widths[i] * j.Duration.Hours()
		if !c.Fits(j) {
			s.Wider++
		}
	}
	s.Load = workload.OfferedLoad(s.GPUHours*3600, last-first, c.TotalGPUs())
	s.Duration, s.Width = quantilesOf(durations), quantilesOf(widths)
	return s
}

func quantilesOf(v []float64) Quantiles {
	slices.Sort(v)
	q := func(p float64) float64 { return stats.Quantile(v, p) }
	return Quantiles{P10: q(.1), P50: q(.5), P90: q(.9), P99: q(.99), Max: v[len(v)-1], Mean: stats.Mean(v)}
}
