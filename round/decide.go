package round

import (
	"context"
	"encoding/json"
	"maps"
	"math"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// DecideFunc decides one tuning round: which configuration is best, and whether it is
// worth a change. The same input gives the same decision, for any
// number of workers. It must return soon after its context ends.
type DecideFunc func(ctx context.Context, in Input) (Decision, error)

// Input is what a round is decided on.
type Input struct {
	Snapshot
	Settings
	// Scheduler is the built-in type whose simulated policy evaluates
	// configurations, such as "tiresias".
	Scheduler string
	// Space is the scheduler's registered space, perhaps narrower than the
	// built-in's.
	Space *space.Space
	Goal  Goal
	// Incumbent is the configuration in force.
	Incumbent space.Config
	// Refused are configurations that the scheduler refuses to run.
	Refused []space.Config
	// Engine caches the models learnt from the ledger in earlier rounds; nil is a fresh
	// one. It is not safe for concurrent use.
	Engine *generation.Engine
	// Round counts update intervals of event time since the ledger's zero.
	Round int
	// Urgent is a decision between rounds, when demand left what they expected (Burst):
	// it searches the portfolio, and adopts only what gains UrgentRatio on its own futures.
	Urgent bool
	// History is the Decision.History of the previous round, empty for the first. An
	// unreadable one is ignored.
	History json.RawMessage
}

// Decision is a round's outcome.
type Decision struct {
	// Config is the best configuration found, the incumbent if none was better.
	Config space.Config
	// Adopt reports whether Config should replace the incumbent, by the adoption rule
	// (Round.adopt).
	Adopt bool
	// Reason explains Adopt in a sentence.
	Reason string
	// Ratio is the incumbent's controllable objective over that of the best
	// candidate, whether it was adopted or not; above 1 is better. 1 if there is
	// no candidate.
	Ratio float64
	// Interval is the 95 % confidence interval of the ratio on this round's futures
	// alone; the zero Interval if there are too few. Ratio has the evidence of other
	// rounds too, so that it may be outside.
	Interval Interval
	// Search is SearchPortfolio or SearchFull, and Why the reason in a sentence. Both
	// are empty if the scenarios have no job.
	Search Search
	Why    string
	// Candidates are what was measured, in order.
	Candidates []Candidate
	// Measured are the configurations of Candidates and their objectives, of DecideOnline.
	Measured []Measured
	// Predicted and Before are the objectives of Config and of the incumbent in each future,
	// those of a race included, of DecideOnline.
	Predicted, Before []float64
	// Energy is what Config draws instead of the incumbent, of DecideOnline; nil unless Config is adopted
	// and the simulator has an energy.Meter.
	Energy *EnergyChange
	// History is for the next round: past winners with the situations they won in. It
	// changes what is measured, not the adoption rule.
	History json.RawMessage
	Stats   Stats
}

// Stats counts the work of a round.
type Stats struct {
	// Evaluations are configurations measured, those of the race included, without
	// insurance, guards and Simplified.
	Evaluations int `json:"evaluations"`
	// WiderThanCluster counts active jobs left out because they ask for more GPUs
	// than the cluster has.
	WiderThanCluster int `json:"jobs_wider_than_cluster,omitempty"`
	// Raced are the configurations measured on held-out futures.
	Raced int `json:"raced,omitempty"`
	// Simplified are the configurations measured to simplify the winner.
	Simplified int `json:"simplified,omitempty"`
	// Trials of the search.
	Trials int `json:"trials"`
}

// Candidate is a configuration that a round measured.
type Candidate struct {
	// Origin is default, incumbent, preset:NAME, like:round-N or past:round-N (a winner
	// of that round: of the most similar situation, or the most frequent one), or the
	// name of a sampler.
	Origin string `json:"origin"`
	// Ratio is that of Decision on the futures searched on; 0 if it could not be
	// measured.
	Ratio float64 `json:"ratio"`
	// Agrees reports whether it is better than the incumbent in every one of them.
	Agrees bool `json:"agrees,omitempty"`
	// Outcome is what the adoption rule made of it, for people: "adopted", "in force", or why it was
	// not adopted; "" if it looked no better than the incumbent.
	Outcome string `json:"outcome,omitempty"`
}

// candidates compares trials with the incumbent.
func candidates(trials []search.Trial, incumbent search.Trial) []Candidate {
	out := make([]Candidate, len(trials))
	for i, t := range trials {
		g := search.Gain(t, incumbent)
		out[i] = Candidate{Origin: t.Origin, Ratio: math.Round(1e4*g.Ratio) / 1e4, Agrees: g.BetterInEvery}
	}
	return out
}

// Measured is a configuration that a round measured.
type Measured struct {
	Config space.Config
	// Objective is its objective in each future, lower is better. Err says why there is none.
	Objective []float64
	Err       string
	// Metrics are means over the futures. Cut is how many futures were simulated if that was ended
	// early (Round.Early): then Objective has estimates. 0 for all.
	Metrics map[string]float64
	Cut     int
}

// DecideOnline is the DecideFunc of the product: Decide without the evidence that it does not
// store.
func DecideOnline(ctx context.Context, in Input) (Decision, error) {
	r, err := Decide(ctx, in)
	for _, t := range r.Trials {
		r.Measured = append(r.Measured, Measured{Config: t.Config, Objective: t.Measurement.Values, Err: t.Err,
			Metrics: t.Measurement.Metrics, Cut: t.Measurement.Measured})
	}
	r.Predicted, r.Before = r.Best.Measurement.Values, r.Incumbent.Measurement.Values
	return r.Decision, err
}

// Decide is the product's round: it samples futures from the ledger, searches on
// them and applies the adoption rule.
func Decide(ctx context.Context, in Input) (Result, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return Result{}, err
	}
	if err := in.State.Available().Validate(); err != nil {
		return Result{Decision: Decision{Config: in.Incumbent, Ratio: 1, Reason: "No node is up.",
			History: in.History}}, nil
	}
	in.Settings = in.Settings.WithDefaults()
	at := in.State.At
	in.Seed = in.seed()
	if in.Urgent {
		in.MinRatio = max(in.MinRatio, UrgentRatio)
	}
	before, now, why := in.chooseSearch()
	presets := presetsIn(in.Space, s)
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	most := portfolioSize - 2 - min(presetsKept, len(presets))
	if in.Search == SearchFull {
		most = pastInFull
	}
	futures, err := in.draw(ctx, in.Seed)
	if err != nil {
		return Result{}, err
	}
	if before.Band = (band{}); !in.Always {
		before.Band = newBand(futures, in.State.Cluster, at, in.Horizon)
	}
	r := Round{
		Problem: Problem{Scheduler: s, Space: in.Space, Goal: in.Goal, Cluster: in.State.Cluster,
			Options: in.Simulator, Turn: in.Turn,
			Incumbent: in.Incumbent, Refused: in.Refused},
		Settings: in.Settings, Scenarios: futures[:in.Futures], HeldOut: futures[in.Futures:],
		Past: before.candidates(&now, in.Space, presets, in.Incumbent, most), Early: true, Simplify: true,
		origins: before.origins(in.Zero),
	}
	out, err := r.decide(ctx, &in, before)
	for i := range out.Candidates {
		if c := &out.Candidates[i]; c.Outcome == "" {
			c.Outcome = r.place(&out, &out.Trials[i])
		}
	}
	if out.History = in.History; err == nil && len(out.Trials) > 0 {
		if note := InertNote(out.Inert); note != "" {
			why += "; " + note
		}
		if out.NoDeadline {
			why += "; " + NoDeadlineNote
		}
		out.Search, out.Why = in.Search, why
		out.History, err = json.Marshal(before.after(in.Round, at, &now, s, &out))
	}
	if _, wide := fitting(&in.State); wide > 0 && err == nil {
		out.Stats.WiderThanCluster = wide
	}
	if out.Adopt && err == nil {
		err = r.weighEnergy(ctx, &out.Decision)
	}
	return out, err
}

// decide searches and applies the adoption rule: to the evidence pooled over rounds,
// which it adds to the history, or to the round's own if the goal has ranks or the best
// on average is adopted always.
func (r *Round) decide(ctx context.Context, in *Input, h *history) (Result, error) {
	if r.Always || len(r.Goal.Then) > 0 {
		return r.Run(ctx)
	}
	out, err := r.effective(func(r *Round) (Result, error) { return r.explore(ctx) })
	if err != nil || len(out.Trials) == 0 {
		return out, err
	}
	at, key := in.State.At, keyer(out.Inert)
	logs := logRatios(out.Trials, key)
	if logs == nil { // nothing to compare with
		r.adopt(&out, r.better(&out, false), false, -1)
		return out, nil
	}
	maps.Copy(logs, logRatios(out.fresh, key)) // where nothing was selected
	h.Evidence = h.Evidence.add(at, logs)
	if h.Insurance.At == 0 || at-h.Insurance.At >= insurancePeriod {
		h.Insurance = insurance{At: at}
	}
	proven := []string{key(r.Space.Default())}
	for _, p := range presetsIn(r.Space, r.Scheduler) {
		proven = append(proven, key(p.Config))
	}
	var insurer *insurer
	w := weigher{round: r, at: at, key: key, evidence: h.Evidence, insurance: &h.Insurance, proven: proven,
		ratio: r.MinRatio, bar: max(0, r.MinGain) + max(0, r.ChangePrice)*float64(len(h.Changes)),
		dwelling: h.dwells(at, r.Dwell), urgent: in.Urgent,
		insure: func(ctx context.Context, configs []space.Config) error {
			if !h.Insurance.lacks(configs, key) {
				return nil
			}
			if insurer == nil {
				if insurer, err = newInsurer(ctx, in, &r.Problem, r.Scenarios[0], key); err != nil {
					return err
				}
				h.Insurance.Weight = insurer.weight
			}
			return insurer.measure(ctx, &h.Insurance, configs)
		}}
	err = w.adopt(ctx, &out)
	return out, err
}

// seed is that of the round's own futures and search.
func (in *Input) seed() uint64 {
	seed := Seed(in.Seed, in.Round)
	if in.Urgent {
		seed = rng.Stream("urgent", seed, uint64(in.State.At)).Uint64()
	}
	return seed
}

// Seed returns the seed of a round's futures and search. Streams of different seeds and
// rounds are independent.
func Seed(seed uint64, round int) uint64 {
	return rng.Stream("round", seed, uint64(round)).Uint64()
}
