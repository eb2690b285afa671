package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/autosched/autosched/internal/stats"
)

// Measure evaluates one method with the first seed.
func (e *Evaluation) Measure(ctx context.Context, method string) (*Method, error) {
	base, err := e.base(ctx)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	m, err := e.run(ctx, method)
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", method, err)
	}
	m.compare(base, e.Options.baseline())
	return m, nil
}

// compare fills in what an outcome is relative to the baseline's.
func (m *Method) compare(base *Outcome, name string) {
	m.Ratio = base.AvgJCT / m.AvgJCT
	if m.Method != name {
		m.Guards = guardsAgainst(base, &m.Outcome)
	}
}

// Run evaluates the methods one after the other, and those that draw once for each seed.
func Run(ctx context.Context, o Options) (*Report, error) {
	first, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	o.Methods = first.Options.Methods
	if o.Progress != nil {
		var mu sync.Mutex
		report := o.Progress
		o.Progress = func(s Step) {
			mu.Lock()
			defer mu.Unlock()
			report(s)
		}
	}
	// A seed has an evaluation of its own, so that none finds measurements of another in
	// its cache: what methods report does not depend on the order.
	base, err := first.base(ctx)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	r := first.report()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outcomes := make([][]*Method, max(1, o.Seeds))
	slots := make(chan struct{}, cmp.Or(o.Workers, runtime.GOMAXPROCS(0)))
	var done sync.WaitGroup
	for i := range outcomes {
		r.Seeds = append(r.Seeds, o.Seed+uint64(i))
		done.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var err error
			if outcomes[i], err = runSeed(ctx, o, i, base); err != nil {
				cancel(err)
			}
		})
	}
	done.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for k := range o.Methods {
		var seeds []*Method
		for i := range outcomes {
			if outcomes[i][k] != nil {
				seeds = append(seeds, outcomes[i][k])
			}
		}
		r.Methods = append(r.Methods, *meanOf(seeds, base, o.baseline()))
	}
	return r, nil
}

// runSeed evaluates the methods for one seed. Those that draw nothing are left nil but
// for the first.
func runSeed(ctx context.Context, o Options, i int, base *Outcome) ([]*Method, error) {
	o.Seed += uint64(i)
	e, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	e.baseline = base
	out := make([]*Method, len(o.Methods))
	for k, name := range o.Methods {
		if i > 0 && !Draws(name) {
			continue
		}
		if out[k], err = e.Measure(ctx, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// meanOf condenses the outcomes of a method's seeds.
func meanOf(seeds []*Method, base *Outcome, baseline string) *Method {
	if len(seeds) == 1 {
		return seeds[0]
	}
	out := *seeds[0]
	mean := func(of func(*Outcome) float64) float64 {
		v := make([]float64, len(seeds))
		for i := range v {
			v[i] = of(&seeds[i].Outcome)
		}
		return stats.Mean(v)
	}
	whole := func(of func(*Outcome) int) int {
		return int(math.Round(mean(func(o *Outcome) float64 { return float64(of(o)) })))
	}
	out.AvgJCT = mean(func(o *Outcome) float64 { return o.AvgJCT })
	out.P50JCT = mean(func(o *Outcome) float64 { return o.P50JCT })
	out.P95JCT = mean(func(o *Outcome) float64 { return o.P95JCT })
	out.P99JCT = mean(func(o *Outcome) float64 { return o.P99JCT })
	out.AvgQueue = mean(func(o *Outcome) float64 { return o.AvgQueue })
	out.ShortJCT = mean(func(o *Outcome) float64 { return o.ShortJCT })
	out.Utilization = mean(func(o *Outcome) float64 { return o.Utilization })
	out.FTFLe1 = mean(func(o *Outcome) float64 { return o.FTFLe1 })
	out.P95Rho = mean(func(o *Outcome) float64 { return o.P95Rho })
	out.MaxRho = mean(func(o *Outcome) float64 { return o.MaxRho })
	out.TuningPerRound = mean(func(o *Outcome) float64 { return o.TuningPerRound })
	out.Preemptions = whole(func(o *Outcome) int { return o.Preemptions })
	out.Rounds = whole(func(o *Outcome) int { return o.Rounds })
	out.Urgent = whole(func(o *Outcome) int { return o.Urgent })
	out.Changes = whole(func(o *Outcome) int { return o.Changes })
	out.Rollbacks = whole(func(o *Outcome) int { return o.Rollbacks })
	out.Evaluations = whole(func(o *Outcome) int { return o.Evaluations })
	out.TenantQueue = map[string]float64{}
	for t := range seeds[0].TenantQueue {
		out.TenantQueue[t] = mean(func(o *Outcome) float64 { return o.TenantQueue[t] })
	}
	if h := out.Hindsight; h != nil {
		out.Hindsight = &Hindsight{Guarded: h.Guarded,
			RobustJCT:        mean(func(o *Outcome) float64 { return o.Hindsight.RobustJCT }),
			GuardedJCT:       mean(func(o *Outcome) float64 { return o.Hindsight.GuardedJCT }),
			GuardedRobustJCT: mean(func(o *Outcome) float64 { return o.Hindsight.GuardedRobustJCT })}
	}
	out.JCTs = slices.Clone(out.JCTs)
	for j := range out.JCTs {
		out.JCTs[j] = mean(func(o *Outcome) float64 { return o.JCTs[j] })
	}
	out.Seeds = make([]Outcome, len(seeds))
	least, most := math.Inf(1), 0.
	for i := range seeds {
		out.Seeds[i] = seeds[i].Outcome
		least, most = min(least, seeds[i].AvgJCT), max(most, seeds[i].AvgJCT)
	}
	out.Spread = most/least - 1
	out.compare(base, baseline)
	return &out
}
