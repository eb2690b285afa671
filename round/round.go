package round

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Round is one tuning round on given scenarios: search, then the adoption rule.
// Service and evaluation differ in where the scenarios come from, not here.
type Round struct {
	Scheduler *schedulers.Scheduler
	Space     *space.Space
	Objective string // the text of a Goal
	Cluster   workload.Cluster
	Scenarios []Scenario
	Options   simulator.Options
	Incumbent space.Config
	Refused   []space.Config
	// Sampler names the search.Samplers entry that suggests what the portfolio
	// (default, incumbent, presets) leaves of the budget; "" is the default one.
	// State continues one that learns.
	Sampler string
	State   json.RawMessage
	// NoPresets leaves the scheduler's presets out of the portfolio.
	NoPresets bool
	// Past are further configurations of the portfolio, after the presets.
	Past []search.Preset
	// Portfolio searches the portfolio only.
	Portfolio bool
	// Confirm are futures that nothing was chosen on. If there are any, the best
	// candidates and the incumbent are played on them too, and what is adopted must
	// be better there on average: the best of many on few futures is the luckiest.
	Confirm  []Scenario
	Budget   int
	Workers  int
	MinRatio float64
	// Always replaces the incumbent by whatever measured best, as the paper does.
	Always bool
	Seed   uint64
	// Pruner, if set, rejects proposals and narrows the scope of the search.
	Pruner Pruner
	// Cache, if set, holds measurements of rounds on the same scenarios.
	Cache    *search.Cache
	Progress func(search.Trial)
	// Time, if positive, is how long the search may take (search.Options.Time).
	Time time.Duration
	// Record is the search's; its Space is set by the round.
	Record search.Record
	// Front names metrics, each once: the search then looks for what no other configuration
	// beats in all of them, and every trial has them as search.Metrics. What is adopted
	// is still judged by Objective.
	Front []string

	registered *space.Space // that Space is a part of (withoutInert); nil if it is all of it
}

// Pruner saves measurements in one search, such as prune.Study by a causal model.
type Pruner interface {
	// Reject and Scope are those of search.Options.
	Reject(history []search.Trial, c space.Config) string
	Scope(history []search.Trial, c space.Config) (space.Config, []string)
	// Finish gets all trials at the end of the search.
	Finish(trials []search.Trial) error
}

// Result is a round's decision with its evidence.
type Result struct {
	Decision
	Trials []search.Trial
	State  json.RawMessage // of a sampler that learns, for the next round
	// Best is the trial of Config, Incumbent that of the configuration in force. If
	// there was a race, they hold its futures too.
	Best, Incumbent search.Trial
	// Stopped is why the search ended, Sampler what it used and Choice why, if
	// there was a choice.
	Stopped, Sampler, Choice string
	// Inert are parameters that make no difference in the scenarios: all trials have
	// them as the incumbent has.
	Inert []string
	// NoDeadline says that the objective, a constraint or Front names the deadlines
	// missed, and that no job of the scenarios has a deadline.
	NoDeadline bool
}

// Run searches and decides. With nothing to play on it keeps the incumbent and
// says so.
func (r *Round) Run(ctx context.Context) (Result, error) {
	narrow, inert := r.withoutInert()
	out, err := narrow.run(ctx)
	if len(inert) > 0 {
		out.moveTo(r.Space)
		out.Inert = inert
	}
	out.NoDeadline = r.countsMisses() && !r.hasDeadline()
	return out, err
}

func (r *Round) run(ctx context.Context) (Result, error) {
	out := Result{Decision: Decision{Config: r.Incumbent, Ratio: 1, Details: map[string]float64{}}}
	scorer, err := NewScorer(r.Scheduler, r.Cluster, r.Scenarios, r.Objective, r.Options)
	if errors.Is(err, errNothing) {
		out.Reason = "nothing runs, waits or is expected"
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if err := scorer.setUp(ctx, r); err != nil {
		return out, err
	}
	o := search.Options{
		Space: r.Space, Evaluate: scorer.Measure, Incumbent: r.Incumbent, Method: r.Sampler, State: r.State,
		Budget: r.Budget, Workers: r.Workers, Seed: r.Seed, Progress: r.Progress, Cache: r.Cache,
		Ranking: search.Ranking{ParetoMetrics: scorer.others}, Time: r.Time, Record: r.Record,
	}
	o.Record.Space = r.registered
	if !r.Always {
		o.Ranking.MinFeasibleProb = likely
	}
	for _, x := range r.goal().Then {
		o.Ranking.Tiebreakers = append(o.Ranking.Tiebreakers, search.Tiebreaker{Metric: x.Metric, Within: x.Within})
	}
	if r.Cache != nil || r.Record.To != nil || r.Record.Resume != nil {
		o.Context = scorer.Digest()
	}
	o.Reject = func(_ []search.Trial, c space.Config) string {
		if r.refuses(c) {
			return "the scheduler refused it"
		}
		return ""
	}
	if r.Pruner != nil {
		refused := o.Reject
		o.Scope = r.Pruner.Scope
		o.Reject = func(history []search.Trial, c space.Config) string {
			if why := refused(history, c); why != "" {
				return why
			}
			return r.Pruner.Reject(history, c)
		}
	}
	if !r.NoPresets {
		o.Presets = presetsIn(r.Space, r.Scheduler)
	}
	o.Presets = append(o.Presets, r.Past...)
	kept := 0 // for the race
	if len(r.Confirm) > 0 && !r.Always && r.Budget >= 8 {
		kept = min(racers, r.Budget/4)
		o.Budget -= kept
	}
	if r.Portfolio {
		o.Budget = min(max(1, o.Budget), distinct(r.Space.Default(), r.Incumbent, o.Presets))
	}
	found, err := search.Tune(ctx, o)
	if err != nil && !allExhausted(found.Trials) {
		return out, err
	}
	if r.Pruner != nil {
		if err := r.Pruner.Finish(found.Trials); err != nil && ctx.Err() == nil {
			return out, err
		}
	}
	out.Trials, out.State = found.Trials, found.State
	out.Stopped, out.Sampler, out.Choice = found.Stopped, found.Sampler, found.Choice
	if r.Portfolio {
		out.Sampler, out.Choice = "", ""
	}
	if found.Incumbent >= 0 {
		out.Incumbent = found.Trials[found.Incumbent]
	}
	out.Candidates = candidates(out.Trials, out.Incumbent)
	out.Details["trials"] = float64(len(found.Trials))
	out.Details["evaluations"] = float64(found.Evaluations)
	expected, raced := found.Best, false
	if r.Always {
		expected = -1 // the best as measured
	}
	racing := kept > 0 && out.Incumbent.OK()
	agreed := r.better(&out, racing)
	if racing && len(agreed) > 0 {
		won, err := r.race(ctx, &out, agreed, expected, kept)
		if err != nil {
			return out, err
		}
		if raced = won != nil; raced { // they have been seen on more futures than the search saw
			agreed, expected = won, -1
		} else {
			agreed = r.better(&out, false)
		}
	}
	r.choose(&out, agreed, raced, expected)
	return out, nil
}

// distinct counts the configurations of a portfolio, each once.
func distinct(first, second space.Config, presets []search.Preset) int {
	seen := map[string]bool{first.Hash(): true, second.Hash(): true}
	for _, p := range presets {
		seen[p.Config.Hash()] = true
	}
	return len(seen)
}

// presetsIn are the scheduler's presets as the registered space, which may be
// narrower than the built-in one, allows them.
func presetsIn(s *space.Space, b *schedulers.Scheduler) []search.Preset {
	var out []search.Preset
	for _, p := range b.Presets {
		c, _ := s.Project(p.Config)
		out = append(out, search.Preset{Name: p.Name, Config: c})
	}
	return out
}

// allExhausted reports whether every configuration ran out of events: then there
// is nothing to choose from, and the incumbent stays.
func allExhausted(trials []search.Trial) bool {
	for i := range trials {
		if !trials[i].Measurement.Exhausted {
			return false
		}
	}
	return len(trials) > 0
}
