package simulator

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Quota is the meaning of a tenant's virtual cluster.
type Quota uint8

const (
	// QuotaOff makes the cluster one pool for all. The default.
	QuotaOff Quota = iota
	// QuotaStrict lets a tenant hold its quota, and GPUs that are in no quota
	// beyond it.
	QuotaStrict
	// QuotaBorrow lets a tenant hold anything that is free.
	QuotaBorrow
)

// ErrQuota is wrapped by the error of a run with a job that its tenant's quota
// can never hold.
var ErrQuota = errors.New("more GPUs than its tenant may ever hold")

// tenant is a tenant of a run, with its virtual cluster. One that has none has
// a quota of zero GPUs.
type tenant struct {
	name   string
	gpus   int     // quota
	weight float64 // as declared, 0 if it is not
	held   int
	// The following fields are kept with Options.PerTenant only.
	active, waiting int // jobs
	stopped         int // preemptions
	usage           usage
	sums            tenantSums // with Options.Series
}

// initTenants finds each job's tenant and each tenant's quota.
func (s *Sim) initTenants() error {
	s.tenants, s.common, s.shared = s.tenants[:0], 0, s.gpus
	s.tenantsOf = s.tenantsOf[:0]
	if s.opts.Quota == QuotaOff && !s.opts.PerTenant {
		return nil
	}
	if s.opts.Quota != QuotaOff && len(s.cluster.VCs) == 0 {
		return fmt.Errorf("simulate: quotas are on and the cluster has no virtual clusters")
	}
	if s.tenantOf == nil {
		s.tenantOf = map[string]int32{}
	}
	clear(s.tenantOf)
	for _, v := range s.cluster.VCs {
		switch _, twice := s.tenantOf[v.Tenant]; {
		case v.GPUs < 0:
			return fmt.Errorf("simulate: virtual cluster %q: a quota of %d GPUs is negative", v.Tenant, v.GPUs)
		case !(v.Weight >= 0 && v.Weight <= math.MaxFloat64):
			return fmt.Errorf("simulate: virtual cluster %q: weight %g is not a positive number", v.Tenant, v.Weight)
		case twice:
			return fmt.Errorf("simulate: virtual cluster %q is named twice", v.Tenant)
		}
		t := s.tenant(v.Tenant)
		s.tenants[t].gpus, s.tenants[t].weight = v.GPUs, v.Weight
		s.shared -= v.GPUs
	}
	if s.shared < 0 {
		return fmt.Errorf("simulate: the virtual clusters' quotas add up to %d GPUs and the cluster has %d",
			s.gpus-s.shared, s.gpus)
	}
	for i := range s.total {
		spec := s.Spec(ID(i))
		t := s.tenant(spec.Tenant)
		s.tenantsOf = append(s.tenantsOf, t)
		if most := s.shared + s.tenants[t].gpus; s.opts.Quota == QuotaStrict && spec.GPUs.Whole() > most {
			return fmt.Errorf(
				"simulate: job %q asks for %d GPUs, %w: %q may hold %d; raise its quota or leave the job out",
				spec.ID, spec.GPUs.Whole(), ErrQuota, spec.Tenant, most)
		}
	}
	return nil
}

// tenant is the index of a tenant, added if it is new.
func (s *Sim) tenant(name string) int32 {
	if t, ok := s.tenantOf[name]; ok {
		return t
	}
	n := len(s.tenants)
	if n == cap(s.tenants) {
		s.tenants = append(s.tenants, tenant{})
	}
	s.tenants = s.tenants[:n+1]
	hours := s.tenants[n].usage.hours[:0]
	s.tenants[n] = tenant{name: name, usage: usage{hours: hours, mark: s.now}, sums: tenantSums{mark: s.now}}
	s.tenantOf[name] = int32(n)
	return int32(n)
}

// copyFrom copies a tenant into this one's memory.
func (t *tenant) copyFrom(src *tenant) {
	hours := t.usage.hours
	*t = *src
	t.usage.hours = append(hours[:0], src.usage.hours...)
}

// beyond is how many of g more GPUs a tenant that holds some would hold beyond
// its quota.
func beyond(quota, held, g int) int { return max(0, held+g-max(quota, held)) }

// allows reports whether the quotas let a job have g more GPUs.
func (v *View) allows(j *job, g int) bool { return v.tenantMay(j.tenant, g) }

func (v *View) tenantMay(tenant int32, g int) bool {
	if v.opts.Quota != QuotaStrict {
		return true
	}
	t := &v.tenants[tenant]
	b := beyond(t.gpus, t.held, g)
	return b == 0 || v.common+b <= v.shared
}

// charge counts a job's GPUs as held by its tenant. GPUs that two jobs share
// are held by both.
func (s *Sim) charge(j *job) {
	if j.tenant < 0 {
		return
	}
	t := &s.tenants[j.tenant]
	s.accrue(t)
	s.common += beyond(t.gpus, t.held, int(j.held))
	t.held += int(j.held)
}

func (s *Sim) discharge(j *job) {
	if j.tenant < 0 {
		return
	}
	t := &s.tenants[j.tenant]
	s.accrue(t)
	t.held -= int(j.held)
	s.common -= beyond(t.gpus, t.held, int(j.held))
}

// Queries of policies about quotas. With QuotaOff there is one tenant, which
// has the whole cluster. Quotas do not change with the nodes that are up.

// Quota says whether the virtual clusters bind.
func (v *View) Quota() Quota { return v.opts.Quota }

// Tenants is the number of tenants of the run.
func (v *View) Tenants() int {
	if v.opts.Quota == QuotaOff {
		return 1
	}
	return len(v.tenants)
}

// JobTenant is the job's tenant, an index below Tenants.
func (v *View) JobTenant(id ID) int {
	if v.opts.Quota == QuotaOff {
		return 0
	}
	return int(v.jobs[id].tenant)
}

// TenantQuota is the number of GPUs of a tenant's virtual cluster, 0 if it has
// none.
func (v *View) TenantQuota(tenant int) int {
	if v.opts.Quota == QuotaOff {
		return v.gpus
	}
	return v.tenants[tenant].gpus
}

// TenantHeld is the number of GPUs that a tenant's jobs run on.
func (v *View) TenantHeld(tenant int) int {
	if v.opts.Quota == QuotaOff {
		return v.place.usable - v.place.idle
	}
	return v.tenants[tenant].held
}

// TenantRoom is the number of GPUs that a tenant may hold beyond its present ones,
// free or not.
func (v *View) TenantRoom(tenant int) int {
	if v.opts.Quota != QuotaStrict {
		return v.place.idle
	}
	t := &v.tenants[tenant]
	return max(0, t.gpus-t.held) + max(0, v.shared-v.common)
}

// TenantWeight is the weight that a tenant's virtual cluster declares, 0 if it
// declares none.
func (v *View) TenantWeight(tenant int) float64 {
	if v.opts.Quota == QuotaOff {
		return 0
	}
	return v.tenants[tenant].weight
}

// SharedGPUs is the number of GPUs that are in no quota.
func (v *View) SharedGPUs() int {
	if v.opts.Quota == QuotaOff {
		return 0
	}
	return v.shared
}

// BeyondQuota is the number of GPUs that tenants hold beyond their quotas.
func (v *View) BeyondQuota() int {
	if v.opts.Quota == QuotaOff {
		return 0
	}
	return v.common
}

// QuotaAllows reports whether the quotas let a waiting job start now.
func (v *View) QuotaAllows(id ID) bool { return v.allows(&v.jobs[id], int(v.jobs[id].gpus)) }

// Room is the remainder that a walk over jobs in order of priority can give: the
// cluster's GPUs and, where quotas are strict, each tenant's.
type Room struct {
	v      *View
	left   int
	common int
	held   []int
}

// Room begins a walk with all GPUs of the cluster. There is one walk at a time.
func (v *View) Room() *Room {
	r := &v.room
	r.v, r.left, r.common = v, v.place.usable, 0
	if v.opts.Quota == QuotaStrict {
		r.held = resized(r.held, len(v.tenants))
		clear(r.held)
	}
	return r
}

// Left is the number of GPUs not given yet.
func (r *Room) Left() int { return r.left }

// Take gives a job the GPUs it asks for, if there are enough left of the
// cluster's and of its tenant's.
func (r *Room) Take(id ID) bool { return r.Give(id, int(r.v.jobs[id].gpus)) }

// Give gives a job a number of GPUs, likewise.
func (r *Room) Give(id ID, gpus int) bool {
	if gpus > r.left {
		return false
	}
	if r.v.opts.Quota == QuotaStrict {
		j := &r.v.jobs[id]
		if b := beyond(r.v.tenants[j.tenant].gpus, r.held[j.tenant], gpus); b > 0 && r.common+b > r.v.shared {
			return false
		}
	}
	r.keep(id, gpus)
	return true
}

// Keep lets a running job keep a number of GPUs, whether there is room or not. Of two
// jobs that share GPUs, the second takes none of the cluster's.
func (r *Room) Keep(id ID, gpus int) {
	r.keep(id, gpus)
	if partner := r.v.jobs[id].partner; partner >= 0 && ID(partner) < id {
		r.left += gpus
	}
}

func (r *Room) keep(id ID, gpus int) {
	if r.v.opts.Quota == QuotaStrict {
		j := &r.v.jobs[id]
		r.common += beyond(r.v.tenants[j.tenant].gpus, r.held[j.tenant], gpus)
		r.held[j.tenant] += gpus
	}
	r.left -= gpus
}

// usage is a tenant's demand and holding over time.
type usage struct {
	asked  int // GPUs that its waiting jobs ask for
	mark   time.Duration
	held   float64     // GPU-seconds
	arrive float64     // GPU-seconds until the last submission
	hours  []usageHour // hours with demand or holding
}

// usageHour is an hour of the workload's clock.
type usageHour struct {
	hour        int64
	held, asked float64 // GPU-seconds; held counts as asked, too
}

// accrue adds up a tenant's holding and demand since the last time.
func (s *Sim) accrue(t *tenant) {
	u := &t.usage
	if s.opts.Series != nil && s.opts.Series.EmitTenant != nil {
		s.opts.Series.tally(t, s.now)
	}
	if !s.opts.PerTenant || u.mark == s.now {
		return
	}
	if t.held == 0 && u.asked == 0 || s.warms(s.now) {
		u.mark = s.now
		return
	}
	if s.opts.CountFrom != 0 {
		u.mark = max(u.mark, s.opts.CountFrom)
	}
	for u.mark < s.now {
		hour := floorDiv(int64(u.mark), int64(time.Hour))
		to := min(s.now, time.Duration(hour+1)*time.Hour)
		dt := (to - u.mark).Seconds()
		if n := len(u.hours); n == 0 || u.hours[n-1].hour != hour {
			u.hours = append(u.hours, usageHour{hour: hour})
		}
		h := &u.hours[len(u.hours)-1]
		held := float64(t.held) * dt
		h.held += held
		h.asked += held + float64(u.asked)*dt
		u.held += held
		u.mark = to
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
