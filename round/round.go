package round

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Problem is a tuning problem: a scheduler's configurations on a cluster, compared with
// the incumbent by a goal.
type Problem struct {
	Scheduler *schedulers.Scheduler
	Space     *space.Space
	Cluster   workload.Cluster
	Options   simulator.Options
	Goal      Goal
	Incumbent space.Config
	// Refused are configurations that must not be offered: the scheduler or an operator refuses them.
	Refused []space.Config
	// Turn runs each simulation.
	Turn Turn
}

// Round is one tuning round on given scenarios: a search, of which the best is adopted
// (Round.choose). Of Settings it ignores Horizon and Futures, and SearchAuto is SearchFull.
type Round struct {
	Problem
	Settings
	Scenarios []Scenario
	// Sampler names the search.Samplers entry that suggests configurations in the budget that the
	// portfolio (default, incumbent, presets) leaves; "" is the default one.
	// State continues one that learns.
	Sampler string
	State   json.RawMessage
	// NoPresets leaves the scheduler's presets out of the portfolio. Past are further
	// configurations of the portfolio, after the presets.
	NoPresets bool
	Past      []search.Preset
	// Pruner, if set, rejects proposals that are not worth measuring.
	Pruner Pruner
	// Cache, if set, holds measurements of rounds on the same scenarios.
	Cache    *search.Cache
	Progress func(search.Trial)
	// Time, if positive, bounds the search (search.Options.Time).
	Time time.Duration
	// Record is the search's; the round sets its Space.
	Record search.Record
	// Early measures a proposal of the sampler on further scenarios only while it is ahead
	// of the best trial before its batch. Cut trials cannot win. It has no effect with
	// Always, Cache, Record, Time, Front, or a goal with constraints or ranks.
	Early bool
	// Simplify replaces the configuration that a search found, and the round would adopt, by the simplest
	// configuration that measures like it (search.Simplifier).
	Simplify bool
	// Front names metrics, each once: the search is then for the Pareto front of all of
	// them, and every trial has them as search.Metrics. The adoption is still judged
	// by the goal.
	Front []string

	origins    map[string]string // names of earlier configurations in reasons, by origin
	registered *space.Space      // that Space is a part of (withoutInert); nil if it is all of it
}

// Pruner saves measurements in one search, such as prune.Pruner by a causal model.
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
	// Best is the trial of Config, Incumbent that of the configuration in force.
	Best, Incumbent search.Trial
	// Answer is that of the daily rule; nil if it was not asked.
	Answer *Answer
	// top is the best trial, whether it was adopted or not.
	top search.Trial
	// Stopped is why the search ended, Sampler the one used and Choice its reason, if
	// there was a choice.
	Stopped, Sampler, Choice string
	// Found is the trial that Best simplifies, Effects the gains from its parameters; none if
	// nothing was simplified.
	Found   search.Trial
	Effects []search.Effect
	// Inert are parameters that make no difference in the scenarios: all trials have
	// them as the incumbent has.
	Inert []string
	// NoDeadline says that the objective, a constraint or Front names the deadlines
	// missed, and that no job of the scenarios has a deadline.
	NoDeadline bool
}

// Run searches and decides. If no scenario has a job, it keeps the incumbent.
func (r *Round) Run(ctx context.Context) (Result, error) {
	return r.effective(func(r *Round) (Result, error) { return r.run(ctx) })
}

// effective runs a round without the parameters that have no effect in its scenarios.
func (r *Round) effective(run func(*Round) (Result, error)) (Result, error) {
	narrow, inert := r.withoutInert()
	out, err := run(narrow)
	if len(inert) > 0 {
		out.moveTo(r.Space)
		out.Inert = inert
	}
	out.NoDeadline = r.countsMisses() && !r.hasDeadline()
	return out, err
}

func (r *Round) run(ctx context.Context) (Result, error) {
	out, err := r.explore(ctx)
	if err != nil || len(out.Trials) == 0 {
		return out, err
	}
	r.choose(&out)
	return out, r.simplify(ctx, &out)
}

// explore measures the portfolio and the proposals of the sampler. There are no trials if no scenario has a job.
func (r *Round) explore(ctx context.Context) (Result, error) {
	out := Result{Decision: Decision{Config: r.Incumbent, Ratio: 1}}
	measure, err := r.measure(ctx, r.Scenarios)
	if errors.Is(err, errNothing) {
		out.Reason = "Nothing runs, waits or is expected."
		return out, nil
	}
	if err != nil {
		return out, err
	}
	found, err := search.Tune(ctx, r.searchOptions(measure))
	if err != nil && !allExhausted(found.Trials) {
		return out, err
	}
	if r.Pruner != nil {
		if err := r.Pruner.Finish(found.Trials); err != nil && ctx.Err() == nil {
			return out, err
		}
	}
	out.record(&found)
	if r.Search == SearchPortfolio {
		out.Sampler, out.Choice = "", ""
	}
	return out, nil
}

// measure returns a scorer of the scenarios, errNothing if these have no job.
func (r *Round) measure(ctx context.Context, scenarios []Scenario) (*Scorer, error) {
	s, err := NewScorer(&r.Problem, scenarios)
	if err != nil {
		return nil, err
	}
	for _, name := range r.Front {
		if err := s.Add(name); err != nil {
			return nil, err
		}
	}
	return s, s.CompareWith(ctx, r.Incumbent)
}

// searchOptions returns the options of the search on the scenarios.
func (r *Round) searchOptions(measure *Scorer) search.Options {
	o := search.Options{
		Space: r.Space, Evaluate: measure.Measure, Incumbent: r.Incumbent, Presets: r.portfolio(),
		Method: r.Sampler, State: r.State,
		Budget: r.Budget, Workers: r.Workers, Seed: r.Seed, Progress: r.Progress, Cache: r.Cache,
		Ranking: search.Ranking{ParetoMetrics: measure.others}, Time: r.Time, Record: r.Record, Reject: r.reject,
	}
	o.Record.Space = r.registered
	if !r.Always {
		o.Ranking.MinFeasibleProb = minFeasibleProb
	}
	for _, x := range r.Goal.Then {
		o.Ranking.Tiebreakers = append(o.Ranking.Tiebreakers, search.Tiebreaker{Metric: x.Metric, Within: x.Within})
	}
	if r.Cache != nil || r.Record.To != nil {
		o.Context = measure.Digest()
	}
	if r.Pruner != nil {
		o.Scope = r.Pruner.Scope
	}
	if r.early() {
		o.Begin = r.begin(measure)
	}
	if r.Search == SearchPortfolio {
		o.Budget = min(max(1, o.Budget), distinct(r.Space.Default(), r.Incumbent, o.Presets))
	}
	return o
}

// portfolio returns the presets and earlier configurations to measure before any sample,
// besides the default and the incumbent.
func (r *Round) portfolio() []search.Preset {
	var out []search.Preset
	if !r.NoPresets {
		out = presetsIn(r.Space, r.Scheduler)
	}
	return append(out, r.Past...)
}

// reject returns why a proposal is not worth measuring, "" if it is.
func (r *Round) reject(history []search.Trial, c space.Config) string {
	switch {
	case r.refuses(c):
		return "its values are parked"
	case r.Pruner != nil:
		return r.Pruner.Reject(history, c)
	}
	return ""
}

// record takes over the result of a search.
func (out *Result) record(found *search.Result) {
	out.Trials, out.State = found.Trials, found.State
	out.Stopped, out.Sampler, out.Choice = found.Stopped, found.Sampler, found.Choice
	if found.Incumbent >= 0 {
		out.Incumbent = found.Trials[found.Incumbent]
	}
	out.Candidates = candidates(out.Trials, out.Incumbent)
	out.Stats.Trials, out.Stats.Evaluations = len(found.Trials), found.Evaluations
}

// distinct counts the configurations of a portfolio, each once.
func distinct(first, second space.Config, presets []search.Preset) int {
	seen := map[string]bool{first.Hash(): true, second.Hash(): true}
	for _, p := range presets {
		seen[p.Config.Hash()] = true
	}
	return len(seen)
}

// presetsIn returns the scheduler's presets projected into the registered space, which
// may be narrower than the built-in one.
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
	going := func(t search.Trial) bool { return !t.Measurement.Exhausted }
	return len(trials) > 0 && !slices.ContainsFunc(trials, going)
}
