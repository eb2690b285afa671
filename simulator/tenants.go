package simulator

import (
	"cmp"
	"slices"
	"time"
)

// TenantReport sums up a tenant's jobs. Spans are in seconds.
type TenantReport struct {
	Tenant string  `json:"tenant"`
	Quota  int     `json:"quota_gpus"`
	Weight float64 `json:"weight"`
	// Objectives are of the tenant's jobs that have ended.
	Objectives
	// Delays are why its jobs have waited, with Options.Attribute.
	Delays []Delay `json:"queue_causes,omitempty"`
	// GPUHours were held, restarts included; Share is their share of all
	// tenants'.
	GPUHours float64 `json:"gpu_hours"`
	Share    float64 `json:"share"`
	// QuotaUtilization is the GPU-time held over the quota's, from the run's
	// begin to the last submission. Borrowing brings it above 1. It is 0 without
	// a quota.
	QuotaUtilization float64 `json:"quota_utilization"`
	// Hours of the workload's clock in which the tenant asked for GPUs, and the hours
	// among them in which it held its fair part.
	Hours     int `json:"hours"`
	FairHours int `json:"fair_hours"`
}

// fairWithin is how far from its target a tenant may be in a fair hour, as a
// share of the target.
const fairWithin = .05

// TenantReports describes the tenants in order of name, and how well GPUs were
// divided between them: compliance is the share of all pairs of a tenant and an
// hour in which it asked for GPUs where the GPU-time it held is within 5 % of
// its target. They are kept with Options.PerTenant.
//
// A tenant's target is the weighted max-min fair part of the cluster's GPU-time
// in that hour: no tenant gets more than its demand (its holding and the demand of its
// waiting jobs), and the rest is divided by weight between tenants
// with more demand. The weight is the declared one of the virtual cluster, else its
// quota; without any virtual cluster all weigh the same, and beside virtual
// clusters a tenant of weight zero gets the rest.
func (s *Sim) TenantReports() (reports []TenantReport, compliance float64) {
	if !s.opts.PerTenant {
		return nil, 0
	}
	weights := make([]float64, len(s.tenants))
	reports = make([]TenantReport, len(s.tenants))
	all := 0.0
	for i := range s.tenants {
		t := &s.tenants[i]
		s.accrue(t)
		all += t.usage.held
		weights[i] = s.weightOf(t)
		reports[i] = TenantReport{Tenant: t.name, Quota: t.gpus, Weight: weights[i], GPUHours: t.usage.held / 3600}
		if m := &s.metrics; t.gpus > 0 && m.arrive > 0 {
			reports[i].QuotaUtilization = t.usage.arrive / (float64(t.gpus) * m.arrive)
		}
	}
	objectives := s.describe(len(reports), func(j *job) int { return int(j.tenant) })
	for i := range reports {
		r := &reports[i]
		if all > 0 {
			r.Share = s.tenants[i].usage.held / all
		}
		r.Objectives = objectives[i]
	}
	if s.opts.Attribute {
		s.attributeDelays(reports)
	}
	s.auditFairness(reports, weights)
	hours, fair := 0, 0
	for i := range reports {
		hours += reports[i].Hours
		fair += reports[i].FairHours
	}
	if hours > 0 {
		compliance = float64(fair) / float64(hours)
	}
	slices.SortFunc(reports, func(a, b TenantReport) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return reports, compliance
}

// attributeDelays says why each tenant's jobs have waited.
func (s *Sim) attributeDelays(reports []TenantReport) {
	jobs, sums := make([]int, len(reports)), make([][causes]jobTime, len(reports))
	for i := range s.jobs {
		if s.counts(ID(i)) {
			jobs[s.jobs[i].tenant]++
		}
	}
	for i := range s.kinds.list {
		t := s.kinds.list[i].key.tenant
		sums[t] = plus(sums[t], s.kinds.list[i].delays)
	}
	for i := range reports {
		reports[i].Delays = delaysOf(sums[i], jobs[i])
	}
}

func (s *Sim) weightOf(t *tenant) float64 {
	switch {
	case len(s.cluster.VCs) == 0:
		return 1
	case t.weight > 0:
		return t.weight
	}
	return float64(t.gpus)
}

// auditFairness counts each tenant's hours, and the fair ones.
func (s *Sim) auditFairness(reports []TenantReport, weights []float64) {
	next := make([]int, len(s.tenants)) // each tenant's hours not counted yet
	var who []int
	var asked, weight, target []float64
	for {
		hour, found := int64(0), false
		for i := range s.tenants {
			if h := s.tenants[i].usage.hours; next[i] < len(h) && (!found || h[next[i]].hour < hour) {
				hour, found = h[next[i]].hour, true
			}
		}
		if !found {
			return
		}
		who, asked, weight = who[:0], asked[:0], weight[:0]
		for i := range s.tenants {
			if h := s.tenants[i].usage.hours; next[i] < len(h) && h[next[i]].hour == hour {
				who, asked, weight = append(who, i), append(asked, h[next[i]].asked), append(weight, weights[i])
			}
		}
		from := max(s.began, time.Duration(hour)*time.Hour)
		to := min(s.now, time.Duration(hour+1)*time.Hour)
		target = maxMin(target[:0], float64(s.gpus)*(to-from).Seconds(), asked, weight)
		for k, i := range who {
			held := s.tenants[i].usage.hours[next[i]].held
			next[i]++
			reports[i].Hours++
			if off := held - target[k]; max(off, -off) <= fairWithin*target[k] {
				reports[i].FairHours++
			}
		}
	}
}

// maxMin appends the weighted max-min fair division of an amount: by weight, to
// none more than asked. Tenants of weight zero divide the rest evenly.
func maxMin(dst []float64, amount float64, asked, weight []float64) []float64 {
	start := len(dst)
	for range asked {
		dst = append(dst, 0)
	}
	out := dst[start:]
	var order []int
	var rest []float64 // weight of the tenants from here on
	for _, weighty := range []bool{true, false} {
		w := func(i int) float64 {
			if weighty {
				return weight[i]
			}
			return 1
		}
		order = order[:0]
		for i := range asked {
			if weighty == (weight[i] > 0) {
				order = append(order, i)
			}
		}
		// The least demand by weight is served first.
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(asked[a]/w(a), asked[b]/w(b)) })
		rest = resized(rest, len(order))
		sum := 0.0
		for k := len(order) - 1; k >= 0; k-- {
			sum += w(order[k])
			rest[k] = sum
		}
		for k, i := range order {
			out[i] = min(asked[i], amount*(w(i)/rest[k]))
			amount -= out[i]
		}
	}
	return dst
}
