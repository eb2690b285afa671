package themis

import (
	"time"

	"github.com/autosched/autosched/simulator"
)

// lane is the waiting jobs of one kind, which find a place or not together: those
// of one width, of one tenant where quotas are strict, that may spread or not, and
// that ask the same of their nodes.
type lane struct {
	demand     int // GPUs that must be free
	gpus       int // of the gang
	relaxed    bool
	tenant     int
	constraint int
	jobs       []waiting // in any order
	closed     bool      // the last attempt failed, and no GPUs were freed since
}

// waiting is a waiting job with the terms of its rho, which do not change while it
// waits: at an instant rho is (instant + offset) / total, over the contention of the
// lane. Base is the offset in seconds, as is total.
type waiting struct {
	id          simulator.ID
	offset      time.Duration
	base, total float64
}

// rho is the job's expected finish-time fairness if it runs from now on.
func (w *waiting) rho(now time.Duration, contention float64) float64 {
	return (now + w.offset).Seconds() / (w.total * contention)
}

// outlook estimates a job's total and remaining run time.
func (p *policy) outlook(j simulator.ID) (total, rest time.Duration) {
	ran := p.service.Received(j)
	if estimate, ok := p.s.JobEstimate(j); ok && estimate > ran {
		return estimate, estimate - ran
	}
	rest = max(ran, p.widthOf(j).length)
	return ran + rest, rest
}

// rho is a running job's expected finish-time fairness if it goes on running.
func (p *policy) rho(j simulator.ID, contention float64) float64 {
	total, rest := p.outlook(j)
	age := p.s.Now() - p.s.JobSubmit(j)
	return (age + rest).Seconds() / (total.Seconds() * contention)
}

// contention is the run time of a job on an equal share of the cluster over that on
// the GPUs it asks for.
func (p *policy) contention(gpus int) float64 {
	return max(1, float64(gpus)*float64(p.s.Active())/float64(p.s.TotalGPUs()))
}

func (p *policy) laneOf(j simulator.ID) *lane {
	key := lane{demand: p.s.JobDemand(j), gpus: p.s.JobGPUs(j), relaxed: p.s.MaySpread(j),
		constraint: p.s.JobConstraint(j)}
	if p.s.Quota() == simulator.QuotaStrict {
		key.tenant = p.s.JobTenant(j)
	}
	for i := range p.wait {
		if l := &p.wait[i]; l.demand == key.demand && l.gpus == key.gpus && l.relaxed == key.relaxed &&
			l.tenant == key.tenant && l.constraint == key.constraint {
			return l
		}
	}
	p.wait = append(p.wait, key)
	return &p.wait[len(p.wait)-1]
}

// addWaiting adds a job to its lane.
func (p *policy) addWaiting(j simulator.ID) {
	l := p.laneOf(j)
	total, rest := p.outlook(j)
	p.index[j] = int32(len(l.jobs))
	offset := rest - p.s.JobSubmit(j)
	l.jobs = append(l.jobs, waiting{j, offset, offset.Seconds(), total.Seconds()})
}

// removeWaiting removes a job from its lane.
func (p *policy) removeWaiting(j simulator.ID) {
	l := p.laneOf(j)
	i, last := p.index[j], l.jobs[len(l.jobs)-1]
	l.jobs[i], p.index[last.id] = last, i
	l.jobs = l.jobs[:len(l.jobs)-1]
}

// reopen lets all lanes try again after GPUs were freed.
func (p *policy) reopen() {
	for i := range p.wait {
		p.wait[i].closed = false
	}
}

// backfill starts the waiting jobs that find a place, largest rho first.
func (p *policy) backfill(plan *simulator.Plan) {
	for {
		best := -1
		var first bid
		for i := range p.wait {
			l := &p.wait[i]
			if l.closed || len(l.jobs) == 0 || l.demand > plan.Free() {
				continue
			}
			if r := p.best(l); best < 0 || compare(r, first) < 0 {
				best, first = i, r
			}
		}
		if best < 0 {
			return
		}
		if !plan.Start(first.id) {
			p.wait[best].closed = true
			continue
		}
		p.removeWaiting(first.id)
		p.addRunning(first.id)
	}
}

// best is the job of a lane with the largest rho.
func (p *policy) best(l *lane) bid {
	now := p.s.Now().Seconds()
	top := bid{id: -1}
	for i := range l.jobs {
		w := &l.jobs[i]
		if r := (bid{(now + w.base) / w.total, w.id}); top.id < 0 || compare(r, top) < 0 {
			top = r
		}
	}
	top.rho /= p.contention(l.gpus)
	return top
}
