package round

import (
	"encoding/json"
	"math"
	"time"

	"github.com/autosched/autosched/workload"
)

const (
	// BurstInterval is the time between looks at the arrivals since the last decision
	// (paper, section 4.2).
	BurstInterval = 5 * time.Minute
	// burstPause is the time after a decision without a look: its futures know the
	// arrivals until then, and a burst that goes on would be decided on again at once.
	burstPause = 15 * time.Minute
	// burstFactor is how many times the largest demand of the futures is no burst yet.
	// Beyond that, jobs as many as a share of the cluster's GPUs are none, at least
	// burstJobs, nor is that share of the GPUs itself: the sweep of a user, which few
	// futures have at its time, and a single gang change the queue by little.
	burstFactor = 1.5
	burstJobs   = 20
	burstSpare  = .5
)

// band is the largest demand that the futures of a decision expect, by the marks of
// BurstInterval after it.
type band struct {
	At time.Duration `json:"at"`
	// Jobs and GPUs are the largest numbers, over the futures, of jobs submitted until a
	// mark and of the GPUs that these ask for, with a margin.
	Jobs []int `json:"jobs,omitempty"`
	GPUs []int `json:"gpus,omitempty"`
	// Widest is the number of GPUs of the cluster; jobs that ask for more do not count.
	Widest int `json:"widest,omitempty"`
}

// newBand is the band of futures of a cluster that begin at an instant.
func newBand(futures []Scenario, c workload.Cluster, at, horizon time.Duration) band {
	marks := int(horizon / BurstInterval)
	b := band{At: at, Jobs: make([]int, marks), GPUs: make([]int, marks), Widest: c.TotalGPUs()}
	for i := range futures {
		if futures[i].Arrivals == nil {
			continue
		}
		arrivals, next, gpus := futures[i].Arrivals.Jobs(), 0, 0
		for k := range marks {
			for ; next < len(arrivals) && arrivals[next].Submit <= at+time.Duration(k+1)*BurstInterval; next++ {
				gpus += arrivals[next].GPUs.Whole()
			}
			b.Jobs[k], b.GPUs[k] = max(b.Jobs[k], next), max(b.GPUs[k], gpus)
		}
	}
	spare := burstSpare * float64(b.Widest)
	for k := range marks {
		b.Jobs[k] = int(math.Ceil(burstFactor*float64(b.Jobs[k]) + max(spare, burstJobs)))
		b.GPUs[k] = int(math.Ceil(burstFactor*float64(b.GPUs[k]) + spare))
	}
	return b
}

// Burst reports whether more arrived between the last decision, whose History it is, and
// an instant than its futures expected, so that an urgent decision is due
// (Input.Urgent). It simulates nothing. Shortly after a decision, beyond its horizon and
// without a history it reports false.
func Burst(past json.RawMessage, l *workload.Ledger, at time.Duration) bool {
	var h struct {
		Version int  `json:"version"`
		Band    band `json:"band"`
	}
	if len(past) == 0 || json.Unmarshal(past, &h) != nil || h.Version != historyVersion {
		return false
	}
	mark := int((at-h.Band.At)/BurstInterval) - 1
	if at-h.Band.At < burstPause || mark >= min(len(h.Band.Jobs), len(h.Band.GPUs)) {
		return false
	}
	jobs, gpus := 0, 0
	for _, j := range l.Arrivals(h.Band.At+1, at+1) {
		if n := j.GPUs.Whole(); n <= h.Band.Widest {
			jobs++
			gpus += n
		}
	}
	return jobs > h.Band.Jobs[mark] || gpus > h.Band.GPUs[mark]
}
