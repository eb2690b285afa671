package volcano

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// session is the state of a session.
type session struct {
	ran    bool // the last one is over
	nodes  []node
	seats  []workload.NodeGPUs // where the pods of a job go
	failed []request           // for which there is no room
	stops  stops
}

// node is a node in a session.
type node struct {
	group, gpus, free int
	promised          int // GPUs for which others were stopped
	cpus, memory      share
}

// share is the part of a resource of a node that is in use, with its total; 0 is unknown.
type share struct{ used, total float64 }

// request is the room that jobs of a kind need.
type request struct {
	constraint int
	pods, each int32
}

// open reads the nodes and divides the GPUs between the queues.
func (p *policy) open() {
	p.nodes, p.failed = p.nodes[:0], p.failed[:0]
	if !p.v.HasNodes() {
		p.nodes = append(p.nodes, node{gpus: p.v.TotalGPUs(), free: p.v.Free()})
	} else {
		groups := p.v.Cluster().Groups
		for n := range p.v.NodeTotal() {
			x := node{group: p.v.NodeGroup(n), gpus: p.v.NodeGPUs(n), free: p.v.NodeFree(n)}
			if cpus, memory, ok := p.v.NodeSpare(n); ok {
				g := &groups[x.group]
				x.cpus = share{1000*float64(g.CPUs) - float64(cpus), 1000 * float64(g.CPUs)}
				x.memory = share{float64(g.Memory - memory), float64(g.Memory)}
			}
			p.nodes = append(p.nodes, x)
		}
	}
	p.divide()
}

// divide calculates what queues deserve: the GPUs by weight, to each at most as many as it asks for and may have, until
// none is left. OnSessionOpen in pkg/scheduler/plugins/proportion/proportion.go.
func (p *policy) divide() {
	for i := range p.queues {
		q := &p.queues[i]
		q.deserved, q.met = 0, q.allocated+q.pending == 0
	}
	for left := float64(p.v.TotalGPUs()); left > 1e-9; {
		weights := 0.
		for i := range p.queues {
			if !p.queues[i].met {
				weights += p.queues[i].Weight
			}
		}
		given := 0.
		for i := range p.queues {
			q := &p.queues[i]
			if q.met {
				continue
			}
			was, most := q.deserved, min(q.allocated+q.pending, q.most())
			q.deserved = min(was+left*q.Weight/weights, most)
			q.met = q.deserved == most
			given += q.deserved - was
		}
		if given == 0 {
			break
		}
		left -= given
	}
	for i := range p.queues {
		p.queues[i].count()
	}
}

// most is the number of GPUs that the jobs of a queue may hold.
func (q *queue) most() float64 {
	if q.Capability > 0 {
		return float64(q.Capability)
	}
	return math.Inf(1)
}

// count calculates the share. updateQueueAttrShare in proportion.go.
func (q *queue) count() {
	switch {
	case q.deserved > 0:
		q.share = q.allocated / q.deserved
	case q.allocated > 0:
		q.share = 1
	default:
		q.share = 0
	}
}

// epsilon is a number of GPUs that counts as none. minResource in pkg/scheduler/api/resource_info.go.
const epsilon = 1e-4

// allows reports whether a queue may have more GPUs. queueAllocatable in proportion.go.
func (q *queue) allows(gpus float64) bool { return q.allocated+gpus < q.deserved+epsilon }

// begin begins an action on all waiting jobs.
func (p *policy) begin() {
	for i := range p.queues {
		p.queues[i].next = 0
	}
}

// turn returns the next job of the queue whose turn it is; ok is false if all have had theirs. QueueOrderFn in
// pkg/scheduler/framework/session_plugins.go.
func (p *policy) turn() (q *queue, j simulator.ID, ok bool) {
	for i := range p.queues {
		o := &p.queues[i]
		if o.next < len(o.waiting) && (q == nil ||
			cmp.Or(cmp.Compare(q.Priority, o.Priority), cmp.Compare(o.share, q.share)) < 0) {
			q = o
		}
	}
	if q == nil {
		return nil, 0, false
	}
	q.next++
	return q, q.waiting[q.next-1], true
}

// gates reports whether jobs must be let in.
func (p *policy) gates() bool { return slices.Contains(p.settings.Actions, Enqueue) }

// shut reports whether a waiting job is not let in or may not start yet.
func (p *policy) shut(j simulator.ID) bool {
	return !p.jobs[j].in && p.gates() || p.v.JobEligible(j) > p.v.Now()
}

// enqueue lets jobs in. pkg/scheduler/actions/enqueue/enqueue.go with the plugins overcommit, proportion and sla.
func (p *policy) enqueue() {
	total := float64(p.v.TotalGPUs())
	room := math.Inf(1)
	if p.settings.OvercommitFactor > 0 {
		room = p.settings.OvercommitFactor*total - float64(p.used+p.inqueue+p.settling())
	}
	p.late = never
	p.begin()
	for q, j, ok := p.turn(); ok; q, j, ok = p.turn() {
		x := &p.jobs[j]
		gpus := float64(x.gpus)
		if x.in {
			continue
		}
		fits := gpus < room+epsilon && gpus+q.allocated+q.inqueue < min(total, q.most())+epsilon
		if late := x.lateAt(&p.settings); !fits && p.settings.SLAWaitingTime > 0 {
			if fits = late <= p.v.Now(); !fits {
				p.late = min(p.late, late)
			}
		}
		if fits {
			p.letIn(x, 1)
			room -= gpus
			p.changed = true
		}
	}
}

// letIn counts a job among the ones let in, or (by -1) no more.
func (p *policy) letIn(x *job, by int) {
	x.in = by > 0
	p.queues[x.queue].inqueue += float64(by) * float64(x.gpus)
	p.inqueue += by * int(x.gpus)
}

// settling returns the GPUs of the jobs that the previous session started, which count twice: a PodGroup is Inqueue
// until the session after. getPodGroupPhase in pkg/scheduler/framework/session.go, OnSessionOpen in
// pkg/scheduler/plugins/overcommit/overcommit.go.
func (p *policy) settling() int {
	n := 0
	for _, j := range p.recent {
		if p.v.JobRunning(j) && p.v.JobSince(j) >= p.previous {
			n += int(p.jobs[j].gpus)
			p.changed = true
		}
	}
	p.recent = p.recent[:0]
	return n
}

// allocate starts jobs, by the rules but for one in a run that is stalled. pkg/scheduler/actions/allocate/allocate.go.
func (p *policy) allocate() {
	p.begin()
	for q, j, ok := p.turn(); ok; q, j, ok = p.turn() {
		if q.deserved <= q.allocated && !p.stalled { // overused
			q.next = len(q.waiting)
			continue
		}
		if (p.stalled || !p.shut(j) && q.allows(float64(p.jobs[j].gpus))) && p.place(j) && p.start(j) {
			p.started(j)
			p.stalled = false
		}
	}
	p.stalled = false
	for i := range p.queues {
		q := &p.queues[i]
		q.waiting = slices.DeleteFunc(q.waiting, p.v.JobRunning)
	}
}

// start starts a job on its seats.
func (p *policy) start(j simulator.ID) bool {
	if p.v.HasNodes() {
		return p.plan.StartAt(j, p.seats)
	}
	return p.plan.Start(j)
}

// started moves a job from the waiting to the running ones.
func (p *policy) started(j simulator.ID) {
	x := &p.jobs[j]
	q := &p.queues[x.queue]
	q.pending -= float64(x.gpus)
	if x.in {
		p.letIn(x, -1)
	}
	p.enter(j)
	q.count()
	p.changed = true
}
