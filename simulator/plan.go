package simulator

import (
	"fmt"
	"time"

	"github.com/autosched/autosched/workload"
)

// Plan takes a policy's decisions. Free to Exchange are for Policy.Plan only; the
// other methods may be called from any method of a policy.
type Plan struct {
	s *Sim
}

// planned is the simulation, within Policy.Plan.
func (p *Plan) planned() *Sim {
	if !p.s.planning {
		panic("simulator: policy decides outside of its Plan")
	}
	return p.s
}

// Free is the number of free GPUs at this point of the plan, of the first pool.
func (p *Plan) Free() int { return p.s.place.total(0, 0) }

// AllowsBackfill reports whether GPUs that an Exchange left free may go to jobs of
// lower priority (see Peer.QuotaOnly).
func (p *Plan) AllowsBackfill() bool { return !p.s.opts.Peer.QuotaOnly }

// RetryAfterMinRun reports whether retrying an Exchange later can succeed without
// another event, because Protection.MinRun may expire.
func (p *Plan) RetryAfterMinRun() bool { return p.s.opts.Protect.MinRun > 0 }

// Start starts a waiting job if it finds a place, and reports whether it did.
func (p *Plan) Start(j ID) bool { return p.planned().start(j, int(p.s.jobs[j].gpus)) }

// StartAt starts a waiting job on given GPUs of nodes and reports whether it did: not where they are not
// free, on nodes that it may not run on, or of more than one group of nodes. The GPUs on each node are its
// own to choose; the job gets its request in all.
func (p *Plan) StartAt(j ID, at []workload.NodeGPUs) bool { return p.planned().startAt(j, at) }

// FitsWithout reports whether StartAt would start a waiting job if running jobs had stopped.
func (p *Plan) FitsWithout(stopped []ID, j ID, at []workload.NodeGPUs) bool {
	s := p.planned()
	for _, id := range stopped {
		s.vacate(id)
	}
	fits := s.mayStartAt(&s.jobs[j], at)
	for _, id := range stopped {
		s.retake(&s.jobs[id])
	}
	return fits
}

// Grant starts a waiting job on another number of GPUs than it asks for, at the
// speed that follows from its class's throughput, if it finds a place.
func (p *Plan) Grant(j ID, gpus int) bool { return gpus > 0 && p.planned().start(j, gpus) }

// Resize moves a running job to another number of GPUs, which costs a restart,
// if a place is found; otherwise it stays as it is.
func (p *Plan) Resize(j ID, gpus int) bool { return p.planned().resize(j, gpus) }

// Share starts a waiting job on the GPUs of a running one of the same width, at
// the speeds of PairSpeeds. Neither may share already (JobShares). When one of
// them leaves, the other has the GPUs and its full speed.
func (p *Plan) Share(j, partner ID) { p.planned().pack(j, partner) }

// Protected reports whether a running job must not be stopped now (Options.Protect).
func (p *Plan) Protected(j ID) bool { return p.planned().protected(j) }

// Preempt stops a running job and reports whether it did: a protected job continues
// (Options.Protect). Its progress stays, unless its request says otherwise; resuming costs a restart.
func (p *Plan) Preempt(j ID) bool { return p.planned().preempt(j, false, 0) }

// Requeue is Preempt for a cluster in which stopped jobs begin anew, unless their requests say that they
// resume. The job may not start for a time.
func (p *Plan) Requeue(j ID, holdOff time.Duration) bool {
	return p.planned().preempt(j, true, holdOff)
}

// Cancel ends a running job before its time, and reports whether it did: a protected job continues. Its GPUs are free
// at once; Policy.Finish and Freed are called within.
func (p *Plan) Cancel(j ID) bool {
	s := p.planned()
	if s.protected(j) {
		return false
	}
	x := &s.jobs[j]
	x.cut, x.next, x.quantum, s.moved = cancelled, never, never, j
	s.finish(j, 0)
	return true
}

// Exchange preempts jobs of the first list to start jobs of the second, widest
// first. A job starts on free GPUs if it can, and a job whose GPUs are not needed is
// not preempted (but see Peer.QuotaOnly); neither are protected jobs
// (Options.Protect). The order of both lists changes. It reports whether a job was
// preempted or started; JobRunning has the outcome.
func (p *Plan) Exchange(stop, start []ID) bool {
	return p.exchange(stop, start, true)
}

// Stopped are the jobs that the last Exchange preempted.
func (p *Plan) Stopped() []ID { return p.s.preempted }

// ExchangeInOrder is Exchange with the jobs to start in the order given.
func (p *Plan) ExchangeInOrder(stop, start []ID) bool { return p.exchange(stop, start, false) }

// SetQuantum sets the instant of a running job's Quantum call; it replaces an
// earlier one. An instant that is not in the future means the next nanosecond.
func (p *Plan) SetQuantum(id ID, at time.Duration) {
	j := &p.s.jobs[id]
	if j.phase != running {
		panic(fmt.Sprintf("simulator: policy sets a quantum for job %d, which is not running", id))
	}
	j.quantum = max(at, p.s.now+1)
	p.s.schedule(id)
}

// WakeAt requests a Plan at an instant, if nothing else brings an earlier one.
// Several requests keep the earliest.
func (p *Plan) WakeAt(at time.Duration) { p.s.wakeAt(at) }

// ForgetWakes withdraws all requests of WakeAt, and those of a protected job's retry.
func (p *Plan) ForgetWakes() { p.s.wake = never }

func (s *Sim) wakeAt(at time.Duration) { s.wake = min(s.wake, max(at, s.now)) }

// AllowSpread says whether the job's next start may spread over more nodes than
// its size needs, if no consolidated place is free. The members of a group always
// may.
func (p *Plan) AllowSpread(id ID, allow bool) {
	j := &p.s.jobs[id]
	if allow = allow || j.members > 1; j.relaxed != allow {
		p.s.change(id, func(j *job) { j.relaxed = allow })
	}
}

// SetPool says in which pool, 0 or 1, a waiting job's next start looks for GPUs.
func (p *Plan) SetPool(id ID, pool int) { p.s.setPool(id, uint8(pool)) }

func (s *Sim) setPool(id ID, pool uint8) {
	if s.jobs[id].pool != pool {
		s.change(id, func(j *job) { j.pool = pool })
	}
}

// Partition sets a number of nodes apart as pool 1, the others are pool 0; 0 makes one
// pool of all. Nodes on which only jobs of pool 1 run stay in it; the rest of it are the
// last empty nodes, now and whenever a node becomes empty. It has no effect unless
// View.HasPools.
func (p *Plan) Partition(nodes int) { p.s.partition(nodes) }

func (s *Sim) partition(nodes int) {
	if !s.HasPools() {
		return
	}
	clear(s.place.pool)
	if nodes > 0 {
		s.markPool(1)
		s.markPool(0)
	}
	s.place.partition(nodes)
}

// markPool puts the nodes on which jobs of a pool run into it.
func (s *Sim) markPool(pool uint8) {
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.phase != running || j.pool != pool {
			continue
		}
		s.nodes = s.placementOf(s.nodes[:0], j)
		for _, n := range s.nodes {
			s.place.pool[n.Node] = pool
		}
	}
}
