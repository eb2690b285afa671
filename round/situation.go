package round

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// situation is the workload that a round met, in a few numbers. What was good in
// a situation is a candidate in those like it.
type situation struct {
	// Arrivals is the GPUs that the jobs of the last hour ask for, Backlog those
	// that waiting jobs ask for, both over the cluster's.
	Arrivals float64 `json:"arrivals"`
	Backlog  float64 `json:"backlog"`
	// Hour of the day, UTC.
	Hour float64 `json:"hour"`
	// Scale is the mean logarithm of the GPU-time, in seconds, of the jobs of Shape.
	Scale float64 `json:"scale"`
	Shape shape   `json:"shape"`
}

// shape is what kinds of jobs there are, whatever their number and scale: how
// their GPU-times spread, and whether it is large or small jobs that hold the
// GPUs. It is what a configuration must fit: more load, other tenants or jobs ten
// times as long leave a ladder of queues as good as it was, but one for jobs
// within a wide range of lengths is bad for equal ones.
type shape struct {
	// Spread holds quantiles of the logarithm of the GPU-time, less its mean. Less
	// the median it would jump whenever a sweep of equal jobs ends.
	Spread [len(shapeQuantiles)]float64 `json:"spread"`
	// Sizes is the share of GPU-time by GPUs asked for: 1, 2 to 4, 5 to 8, more.
	Sizes [4]float64 `json:"sizes"`
	// Jobs that ended, from which this is known.
	Jobs int `json:"jobs"`
}

// shapeQuantiles leave out the ends: a restart takes half a minute anyway, and a
// few jobs that run for weeks end at any time.
var shapeQuantiles = [...]float64{.1, .2, .3, .4, .5, .6, .7, .8, .9}

// shapeWindow is how far back jobs tell of the shape: long enough for a few
// hundred, short enough to notice a new one within the day.
const shapeWindow = 12 * time.Hour

// leastJobs is how many jobs must have ended for a shape to be believed. From 100,
// quantiles are known to about a fifth of the standard deviation.
const leastJobs = 100

// shapeChange is the distance from which shapes count as different. Of 1018
// hours of the Philly trace, which differ by 0.2 from one to the next and by 1.2
// from one day to the next, 27 are further than this from all hours that were
// found to be different before; of hours of equal jobs (three lengths within a
// factor of 12), half are from any given Philly hour.
const shapeChange = 1.0

// meet describes what is known of a cluster at the state's instant.
func meet(l *workload.Ledger, s *workload.State, zero time.Time) situation {
	at := s.At
	gpus := float64(max(1, s.Cluster.TotalGPUs()))
	var x situation
	for _, j := range l.Arrivals(at-generation.Window, at) {
		x.Arrivals += float64(j.GPUs.Whole()) / gpus
	}
	for i := range s.Jobs {
		if !s.Jobs[i].Running {
			x.Backlog += float64(s.Jobs[i].GPUs.Whole()) / gpus
		}
	}
	clock := zero.Add(at).UTC()
	x.Hour = float64(clock.Hour()) + float64(clock.Minute())/60
	x.Scale, x.Shape = shapeOf(l.Finishes(at-shapeWindow, at+1))
	return x
}

// shapeOf jobs that ended; scale is the mean logarithm of their GPU-time.
func shapeOf(ended []workload.Finish) (scale float64, s shape) {
	logs := make([]float64, 0, len(ended))
	total := 0.0
	for i := range ended {
		f := &ended[i]
		g := f.GPUs.Whole()
		service := f.RunTime.Seconds() * float64(g)
		if service <= 0 {
			continue // never started
		}
		logs = append(logs, math.Log(max(1, service)))
		total += service
		s.Sizes[simulator.SizeClass(g)] += service
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

// distance of two shapes: the mean difference of the logarithms of quantiles,
// about the area between the distributions of the logarithm of the GPU-time
// once their means are laid on each other, plus the share of the GPU-time that
// went to jobs of another size.
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

// distance of two situations. The units are about what makes a difference: a
// change of shape by shapeChange, twice or half the arrivals, a backlog that
// grew by the cluster's size, half a day, GPU-times ten times as long.
func (x *situation) distance(o *situation) float64 {
	hours := math.Abs(x.Hour - o.Hour)
	return x.Shape.distance(&o.Shape)/shapeChange +
		math.Abs(math.Log((x.Arrivals+.1)/(o.Arrivals+.1)))/math.Ln2 +
		math.Abs(math.Log1p(x.Backlog)-math.Log1p(o.Backlog))/math.Ln2 +
		min(hours, 24-hours)/12 +
		math.Abs(x.Scale-o.Scale)/math.Ln10
}
