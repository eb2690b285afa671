package simulator

import (
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// rebuildHeap makes the heap of the jobs' next events.
func (s *Sim) rebuildHeap() {
	s.deferred = false
	s.heap = s.heap[:0]
	for i := range s.jobs {
		if j := &s.jobs[i]; j.next != never {
			s.heap = append(s.heap, heapItem{j.next, ID(i)})
		}
	}
	s.heap.rebuild()
	s.sweepAt = sweepLength(len(s.heap))
}

// sweep removes stale items from the heap: jobs that are preempted often leave many
// more of them than there are jobs.
func (s *Sim) sweep() {
	live := s.heap[:0]
	for _, x := range s.heap {
		if s.jobs[x.id].next == x.at {
			live = append(live, x)
		}
	}
	s.heap = live
	s.heap.rebuild()
	s.sweepAt = sweepLength(len(live))
}

// sweepLength is the length of the heap at which it is swept again: sweeping costs in
// proportion to the items added in between.
func sweepLength(items int) int { return 2*items + 64 }

// restore makes the observed jobs active and admits them to the policy.
func (s *Sim) restore(left []time.Duration) {
	s.deferred = true
	defer s.rebuildHeap()
	s.restoreJobs(left)
	apart := s.place.apart
	if apart == 0 {
		s.restorePlaced()
		s.restoreOthers()
	} else {
		s.partition(0) // until the observed jobs have their GPUs
		s.restorePlaced()
		s.partition(apart)
		s.restoreOthers()
		s.partition(apart) // now that all partners are there
	}
	s.admitObserved()
}

// restoreJobs makes the observed jobs active. All wait.
func (s *Sim) restoreJobs(left []time.Duration) {
	observed := s.state.Jobs
	crowd := 0
	for i := range observed {
		crowd += observed[i].Size()
	}
	for i := range observed {
		a := &observed[i]
		j := &s.jobs[i]
		spell := s.now - a.Since
		*j = s.newJob(ID(i), &a.Job)
		j.firstPool = 0
		if a.Pool == 1 {
			j.firstPool = 1
		}
		if a.Running && s.place.apart > 0 {
			j.pool = uint8(j.firstPool)
		}
		j.work, j.left, j.mark, j.since, j.waited = max(1, left[i]), max(1, left[i]), s.now, a.Since, a.WaitTime
		j.attained, j.starts, j.preempts = a.Attained, int32(a.Starts), int32(a.Preemptions)
		j.ready, j.anew = a.Submit, a.Starts == a.LostStarts
		if j.limit != never {
			j.limit = max(1, j.limit-a.RunTime)
		}
		if !a.Running && a.HoldUntil != 0 && a.HoldUntil > s.now {
			s.hold(ID(i), a.HoldUntil)
		}
		if a.Starts > 0 {
			j.first = a.Submit
		}
		if !a.Running {
			j.waited -= spell
		}
		held := 0
		if a.Running {
			held = s.heldBy(a)
		}
		j.floor = s.now - a.Submit + s.least(ID(i), held)
		// For the finish-time fairness: the work before is the GPU-time received
		// over the GPUs asked for, and as many jobs as now were active then.
		j.work += max(0, a.Attained/time.Duration(j.gpus)-a.Lost)
		j.load = s.load - float64(crowd)*(s.now-a.Submit).Seconds()
		if a.Starts == 0 && s.postpone(ID(i)) {
			continue
		}
		s.countActive(j, 1)
		s.countWaiting(ID(i), 1)
	}
}

// restorePlaced continues jobs with a reported placement, before others take their
// GPUs. Jobs that share them come after their partners.
func (s *Sim) restorePlaced() {
	for i := range s.state.Jobs {
		if a := &s.state.Jobs[i]; a.Running && s.place.mode != Count && !s.joined(a) &&
			s.mayOccupy(&s.jobs[i], a.Placement, s.heldBy(a)) {
			s.occupy(ID(i), a.Placement)
			s.restoreRunning(ID(i), a)
		}
	}
}

// restoreOthers continues the other running jobs: on the GPUs of their partners, then
// where there is room, then on the GPUs of partners that found room. The rest waits.
func (s *Sim) restoreOthers() {
	observed := s.state.Jobs
	var named map[string]ID // the observed jobs, if one names its partner
	for i := range observed {
		if observed[i].Running && s.joined(&observed[i]) {
			named = make(map[string]ID, len(observed))
			for k := range observed {
				named[observed[k].ID] = ID(k)
			}
			break
		}
	}
	for i := range observed {
		if a := &observed[i]; a.Running && s.jobs[i].phase == pending {
			s.restorePair(ID(i), a, named)
		}
	}
	for i := range observed {
		a := &observed[i]
		if a.Running && s.jobs[i].phase == pending && !s.joined(a) && s.allocate(ID(i), s.heldBy(a)) {
			s.restoreRunning(ID(i), a)
		}
	}
	for i := range observed {
		a := &observed[i]
		if !a.Running || s.jobs[i].phase != pending || s.restorePair(ID(i), a, named) {
			continue
		}
		if s.allocate(ID(i), s.heldBy(a)) {
			s.restoreRunning(ID(i), a)
			continue
		}
		s.jobs[i].since = s.now // it has to wait from now on
	}
}

// admitObserved admits the observed jobs to the policy.
func (s *Sim) admitObserved() {
	for i := range s.state.Jobs {
		if s.jobs[i].aside {
			continue
		}
		a := &s.state.Jobs[i]
		seen := Seen{LevelAttained: a.LevelAttained, HasLevel: a.HasLevel, LeaseUntil: a.LeaseUntil}
		if a.Running && seen.HasLevel {
			seen.LevelAttained += s.served(a) // it was reported when the spell began
		}
		seen.LevelAttained /= time.Duration(s.jobs[i].members) // as JobAttained
		s.policy.Admit(ID(i), seen)
	}
}

// served is the service that an observed running job has received in its
// present spell.
func (s *Sim) served(a *workload.ActiveJob) time.Duration {
	from := a.Since
	if s.opts.Peer.RestartOutsideService {
		from = s.restartEnd(a)
	}
	return max(0, s.now-from) * time.Duration(s.heldBy(a))
}

// restartEnd is the instant from which an observed running job makes progress
// in its present spell.
func (s *Sim) restartEnd(a *workload.ActiveJob) time.Duration {
	each := s.heldBy(a) / a.Size()
	switch {
	case a.Resizes > 0:
		return a.Since + s.restartCost(&a.Job, each)
	case a.Starts-a.LostStarts > 1:
		return a.Since + s.resumeCost(&a.Job, each)
	}
	return a.Since
}

// heldBy is the number of GPUs an observed running job holds.
func (s *Sim) heldBy(a *workload.ActiveJob) int {
	if a.Held > 0 {
		return min(a.Held, workload.MaxGPUs)
	}
	return a.GPUs.Whole()
}

// joined reports whether an observed job shares the GPUs of one that it names.
func (s *Sim) joined(a *workload.ActiveJob) bool {
	_, shares := s.policy.(Sharer)
	return shares && a.SharesWith != ""
}

// restorePair continues an observed job on the GPUs of its partner, if it has one.
func (s *Sim) restorePair(id ID, a *workload.ActiveJob, named map[string]ID) bool {
	host := s.hostOf(id, a, named)
	if host < 0 {
		return false
	}
	s.join(id, host)
	s.restoreRunning(id, a)
	s.scheduleEnd(host)
	return true
}

// hostOf is the running job that an observed one shares its GPUs with, or -1. If no
// partner is reported, it is, of the jobs that run alone on as many GPUs there, the
// one with which most is done together: no policy pairs jobs that stop each other.
func (s *Sim) hostOf(id ID, a *workload.ActiveJob, named map[string]ID) ID {
	if s.joined(a) {
		host, ok := named[a.SharesWith]
		if !ok {
			return -1
		}
		if j := &s.jobs[host]; j.phase != running || j.shares || j.held != s.jobs[id].gpus ||
			!s.suits(id, host) {
			return -1
		}
		return host
	}
	if _, shares := s.policy.(Sharer); !shares || len(a.Placement) == 0 || s.place.mode == Count {
		return -1
	}
	host, most := ID(-1), 0.0
	for i := range s.state.Jobs {
		j := &s.jobs[i]
		if j.phase != running || j.shares || j.held != s.jobs[id].gpus {
			continue
		}
		s.nodes = s.placementOf(s.nodes[:0], j)
		if !slices.Equal(s.nodes, a.Placement) || !s.suits(id, ID(i)) {
			continue
		}
		if own, other := s.PairSpeeds(id, ID(i)); own > 0 && other > 0 && own+other > most {
			host, most = ID(i), own+other
		}
	}
	return host
}

// mayOccupy reports whether a job may have GPUs of nodes, a number in all. Nodes must be up, satisfy its
// constraint and be of one group.
func (s *Sim) mayOccupy(j *job, at []workload.NodeGPUs, gpus int) bool {
	sum := 0
	for k, n := range at {
		if n.Node < 0 || n.Node >= len(s.place.free) || n.GPUs <= 0 || n.GPUs > int(s.place.free[n.Node]) {
			return false
		}
		if s.place.status[n.Node] == down || !s.place.satisfies(n.Node, s.where(j)) {
			return false
		}
		if one := j.members == 1 && s.place.constraints[s.where(j)].nodes == 0; one &&
			s.place.group(n.Node) != s.place.group(at[0].Node) {
			return false
		}
		for _, m := range at[:k] {
			if m.Node == n.Node {
				return false
			}
		}
		sum += n.GPUs
	}
	return sum == gpus
}

// restoreRunning continues an observed job on the GPUs allocated to it. The rest of its restart is
// the remaining cost of its last resume.
func (s *Sim) restoreRunning(id ID, a *workload.ActiveJob) {
	j := &s.jobs[id]
	s.countWaiting(id, -1)
	j.phase, j.ready = running, s.restartEnd(a)
	if j.limit != never {
		j.limit += s.now
	}
	s.scheduleEnd(id)
}

// Fork copies the simulation into dst, reusing its memory, and continues it under
// p: Reconfigure on a copy. p must not be in use. Options.Observer and
// Options.Series are not copied.
func (s *Sim) Fork(dst *Sim, p Policy) {
	dst.inputs, dst.counters, dst.report = s.inputs, s.counters, s.report
	dst.opts.Observer, dst.opts.Series = nil, nil
	dst.records.copyFrom(&s.records)
	dst.reach.forget()
	dst.planning, dst.moves = false, dst.moves[:0]
	dst.plan.s = dst
	dst.Reconfigure(p)
}

// copyFrom copies records into this memory.
func (r *records) copyFrom(src *records) {
	r.jobs = append(r.jobs[:0], src.jobs...)
	r.multi = longer(r.multi, len(src.multi))
	for i, m := range src.multi {
		r.multi[i] = append(r.multi[i][:0], m...)
	}
	r.spare = append(r.spare[:0], src.spare...)
	r.place.copyFrom(&src.place)
	r.kinds.copyFrom(&src.kinds)
	r.tenants = longer(r.tenants, len(src.tenants))
	for i := range src.tenants {
		r.tenants[i].copyFrom(&src.tenants[i])
	}
	r.tenantsOf = append(r.tenantsOf[:0], src.tenantsOf...)
	r.classes.copyFrom(&src.classes)
	r.loads.copyFrom(&src.loads)
	r.drawn = append(r.drawn[:0], src.drawn...)
	r.sleep.copyFrom(&src.sleep)
	r.deferral = src.deferral
}

// handover is a policy's report about a job to the next.
type handover struct {
	id   ID
	seen Seen
}

// Reconfigure gives the active jobs to another policy, or to the same one with
// other settings. By itself it starts and stops nothing: the new policy decides
// when something happens next or, on a grid, in the next round.
func (s *Sim) Reconfigure(p Policy) {
	s.readmit(s.unwrapped(p))
	s.planNextRound()
}

// readmit gives the active jobs to a policy, with the reports of the present one.
func (s *Sim) readmit(p Policy) {
	s.handover = s.handover[:0]
	s.deferred = true
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.phase != pending && j.phase != running || j.aside {
			continue
		}
		t := handover{id: ID(i)}
		if s.report != nil {
			t.seen = s.report.Report(t.id)
		}
		if j.phase == running {
			j.quantum, j.next = never, j.ends
		}
		s.handover = append(s.handover, t)
	}
	s.wake = never
	s.use(p)
	for _, t := range s.handover {
		p.Admit(t.id, t.seen)
	}
	s.rebuildHeap()
}

// planNextRound lets a policy that was given active jobs decide in the next
// round, which may come before anything else happens. A round at this very
// instant is over.
func (s *Sim) planNextRound() {
	if s.opts.Round > 0 && s.active > 0 {
		s.planAt = min(s.planAt, s.ceil(s.now+1))
	}
}
