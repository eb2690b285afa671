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

// Snapshot is what is known of a cluster at an instant.
type Snapshot struct {
	// State is the cluster at the instant.
	State workload.State
	// Ledger holds the history, possibly a little beyond State.At. A DecideFunc may
	// change it until it returns.
	Ledger *workload.Ledger
	// Zero is the wall-clock time of the ledger's instant 0.
	Zero time.Time
	// Simulator says how the scheduler is simulated.
	Simulator simulator.Options
}

// ledgerView is a ledger up to an instant, in the terms of package generation.
type ledgerView struct {
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

func viewLedger(l *workload.Ledger, state *workload.State, o simulator.Options) *ledgerView {
	models := o.Models
	if models == nil {
		models = simulator.DefaultModels()
	}
	v := &ledgerView{at: state.At, gpus: state.Cluster.TotalGPUs(), ledger: l, restart: models.Restart, ended: map[string]time.Duration{}, active: map[string]time.Duration{}}
	if o.Peer.NoRestartCost {
		v.restart = func(int) time.Duration { return 0 }
	}
	// Ends at the instant itself are known.
	for _, f := range l.Finishes(state.At-Memory, state.At+1) {
		ran := v.work(f.RunTime, f.Starts, f.GPUs.Whole())
		v.ended[f.ID] = ran
		v.past = append(v.past, generation.Past{Job: f.Job, Ran: ran, Ended: true})
	}
	for i := range state.Jobs {
		a := &state.Jobs[i]
		v.active[a.ID] = v.work(a.RunTime, a.Starts, a.GPUs.Whole())
	}
	return v
}

// work is what a job has done in the time it held its GPUs: restarts make no
// progress. How much a spread placement slowed it down is not known.
func (v *ledgerView) work(held time.Duration, starts, gpus int) time.Duration {
	if starts > 1 {
		held -= time.Duration(starts-1) * v.restart(gpus)
	}
	return max(0, held)
}

// past of a job, by what is known of it now.
func (v *ledgerView) of(j workload.Job) generation.Past {
	if ran, ok := v.ended[j.ID]; ok {
		return generation.Past{Job: j, Ran: ran, Ended: true}
	}
	return generation.Past{Job: j, Ran: v.active[j.ID]}
}

func (v *ledgerView) activeIn(s *workload.State) []generation.Past {
	out := make([]generation.Past, len(s.Jobs))
	for i := range s.Jobs {
		out[i] = v.of(s.Jobs[i].Job)
	}
	return out
}

func (v *ledgerView) arrivals(from, to time.Duration) []generation.Past {
	var out []generation.Past
	for _, j := range v.ledger.Arrivals(from, to) {
		if j.GPUs.Whole() <= v.gpus {
			out = append(out, v.of(j))
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

// Forecast samples n futures: what is active now with remaining durations, and
// arrivals until the horizon. Jobs wider than the cluster are left out. A nil engine
// is a fresh one of the default method.
func (s *Snapshot) Forecast(ctx context.Context, e *generation.Engine, horizon time.Duration, n int, seed uint64) ([]Scenario, error) {
	if e == nil {
		var err error
		if e, err = generation.NewEngine(s.Zero, generation.DefaultMethod); err != nil {
			return nil, err
		}
	}
	state, _ := fitting(&s.State)
	v := viewLedger(s.Ledger, state, s.Simulator)
	h := generation.History{Records: durations.Observed(s.Ledger, state.At, Memory, v.work)}
	for _, j := range s.Ledger.Arrivals(state.At-ArrivalMemory, state.At) {
		if j.GPUs.Whole() <= v.gpus {
			h.Submitted = append(h.Submitted, j)
		}
	}
	futures, err := e.Futures(ctx, generation.Request{
		At: state.At, Zero: s.Zero, Active: v.activeIn(state), Recent: v.arrivals(state.At-generation.Window, state.At),
		Durations: generation.Learn(v.past), Horizon: horizon, Count: n, Seed: seed,
	}, h)
	return scenarios(futures, state, Services(s.Ledger, state.At)), err
}

// LastHour replays the hour before the state's instant n times, from the state at its
// beginning to the end of its last job: what SelfTune tunes on. Durations of jobs
// that have not ended are drawn from history.
func (s *Snapshot) LastHour(n int, seed uint64) ([]Scenario, error) {
	v := viewLedger(s.Ledger, &s.State, s.Simulator)
	before := s.Ledger.State(s.State.At - generation.Window)
	before.Cluster = s.State.Cluster // as it is now
	then, _ := fitting(&before)
	ran := make([]time.Duration, len(then.Jobs))
	for i := range then.Jobs {
		a := &then.Jobs[i]
		ran[i] = v.work(a.RunTime, a.Starts, a.GPUs.Whole())
	}
	replays, err := generation.Replay(s.Zero, v.activeIn(then), ran, v.arrivals(then.At+1, s.State.At+1), generation.Learn(v.past), n, seed)
	return scenarios(replays, then, Services(s.Ledger, then.At)), err
}

func scenarios(futures []generation.Future, state *workload.State, services []time.Duration) []Scenario {
	out := make([]Scenario, len(futures))
	for i, f := range futures {
		out[i] = Scenario{State: state, Left: f.Left, Arrivals: f.Arrivals, Services: services}
	}
	return out
}
