// Package samplers measures samplers on functions whose optimum is known. The
// figure is simple regret: the true cost of the configuration that a study returns,
// minus that of the best one. With noise, a study may return another configuration
// than the one with the lowest measurement.
package samplers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/autosched/autosched/lab/objectives"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// Figures summarise the regrets of several seeds.
type Figures struct {
	Objective string    `json:"objective"`
	Sampler   string    `json:"sampler"`
	Budget    int       `json:"budget"`
	Seeds     int       `json:"seeds"`
	Mean      float64   `json:"regret_mean"`
	Std       float64   `json:"regret_std"` // of the population, as published
	Median    float64   `json:"regret_median"`
	Regrets   []float64 `json:"regrets,omitempty"` // by seed
	// Choice is an Explainer's choice with its reason.
	Choice string `json:"choice,omitempty"`
}

// errFails is the error of a failing configuration.
var errFails = errors.New("the configuration fails")

// Regret runs one study of an objective and returns the regret of its configuration,
// and the choice of an Explainer.
func Regret(ctx context.Context, o *objectives.Objective, sampler string, budget int, seed uint64) (regret float64,
	choice string, err error) {
	r, err := search.Tune(ctx, search.Options{
		Space: o.Space(), Method: sampler, Budget: budget, Seed: seed, Workers: 1,
		Evaluate: func(_ context.Context, c space.Config) (search.Measurement, error) {
			v := o.Measure(c, seed)
			if math.IsInf(v, 0) {
				return search.Measurement{}, errFails
			}
			return search.Measurement{Values: []float64{v}}, nil
		},
	})
	if err != nil {
		return 0, "", err
	}
	if r.Stopped == search.StoppedCancelled {
		return 0, "", ctx.Err()
	}
	return o.Regret(r.Trials[r.Best].Config), r.Choice, nil
}

// Run measures a sampler on an objective with seeds 1 to seeds. The figures do not
// depend on the number of workers.
func Run(ctx context.Context, o *objectives.Objective, sampler string, budget, seeds, workers int) (Figures, error) {
	f := Figures{Objective: o.Name, Sampler: sampler, Budget: budget, Seeds: seeds, Regrets: make([]float64, seeds)}
	errs, choices := make([]error, seeds), make([]string, seeds)
	var wg sync.WaitGroup
	free := make(chan struct{}, max(workers, 1))
	for i := range seeds {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				f.Regrets[i], choices[i], errs[i] = Regret(ctx, o, sampler, budget, uint64(i)+1)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return f, fmt.Errorf("samplers: %s on %s, seed %d: %w", sampler, o.Name, i+1, err)
		}
	}
	f.summarise()
	if seeds > 0 {
		f.Choice = choices[0] // independent of the seed
	}
	return f, nil
}

func (f *Figures) summarise() {
	n := len(f.Regrets)
	if n == 0 {
		return
	}
	for _, r := range f.Regrets {
		f.Mean += r / float64(n)
	}
	var squares float64
	for _, r := range f.Regrets {
		squares += (r - f.Mean) * (r - f.Mean) / float64(n)
	}
	f.Std = math.Sqrt(squares)
	sorted := slices.Sorted(slices.Values(f.Regrets))
	f.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// StandardError returns the standard error of the mean.
func (f *Figures) StandardError() float64 {
	if f.Seeds < 2 {
		return 0
	}
	return f.Std / math.Sqrt(float64(f.Seeds-1))
}
