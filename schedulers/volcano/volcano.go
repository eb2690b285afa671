// Package volcano is Volcano's scheduling: sessions a period apart, each of which runs a list of actions. Enqueue lets
// jobs in as far as the cluster has room for them, counted a factor larger than it is. Allocate gives GPUs to the first
// job of the queue that has least of its deserved share, again and again; a job that does not fit is passed over. The
// pods of a gang start together, each on the node of the highest score. Preempt stops jobs of lower priority in the
// queue, reclaim those of queues beyond their shares. It follows Volcano 1.15; each rule names the source it is from.
//
// A queue deserves its weight's part of the GPUs, at most as many as its jobs ask for, and its jobs hold no more: a
// gang wider than that does not start while the jobs of all queues together ask for more than the cluster has. Where
// such gangs wait for each other and nothing runs or arrives any more, the first one starts, so that the run ends.
//
// A run that resumes does not know which waiting jobs were let in, and lets them in anew. A configuration alone gives
// sessions at the multiples of the period that take no time; Members draws when they come and how long they last. Left
// out are pods that a controller makes after the job is let in, elastic jobs, guarantees and hierarchies of queues,
// topologies of networks, and stops that last until after the next session.
package volcano

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// New makes the policy of a configuration of Space and SiteParam.
func New(c space.Config) simulator.Policy { return &policy{config: &c} }

// NewPolicy makes the policy of settings. The queues are the cluster's.
func NewPolicy(s Settings, u Unknowns) simulator.Policy { return &policy{settings: s, unknowns: u} }

type policy struct {
	settings Settings
	unknowns Unknowns
	config   *space.Config // the source of settings, nil if they are given

	v       *simulator.View
	plan    *simulator.Plan
	queues  []queue
	index   map[string]int32 // of queues
	jobs    []job
	running []simulator.ID

	changed  bool          // since the last session
	stalled  bool          // nothing runs or arrives any more
	late     time.Duration // when the wait of a job that is not let in gets too long, never for none
	used     int           // GPUs of running jobs
	inqueue  int           // GPUs of waiting jobs that are let in
	recent   []simulator.ID
	previous time.Duration // the session before the last
	clock    time.Duration // the last session
	step     time.Duration // to the next one

	session
}

const never = time.Duration(math.MaxInt64)

// job is the policy's record of an active job.
type job struct {
	queue    int32
	gpus     int32
	pods     int32
	each     int32 // GPUs of a pod; of the last one of a member maybe less
	priority int64
	created  int64 // second of its submission
	together bool  // its pods are on nodes of one group
	in       bool  // it waits and is let in
}

// queue is a queue with its jobs. GPUs are whole, but for those deserved.
type queue struct {
	Queue
	allocated float64 // GPUs of its running jobs
	pending   float64 // of its waiting ones
	inqueue   float64 // of these the ones let in
	deserved  float64
	share     float64        // of deserved that is allocated
	met       bool           // it deserves all it may have
	waiting   []simulator.ID // in order
	next      int            // of waiting in the present action
}

// Reset implements simulator.Policy.
func (p *policy) Reset(v *simulator.View, plan *simulator.Plan) {
	p.v, p.plan = v, plan
	c := v.Cluster()
	if p.config != nil {
		p.settings = Of(*p.config)
		if d, err := time.ParseDuration(c.Site.Settings[SchedulePeriod]); err == nil && d > 0 {
			p.settings.SchedulePeriod = d
		}
	}
	if p.index == nil {
		p.index = map[string]int32{}
	}
	clear(p.index)
	p.queues = p.queues[:0]
	for _, q := range Queues(&c, p.config) {
		p.add(q)
	}
	p.jobs, p.running, p.recent = p.jobs[:0], p.running[:0], p.recent[:0]
	p.used, p.inqueue, p.changed, p.ran, p.stalled, p.late = 0, 0, true, false, false, never
	p.step = p.settings.SchedulePeriod + p.unknowns.Session
	p.clock = p.unknowns.Phase - p.unknowns.Phase/p.step*p.step
	p.previous = p.clock - p.step
	if now := v.Now(); now < p.clock {
		p.clock -= (p.clock - now + p.step - 1) / p.step * p.step
	}
}

// add makes a queue and returns its index.
func (p *policy) add(q Queue) int32 {
	i := int32(len(p.queues))
	p.index[q.Name] = i
	if len(p.queues) < cap(p.queues) {
		p.queues = p.queues[:i+1]
	} else {
		p.queues = append(p.queues, queue{})
	}
	p.queues[i] = queue{Queue: q, waiting: p.queues[i].waiting[:0]}
	return i
}

// Admit implements simulator.Policy.
func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	p.jobs = lanes.Grow(p.jobs, j)
	tenant := p.v.JobTenantName(j)
	q, ok := p.index[tenant]
	if !ok {
		q = p.add(Queue{Name: tenant, Weight: 1, Reclaimable: true})
	}
	r := p.v.JobRequest(j)
	p.jobs[j] = job{queue: q, gpus: int32(p.v.JobDemand(j)), priority: r.Priority,
		created: int64(p.v.JobSubmit(j) / time.Second)}
	p.shape(j, r)
	if p.v.JobRunning(j) {
		p.jobs[j].gpus = int32(p.v.JobHeld(j))
		p.enter(j)
	} else {
		p.wait(j)
	}
	p.change()
}

// shape divides a job into pods: each member into as many as it asks nodes for, or else as few as fit nodes.
func (p *policy) shape(j simulator.ID, r workload.Request) {
	x := &p.jobs[j]
	members := int32(p.v.JobMembers(j))
	member := x.gpus / members
	if nodes := max(1, r.NodeCount); r.NodeCount > 0 || !p.v.HasNodes() {
		x.pods, x.each = members*nodes, member/nodes
		return
	}
	x.together = members == 1
	groups := p.v.Cluster().Groups
	for n := 0; n < p.v.NodeTotal(); {
		g := p.v.NodeGroup(n)
		holds := int32(p.v.NodeHolds(n, j))
		for n < p.v.NodeTotal() && p.v.NodeGroup(n) == g {
			n++
		}
		if holds == 0 {
			continue
		}
		pods := (member + holds - 1) / holds
		if pods <= int32(groups[g].Nodes) && (x.pods == 0 || members*pods < x.pods) {
			x.pods, x.each = members*pods, (member+pods-1)/pods
		}
	}
}

// wait puts a job into its queue.
func (p *policy) wait(j simulator.ID) {
	x := &p.jobs[j]
	q := &p.queues[x.queue]
	q.pending += float64(x.gpus)
	i, _ := slices.BinarySearchFunc(q.waiting, j, p.before)
	q.waiting = slices.Insert(q.waiting, i, j)
	if p.gates() && p.settings.SLAWaitingTime > 0 {
		p.late = min(p.late, x.lateAt(&p.settings))
	}
}

// lateAt is when a job has waited as long as it should at most.
func (x *job) lateAt(s *Settings) time.Duration {
	return time.Duration(x.created)*time.Second + s.SLAWaitingTime
}

// before is the order of the jobs of a queue. JobOrderFn in pkg/scheduler/framework/session_plugins.go with the plugins
// priority and sla; for drf and gang all jobs without GPUs are equal.
func (p *policy) before(a, b simulator.ID) int {
	x, y := &p.jobs[a], &p.jobs[b]
	age := cmp.Compare(x.created, y.created)
	if p.settings.SLAFirst && p.settings.SLAWaitingTime > 0 && age != 0 {
		return age
	}
	return cmp.Or(cmp.Compare(y.priority, x.priority), age, cmp.Compare(a, b))
}

// enter counts a job among the running ones.
func (p *policy) enter(j simulator.ID) {
	x := &p.jobs[j]
	p.queues[x.queue].allocated += float64(x.gpus)
	p.used += int(x.gpus)
	p.running = append(p.running, j)
	p.recent = append(p.recent, j)
}

// leave takes a job off the running ones.
func (p *policy) leave(j simulator.ID) {
	x := &p.jobs[j]
	p.queues[x.queue].allocated -= float64(x.gpus)
	p.used -= int(x.gpus)
	if i := slices.Index(p.running, j); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
}

// Finish implements simulator.Policy.
func (p *policy) Finish(simulator.ID) {}

// Freed implements simulator.Freed.
func (p *policy) Freed(j simulator.ID) {
	p.leave(j)
	p.change()
}

// Stalled implements simulator.Stallable.
func (p *policy) Stalled() { p.stalled = true }

// change brings about the next session.
func (p *policy) change() {
	p.changed = true
	p.plan.WakeAt(p.after(p.v.Now()))
}

// last is the last session at or before an instant.
func (p *policy) last(t time.Duration) time.Duration {
	if t < p.clock {
		return p.previous
	}
	return p.clock + (t-p.clock)/p.step*p.step
}

// after is the first session after an instant.
func (p *policy) after(t time.Duration) time.Duration { return p.last(t) + p.step }

// Plan implements simulator.Policy: it runs the session that is due. Sessions in which nothing can change are left out.
func (p *policy) Plan(*simulator.Plan) {
	now := p.v.Now()
	at := p.last(now)
	if !p.stalled &&
		(at <= now-max(1, p.v.Round()) || at == p.clock && p.ran || !p.changed && at < p.late) {
		p.wake()
		return
	}
	p.previous = p.last(at - 1)
	p.clock, p.ran, p.changed = at, true, false
	p.open()
	for _, a := range p.settings.Actions {
		switch a {
		case Enqueue:
			p.enqueue()
		case Allocate:
			p.allocate()
		case Preempt:
			p.preempt()
		case Reclaim:
			p.reclaim()
		}
	}
	p.step = p.settings.SchedulePeriod + p.unknowns.length(at, p.v.Waiting())
	p.wake()
}

// wake asks for the next session in which something can change.
func (p *policy) wake() {
	switch now := p.v.Now(); {
	case p.v.Waiting() == 0:
	case p.changed:
		p.plan.WakeAt(p.after(now))
	case p.late < never:
		p.plan.WakeAt(max(p.after(now), p.after(p.late-1)))
	}
}
