package themis

import (
	"math"

	"github.com/autosched/autosched/simulator"
)

// lane is the waiting jobs that find a place or not together: those of as many
// GPUs (of groups: and as wide members), of the same tenant where quotas are
// strict, and that may be spread or not.
type lane struct {
	gpus    int
	kind    int32 // index in policy.widths
	relaxed bool
	tenant  int
	closed  bool // none found a place, and nobody has left since

	// list[head:] are the jobs. So many in front are in the order of their rho of
	// lately, when they were put in order; the others came since.
	list   []standing
	head   int
	lately int
	plan   int    // in which they were put in order, if none came since
	top    ranked // of backfill
	topped bool
	// Of an offer: the index in list of the first that has not been served, and of
	// the first that does not come before whom passed was last asked of.
	next, behind int

	// At most what base and inverse are of any of them, up to the sign.
	base, inverse float64
}

func (l *lane) jobs() []standing { return l.list[l.head:] }

func (l *lane) len() int { return len(l.list) - l.head }

// first is the first of an offer that has not been served.
func (l *lane) first() *standing { return &l.list[l.next] }

func (l *lane) add(w standing) {
	if l.head > 0 && len(l.list) == cap(l.list) {
		l.list, l.head = l.list[:copy(l.list, l.jobs())], 0
	}
	l.list = append(l.list, w)
	l.plan = 0
	l.base, l.inverse = max(l.base, math.Abs(float64(w.base))), max(l.inverse, math.Abs(w.inverse))
}

// drop takes the i-th job out.
func (l *lane) drop(i int) {
	copy(l.list[l.head+1:], l.list[l.head:l.head+i])
	l.head++
	if i < l.lately {
		l.lately--
	}
}

// laneOf is the lane of a job when it waits.
func (p *policy) laneOf(j simulator.ID) *lane {
	r := &p.records[j]
	if r.lane >= 0 {
		return &p.wait[r.lane]
	}
	relaxed, tenant := p.relaxed(j), 0
	if p.s.Quota() == simulator.QuotaStrict {
		tenant = p.s.JobTenant(j)
	}
	for i := range p.wait {
		if l := &p.wait[i]; l.kind == r.kind && l.relaxed == relaxed && l.tenant == tenant {
			r.lane = int32(i)
			return l
		}
	}
	n := len(p.wait)
	r.lane = int32(n)
	if n == cap(p.wait) {
		p.wait = append(p.wait, lane{})
	}
	p.wait = p.wait[:n+1]
	p.wait[n] = lane{gpus: p.widths[r.kind].gpus, kind: r.kind, relaxed: relaxed, tenant: tenant, list: p.wait[n].list[:0]}
	return &p.wait[n]
}

// waits puts a job into its lane.
func (p *policy) waits(j simulator.ID) {
	l := p.laneOf(j)
	total, rest := outlook(p.service.Received(j), p.told(j), p.widths[l.kind].length)
	l.add(standing{base: rest - p.s.JobSubmit(j), total: total, inverse: 1 / float64(total), id: j, kind: l.kind})
}

// reopen is for when GPUs become free.
func (p *policy) reopen() {
	for i := range p.wait {
		p.wait[i].closed = false
	}
}

// order puts a lane in order.
func (p *policy) order(l *lane) {
	if l.plan == p.plans {
		return
	}
	l.plan = p.plans
	now, share, jobs := p.s.Now(), p.widths[l.kind].share, l.jobs()
	for i := range jobs {
		w := &jobs[i]
		w.key = float64(float64(now+w.base)*w.inverse) * share
	}
	p.arrange(jobs, l.lately)
	l.lately = len(jobs)
}

// backfill gives free GPUs to the largest rho that finds a place, and so on.
func (p *policy) backfill(plan *simulator.Plan) {
	for i := range p.wait {
		p.wait[i].topped = false
	}
	for {
		best := -1
		var who ranked
		for i := range p.wait {
			l := &p.wait[i]
			if l.closed || l.len() == 0 || l.gpus > plan.Free() {
				continue
			}
			if !l.topped {
				l.top, l.topped = p.best(l), true
			}
			if best < 0 || l.top.before(who) {
				best, who = i, l.top
			}
		}
		if best < 0 {
			return
		}
		l := &p.wait[best]
		if !plan.Start(who.id) {
			l.closed = true
			continue
		}
		for i, w := range l.jobs() {
			if w.id == who.id {
				l.drop(i)
				break
			}
		}
		l.topped = false
		p.runs(who.id)
	}
}

// best is the job of a lane with the largest rho. Between offers that is added
// up in another order, so all are looked at whose key is not clearly less.
func (p *policy) best(l *lane) ranked {
	w := &p.widths[l.kind]
	at := p.s.Now()
	now := at.Seconds()
	slack := float64(near * (math.Abs(float64(at)) + l.base) * l.inverse)
	top := ranked{id: -1}
	for i := range l.jobs() {
		x := &l.jobs()[i]
		if float64(float64(at+x.base)*x.inverse)+slack < top.rho && top.id >= 0 {
			continue
		}
		if r := (ranked{(now + x.base.Seconds()) / x.total.Seconds(), x.id}); top.id < 0 || r.before(top) {
			top = r
		}
	}
	top.rho /= w.crowd
	return top
}
