package round

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// situation summarises the workload of a round. Winners in a situation are candidates
// in similar ones.
type situation struct {
	// Arrivals are the GPUs requested by the jobs of the last hour, Backlog those
	// requested by waiting jobs, both as multiples of the cluster's.
	Arrivals float64 `json:"arrivals"`
	Backlog  float64 `json:"backlog"`
	// Hour of the day, UTC.
	Hour float64 `json:"hour"`
	// Scale is the mean logarithm of the GPU-time, in seconds, of the jobs of Shape.
	Scale float64 `json:"scale"`
	Shape shape   `json:"shape"`
}

// shape is the job mix independent of load and time scale: the distribution of
// GPU-time and the share of GPU-time by job size. Thresholds of a priority queue are
// tuned to it: more load or ten times longer jobs leave them as good as before, equal
// jobs do not.
type shape struct {
	// Spread holds quantiles of the logarithm of the GPU-time minus its mean. Relative
	// to the median, it would jump whenever a sweep of equal jobs ends.
	Spread [len(shapeQuantiles)]float64 `json:"spread"`
	// Sizes is the share of GPU-time by GPUs asked for: 1, 2 to 4, 5 to 8, more.
	Sizes [4]float64 `json:"sizes"`
	// Jobs that ended within shapeWindow.
	Jobs int `json:"jobs"`
}

// shapeQuantiles leave out the tails: jobs shorter than a restart, and the few that
// run for weeks.
var shapeQuantiles = [...]float64{.1, .2, .3, .4, .5, .6, .7, .8, .9}

// shapeWindow is the window of finished jobs that the shape is computed from: long
// enough for a few hundred, short enough to notice a change within the day.
const shapeWindow = 12 * time.Hour

// leastJobs is the sample size from which a shape is used: with 100 jobs the standard
// error of a quantile is about a fifth of the standard deviation.
const leastJobs = 100

// shapeChange is the distance from which shapes count as different
// (docs/search.md#shape).
const shapeChange = 1.0

// describe summarises the cluster's load and job mix at State.At.
func (s *Snapshot) describe() situation {
	at, jobs := s.State.At, s.State.Jobs
	gpus := float64(max(1, s.State.Available().TotalGPUs()))
	var x situation
	for _, j := range s.Ledger.Arrivals(at-time.Hour, at) {
		x.Arrivals += j.GPUs.Count() / gpus
	}
	for i := range jobs {
		if !jobs[i].Running {
			x.Backlog += jobs[i].GPUs.Count() / gpus
		}
	}
	clock := s.Zero.Add(at).UTC()
	x.Hour = float64(clock.Hour()) + float64(clock.Minute())/60
	x.Scale, x.Shape = shapeOf(s.Ledger.Finishes(at-shapeWindow, at+1))
	return x
}

// shapeOf jobs that ended; scale is the mean logarithm of their GPU-time.
func shapeOf(ended []workload.Finish) (scale float64, s shape) {
	logs := make([]float64, 0, len(ended))
	total := 0.0
	for i := range ended {
		f := &ended[i]
		service := f.RunTime.Seconds() * f.GPUs.Count()
		if service <= 0 {
			continue // never started
		}
		logs = append(logs, math.Log(max(1, service)))
		total += service
		s.Sizes[simulator.SizeClass(f.GPUs.Whole())] += service
	}
	s.Jobs = len(logs)
	if s.Jobs == 0 {
		return 0, s
	}
	for i := range s.Sizes {
		s.Sizes[i] /= total
	}
	scale = stats.Mean(logs)
	slices.Sort(logs)
	for i, q := range shapeQuantiles {
		s.Spread[i] = stats.Quantile(logs, q) - scale
	}
	return scale, s
}

// distance of two shapes: the mean absolute difference of Spread, which approximates
// the Wasserstein-1 distance between the centred distributions of log GPU-time, plus
// the total variation distance of Sizes.
func (s *shape) distance(o *shape) float64 {
	d := 0.0
	for i := range s.Spread {
		d += math.Abs(s.Spread[i]-o.Spread[i]) / float64(len(s.Spread))
	}
	for i := range s.Sizes {
		d += math.Abs(s.Sizes[i]-o.Sizes[i]) / 2
	}
	return d
}

// distance of two situations. One unit is a difference of shapeChange in shape, a
// factor of two in arrivals, a backlog larger by the cluster's size, half a day, or a
// factor of ten in GPU-time.
func (x *situation) distance(o *situation) float64 {
	hours := math.Abs(x.Hour - o.Hour)
	return x.Shape.distance(&o.Shape)/shapeChange +
		math.Abs(math.Log((x.Arrivals+.1)/(o.Arrivals+.1)))/math.Ln2 +
		math.Abs(math.Log1p(x.Backlog)-math.Log1p(o.Backlog))/math.Ln2 +
		min(hours, 24-hours)/12 +
		math.Abs(x.Scale-o.Scale)/math.Ln10
}
