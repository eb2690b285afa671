package study

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// Asked is a proposal of an Engine, with its state after it.
type Asked struct {
	Proposals []search.Proposal
	Rejected  []search.Rejection
	Stopped   string
	Step      int
	State     json.RawMessage
	Choice    string
}

// Engine proposes the configurations of a study by a search of its space. It is not safe for concurrent
// use.
type Engine struct {
	spec    Spec
	session *search.Session
	prune   *prune.Pruner // nil if the causal model is off
	order   int64         // of the last trial that was reported
	took    []time.Duration
	costs   map[string]measuredCost // by the hash of the configuration
}

// measuredCost is that of the trials of a configuration.
type measuredCost struct{ sum, n float64 }

// gone are algorithms of stored studies that search.Samplers lacks. The default one continues these studies.
var gone = []string{"bluefin+", "forest"}

// NewEngine returns the engine of a study as its state has it.
func NewEngine(s *State) (*Engine, error) {
	start, err := s.Space.ParseJSON(s.Spec.Start)
	if err != nil {
		return nil, fmt.Errorf("study %q: start: %w", s.ID, err)
	}
	e := &Engine{spec: s.Spec, costs: map[string]measuredCost{}}
	o := search.Options{Space: s.Space, Incumbent: start, Method: s.Spec.Algorithm, Budget: s.Spec.Budget,
		Seed: s.Spec.Seed, State: s.Sampler}
	if slices.Contains(gone, o.Method) {
		o.Method, o.State = search.DefaultSampler, nil
	}
	if s.Spec.Causal != CausalOff {
		e.prune = prune.New(context.Background(), s.Space, start, s.Spec.Seed)
		o.Reject = func(history []search.Trial, c space.Config) string {
			if !e.causal() {
				return ""
			}
			return e.prune.Reject(history, c)
		}
		o.Scope = func(history []search.Trial, c space.Config) (space.Config, []string) {
			if !e.causal() {
				return c, nil
			}
			return e.prune.Scope(history, c)
		}
	}
	begun := slices.ContainsFunc(s.Trials, func(t *Trial) bool { return !t.Own() })
	if e.session, err = search.NewSession(o, !begun); err != nil {
		return nil, err
	}
	e.session.Continue(s.Step)
	for _, t := range s.Trials {
		if t.State == Skipped && t.Order == 0 && t.Origin != Lost {
			e.session.Avoid(search.Rejection{Config: t.Config, Provenance: search.Provenance{Origin: t.Origin},
				Reason: t.Reason})
		}
	}
	e.update(s)
	return e, nil
}

// causal reports whether the causal model is used: in CausalAuto where the median trial takes a second or
// more.
func (e *Engine) causal() bool {
	if e.spec.Causal == CausalOn {
		return true
	}
	took := slices.Clone(e.took)
	slices.Sort(took)
	return len(took) > 0 && took[len(took)/2] >= time.Second
}

// update reports to the search the trials that ended since, and the ones under way.
func (e *Engine) update(s *State) {
	var ended []*Trial
	for _, t := range s.Trials {
		switch {
		case t.State.Open():
			e.session.Expect(t.proposal())
		case t.Order > e.order:
			ended = append(ended, t)
		}
	}
	slices.SortFunc(ended, func(a, b *Trial) int { return cmp.Compare(a.Order, b.Order) })
	for _, t := range ended {
		e.order = t.Order
		if t.SameAs != 0 || t.Retry != 0 && t.State == Stale {
			continue
		}
		if t.State != Succeeded {
			e.session.Tell(t.proposal(), search.Measurement{}, errors.New(string(t.State)+": "+t.Reason))
			continue
		}
		if !t.Started.IsZero() {
			e.took = append(e.took, t.Ended.Sub(t.Started))
		}
		e.session.Tell(t.proposal(), search.Measurement{Values: []float64{e.mean(t)}}, nil)
		if e.prune != nil && e.causal() {
			e.prune.Observe(e.session.Rewarded())
		}
	}
}

// mean adds a trial that succeeded, and returns the mean cost of it and of earlier ones with the same configuration.
func (e *Engine) mean(t *Trial) float64 {
	hash := t.Config.Hash()
	c := e.costs[hash]
	c.sum, c.n = c.sum+e.spec.Cost(e.spec.Value(t.Final)), c.n+1
	e.costs[hash] = c
	return c.sum / c.n
}

func (t *Trial) proposal() search.Proposal {
	return search.Proposal{Config: t.Config, Provenance: search.Provenance{Origin: t.Origin, Prediction: t.Prediction,
		Suggested: t.Suggested, Narrowed: t.Narrowed}}
}

// Ask proposes the next measurements of a study, within its budget.
func (e *Engine) Ask(s *State) (Asked, error) {
	e.update(s)
	var out Asked
	var err error
	out.Proposals, out.Rejected, out.Stopped, err = e.session.Ask(s.Spec.Budget - s.Used())
	out.Step, out.State = e.session.Progress()
	out.Choice = e.session.Choice()
	return out, err
}

// Best is the trial with the best expected value of the metric, nil if none was measured.
func (e *Engine) Best(s *State) *Trial {
	e.update(s)
	at := e.session.Best()
	if at < 0 {
		return nil
	}
	c := e.session.Trials()[at].Config
	for _, t := range s.Trials {
		if t.State == Succeeded && t.Config.Equal(c) {
			return t
		}
	}
	return nil
}
