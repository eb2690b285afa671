package kueue

import (
	"fmt"

	"github.com/autosched/autosched/simulator"
)

// Explain implements simulator.Reasoned.
func (p *policy) Explain(w *simulator.Why) { p.why = w }

// note notes why the job that is asked for waits after the cycles of a plan, by the quota that they admit by.
func (p *policy) note() {
	if p.why == nil || int(p.why.Job) >= len(p.jobs) || p.v.JobRunning(p.why.Job) {
		return
	}
	x := &p.jobs[p.why.Job]
	q, gpus := &p.queues[x.queue], int(x.gpus)
	c := &p.cohorts[q.cohort]
	switch {
	case x.at >= 0:
		p.why.Note(simulator.Taken, "it is admitted, and no GPUs are free")
	case gpus > p.most(q):
		p.why.Note(simulator.OverQuota, fmt.Sprintf("its queue may never hold more than %d GPUs", p.most(q)))
	case gpus <= p.available(q):
		p.why.Note(simulator.Behind, "the head of its queue waits")
	case !c.alone && (!q.BorrowingLimit.Set || q.used+gpus <= q.Nominal+q.BorrowingLimit.GPUs):
		p.why.Note(simulator.OverQuota, fmt.Sprintf("of its cohort's %d GPUs %d are in use", c.lent, c.used))
	default:
		p.why.Note(simulator.OverQuota, fmt.Sprintf("of its queue's %d GPUs %d are in use", q.Nominal, q.used))
	}
}
