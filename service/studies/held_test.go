package studies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/study"
)

// TestHeldStudy: while a study proposes trials, its readers, its other changes and other studies are answered, and
// leases expire (N7).
func TestHeldStudy(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 100, Lease: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := h.Create(ctx, controller.Call{}, "s", study.Record{ID: "second",
		Spec: study.Spec{Metric: "wait", Algorithm: "random", Budget: 100, Lease: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	_, held, err := h.Suggest(t.Context(), "s", "first", "a", 1)
	if err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	release := h.Hold("s", "first")
	short, end := context.WithCancel(t.Context())
	end()
	if _, _, err := h.Suggest(short, "s", "first", "c", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	waiting, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(waiting)
		if _, held, err := h.Suggest(t.Context(), "s", "first", "b", 1); err != nil || len(held) != 1 {
			t.Error(held, err)
		}
	}()
	go func() {
		defer close(answered)
		if _, err := h.Study("s", "first"); err != nil {
			t.Error(err)
		}
		if _, err := h.Best("s", "first"); err != nil {
			t.Error(err)
		}
		if all, err := h.Studies("s", "", 10); err != nil || len(all) != 2 {
			t.Error(len(all), err)
		}
		if _, _, err := h.Suggest(t.Context(), "s", "first", "a", 1); err != nil { // which it holds
			t.Error(err)
		}
		if _, _, err := h.Do(ctx, controller.Call{}, "s", "first", held[0].ID, study.Complete{Trial: held[0].ID,
			Final: &study.Measurement{Metrics: map[string]float64{"wait": 1}}}); err != nil {
			t.Error(err)
		}
		if _, held, err := h.Suggest(t.Context(), "s", "second", "a", 1); err != nil || len(held) != 1 {
			t.Error(held, err)
		}
		h.ahead.Store(int64(time.Hour))
		for st := (study.State{}); st.Count()[study.Running] > 0 || st.ID == ""; time.Sleep(time.Millisecond) {
			if st, err = h.Study("s", "second"); err != nil || ctx.Err() != nil {
				t.Error(st.Count(), err, ctx.Err())
				return
			}
		}
	}()
	select {
	case <-answered:
	case <-time.After(2 * time.Minute):
		t.Error("calls wait for the proposals of a study")
	}
	select {
	case <-waiting:
		t.Error("a held study proposed trials")
	default:
	}
	release()
	<-waiting
	<-answered
}

// A lease begins when the trial is handed out, however long its proposal took.
func TestLeaseAfterAWait(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 100, Lease: time.Minute})
	release := h.Hold("s", "first")
	answered := make(chan []*study.Trial)
	go func() {
		_, held, err := h.Suggest(t.Context(), "s", "first", "a", 1)
		if err != nil {
			t.Error(err)
		}
		answered <- held
	}()
	time.Sleep(20 * time.Millisecond) // the call most likely waits
	h.ahead.Store(int64(time.Hour))
	release()
	if held := <-answered; len(held) != 1 || time.Until(held[0].Expires) < time.Hour {
		t.Errorf("%+v", held)
	}
}

// TestProposalsTakeTurns: trials are proposed in a turn of the scheduler, for which calls wait until their deadlines.
// Calls that need no proposal do not wait.
func TestProposalsTakeTurns(t *testing.T) {
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 100, Lease: time.Minute})
	held, release, ended := make(chan bool), make(chan bool), make(chan error)
	go func() {
		ended <- h.schedulers.Turn(t.Context(), "s", func() error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, err := h.Suggest(late, "s", "first", "a", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call whose turn does not come by its deadline: %v", err)
	}
	if _, err := h.Best("s", "first"); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, trials, err := h.Suggest(t.Context(), "s", "first", "a", 1); err != nil || len(trials) != 1 {
		t.Error(trials, err)
	}
	h.schedulers.Close()
	if err := h.schedulers.Turn(t.Context(), "s", func() error { return nil }); !errors.Is(err, controller.ErrClosed) {
		t.Errorf("of a closed service: %v", err)
	}
}

// TestManyTrials: what a call costs does not grow with the square of the trials (N7).
func TestManyTrials(t *testing.T) {
	testshared.Full(t)
	const trials = 6000
	h := newHouse(t, study.Spec{Algorithm: "random", Budget: 10_000, Lease: time.Hour})
	r := rand.New(rand.NewPCG(1, 2))
	state, err := h.Study("s", "first")
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int) {
		t.Helper()
		var all []study.Create
		for range n {
			x := r.Float64()
			c, err := state.Space.ParseJSON([]byte(fmt.Sprintf(`{"x":%v}`, x)))
			if err != nil {
				t.Fatal(err)
			}
			final := &study.Measurement{Metrics: map[string]float64{"wait": x}}
			all = append(all, study.Create{Config: c, Final: final})
		}
		if _, _, err := h.CreateTrials(t.Context(), controller.Call{}, "s", "first", all); err != nil {
			t.Fatal(err)
		}
	}
	for range trials / 1000 {
		add(1000)
	}
	took := func(f func() error) time.Duration {
		t.Helper()
		began := time.Now()
		if err := f(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	best := func() error { _, err := h.Best("s", "first"); return err }
	first := took(best)
	ask := took(func() error { _, _, err := h.Suggest(t.Context(), "s", "first", "a", 1); return err })
	again := time.Hour
	for range 5 {
		add(1)
		again = min(again, took(best))
	}
	t.Logf("first %v, again %v, ask %v", first, again, ask)
	if again > time.Second {
		t.Errorf("the best of %d trials after another one: %v", trials, again)
	}
}
