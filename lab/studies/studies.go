// Package studies compares studies with and without a causal model.
package studies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/lab/portfolio"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// Options configure Compare.
type Options struct {
	// Trials is the budget of each study, Reference that of the one whose best is to be found.
	Trials, Reference int
	// Seeds is the number of studies with and of studies without the causal model.
	Seeds int
	// Algorithms are the samplers to compare.
	Algorithms []string
	// Took is how long a measurement takes, on the clock of the studies.
	Took time.Duration
	// Progress is called after every study.
	Progress func(done, of int)
}

// Within is how close to the reference a trial has to be: at most 1 % worse.
const Within = 1.01

// Comparison says how soon studies with and without the causal model find the best of a
// long study.
type Comparison struct {
	Window     string `json:"window,omitempty"`
	Scheduler  string `json:"scheduler"`
	Parameters int    `json:"parameters"`
	// Average JCTs over the window, in seconds: of the default and of the best of the reference.
	DefaultJCT   float64 `json:"default_jct_s"`
	ReferenceJCT float64 `json:"reference_jct_s"`
	Studies      []Run   `json:"studies"`
}

// Run is one study.
type Run struct {
	Algorithm string `json:"algorithm"`
	Causal    bool   `json:"causal"`
	Seed      uint64 `json:"seed"`
	// Trials is the number measured until one was Within of the reference, 0 if none was; Seconds is the
	// time of the trials, with the CPU time of proposing them. A study without it counts with its whole length.
	Trials  int     `json:"trials"`
	Seconds float64 `json:"seconds"`
	// Measured, Skipped and Narrowed count trials of the whole study, Tuner is its CPU time of proposing.
	Measured int     `json:"measured"`
	Skipped  int     `json:"skipped"`
	Narrowed int     `json:"narrowed"`
	Tuner    float64 `json:"tuner_s"`
	// Best is the average JCT of the best trial over that of the reference.
	Best float64 `json:"best_over_reference"`
}

// Compare tunes a scheduler by studies whose trials hold a configuration over the
// window and measure its average JCT, with one client.
func Compare(ctx context.Context, o replay.Options, c Options) (*Comparison, error) {
	if c.Trials < 1 || c.Reference < 1 || c.Seeds < 1 || len(c.Algorithms) == 0 || c.Took < 0 {
		return nil, fmt.Errorf("studies: %d trials, %d of the reference, %d seeds, %d algorithms, %v a trial; want at "+
			"least 1, 1, 1, 1 and 0", c.Trials, c.Reference, c.Seeds, len(c.Algorithms), c.Took)
	}
	o.Simulate.EventBudget = portfolio.HeldEvents*o.Trace.Window(o.From, o.To).Len() + 1000
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, err
	}
	m := measurer{e: e, known: map[string]float64{}, took: c.Took}
	reference, err := m.study(ctx, study.Spec{Algorithm: search.DefaultSampler, Budget: c.Reference,
		Causal: study.CausalOff, Seed: o.Seed}, 0)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	r := &Comparison{Scheduler: o.Scheduler.Name, Parameters: len(o.Scheduler.Space.Params()),
		DefaultJCT: m.known[o.Scheduler.Space.Default().Hash()], ReferenceJCT: reference.Best}
	for _, algorithm := range c.Algorithms {
		for _, causal := range []study.Causal{study.CausalOff, study.CausalOn} {
			for seed := range uint64(c.Seeds) {
				run, err := m.study(ctx, study.Spec{Algorithm: algorithm, Budget: c.Trials, Causal: causal,
					Seed: o.Seed + 1 + seed}, Within*r.ReferenceJCT)
				if err != nil {
					return nil, fmt.Errorf("%s, seed %d: %w", algorithm, seed, err)
				}
				run.Best /= r.ReferenceJCT
				r.Studies = append(r.Studies, run)
				if c.Progress != nil {
					c.Progress(len(r.Studies), 2*len(c.Algorithms)*c.Seeds)
				}
			}
		}
	}
	return r, nil
}

// measurer measures configurations, each once.
type measurer struct {
	e     *replay.Evaluation
	known map[string]float64 // average JCT by hash, 0 if livelocked
	took  time.Duration
}

func (m *measurer) measure(ctx context.Context, c space.Config) (float64, error) {
	if jct, ok := m.known[c.Hash()]; ok {
		return jct, nil
	}
	live, err := m.e.Start(c, false)
	if err == nil {
		err = live.Sim.Run(ctx)
	}
	jct := 0.0
	if err == nil {
		jct = simulator.Describe(live.Sim.Outcomes(nil)).AvgJCT
	} else if !errors.Is(err, simulator.ErrBudget) {
		return 0, fmt.Errorf("%v: %w", c, err)
	}
	m.known[c.Hash()] = jct
	return jct, nil
}

// study runs a study. Best of the result is an average JCT; enough is the JCT that a trial must reach.
func (m *measurer) study(ctx context.Context, spec study.Spec, enough float64) (Run, error) {
	const metric = "avg_jct"
	sp := m.e.Options.Scheduler.Space
	spec.Metric, spec.Lease, spec.Params, spec.Rules = metric, study.MaxLease, sp.Params(), sp.Rules()
	spec.Start = json.RawMessage(sp.Default().Canonical())
	s := study.State{Space: sp, Record: study.Record{ID: "lab", Phase: study.Active, Spec: spec}}
	run := Run{Algorithm: spec.Algorithm, Causal: spec.Causal == study.CausalOn, Seed: spec.Seed}
	engine, err := study.NewEngine(&s)
	if err != nil {
		return run, err
	}
	at := time.Unix(0, 0).UTC()
	var tuner time.Duration
	for s.Phase == study.Active {
		suggest := study.Suggest{Client: "lab", Count: 1}
		if s.Lacks(suggest.Client, suggest.Count) > 0 {
			began := cputime.Process()
			if suggest.Asked, err = engine.Ask(&s); err != nil {
				return run, err
			}
			tuner += cputime.Process() - began
		}
		if s, _, err = study.Step(s, suggest, at); err != nil {
			return run, err
		}
		held := s.Held(suggest.Client, suggest.Count)
		if len(held) == 0 {
			break
		}
		jct, err := m.measure(ctx, held[0].Config)
		if err != nil {
			return run, err
		}
		at = at.Add(m.took)
		run.Measured++
		end := study.Complete{Trial: held[0].ID, Infeasible: "livelocked"}
		if jct > 0 {
			end = study.Complete{Trial: held[0].ID,
				Final: &study.Measurement{Metrics: map[string]float64{metric: jct}}}
			if run.Best == 0 || jct < run.Best {
				run.Best = jct
			}
		}
		if s, _, err = study.Step(s, end, at); err != nil {
			return run, err
		}
		if run.Trials == 0 && run.Best > 0 && run.Best <= enough {
			run.Trials, run.Seconds = run.Measured, at.Sub(time.Unix(0, 0)).Seconds()+tuner.Seconds()
		}
	}
	run.Tuner, run.Skipped = tuner.Seconds(), s.Count()[study.Skipped]
	if run.Trials == 0 {
		run.Seconds = at.Sub(time.Unix(0, 0)).Seconds() + run.Tuner
	}
	for _, t := range s.Trials {
		if len(t.Narrowed) > 0 {
			run.Narrowed++
		}
	}
	return run, nil
}
