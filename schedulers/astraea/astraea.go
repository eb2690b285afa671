// Package astraea is Astraea (Ye et al., TPDS 2021): long-term fairness of
// GPU-time between tenants and between jobs. In each lease term the jobs run that
// received the smallest share of the GPU-time they deserved since submission;
// tenants are compared in the same way.
//
// A job deserves an equal share of the cluster since its submission, or its GPUs
// if that is less. A tenant's account is that of its active jobs: ended jobs, and
// the paper's sliding history, are left out, because a controller that observes
// the cluster does not see them. Shares are discretised into queues, in which
// running jobs come before waiting ones, so that small differences preempt no job.
// The paper's planning of leases over future slots is left out; terms begin at
// the same instants for all jobs.
package astraea

import (
	"math"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Astraea's parameters: the two of AutoSched's Table 1 and the weight of
// the tenant's share.
func Space() []space.Param {
	return []space.Param{
		{ID: "lease_term", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 14400, Log: true, Unit: "s",
			Default:     space.Num(1200),
			Description: "time between decisions on which jobs run; a started job keeps its GPUs for as much progress"},
		{ID: "queues", Module: "scheduling", Kind: space.KindInt, Min: 1, Max: 20, Default: space.Int(5),
			Description: "number of queues into which the shares received (0 to 1) are sorted"},
		{ID: "tenant_weight", Module: "scheduling", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(0.5),
			Description: "how much the share its tenant received counts for a job, against its own"},
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return rounds.New(c.Get("lease_term").Duration(),
		&ranker{queues: c.Get("queues").Float(), weight: c.Get("tenant_weight").Float()})
}

type ranker struct {
	queues float64
	weight float64

	s       *simulator.View
	service *rounds.Service
	names   map[string]int32 // of tenants: one more than their index
	tenant  []int32          // by job: one more than its index, 0 if not known yet
	account []account        // by tenant
	equal   float64          // GPUs of an equal share
}

// account is GPU-seconds received and deserved, and the seconds since the oldest
// active job was submitted.
type account struct{ received, deserved, age float64 }

func (a account) share() float64 {
	if a.deserved <= 0 {
		return 0
	}
	return a.received / a.deserved
}

func (r *ranker) Begin(s *simulator.View, received *rounds.Service) {
	r.s, r.service = s, received
	if r.names == nil {
		r.names = map[string]int32{}
	}
	clear(r.names)
	r.tenant = r.tenant[:0]
}

// tenantOf is the index of a job's tenant.
func (r *ranker) tenantOf(j simulator.ID) int32 {
	r.tenant = lanes.Grow(r.tenant, j)
	if r.tenant[j] == 0 {
		name := r.s.JobTenantName(j)
		if r.names[name] == 0 {
			r.names[name] = int32(len(r.names) + 1)
		}
		r.tenant[j] = r.names[name]
	}
	return r.tenant[j] - 1
}

func (r *ranker) Prepare(active *lanes.List) {
	gpus := float64(r.s.TotalGPUs())
	r.equal = gpus / float64(active.Len())
	r.account = r.account[:0]
	tenants := 0
	for i := range active.Len() {
		j := active.At(i).ID
		t := int(r.tenantOf(j))
		for t >= len(r.account) {
			r.account = append(r.account, account{})
		}
		a := &r.account[t]
		age := r.age(j)
		if a.age == 0 {
			tenants++
			a.age = max(age, 1) // jobs are in order of submission
		}
		a.received += r.service.Attained(j).Seconds()
		a.deserved += float64(r.s.JobGPUs(j)) * age
	}
	for t := range r.account {
		a := &r.account[t]
		a.deserved = min(a.deserved, gpus/float64(tenants)*a.age)
	}
}

func (r *ranker) age(j simulator.ID) float64 { return (r.s.Now() - r.s.JobSubmit(j)).Seconds() }

// own returns a job's account.
func (r *ranker) own(j simulator.ID) account {
	return account{received: r.service.Attained(j).Seconds(),
		deserved: min(float64(r.s.JobGPUs(j)), r.equal) * r.age(j)}
}

// Rank returns the queue; within it, running jobs come before waiting ones.
func (r *ranker) Rank(j simulator.ID) float64 {
	share := r.weight*r.account[r.tenantOf(j)].share() + (1-r.weight)*r.own(j).share()
	queue := min(math.Floor(share*r.queues), r.queues-1)
	if !r.s.JobRunning(j) {
		queue += .5
	}
	return queue
}

func (r *ranker) Line(j simulator.ID) int64 {
	return int64(r.service.Received(j))
}
