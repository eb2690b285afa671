package round

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// DecideFunc decides one tuning round: which configuration is best, and whether it is
// worth a change. The same input gives the same decision, for any
// number of workers. It must return soon after its context ends.
type DecideFunc func(ctx context.Context, in Input) (Decision, error)

// Input is the input of a round.
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
	// Refused are configurations that must not be offered: the scheduler or an operator refuses them.
	Refused []space.Config
	// Engine caches the models learnt from the ledger in earlier rounds; nil is a fresh
	// one. It is not safe for concurrent use.
	Engine *generation.Engine
	// Round counts update intervals of event time since the ledger's zero.
	Round int
	// Urgent is a decision between rounds, when demand left the expected band (Burst):
	// it searches the portfolio, and does not ask the history.
	Urgent bool
	// Replays keeps the replays of the daily rule; nil keeps none.
	Replays *Replays
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
	// Ratio is the objective in force over that of the best candidate, whether it was adopted or not: of the daily rule
	// that of the replays (Answer.Gain), otherwise of the controllable parts on the round's futures. Above 1 is better;
	// 1 if there is no candidate.
	Ratio float64
	// Interval is the range of the ratio: from the lowest to the highest replay of the daily rule, otherwise the 95 %
	// confidence interval on the round's futures; the zero Interval if there are too few.
	Interval Interval
	// Daily reports whether the daily rule was asked, and adopts or keeps.
	Daily bool
	// Search is SearchPortfolio or SearchFull, and Why the reason in a sentence. Both
	// are empty if the scenarios have no job.
	Search Search
	Why    string
	// Candidates are the measured configurations, in order.
	Candidates []Candidate
	// Measured are the configurations of Candidates and their objectives, of DecideOnline.
	Measured []Measured
	// Predicted and Before are the objectives of Config and of the incumbent in each future,
	// of DecideOnline.
	Predicted, Before []float64
	// Energy is the change of energy from the incumbent to Config, of DecideOnline; nil unless Config is adopted
	// and the simulator has an energy.Meter.
	Energy *EnergyChange
	// History is for the next round: past winners with the situations they won in. It
	// changes the candidates, not the adoption rule.
	History json.RawMessage
	Stats   Stats
}

// Stats counts the work of a round.
type Stats struct {
	// Evaluations are configurations measured, without replays, guards and Simplified.
	Evaluations int `json:"evaluations"`
	// WiderThanCluster counts active jobs left out because they ask for more GPUs
	// than the cluster has.
	WiderThanCluster int `json:"jobs_wider_than_cluster,omitempty"`
	// Replayed is the number of replays that the daily rule is an answer of.
	Replayed int `json:"replayed,omitempty"`
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
	// Outcome is the result of the adoption rule, for people: "adopted", "in force", or why it was
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

// Decide is the product's round: it samples futures from the ledger and searches on them. Once a calendar day, in UTC,
// it asks the history (Ask); otherwise only a gain that is large and lasts is adopted (Round.fast).
func Decide(ctx context.Context, in Input) (Result, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return Result{}, err
	}
	if !in.State.HasNode() {
		return Result{Decision: Decision{Config: in.Incumbent, Ratio: 1, Reason: "No node is up.",
			History: in.History}}, nil
	}
	in.Settings = in.Settings.WithDefaults()
	in.startEngine()
	at, constant := in.State.At, in.Seed
	in.Seed = in.seed()
	if in.Rule == RulePaper {
		in.Search = SearchFull
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
	if in.Ablation.NoPast {
		most = 0
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
		Settings: in.Settings, Scenarios: futures,
		Past: before.candidates(&now, in.Space, presets, in.Incumbent, most), Early: true, Simplify: true,
		origins: before.origins(in.Zero),
	}
	var out Result
	switch {
	case r.Rule == RulePaper:
		out, err = r.paper(ctx)
	case r.Always:
		out, err = r.Run(ctx)
	default:
		out, err = r.decide(ctx, &in, before, constant)
	}
	if err != nil {
		out.History = in.History
		return out, err
	}
	for i := range out.Candidates {
		if c, t := &out.Candidates[i], &out.Trials[i]; c.Outcome == "" {
			c.Outcome = cmp.Or(r.place(&out, t), r.unfit(t))
		}
	}
	if len(out.Trials) > 0 {
		if note := InertNote(out.Inert); note != "" {
			why += "; " + note
		}
		if out.NoDeadline {
			why += "; " + NoDeadlineNote
		}
		out.Search, out.Why = in.Search, why
		if top := r.lowest(slices.DeleteFunc(slices.Clone(out.Trials), func(t search.Trial) bool {
			return !r.can(&t)
		})); top != nil {
			out.top = *top
		}
	}
	if out.History, err = json.Marshal(before.after(in.Round, at, &now, s, &out)); err != nil {
		return out, err
	}
	if _, wide := fitting(&in.State); wide > 0 {
		out.Stats.WiderThanCluster = wide
	}
	if out.Adopt && len(out.Trials) > 0 {
		err = r.weighEnergy(ctx, &out.Decision)
	}
	return out, err
}

// paper searches the whole space, pruned by the causal model of the round's own trials.
func (r *Round) paper(ctx context.Context) (Result, error) {
	r.Pruner = prune.New(ctx, r.Space, r.Incumbent, r.Seed)
	return r.run(ctx)
}

// decide searches, asks the history if it is time to, and else applies the fast path. seed is the same in all rounds.
func (r *Round) decide(ctx context.Context, in *Input, h *history, seed uint64) (Result, error) {
	out, err := r.effective(func(r *Round) (Result, error) { return r.explore(ctx) })
	if err != nil {
		return out, err
	}
	today := in.Zero.Add(in.State.At).Unix()/int64(day/time.Second) + 1 // 0 is none
	if !in.Urgent && !in.Ablation.NoDaily && today != h.Asked {
		h.Asked = today
		q := r.question(in, seed)
		q.Progress = func(done, _ int) { out.Stats.Replayed = done }
		answer, err := Ask(ctx, q)
		if err != nil {
			return out, err
		}
		out.Answer = &answer
	}
	if len(out.Trials) > 0 && !in.Ablation.NoFast {
		if h.Promised, err = r.fast(ctx, in, seed, &out, h.Promised); err != nil {
			return out, err
		}
	}
	switch a := out.Answer; {
	case a == nil:
	case len(a.Compared) == 0: // too little history
		out.Reason = a.Reason + " " + out.Reason
	case a.Adopt || !out.Adopt:
		r.follow(&out)
	}
	return out, nil
}

// question is that of the daily rule.
func (r *Round) question(in *Input, seed uint64) Question {
	return Question{Problem: r.Problem, History: in.Recorded(), Guard: r.Guard, Seed: seed, Workers: r.Workers,
		Replays: in.Replays}
}

// follow makes the answer of the daily rule the decision.
func (r *Round) follow(out *Result) {
	a := out.Answer
	out.Daily, out.Config, out.Adopt, out.Reason = true, a.Config, a.Adopt, a.Reason
	out.Best, out.Ratio, out.Interval = out.Incumbent, 1, Interval{}
	if a.Best != nil {
		out.Ratio = math.Exp(a.Gain)
		out.Interval = Interval{math.Exp(a.Low), math.Exp(a.High)}
	}
	for i := range out.Trials {
		t, c := &out.Trials[i], &out.Candidates[i]
		if t.Config.Equal(a.Config) {
			out.Best = *t
		}
		for k := range a.Compared {
			if x := &a.Compared[k]; x.Config.Equal(t.Config) {
				c.Outcome = x.Verdict
			}
		}
		c.Outcome = cmp.Or(r.place(out, t), c.Outcome)
	}
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
