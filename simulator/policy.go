package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// ID is a job in a run: an index in order of submission. Ties break by it.
type ID int32

// Policy decides who runs. One value serves one simulation at a time; Reset
// makes it new.
type Policy interface {
	// Reset begins a run. The policy keeps s to ask and to set alarms; no job is
	// active yet.
	Reset(s *Sim)
	// Admit tells that a job became active: it was submitted now (Seen is zero
	// and JobStarts is 0), or the run resumes from an observed state in which it
	// is already running or waiting. Jobs come in order of ID.
	Admit(j ID, seen Seen)
	// Finish tells that a running job ended.
	Finish(j ID)
	// Plan proposes what to start and stop, after everything of an instant has
	// happened. Proposing nothing is fine.
	Plan(p *Plan)
}

// Quantumed is a policy that sets quanta and is called when they are over.
type Quantumed interface {
	// Quantum tells that the instant set for a running job has come.
	Quantum(j ID)
}

// Reporter is a policy with memory about jobs beyond what their events tell.
// What it reports travels with the job's events and comes back to Admit.
type Reporter interface {
	Report(j ID) Seen
}

// Sharer marks a policy that packs jobs on the same GPUs. For others, two jobs
// reported on the same GPUs are a mistake in the report.
type Sharer interface {
	Shares()
}

// Clairvoyant marks a policy that reads JobLeft: it needs to know how long jobs
// still run, which no real scheduler does.
type Clairvoyant interface {
	Clairvoyant()
}

// Seen is what a scheduler may report about an active job besides its events.
type Seen struct {
	// LevelAttained is the service behind the job's priority level, and whether
	// the scheduler reports it. It is less than the service attained where the
	// scheduler forgot some.
	LevelAttained time.Duration
	HasLevel      bool
	// LeaseUntil is the end of the lease in force, 0 for none.
	LeaseUntil time.Duration
}

// Plan takes the decisions of one instant.
type Plan struct {
	s *Sim
}

// Free is the number of free GPUs at this point of the plan, of the first pool.
func (p *Plan) Free() int { return p.s.place.total[0] }

// Backfills reports whether GPUs that an Exchange left free may go to jobs
// further down (see Peer.QuotaOnly).
func (p *Plan) Backfills() bool { return !p.s.opts.Peer.QuotaOnly }

// Ripens reports whether the same Exchange may move somebody later only because
// time has passed (Protection.MinRun).
func (p *Plan) Ripens() bool { return p.s.opts.Protect.MinRun > 0 }

// Start runs a waiting job from now on if a place is found, and reports
// whether it was.
func (p *Plan) Start(j ID) bool { return p.s.start(j, int(p.s.jobs[j].gpus)) }

// Grant runs a waiting job on another number of GPUs than it asks for, at the
// speed that its class's throughput gives, if a place is found.
func (p *Plan) Grant(j ID, gpus int) bool { return gpus > 0 && p.s.start(j, gpus) }

// Resize moves a running job to another number of GPUs, which costs a restart,
// if a place is found; otherwise it stays as it is.
func (p *Plan) Resize(j ID, gpus int) bool { return p.s.resize(j, gpus) }

// Share runs a waiting job on the GPUs of a running one of the same width, at
// the speeds of PairSpeeds. Neither may share already (JobShares). When one of
// them leaves, the other has the GPUs and its full speed.
func (p *Plan) Share(j, partner ID) { p.s.pack(j, partner) }

// Preempt stops a running job and reports whether it did: a protected job goes
// on (Options.Protect). Its progress stays; resuming costs a restart.
func (p *Plan) Preempt(j ID) bool {
	if p.s.protected(j) {
		return false
	}
	p.s.vacate(j)
	p.s.evict(j)
	return true
}

// Exchange stops the first list's jobs to start the second's, widest first.
// Nobody is stopped in vain: jobs start on free GPUs where they can, and whoever's
// GPUs are not taken by those that cannot runs on as if nothing had been (but
// see Peer.QuotaOnly). Protected jobs run on as well (Options.Protect). The
// order of both lists changes. It reports whether anybody was stopped or started;
// JobRunning tells who.
func (p *Plan) Exchange(stop, start []ID) bool {
	return p.exchange(stop, start, true)
}

// Stopped are the jobs that the last Exchange stopped.
func (p *Plan) Stopped() []ID { return p.s.preempted }

// ExchangeInOrder is Exchange with the jobs to start in the order given.
func (p *Plan) ExchangeInOrder(stop, start []ID) bool { return p.exchange(stop, start, false) }

// Event is what Options.Observer is told about a job.
type Event struct {
	Kind workload.EventKind // Submitted, Started, Preempted, Resumed, Finished
	Time time.Duration
	Job  ID
	Seen Seen
}
