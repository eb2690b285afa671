package slurm

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// comer is a job that was submitted before the policy began.
type comer struct {
	submit        time.Duration
	account, user string
	id            simulator.ID
	waits, ended  bool
	runs          spell // of a job that has ended
}

// restore derives the state of a policy that had run before from the jobs observed, active and ended: users
// and their usage, priorities as of the last calculation, and the next main cycle that submissions cause.
func (p *policy) restore() {
	if p.restored {
		return
	}
	p.restored = true
	p.countFree() // observed jobs get their nodes after Reset
	now := p.v.Now()
	p.changed = now
	comers := p.comers()
	last := p.clock.last(now)
	before, _ := slices.BinarySearchFunc(comers, last, func(c comer, at time.Duration) int {
		return cmp.Compare(c.submit, at)
	})
	for i := range comers[:before] {
		p.introduce(&comers[i])
	}
	p.usage.begin()
	p.tick()
	for i := range comers[:before] {
		p.rejoin(&comers[i])
	}
	for i := range comers[before:] {
		p.introduce(&comers[before+i])
		p.rejoin(&comers[before+i])
	}
	p.usage.begin()
	p.unsorted = true
	p.submissions(now)
}

// comers are the jobs submitted before, in order.
func (p *policy) comers() []comer {
	var out []comer
	ended := func(j simulator.ID, submit, from, to time.Duration, gpus int, tenant, user string, r workload.Request) {
		p.freed = max(p.freed, to)
		if p.usage.enabled {
			part := &p.site.partitions[p.site.partition(r.Partition, p.v.Cluster())]
			out = append(out, comer{submit: submit, account: cmp.Or(r.Account, tenant), user: user, id: j, ended: true,
				runs: spell{-1, 0, part.billing(r, gpus), p.site.qos[p.site.qosOf(r.QOS)].UsageFactor, from, to}})
		}
	}
	past := p.v.Past().Jobs()
	for i := range past {
		j := &past[i]
		ended(-1, j.Submit, j.End-j.RunTime, j.End, j.GPUs, j.Tenant, j.User, j.Request())
	}
	for j := range p.observed {
		r := p.v.JobRequest(j)
		if at, ok := p.v.JobEnded(j); ok {
			ended(j, p.v.JobSubmit(j), p.v.JobSince(j), at, p.v.JobDemand(j), p.v.JobTenantName(j), p.v.JobUser(j), r)
		} else {
			out = append(out, comer{submit: p.v.JobSubmit(j), id: j, waits: !p.v.JobRunning(j),
				account: cmp.Or(r.Account, p.v.JobTenantName(j)), user: p.v.JobUser(j)})
		}
	}
	slices.SortStableFunc(out, func(a, b comer) int { return cmp.Compare(a.submit, b.submit) })
	return out
}

// introduce gives a job its user and counts it among the running jobs.
func (p *policy) introduce(c *comer) {
	if c.ended {
		c.runs.user = p.of(c.account, c.user)
		p.past = append(p.past, c.runs)
	} else if p.belongs(&p.jobs[c.id], c.account, c.user); !c.waits {
		p.enter(c.id)
	}
}

// rejoin puts a waiting job into the queue.
func (p *policy) rejoin(c *comer) {
	if !c.waits {
		return
	}
	x := &p.jobs[c.id]
	x.held = x.eligible > p.v.Now()
	p.rank(c.id)
	p.queue = append(p.queue, p.entry(c.id))
}

// submissions replays the main cycles that the submissions of the last minutes caused.
func (p *policy) submissions(now time.Duration) {
	since := now - max(5*time.Minute, 100*p.settings.BatchSchedDelay)
	p.arrivals = p.v.Past().SubmittedAfter(p.arrivals[:0], since)
	if p.settings.Defer {
		for _, j := range p.v.Past().Jobs() {
			if j.End > since {
				p.arrivals = append(p.arrivals, j.End)
			}
		}
	}
	for j := range p.observed {
		if at := p.v.JobSubmit(j); at > since {
			p.arrivals = append(p.arrivals, at)
		}
		if at, ok := p.v.JobEnded(j); ok && p.settings.Defer && at > since {
			p.arrivals = append(p.arrivals, at)
		}
	}
	slices.Sort(p.arrivals)
	for _, at := range p.arrivals {
		p.submit(at)
	}
}
