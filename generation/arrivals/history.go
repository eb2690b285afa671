package arrivals

import (
	"fmt"
	"sort"
	"time"

	"github.com/autosched/autosched/workload"
)

// DefaultBin is the paper's grid: requests per 5 minutes.
const DefaultBin = 5 * time.Minute

// MaxDays of history are looked at, the latest ones. A year and a month hold
// every period that a cluster's load is known to have.
const MaxDays = 396

// moveDays is by how many days a longer history's begin moves on at once: knowledge
// learned from one begin is learned again from another.
const moveDays = 28

const day = 24 * time.Hour

// History is the arrivals until an instant. It is read-only once made.
type History struct {
	zero  time.Time
	start time.Duration // the grid's first edge, a midnight
	end   time.Duration // nothing at or after it is known
	bin   time.Duration
	// jobs by submission, from the first edge on.
	jobs []workload.Job
	// batch[i] is the first job of job i's batch, next[i] the one after it in the
	// batch, 0 if there is none yet.
	batch, next []int32
	// arrived[i] jobs came in the first i bins, and began[i] batches; both have a
	// number more than there are whole bins before the end.
	arrived, began []int32
}

// Grid says how a history is counted. The zero value is good.
type Grid struct {
	// Bin divides an hour; default DefaultBin.
	Bin time.Duration
}

func (g Grid) check() (Grid, error) {
	if g.Bin == 0 {
		g.Bin = DefaultBin
	}
	if g.Bin < time.Minute || time.Hour%g.Bin != 0 {
		return g, fmt.Errorf("arrivals: bin %v does not divide an hour, or is shorter than a minute", g.Bin)
	}
	return g, nil
}

// midnight is the start of the day that an instant is in.
func midnight(zero time.Time, at time.Duration) time.Duration {
	// The phase of the zero: traces start at midnight, services need not.
	phase := time.Duration(zero.Unix()%86400)*time.Second + time.Duration(zero.Nanosecond())
	if phase < 0 {
		phase += day
	}
	since := (at + phase) % day
	if since < 0 {
		since += day
	}
	return at - since
}

// earliest is the begin of the longest history that ends at end.
func earliest(zero time.Time, end time.Duration) time.Duration {
	start := midnight(zero, end) - (MaxDays-1)*day
	days := (zero.Unix() + int64(start/time.Second)) / 86400
	return start + time.Duration((moveDays-days%moveDays)%moveDays)*day
}

// FromJobs is the history of jobs in order of submission, on the clock whose
// instant 0 is zero, until end. Jobs submitted at or after end are not looked
// at. The jobs are kept, not copied.
func FromJobs(zero time.Time, jobs []workload.Job, end time.Duration, g Grid) (*History, error) {
	g, err := g.check()
	if err != nil {
		return nil, err
	}
	known := sort.Search(len(jobs), func(i int) bool { return jobs[i].Submit >= end })
	h := &History{zero: zero, start: midnight(zero, end), end: end, bin: g.Bin}
	first := 0
	if known > 0 {
		h.start = max(midnight(zero, jobs[0].Submit), earliest(zero, end))
		first = sort.Search(known, func(i int) bool { return jobs[i].Submit >= h.start })
	}
	h.jobs = jobs[first:known:known]
	bins := int((end - h.start) / h.bin)
	h.arrived, h.began = make([]int32, bins+1), make([]int32, bins+1)
	h.batch, h.next = make([]int32, len(h.jobs)), make([]int32, len(h.jobs))
	last := map[string]int32{} // tenant to its latest job
	for i := range h.jobs {
		j := &h.jobs[i]
		if i > 0 && j.Submit < h.jobs[i-1].Submit {
			return nil, fmt.Errorf("arrivals: job %q is not in order of submission", j.ID)
		}
		h.batch[i] = int32(i)
		if l, ok := last[j.Tenant]; ok && j.Submit-h.jobs[l].Submit <= workload.BatchGap {
			h.batch[i], h.next[l] = h.batch[l], int32(i)
		}
		last[j.Tenant] = int32(i)
		if b := int((j.Submit - h.start) / h.bin); b < bins {
			h.arrived[b+1]++
			if h.batch[i] == int32(i) {
				h.began[b+1]++
			}
		}
	}
	for b := range bins {
		h.arrived[b+1] += h.arrived[b]
		h.began[b+1] += h.began[b]
	}
	return h, nil
}

// Until is the part of h known at an earlier instant.
func (h *History) Until(at time.Duration) *History {
	if at >= h.end {
		return h
	}
	c := *h
	c.end = max(at, h.start)
	bins := int((c.end - h.start) / h.bin)
	c.arrived = h.arrived[: bins+1 : bins+1]
	n := sort.Search(len(h.jobs), func(i int) bool { return h.jobs[i].Submit >= c.end })
	c.began, c.jobs, c.batch, c.next = h.began[:bins+1:bins+1], h.jobs[:n:n], h.batch[:n:n], h.next[:n:n]
	return &c
}

// End is the instant until which the history goes.
func (h *History) End() time.Duration { return h.end }

// Start is the midnight at which the history's grid begins.
func (h *History) Start() time.Duration { return h.start }

// Bin is the grid's step.
func (h *History) Bin() time.Duration { return h.bin }

// Zero is the wall-clock time of instant 0.
func (h *History) Zero() time.Time { return h.zero }

// Jobs in order of submission; Arrival.Source counts in them.
func (h *History) Jobs() []workload.Job { return h.jobs }

func (h *History) bins() int                { return len(h.arrived) - 1 }
func (h *History) perHour() int             { return int(time.Hour / h.bin) }
func (h *History) edge(b int) time.Duration { return h.start + time.Duration(b)*h.bin }

// after is the next job of job i's batch, if it has arrived.
func (h *History) after(i int) (int, bool) {
	n := int(h.next[i])
	return n, n > 0 && n < len(h.jobs)
}

// window returns the jobs submitted in [from, to).
func (h *History) window(from, to time.Duration) (first, after int) {
	first = sort.Search(len(h.jobs), func(i int) bool { return h.jobs[i].Submit >= from })
	after = first + sort.Search(len(h.jobs)-first, func(i int) bool { return h.jobs[first+i].Submit >= to })
	return first, after
}

// print identifies the counts of the first bins: two histories that agree in it
// have the same past.
func (h *History) print(bins int) uint64 {
	f := uint64(14695981039346656037) // FNV-1a, by word
	mix := func(v uint64) { f = (f ^ v) * 1099511628211 }
	mix(uint64(h.start))
	mix(uint64(h.bin))
	mix(uint64(h.zero.Unix()))
	for _, v := range h.arrived[:bins+1] {
		mix(uint64(v))
	}
	for _, v := range h.began[:bins+1] {
		mix(uint64(v))
	}
	return f
}
