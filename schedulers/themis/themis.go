// Package themis is Themis (Mahajan et al., NSDI 2020): GPUs are leased, and
// those whose lease is over are offered to the jobs that are furthest behind,
// by expected finish-time fairness rho: the time from submission to the end if
// the job runs from now on, over the time it would take on an equal share of
// the cluster. It aims at rho of at most 1 for as many jobs as possible.
//
// Offers are made at the multiples of the lease term, so that leases end
// together and wide jobs find GPUs. A job that starts has them until the first
// such instant after a term of progress (a restart comes on top). To be offered
// are the GPUs that are free and those of jobs whose lease is over, to the jobs
// that wait and to the latter. The 1-f of these with the largest rho choose
// first, in that order; what they leave goes to the other jobs that run, so that
// nobody is stopped for nothing, then to the others that wait. Between offers
// nobody is stopped, and GPUs that become free go to the largest rho that fits.
//
// With lease_priority service the term is GPU-time, and offers to and by a job
// come at the multiples of the term over its GPUs, or of a minute if that is more.
//
// Simplified against the paper: an application is one job, and asks for all its
// GPUs or none. So bids are one number, the auction picks the largest, and there
// are no payments that keep bidders honest. The equal share is that of the jobs
// active now. The rest of a job's run time is what the scheduler was told
// (simulator.Options.Estimate), or, told nothing, as long as the job has run, and
// one lease at least. Not observed, and not needed to go on, are renewals: under
// another configuration a lease that was renewed ends at the next offer.
package themis

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// shortest is the shortest lease of wide jobs where the term is GPU-time: it is
// that of the parameter's range.
const shortest = time.Minute

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return &policy{
		term:      c.Get("lease_term").Duration(),
		byService: c.Get("lease_priority").Text() == "service",
		fraction:  c.Get("fraction").Float(),
		threshold: c.Get("consolidation_threshold").Float(),
	}
}

type policy struct {
	term      time.Duration
	byService bool
	fraction  float64
	threshold float64

	s           *simulator.View
	plan        *simulator.Plan
	service     rounds.Service
	leases      []lease // by job
	widths      []width
	running     []simulator.ID
	wait        []lane
	place       []int32 // by job: its index in running, or in its lane
	order       []ranked
	stop, start []simulator.ID
}

// lease is of the spell that began with a start of the job.
type lease struct {
	start int
	until time.Duration
}

// width is what jobs of so many GPUs have in common.
type width struct {
	gpus    int
	length  time.Duration // of a lease
	offers  rounds.Grid
	running int
}

type ranked struct {
	rho float64
	id  simulator.ID
}

// compare orders the largest rho first, ties by ID.
func compare(a, b ranked) int { return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.id, b.id)) }

func (p *policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan = s, plan
	p.service.Reset(s)
	p.leases, p.place = p.leases[:0], p.place[:0]
	p.widths, p.running = p.widths[:0], p.running[:0]
	for i := range p.wait {
		p.wait[i].jobs, p.wait[i].closed = p.wait[i].jobs[:0], false
	}
}

// widthOf is the record of a job's width.
func (p *policy) widthOf(j simulator.ID) *width {
	g := p.s.JobGPUs(j)
	for i := range p.widths {
		if p.widths[i].gpus == g {
			return &p.widths[i]
		}
	}
	length := p.term
	if p.byService {
		length = max(p.term/time.Duration(g), min(p.term, shortest))
	}
	p.widths = append(p.widths, width{gpus: g, length: length, offers: rounds.NewGrid(p.s, length)})
	return &p.widths[len(p.widths)-1]
}

// until is the instant up to which a running job's first lease of this spell
// lasts.
func (p *policy) until(j simulator.ID) time.Duration {
	l := &p.leases[j]
	if n := p.s.JobStarts(j); l.start != n {
		*l = lease{start: n, until: p.s.JobSince(j) + p.widthOf(j).length}
		if n > 1 {
			l.until += p.s.Models().Restart(p.s.JobHeld(j))
		}
		if l.until == 0 {
			l.until = -1 // 0 is reported where there is none; no offer lies between
		}
	}
	return l.until
}

// Report implements simulator.Reporter.
func (p *policy) Report(j simulator.ID) simulator.Seen {
	seen := p.service.Report(j)
	if p.s.JobRunning(j) {
		seen.LeaseUntil = p.until(j)
	}
	return seen
}

func (p *policy) Admit(j simulator.ID, seen simulator.Seen) {
	p.service.Admit(j, seen)
	p.leases, p.place = lanes.Grow(p.leases, j), lanes.Grow(p.place, j)
	p.leases[j] = lease{}
	p.plan.AllowSpread(j, p.threshold > 0 && p.s.JobSkew(j) <= p.threshold)
	if p.s.JobRunning(j) {
		if seen.LeaseUntil != 0 {
			p.leases[j] = lease{start: p.s.JobStarts(j), until: seen.LeaseUntil}
		}
		p.runs(j)
	} else {
		p.waits(j)
	}
	p.wake()
}

func (p *policy) Finish(j simulator.ID) {
	p.leaves(j)
	p.reopen()
}

// runs puts a job among the running.
func (p *policy) runs(j simulator.ID) {
	p.until(j)
	p.widthOf(j).running++
	p.place[j] = int32(len(p.running))
	p.running = append(p.running, j)
}

// leaves takes a job that ran from the running.
func (p *policy) leaves(j simulator.ID) {
	p.widthOf(j).running--
	i, last := p.place[j], p.running[len(p.running)-1]
	p.running[i], p.place[last] = last, i
	p.running = p.running[:len(p.running)-1]
}

// wake asks for a plan when GPUs are to be offered next, if anybody wants some.
func (p *policy) wake() {
	if p.s.Waiting() == 0 {
		return
	}
	for i := range p.widths {
		if w := &p.widths[i]; w.running > 0 {
			p.plan.WakeAt(w.offers.After(p.s.Now()))
		}
	}
}

// Plan implements simulator.Policy.
func (p *policy) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	if p.offerDue() {
		p.offer(plan)
	}
	p.backfill(plan)
	p.wake()
}

// offerDue reports whether leases may end now.
func (p *policy) offerDue() bool {
	for i := range p.widths {
		if w := &p.widths[i]; w.running > 0 && w.offers.On(p.s.Now()) {
			return true
		}
	}
	return false
}

// over reports whether a running job's lease ends now.
func (p *policy) over(j simulator.ID) bool {
	return p.widthOf(j).offers.On(p.s.Now()) && p.until(j) <= p.s.Now()
}

// offer exchanges the jobs whose lease is over for those further behind.
func (p *policy) offer(plan *simulator.Plan) {
	p.order, p.stop, p.start = p.order[:0], p.stop[:0], p.start[:0]
	room := p.s.Room()
	for _, j := range p.running {
		if p.over(j) {
			p.order = append(p.order, ranked{p.rho(j), j})
		} else {
			room.Keep(j, p.s.JobHeld(j))
		}
	}
	if len(p.order) == 0 {
		return
	}
	for i := range p.wait {
		for _, w := range p.wait[i].jobs {
			p.order = append(p.order, ranked{p.rho(w.id), w.id})
		}
	}
	slices.SortFunc(p.order, compare)
	first := len(p.order) - int(p.fraction*float64(len(p.order)))
	for _, o := range p.order[:first] {
		p.choose(room, o.id)
	}
	for _, runs := range []bool{true, false} {
		for _, o := range p.order[first:] {
			if p.s.JobRunning(o.id) == runs {
				p.choose(room, o.id)
			}
		}
	}
	if len(p.start) == 0 {
		return // nobody needs what could be taken
	}
	plan.Exchange(p.stop, p.start)
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.leaveLane(j)
			p.runs(j)
		}
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.leaves(j)
			p.waits(j)
			p.reopen()
		}
	}
}

// choose lets a job have GPUs if they are left.
func (p *policy) choose(room *simulator.Room, j simulator.ID) {
	switch runs := p.s.JobRunning(j); {
	case room.Take(j):
		if !runs {
			p.start = append(p.start, j)
		}
	case runs:
		p.stop = append(p.stop, j)
	}
}
