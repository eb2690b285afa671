package slurm

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Plan implements simulator.Policy: it runs the main scheduler and backfill where they are due.
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

// since reports whether an instant lies behind the previous plan and not behind this one.
func (p *policy) since(t time.Duration) bool {
	return t > p.v.Now()-max(1, p.v.Round()) && t <= p.v.Now()
}

// due reports whether c fired since the previous plan and anything changed since its previous firing. _more_work in
// src/plugins/sched/backfill/backfill.c.
func (p *policy) due(c clock) bool {
	return p.since(c.last(p.v.Now())) && p.changes(p.v.Now()) >= p.served(c.last(p.v.Now()-max(1, p.v.Round())))
}

// served returns the instant of the plan that a stroke caused.
func (p *policy) served(stroke time.Duration) time.Duration {
	if p.v.Round() == 0 || stroke == longAgo {
		return stroke
	}
	return clock{0, p.v.Round(), longAgo}.next(stroke)
}

// changes returns the last instant at which anything changed for backfill.
func (p *policy) changes(now time.Duration) time.Duration {
	last := p.changed
	if i, _ := slices.BinarySearch(p.edges, now+1); i > 0 {
		last = max(last, p.edges[i-1])
	}
	if p.settings.BFMinAgeReserve > 0 {
		for _, e := range p.queue {
			if at := e.submit + p.settings.BFMinAgeReserve; at <= now {
				last = max(last, at)
			}
		}
	}
	return last
}

// wake asks for a plan at the next cycle that has an effect.
func (p *policy) wake() {
	now := p.v.Now()
	if p.v.Waiting() == 0 {
		return
	}
	if p.submitted > now {
		p.plan.WakeAt(p.submitted)
	}
	next := never
	if !p.settings.Basic {
		next = p.clock.next(now + 1)
	}
	if i, _ := slices.BinarySearch(p.edges, now+1); i < len(p.edges) {
		next = min(next, p.edges[i])
	}
	if p.settings.BFMinAgeReserve > 0 {
		for _, e := range p.queue {
			if at := e.submit + p.settings.BFMinAgeReserve; at > now {
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

// main starts jobs in order until one of a partition does not fit; then none starts on the nodes of that partition. It
// knows no reservations.
// schedule in src/slurmctld/job_scheduler.c.
func (p *policy) main(full bool) {
	p.sort()
	depth, started := 0, 0
	p.stopped = p.stopped[:0]
	p.open = append(p.open[:0], p.all...)
	p.perPartition = longer(p.perPartition[:0], len(p.site.partitions))
	for _, e := range p.queue {
		x := &p.jobs[e.id]
		if x.eligible > p.v.Now() || slices.Contains(p.stopped, x.part) {
			p.note(e.id, simulator.Behind)
			continue
		}
		if depth++; !full && depth > p.settings.DefaultQueueDepth {
			break
		}
		p.perPartition[x.part]++
		if most := p.settings.PartitionJobDepth; most > 0 && int(p.perPartition[x.part]) > most {
			p.note(e.id, simulator.Depth)
			continue
		}
		if p.limited(x) {
			p.note(e.id, simulator.Limited)
			continue
		}
		nodes := p.open
		if len(p.reservations) > 0 {
			p.lent = append(p.lent[:0], p.open...)
			from, _ := p.reserved(p.lent, x, p.v.Now())
			if from > p.v.Now() || !p.holds(x.layout, p.lent) && p.holds(x.layout, p.open) {
				p.note(e.id, simulator.Closed)
				continue // it keeps no other job waiting
			}
			nodes = p.lent
		}
		fits, ok := p.start(e.id, nodes)
		if !ok && !fits {
			ok = p.preempt(e.id, nodes)
		}
		switch {
		case ok:
			if started++; started == p.settings.SchedMaxJobStart {
				p.compact()
				return
			}
		case !fits && !p.unreserved(e):
			p.stopped = append(p.stopped, x.part)
			p.open.minus(p.partitionNodes(x.part))
		}
		if len(p.stopped) == len(p.site.partitions) {
			break
		}
	}
	p.compact()
}

// holds reports whether jobs of a layout fit on some of the nodes, were they idle.
func (p *policy) holds(layout int32, nodes nodeSet) bool {
	return slices.ContainsFunc(p.layouts[layout].shapes, func(s shape) bool {
		p.avail = append(p.avail[:0], s.fits...)
		p.avail.and(nodes)
		return p.avail.count() >= int(s.nodes)
	})
}

// partitionNodes are the nodes of a partition; all, if none is known to be in it.
func (p *policy) partitionNodes(part int32) nodeSet {
	x := &p.site.partitions[part]
	if x.nodes != nil || !p.v.HasNodes() {
		return x.nodes
	}
	x.nodes = make(nodeSet, len(p.all))
	groups := p.v.Cluster().Groups
	for n := range p.future.free {
		if within(x.Name, groups[p.v.NodeGroup(n)].Partition) {
			x.nodes.add(n)
		}
	}
	if x.nodes.count() == 0 {
		x.nodes = slices.Clone(p.all)
	}
	return x.nodes
}

// unreserved reports whether a job is too young, or of too low a priority, to get a reservation, and so
// to keep others waiting.
func (p *policy) unreserved(e entry) bool {
	return p.settings.BFMinAgeReserve > 0 && p.v.Now()-e.submit < p.settings.BFMinAgeReserve ||
		e.priority < p.settings.BFMinPrioReserve
}

// compact removes the jobs that were started from the queue.
func (p *policy) compact() {
	if !p.anyStarted {
		return
	}
	p.anyStarted = false
	p.queue = slices.DeleteFunc(p.queue, func(e entry) bool { return !p.jobs[e.id].waits })
}

// start starts a job on some of the nodes, and reports whether it fits there.
func (p *policy) start(j simulator.ID, nodes nodeSet) (fits, ok bool) {
	k := &p.layouts[p.jobs[j].layout]
	for i := range k.shapes {
		s := &k.shapes[i]
		if p.freeFor(j, s); !s.enough {
			continue
		}
		p.avail = append(p.avail[:0], s.free...)
		if p.avail.and(nodes); p.avail.count() < int(s.nodes) {
			continue
		}
		p.pick(p.avail, int(s.nodes))
		if fits = true; p.startOn(j, s, p.chosen) {
			return true, true
		}
	}
	return fits, false
}

// freeFor returns the nodes with room now for a job in a shape.
func (p *policy) freeFor(j simulator.ID, s *shape) nodeSet {
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
		if p.taken != nil {
			s.free.minus(p.taken)
		}
		for n := s.free.next(0); n >= 0 && s.need.gpus == wholeNode; n = s.free.next(n + 1) {
			if p.future.free[n] < p.future.gpus[n] {
				s.free.remove(n)
			}
		}
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
	p.seat(j, s, nodes)
	if !p.plan.StartAt(j, p.seats) {
		return false
	}
	cpus, memory := p.v.JobNeed(j)
	for _, a := range p.seats {
		p.future.free[a.Node] -= int32(a.GPUs)
		if len(p.future.cpus) > 0 {
			p.future.cpus[a.Node] -= cpus * int64(a.GPUs)
			p.future.memory[a.Node] -= memory * int64(a.GPUs)
		}
	}
	p.started(j)
	return true
}

// seat sets seats to the GPUs of a job in a shape on the nodes chosen.
func (p *policy) seat(j simulator.ID, s *shape, nodes []int32) {
	left := p.layouts[p.jobs[j].layout].gpus
	p.seats = p.seats[:0]
	for _, n := range nodes {
		g := min(left, s.each)
		p.seats = append(p.seats, workload.NodeGPUs{Node: int(n), GPUs: int(g)})
		left -= g
	}
}

func (p *policy) started(j simulator.ID) {
	p.enter(j)
	p.changed, p.anyStarted = p.v.Now(), true
}

// preempt requeues or cancels jobs that a job may preempt, and starts it on their nodes.
// slurm_job_preempt in src/slurmctld/preempt.c.
func (p *policy) preempt(j simulator.ID, nodes nodeSet) bool {
	k := &p.layouts[p.jobs[j].layout]
	for i := range k.shapes {
		s := &k.shapes[i]
		if !p.victims(j, s, nodes) {
			continue
		}
		if p.v.HasNodes() {
			p.seat(j, s, p.chosen)
			if !p.plan.FitsWithout(p.requeues, j, p.seats) {
				continue // for lack of CPUs, memory or quota
			}
		}
		for _, v := range p.requeues {
			if p.cancels(&p.jobs[v]) {
				p.plan.Cancel(v)
				continue
			}
			p.plan.Requeue(v, p.settings.RequeueDelay)
			p.requeued(v)
		}
		if p.startOn(j, s, p.chosen) {
			return true
		}
	}
	return false
}

// victims finds the jobs to preempt, and in chosen the nodes to start on: of the jobs that may be preempted now
// the ones of the lowest QOS or tier first, of these the ones on the fewest nodes, until the job fits; of them the ones
// on the nodes chosen. slurm_find_preemptable_jobs in src/slurmctld/preempt.c and _run_now in
// src/plugins/select/cons_tres/job_test.c.
func (p *policy) victims(j simulator.ID, s *shape, nodes nodeSet) bool {
	x := &p.jobs[j]
	if !p.preempts() || p.settings.PreemptQOS && len(p.site.qos[x.qos].Preempt) == 0 {
		return false
	}
	p.requeues = p.requeues[:0]
	for i := range p.future.running {
		if b := &p.future.running[i]; p.v.JobRunning(b.id) && p.mayPreempt(x, &p.jobs[b.id]) &&
			!p.plan.Protected(b.id) {
			p.requeues = append(p.requeues, b.id)
		}
	}
	runs := func(j simulator.ID) *busy {
		i := slices.IndexFunc(p.future.running, func(b busy) bool { return b.id == j })
		return &p.future.running[i]
	}
	slices.SortFunc(p.requeues, func(a, b simulator.ID) int {
		x, y := &p.jobs[a], &p.jobs[b]
		c := cmp.Compare(p.site.qos[x.qos].Priority, p.site.qos[y.qos].Priority)
		if p.settings.PreemptPartition {
			c = cmp.Compare(p.site.partitions[x.part].PriorityTier, p.site.partitions[y.part].PriorityTier)
		}
		if p.settings.PreemptYoungestFirst {
			c = cmp.Or(c, cmp.Compare(p.v.JobSince(b), p.v.JobSince(a)))
		}
		return cmp.Or(c, cmp.Compare(len(runs(a).at), len(runs(b).at)), cmp.Compare(a, b))
	})
	p.gained = append(p.gained[:0], p.future.free...)
	for i, v := range p.requeues {
		b := runs(v)
		for _, a := range b.at {
			p.gained[a.Node] += p.future.freed(b, a)
		}
		p.avail = append(p.avail[:0], s.fits...)
		p.avail.and(nodes)
		for n := p.avail.next(0); n >= 0; n = p.avail.next(n + 1) {
			if p.gained[n] < s.each || s.need.gpus == wholeNode && p.gained[n] < p.future.gpus[n] {
				p.avail.remove(n)
			}
		}
		if p.avail.count() < int(s.nodes) {
			continue
		}
		p.pick(p.avail, int(s.nodes))
		p.requeues = slices.DeleteFunc(p.requeues[:i+1], func(v simulator.ID) bool {
			return !slices.ContainsFunc(runs(v).at, func(a workload.NodeGPUs) bool {
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
	p.count(x, false)
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

// cycle holds the scratch memory of plans.
type cycle struct {
	table        table
	avail        nodeSet // nodes that a job may get
	open         nodeSet // nodes on which the main scheduler has not stopped
	lent         nodeSet // of them the ones that are not reserved
	scratch      nodeSet
	usableNow    nodeSet
	chosen       []int32
	best         []int32
	seats        []workload.NodeGPUs
	requeues     []simulator.ID
	gained       []int32
	stopped      []int32    // partitions in which the main scheduler stopped
	perPartition []int32    // jobs that the main scheduler saw, or reservations, by partition
	tries        []entry    // the jobs of a backfill cycle
	tried        [4][]int32 // jobs by limit, then by user, partition or association
	round        int        // of the nodes' free GPUs
}

// fill is a backfill cycle: in order, each job starts if that delays no job before it, or gets a reservation
// of whole nodes. _attempt_backfill in src/plugins/sched/backfill/backfill.c. It ends behind the last job that could
// start, as reservations behind it have no effect.
func (p *policy) fill() {
	p.sort()
	now := p.v.Now()
	p.table.reset(now, p.settings.BFWindow, p.settings.BFResolution, p.all)
	tries := p.considered(p.upToStart(p.queue))
	rows := cmp.Or(p.settings.BFNodeSpaceSize, p.settings.BFMaxJobTest)
	p.perPartition = longer(p.perPartition[:0], len(p.site.partitions)) // reservations
	started := 0
	for i := 0; i < len(tries); i++ {
		e := tries[i]
		x := &p.jobs[e.id]
		if p.limited(x) {
			p.note(e.id, simulator.Limited)
			continue
		}
		reserves := !p.unreserved(e) &&
			(p.settings.BFJobPartCountResv == 0 || int(p.perPartition[x.part]) < p.settings.BFJobPartCountResv)
		at, s := p.earliest(e.id, x, reserves)
		if s == nil || at > now {
			p.noteRoom(e.id)
		}
		switch {
		case s == nil:
			continue
		case at <= now:
			if p.startOn(e.id, s, p.chosen) || p.preempt(e.id, p.usableNow) {
				if started++; started == p.settings.BFMaxJobStart {
					tries = p.cutOff(tries, i+1)
				}
			} else {
				p.note(e.id, simulator.OverQuota)
			}
		case len(p.table.begin) >= rows:
			tries = p.cutOff(tries, i+1)
		default:
			p.onlyChosen()
			p.table.reserve(p.avail, at, at+x.limit)
			p.perPartition[x.part]++
		}
		tries = tries[:i+1+len(p.upToStart(tries[i+1:]))]
	}
	p.compact()
}

// upToStart cuts waiting jobs off behind the last one that could start now beside the reservations so far. Later
// reservations and starts leave no more room.
func (p *policy) upToStart(queue []entry) []entry {
	if p.preempts() {
		return queue
	}
	for n := len(queue); n > 0; n-- {
		j, k := queue[n-1].id, &p.layouts[queue[n-1].layout]
		if p.limited(&p.jobs[j]) {
			p.note(j, simulator.Limited)
			continue
		}
		p.noteRoom(j)
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
			p.avail = append(p.avail[:0], s.free...)
			if p.table.usable(p.avail, nodes, row, p.v.Now()+x.limit); p.avail.count() >= nodes {
				return queue[:n]
			}
		}
	}
	return nil
}

// considered returns the jobs that a cycle tries: the ones that may start, up to the limits of users, partitions and
// all.
func (p *policy) considered(queue []entry) []entry {
	parts, users := len(p.site.partitions), len(p.uids)
	for i, n := range [...]int{parts, parts * users, users, len(p.tree)} {
		p.tried[i] = longer(p.tried[i][:0], n)
	}
	p.tries = p.tries[:0]
	for _, e := range queue {
		if len(p.tries) == p.settings.BFMaxJobTest {
			p.note(e.id, simulator.Depth)
			if p.why == nil {
				break
			}
			continue
		}
		if x := &p.jobs[e.id]; x.eligible <= p.v.Now() {
			if p.beyondLimits(x) {
				p.note(e.id, simulator.Depth)
				continue
			}
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
	}{{p.settings.BFMaxJobPart, x.part}, {p.settings.BFMaxJobUserPart, x.part*int32(len(p.uids)) + x.uid},
		{p.settings.BFMaxJobUser, x.uid}, {p.settings.BFMaxJobAssoc, x.user}} {
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

// earliest returns the first instant at which a job can start beside the reservations, its shape and, in chosen, its
// nodes; no shape if there is none within the window. Without a right to reserve it can only start now.
func (p *policy) earliest(j simulator.ID, x *job, reserves bool) (time.Duration, *shape) {
	k := &p.layouts[x.layout]
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

// onlyChosen sets avail to the nodes chosen.
func (p *policy) onlyChosen() {
	p.avail = longer(p.avail, len(p.all))
	clear(p.avail)
	for _, n := range p.chosen {
		p.avail.add(int(n))
	}
}

func (p *policy) earliestIn(j simulator.ID, x *job, s *shape, reserves bool) (time.Duration, bool) {
	now := p.v.Now()
	at, row, nodes := now, int32(0), int(s.nodes)
	for {
		p.avail = append(p.avail[:0], s.fits...)
		var free time.Duration
		if at, free = p.reserved(p.avail, x, at); at > now && !reserves {
			return 0, false
		}
		row = p.table.from(row, at)
		later, more := p.table.usable(p.avail, nodes, row, at+x.limit)
		if free > 0 && free < now+p.settings.BFWindow && (!more || free < later) {
			later, more = free, true
		}
		if p.avail.count() < nodes {
			if !more || !reserves {
				return 0, false
			}
			at = later
			continue
		}
		p.usableNow = append(p.usableNow[:0], p.avail...)
		start := at
		p.avail.and(p.freeFor(j, s))
		switch {
		case p.avail.count() >= nodes:
			p.pick(p.avail, nodes)
		case p.victims(j, s, p.usableNow):
		case !reserves:
			return 0, false
		default:
			last, ok := p.future.when(p.usableNow, s.nodes, s.need)
			if !ok {
				return 0, false
			}
			start = max(at, now+time.Second, p.future.running[last].ends)
			p.avail = append(p.avail[:0], p.usableNow...)
			p.future.until(p.avail, last, s.need)
			p.pick(p.avail, nodes)
		}
		if start <= now {
			return start, true
		}
		switch {
		case !reserves || start > now+p.settings.BFWindow && !(more && start > later):
			return 0, false
		case more && start > later:
			at = later
			continue
		}
		p.onlyChosen()
		switch {
		case !p.table.reserved(p.avail, row, start, start+x.limit):
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
