package simulator

import (
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

func (s *Sim) start(id ID, gpus int) bool {
	j := &s.jobs[id]
	if j.phase != pending {
		panic(fmt.Sprintf("simulator: policy starts job %d, which is not waiting", id))
	}
	if !s.allocate(id, gpus) {
		return false
	}
	s.markRunning(id)
	return true
}

// startAt starts a job on given GPUs, if it may have them.
func (s *Sim) startAt(id ID, at []workload.NodeGPUs) bool {
	j := &s.jobs[id]
	if j.phase != pending {
		panic(fmt.Sprintf("simulator: policy starts job %d, which is not waiting", id))
	}
	if s.place.mode == Count {
		panic("simulator: policy names the nodes of a job where GPUs are only counted")
	}
	if !s.mayStartAt(j, at) {
		return false
	}
	s.occupy(id, at)
	s.markRunning(id)
	return true
}

// mayStartAt reports whether a waiting job may have given GPUs.
func (s *Sim) mayStartAt(j *job, at []workload.NodeGPUs) bool {
	return s.allows(j, int(j.gpus)) && s.mayOccupy(j, at, int(j.gpus)) && s.hasRoom(j, at) &&
		!slices.ContainsFunc(at, func(n workload.NodeGPUs) bool {
			return s.place.status[n.Node] != up || s.place.pool[n.Node] != j.pool
		})
}

// markRunning starts a job that has its GPUs.
func (s *Sim) markRunning(id ID) {
	j := &s.jobs[id]
	s.countWaiting(id, -1)
	j.waited += s.now - j.since
	j.phase, j.since, j.mark, j.ready, j.quantum = running, s.now, s.now, s.now, never
	if j.limit != never {
		j.limit += s.now
	}
	if j.starts == 0 {
		j.first = s.now
	}
	if s.sleeps() {
		j.ready = s.awakeFor(id)
	}
	kind := workload.Started
	if j.starts > 0 {
		kind = workload.Resumed
		if !j.anew {
			j.ready += s.resumeCost(s.spec(id), int(j.held/j.members))
		}
	}
	j.starts++
	s.moved = id
	s.scheduleEnd(id)
	s.notify(kind, id)
}

// vacate frees a running job's GPUs but remembers where they are.
func (s *Sim) vacate(id ID) {
	j := &s.jobs[id]
	if j.phase != running || j.vacated {
		panic(fmt.Sprintf("simulator: policy stops job %d, which is not running", id))
	}
	j.vacated = true
	s.release(id)
}

func (s *Sim) release(id ID) {
	j := &s.jobs[id]
	s.withdraw(id)
	s.discharge(j)
	s.reserve(j, -1)
	if j.partner >= 0 {
		return // the partner keeps them
	}
	switch {
	case s.place.mode == Count:
		s.place.count(-int(j.held))
	case j.multi >= 0:
		for _, n := range s.multi[j.multi] {
			s.place.give(n.Node, n.GPUs)
		}
	default:
		s.place.give(int(j.node), int(j.held))
	}
	if s.sleeps() {
		s.vacantAll(j)
	}
}

func (s *Sim) forget(j *job) {
	if j.multi >= 0 {
		s.spare = append(s.spare, j.multi)
	}
	j.node, j.multi = -1, -1
}

// retake gives a vacated job its GPUs back if they are still free.
func (s *Sim) retake(j *job) {
	if s.place.rationed() {
		if s.nodes = s.placementOf(s.nodes[:0], j); !s.hasRoom(j, s.nodes) {
			return
		}
	}
	switch {
	case j.partner >= 0: // it never left
	case s.place.mode == Count:
		if int(j.held) > s.place.idle {
			return
		}
		s.place.count(int(j.held))
	case j.multi >= 0:
		for _, n := range s.multi[j.multi] {
			if int(s.place.free[n.Node]) < n.GPUs || s.place.pool[n.Node] != j.pool {
				return
			}
		}
		for _, n := range s.multi[j.multi] {
			s.place.take(n.Node, n.GPUs)
		}
	default:
		if s.place.free[j.node] < uint16(j.held) || s.place.pool[j.node] != j.pool {
			return
		}
		s.place.take(int(j.node), int(j.held))
	}
	if s.sleeps() {
		s.nodes = s.placementOf(s.nodes[:0], j)
		s.rouse(s.nodes)
	}
	s.charge(j)
	s.reserve(j, 1)
	j.vacated = false
}

// preempt stops a running job, unless it is protected.
func (s *Sim) preempt(id ID, restarts bool, holdOff time.Duration) bool {
	if s.protected(id) {
		return false
	}
	s.vacate(id)
	s.requeue(id, restarts, holdOff)
	return true
}

// evict makes a vacated job wait.
func (s *Sim) evict(id ID) { s.requeue(id, false, 0) }

// requeue makes a vacated job wait. Progress of its request comes first; it may not start for
// the longer of its hold-off and the one given.
func (s *Sim) requeue(id ID, restarts bool, holdOff time.Duration) {
	j := &s.jobs[id]
	s.settle(id)
	limit := time.Duration(0)
	if j.asks {
		r := s.spec(id).Request()
		limit, holdOff = r.TimeLimit+s.overtime, max(holdOff, r.HoldOff)
		restarts = r.Requeue == workload.RequeueRestarts || restarts && r.Requeue != workload.RequeueResumes
	}
	s.unpack(j)
	s.forget(j)
	j.vacated = false
	j.phase, j.since, j.next, j.quantum = pending, s.now, never, never
	j.preempts++
	if s.opts.Series != nil {
		s.opts.Series.stopped++
	}
	if s.opts.PerTenant {
		s.tenants[j.tenant].stopped++
	}
	cost := s.preemptionWork(id, int(j.held/j.members))
	if j.anew = restarts; restarts {
		cost = 0
		j.restart += j.work - j.left
		j.left = j.work
	}
	j.left += cost
	j.restart += cost
	switch {
	case j.limit == never:
	case restarts:
		j.limit = limit
	default:
		j.limit = max(1, j.limit-s.now)
	}
	if j.ready = s.now; holdOff > 0 {
		s.hold(id, s.now+holdOff)
	}
	s.moved = id
	s.countWaiting(id, 1)
	s.notify(workload.Preempted, id)
}

// hold keeps a waiting job from starting before an instant: until then it satisfies no node's constraint.
func (s *Sim) hold(id ID, until time.Duration) {
	j := &s.jobs[id]
	j.ready, j.where = until, s.place.nowhere()
	if int(id) < len(s.kinds.of) {
		s.kinds.of[id] = unknownKind
	}
	s.setNext(id, until)
}

// finish ends a job, whose GPUs get free after the epilog.
func (s *Sim) finish(id ID, epilog time.Duration) {
	j := &s.jobs[id]
	s.settle(id)
	stays := epilog > 0 && j.partner < 0 // its GPUs are not free yet
	if stays {
		s.withdraw(id)
		s.setNext(id, s.now+epilog)
	} else {
		s.release(id)
	}
	s.unpack(j)
	if !stays {
		s.forget(j)
	}
	j.phase, j.ends = done, s.now
	if life := (s.now - s.JobSubmit(id)).Seconds(); life > 0 {
		j.load = (s.load - j.load) / life
	} else {
		j.load = float64(s.active)
	}
	s.countActive(j, -1)
	s.finished++
	if s.opts.Series != nil && s.known(id) {
		s.opts.Series.ended = append(s.opts.Series.ended, s.outcome(id))
	}
	s.policy.Finish(id)
	s.notify(workload.Finished, id)
	if s.freed != nil && !stays {
		s.freed.Freed(id)
	}
}

// free gives back the GPUs of a job that ended before.
func (s *Sim) free(id ID) {
	s.release(id)
	s.forget(&s.jobs[id])
	if s.freed != nil {
		s.freed.Freed(id)
	}
}

func (s *Sim) notify(k workload.EventKind, id ID) {
	if s.opts.Observer == nil {
		return
	}
	e := Event{Kind: k, Time: s.now, Job: id}
	if s.report != nil && k != workload.Finished && k != workload.Submitted {
		e.Seen = s.report.Report(id)
		e.Seen.LevelAttained *= time.Duration(s.jobs[id].members) // as workload.Event has it
	}
	if j := &s.jobs[id]; k == workload.Preempted {
		if e.Lost = j.anew; j.ready > s.now {
			e.HoldUntil = workload.DeadlineAt(j.ready)
		}
	}
	s.opts.Observer(e)
}

// countWaiting counts a job among the waiting (by 1), or no longer (by -1).
func (s *Sim) countWaiting(id ID, by int) {
	j := &s.jobs[id]
	s.waiting += by
	s.queued += by * int(j.gpus)
	if s.opts.Attribute {
		s.kinds.list[s.kind(id)].jobs += by
	}
	if by < 0 {
		s.kinds.stopsWaiting(id)
	}
	if s.opts.Series != nil {
		s.opts.Series.waiting[SizeClass(int(j.gpus/j.members))] += by
	}
	if s.opts.PerTenant {
		t := &s.tenants[j.tenant]
		s.accrue(t)
		t.usage.asked += by * int(j.gpus)
		t.waiting += by
	}
}

// countActive counts a job among the active (by 1), or no longer (by -1).
func (s *Sim) countActive(j *job, by int) {
	s.active += by * int(j.members)
	if s.opts.PerTenant {
		t := &s.tenants[j.tenant]
		s.accrue(t)
		t.active += by
	}
}
