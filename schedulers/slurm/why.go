package slurm

import (
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Explain implements simulator.Reasoned.
func (p *policy) Explain(w *simulator.Why) { p.why = w }

// note notes why a cycle does not start a job.
func (p *policy) note(j simulator.ID, r simulator.Reason) {
	if !p.why.Asks(j) {
		return
	}
	detail := ""
	switch r {
	case simulator.Limited:
		detail = p.bindingLimit(&p.jobs[j])
	case simulator.Depth:
		detail = "a cycle looks at fewer jobs (bf_max_job_test and its kin)"
	}
	p.why.Note(r, detail)
}

// noteRoom notes why a backfill cycle does not start a job beside the reservations so far: there is no room, the nodes
// are set apart, or its time limit reaches into a reservation.
func (p *policy) noteRoom(j simulator.ID) {
	if !p.why.Asks(j) {
		return
	}
	x, now := &p.jobs[j], p.v.Now()
	if x.eligible > now {
		return
	}
	reason, longest := simulator.Taken, time.Duration(0)
	for i := range p.layouts[x.layout].shapes {
		s := &p.layouts[x.layout].shapes[i]
		free := slices.Clone(p.freeFor(j, s))
		if !s.enough {
			continue
		}
		if from, _ := p.reserved(free, x, now); from > now || free.count() < int(s.nodes) {
			if reason == simulator.Taken {
				reason = simulator.Closed
			}
			continue
		}
		reason, longest = simulator.Reserved, max(longest, p.table.room(free, int(s.nodes), now)-now)
	}
	detail := ""
	if reason == simulator.Reserved && longest > 0 && longest < x.limit {
		detail = fmt.Sprintf("it would start with a time limit below %v", longest.Truncate(time.Minute))
	}
	p.why.Note(reason, detail)
}

// room is the instant until which a number of the nodes have no reservation from now on.
func (t *table) room(nodes nodeSet, number int, now time.Duration) time.Duration {
	left := slices.Clone(nodes)
	for i := t.from(0, now); i >= 0; i = t.after[i] {
		if left.and(t.row(i)); left.count() < number {
			return t.begin[i]
		}
	}
	return never
}

// cutOff ends a backfill cycle before the jobs from one on.
func (p *policy) cutOff(tries []entry, from int) []entry {
	if p.why != nil {
		for _, e := range tries[from:] {
			p.note(e.id, simulator.Depth)
		}
	}
	return tries[:from]
}

// bindingLimit is the limit that holds a job back, in words.
func (p *policy) bindingLimit(x *job) string {
	asks := int64(p.layouts[x.layout].gpus)
	things := map[workload.Resource]string{workload.LimitedGPUs: "GPUs", workload.LimitedJobs: "jobs"}
	for _, b := range x.bounds {
		if c := &p.limits.counters[b.counter]; b.binding && !c.limit.Allows(c.held, b.of(asks)) {
			return fmt.Sprintf("%s: %d of %d %s are in use", scopeText(&c.limit), c.held, c.limit.Own+c.limit.Borrow,
				things[c.limit.Resource])
		}
	}
	return ""
}

// scopeText names what a limit counts.
func scopeText(l *workload.Limit) string {
	switch {
	case l.QOS != "" && l.Each != "":
		return fmt.Sprintf("each %s of QOS %s", l.Each, l.QOS)
	case l.QOS != "":
		return "QOS " + l.QOS
	case l.User != "":
		return fmt.Sprintf("user %s of account %s", l.User, l.Account)
	}
	return "account " + l.Account
}
