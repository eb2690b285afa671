// Package slurm is slurmctld's scheduling: a main scheduler that starts jobs in order of
// priority until one does not fit, and a backfill scheduler that comes at intervals and starts
// jobs further behind if they delay no reservation of one before them. Reservations take whole nodes
// for as long as the time limits say. Priorities are multifactor, and as old as the last
// calculation. It follows Slurm 22.05; each rule names the source that it is from.
//
// Clocks strike at multiples of their intervals (Phases), not an interval after the last cycle,
// so that a run that resumes from the observed state of a cluster goes on as the cluster does. A change of
// weights takes effect at once, not at the next PriorityCalcPeriod; that of the half-life as if it had always
// been in force. A job that is not known to have a time limit has its estimated run time
// (simulator.Options.Estimate), or runs without end for plans. GPUs, CPUs and memory decide where and when a job fits.
//
// Left out are licenses, topologies other than trees of switches, jobs within advance reservations, federations, limits
// other than of GPUs and running jobs, job arrays' throttles, and the time that cycles take.
package slurm

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// New makes the policy of a configuration of Space and SiteParam. Other settings are the cluster's (workload.Site), or
// Slurm's defaults. Without accounts, shares are the weights of virtual clusters.
func New(c space.Config) simulator.Policy { return &policy{config: &c} }

// NewPolicy makes the policy of settings, regardless of the cluster's site.
func NewPolicy(s Settings) simulator.Policy { return &policy{settings: s} }

type policy struct {
	settings       Settings
	config         *space.Config // the source of settings, nil if they are given
	shares         *phaseShares  // of Members, else nil
	backfill, full clock
	// choose appends a number of the nodes; nil unless a test compares with another way.
	choose func(nodes nodeSet, dst []int32, n int, scratch nodeSet) []int32

	v            *simulator.View
	plan         *simulator.Plan
	why          *simulator.Why // nil unless asked for
	site         site
	limits       limits
	reservations []advance
	edges        []time.Duration // when they begin and end
	wires        []wire          // the switches
	weights      nodeWeights
	taken        nodeSet // by jobs that have nodes whole, nil for none
	usage
	jobs        []job
	queue       []entry // the waiting jobs in order
	unsorted    bool
	anyStarted  bool // jobs of the queue have been started
	future      future
	all         nodeSet // nodes that take jobs
	layoutIndex map[layoutKey]int32
	uids        map[string]int32
	layouts     []layout

	ticked    time.Duration // the last calculation of priorities
	submitted time.Duration // the last or next main cycle that submissions caused
	freed     time.Duration // when GPUs of a job that ended got free last
	changed   time.Duration // when a job came, started or ended last
	planned   time.Duration // the last plan
	observed  simulator.ID  // jobs below it were active when the run or the policy began
	restored  bool
	arrivals  []time.Duration // scratch of restore

	cycle
}

// job is the policy's record of an active job.
type job struct {
	submit, eligible time.Duration
	limit            time.Duration
	user, qos, part  int32 // user is the association of a user and an account
	uid              int32 // of the user alone
	layout           int32 // index of layouts
	priority         int64
	cpus             float64
	gpus             int64 // of a running job, all of nodes that it has whole
	waits            bool
	held             bool // may not start before eligible, and has not been queued again
	counted          bool // among the jobs that limits count
	bounds           []bound
}

// entry is a waiting job in the queue.
type entry struct {
	tier, priority int64
	submit         time.Duration
	id             simulator.ID
	layout         int32
}

func (p *policy) entry(j simulator.ID) entry {
	x := &p.jobs[j]
	return entry{p.site.partitions[x.part].PriorityTier, x.priority, x.submit, j, x.layout}
}

// compare is the order of the queue, but for preemption.
// sort_job_queue2 in src/slurmctld/job_scheduler.c.
func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(o.tier, e.tier), cmp.Compare(o.priority, e.priority),
		cmp.Compare(e.submit, o.submit), cmp.Compare(e.id, o.id))
}

// layoutKey has the properties that jobs of one layout share.
type layoutKey struct {
	constraint, gpus, members, nodes int32
	whole                            bool
}

// layout has the shapes of jobs that fit on the same nodes: a number of nodes with equal GPUs, and if they ask for no
// number of nodes, one for each group of nodes that they may run on.
type layout struct {
	gpus   int32
	whole  bool // nodes are taken whole
	shapes []shape
}

type shape struct {
	nodes, each int32
	need        need    // on each node
	fits        nodeSet // nodes of the groups
	free        nodeSet // nodes with room now, as of round
	round       int
	enough      bool // free has the number of nodes
}

func (p *policy) Reset(v *simulator.View, plan *simulator.Plan) {
	p.v, p.plan = v, plan
	c := v.Cluster()
	if p.config != nil {
		s := Defaults()
		for _, key := range slices.Sorted(maps.Keys(c.Site.Settings)) {
			_ = s.Set(key, c.Site.Settings[key]) // parts that are not simulated have no effect
		}
		p.settings = s.With(*p.config)
	}
	if p.shares != nil {
		p.settings.Phases = p.shares.phases(&p.settings)
	}
	p.backfill = newClock(p.settings.Phases.Backfill, p.settings.BFInterval)
	p.full = newClock(p.settings.Phases.Full, p.settings.SchedInterval)
	p.site.reset(&c.Site, c, p.config)
	accounts := c.Site.Accounts
	if len(accounts) == 0 {
		for _, vc := range c.VCs {
			accounts = append(accounts, workload.Account{Name: vc.Tenant, Shares: cmp.Or(vc.Weight, float64(vc.GPUs))})
		}
	}
	p.usage.reset(&p.settings, accounts)
	p.limits.reset(c.Site.Limits)
	p.jobs, p.queue, p.unsorted = p.jobs[:0], p.queue[:0], false
	if p.layoutIndex == nil {
		p.layoutIndex, p.uids = map[layoutKey]int32{}, map[string]int32{}
	}
	clear(p.layoutIndex)
	clear(p.uids)
	p.layouts = p.layouts[:0]
	p.resetNodes()
	p.resetReservations(c.Site.Reservations)
	p.resetSwitches(c.Site.Switches)
	p.ticked, p.submitted, p.freed, p.changed, p.planned = longAgo, longAgo, longAgo, longAgo, longAgo
	p.observed = v.Submitted()
	p.restored = p.observed == 0 && len(v.Past().Jobs()) == 0
}

// resetNodes reads the nodes. Where GPUs are only counted they are one node.
func (p *policy) resetNodes() {
	nodes := 1
	if p.v.HasNodes() {
		nodes = p.v.NodeTotal()
	}
	p.all = make(nodeSet, (nodes+63)/64)
	p.future.running = p.future.running[:0]
	p.future.free = longer(p.future.free[:0], nodes)
	p.future.changed()
	groups := p.v.Cluster().Groups
	p.weights, p.taken, p.future.gpus = nil, nil, p.future.gpus[:0]
	for n := range nodes {
		if !p.v.HasNodes() {
			p.all.add(n)
			break
		}
		if p.v.NodeOpen(n) {
			p.all.add(n)
		}
		p.future.gpus = append(p.future.gpus, int32(p.v.NodeGPUs(n)))
		if w := groups[p.v.NodeGroup(n)].Weight; w != groups[0].Weight && p.weights == nil {
			p.weights = make(nodeWeights, nodes)
			for k := range p.weights {
				p.weights[k] = groups[p.v.NodeGroup(k)].Weight
			}
		}
	}
	p.countFree()
}

// countFree counts the free GPUs, CPUs and memory of all nodes.
func (p *policy) countFree() {
	f := &p.future
	f.cpus, f.memory = f.cpus[:0], f.memory[:0]
	for n := range f.free {
		if !p.v.HasNodes() {
			f.free[n] = int32(p.v.Free())
			continue
		}
		f.free[n] = int32(p.v.NodeFree(n))
		if p.taken != nil && p.taken.has(n) {
			f.free[n] = 0
		}
		if cpus, memory, counted := p.v.NodeSpare(n); counted {
			f.cpus, f.memory = append(f.cpus, cpus), append(f.memory, memory)
		}
	}
	p.future.changed()
	p.round++
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	p.jobs = longer(p.jobs, int(j)+1)
	x := &p.jobs[j]
	r := p.v.JobRequest(j)
	*x = job{submit: p.v.JobSubmit(j), eligible: p.v.JobEligible(j), waits: !p.v.JobRunning(j)}
	x.part, x.qos = p.site.partition(r.Partition, p.v.Cluster()), p.site.qosOf(r.QOS)
	x.limit = p.site.partitions[x.part].limit(p.v, j, r)
	x.layout = p.layoutOf(j, r, p.site.partitions[x.part].Exclusive)
	x.cpus = p.cpus(r, &p.layouts[x.layout])
	if j < p.observed {
		p.plan.WakeAt(p.v.Now() + 1) // to restore the state of the previous run
		return
	}
	p.restore()
	p.tick()
	p.belongs(x, cmp.Or(r.Account, p.v.JobTenantName(j)), p.v.JobUser(j))
	p.arrive(j)
	p.submit(x.submit)
}

// belongs gives a job its association and its user.
func (p *policy) belongs(x *job, in, user string) {
	x.user = p.of(in, user)
	if user == "" {
		user = "account " + in // that of an account's jobs
	}
	uid, ok := p.uids[user]
	if !ok {
		uid = int32(len(p.uids))
		p.uids[user] = uid
	}
	x.uid = uid
	x.bounds = p.boundsOf(x)
}

// cpus returns the CPUs of a job, one on each node if it asks for none.
func (p *policy) cpus(r workload.Request, k *layout) float64 {
	if r.MilliCPUs > 0 && p.site.size.rationed {
		return float64(r.MilliCPUs) / 1000
	}
	if len(k.shapes) == 0 {
		return 1
	}
	return float64(k.shapes[0].nodes)
}

// arrive puts a job into the queue.
func (p *policy) arrive(j simulator.ID) {
	p.rank(j)
	e := p.entry(j)
	i := sort.Search(len(p.queue), func(i int) bool { return e.compare(p.queue[i]) < 0 })
	p.queue = slices.Insert(p.queue, i, e)
	p.unsorted = p.unsorted || p.settings.PreemptQOS // tiers are in the order
	p.changed = max(p.changed, p.v.Now())
}

// submit sets the main cycle that a submission causes: at once, or a delay after the last.
// schedule in src/slurmctld/job_scheduler.c with batch_sched_delay.
func (p *policy) submit(at time.Duration) {
	if at > p.submitted {
		p.submitted = max(at, p.submitted+p.settings.BatchSchedDelay)
	}
}

// rank calculates the priority of a waiting job.
func (p *policy) rank(j simulator.ID) {
	x := &p.jobs[j]
	r := p.v.JobRequest(j)
	part, k := &p.site.partitions[x.part], &p.layouts[x.layout]
	f := factors{fairshare: p.factor(x.user, &p.settings), partition: part.factor, cpus: x.cpus, gpus: float64(k.gpus),
		qos: share(float64(p.site.qos[x.qos].Priority), float64(p.site.best)), nice: int64(r.Nice)}
	if len(k.shapes) > 0 {
		f.nodes = float64(k.shapes[0].nodes)
	}
	if since := p.v.JobSince(j); p.ticked > since { // the age of a requeued job begins anew
		f.age = p.ticked - since
	}
	x.priority = p.settings.priority(f, p.site.size, part.size)
}

// tick calculates the priorities of waiting jobs, if it is time.
// _decay_thread in priority_multifactor.c.
func (p *policy) tick() {
	at := p.clock.last(p.v.Now())
	if at == p.ticked || p.settings.Basic {
		return
	}
	p.ticked = at
	p.advance(at)
	if len(p.queue) == 0 {
		return
	}
	p.changed = max(p.changed, at)
	for i := range p.queue {
		e := &p.queue[i]
		p.rank(e.id)
		if priority := p.jobs[e.id].priority; priority != e.priority {
			e.priority, p.unsorted = priority, true
		}
	}
}

// sort brings the queue into order: a job whose QOS may preempt another's comes before it.
func (p *policy) sort() {
	if !p.unsorted {
		return
	}
	p.unsorted = false
	slices.SortFunc(p.queue, entry.compare)
	if !p.settings.PreemptQOS {
		return
	}
	for i := 1; i < len(p.queue); i++ {
		e := p.queue[i]
		to := slices.IndexFunc(p.queue[:i], func(o entry) bool {
			return o.tier == e.tier && p.mayPreempt(&p.jobs[e.id], &p.jobs[o.id])
		})
		if to >= 0 {
			copy(p.queue[to+1:i+1], p.queue[to:i])
			p.queue[to] = e
		}
	}
}

// layoutOf returns the index of a job's layout.
func (p *policy) layoutOf(j simulator.ID, r workload.Request, whole bool) int32 {
	key := layoutKey{int32(p.v.JobConstraint(j)), int32(p.v.JobDemand(j)), int32(p.v.JobMembers(j)), r.NodeCount,
		whole && p.v.HasNodes()}
	if i, ok := p.layoutIndex[key]; ok {
		return i
	}
	k := layout{gpus: key.gpus, whole: key.whole}
	if !p.v.HasNodes() {
		k.shapes = []shape{{nodes: 1, each: key.gpus, fits: p.all}}
	} else {
		k.shapes = p.shapesOf(j, key)
	}
	cpus, memory := p.v.JobNeed(j)
	for i := range k.shapes {
		s := &k.shapes[i]
		s.need = need{s.each, cpus * int64(s.each), memory * int64(s.each)}
		if k.whole {
			s.need.gpus = wholeNode
		}
	}
	i := int32(len(p.layouts))
	p.layouts, p.layoutIndex[key] = append(p.layouts, k), i
	return i
}

// shapesOf lays a job out on the nodes it asks for, or in each group of nodes that it
// fits on as few as it needs, the group of the least weight first.
func (p *policy) shapesOf(j simulator.ID, key layoutKey) []shape {
	var out []shape
	nodes := len(p.future.free)
	for first := 0; first < nodes; {
		group := p.v.NodeGroup(first)
		of := shape{fits: make(nodeSet, len(p.all)), free: make(nodeSet, len(p.all))}
		n := first
		for ; n < nodes && p.v.NodeGroup(n) == group; n++ {
			if p.all.has(n) {
				of.fits.add(n)
			}
		}
		holds := int32(p.v.NodeHolds(first, j))
		first = n
		if holds == 0 {
			continue
		}
		member := key.gpus / key.members
		switch {
		case key.nodes > 0:
			of.nodes, of.each = key.nodes*key.members, member/key.nodes
		case member <= holds:
			of.each = min(key.gpus, holds/member*member)
			of.nodes = (key.gpus + of.each - 1) / of.each
		default:
			perMember := (member + holds - 1) / holds
			of.each = (member + perMember - 1) / perMember
			of.nodes = (key.gpus + of.each - 1) / of.each
		}
		switch {
		case of.each > holds:
		case key.nodes > 0 && len(out) > 0:
			out[0].fits.or(of.fits)
		case key.nodes > 0 || of.fits.count() >= int(of.nodes):
			out = append(out, of)
		}
	}
	if key.nodes > 0 && len(out) > 0 && out[0].fits.count() < int(out[0].nodes) {
		return nil
	}
	if p.weights != nil {
		slices.SortStableFunc(out, func(a, b shape) int {
			return cmp.Compare(p.weights[a.fits.next(0)], p.weights[b.fits.next(0)])
		})
	}
	return out
}

// Overtime implements simulator.Lenient.
func (p *policy) Overtime() time.Duration { return p.settings.OverTimeLimit }

// Finish implements simulator.Policy.
func (p *policy) Finish(j simulator.ID) {
	p.restore()
	p.changed = p.v.Now()
	p.count(&p.jobs[j], false)
	p.ends(int32(j), p.v.Now())
}

// Freed implements simulator.Freed: the main scheduler looks at the queue.
func (p *policy) Freed(j simulator.ID) {
	p.restore()
	p.leave(j)
	p.changed = p.v.Now()
	if p.settings.Defer {
		p.submit(p.v.Now())
	} else {
		p.freed = p.v.Now()
	}
}

// enter counts a job among the running, on the nodes where it is.
func (p *policy) enter(j simulator.ID) {
	x := &p.jobs[j]
	x.waits = false
	b := busy{id: j, ends: p.v.JobSince(j) + x.limit}
	b.cpus, b.memory = p.v.JobNeed(j)
	if at, ok := p.v.JobLimitAt(j); ok {
		b.ends = at
	}
	i, _ := slices.BinarySearchFunc(p.future.running, b, soon)
	var at []workload.NodeGPUs
	if n := len(p.future.running); n < cap(p.future.running) {
		at = p.future.running[:n+1][n].at[:0] // memory of one that left
	}
	if b.at = p.v.Placement(at, j); !p.v.HasNodes() {
		b.at = append(b.at, workload.NodeGPUs{GPUs: p.v.JobHeld(j)})
	}
	gpus := p.v.JobDemand(j)
	if p.layouts[x.layout].whole {
		if gpus = 0; p.taken == nil {
			p.taken = make(nodeSet, len(p.all))
		}
		b.whole = true
		for _, a := range b.at {
			p.taken.add(a.Node)
			p.future.free[a.Node] = 0
			gpus += int(p.future.gpus[a.Node])
		}
	}
	x.gpus = int64(gpus)
	p.count(x, true)
	p.future.running = slices.Insert(p.future.running, i, b)
	p.future.changed()
	p.round++
	billing := p.site.partitions[x.part].billing(p.v.JobRequest(j), gpus)
	p.starts(spell{int32(j), x.user, billing, p.site.qos[x.qos].UsageFactor, p.v.JobSince(j), never})
}

// leave removes a job from the running ones.
func (p *policy) leave(j simulator.ID) {
	i := slices.IndexFunc(p.future.running, func(b busy) bool { return b.id == j })
	if i < 0 { // it had ended when the policy began
		p.countFree()
		return
	}
	b := p.future.running[i]
	for _, a := range b.at {
		if p.all.has(a.Node) {
			p.future.free[a.Node] += p.future.freed(&b, a)
		}
		if len(p.future.cpus) > 0 {
			p.future.cpus[a.Node] += b.cpus * int64(a.GPUs)
			p.future.memory[a.Node] += b.memory * int64(a.GPUs)
		}
		if p.taken != nil {
			p.taken.remove(a.Node)
		}
	}
	n := len(p.future.running)
	copy(p.future.running[i:], p.future.running[i+1:])
	p.future.running[n-1] = b // its memory
	p.future.running = p.future.running[:n-1]
	p.future.changed()
	p.round++
}
