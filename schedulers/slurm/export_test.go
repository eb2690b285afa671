package slurm

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
)

// BestFit makes a policy that takes the nodes with the fewest free GPUs, not the first of the shortest run.
func BestFit(s Settings) simulator.Policy {
	p := &policy{settings: s}
	p.choose = func(nodes nodeSet, dst []int32, n int, _ nodeSet) []int32 {
		var all []int32
		for i := nodes.next(0); i >= 0; i = nodes.next(i + 1) {
			all = append(all, int32(i))
		}
		slices.SortStableFunc(all, func(a, b int32) int { return cmp.Compare(p.future.free[a], p.future.free[b]) })
		return append(dst, all[:n]...)
	}
	return p
}

// ReservingGPUs makes a policy whose backfill reserves as many GPUs of a node as a job needs, not the whole node.
func ReservingGPUs(s Settings) simulator.Policy { return &reserving{policy: NewPolicy(s).(*policy)} }

type reserving struct {
	*policy
	spans []taken
}

// taken is GPUs of a node that are reserved for a time.
type taken struct {
	node, gpus int32
	from, to   time.Duration
}

// Plan is that of the policy with another backfill.
func (r *reserving) Plan(plan *simulator.Plan) {
	interval, began := r.backfill, r.planned
	r.backfill = newClock(0, 0)
	r.policy.Plan(plan)
	r.backfill = interval
	if now := r.v.Now(); now == began || r.v.Waiting() == 0 {
		return
	}
	if r.due(r.backfill) {
		r.cycle()
	}
	r.wake()
}

// cycle is a backfill cycle: each job takes the first time at which GPUs are neither used nor reserved for as long as
// its limit.
func (r *reserving) cycle() {
	r.sort()
	r.spans = r.spans[:0]
	now := r.v.Now()
	for _, e := range r.considered(r.queue) {
		x := &r.jobs[e.id]
		s := &r.layouts[x.layout].shapes[0]
		times := []time.Duration{now}
		for _, b := range r.future.running {
			times = append(times, max(b.ends, now+time.Second))
		}
		for _, v := range r.spans {
			times = append(times, v.to)
		}
		slices.Sort(times)
		for _, at := range slices.Compact(times) {
			if at > now+r.settings.BFWindow {
				break
			}
			nodes := r.open(e.id, s, at, at+x.limit)
			if nodes.count() < int(s.nodes) {
				continue
			}
			r.pick(nodes, int(s.nodes))
			if at <= now {
				r.startOn(e.id, s, r.chosen)
			} else {
				from := clock{0, r.settings.BFResolution, longAgo}.last(at)
				to := max(clock{0, r.settings.BFResolution, longAgo}.last(at+x.limit), from+r.settings.BFResolution)
				for _, n := range r.chosen {
					r.spans = append(r.spans, taken{n, s.each, from, to})
				}
			}
			break
		}
	}
	r.compact()
}

// open are the nodes with GPUs for a shape in a stretch of time.
func (r *reserving) open(j simulator.ID, s *shape, from, to time.Duration) nodeSet {
	free := slices.Clone(r.future.free)
	for _, b := range r.future.running {
		if b.ends <= from {
			for _, a := range b.at {
				free[a.Node] += int32(a.GPUs)
			}
		}
	}
	for _, v := range r.spans {
		if v.from < to && v.to > from {
			free[v.node] -= v.gpus
		}
	}
	nodes := slices.Clone(s.fits)
	if from <= r.v.Now() {
		nodes.and(r.freeFor(j, s))
	}
	for n := nodes.next(0); n >= 0; n = nodes.next(n + 1) {
		if free[n] < s.each {
			nodes.remove(n)
		}
	}
	return nodes
}
