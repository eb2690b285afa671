package round

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/space"
)

// Gained compares the delay of jobs since an instant with that under another configuration. Delay is time without
// progress, in seconds, of the jobs that were active at From or arrived since.
type Gained struct {
	From, To time.Duration
	Jobs     int
	// JobTime is the time that jobs spent in the system, Delay the part of it without progress, as observed.
	JobTime, Delay float64
	// Replayed and Instead are the delay in each replay of what happened, under the configuration that ran and under
	// the other one. Replays differ in what is not known of durations.
	Replayed, Instead []float64
}

// gainedReplays is how often what happened is replayed.
const gainedReplays = 8

// Gain compares what happened since an instant under a configuration, which ran all the time, with what would have
// happened under another one, from the state at that instant on. It returns nil if there was no job.
func Gain(ctx context.Context, in *Input, from time.Duration, applied, instead space.Config) (*Gained, error) {
	look := JudgeInput{Snapshot: in.Snapshot, Scheduler: in.Scheduler, Goal: in.Goal, Seed: in.seed(),
		Prediction: &Prediction{At: from, Applied: applied, LastGood: instead}}
	_, marks, err := look.replay(ctx, gainedReplays)
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &Gained{From: from, To: in.State.At}
	out.Jobs, out.JobTime, out.Delay = in.spent(from)
	for i := range marks {
		out.Replayed = append(out.Replayed, marks[i][0].Delay)
		out.Instead = append(out.Instead, marks[i][0].InsteadDelay)
	}
	return out, nil
}

// Ended reports whether all replays ended within their budget of events.
func (g *Gained) Ended() bool {
	for i := range g.Instead {
		if max(g.Replayed[i], g.Instead[i]) >= math.MaxFloat32 {
			return false
		}
	}
	return true
}

// Range is the least, the mean and the most of replays.
func Range(replays []float64) (low, mean, high float64) {
	return slices.Min(replays), stats.Mean(replays), slices.Max(replays)
}

// Saved is the delay that was saved: the mean of the replays, and the least and the most of them, with what ran taken
// as it was replayed and as it was observed, so that an error of the simulation widens the range.
func (g *Gained) Saved() (low, middle, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	saved := make([]float64, len(g.Instead))
	for i, instead := range g.Instead {
		saved[i] = instead - g.Replayed[i]
		low = min(low, saved[i], instead-g.Delay)
		high = max(high, saved[i], instead-g.Delay)
	}
	return low, stats.Mean(saved), high
}
