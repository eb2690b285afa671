// Package themis is Themis (Mahajan et al., NSDI 2020): GPUs are leased, and GPUs
// with expired leases are offered to the jobs with the largest expected
// finish-time fairness rho: the time from submission to the end if the job runs
// from now on, over the time it would take on an equal share of the cluster. The
// aim is rho of at most 1 for as many jobs as possible.
//
// Offers are made at the multiples of the lease term, so that leases expire
// together and wide jobs find GPUs. A job that starts holds its lease until the
// first such instant after a term of progress (a restart comes on top). Each offer
// covers free GPUs and GPUs with expired leases; waiting jobs and jobs with
// expired leases bid for them. The 1-f of these with the largest rho choose first,
// in that order; what they leave goes to the other running jobs, to spare
// restarts, then to the other waiting jobs. Between offers no job is preempted,
// and GPUs that become free go to the largest rho that fits.
//
// With lease_priority service the term is GPU-time, and offers to and by a job
// come at the multiples of the term over its GPUs, or of a minute if that is more.
//
// Simplified against the paper: an application is one job, and asks for all its
// GPUs or none. So a bid is one number, the auction picks the largest, and there
// are no payments to keep bidders honest. The equal share is that of the jobs
// active now. The remaining run time follows from the estimate
// (simulator.Options.Estimate); without one it is the time the job has run, at
// least one lease. Renewals are not observed: under another configuration a
// renewed lease expires at the next offer.
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

// shortest bounds the lease of wide jobs from below where the term is GPU-time. It
// is the lower end of the parameter's range.
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
	width       []int32 // by job, in widths
	widths      []width
	running     []simulator.ID
	wait        []lane
	index       []int32 // by job: its index in running, or in its lane
	bids        []bid
	stop, start []simulator.ID
}

// lease belongs to the spell that began with the job's start number start.
type lease struct {
	start int
	until time.Duration
}

// width is the lease length and the instants of offers of all jobs of one width.
type width struct {
	gpus       int
	length     time.Duration // of a lease
	offers     rounds.Grid
	running    int
	on         bool    // an offer is made now
	contention float64 // at an offer
}

type bid struct {
	rho float64
	id  simulator.ID
}

// compare orders the largest rho first, ties by ID.
func compare(a, b bid) int {
	switch {
	case a.rho > b.rho:
		return -1
	case a.rho < b.rho:
		return 1
	}
	return cmp.Compare(a.id, b.id)
}

func (p *policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan = s, plan
	p.service.Reset(s)
	p.leases, p.width, p.index = p.leases[:0], p.width[:0], p.index[:0]
	p.widths, p.running = p.widths[:0], p.running[:0]
	for i := range p.wait {
		p.wait[i].jobs, p.wait[i].closed = p.wait[i].jobs[:0], false
	}
}

// widthOf returns the record of a job's width.
func (p *policy) widthOf(j simulator.ID) *width { return &p.widths[p.width[j]] }

// findWidth returns the index of the record of a job's width.
func (p *policy) findWidth(j simulator.ID) int32 {
	g := p.s.JobGPUs(j)
	if i := slices.IndexFunc(p.widths, func(w width) bool { return w.gpus == g }); i >= 0 {
		return int32(i)
	}
	length := p.term
	if p.byService {
		length = max(p.term/time.Duration(g), min(p.term, shortest))
	}
	p.widths = append(p.widths, width{gpus: g, length: length, offers: rounds.NewGrid(p.s, length)})
	return int32(len(p.widths) - 1)
}

// until is the instant at which a running job's first lease of this spell expires.
func (p *policy) until(j simulator.ID) time.Duration {
	l := &p.leases[j]
	if n := p.s.JobStarts(j); l.start != n {
		*l = lease{start: n, until: p.s.JobSince(j) + p.widthOf(j).length}
		if n > 1 {
			l.until += p.s.JobRestart(j, p.s.JobHeld(j))
		}
		if l.until == 0 {
			l.until = -1 // 0 stands for no lease in reports; no offer lies between
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
	p.leases, p.width, p.index = lanes.Grow(p.leases, j), lanes.Grow(p.width, j), lanes.Grow(p.index, j)
	p.leases[j], p.width[j] = lease{}, p.findWidth(j)
	p.plan.AllowSpread(j, p.threshold > 0 && p.s.JobSkew(j) <= p.threshold)
	if p.s.JobRunning(j) {
		if seen.LeaseUntil != 0 {
			p.leases[j] = lease{start: p.s.JobStarts(j), until: seen.LeaseUntil}
		}
		p.addRunning(j)
	} else {
		p.addWaiting(j)
	}
	p.wake()
}

func (p *policy) Finish(j simulator.ID) {
	p.removeRunning(j)
	p.reopen()
}

// addRunning adds a job to the running jobs.
func (p *policy) addRunning(j simulator.ID) {
	p.until(j)
	p.widthOf(j).running++
	p.index[j] = int32(len(p.running))
	p.running = append(p.running, j)
}

// removeRunning removes a job from the running jobs.
func (p *policy) removeRunning(j simulator.ID) {
	p.widthOf(j).running--
	i, last := p.index[j], p.running[len(p.running)-1]
	p.running[i], p.index[last] = last, i
	p.running = p.running[:len(p.running)-1]
}

// wake requests a plan at the next offer while jobs wait.
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
	if slices.ContainsFunc(p.widths, func(w width) bool { return w.running > 0 && w.offers.On(p.s.Now()) }) {
		p.offer(plan) // leases may be over
	}
	p.backfill(plan)
	p.wake()
}

// offer auctions free GPUs and GPUs with expired leases.
func (p *policy) offer(plan *simulator.Plan) {
	p.bids, p.stop, p.start = p.bids[:0], p.stop[:0], p.start[:0]
	room := p.s.Room()
	for i := range p.widths {
		w := &p.widths[i]
		w.on, w.contention = w.offers.On(p.s.Now()), p.contention(w.gpus)
	}
	for _, j := range p.running {
		if w := p.widthOf(j); w.on && p.until(j) <= p.s.Now() { // its lease is over
			p.bids = append(p.bids, bid{p.rho(j, w.contention), j})
		} else {
			room.Keep(j, p.s.JobHeld(j))
		}
	}
	if len(p.bids) == 0 {
		return
	}
	for i := range p.wait {
		contention := p.contention(p.wait[i].gpus)
		for _, w := range p.wait[i].jobs {
			p.bids = append(p.bids, bid{w.rho(p.s.Now(), contention), w.id})
		}
	}
	slices.SortFunc(p.bids, compare)
	first := len(p.bids) - int(p.fraction*float64(len(p.bids)))
	for _, o := range p.bids[:first] {
		p.choose(room, o.id)
	}
	for _, runs := range []bool{true, false} {
		for _, o := range p.bids[first:] {
			if p.s.JobRunning(o.id) == runs {
				p.choose(room, o.id)
			}
		}
	}
	if len(p.start) == 0 {
		return // no waiting job wins
	}
	plan.Exchange(p.stop, p.start)
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.removeWaiting(j)
			p.addRunning(j)
		}
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.removeRunning(j)
			p.addWaiting(j)
			p.reopen()
		}
	}
}

// choose gives a bidder its GPUs if enough are left.
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
