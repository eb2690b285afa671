package kueue

import (
	"cmp"
	"slices"

	"github.com/autosched/autosched/simulator"
)

// Fair sharing orders heads and chooses victims by the queues' shares of what they could borrow.
// pkg/scheduler/fair_sharing_iterator.go and pkg/cache/scheduler/fair_sharing.go.

// share is the borrowed quota of a queue that uses more GPUs, over its cohort's and its weight. Without weight a queue
// that borrows comes after all others.
func (p *policy) share(q *queue, more int) (share float64, weightless bool) {
	c := &p.cohorts[q.cohort]
	borrowed := float64(max(0, q.used+more-q.Nominal))
	if c.alone || borrowed == 0 || c.lent <= 0 {
		return 0, false
	}
	if q.Weight == 0 {
		return borrowed / float64(c.lent), true
	}
	return borrowed / float64(c.lent) / q.Weight, false
}

// compareShares is CompareDRS.
func (p *policy) compareShares(a *queue, moreA int, b *queue, moreB int) int {
	x, lastX := p.share(a, moreA)
	y, lastY := p.share(b, moreB)
	if lastX != lastY {
		return order(lastY)
	}
	return cmp.Compare(x, y)
}

// fairer reports whether a head comes before another: one that does not borrow, then that of the lesser share with it,
// then that of higher priority, then the older one.
func (p *policy) fairer(c *cohort, a, b *entry) bool {
	x, y := &p.queues[a.queue], &p.queues[b.queue]
	wideA, wideB := int(p.jobs[a.job].gpus), int(p.jobs[b.job].gpus)
	if !c.alone {
		if m, n := x.borrows(wideA), y.borrows(wideB); m != n {
			return n
		}
		if by := p.compareShares(x, wideA, y, wideB); by != 0 {
			return by < 0
		}
	}
	return p.before(a.job, b.job)
}

// chooseFairly returns jobs to preempt under fair sharing: of the queue with the largest share, each whose queue still
// has at least the share of the head's afterwards; if that is not enough, one of each queue that has a larger share
// now. A head within its queue's nominal quota preempts any of them. fairPreemptions in
// pkg/scheduler/preemption/preemption.go.
func (p *policy) chooseFairly(q *queue, gpus int) []simulator.ID {
	p.chosen = p.chosen[:0]
	p.use(q, gpus) // shares are with the head
	fits := func() bool {
		p.use(q, -gpus)
		fits := gpus <= p.available(q)
		p.use(q, gpus)
		return fits
	}
	use := func(v simulator.ID, sign int) { p.use(&p.queues[p.jobs[v].queue], sign*int(p.jobs[v].gpus)) }
	take := func(v simulator.ID) bool {
		use(v, -1)
		p.chosen = append(p.chosen, v)
		return fits()
	}
	within, enough := !q.borrows(0), false
	left := slices.Clone(p.candidates)
	var retry []candidate
	for !enough {
		i := p.unfairest(q, left)
		if i < 0 {
			break
		}
		c := left[i]
		left = slices.Delete(left, i, i+1)
		o := &p.queues[p.jobs[c.job].queue]
		if !c.other || within || p.compareShares(q, 0, o, -int(p.jobs[c.job].gpus)) <= 0 {
			enough = take(c.job)
		} else {
			retry = append(retry, c)
		}
	}
	for !enough {
		i := p.unfairest(q, retry)
		if i < 0 {
			break
		}
		c := retry[i]
		o := p.jobs[c.job].queue
		if p.compareShares(q, 0, &p.queues[o], 0) < 0 {
			enough = take(c.job)
		}
		retry = slices.DeleteFunc(retry, func(c candidate) bool { return p.jobs[c.job].queue == o })
	}
	if enough {
		p.fillBack(use, fits)
	}
	p.use(q, -gpus)
	for _, v := range p.chosen {
		use(v, +1)
	}
	if !enough {
		return nil
	}
	return slices.Clone(p.chosen)
}

// unfairest is the first candidate of the queue with the largest share, among the head's own and the ones that borrow.
func (p *policy) unfairest(q *queue, left []candidate) int {
	best := -1
	for i, c := range left {
		o := &p.queues[p.jobs[c.job].queue]
		if o != q && !o.borrows(0) {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		with := &p.queues[p.jobs[left[best].job].queue]
		by := p.compareShares(o, 0, with, 0)
		if by > 0 || by == 0 && o != with && p.victimOrder(c.job, left[best].job) < 0 {
			best = i
		}
	}
	return best
}
