package simulator

import (
	"fmt"
	"time"
)

// Series follows the intermediate metrics of a run over time (Options.Series).
// Between two events nothing of a cluster changes, so the mean over an interval
// is exact: the sum of means times their spans is the integral, to rounding.
type Series struct {
	// Interval is the grid, counted from instant 0 as rounds are.
	Interval time.Duration
	// Emit is given each interval once it is over, in order. The first and the last
	// may be shorter than the others.
	Emit func(Sample)

	open    bool
	total   int
	from    time.Duration
	next    time.Duration // end of the open interval
	sums    Sample        // means times seconds
	stopped int
}

// Sample is what happened in an interval: means over time, except that
// Preemptions counts those of the run until its end.
type Sample struct {
	At   time.Duration // start of the interval
	Span time.Duration
	// Running and Waiting are numbers of jobs; GPUs those in use; Queued those that
	// the waiting jobs ask for.
	Running, Waiting, GPUs, Queued float64
	// Fragmentation is the share of all GPUs that is free on partly used nodes while
	// jobs wait; Utilization the share in use.
	Fragmentation, Utilization float64
	Preemptions                int
}

func (r *Series) validate() error {
	if r.Interval <= 0 {
		return fmt.Errorf("simulate: series: interval: %v is not positive", r.Interval)
	}
	return nil
}

// begin makes a series new.
func (r *Series) begin(total int) {
	*r = Series{Interval: r.Interval, Emit: r.Emit, total: total}
}

// add counts the time from now to an instant, in which nothing changes.
func (r *Series) add(s *Sim, until time.Duration) {
	now := s.now
	if !r.open {
		r.open, r.from = true, now
		r.next = nextTick(now+1, r.Interval)
	}
	fragmented := 0
	if s.waiting > 0 {
		fragmented = s.place.fragmented()
	}
	for now < until {
		end := min(until, r.next)
		dt := (end - now).Seconds()
		m := &r.sums
		m.Running += float64(float64(s.active-s.waiting) * dt)
		m.Waiting += float64(float64(s.waiting) * dt)
		m.GPUs += float64(float64(s.cluster.TotalGPUs()-s.place.idle) * dt)
		m.Queued += float64(float64(s.queued) * dt)
		m.Fragmentation += float64(float64(fragmented) * dt)
		if now = end; now == r.next {
			r.close(now)
		}
	}
}

// close ends the open interval.
func (r *Series) close(at time.Duration) {
	m, span := r.sums, at-r.from
	m.At, m.Span, m.Preemptions = r.from, span, r.stopped
	d := span.Seconds()
	m.Running, m.Waiting, m.GPUs, m.Queued = m.Running/d, m.Waiting/d, m.GPUs/d, m.Queued/d
	m.Fragmentation /= float64(d * float64(r.total))
	m.Utilization = m.GPUs / float64(r.total)
	r.Emit(m)
	r.sums, r.from, r.next = Sample{}, at, at+r.Interval
}

// Flush emits the interval that the end of the run cut short.
func (r *Series) Flush(s *Sim) {
	if r.open && s.now > r.from {
		r.close(s.now)
	}
}
