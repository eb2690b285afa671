package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// expecting is a DecideFunc whose futures expect at most five jobs in twelve hours
// (round.Decision.History), and that adopts after a burst. fail, if set, is asked first
// about every urgent decision.
type expecting struct {
	mu   sync.Mutex
	seen []round.Input
	fail func(ctx context.Context) error
}

func (x *expecting) decide(ctx context.Context, in round.Input) (round.Decision, error) {
	x.mu.Lock()
	x.seen = append(x.seen, in)
	fail := x.fail
	x.mu.Unlock()
	if in.Urgent && fail != nil {
		if err := fail(ctx); err != nil {
			return round.Decision{}, err
		}
	}
	most := make([]int, 144)
	for i := range most {
		most[i] = 5
	}
	history, err := json.Marshal(map[string]any{"version": 2,
		"band": map[string]any{"at": in.State.At, "jobs": most, "gpus": most, "widest": 32}})
	return round.Decision{Config: in.Incumbent.With("queues", space.Int(7)), Adopt: in.Urgent, Reason: "test",
		Ratio: 1.2, History: history}, err
}

// urgent are the instants of the urgent decisions.
func (x *expecting) urgent() (at []time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.seen {
		if x.seen[i].Urgent {
			at = append(at, x.seen[i].State.At)
		}
	}
	return at
}

func (x *expecting) failing(f func(context.Context) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fail = f
}

// burst ingests ten submissions at a time since origin.
func (h *harness) burst(id string, at time.Duration) {
	h.t.Helper()
	var events []workload.Event
	for range 10 {
		h.events++
		events = append(events, submission(fmt.Sprint("e", h.events), at))
	}
	if _, err := h.service.Ingest(context.Background(), controller.Call{}, id, events); err != nil {
		h.t.Fatal(err)
	}
}

// TestBurstIsAnsweredOnce: more submissions than the last decision expected are decided
// on between rounds, once, across restarts, and not while tuning is paused.
func TestBurstIsAnsweredOnce(t *testing.T) {
	x := &expecting{}
	h := start(t, x.decide)
	want := func(what string, at ...time.Duration) {
		t.Helper()
		h.rounds("s", 0)
		if got := x.urgent(); fmt.Sprint(got) != fmt.Sprint(at) {
			t.Fatalf("%s: urgent decisions at %v, want %v", what, got, at)
		}
	}
	const first, second = 11*time.Hour + 20*time.Minute, 11*time.Hour + 35*time.Minute
	h.register("s", controller.Auto)
	h.submit("s", 11*time.Hour)
	h.submit("s", 11*time.Hour+time.Second)
	h.rounds("s", 1)
	for m := 5; m < 20; m += 5 {
		h.submit("s", 11*time.Hour+time.Duration(m)*time.Minute)
	}
	want("a calm start")
	h.burst("s", 11*time.Hour+16*time.Minute)
	want("before the mark")
	h.submit("s", first+time.Second)
	h.rounds("s", 2)
	want("a burst", first)
	got, st, err := h.service.Scheduler("s")
	if err != nil || got.Round != 11 || h.current("s").Config.Get("queues").Int() != 7 {
		t.Errorf("round %d, %v, %+v, %v", got.Round, h.current("s").Config, st, err)
	}
	h.burst("s", first+6*time.Minute)
	h.submit("s", first+11*time.Minute)
	want("soon after a decision", first)
	h.close()
	h.open()
	want("after a restart", first)

	// A decision under way at a stop is repeated.
	began := make(chan struct{})
	x.failing(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	})
	h.submit("s", second+time.Second)
	<-began
	h.close()
	x.failing(nil)
	h.open()
	h.rounds("s", 1)
	want("stopped", first, second, second)

	// One that fails is tried again at the next mark only.
	x.failing(func(context.Context) error { return errors.New("no luck") })
	h.burst("s", second+14*time.Minute)
	h.submit("s", second+15*time.Minute+time.Second)
	h.rounds("s", 2)
	h.submit("s", second+16*time.Minute)
	third := second + 15*time.Minute
	want("failed", first, second, second, third)
	x.failing(nil)

	pause := func(paused bool) {
		_, err := h.service.Modify(context.Background(), controller.Call{}, "s", func(s *controller.Scheduler) error {
			s.Paused = paused
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	h.submit("s", third+6*time.Minute)
	want("paused", first, second, second, third)
	pause(false)
	h.rounds("s", 3)
	want("resumed", first, second, second, third, third+5*time.Minute)

	h.submit("s", 12*time.Hour+time.Second)
	h.rounds("s", 4)
	if got, _, _ := h.service.Scheduler("s"); got.Round != 12 {
		t.Errorf("round %d after the hour", got.Round)
	}
}
