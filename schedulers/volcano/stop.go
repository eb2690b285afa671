package volcano

import (
	"cmp"
	"slices"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// stops are the running jobs that make room for a waiting one.
type stops struct {
	candidates []simulator.ID // in order
	chosen     []simulator.ID // of them for the job at hand
	here       []simulator.ID // on the node at hand
	stopped    []simulator.ID // in this action
	promised   []simulator.ID // waiting jobs that got room in this session
	seats      []workload.NodeGPUs
	// reclaims says that the action is reclaim, which takes nodes with jobs of other queues that may be stopped, in no
	// order of scores.
	reclaims bool
	nodes    []bool // that have such jobs
}

// preempt stops jobs of lower priority for waiting ones of their queue. pkg/scheduler/actions/preempt/preempt.go with
// the plugin priority, where the plugin gang keeps no job whole.
func (p *policy) preempt() {
	p.eachStarving(func(q *queue, j simulator.ID) {
		p.candidates(func(v simulator.ID) bool {
			return p.jobs[v].queue == p.jobs[j].queue && p.jobs[v].priority < p.jobs[j].priority
		})
		p.makeRoom(q, j)
	})
}

// reclaim stops jobs of queues that hold more than they deserve for waiting ones of others.
// pkg/scheduler/actions/reclaim/reclaim.go with the plugin proportion.
func (p *policy) reclaim() {
	p.eachStarving(func(q *queue, j simulator.ID) {
		if q.deserved <= q.allocated || !q.allows(float64(p.jobs[j].gpus)) {
			return
		}
		others := func(v simulator.ID) bool { o := &p.queues[p.jobs[v].queue]; return o != q && o.Reclaimable }
		p.reclaimable(others)
		p.candidates(func(v simulator.ID) bool {
			o := &p.queues[p.jobs[v].queue]
			return others(v) && o.allocated > o.deserved
		})
		p.stops.reclaims = true
		p.makeRoom(q, j)
		p.stops.reclaims = false
	})
}

// reclaimable notes the nodes with running jobs of other queues. Nodes are tried as they pass their predicates, many at
// a time, and ones without such jobs are left out however much room they have. reclaimForTask in
// pkg/scheduler/actions/reclaim/reclaim.go.
func (p *policy) reclaimable(others func(v simulator.ID) bool) {
	s := &p.stops
	s.nodes = append(s.nodes[:0], make([]bool, len(p.nodes))...)
	for _, v := range p.running {
		if p.v.JobSince(v) >= p.v.Now() || !others(v) {
			continue
		}
		if !p.v.HasNodes() {
			s.nodes[0] = true
			return
		}
		s.seats = p.v.Placement(s.seats[:0], v)
		for _, at := range s.seats {
			s.nodes[at.Node] = true
		}
	}
}

// eachStarving has the waiting jobs that are let in in turn. One that got room in the session is pipelined: it counts
// for its queue, and gets no more. Pipeline in pkg/scheduler/framework/statement.go.
func (p *policy) eachStarving(do func(q *queue, j simulator.ID)) {
	s := &p.stops
	if !slices.ContainsFunc(p.nodes, func(n node) bool { return n.promised > 0 }) {
		s.promised = s.promised[:0]
	}
	for _, j := range s.promised {
		p.pipeline(j, 1)
	}
	p.begin()
	for q, j, ok := p.turn(); ok; q, j, ok = p.turn() {
		if !p.shut(j) && p.jobs[j].pods > 0 && !slices.Contains(s.promised, j) {
			do(q, j)
		}
	}
	for _, j := range s.promised {
		p.pipeline(j, -1)
	}
	for _, v := range p.stops.stopped {
		p.wait(v)
		p.changed = true
	}
	p.stops.stopped = p.stops.stopped[:0]
}

// pipeline counts a job among the ones of its queue that hold GPUs, or (by -1) no more.
func (p *policy) pipeline(j simulator.ID, by int) {
	q := &p.queues[p.jobs[j].queue]
	q.allocated += float64(by) * float64(p.jobs[j].gpus)
	q.count()
}

// candidates lists the running jobs that may be stopped, those of the queue with the greatest share first, in it those
// that would start last. BuildVictimsPriorityQueue in pkg/scheduler/framework/session_plugins.go.
func (p *policy) candidates(may func(v simulator.ID) bool) {
	s := &p.stops
	s.candidates = s.candidates[:0]
	for _, v := range p.running {
		if p.v.JobSince(v) < p.v.Now() && !p.plan.Protected(v) && may(v) {
			s.candidates = append(s.candidates, v)
		}
	}
	slices.SortFunc(s.candidates, func(a, b simulator.ID) int {
		x, y := &p.queues[p.jobs[a].queue], &p.queues[p.jobs[b].queue]
		return cmp.Or(cmp.Compare(y.share, x.share), p.before(b, a))
	})
}

// makeRoom stops candidates on the nodes where the pods of a job would fit without them, and keeps the GPUs there for
// it until the session is over; if not all pods would fit it stops none. Stopped jobs start again from nothing.
func (p *policy) makeRoom(q *queue, j simulator.ID) {
	s := &p.stops
	fits := p.eachGroup(&p.jobs[j], func(group int) bool {
		s.chosen = s.chosen[:0]
		if p.seat(j, func(n, gpus int) bool { return p.clears(q, n, gpus) },
			func(n, gpus int) { p.clear(q, n, gpus) }, group) {
			return true
		}
		for _, v := range s.chosen {
			p.free(v, -1)
		}
		return false
	})
	if !fits {
		return
	}
	p.unseat(j)
	for _, seat := range p.seats {
		p.nodes[seat.Node].promised += seat.GPUs
	}
	for _, v := range s.chosen {
		p.plan.Requeue(v, 0)
		p.leave(v)
		p.queues[p.jobs[v].queue].count()
	}
	s.stopped = append(s.stopped, s.chosen...)
	s.promised = append(s.promised, j)
	p.pipeline(j, 1)
}

// clears reports whether a pod of a queue would fit on a node if candidates there stopped.
func (p *policy) clears(q *queue, node, gpus int) bool {
	if p.stops.reclaims && !p.stops.nodes[node] {
		return false
	}
	_, ok := p.victims(q, node, gpus)
	return ok
}

// victims returns how many of the candidates in order must stop for a pod of a queue to fit on a node, as one more than
// the index of the last.
func (p *policy) victims(q *queue, node, gpus int) (n int, ok bool) {
	s := &p.stops
	free, own := p.nodes[node].free-p.nodes[node].promised, p.yielded(q)
	for _, x := range p.seats {
		own -= float64(x.GPUs)
	}
	s.here = s.here[:0]
	for i := 0; ; i++ {
		if free >= gpus && q.allows(float64(gpus)-own) {
			return i, true
		}
		if i == len(s.candidates) {
			return i, false
		}
		v := s.candidates[i]
		o := &p.queues[p.jobs[v].queue]
		here := p.held(v, node)
		if here == 0 || slices.Contains(s.chosen, v) || o != q && o.allocated-p.yielded(o) <= o.deserved {
			continue
		}
		free += here
		s.here = append(s.here, v)
		if o == q {
			own += float64(p.jobs[v].gpus)
		}
	}
}

// clear chooses the candidates that must stop for a pod to fit on a node.
func (p *policy) clear(q *queue, node, gpus int) {
	p.victims(q, node, gpus)
	s := &p.stops
	for _, v := range s.here {
		p.free(v, 1)
	}
	s.chosen = append(s.chosen, s.here...)
}

// yielded is the number of GPUs of a queue's jobs that are to stop.
func (p *policy) yielded(q *queue) (gpus float64) {
	for _, list := range [...][]simulator.ID{p.stops.chosen, p.stops.here} {
		for _, v := range list {
			if &p.queues[p.jobs[v].queue] == q {
				gpus += float64(p.jobs[v].gpus)
			}
		}
	}
	return gpus
}

// held is the number of GPUs of a running job on a node.
func (p *policy) held(v simulator.ID, node int) int {
	if !p.v.HasNodes() {
		return p.v.JobHeld(v)
	}
	p.stops.seats = p.v.Placement(p.stops.seats[:0], v)
	for _, at := range p.stops.seats {
		if at.Node == node {
			return at.GPUs
		}
	}
	return 0
}

// free gives the GPUs of a running job back to the nodes of the session, or (by -1) takes them again.
func (p *policy) free(v simulator.ID, by int) {
	if !p.v.HasNodes() {
		p.nodes[0].free += by * p.v.JobHeld(v)
		return
	}
	p.stops.seats = p.v.Placement(p.stops.seats[:0], v)
	for _, at := range p.stops.seats {
		p.take(v, at.Node, -by*at.GPUs)
	}
}
