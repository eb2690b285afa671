package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
)

// guardFactor is how many times the baseline's a guarded metric may be.
var guardFactor = 1 + round.DefaultSettings().Guard

// Guards compare the metrics of single tenants, short jobs and the longest JCTs under a method
// with the baseline: the losers of a gain of the average. Ratios are the method's value
// over the baseline's, 1 if nothing is compared.
type Guards struct {
	// Tenant has the p95 queueing delay furthest above its bound.
	Tenant      string  `json:"tenant,omitempty"`
	TenantRatio float64 `json:"tenant_p95_queue_ratio"`
	ShortRatio  float64 `json:"short_avg_jct_ratio"`
	P99Ratio    float64 `json:"p99_jct_ratio"`
	// Broken names each guard that is broken with its values; empty if all are kept.
	Broken []string `json:"broken,omitempty"`
}

// guardsAgainst compares a method's outcome with the baseline's.
func guardsAgainst(base, m *Outcome) *Guards {
	g := &Guards{TenantRatio: 1, ShortRatio: 1, P99Ratio: 1}
	check := func(what string, was, is, slack float64) (ratio, excess float64) {
		if excess = is - guardFactor*was - slack; excess > 0 {
			g.Broken = append(g.Broken, fmt.Sprintf("%s %s, was %s", what, units.Duration(is), units.Duration(was)))
		}
		if is == was {
			return 1, excess
		}
		return finite(is / was), excess
	}
	most := 0.
	for i, t := range slices.Sorted(maps.Keys(base.TenantQueue)) {
		ratio, excess := check("p95 queueing delay of tenant "+t, base.TenantQueue[t], m.TenantQueue[t],
			round.GuardSlack)
		if i == 0 || excess > most {
			g.Tenant, g.TenantRatio, most = t, ratio, excess
		}
	}
	g.ShortRatio, _ = check("average JCT of short jobs", base.ShortJCT, m.ShortJCT, round.GuardSlack)
	g.P99Ratio, _ = check("p99 JCT", base.P99JCT, m.P99JCT, 0)
	return g
}

// GuardedJob has the fields of a job that guards compare.
type GuardedJob struct {
	Tenant         string
	Run, Wait, JCT time.Duration
}

// GuardJobs compares jobs under a configuration with the same jobs under the baseline.
func GuardJobs(base, jobs []GuardedJob) *Guards {
	var was, is Outcome
	was.guard(base)
	is.guard(jobs)
	return guardsAgainst(&was, &is)
}

// guard fills in the metrics that guards compare.
func (out *Outcome) guard(jobs []GuardedJob) {
	queues := map[string][]float64{}
	var short, all []float64
	for i := range jobs {
		j := &jobs[i]
		queues[j.Tenant] = append(queues[j.Tenant], j.Wait.Seconds())
		all = append(all, j.JCT.Seconds())
		if j.Run < round.ShortRun {
			short = append(short, j.JCT.Seconds())
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		out.P99JCT = stats.Quantile(all, .99)
	}
	if len(short) > 0 {
		out.ShortJCT = stats.Mean(short)
	}
	out.TenantQueue = map[string]float64{}
	for t, v := range queues {
		if len(v) >= round.LeastOfTenant {
			slices.Sort(v)
			out.TenantQueue[t] = stats.Quantile(v, .95)
		}
	}
}

// base is the outcome of the baseline, simulated once.
func (e *Evaluation) base(ctx context.Context) (*Outcome, error) {
	e.baseMu.Lock()
	defer e.baseMu.Unlock()
	if e.baseline == nil {
		m := &Outcome{}
		if _, err := e.replay(ctx, &method{}, m, e.current()); err != nil {
			return nil, err
		}
		e.baseline = m
	}
	return e.baseline, nil
}
