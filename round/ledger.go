package round

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Memory is how far back durations are learnt from, ArrivalMemory arrivals. ReplayMemory is how far back replays of the
// history and the jobs that policies know before them go, on the last day of the oldest stretch. Retention is the most
// a round looks back.
const (
	Memory        = 7 * day
	ArrivalMemory = 28 * day
	ReplayMemory  = stretches*stretchLength + leastOfStretch + warming + schooling
	Retention     = ReplayMemory + time.Hour
)

// Snapshot is the knowledge of a cluster at an instant.
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
	// Scattered is of a scheduler whose policy is a simulator.Scattered.
	Scattered bool
	// Turn runs each simulation.
	Turn Turn
}

// Scattered reports whether the policy of schedulers of a type is a simulator.Scattered.
func Scattered(schedulerType string) bool {
	s, err := schedulers.Find(schedulerType)
	if err != nil {
		return false
	}
	_, ok := s.New(s.Space.Default()).(simulator.Scattered)
	return ok
}

// Past is the jobs that ended until an instant, as far as a ledger goes back.
func Past(l *workload.Ledger, at time.Duration) *simulator.Past {
	ended := l.Finishes(at-ArrivalMemory, at+1)
	// As simulations order jobs, by submission, not by name.
	slices.SortStableFunc(ended, func(a, b workload.Finish) int {
		return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Submit, b.Submit))
	})
	out := make([]simulator.EndedJob, len(ended))
	for i := range ended {
		f := &ended[i]
		out[i] = simulator.EndedJob{Submit: f.Submit, End: f.End, Key: f.Key, Tenant: f.Tenant, GPUs: f.GPUs.Whole(),
			RunTime: f.RunTime + f.Lost, User: f.User, Requested: f.Requested}
	}
	return simulator.NewPast(out)
}

// work returns the progress of a job in the time it held its GPUs, without restarts. The
// slowdown by a spread placement is not known.
func (s *Snapshot) work() func(held time.Duration, starts int, j *workload.Job) time.Duration {
	models := s.Simulator.Models
	if models == nil {
		models = simulator.DefaultModels()
	}
	return func(held time.Duration, starts int, j *workload.Job) time.Duration {
		if starts > 1 && !s.Simulator.Peer.NoRestartCost {
			held -= time.Duration(starts-1) * models.JobRestart(j, j.GPUs.Whole())
		}
		return max(0, held)
	}
}

// Ran is the work that an active job has done, as futures know it.
func (s *Snapshot) Ran(a *workload.ActiveJob) time.Duration { return durations.Ran(a, s.work()) }

// records are the jobs that ended within Memory and the active ones.
func (s *Snapshot) records() []durations.Record { return s.known(s.State.At) }

// known are the records as they were at an instant.
func (s *Snapshot) known(at time.Duration) []durations.Record {
	return durations.Observed(s.Ledger, at, Memory, s.work())
}

// arrivals are the jobs submitted in [from, to) that fit the cluster at present.
func (s *Snapshot) arrivals(from, to time.Duration) []workload.Job {
	now := s.State.Available()
	return slices.DeleteFunc(s.Ledger.Arrivals(from, to), func(j workload.Job) bool { return !now.Fits(&j) })
}

// byID are the records of jobs.
type byID map[string]*durations.Record

func index(records []durations.Record) byID {
	out := make(byID, len(records))
	for i := range records {
		out[records[i].ID] = &records[i]
	}
	return out
}

// of returns the record of a job. One that has none has made no progress until at.
func (r byID) of(j *workload.Job, at time.Duration) durations.Record {
	if known := r[j.ID]; known != nil {
		return *known
	}
	return durations.Record{Job: j, Begin: at, Until: at}
}

// active returns the records of a state's jobs.
func (r byID) active(s *workload.State) []durations.Record {
	out := make([]durations.Record, len(s.Jobs))
	for i := range s.Jobs {
		out[i] = r.of(&s.Jobs[i].Job, s.At)
	}
	return out
}

// fitting drops the jobs that do not fit the cluster at present, which no configuration
// can run. out counts them.
func fitting(s *workload.State) (fit *workload.State, out int) {
	c, now := *s, s.Available()
	c.Jobs = nil
	for i := range s.Jobs {
		if now.Fits(&s.Jobs[i].Job) {
			c.Jobs = append(c.Jobs, s.Jobs[i])
		} else {
			out++
		}
	}
	if out == 0 {
		return s, 0
	}
	return &c, out
}

// Forecast samples n futures: the active jobs with remaining durations, and
// arrivals until the horizon. Jobs that do not fit the cluster are left out. A nil engine
// is a fresh one of the default method.
func (s *Snapshot) Forecast(ctx context.Context, e *generation.Engine, horizon time.Duration, n int,
	seed uint64) ([]Scenario, error) {
	if e == nil {
		e = generation.NewEngine(s.Zero, generation.Method{})
	}
	state, _ := fitting(&s.State)
	records := s.records()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	futures, err := e.Futures(ctx, generation.Request{
		At: state.At, Active: index(records).active(state), Records: records, Known: s.known,
		Submitted: s.arrivals(state.At-ArrivalMemory, state.At),
		Horizon:   horizon, Count: n, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	return scenarios(futures, state, Past(s.Ledger, state.At)), ctx.Err()
}

// LastHour is Since an hour ago, the input of SelfTune.
func (s *Snapshot) LastHour(ctx context.Context, n int, seed uint64) ([]Scenario, error) {
	return s.Since(ctx, s.State.At-time.Hour, n, seed)
}

// Since replays the jobs since an instant n times, from the state then to the end of
// the last job submitted until now. Durations of jobs that have not ended are drawn from
// history.
func (s *Snapshot) Since(ctx context.Context, at time.Duration, n int, seed uint64) ([]Scenario, error) {
	before := s.Ledger.State(at)
	before.Cluster, before.Down, before.Draining = s.State.Cluster, s.State.Down, s.State.Draining // as it is now
	then, _ := fitting(&before)
	records, work := s.records(), s.work()
	known := index(records)
	past := generation.Past{Active: known.active(then), Ran: make([]time.Duration, len(then.Jobs))}
	did := s.Simulator.Work(s.Ledger.Spells(then.At, s.State.At), then.At, s.State.At, s.Scattered)
	for i := range then.Jobs {
		a := &then.Jobs[i]
		past.Ran[i] = work(a.RunTime, a.Starts-a.LostStarts, &a.Job)
		past.Active[i].Ran = past.Ran[i] + did[a.ID]
	}
	for _, j := range s.arrivals(then.At+1, s.State.At+1) {
		r := known.of(&j, s.State.At)
		r.Ran = did[j.ID]
		past.Arrivals = append(past.Arrivals, r)
	}
	replays, err := generation.Replay(ctx, s.Zero, past, records, n, seed)
	return scenarios(replays, then, Past(s.Ledger, then.At)), err
}

func scenarios(futures []generation.Future, state *workload.State, past *simulator.Past) []Scenario {
	out := make([]Scenario, len(futures))
	for i, f := range futures {
		out[i] = Scenario{State: state, Left: f.Left, Arrivals: f.Arrivals, Past: past}
	}
	return out
}
