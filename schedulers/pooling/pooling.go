// Package pooling shares virtual clusters adaptively: GPUs that a tenant leaves idle
// of its quota are lent to others, and taken back, by stopping borrowers at a
// checkpoint, when the tenant asks for it. It is the elastic queue of capacity
// schedulers, for gangs; HiveD (Zhao et al., OSDI 2020) shares the quotas of a
// GPU cluster's tenants this way, with cells of nodes where GPUs are counted
// here.
//
// Each tenant's jobs wait in order of submission. Jobs that the quota has room
// for go first. GPUs that are in no quota, and GPUs lent by idle quotas, go
// to the tenant that holds the least beyond its quota for its weight. A job
// that its quota has room for and that has waited for the grace time makes
// borrowers stop: the jobs of the tenant that borrows most for its weight first,
// and of that tenant's jobs the one started last. They keep their progress and
// pay a restart when they resume.
//
// Simplified: a quota is a number of GPUs, not nodes, so an owner may
// wait for a place that only jobs within other quotas could make. A job that is
// wider than its tenant's bound under the lending limits is free of
// them, so that it runs at all. Without quotas (simulator.QuotaOff) there is one
// tenant and nothing to lend: first in, first out. With strict ones nothing is
// lent.
package pooling

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return &policy{
		grace:     c.Get("grace").Duration(),
		lend:      c.Get("lend").Float(),
		guarantee: c.Get("guarantee").Float(),
		weights:   c.Get("weights").Text(),
		backfill:  c.Get("backfill").Bool(),
	}
}

type policy struct {
	grace     time.Duration
	lend      float64
	guarantee float64
	weights   string
	backfill  bool

	s       *simulator.View
	plan    *simulator.Plan
	tenants []tenant
	stop    []simulator.ID
	one     [1]simulator.ID
	idle    int // GPUs of quotas that may be borrowed; -1 if not computed
}

// tenant is the state of a tenant.
type tenant struct {
	quota  int            // of its limit
	limit  workload.Limit // borrows at most what all others could ever lend together, and GPUs in no quota
	weight float64
	wait   lanes.Lanes
	claim  int        // GPUs asked for by waiting jobs that fit the quota
	run    lanes.List // by start
	shut   bool       // may not borrow any more in this plan
}

func (p *policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan = s, plan
	for len(p.tenants) < s.Tenants() {
		p.tenants = append(p.tenants, tenant{})
	}
	p.tenants = p.tenants[:s.Tenants()]
	all := 0
	for i := range p.tenants {
		t := &p.tenants[i]
		t.wait.Reset()
		t.wait.Split(s)
		t.run.Reset()
		t.quota, t.claim = s.TenantQuota(i), 0
		t.limit = workload.Limit{Resource: workload.LimitedGPUs, Own: int64(t.quota)}
		if keep := math.Ceil(p.guarantee * float64(t.quota)); s.Quota() == simulator.QuotaBorrow {
			t.limit.Lend = max(0, t.limit.Own-int64(keep))
		}
		t.weight = p.weight(i)
		all += p.lent(t, 0)
	}
	for i := range p.tenants {
		t := &p.tenants[i]
		t.limit.Borrow = int64(s.SharedGPUs() + all - p.lent(t, 0))
	}
}

// weight is a tenant's weight in the division of borrowed GPUs, at least 1e-9.
func (p *policy) weight(tenant int) float64 {
	w := 1.0
	if p.weights != "equal" {
		if w = p.s.TenantWeight(tenant); w == 0 || p.weights == "quota" {
			w = float64(p.s.TenantQuota(tenant))
		}
	}
	return max(w, 1e-9)
}

// lent is the number of GPUs that a tenant lends while it uses some.
func (p *policy) lent(t *tenant, used int) int {
	return int(p.lend * float64(t.limit.Lends(int64(used))))
}

func (p *policy) tenantOf(j simulator.ID) *tenant { return &p.tenants[p.s.JobTenant(j)] }

func (p *policy) started(j simulator.ID) lanes.Entry {
	return lanes.Entry{Key: int64(p.s.JobSince(j)), ID: j}
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	if p.s.JobRunning(j) {
		p.tenantOf(j).run.Insert(p.started(j))
		return
	}
	if p.waits(j) && p.s.BeyondQuota() > 0 {
		p.wake(j)
	}
}

// waits adds a waiting job and reports whether it is the first of a width that the quota has room for.
func (p *policy) waits(j simulator.ID) bool {
	t, g := p.tenantOf(j), p.s.JobDemand(j)
	first := t.wait.Add(g, false, lanes.Entry{ID: j})
	if g <= t.quota {
		t.claim += g
	}
	return first && g <= t.quota
}

// wake requests a plan at the end of a waiting job's grace time.
func (p *policy) wake(j simulator.ID) {
	if due := p.due(j); due > p.s.Now() {
		p.plan.WakeAt(due)
	}
}

// due is the end of a waiting job's grace time.
func (p *policy) due(j simulator.ID) time.Duration { return p.s.JobSince(j) + p.grace }

// runs moves a started job, removed from its lane, to the running jobs.
func (p *policy) runs(j simulator.ID) {
	t, g := p.tenantOf(j), p.s.JobDemand(j)
	if g <= t.quota {
		t.claim -= g
	}
	t.run.Insert(p.started(j))
}

func (p *policy) Finish(j simulator.ID) { p.tenantOf(j).run.Remove(p.started(j)) }

// Plan leaves the requests that Admit makes of the same jobs in a run that resumes: a plan at another instant may
// decide otherwise.
func (p *policy) Plan(plan *simulator.Plan) {
	plan.ForgetWakes()
	if p.s.Waiting() == 0 {
		return
	}
	for i := range p.tenants {
		p.own(plan, i)
	}
	p.borrow(plan)
	if p.s.BeyondQuota() == 0 {
		return
	}
	for i := range p.tenants {
		t := &p.tenants[i]
		t.wait.Walk()
		for {
			e, _, in, ok := t.wait.Next(t.quota)
			if !ok {
				break
			}
			p.wake(e.ID)
			t.wait.Close(in)
		}
	}
}

// own starts a tenant's jobs that fit its quota, and reclaims lent GPUs for
// jobs that have waited for the grace time.
func (p *policy) own(plan *simulator.Plan, tenant int) {
	t := &p.tenants[tenant]
	if t.wait.Len() == 0 {
		return
	}
	t.wait.Walk()
	for {
		room := t.quota - p.s.TenantHeld(tenant)
		limit := math.MaxInt
		if p.backfill {
			limit = room
		}
		e, g, in, ok := t.wait.Next(limit)
		if !ok || g > room {
			return
		}
		if plan.Start(e.ID) || p.reclaim(plan, e.ID) {
			t.wait.Take(in)
			p.runs(e.ID)
			continue
		}
		// The grace time of the first job of a width holds for later ones.
		if t.wait.Close(in); !p.backfill {
			return
		}
	}
}

// reclaim starts a job that fits its tenant's quota on GPUs of borrowers, if its
// grace time is over and preemption can make a place.
func (p *policy) reclaim(plan *simulator.Plan, j simulator.ID) bool {
	if p.s.BeyondQuota() == 0 || p.due(j) > p.s.Now() {
		return false
	}
	// First the fewest borrowers with enough GPUs; if their nodes do not suffice, all
	// of them. Exchange preempts none without need.
	need := p.s.JobDemand(j) - plan.Free()
	for _, enough := range [...]int{need, math.MaxInt} {
		if p.borrowers(enough); len(p.stop) == 0 {
			continue
		}
		p.one[0] = j
		plan.Exchange(p.stop, p.one[:])
		for _, b := range p.stop {
			if !p.s.JobRunning(b) {
				p.stopped(b)
			}
		}
		if p.s.JobRunning(j) {
			return true
		}
	}
	return false
}

// stopped moves a preempted job to the waiting jobs. The running list is ordered
// by the start of the spell that ended.
func (p *policy) stopped(j simulator.ID) {
	t := p.tenantOf(j)
	for k := t.run.Len() - 1; k >= 0; k-- {
		if e := t.run.At(k); e.ID == j {
			t.run.Remove(e)
			break
		}
	}
	p.waits(j)
}

// borrowers lists the jobs to preempt for a number of GPUs, the last choice first:
// jobs of tenants above their quotas, down to the quotas. Jobs no wider than the number that
// their tenant borrows are preferred.
func (p *policy) borrowers(enough int) {
	p.stop = p.stop[:0]
	for i := range p.tenants {
		p.tenants[i].shut = false
	}
	for enough > 0 {
		worst, most := -1, 0.0
		for i := range p.tenants {
			t := &p.tenants[i]
			over := float64(p.s.TenantHeld(i)-t.quota) / t.weight
			if !t.shut && over > most {
				worst, most = i, over
			}
		}
		if worst < 0 {
			break
		}
		t := &p.tenants[worst]
		t.shut = true
		excess := p.s.TenantHeld(worst) - t.quota
		over := excess
		for _, wide := range [...]bool{false, true} {
			for k := t.run.Len() - 1; k >= 0 && over > 0 && enough > 0; k-- {
				j := t.run.At(k).ID
				g := p.s.JobDemand(j)
				if g > excess != wide {
					continue
				}
				p.stop = append(p.stop, j)
				over -= g
				enough -= g
			}
		}
	}
	// Exchange spares the first of the list first: the last choice.
	slices.Reverse(p.stop)
}

// leaves is the number of GPUs that a tenant lends: neither held, nor asked for,
// nor guaranteed.
func (p *policy) leaves(tenant int) int {
	t := &p.tenants[tenant]
	claim := t.claim
	if !p.backfill && claim > 0 {
		t.wait.Walk()
		if _, g, _, ok := t.wait.Next(math.MaxInt); !ok || g > t.quota {
			claim = 0 // the head blocks them
		}
	}
	return p.lent(t, p.s.TenantHeld(tenant)+claim)
}

// borrow starts jobs beyond their quotas, first of the tenant that holds the least
// beyond its quota for its weight.
func (p *policy) borrow(plan *simulator.Plan) {
	for i := range p.tenants {
		p.tenants[i].shut = p.tenants[i].wait.Len() == 0
	}
	p.idle = -1
	for plan.Free() > 0 {
		next, least := -1, math.Inf(1)
		for i := range p.tenants {
			t := &p.tenants[i]
			if over := float64(max(0, p.s.TenantHeld(i)-t.quota)) / t.weight; !t.shut && over < least {
				next, least = i, over
			}
		}
		if next < 0 {
			return
		}
		p.borrowOne(plan, next)
	}
}

// borrowOne starts one job of a tenant, or shuts the tenant out.
func (p *policy) borrowOne(plan *simulator.Plan, tenant int) {
	t := &p.tenants[tenant]
	held := p.s.TenantHeld(tenant)
	if p.idle < 0 {
		p.idle = 0
		for i := range p.tenants {
			p.idle += p.leaves(i)
		}
	}
	left := p.s.SharedGPUs() + p.idle - p.leaves(tenant) - p.s.BeyondQuota()
	t.wait.Walk()
	for {
		limit := math.MaxInt
		if p.backfill {
			limit = plan.Free()
		}
		e, g, in, ok := t.wait.Next(limit)
		if !ok {
			break
		}
		beyond := int(t.limit.Beyond(int64(held), int64(g)))
		free := p.s.Quota() == simulator.QuotaBorrow && !t.limit.Allows(0, int64(g))
		if (beyond == 0 || beyond <= left || free) && plan.Start(e.ID) {
			t.wait.Take(in)
			p.runs(e.ID)
			p.idle = -1
			return
		}
		if t.wait.Close(in); !p.backfill {
			break
		}
	}
	t.shut = true
}
