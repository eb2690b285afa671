package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

var serviceParams = []space.Param{
	{ID: "queues", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Int(3)},
	{ID: "order", Kind: space.KindCategorical, Categories: []string{"a", "b"}, Default: space.Text("a")},
}

// origin is the first event's day; event times count from it.
var origin = time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC)

type harness struct {
	t       testing.TB
	dir     string
	repo    stores.Store
	service *controller.Service
	decide  round.DecideFunc
	wrap    func(controller.Store) controller.Store // nil: the store itself
	now     func() time.Time                        // nil: time.Now
	retain  time.Duration
	keep    int // records of rounds
	energy  func() *energy.Tariff
	events  int

	roundLimit time.Duration

	trials func(scheduler, metric string, sp *space.Space) []effects.Group // nil for none
	mu     sync.Mutex
	looks  []controller.Look
	purged []string
}

// run runs a service until it is closed.
func run(s *controller.Service, h controller.Hooks) {
	go func() { _ = s.Run(context.Background(), h) }()
}

func start(t *testing.T, decide round.DecideFunc) *harness {
	t.Helper()
	h := &harness{t: t, dir: t.TempDir(), decide: decide}
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *harness) open() {
	h.t.Helper()
	var err error
	if h.repo, err = stores.Open(h.dir, store.Options{Now: h.now}); err != nil {
		h.t.Fatal(err)
	}
	s := controller.Store(h.repo)
	if h.wrap != nil {
		s = h.wrap(s)
	}
	if h.service, err = controller.NewService(controller.Options{Store: s, Decide: h.decide,
		Workers: 1,
		Now:     h.now, Energy: h.energy, Retain: h.retain, KeepRounds: h.keep, RoundLimit: h.roundLimit}); err != nil {
		h.t.Fatal(err)
	}
	run(h.service, h.hooks())
	<-h.service.Rebuilt()
}

// hooks note their calls.
func (h *harness) hooks() controller.Hooks {
	return controller.Hooks{Trials: h.trials,
		Look: func(_ string, l controller.Look) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.looks = append(h.looks, l)
		},
		Purged: func(id string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.purged = append(h.purged, id)
		}}
}

// seen is the number of looks.
func (h *harness) seen() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.looks)
}

func (h *harness) close() {
	h.service.Close()
	if err := h.repo.Close(); err != nil {
		h.t.Error(err)
	}
}

// promptly is the default policy, whose rounds wait for no late events.
func promptly() controller.Policy {
	p := controller.DefaultPolicy()
	p.AllowedLateness = 0
	return p
}

func (h *harness) register(id string, mode controller.Mode) { h.registerLate(id, mode, 0) }

// registerLate registers a scheduler whose rounds wait for late events.
func (h *harness) registerLate(id string, mode controller.Mode, lateness time.Duration) {
	h.t.Helper()
	policy := promptly()
	policy.AllowedLateness = lateness
	_, err := h.service.Register(context.Background(), controller.Call{}, controller.Registration{
		ID: id, Type: "test", Params: serviceParams, Objective: "avg_jct", Cluster: workload.Uniform(4, 8),
		Policy: policy, Mode: mode,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// submit ingests one submission at a time since origin.
func (h *harness) submit(id string, at time.Duration) {
	h.t.Helper()
	h.events++
	_, err := h.service.Ingest(context.Background(), controller.Call{}, id,
		[]workload.Event{submission(fmt.Sprint("e", h.events), at)})
	if err != nil {
		h.t.Fatal(err)
	}
}

func submission(id string, at time.Duration) workload.Event {
	return workload.Event{ID: id, Kind: workload.Submitted, Time: time.Duration(origin.UnixNano()) + at,
		Job: workload.Job{ID: "job-" + id, GPUs: workload.GPUs(1)}}
}

// patience is how long a test waits for work that takes milliseconds, unless the machine is busy.
const patience = 2 * time.Minute

// rounds waits until a scheduler has had a number of rounds.
func (h *harness) rounds(id string, n int64) controller.Status {
	h.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, st, err := h.service.Scheduler(id)
		if err != nil {
			h.t.Fatal(err)
		}
		if st.Rounds >= n {
			return st
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%d rounds, want %d", st.Rounds, n)
		}
	}
}

func (h *harness) current(id string) *rollout.Configuration {
	h.t.Helper()
	c, err := h.service.Current(id, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *harness) ack(id string, revision int64, state rollout.AckState) int64 {
	h.t.Helper()
	_, now, err := h.service.Acknowledge(context.Background(), controller.Call{}, id, revision,
		rollout.Ack{State: state})
	if err != nil {
		h.t.Fatal(err)
	}
	return now
}

// adopt always adopts a number of queues that the round gives.
func adopt(queues func(in round.Input) int) round.DecideFunc {
	return func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent.With("queues", space.Int(queues(in))), Adopt: true, Reason: "test",
			Ratio: 1.2}, nil
	}
}

func byRound(in round.Input) int { return 1 + in.Round%9 }

func TestRoundsRunOnEventTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	var inputs []round.Input
	var mu sync.Mutex
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		mu.Lock()
		defer mu.Unlock()
		inputs = append(inputs, in)
		return round.Decision{Config: in.Incumbent, Reason: "nothing better", Ratio: 1}, nil
	})
	defer h.close()
	h.register("s", controller.Auto)
	h.submit("s", 10*time.Hour+30*time.Minute)
	h.submit("s", 10*time.Hour+59*time.Minute)
	h.submit("s", 11*time.Hour) // belongs to the round at 11 h, so it does not start it
	if _, st, _ := h.service.Scheduler("s"); st.Rounds != 0 {
		t.Fatal("a round before its time")
	}
	h.submit("s", 11*time.Hour+time.Second)
	st := h.rounds("s", 1)
	h.submit("s", 10*time.Hour) // late: starts nothing
	h.submit("s", 14*time.Hour+time.Second)
	h.rounds("s", 2)
	if !st.EventTime.Equal(origin.Add(11*time.Hour+time.Second)) || st.LastDecision != "kept: nothing better" {
		t.Errorf("status %+v", st)
	}
	if len(inputs) != 2 {
		t.Fatalf("%d decisions, want 2: passed rounds become one", len(inputs))
	}
	first, second := inputs[0], inputs[1]
	if first.Round != 11 || first.State.At != 11*time.Hour || !first.Zero.Equal(origin) || len(first.State.Jobs) != 3 ||
		first.Scheduler != "test" || first.Guard != round.DefaultSettings().Guard {
		t.Errorf("first input %+v", first)
	}
	if second.Round != 14 || len(second.State.Jobs) != 5 {
		t.Errorf("second input: round %d with %d jobs", second.Round, len(second.State.Jobs))
	}
	if c := h.current("s"); c.Revision != 1 || c.Origin != rollout.FromDefault {
		t.Errorf("current is %+v", c)
	}
	h.service.Close()
	if _, err := h.service.Current("s", ""); !errors.Is(err, controller.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestDeadlinesReachRounds: as long after the submission as the event said, on
// the clock of the round, also after a restart. One at the zero of that clock, a
// midnight, is a nanosecond later, as a workload's are: there 0 is none.
func TestDeadlinesReachRounds(t *testing.T) {
	t.Run("later", func(t *testing.T) { deadlineReachesRounds(t, 90*time.Minute, 90*time.Minute) })
	t.Run("at zero", func(t *testing.T) { deadlineReachesRounds(t, -10*time.Minute, -10*time.Minute+1) })
}

func deadlineReachesRounds(t *testing.T, after, want time.Duration) {
	var seen atomic.Int64
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		for _, j := range in.State.Jobs {
			if j.Deadline != 0 {
				seen.Store(int64(j.Deadline - j.Submit))
			}
		}
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	})
	h.register("s", controller.Auto)
	e := submission("due", 10*time.Minute)
	e.Job.Deadline = e.Time + after
	if _, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{e}); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 2; n++ {
		h.submit("s", time.Duration(n)*time.Hour+time.Minute)
		h.rounds("s", 1) // counted since it opened
		if got := time.Duration(seen.Swap(0)); got != want {
			t.Errorf("round %d sees a deadline %v after the submission, want %v", n, got, want)
		}
		h.close()
		h.open()
	}
}

func TestLaterTriggersCoalesce(t *testing.T) {
	release := make(chan struct{})
	var running, most, calls atomic.Int32
	var last atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		calls.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		last.Store(int64(in.Round))
		if in.Round == 9 && len(in.State.Jobs) != 10 {
			t.Errorf("the second round sees %d jobs, want the 10 submitted until 9 h", len(in.State.Jobs))
		}
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	})
	h.register("s", controller.Auto)
	for i := range 11 {
		h.submit("s", time.Duration(i)*time.Hour-time.Duration(i)*time.Minute)
	}
	close(release)
	h.rounds("s", 2)
	if calls.Load() != 2 || most.Load() != 1 || last.Load() != 9 {
		t.Errorf("%d decisions, %d at once, the last of round %d; want 2, 1, 9", calls.Load(), most.Load(), last.Load())
	}
}

func TestModes(t *testing.T) {
	h := start(t, adopt(byRound))
	h.register("rec", controller.Recommend)
	h.register("auto", controller.Auto)
	for _, id := range []string{"rec", "auto"} {
		h.submit(id, 0)
		h.submit(id, time.Hour+1)
		h.rounds(id, 1)
		h.submit(id, 2*time.Hour+1)
		h.rounds(id, 2)
	}
	if c := h.current("auto"); c.Revision != 3 || c.State != rollout.Published || c.Config.Get("queues").Int() != 3 ||
		c.Evidence.Incumbent != 1 {
		t.Errorf("auto runs %+v", c)
	}
	if c, _ := h.service.Configuration("auto", 2); c.State != rollout.Superseded {
		t.Errorf("auto's revision 2 is %s", c.State)
	}
	if c := h.current("rec"); c.Revision != 1 {
		t.Errorf("recommend made revision %d current", c.Revision)
	}
	// Round 1 proposes 2 queues, round 2 the default of 3, which runs already.
	proposed, err := h.service.Configuration("rec", 2)
	if err != nil || proposed.State != rollout.Proposed {
		t.Fatalf("revision 2 is %+v, %v", proposed, err)
	}
	if _, err := h.service.Configuration("rec", 3); !errors.Is(err, controller.ErrNotFound) ||
		!strings.Contains(err.Error(), "autosched scheduler config list rec") {
		t.Error("what runs already was proposed")
	}
	// A scheduler that applies the proposal does not approve it; an operator does.
	if now := h.ack("rec", 2, rollout.AckApplied); now != 1 {
		t.Errorf("after the acknowledgement %d is current", now)
	}
	if _, st, err := h.service.Scheduler("rec"); !strings.Contains(st.Degraded, "revision 2, which was not offered") {
		t.Errorf("it runs a proposal, and is degraded because %q, %v", st.Degraded, err)
	}
	_, err = h.service.Approve(context.Background(), controller.Call{}, "rec", rollout.Approve{Revision: 2,
		Applied: true}, nil)
	if c := h.current("rec"); err != nil || c.Revision != 2 || c.State != rollout.RolledOut {
		t.Errorf("approved: %+v, %v", c, err)
	}
	if all, _ := h.service.Configurations("auto", 0, 2); len(all) != 2 || all[0].Revision != 3 || all[1].Revision != 2 {
		t.Errorf("listed %v", all)
	}
}

func TestNothingOutsideTheSpaceIsPublished(t *testing.T) {
	testshared.Full(t)
	other, err := space.New([]space.Param{{ID: "queues",
		Kind: space.KindInt, Min: 1, Max: 1000, Default: space.Int(500)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bad := []func(in round.Input) round.Decision{
		func(in round.Input) round.Decision {
			return round.Decision{Config: in.Incumbent.With("queues", space.Int(10)), Adopt: true, Ratio: 2}
		},
		func(round.Input) round.Decision {
			return round.Decision{Config: other.Default(), Adopt: true, Ratio: 2}
		},
		func(round.Input) round.Decision { return round.Decision{Adopt: true, Ratio: 2} },
		func(round.Input) round.Decision { panic("out of luck") },
	}
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		return bad[(in.Round-1)%len(bad)](in), nil
	})
	h.register("s", controller.Auto)
	h.submit("s", 0)
	for i := range bad {
		h.submit("s", time.Duration(i+1)*time.Hour+1)
		if st := h.rounds("s", int64(i+1)); st.LastError == "" {
			t.Errorf("round %d left no error", i+1)
		}
	}
	if c := h.current("s"); c.Revision != 1 {
		t.Errorf("revision %d was published: %s", c.Revision, c.Config)
	}
}

func TestRestartContinues(t *testing.T) {
	var block atomic.Bool
	var seen atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		if block.Load() {
			<-ctx.Done()
			return round.Decision{}, ctx.Err()
		}
		seen.Store(int64(len(in.State.Jobs)))
		return adopt(byRound)(ctx, in)
	})
	h.register("s", controller.Auto)
	h.submit("s", 0)
	h.submit("s", time.Hour+1)
	h.rounds("s", 1)
	h.ack("s", 2, rollout.AckApplied)
	block.Store(true)
	h.submit("s", 2*time.Hour+1) // this round is cut
	h.close()
	block.Store(false)
	h.open()
	h.rounds("s", 1) // and decided again
	if seen.Load() != 2 {
		t.Errorf("the round saw %d jobs, want 2", seen.Load())
	}
	c, st, err := h.service.Scheduler("s")
	if err != nil || c.AcknowledgedRevision != 2 || c.OfferedRevision != 3 || st.Events != 3 || !c.Zero.Equal(origin) {
		t.Errorf("after the restart %+v, %+v, %v", c, st, err)
	}
	res, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{submission("e1", 0),
		submission("new", 0)})
	if err != nil || res.Duplicates != 1 || res.Accepted != 1 {
		t.Errorf("ingest after the restart: %+v, %v", res, err)
	}
}

// TestObjectiveIsRead: one that is none is refused when it is set, not by rounds.
func TestObjectiveIsRead(t *testing.T) {
	h := start(t, adopt(byRound))
	h.register("s", controller.Auto)
	ctx, want := context.Background(), `scheduler "s": objective: `
	_, err := h.service.Modify(ctx, controller.Call{}, "s",
		func(s *controller.Scheduler) error { s.Objective = "fun"; return nil })
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("modified: %v", err)
	}
	got, _, err := h.service.Scheduler("s")
	if err != nil || got.Objective != "avg_jct" {
		t.Errorf("the objective is %q, %v", got.Objective, err)
	}
	reg := got.Registration
	reg.ID, reg.Objective = "r", "fun"
	if _, err := h.service.Register(ctx, controller.Call{}, reg); err == nil || !strings.Contains(err.Error(), `scheduler "r"`) {
		t.Errorf("registered: %v", err)
	}
	if ids := h.service.Schedulers("", 9); len(ids) != 1 {
		t.Errorf("schedulers %v", ids)
	}
}

func TestRegisterTwice(t *testing.T) {
	h := start(t, adopt(byRound))
	reg := controller.Registration{ID: "s", Type: "test", Params: serviceParams, Objective: "avg_jct",
		Cluster: workload.Uniform(1, 8), Policy: promptly(), Mode: controller.Auto}
	ctx := context.Background()
	if _, err := h.service.Register(ctx, controller.Call{DryRun: true}, reg); err != nil ||
		len(h.service.Schedulers("", 9)) != 0 {
		t.Fatalf("validate only: %v", err)
	}
	if _, err := h.service.Register(ctx, controller.Call{}, reg); err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Register(ctx, controller.Call{}, reg); !errors.Is(err, controller.ErrExists) {
		t.Errorf("another registration: %v", err)
	}
	reg.Params = []space.Param{{ID: "x", Kind: space.KindInt, Min: 3, Max: 1}}
	var v space.Violations
	if _, err := h.service.Register(ctx, controller.Call{}, reg); !errors.As(err, &v) {
		t.Errorf("a broken space: %v", err)
	}
}

// A decision that panics may have changed the ledger: the next round sees what is
// on disk, with the events that came meanwhile.
func TestALedgerIsRebuiltAfterAPanic(t *testing.T) {
	deciding, ingested := make(chan struct{}), make(chan struct{})
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		if in.Round == 1 {
			close(deciding)
			<-ingested
			in.Ledger.Forget(1000 * time.Hour)
			in.Ledger.Apply(workload.Event{ID: "none",
				Kind: workload.Submitted, Time: time.Hour, Job: workload.Job{ID: "none", GPUs: 1}})
			panic("half way")
		}
		return keep(ctx, in)
	})
	h.register("s", controller.Auto)
	for i := range 3 {
		h.submit("s", time.Duration(i+1)*time.Minute)
	}
	h.submit("s", time.Hour+1)
	<-deciding
	h.submit("s", time.Hour+2)
	close(ingested)
	if st := h.rounds("s", 1); st.Failures != 1 || !strings.Contains(st.LastError, "half way") {
		t.Errorf("%+v", st)
	}
	h.submit("s", time.Hour+1) // an event of its own
	h.submit("s", 2*time.Hour+1)
	if st := h.rounds("s", 2); st.LastDecision != "kept: round 2 of 6 jobs" || st.Events != 7 {
		t.Errorf("%+v", st)
	}
}

// Rounds simulate a scheduler as it was registered, after a restart too.
func TestSimulationBelongsToTheRegistration(t *testing.T) {
	var mu sync.Mutex
	protected := map[string]simulator.Protection{}
	models := map[string]bool{}
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		mu.Lock()
		defer mu.Unlock()
		protected[in.Goal.String()], models[in.Goal.String()] = in.Simulator.Protect, in.Simulator.Models != nil
		return keep(ctx, in)
	})
	for i, c := range []struct {
		objective string
		s         controller.Simulation
	}{
		{"avg_jct", controller.Simulation{}},
		{"p99_jct", controller.Simulation{MaxPreemptions: 3, MinRun: time.Minute,
			Models: simulator.DefaultModelSpec()}},
	} {
		_, err := h.service.Register(t.Context(), controller.Call{}, controller.Registration{
			ID: fmt.Sprint("s", i), Type: "test",
			Params: serviceParams, Objective: c.objective, Cluster: workload.Uniform(4, 8),
			Policy: promptly(), Mode: controller.Auto, Simulation: c.s,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.close()
	h.open()
	for _, id := range []string{"s0", "s1"} {
		h.submit(id, time.Minute)
		h.submit(id, time.Hour+1)
		h.rounds(id, 1)
	}
	mu.Lock()
	defer mu.Unlock()
	if p := protected["avg_jct"]; p != (simulator.Protection{}) || models["avg_jct"] {
		t.Errorf("a registration without a simulation has %+v, models %v", p, models["avg_jct"])
	}
	if p := protected["p99_jct"]; p != (simulator.Protection{MaxPreemptions: 3, MinRun: time.Minute}) ||
		!models["p99_jct"] {
		t.Errorf("%+v, models %v", p, models["p99_jct"])
	}
}

// A ledger that could not be rebuilt after a panic is left alone: the rounds fail
// until it can.
func TestABrokenLedgerIsNotUsed(t *testing.T) {
	var failing atomic.Bool
	u := &storetest.Faulty{Store: storetest.NewMemory(), OnReplay: func() error {
		if failing.Load() {
			return errors.New("unreadable")
		}
		return nil
	}}
	decided := 0
	h := &harness{t: t}
	var err error
	h.service, err = controller.NewService(controller.Options{Store: u,
		Decide: func(ctx context.Context, in round.Input) (round.Decision, error) {
			if decided++; decided == 1 {
				in.Ledger.Forget(1000 * time.Hour)
				panic("half way")
			}
			return keep(ctx, in)
		}})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	defer h.service.Close()
	h.register("s", controller.Auto)
	failing.Store(true)
	h.submit("s", time.Minute)
	for n, want := range []string{"controller: decision panicked: half way; controller: unreadable",
		"controller: unreadable"} {
		h.submit("s", time.Duration(n+1)*time.Hour+1)
		if st := h.rounds("s", int64(n+1)); st.LastError != want {
			t.Errorf("after %d rounds %+v, want the error %q", n+1, st, want)
		}
	}
	failing.Store(false)
	h.submit("s", 9*time.Hour+1)
	if st := h.rounds("s", 3); st.LastDecision != "kept: round 9 of 3 jobs" || st.LastError != "" {
		t.Errorf("%+v", st)
	}
}
