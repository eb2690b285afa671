package round

import (
	"context"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Memory is how far back durations are learnt from, and ArrivalMemory arrivals;
// Retention is what a round may look back in all.
const (
	Memory        = 7 * 24 * time.Hour
	ArrivalMemory = 28 * 24 * time.Hour
	Retention     = ArrivalMemory + generation.Window
)

// knowledge is a ledger as it looks at an instant, in the terms of generation.
type knowledge struct {
	at      time.Duration
	ledger  *workload.Ledger
	gpus    int // of the cluster
	restart func(gpus int) time.Duration
	// The work done by the jobs that ended within Memory, and by the active ones.
	ended  map[string]time.Duration
	active map[string]time.Duration
	past   []generation.Past
}

// Services are the GPU-times held by the jobs that ended within Memory of an
// instant, in order of their end.
func Services(l *workload.Ledger, at time.Duration) []time.Duration {
	ended := l.Finishes(at-Memory, at+1)
	out := make([]time.Duration, len(ended))
	for i := range ended {
		out[i] = ended[i].RunTime * time.Duration(ended[i].GPUs.Whole())
	}
	return out
}

func know(l *workload.Ledger, state *workload.State, o simulator.Options) *knowledge {
	models := o.Models
	if models == nil {
		models = simulator.DefaultModels()
	}
	k := &knowledge{at: state.At, gpus: state.Cluster.TotalGPUs(), ledger: l, restart: models.Restart, ended: map[string]time.Duration{}, active: map[string]time.Duration{}}
	if o.Peer.NoRestartCost {
		k.restart = func(int) time.Duration { return 0 }
	}
	// Ends at the instant itself are known.
	for _, f := range l.Finishes(state.At-Memory, state.At+1) {
		ran := k.work(f.RunTime, f.Starts, f.GPUs.Whole())
		k.ended[f.ID] = ran
		k.past = append(k.past, generation.Past{Job: f.Job, Ran: ran, Ended: true})
	}
	for i := range state.Jobs {
		a := &state.Jobs[i]
		k.active[a.ID] = k.work(a.RunTime, a.Starts, a.GPUs.Whole())
	}
	return k
}

// work is what a job has done in the time it held its GPUs: restarts make no
// progress. How much a spread placement slowed it down is not known.
func (k *knowledge) work(held time.Duration, starts, gpus int) time.Duration {
	if starts > 1 {
		held -= time.Duration(starts-1) * k.restart(gpus)
	}
	return max(0, held)
}

// past of a job, by what is known of it now.
func (k *knowledge) of(j workload.Job) generation.Past {
	if ran, ok := k.ended[j.ID]; ok {
		return generation.Past{Job: j, Ran: ran, Ended: true}
	}
	return generation.Past{Job: j, Ran: k.active[j.ID]}
}

func (k *knowledge) activeIn(s *workload.State) []generation.Past {
	out := make([]generation.Past, len(s.Jobs))
	for i := range s.Jobs {
		out[i] = k.of(s.Jobs[i].Job)
	}
	return out
}

func (k *knowledge) arrivals(from, to time.Duration) []generation.Past {
	var out []generation.Past
	for _, j := range k.ledger.Arrivals(from, to) {
		if j.GPUs.Whole() <= k.gpus {
			out = append(out, k.of(j))
		}
	}
	return out
}

// fitting is a state without the jobs that ask for more GPUs than the cluster
// has, now that some of it may be down: no configuration can run them, and they
// say nothing about any. out counts them.
func fitting(s *workload.State) (fit *workload.State, out int) {
	total := s.Cluster.TotalGPUs()
	c := *s
	c.Jobs = nil
	for i := range s.Jobs {
		if s.Jobs[i].GPUs.Whole() > total {
			out++
		} else {
			c.Jobs = append(c.Jobs, s.Jobs[i])
		}
	}
	if out == 0 {
		return s, 0
	}
	return &c, out
}

// Futures are the scenarios a round is scored on: what is active now with
// remaining durations, and arrivals until the horizon, as an engine foresees
// them. Jobs wider than the cluster are left out. Without an engine a fresh one
// of the default method is used.
func Futures(ctx context.Context, l *workload.Ledger, state *workload.State, zero time.Time, horizon time.Duration, count int, seed uint64, o simulator.Options, e *generation.Engine) ([]Scenario, error) {
	if e == nil {
		var err error
		if e, err = generation.NewEngine(zero, generation.DefaultMethod); err != nil {
			return nil, err
		}
	}
	state, _ = fitting(state)
	k := know(l, state, o)
	h := generation.History{Records: durations.Observed(l, state.At, Memory, k.work)}
	for _, j := range l.Arrivals(state.At-ArrivalMemory, state.At) {
		if j.GPUs.Whole() <= k.gpus {
			h.Submitted = append(h.Submitted, j)
		}
	}
	futures, err := e.Futures(ctx, generation.Request{
		At: state.At, Zero: zero, Active: k.activeIn(state), Recent: k.arrivals(state.At-generation.Window, state.At),
		Durations: generation.Learn(k.past), Horizon: horizon, Count: count, Seed: seed,
	}, h)
	return scenarios(futures, state, Services(l, state.At)), err
}

// LastHour is what SelfTune tunes on: the hour before the state's instant, from
// the state at its beginning, replayed to the end of its last job. Durations of
// jobs that have not ended by now are drawn from history.
func LastHour(l *workload.Ledger, state *workload.State, zero time.Time, count int, seed uint64, o simulator.Options) ([]Scenario, error) {
	k := know(l, state, o)
	before := l.State(state.At - generation.Window)
	before.Cluster = state.Cluster // as it is now
	then, _ := fitting(&before)
	ran := make([]time.Duration, len(then.Jobs))
	for i := range then.Jobs {
		a := &then.Jobs[i]
		ran[i] = k.work(a.RunTime, a.Starts, a.GPUs.Whole())
	}
	replays, err := generation.Replay(zero, k.activeIn(then), ran, k.arrivals(then.At+1, state.At+1), generation.Learn(k.past), count, seed)
	return scenarios(replays, then, Services(l, then.At)), err
}

func scenarios(futures []generation.Future, state *workload.State, services []time.Duration) []Scenario {
	out := make([]Scenario, len(futures))
	for i, f := range futures {
		out[i] = Scenario{State: state, Left: f.Left, Arrivals: f.Arrivals, Services: services}
	}
	return out
}
