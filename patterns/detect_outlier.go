package patterns

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/patterns/cluster"
)

// outlier finds jobs whose slowest worker has iterations far beyond the rest. An iteration is far
// beyond where it is so by mean and standard deviation, by median and MAD, and by a ratio to the
// median: each form alone fires on the tails of ordinary jobs.
type outlier struct {
	passive
	r    *compiled
	jobs map[*cluster.Job]*outlierJob
}

type outlierJob struct {
	history []float64 // ring of the last times
	next    int
	n       int
	at      []int // rows of the outliers among the recent ones
	excess  float64
}

func newOutlier(r *compiled) detector { return &outlier{r: r, jobs: map[*cluster.Job]*outlierJob{}} }

func (d *outlier) row(s *Scanner, j *cluster.Job, r *cluster.Row) {
	x := d.jobs[j]
	if x == nil {
		if len(d.jobs) >= s.o.Cap {
			s.cluster.Drop(d.r.rule.ID)
			return
		}
		x = &outlierJob{}
		d.jobs[j] = x
	}
	size := max(2, int(d.r.param("history")))
	v := r.Slowest()
	if math.IsNaN(v) {
		return
	}
	x.n++
	if len(x.history) == size {
		if d.beyond(x.history, v) {
			x.at = append(x.at, x.n)
			sorted := slices.Sorted(slices.Values(x.history))
			x.excess = v / sorted[stats.NearestRank(.5, size)]
		}
		x.history[x.next] = v
		x.next = (x.next + 1) % size
	} else {
		x.history = append(x.history, v)
	}
	for len(x.at) > 0 && x.at[0] <= x.n-int(d.r.param("recent")) {
		x.at = x.at[1:]
	}
	e := Entity{"job", j.Name}
	now := s.at(s.now())
	switch o := d.r.open[e]; {
	case o == nil && len(x.at) >= int(d.r.param("count")):
		f := Finding{Entity: e, Job: j.Name, Confidence: min(.9, .5+.1*float64(len(x.at))),
			Evidence: []Evidence{{What: "outliers among the recent iterations", Value: float64(len(x.at)),
				Threshold: d.r.param("count"), Unit: "rows", From: now, To: now},
				{What: "time of the last one", Value: x.excess, Threshold: d.r.param("ratio"), Unit: "x the median",
					From: now, To: now}}}
		if regular(x.at, d.r.param("regular")) {
			f.Action, f.Confidence = "note_checkpoint", .5
			f.Words = "Job {job} has long iterations at regular intervals, as checkpoints or evaluations make: no action."
		}
		s.found(d.r, s.now(), f, 0)
	case o != nil && len(x.at) == 0:
		s.closeFinding(d.r, e, s.now())
	}
}

// beyond reports whether a time is far beyond the earlier ones.
func (d *outlier) beyond(history []float64, v float64) bool {
	sigmas := d.r.param("sigmas")
	sorted := slices.Clone(history)
	slices.Sort(sorted)
	median := sorted[len(sorted)/2]
	if v <= d.r.param("ratio")*median {
		return false
	}
	var sum, sq float64
	for i, h := range sorted {
		sum += h
		sorted[i] = math.Abs(h - median)
	}
	mean := sum / float64(len(history))
	for _, h := range history {
		sq += (h - mean) * (h - mean)
	}
	slices.Sort(sorted)
	mad := 1.4826 * sorted[len(sorted)/2]
	return v > mean+sigmas*math.Sqrt(sq/float64(len(history))) && v > median+d.r.param("mads")*mad
}

// regular reports whether the gaps between rows vary by less than a share of their mean.
func regular(at []int, share float64) bool {
	if len(at) < 3 {
		return false
	}
	least, most := at[1]-at[0], at[1]-at[0]
	for i := 2; i < len(at); i++ {
		least, most = min(least, at[i]-at[i-1]), max(most, at[i]-at[i-1])
	}
	return least > 1 && float64(most-least) <= share*float64(least)
}

func (d *outlier) jobEnded(_ *Scanner, j *cluster.Job, _ time.Duration) { delete(d.jobs, j) }

// spread classifies jobs by the spread of their iterations' times, and finds unstable ones.
type spread struct {
	passive
	r    *compiled
	jobs map[*cluster.Job]*spreadJob
}

type spreadJob struct {
	seen, next int
	took       []float64
}

func newSpread(r *compiled) detector { return &spread{r: r, jobs: map[*cluster.Job]*spreadJob{}} }

func (d *spread) row(s *Scanner, j *cluster.Job, r *cluster.Row) {
	x := d.jobs[j]
	if x == nil {
		if len(d.jobs) >= s.o.Cap {
			s.cluster.Drop(d.r.rule.ID)
			return
		}
		x = &spreadJob{}
		d.jobs[j] = x
	}
	v := r.Slowest()
	if x.seen++; math.IsNaN(v) || x.seen <= int(d.r.param("skip")) {
		return
	}
	size := max(2, int(d.r.param("iterations")))
	if len(x.took) < size {
		if x.took = append(x.took, v); len(x.took) < size {
			return
		}
	} else {
		x.took[x.next] = v
		if x.next = (x.next + 1) % size; x.next%max(1, size/4) != 0 {
			return
		}
	}
	var sum, sq float64
	for _, t := range x.took {
		sum += t
		sq += t * t
	}
	mean := sum / float64(size)
	cv := math.Sqrt(max(0, sq/float64(size)-mean*mean)) / max(mean, 1e-9)
	e := Entity{"job", j.Name}
	now := s.at(s.now())
	limit := d.r.param("unstable")
	switch {
	case cv > limit:
		j.Stability = "unstable"
		s.found(d.r, s.now(), Finding{Entity: e, Job: j.Name, Confidence: min(.95, .6+.35*(cv-limit)/limit),
			Evidence: []Evidence{{What: "standard deviation of iteration times over their mean", Value: cv,
				Threshold: limit, From: now, To: now}}}, 0)
		return
	case cv < d.r.param("stable"):
		j.Stability = "stable"
	default:
		j.Stability = "normal"
	}
	s.closeFinding(d.r, e, s.now())
}

func (d *spread) jobEnded(_ *Scanner, j *cluster.Job, _ time.Duration) { delete(d.jobs, j) }
