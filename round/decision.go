package round

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// DecideFunc makes one tuning round's decision: what to run from now on, and
// whether it is worth a change. It is one function for online service and
// offline evaluation. The same input gives the same decision, for any number of
// workers. It must return soon after its context ends.
type DecideFunc func(ctx context.Context, in Input) (Decision, error)

// Input is what a round knows.
type Input struct {
	// Scheduler is the built-in type whose simulated policy evaluates
	// configurations, such as "tiresias".
	Scheduler string
	// Space is the scheduler's registered space, perhaps narrower than the
	// built-in's.
	Space *space.Space
	// Objective is the metric to improve.
	Objective string
	// State is the cluster at the instant of the round.
	State workload.State
	// Ledger holds the history, possibly a little beyond State.At. It is the
	// round's alone until DecideFunc returns.
	Ledger *workload.Ledger
	// Engine remembers what was learnt from the ledger in earlier rounds, to save
	// time; nil is a fresh one. It is the round's alone until DecideFunc returns.
	Engine *generation.Engine
	// Zero is the wall-clock time of the ledger's instant 0.
	Zero time.Time
	// Simulator says how the scheduler is simulated.
	Simulator simulator.Options
	// Incumbent is the configuration in force.
	Incumbent space.Config
	// Refused are configurations that the scheduler will not run.
	Refused []space.Config
	// Seed is the scheduler's; a round mixes Round into it.
	Seed uint64
	// Round counts update intervals of event time since the ledger's zero.
	Round int
	// Experience is the Decision.Experience of the round before; none for the first. What
	// cannot be read counts for nothing.
	Experience json.RawMessage
	Settings
}

// Settings say what a round may cost and what it asks for.
type Settings struct {
	Horizon  time.Duration // arrivals forecast for this long belong to a future
	Futures  int           // per candidate
	Budget   int           // configurations measured
	Workers  int           // 0 means one per processor; no influence on the decision
	MinRatio float64       // least controllable ratio of an adopted configuration
	// Search is one of Searches: what is measured besides the default and the
	// incumbent; "" is SearchAuto.
	Search string
	// Always adopts what is best on average whatever it gains, as the paper does;
	// only evaluations ask for it.
	Always bool
}

// Decision is a round's outcome.
type Decision struct {
	// Config is the best configuration found, the incumbent if none was better.
	Config space.Config
	// Adopt says that Config should replace the incumbent, by the rule of
	// Settings.
	Adopt bool
	// Reason says why or why not, in a sentence for people.
	Reason string
	// Ratio is the incumbent's controllable objective over that of the best
	// candidate, whether it was adopted or not; above 1 is better. 1 if there is
	// no candidate.
	Ratio float64
	// Interval is where Ratio lies with a probability of 95 %, as far as the futures
	// tell; the zero Interval if there are too few.
	Interval Interval
	// Search is SearchPortfolio or SearchFull, Why says why, in a sentence for
	// people. Both are empty if there was nothing to measure on.
	Search, Why string
	// Candidates are what was measured, in order.
	Candidates []Candidate
	// Experience is for the next round: what won so far, and in what situations. It
	// changes nothing but what is measured.
	Experience json.RawMessage
	// Details are numbers of the round by name, such as trials or seconds.
	Details map[string]float64
}

// Candidate is a configuration that a round measured.
type Candidate struct {
	// Origin says where it comes from: default, incumbent, preset:NAME, like:round-N
	// or past:round-N (a winner of that round, remembered because the situation was
	// the one most like the present or because it won most often), or a sampler.
	Origin string `json:"origin"`
	// Ratio is that of Decision, on the futures that were searched on: 0 if it could
	// not be measured.
	Ratio float64 `json:"ratio"`
	// Agrees says that it is better than the incumbent in every one of them.
	Agrees bool `json:"agrees,omitempty"`
}

// candidates lists trials, compared with the incumbent.
func candidates(trials []search.Trial, incumbent search.Trial) []Candidate {
	out := make([]Candidate, len(trials))
	for i, t := range trials {
		g := search.Gain(t, incumbent)
		out[i] = Candidate{Origin: t.Origin, Ratio: math.Round(1e4*g.Ratio) / 1e4, Agrees: g.BetterInEvery}
	}
	return out
}
