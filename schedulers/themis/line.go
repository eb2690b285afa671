package themis

import (
	"time"

	"github.com/autosched/autosched/simulator"
)

// lane is the waiting jobs that find a place or not together: those of as many
// GPUs, of the same tenant where quotas are strict, and that may be spread or not.
type lane struct {
	demand  int // GPUs to be free for a start
	gpus    int // of the gang
	relaxed bool
	tenant  int
	jobs    []waiting // in any order
	closed  bool      // none found a place, and nobody has left since
}

// waiting is a waiting job with what its rho is made of, in seconds: at an
// instant it is (instant + base) / total, and the same factor for all of the
// lane.
type waiting struct {
	id          simulator.ID
	base, total float64
}

// outlook is how long a job will have run in all, and how long it still will.
func (p *policy) outlook(j simulator.ID) (total, rest time.Duration) {
	ran := p.service.Received(j)
	if told, ok := p.s.JobEstimate(j); ok && told > ran {
		return told, told - ran
	}
	rest = max(ran, p.widthOf(j).length)
	return ran + rest, rest
}

// rho is a job's expected finish-time fairness if it runs from now on.
func (p *policy) rho(j simulator.ID) float64 {
	total, rest := p.outlook(j)
	age := p.s.Now() - p.s.JobSubmit(j)
	return (age + rest).Seconds() / (total.Seconds() * p.crowd(p.s.JobGPUs(j)))
}

// crowd is how many times longer a job of so many GPUs takes on an equal share
// of the cluster than on what it asks for.
func (p *policy) crowd(gpus int) float64 {
	return max(1, float64(gpus)*float64(p.s.Active())/float64(p.s.Cluster().TotalGPUs()))
}

func (p *policy) laneOf(j simulator.ID) *lane {
	demand, gpus, relaxed, tenant := p.s.JobDemand(j), p.s.JobGPUs(j), p.s.MaySpread(j), 0
	if p.s.Quota() == simulator.QuotaStrict {
		tenant = p.s.JobTenant(j)
	}
	for i := range p.wait {
		if l := &p.wait[i]; l.demand == demand && l.gpus == gpus && l.relaxed == relaxed && l.tenant == tenant {
			return l
		}
	}
	p.wait = append(p.wait, lane{demand: demand, gpus: gpus, relaxed: relaxed, tenant: tenant})
	return &p.wait[len(p.wait)-1]
}

// waits puts a job into its lane.
func (p *policy) waits(j simulator.ID) {
	l := p.laneOf(j)
	total, rest := p.outlook(j)
	p.place[j] = int32(len(l.jobs))
	l.jobs = append(l.jobs, waiting{j, (rest - p.s.JobSubmit(j)).Seconds(), total.Seconds()})
}

// leaveLane takes a job out of its lane.
func (p *policy) leaveLane(j simulator.ID) {
	l := p.laneOf(j)
	i, last := p.place[j], l.jobs[len(l.jobs)-1]
	l.jobs[i], p.place[last.id] = last, i
	l.jobs = l.jobs[:len(l.jobs)-1]
}

// reopen is for when GPUs become free.
func (p *policy) reopen() {
	for i := range p.wait {
		p.wait[i].closed = false
	}
}

// backfill gives free GPUs to the largest rho that finds a place, and so on.
func (p *policy) backfill(plan *simulator.Plan) {
	for {
		best := -1
		var who ranked
		for i := range p.wait {
			l := &p.wait[i]
			if l.closed || len(l.jobs) == 0 || l.demand > plan.Free() {
				continue
			}
			if r := p.best(l); best < 0 || compare(r, who) < 0 {
				best, who = i, r
			}
		}
		if best < 0 {
			return
		}
		if !plan.Start(who.id) {
			p.wait[best].closed = true
			continue
		}
		p.leaveLane(who.id)
		p.runs(who.id)
	}
}

// best is the job of a lane with the largest rho.
func (p *policy) best(l *lane) ranked {
	now := p.s.Now().Seconds()
	top := ranked{id: -1}
	for i := range l.jobs {
		w := &l.jobs[i]
		if r := (ranked{(now + w.base) / w.total, w.id}); top.id < 0 || compare(r, top) < 0 {
			top = r
		}
	}
	top.rho /= p.crowd(l.gpus)
	return top
}
