package simulator

import (
	"fmt"
	"time"

	"github.com/autosched/autosched/workload"
)

// pack puts a waiting job on a running one's GPUs.
func (s *Sim) pack(id, with ID) {
	j, p := &s.jobs[id], &s.jobs[with]
	switch {
	case j.phase != pending:
		panic(fmt.Sprintf("simulator: policy packs job %d, which is not waiting", id))
	case p.phase != running || p.shares || p.held != j.gpus:
		panic(fmt.Sprintf("simulator: policy packs job %d with job %d, which does not run alone on as many GPUs",
			id, with))
	}
	if !s.JobMayJoin(id, with) {
		panic(fmt.Sprintf("simulator: policy packs job %d with job %d, which runs on nodes that it may not run on",
			id, with))
	}
	s.join(id, with)
	s.markRunning(id)
	s.scheduleEnd(with)
}

// join places a job beside its partner and sets both rates.
func (s *Sim) join(id, with ID) {
	j, p := &s.jobs[id], &s.jobs[with]
	own, other := s.PairSpeeds(id, with)
	j.held, j.share, j.shares, j.host = p.held, own, true, false
	if s.place.mode == Count {
		s.updateRate(id)
	} else {
		s.nodes = s.placementOf(s.nodes[:0], p)
		s.recordPlacement(id, s.nodes)
	}
	s.charge(j)
	s.settle(with)
	p.share, p.shares, p.host = other, true, true
	s.updateRate(with)
	j.partner, p.partner = int32(with), int32(id)
}

// PairSpeeds are the shares of their speeds alone that two jobs have on the same
// GPUs.
func (v *View) PairSpeeds(a, b ID) (float64, float64) {
	m := v.opts.Models
	if len(m.Loads) == 0 && m.Pair == nil {
		return hinge(m.Classes[v.JobClass(a)].Util, m.Classes[v.JobClass(b)].Util)
	}
	return m.PairSpeeds(v.JobLoad(a), v.JobLoad(b))
}

// unpack leaves the GPUs of a job that ends or stops to its partner.
func (s *Sim) unpack(j *job) {
	with := ID(j.partner)
	j.share, j.shares, j.partner = 1, false, -1
	if with < 0 {
		return
	}
	p := &s.jobs[with]
	p.partner = -1
	if s.opts.Peer.GuestStaysSlow && !p.host {
		return
	}
	s.settle(with)
	p.share, p.shares = 1, false
	s.updateRate(with)
	s.scheduleEnd(with)
}

// resize moves a running job to another number of GPUs.
func (s *Sim) resize(id ID, gpus int) bool {
	j := &s.jobs[id]
	if j.phase != running || j.shares {
		panic(fmt.Sprintf("simulator: policy resizes job %d, which does not run alone", id))
	}
	if gpus <= 0 || gpus == int(j.held) {
		return gpus > 0
	}
	was := *j
	s.progress(j)
	s.release(id)
	j.node, j.multi = -1, -1
	if !s.allocate(id, gpus) {
		*j = was // with its progress unsettled, so that asking rounds nothing
		j.vacated = true
		s.retake(j) // they are still free
		return false
	}
	s.meter(id, &was)
	if was.multi >= 0 {
		s.spare = append(s.spare, was.multi)
	}
	j.since, j.ready = s.now, s.now
	if s.sleeps() {
		j.ready = s.awakeFor(id)
	}
	j.ready += s.restartCost(s.spec(id), gpus)
	s.scheduleEnd(id)
	s.notify(workload.Resized, id)
	return true
}

// Protection bounds the preemption of a job.
type Protection struct {
	// MaxPreemptions is how often a job may be stopped; 0 means any number.
	MaxPreemptions int
	// MinRun is how long a started job runs at least before it is stopped.
	MinRun time.Duration
}

// protected reports whether a running job must not be stopped now. If that
// passes with time, the policy is asked again when it has.
func (s *Sim) protected(id ID) bool {
	j := &s.jobs[id]
	o := &s.opts.Protect
	if o.MaxPreemptions > 0 && int(j.preempts) >= o.MaxPreemptions {
		return true
	}
	if o.MinRun > 0 && s.now < j.since+o.MinRun {
		s.wakeAt(j.since + o.MinRun)
		return true
	}
	return false
}

// unprotected returns the running jobs among some that may be stopped now.
func (s *Sim) unprotected(stop []ID) []ID {
	if s.opts.Protect == (Protection{}) {
		return stop
	}
	s.stoppable = s.stoppable[:0]
	for _, id := range stop {
		if !s.protected(id) {
			s.stoppable = append(s.stoppable, id)
		}
	}
	return s.stoppable
}
