package kueue

import (
	"cmp"
	"slices"

	"github.com/autosched/autosched/simulator"
)

// victims is the memory of choosing jobs to preempt.
type victims struct {
	all        []simulator.ID // of a cycle
	candidates []candidate
	chosen     []simulator.ID
}

// candidate is a job that may be preempted for another.
type candidate struct {
	job simulator.ID
	// lean says that the preemptor must not borrow once it has the quota.
	lean  bool
	other bool // of another queue than the preemptor
}

// choose returns admitted jobs whose quota lets a head in: candidates in order until it fits, then in reverse without
// the ones that need not go. Nil if none do. classicalPreemptions in pkg/scheduler/preemption/preemption.go.
func (p *policy) choose(plan *simulator.Plan, q *queue, j simulator.ID) []simulator.ID {
	p.collect(plan, q, j)
	if len(p.candidates) == 0 {
		return nil
	}
	if p.fair {
		return p.chooseFairly(q, int(p.jobs[j].gpus))
	}
	others := p.candidates[0].other // they come first
	within := !q.borrows(int(p.jobs[j].gpus))
	attempts := []bool{true, false} // whether the head may borrow
	switch forbidden := q.Borrow == Never; {
	case !others || forbidden && q.used >= q.Nominal:
		attempts = attempts[:1]
	case forbidden && !within:
		attempts = []bool{false, true}
	}
	for _, borrow := range attempts {
		if chosen := p.attempt(q, int(p.jobs[j].gpus), borrow); chosen != nil {
			return chosen
		}
	}
	return nil
}

func (p *policy) attempt(q *queue, gpus int, borrow bool) []simulator.ID {
	p.chosen = p.chosen[:0]
	fits := func() bool { return (borrow || !q.borrows(gpus)) && gpus <= p.available(q) }
	use := func(v simulator.ID, sign int) {
		x := &p.jobs[v]
		p.use(&p.queues[x.queue], sign*int(x.gpus))
	}
	enough := false
	for i := range p.candidates {
		c := &p.candidates[i]
		if c.other && (borrow && c.lean || !p.queues[p.jobs[c.job].queue].borrows(0)) {
			continue
		}
		use(c.job, -1)
		p.chosen = append(p.chosen, c.job)
		if enough = fits(); enough {
			break
		}
	}
	if enough {
		p.fillBack(use, fits)
	}
	for _, v := range p.chosen {
		use(v, +1)
	}
	if !enough {
		return nil
	}
	return slices.Clone(p.chosen)
}

// fillBack drops chosen jobs, the last one apart, without whose quota the head fits as well.
func (p *policy) fillBack(use func(simulator.ID, int), fits func() bool) {
	for i := len(p.chosen) - 2; i >= 0; i-- {
		use(p.chosen[i], +1)
		if fits() {
			last := len(p.chosen) - 1
			p.chosen[i] = p.chosen[last]
			p.chosen = p.chosen[:last]
		} else {
			use(p.chosen[i], -1)
		}
	}
}

// collect finds the candidates: jobs of queues that borrow, then of the same queue, by priority, then the ones
// admitted last. candidate_generator.go and common/ordering.go in pkg/scheduler/preemption.
func (p *policy) collect(plan *simulator.Plan, q *queue, j simulator.ID) {
	p.candidates = p.candidates[:0]
	x := &p.jobs[j]
	within := !q.borrows(int(x.gpus))
	if c := &p.cohorts[q.cohort]; !c.alone && q.Reclaim != Never {
		for _, i := range c.queues {
			if o := &p.queues[i]; o != q && o.borrows(0) {
				for _, v := range o.admitted {
					y := &p.jobs[v]
					if p.may(plan, q.Reclaim, x, v) {
						lean := !within && (q.Borrow == Never || y.priority >= x.priority || y.priority > q.Threshold)
						p.candidates = append(p.candidates, candidate{v, lean, true})
					}
				}
			}
		}
	}
	if q.Within != Never {
		for _, v := range q.admitted {
			if p.may(plan, q.Within, x, v) {
				p.candidates = append(p.candidates, candidate{v, false, false})
			}
		}
	}
	slices.SortFunc(p.candidates, func(a, b candidate) int {
		if a.other != b.other {
			return order(a.other)
		}
		return p.victimOrder(a.job, b.job)
	})
}

// victimOrder is that of candidates: lower priority, then admitted in a later second, then by UID.
func (p *policy) victimOrder(a, b simulator.ID) int {
	x, y := &p.jobs[a], &p.jobs[b]
	return cmp.Or(cmp.Compare(x.priority, y.priority), cmp.Compare(p.admittedAt(b), p.admittedAt(a)),
		cmp.Compare(x.uid, y.uid), cmp.Compare(a, b))
}

// admittedAt is the second in which a job was admitted; that of jobs without GPUs is the present.
func (p *policy) admittedAt(j simulator.ID) int64 {
	at := p.v.Now()
	if p.v.JobRunning(j) {
		at = p.v.JobSince(j)
	}
	return seconds(at + p.draw.phase)
}

// may reports whether a policy lets a job preempt another. One is preempted once in an instant, so that cycles end.
// SatisfiesPreemptionPolicy in pkg/scheduler/preemption/common/preemption_policy.go.
func (p *policy) may(plan *simulator.Plan, policy string, x *job, v simulator.ID) bool {
	y := &p.jobs[v]
	if y.evicted == p.v.Now() || p.v.JobRunning(v) && plan.Protected(v) {
		return false
	}
	switch policy {
	case Any:
		return true
	case LowerOrNewerEqualPriority:
		return x.priority > y.priority || x.priority == y.priority && x.order>>30 < y.order>>30
	case LowerPriority:
		return x.priority > y.priority
	}
	return false
}
