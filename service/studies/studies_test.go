package studies_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
	"github.com/autosched/autosched/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a service on a directory, which can be opened again.
type house struct {
	t          *testing.T
	dir        string
	store      stores.Store
	failing    atomic.Bool  // changes of studies fail
	ahead      atomic.Int64 // of the clock, in nanoseconds
	schedulers *controller.Service
	evaluators map[string]studies.Evaluator
	*studies.Service
	stop func()
}

// EnqueueStudy fails now and then if the house is failing.
func (h *house) EnqueueStudy(c studies.Change) func() error {
	if h.failing.Load() && rand.IntN(5) == 0 {
		return func() error { return errors.New("the disk fails") }
	}
	return h.store.EnqueueStudy(c)
}

func (h *house) LoadStudies() ([]studies.Saved, []controller.Damage, error) {
	return h.store.LoadStudies()
}

func (h *house) open() {
	h.t.Helper()
	var err error
	if h.store, err = stores.Open(h.dir, store.Options{}); err != nil {
		h.t.Fatal(err)
	}
	never := func(context.Context, round.Input) (round.Decision, error) {
		panic("an external scheduler has no rounds")
	}
	if h.schedulers, err = controller.NewService(controller.Options{Store: h.store, Decide: never,
		Workers: 1}); err != nil {
		h.t.Fatal(err)
	}
	now := func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }
	if h.Service, err = studies.New(studies.Options{Store: h, Schedulers: h.schedulers, Now: now,
		Evaluators: h.evaluators}); err != nil {
		h.t.Fatal(err)
	}
	hooks := controller.Hooks{Trials: h.Trials, Purged: h.Forget}
	schedulers := h.schedulers
	go func() { _ = schedulers.Run(context.Background(), hooks) }()
	ctx, cancel := context.WithCancel(context.Background())
	ended, studies := make(chan error, 1), h.Service
	go func() { ended <- studies.Run(ctx) }()
	h.stop = func() {
		cancel()
		<-ended
	}
}

func (h *house) close() {
	h.stop()
	h.schedulers.Close()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// newHouse has an external scheduler s with a study first.
func newHouse(t *testing.T, spec study.Spec) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	h.open()
	t.Cleanup(func() { h.close() })
	reg := controller.Registration{ID: "s", Type: controller.External, Objective: "wait", Mode: controller.Recommend,
		Cluster: workload.Uniform(1, 8), Policy: controller.DefaultPolicy(), Params: []space.Param{
			{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.9)}}}
	if _, err := h.schedulers.Register(t.Context(), controller.Call{}, reg); err != nil {
		t.Fatal(err)
	}
	spec.Metric = "wait"
	call := controller.Call{Origin: audit.Origin{Actor: "ann", Verb: "CreateStudy"}}
	if _, err := h.Create(t.Context(), call, "s", study.Record{ID: "first", Spec: spec}); err != nil {
		t.Fatal(err)
	}
	return h
}

func anyway(*study.Record) error { return nil }

func waited(v float64) *study.Measurement {
	return &study.Measurement{Metrics: map[string]float64{"wait": v}}
}

// Sixteen clients share a study on a disk that fails now and then: answered trials stay, each
// configuration is measured once, and the disk has the answers.
func TestClientsOnAFailingDisk(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "sobol", Budget: 60, Lease: time.Hour})
	h.failing.Store(true)
	var mu sync.Mutex
	answered := map[int64]float64{}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for {
				_, held, err := h.Suggest(t.Context(), "s", "first", fmt.Sprint(i), 1)
				if errors.Is(err, study.ErrBudget) {
					return
				}
				if err != nil || len(held) == 0 {
					continue
				}
				v := float64(held[0].ID)
				for {
					e := study.Complete{Trial: held[0].ID, Final: waited(v)}
					_, got, err := h.Do(t.Context(), controller.Call{}, "s", "first", held[0].ID, e)
					if err == nil {
						if got.State != study.Succeeded {
							t.Errorf("trial %d is %s", got.ID, got.State)
						}
						break
					}
				}
				mu.Lock()
				if _, twice := answered[held[0].ID]; twice {
					t.Errorf("trial %d was given twice", held[0].ID)
				}
				answered[held[0].ID] = v
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	h.failing.Store(false)
	before, err := h.Study("s", "first")
	if err != nil {
		t.Fatal(err)
	}
	h.close()
	h.open()
	after, err := h.Study("s", "first")
	if err != nil {
		t.Fatal(err)
	}
	if after.Version != before.Version || after.Phase != study.Completed ||
		len(after.Trials) != 60 || len(answered) != 60 {
		t.Errorf("%s at version %d of %d with %d trials, %d answered", after.Phase, after.Version, before.Version,
			len(after.Trials), len(answered))
	}
	seen := map[string]bool{}
	for _, one := range after.Trials {
		if one.Final.Metrics["wait"] != answered[one.ID] || seen[one.Config.Hash()] {
			t.Errorf("trial %d: %+v, seen %v", one.ID, one.Final, seen[one.Config.Hash()])
		}
		seen[one.Config.Hash()] = true
	}
}

// Leases expire by themselves, and begin anew when the service starts.
func TestLeasesExpire(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 9, Lease: time.Hour})
	if _, _, err := h.Suggest(t.Context(), "s", "first", "a", 1); err != nil {
		t.Fatal(err)
	}
	h.ahead.Store(int64(2 * time.Hour))
	h.close()
	h.open()
	if s, err := h.Study("s", "first"); err != nil || s.Trials[0].State != study.Running {
		t.Errorf("after a start: %v, %v", s.Trials, err)
	}
	h.ahead.Store(int64(4 * time.Hour))
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s, err := h.Study("s", "first")
		if err == nil && s.Trials[0].State == study.Stale {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the lease did not expire")
		}
	}
}

// logged returns the first field of the records of an actor, the last first.
func (h *house) logged(t *testing.T, actor string, limit int) (fields []string) {
	t.Helper()
	log, err := h.schedulers.AuditLog(0, "schedulers/s", limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range log {
		if r.Actor == actor {
			text, _ := json.Marshal(r.Fields[0])
			fields = append(fields, string(text))
		}
	}
	return fields
}

// Changes of the states of trials are in the audit log with the actor; measurements and renewals are not.
func TestAuditOfTrials(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 9, Lease: time.Hour})
	ctx, call := t.Context(), controller.Call{Origin: audit.Origin{Actor: "host", Verb: "Test"}}
	_, held, err := h.Suggest(t.Context(), "s", "first", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	sp, _ := h.schedulers.Space("s")
	for _, e := range []study.Event{
		study.Measure{Trial: held[0].ID, Measurement: *waited(9)},
		study.Renew{Trial: held[0].ID},
		study.Complete{Trial: held[0].ID, Final: waited(7)},
		study.Complete{Trial: held[0].ID, Final: waited(7)},
		study.Create{Config: sp.Default().With("x", space.Num(.25))},
		study.Stop{Trial: 2},
	} {
		if _, _, err := h.Do(ctx, call, "s", "first", held[0].ID, e); err != nil {
			t.Fatalf("%T: %v", e, err)
		}
	}
	got := h.logged(t, "host", 9)
	want := []string{`{"name":"studies/first/trials/2.state","before":"\"requested\"","after":"\"skipped\""}`,
		`{"name":"studies/first/trials/2.state","after":"\"requested\""}`,
		`{"name":"studies/first/trials/1.state","before":"\"active\"","after":"\"succeeded\""}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	log, _ := h.schedulers.AuditLog(0, "schedulers/s", 9)
	if f := log[2].Fields; len(f) != 2 || f[1].Name != "studies/first/trials/1.wait" || f[1].After != "7" {
		t.Errorf("of the result: %+v", f)
	}
}

// A study's trial becomes a proposal with its evidence; operators' changes are in the audit log; what is
// deleted or purged is gone.
func TestProposeAndDelete(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 9, Lease: time.Hour, Maximize: true})
	ctx, call := t.Context(), controller.Call{Origin: audit.Origin{Actor: "ann", Verb: "Test"}}
	for i := range 3 {
		_, held, err := h.Suggest(t.Context(), "s", "first", "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		e := study.Complete{Trial: held[0].ID, Final: waited(float64(i+1) * 10)}
		if _, _, err := h.Do(ctx, call, "s", "first", held[0].ID, e); err != nil {
			t.Fatal(err)
		}
	}
	best, err := h.Best("s", "first")
	if err != nil || best == nil || best.Final.Metrics["wait"] != 30 {
		t.Fatalf("best: %+v, %v", best, err)
	}
	c, err := h.Propose(ctx, call, "s", "first", best.ID)
	if err != nil || c.State != rollout.Proposed || c.Origin != rollout.FromStudy || c.Evidence.Ratio < 2.99 ||
		c.Evidence.Ratio > 3.01 || c.Evidence.Trial != "schedulers/s/studies/first/trials/3" {
		t.Errorf("proposed: %+v, %v", c, err)
	}
	if _, err := h.Propose(ctx, call, "s", "first", best.ID); !errors.Is(err, rollout.ErrState) {
		t.Errorf("proposed again: %v", err)
	}
	if _, err := h.Propose(ctx, call, "s", "first", 1); !errors.Is(err, rollout.ErrState) {
		t.Errorf("what runs already: %v", err)
	}
	if _, err := h.Operate(ctx, call, "s", "first", study.Pause{}, anyway); err != nil {
		t.Fatal(err)
	}
	dry := call
	dry.DryRun = true
	for _, one := range []controller.Call{dry, call} { // the first deletes nothing
		if err := h.Delete(ctx, one, "s", "first", anyway); err != nil {
			t.Fatal(err)
		}
	}
	fields := h.logged(t, "ann", 9)
	want := []string{`{"name":"studies/first.phase","before":"\"paused\""}`,
		`{"name":"studies/first.phase","before":"\"active\"","after":"\"paused\""}`,
		`{"name":"configurations/2.origin","after":"\"study\""}`,
		`{"name":"studies/first/trials/3.state","before":"\"active\"","after":"\"succeeded\""}`}
	if len(fields) != 7 || fields[0] != want[0] || fields[1] != want[1] || fields[3] != want[3] {
		t.Errorf("audit log: %q, want %q", fields, want)
	}
	h.close()
	h.open()
	if _, err := h.Study("s", "first"); !errors.Is(err, controller.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	again := study.Record{ID: "first", Spec: study.Spec{Budget: 1, Metric: "wait"}}
	if _, err := h.Create(ctx, call, "s", again); err != nil {
		t.Errorf("the id of a deleted study: %v", err)
	}
}

// The causal model of an external scheduler is learnt from the trials that its studies measured, and says of
// a configuration its gain.
func TestCausalModel(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 60, Lease: time.Hour})
	x := func(c space.Config) float64 { return c.Get("x").Float() }
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		_, held, err := h.Suggest(t.Context(), "s", "first", "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		delay := 5 * x(held[0].Config) * (1 + .02*r.NormFloat64())
		result := waited(1 + delay + .2*r.Float64())
		result.Metrics["delay"] = delay
		_, _, err = h.Do(t.Context(), controller.Call{}, "s", "first", held[0].ID, study.Complete{Trial: held[0].ID,
			Final: result})
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := h.schedulers.CausalModel(t.Context(), "s")
	if err != nil || m.Fault != "" || m.Trials != 60 || m.Effect("x").Low <= 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	w, err := h.schedulers.WhatIf(t.Context(), "s", func(_ *space.Space, now space.Config) (space.Config, error) {
		return now.With("x", space.Num(.4)), nil
	})
	if want := (1.1 + 4.5) / (1.1 + 2); err != nil || w.Model.Ratio < .8*want || w.Model.Ratio > 1.2*want {
		t.Errorf("%+v, %v, want about %.2f", w, err, want)
	}
}
