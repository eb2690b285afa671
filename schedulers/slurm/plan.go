package slurm

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Plan implements simulator.Policy: what is due of the main scheduler and of backfill.
func (p *policy) Plan(plan *simulator.Plan) {
	p.restore()
	now := p.v.Now()
	if now == p.planned {
		return
	}
	p.planned = now
	p.tick()
	p.release()
	if p.v.Waiting() == 0 {
		return
	}
	full := p.due(p.full)
	if full || p.since(p.freed) || p.since(p.submitted) {
		p.main(full)
	}
	if p.due(p.backfill) {
		p.fill()
	}
	p.wake()
}

// since reports whether an instant is not after this plan, and after the one before.
func (p *policy) since(t time.Duration) bool {
	return t > p.v.Now()-max(1, p.v.Round()) && t <= p.v.Now()
}

// due reports whether a clock has struck since the plan before and something has changed since its stroke
// before that. _more_work in src/plugins/sched/backfill/backfill.c.
func (p *policy) due(c clock) bool {
	return p.since(c.last(p.v.Now())) && p.changes(p.v.Now()) >= p.served(c.last(p.v.Now()-max(1, p.v.Round())))
}

// served is the plan that a stroke led to.
func (p *policy) served(stroke time.Duration) time.Duration {
	if p.v.Round() == 0 || stroke == long {
		return stroke
	}
	return clock{0, p.v.Round(), long}.next(stroke)
}

// changes is the last instant at which something changed for backfill.
func (p *policy) changes(now time.Duration) time.Duration {
	last := p.changed
	if p.set.BFMinAgeReserve > 0 {
		for _, e := range p.queue {
			if at := e.submit + p.set.BFMinAgeReserve; at <= now {
				last = max(last, at)
			}
		}
	}
	return last
}

// wake asks for a plan when something is due that has an effect.
func (p *policy) wake() {
	now := p.v.Now()
	if p.v.Waiting() == 0 {
		return
	}
	if p.submitted > now {
		p.plan.WakeAt(p.submitted)
	}
	next := never
	if !p.set.Basic {
		next = p.clock.next(now + 1)
	}
	if p.set.BFMinAgeReserve > 0 {
		for _, e := range p.queue {
			if at := e.submit + p.set.BFMinAgeReserve; at > now {
				next = min(next, at)
			}
		}
	}
	changed := p.changes(now)
	for _, c := range []clock{p.full, p.backfill} {
		if changed >= p.served(c.last(now)) {
			p.plan.WakeAt(c.next(now + 1))
		} else if next != never {
			p.plan.WakeAt(max(next, c.next(p.served(next)-max(1, p.v.Round())+1)))
		}
	}
}

// release submits the requeued jobs anew that may start again.
func (p *policy) release() {
	for _, e := range p.queue {
		if x := &p.jobs[e.id]; x.held && x.eligible <= p.v.Now() {
			x.held = false
			p.submit(x.eligible)
			p.changed = p.v.Now()
		}
	}
}

// main starts jobs in order until one of a partition does not fit. It knows no reservations.
// schedule in src/slurmctld/job_scheduler.c.
func (p *policy) main(full bool) {
	p.sort()
	depth, started := 0, 0
	p.stopped = p.stopped[:0]
	p.looked = longer(p.looked[:0], len(p.site.partitions))
	for _, e := range p.queue {
		x := &p.jobs[e.id]
		if x.eligible > p.v.Now() || slices.Contains(p.stopped, x.part) {
			continue
		}
		if depth++; !full && depth > p.set.DefaultQueueDepth {
			break
		}
		if p.looked[x.part]++; p.set.PartitionJobDepth > 0 && int(p.looked[x.part]) > p.set.PartitionJobDepth {
			continue
		}
		fits, ok := p.start(e.id, p.all)
		if !ok && !fits {
			ok = p.preempt(e.id, p.all)
		}
		switch {
		case ok:
			if started++; started == p.set.SchedMaxJobStart {
				p.compact()
				return
			}
		case !fits && !p.unreserved(e):
			p.stopped = append(p.stopped, x.part)
		}
		if len(p.stopped) == len(p.site.partitions) {
			break
		}
	}
	p.compact()
}

// unreserved reports whether a job is too young, or of too low a priority, to get a reservation, and so
// to keep others waiting.
func (p *policy) unreserved(e entry) bool {
	return p.set.BFMinAgeReserve > 0 && p.v.Now()-e.submit < p.set.BFMinAgeReserve ||
		e.priority < p.set.BFMinPrioReserve
}

// compact removes the jobs that were started from the queue.
func (p *policy) compact() {
	if !p.begun {
		return
	}
	p.begun = false
	p.queue = slices.DeleteFunc(p.queue, func(e entry) bool { return !p.jobs[e.id].waits })
}

// start starts a job on some of the nodes, and reports whether it fits there.
func (p *policy) start(j simulator.ID, nodes set) (fits, ok bool) {
	k := &p.kind[p.jobs[j].kind]
	for i := range k.shapes {
		s := &k.shapes[i]
		if p.freeFor(j, s); !s.enough {
			continue
		}
		p.now = append(p.now[:0], s.free...)
		if p.now.and(nodes); p.now.count() < int(s.nodes) {
			continue
		}
		p.chosen = p.choose(p.now, p.chosen[:0], int(s.nodes), p.scratch)
		if fits = true; p.startOn(j, s, p.chosen) {
			return true, true
		}
	}
	return fits, false
}

// freeFor are the nodes with room now for a job in a shape.
func (p *policy) freeFor(j simulator.ID, s *shape) set {
	if s.round == p.round {
		return s.free
	}
	s.round = p.round
	if !p.v.HasNodes() {
		s.free = append(s.free[:0], 0)
		if p.v.Free() >= int(s.each) {
			s.free.add(0)
		}
	} else {
		s.free = p.v.FreeNodes(s.free, j, int(s.each))
		s.free.and(s.fits)
	}
	s.enough = s.free.count() >= int(s.nodes)
	return s.free
}

// startOn starts a job on the nodes chosen, unless its tenant may not have the GPUs.
func (p *policy) startOn(j simulator.ID, s *shape, nodes []int32) bool {
	if !p.v.HasNodes() {
		if !p.plan.Start(j) {
			return false
		}
		p.future.free[0] -= s.each
		p.started(j)
		return true
	}
	left := p.kind[p.jobs[j].kind].gpus
	p.seats = p.seats[:0]
	for _, n := range nodes {
		g := min(left, s.each)
		p.seats = append(p.seats, workload.NodeGPUs{Node: int(n), GPUs: int(g)})
		left -= g
	}
	if !p.plan.StartAt(j, p.seats) {
		return false
	}
	for _, a := range p.seats {
		p.future.free[a.Node] -= int32(a.GPUs)
	}
	p.started(j)
	return true
}

func (p *policy) started(j simulator.ID) {
	p.enter(j)
	p.changed, p.begun = p.v.Now(), true
}

// preempt requeues jobs that a job's QOS may preempt, and starts it on their nodes.
// slurm_job_preempt in src/slurmctld/preempt.c.
func (p *policy) preempt(j simulator.ID, nodes set) bool {
	k := &p.kind[p.jobs[j].kind]
	for i := range k.shapes {
		s := &k.shapes[i]
		if !p.victims(j, s, nodes) {
			continue
		}
		for _, v := range p.stop {
			if !p.plan.Requeue(v, p.set.RequeueDelay) {
				return false
			}
			p.requeued(v)
		}
		if p.startOn(j, s, p.chosen) {
			return true
		}
	}
	return false
}

// victims finds the jobs to stop, and in chosen the nodes to start on: of the jobs that may be preempted
// those of the lowest QOS first, of these the ones on the fewest nodes, until it fits; of them those on
// the nodes chosen. preempt_p_find_jobs in src/plugins/preempt/qos/preempt_qos.c and _run_now in
// src/plugins/select/cons_tres/job_test.c.
func (p *policy) victims(j simulator.ID, s *shape, nodes set) bool {
	qos := p.jobs[j].qos
	if !p.set.PreemptQOS || len(p.site.qos[qos].Preempt) == 0 {
		return false
	}
	p.stop = p.stop[:0]
	for i := range p.future.running {
		if b := &p.future.running[i]; p.v.JobRunning(b.id) && p.site.mayPreempt(qos, p.jobs[b.id].qos) {
			p.stop = append(p.stop, b.id)
		}
	}
	at := func(j simulator.ID) []workload.NodeGPUs {
		i := slices.IndexFunc(p.future.running, func(b busy) bool { return b.id == j })
		return p.future.running[i].at
	}
	slices.SortFunc(p.stop, func(a, b simulator.ID) int {
		c := cmp.Compare(p.site.qos[p.jobs[a].qos].Priority, p.site.qos[p.jobs[b].qos].Priority)
		if p.set.PreemptYoungestFirst {
			c = cmp.Or(c, cmp.Compare(p.v.JobSince(b), p.v.JobSince(a)))
		}
		return cmp.Or(c, cmp.Compare(len(at(a)), len(at(b))), cmp.Compare(a, b))
	})
	p.gained = append(p.gained[:0], p.future.free...)
	for i, v := range p.stop {
		for _, a := range at(v) {
			p.gained[a.Node] += int32(a.GPUs)
		}
		p.now = append(p.now[:0], s.fits...)
		p.now.and(nodes)
		for n := p.now.next(0); n >= 0; n = p.now.next(n + 1) {
			if p.gained[n] < s.each {
				p.now.remove(n)
			}
		}
		if p.now.count() < int(s.nodes) {
			continue
		}
		p.chosen = p.choose(p.now, p.chosen[:0], int(s.nodes), p.scratch)
		p.stop = slices.DeleteFunc(p.stop[:i+1], func(v simulator.ID) bool {
			return !slices.ContainsFunc(at(v), func(a workload.NodeGPUs) bool {
				return slices.Contains(p.chosen, int32(a.Node))
			})
		})
		return true
	}
	return false
}

// requeued puts a preempted job back into the queue. Its age begins anew when it may start again.
func (p *policy) requeued(j simulator.ID) {
	p.leave(j)
	p.ends(int32(j), p.v.Now())
	x := &p.jobs[j]
	x.waits, x.eligible = true, p.v.JobEligible(j)
	x.held = x.eligible > p.v.Now()
	p.rank(j)
	i := slices.IndexFunc(p.queue, func(e entry) bool { return e.id == j })
	if i >= 0 { // it started in this very cycle
		p.queue[i] = p.entry(j)
	} else {
		p.queue = append(p.queue, p.entry(j))
	}
	p.unsorted = true
	p.changed = p.v.Now()
}

// cycle is the scratch of plans.
type cycle struct {
	table     table
	now       set
	scratch   set
	usableNow set
	chosen    []int32
	best      []int32
	seats     []workload.NodeGPUs
	stop      []simulator.ID
	gained    []int32
	stopped   []int32    // partitions in which the main scheduler stopped
	looked    []int32    // by partition: jobs
	tries     []entry    // the jobs of a backfill cycle
	tried     [4][]int32 // by limit, then by what it counts: jobs
	round     int        // of the nodes' free GPUs
}

// fill is a backfill cycle: in order, each job starts if that delays no job before it, or gets a reservation
// of whole nodes. _attempt_backfill in src/plugins/sched/backfill/backfill.c. It ends behind the last job that could
// start: what is reserved there has no effect.
func (p *policy) fill() {
	p.sort()
	now := p.v.Now()
	p.table.reset(now, p.set.BFWindow, p.set.BFResolution, p.all)
	tries := p.considered(p.upToStart(p.queue))
	rows := p.set.BFNodeSpaceSize
	if rows == 0 {
		rows = p.set.BFMaxJobTest
	}
	p.looked = longer(p.looked[:0], len(p.site.partitions)) // reservations
	started := 0
	for i := 0; i < len(tries); i++ {
		e := tries[i]
		x := &p.jobs[e.id]
		reserves := !p.unreserved(e) &&
			(p.set.BFJobPartCountResv == 0 || int(p.looked[x.part]) < p.set.BFJobPartCountResv)
		at, s := p.earliest(e.id, x, reserves)
		switch {
		case s == nil:
			continue
		case at <= now:
			if p.startOn(e.id, s, p.chosen) || p.preempt(e.id, p.usableNow) {
				if started++; started == p.set.BFMaxJobStart {
					tries = tries[:i+1]
				}
			}
		case len(p.table.begin) >= rows:
			tries = tries[:i+1]
		default:
			p.now = append(p.now[:0], p.all...)
			clear(p.now)
			for _, n := range p.chosen {
				p.now.add(int(n))
			}
			p.table.reserve(p.now, at, at+x.limit)
			p.looked[x.part]++
		}
		tries = tries[:i+1+len(p.upToStart(tries[i+1:]))]
	}
	p.compact()
}

// upToStart cuts waiting jobs off behind the last one that could start now beside what is reserved so far. What is
// reserved and started later leaves no more room.
func (p *policy) upToStart(queue []entry) []entry {
	if p.set.PreemptQOS {
		return queue
	}
	for n := len(queue); n > 0; n-- {
		j, k := queue[n-1].id, &p.kind[queue[n-1].kind]
		for i := range k.shapes {
			s := &k.shapes[i]
			if p.freeFor(j, s); !s.enough {
				continue
			}
			x := &p.jobs[j]
			if x.eligible > p.v.Now() {
				break
			}
			nodes, row := int(s.nodes), p.table.from(0, p.v.Now())
			p.now = append(p.now[:0], s.free...)
			if p.table.usable(p.now, nodes, row, p.v.Now()+x.limit); p.now.count() >= nodes {
				return queue[:n]
			}
		}
	}
	return nil
}

// considered are the jobs that a cycle tries: those that may start, up to the limits of users, partitions and all.
func (p *policy) considered(queue []entry) []entry {
	parts, users := len(p.site.partitions), len(p.uids)
	for i, n := range [...]int{parts, parts * users, users, len(p.tree)} {
		p.tried[i] = longer(p.tried[i][:0], n)
	}
	p.tries = p.tries[:0]
	for _, e := range queue {
		if len(p.tries) == p.set.BFMaxJobTest {
			break
		}
		if x := &p.jobs[e.id]; x.eligible <= p.v.Now() && !p.beyondLimits(x) {
			p.tries = append(p.tries, e)
		}
	}
	return p.tries
}

// beyondLimits counts a job, and reports whether there are more of its user, partition or both than a cycle
// considers.
func (p *policy) beyondLimits(x *job) bool {
	for i, limit := range [...]struct {
		most int
		of   int32
	}{{p.set.BFMaxJobPart, x.part}, {p.set.BFMaxJobUserPart, x.part*int32(len(p.uids)) + x.uid},
		{p.set.BFMaxJobUser, x.uid}, {p.set.BFMaxJobAssoc, x.user}} {
		if limit.most == 0 {
			continue
		}
		n := &p.tried[i][limit.of]
		if *n++; int(*n) > limit.most {
			return true
		}
	}
	return false
}

// earliest is when a job can start beside the reservations, in which shape and, in chosen, on which nodes; no
// shape if it cannot within the window. Without a right to reserve it can only start now.
func (p *policy) earliest(j simulator.ID, x *job, reserves bool) (time.Duration, *shape) {
	k := &p.kind[x.kind]
	if len(k.shapes) == 1 {
		if at, ok := p.earliestIn(j, x, &k.shapes[0], reserves); ok {
			return at, &k.shapes[0]
		}
		return 0, nil
	}
	best, in := never, (*shape)(nil)
	for i := range k.shapes {
		if at, ok := p.earliestIn(j, x, &k.shapes[i], reserves); ok && at < best {
			best, in = at, &k.shapes[i]
			p.best = append(p.best[:0], p.chosen...)
		}
	}
	p.chosen = append(p.chosen[:0], p.best...)
	return best, in
}

func (p *policy) earliestIn(j simulator.ID, x *job, s *shape, reserves bool) (time.Duration, bool) {
	now := p.v.Now()
	at, row, nodes := now, int32(0), int(s.nodes)
	for {
		row = p.table.from(row, at)
		p.now = append(p.now[:0], s.fits...)
		later, more := p.table.usable(p.now, nodes, row, at+x.limit)
		if p.now.count() < nodes {
			if !more || !reserves {
				return 0, false
			}
			at = later
			continue
		}
		p.usableNow = append(p.usableNow[:0], p.now...)
		start := at
		p.now.and(p.freeFor(j, s))
		switch {
		case p.now.count() >= nodes:
			p.chosen = p.choose(p.now, p.chosen[:0], nodes, p.scratch)
		case p.victims(j, s, p.usableNow):
		case !reserves:
			return 0, false
		default:
			last, ok := p.future.when(p.usableNow, s.nodes, s.each)
			if !ok {
				return 0, false
			}
			start = max(at, now+time.Second, p.future.running[last].ends)
			p.now = append(p.now[:0], p.usableNow...)
			p.future.until(p.now, last, s.each)
			p.chosen = p.choose(p.now, p.chosen[:0], nodes, p.scratch)
		}
		if start <= now {
			return start, true
		}
		switch {
		case !reserves || start > now+p.set.BFWindow && !(more && start > later):
			return 0, false
		case more && start > later:
			at = later
			continue
		}
		clear(p.now)
		for _, n := range p.chosen {
			p.now.add(int(n))
		}
		switch {
		case !p.table.reserved(p.now, row, start, start+x.limit):
			return start, true
		case start > at:
			at = start
		case more:
			at = later
		default:
			return 0, false
		}
	}
}
