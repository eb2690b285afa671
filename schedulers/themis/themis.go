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
	"time"

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
		term:      seconds(c.Get("lease_term").Float()),
		byService: c.Get("lease_priority").Text() == "service",
		fraction:  c.Get("fraction").Float(),
		threshold: c.Get("consolidation_threshold").Float(),
	}
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

type policy struct {
	term      time.Duration
	byService bool
	fraction  float64
	threshold float64

	s       *simulator.Sim
	service rounds.Service
	records []record // by job
	widths  []width
	running []spell // and some of ID -1
	ordered int     // so many in front are in the order of their rho at the last offer
	wait    []lane
	plans   int // so far

	// Of an offer: whose lease is over, largest rho first, and the others that run;
	// the lanes to be served, by their first, and those that cannot be.
	over        []standing
	held        []spell
	heads, shut []*lane
	stop, start []simulator.ID
	refused     []int      // who is to stop, as indices in over
	goOn        []spell    // scratch
	behind      []standing // likewise
}

// record is what is kept of a job.
type record struct {
	lease lease
	kind  int32 // index in widths
	lane  int32 // index in wait, -1 until it waits
	at    int32 // if it runs: index in running
}

// lease is of the spell that began with a start of the job.
type lease struct {
	start int
	until time.Duration
}

// width is what jobs have in common that, and of which each member, ask for so
// many GPUs.
type width struct {
	gpus, each   int
	length       time.Duration // of a lease
	offers       rounds.Grid
	on           bool // there is an offer now
	running      int
	crowd, share float64 // of this instant: see weigh; 1 / crowd
}

// spell is a running job.
type spell struct {
	until time.Duration // its lease lasts
	// What follows is asked for when the lease is over. from is since when the job
	// would have run if it never had waited: once that is steady, it grows older by
	// the clock, and nobody need be asked again.
	submit, told, from time.Duration
	steady             bool
	id                 simulator.ID
	kind               int32
}

type ranked struct {
	rho float64
	id  simulator.ID
}

// before orders the largest rho first, ties by ID.
func (a ranked) before(b ranked) bool { return a.rho > b.rho || a.rho == b.rho && a.id < b.id }

func (p *policy) Reset(s *simulator.Sim) {
	p.s, p.plans, p.ordered = s, 0, 0
	p.service.Reset(s)
	p.records, p.widths, p.running = p.records[:0], p.widths[:0], p.running[:0]
	p.wait = p.wait[:0]
}

// kindOf is the index of the record of a job's width.
func (p *policy) kindOf(j simulator.ID) int32 {
	gpus, each := p.s.JobGPUs(j), p.s.JobWidth(j)
	for i := range p.widths {
		if w := &p.widths[i]; w.gpus == gpus && w.each == each {
			return int32(i)
		}
	}
	length := p.term
	if p.byService {
		length = max(p.term/time.Duration(each), min(p.term, shortest))
	}
	p.widths = append(p.widths, width{gpus: gpus, each: each, length: length, offers: rounds.NewGrid(p.s, length)})
	return int32(len(p.widths) - 1)
}

// until is the instant up to which a running job's first lease of this spell
// lasts.
func (p *policy) until(j simulator.ID) time.Duration {
	r := &p.records[j]
	l := &r.lease
	if n := p.s.JobStarts(j); l.start != n {
		*l = lease{start: n, until: p.s.JobSince(j) + p.widths[r.kind].length}
		if n > 1 {
			l.until += p.s.Models().Restart(p.s.JobHeld(j) / p.s.JobMembers(j))
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
	for int(j) >= len(p.records) {
		p.records = append(p.records, record{})
	}
	r := &p.records[j]
	*r = record{kind: p.kindOf(j), lane: -1}
	p.s.SetRelaxed(j, p.relaxed(j))
	if p.s.JobRunning(j) {
		if seen.LeaseUntil != 0 {
			r.lease = lease{start: p.s.JobStarts(j), until: seen.LeaseUntil}
		}
		p.runs(j)
	} else {
		p.waits(j)
	}
	p.wake()
}

// relaxed reports whether a job may be spread, as the members of a group always
// may.
func (p *policy) relaxed(j simulator.ID) bool {
	return p.s.JobMembers(j) > 1 || p.threshold > 0 && p.s.JobSkew(j) <= p.threshold
}

func (p *policy) Finish(j simulator.ID) {
	r := &p.records[j]
	p.widths[r.kind].running--
	if int(r.at) < p.ordered {
		p.running[r.at].id = -1 // so that the others stay in order
	} else {
		last := len(p.running) - 1
		p.running[r.at] = p.running[last]
		p.records[p.running[r.at].id].at = r.at
		p.running = p.running[:last]
	}
	p.reopen()
}

// runs puts a job among the running.
func (p *policy) runs(j simulator.ID) {
	r := &p.records[j]
	p.widths[r.kind].running++
	r.at = int32(len(p.running))
	p.running = append(p.running, spell{id: j, kind: r.kind, until: p.until(j)})
}

// ran is how long a running job has run in all, on the GPUs it asks for.
func (p *policy) ran(x *spell) time.Duration {
	now := p.s.Now()
	if x.steady {
		return now - x.from
	}
	x.submit, x.told = p.s.JobSubmit(x.id), p.told(x.id)
	ran := p.service.Received(x.id)
	// A negative one, which only a mistaken report makes, would be rounded the
	// other way.
	x.from, x.steady = now-ran, ran > 0 && p.s.JobServedFrom(x.id) <= now && p.s.JobHeld(x.id) == p.s.JobGPUs(x.id)
	return ran
}

// wake asks for a plan when GPUs are to be offered next, if anybody wants some.
func (p *policy) wake() {
	if p.s.Waiting() == 0 {
		return
	}
	var asked rounds.Grid
	for i := range p.widths {
		if w := &p.widths[i]; w.running > 0 && w.offers != asked {
			asked = w.offers
			p.s.WakeAt(asked.After(p.s.Now()))
		}
	}
}

// Plan implements simulator.Policy.
func (p *policy) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	p.plans++
	p.weigh()
	if p.offerDue() {
		p.offer(plan)
	}
	p.backfill(plan)
	p.wake()
}

// offerDue finds out for which widths leases may end now, and whether for any
// that runs.
func (p *policy) offerDue() bool {
	var last rounds.Grid
	on, due := false, false
	for i := range p.widths {
		w := &p.widths[i]
		if w.offers != last {
			last, on = w.offers, w.offers.On(p.s.Now())
		}
		w.on = on
		due = due || on && w.running > 0
	}
	return due
}
