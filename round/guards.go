package round

import (
	"context"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// guarded are the metrics that show what a gain makes worse, with the least difference that
// counts, in seconds. A configuration is not adopted if it makes one of them worse by
// more than Settings.Guard.
var guarded = []Constraint{
	{Metric: "tenant_p95_queue", Slack: GuardSlack},
	{Metric: "short_avg_jct", Slack: GuardSlack},
	{Metric: "p99_jct"},
}

// GuardSlack is the difference, in seconds, that counts for nothing where delays and
// short jobs are guarded. LeastOfTenant is the mean number of a tenant's jobs in a future
// from which the tenant is guarded: a p95 of fewer is one job's.
const (
	GuardSlack    = 60.
	LeastOfTenant = 20
)

// guards measures the guarded metrics of configurations against the incumbent's.
type guards struct {
	scorer *Scorer
	jobs   map[string]float64 // mean number of a tenant's jobs
}

// newGuards returns nil if nothing is guarded.
func (r *Round) newGuards(ctx context.Context, scenarios []Scenario) (*guards, error) {
	if r.Guard < 0 || r.Ablation.NoGuards {
		return nil, nil
	}
	p := r.Problem
	p.Goal = Minimise(Objectives[0])
	return p.guards(ctx, r.Guard, scenarios)
}

// guards adds what is guarded to the constraints of the goal.
func (p Problem) guards(ctx context.Context, share float64, scenarios []Scenario) (*guards, error) {
	p.Goal.Constraints = slices.Clone(p.Goal.Constraints)
	for _, c := range guarded {
		if c.Factor = 1 + share; share >= 0 {
			p.Goal.Constraints = append(p.Goal.Constraints, c)
		}
	}
	s, err := scorerOf(ctx, &p, scenarios)
	if err != nil {
		return nil, err
	}
	g := &guards{scorer: s, jobs: map[string]float64{}}
	for i := range s.scenarios {
		x := &s.scenarios[i]
		if x.State != nil {
			for k := range x.State.Jobs {
				g.jobs[x.State.Jobs[k].Tenant] += 1 / float64(len(s.scenarios))
			}
		}
		if x.Arrivals != nil {
			for k := range x.Arrivals.Jobs() {
				g.jobs[x.Arrivals.Jobs()[k].Tenant] += 1 / float64(len(s.scenarios))
			}
		}
	}
	return g, nil
}

// broken says which guard a configuration breaks, "" for none.
func (g *guards) broken(ctx context.Context, c space.Config) (string, error) {
	if g == nil {
		return "", nil
	}
	m, err := g.scorer.Measure(ctx, c)
	if err != nil || m.Exhausted {
		return "", err
	}
	if all := g.exceeded(&m); len(all) > 0 {
		return all[0], nil
	}
	return "", nil
}

// exceeded describes the limits that a measurement is beyond.
func (g *guards) exceeded(m *search.Measurement) (out []string) {
	for i := range m.Limits {
		l := &m.Limits[i]
		tenant := l.Of
		if tenant == noTenant {
			tenant = ""
		}
		if l.Of != "" && g.jobs[tenant] < LeastOfTenant {
			continue
		}
		if l.Excess() > 0 {
			out = append(out, describeLimit(l))
		}
	}
	return out
}
