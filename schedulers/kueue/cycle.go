package kueue

import (
	"slices"

	"github.com/autosched/autosched/simulator"
)

// entry is the head of a queue in a cycle.
type entry struct {
	job     simulator.ID
	queue   int32
	fits    bool
	never   bool // whatever is preempted
	borrows bool
	victims []simulator.ID
	done    bool
}

// reservation is quota that no later head of a cycle gets.
type reservation struct {
	queue int32
	gpus  int
}

// cycle considers the heads of a cohort's queues: first within their queues' nominal quota, then by priority,
// then the older ones. schedule and makeClassicalIterator in pkg/scheduler/scheduler.go.
func (p *policy) cycle(plan *simulator.Plan, c *cohort) {
	p.entries, p.all = p.entries[:0], p.all[:0]
	for _, i := range c.queues {
		if q := &p.queues[i]; q.waiting > 0 {
			if j := p.head(q); j >= 0 {
				p.entries = append(p.entries, p.nominate(plan, i, j))
			}
		}
	}
	p.reserved = p.reserved[:0]
	if !p.fair {
		slices.SortFunc(p.entries, func(a, b entry) int {
			if a.borrows != b.borrows {
				return order(b.borrows)
			}
			return order(p.before(a.job, b.job))
		})
	}
	for range p.entries {
		p.process(plan, c, p.next(c))
	}
	for _, r := range p.reserved {
		p.use(&p.queues[r.queue], -r.gpus)
	}
}

// order is that of two elements, of which the first comes first or not.
func order(first bool) int {
	if first {
		return -1
	}
	return 1
}

// next is the next entry of a cycle.
func (p *policy) next(c *cohort) *entry {
	best := -1
	for i := range p.entries {
		e := &p.entries[i]
		if e.done {
			continue
		}
		if best < 0 || p.fair && p.fairer(c, e, &p.entries[best]) {
			best = i
		}
		if !p.fair {
			break
		}
	}
	p.entries[best].done = true
	return &p.entries[best]
}

// nominate says how a head could be admitted. fitsResourceQuota in pkg/scheduler/flavorassigner/flavorassigner.go.
func (p *policy) nominate(plan *simulator.Plan, i int32, j simulator.ID) entry {
	q, gpus := &p.queues[i], int(p.jobs[j].gpus)
	c := &p.cohorts[q.cohort]
	e := entry{job: j, queue: i, borrows: !c.alone && q.borrows(gpus)}
	switch {
	case gpus > p.most(q):
		e.never = true
	case gpus <= p.available(q):
		e.fits = true
	case gpus <= q.Nominal || q.Borrow != Never || p.fair && q.Reclaim != Never:
		if e.victims = p.choose(plan, q, j); len(e.victims) > 0 {
			for _, v := range e.victims {
				p.use(&p.queues[p.jobs[v].queue], -int(p.jobs[v].gpus))
			}
			e.borrows = !c.alone && q.borrows(gpus)
			for _, v := range e.victims {
				p.use(&p.queues[p.jobs[v].queue], int(p.jobs[v].gpus))
			}
		}
	default:
		e.never = true
	}
	return e
}

// process admits a head, evicts its victims, or sets it aside. processEntry in pkg/scheduler/scheduler.go and
// requeueIfNotPresent in pkg/cache/queue/cluster_queue.go.
func (p *policy) process(plan *simulator.Plan, c *cohort, e *entry) {
	q, gpus := &p.queues[e.queue], int(p.jobs[e.job].gpus)
	switch {
	case e.never:
		p.setAside(c, q, e.job)
	case e.fits:
		if gpus > p.available(q) {
			return // reserved by one before
		}
		p.admit(plan, e.job)
		c.changed = true
	case len(e.victims) == 0:
		// A queue that may not reclaim at will keeps its quota from later heads.
		if q.Reclaim != Any {
			p.reserve(e.queue, reservable(q, gpus, e.borrows))
		}
		p.setAside(c, q, e.job)
	default:
		p.preempt(plan, c, e)
	}
}

// reservable is the part of a size that a head keeps. quotaResourcesToReserve in pkg/scheduler/scheduler.go.
func reservable(q *queue, gpus int, borrows bool) int {
	switch {
	case !borrows:
		return max(0, min(gpus, q.Nominal-q.used))
	case q.BorrowingLimit.Set:
		return max(0, min(gpus, q.Nominal+q.BorrowingLimit.GPUs-q.used))
	}
	return gpus
}

func (p *policy) reserve(i int32, gpus int) {
	p.use(&p.queues[i], gpus)
	p.reserved = append(p.reserved, reservation{i, gpus})
}

// setAside keeps a job that does not fit, and others like it, from being considered until quota is released. The head
// of a StrictFIFO queue stays.
func (p *policy) setAside(c *cohort, q *queue, j simulator.ID) {
	if q.Strategy == BestEffortFIFO {
		q.kinds[p.jobs[j].kind].aside = true
		c.changed = true
	}
}

// preempt evicts the victims of a head, whose quota it keeps until it is considered again.
func (p *policy) preempt(plan *simulator.Plan, c *cohort, e *entry) {
	if slices.ContainsFunc(e.victims, func(v simulator.ID) bool { return slices.Contains(p.all, v) }) {
		return // another head has evicted some
	}
	q, gpus := &p.queues[e.queue], int(p.jobs[e.job].gpus)
	for _, v := range e.victims {
		p.use(&p.queues[p.jobs[v].queue], -int(p.jobs[v].gpus))
	}
	fits := gpus <= p.available(q)
	for _, v := range e.victims {
		p.use(&p.queues[p.jobs[v].queue], int(p.jobs[v].gpus))
	}
	if !fits {
		return
	}
	for _, v := range e.victims {
		p.evict(plan, v)
	}
	p.all = append(p.all, e.victims...)
	p.reserve(e.queue, gpus)
	q.preemptor = e.job
	c.changed = true
}

// evict puts an admitted job back into its queue.
func (p *policy) evict(plan *simulator.Plan, j simulator.ID) {
	if i := slices.Index(p.idle, j); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	} else {
		plan.Requeue(j, 0)
		plan.AllowSpread(j, true)
	}
	p.jobs[j].evicted = p.v.Now()
	p.release(j)
	p.wait(j)
}
