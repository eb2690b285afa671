package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	// EmitTenant gets each tenant's sample, after Emit, in order of name;
	// intervals in which a tenant has no job are left out. It may be nil, and needs
	// Options.PerTenant.
	EmitTenant func(TenantSample)

	open    bool
	total   int
	from    time.Duration
	next    time.Duration // end of the open interval
	sums    Sample        // means times seconds
	lost    float64       // as in integrals
	stopped int
	waiting [len(BySize{})]int // jobs, now
	order   []int              // of the tenants
	ended   []Outcome          // in the open interval, in order of their end
	some    []Outcome          // scratch: outcomes of a tenant
}

// Sample describes an interval without its start and with its end: means
// over time, except that Preemptions counts from the begin of the run, and Ended
// describes the jobs that ended.
type Sample struct {
	At   time.Duration // start of the interval
	Span time.Duration
	// Running and Waiting are numbers of jobs; GPUs are in use; Queued is the demand of
	// the waiting jobs.
	Running, Waiting, GPUs, Queued float64
	// WaitingBySize are the parts of Waiting.
	WaitingBySize BySize
	// Fragmentation is the share of all GPUs that is free on partly used nodes while
	// jobs wait; Utilization the share in use.
	Fragmentation, Utilization float64
	Preemptions                int
	Ended                      Objectives
}

// TenantSample describes a tenant's jobs in an interval: means over time, but
// for Preemptions and Ended, as in Sample. GPUs that two jobs share are held by
// both.
type TenantSample struct {
	At, Span                       time.Duration
	Tenant                         string
	Running, Waiting, GPUs, Queued float64
	Preemptions                    int
	Ended                          Objectives
}

// tenantSums are a tenant's in the open interval, in seconds, up to an instant.
type tenantSums struct {
	mark                           time.Duration
	running, waiting, gpus, queued float64
}

func (r *Series) validate(o *Options) error {
	switch {
	case r.Interval <= 0:
		return fmt.Errorf("simulate: series: interval: %v is not positive", r.Interval)
	case r.EmitTenant != nil && !o.PerTenant:
		return errors.New("simulate: series: by tenant without Options.PerTenant")
	}
	return nil
}

// begin makes a series new.
func (r *Series) begin(total int) {
	*r = Series{Interval: r.Interval, Emit: r.Emit, EmitTenant: r.EmitTenant, total: total,
		order: r.order[:0], ended: r.ended[:0], some: r.some}
}

// add counts the time from now to an instant, in which nothing changes.
func (r *Series) add(s *Sim, until time.Duration) {
	now := s.now
	if !r.open {
		r.open, r.from = true, now
		r.next = nextTick(now+1, r.Interval)
	}
	if now == r.next { // events at this instant belong to the former interval
		r.close(s, now)
	}
	fragmented := 0
	if s.waiting > 0 {
		fragmented = s.place.fragmented()
	}
	for now < until {
		end := min(until, r.next)
		dt := (end - now).Seconds()
		m := &r.sums
		m.Running += float64(s.active-s.waiting) * dt
		m.Waiting += float64(s.waiting) * dt
		for k, n := range r.waiting {
			m.WaitingBySize[k] += float64(n) * dt
		}
		m.GPUs += float64(s.place.usable-s.place.idle) * dt
		r.lost += float64(r.total-s.place.usable) * dt
		m.Queued += float64(s.queued) * dt
		m.Fragmentation += float64(fragmented) * dt
		if now = end; now == r.next && now < until {
			r.close(s, now)
		}
	}
}

// tally records a tenant's activity since the last time.
func (r *Series) tally(t *tenant, until time.Duration) {
	u := &t.sums
	if dt := (until - u.mark).Seconds(); dt > 0 && t.active > 0 {
		u.running += float64(t.active-t.waiting) * dt
		u.waiting += float64(t.waiting) * dt
		u.gpus += float64(t.held) * dt
		u.queued += float64(t.usage.asked) * dt
	}
	u.mark = until
}

// close ends the open interval.
func (r *Series) close(s *Sim, at time.Duration) {
	m, span := r.sums, at-r.from
	m.At, m.Span, m.Preemptions = r.from, span, r.stopped
	d := span.Seconds()
	m.Running, m.Waiting, m.GPUs, m.Queued = m.Running/d, m.Waiting/d, m.GPUs/d, m.Queued/d
	for k := range m.WaitingBySize {
		m.WaitingBySize[k] /= d
	}
	m.Ended = Describe(r.ended)
	if r.lost == 0 {
		m.Fragmentation /= d * float64(r.total)
		m.Utilization = m.GPUs / float64(r.total)
	} else if had := d*float64(r.total) - r.lost; had > 0 {
		m.Fragmentation /= had
		m.Utilization = m.GPUs * d / had
	}
	r.Emit(m)
	if r.EmitTenant != nil {
		r.closeTenants(s, at)
	}
	r.sums, r.lost, r.from, r.next = Sample{}, 0, at, at+r.Interval
	r.ended = r.ended[:0]
}

func (r *Series) closeTenants(s *Sim, at time.Duration) {
	if len(r.order) == 0 {
		for i := range s.tenants {
			r.order = append(r.order, i)
		}
		slices.SortFunc(r.order, func(a, b int) int { return cmp.Compare(s.tenants[a].name, s.tenants[b].name) })
	}
	d := (at - r.from).Seconds()
	for _, i := range r.order {
		t := &s.tenants[i]
		r.tally(t, at)
		if u := &t.sums; u.running+u.waiting > 0 {
			r.some = r.some[:0]
			for k := range r.ended {
				if s.jobs[r.ended[k].ID].tenant == int32(i) {
					r.some = append(r.some, r.ended[k])
				}
			}
			r.EmitTenant(TenantSample{At: r.from, Span: at - r.from, Tenant: t.name,
				Running: u.running / d, Waiting: u.waiting / d, GPUs: u.gpus / d, Queued: u.queued / d,
				Preemptions: t.stopped, Ended: Describe(r.some)})
		}
		t.sums = tenantSums{mark: at}
	}
}

// Flush emits the interval that the end of the run cut short.
func (r *Series) Flush(s *Sim) {
	if r.open && s.now > r.from {
		r.close(s, s.now)
	}
}
