package controller

import (
	"context"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// DecideFunc makes one tuning round's decision: what to run from now on, and
// whether it is worth a change. It is one function for online service and
// offline evaluation. The same input gives the same decision, for any number of
// workers. It must return soon after its context ends.
type DecideFunc func(ctx context.Context, in DecideInput) (Decision, error)

// DecideInput is what a round knows.
type DecideInput struct {
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
	// Incumbent is the configuration in force.
	Incumbent space.Config
	// Refused are configurations that the scheduler will not run.
	Refused []space.Config
	// Seed is the scheduler's; a round mixes Round into it.
	Seed uint64
	// Round counts update intervals of event time since the ledger's zero.
	Round int
	Settings
}

// Settings say what a round may cost and what it asks for.
type Settings struct {
	Horizon  time.Duration // arrivals forecast for this long belong to a future
	Futures  int           // per candidate
	Budget   int           // configurations measured
	Workers  int           // 0 means one per processor; no influence on the decision
	MinRatio float64       // least controllable ratio of an adopted configuration
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
	// Details are numbers of the round by name, such as trials or seconds.
	Details map[string]float64
}
