package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
)

// once calls f with an id, and reports whether f was called.
func (h *harness) once(id, digest string, f func(call controller.Call) error) (called bool, before *controller.Request,
	err error) {
	before, err = h.service.Once(context.Background(), controller.Request{ID: id, Digest: digest, Scheduler: "s",
		Method: "Pause"}, func() (string, error) {
		called = true
		return "schedulers/s", f(controller.Call{Request: id})
	})
	return called, before, err
}

func (h *harness) pause(paused bool) func(call controller.Call) error {
	return func(call controller.Call) error {
		_, err := h.service.Modify(context.Background(), call, "s", func(c *controller.Scheduler) error {
			c.Paused = paused
			return nil
		})
		return err
	}
}

// A request is made once, through restarts; one that failed, or ended in no change, too.
func TestOnce(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	expect := func(what, id string, f func(call controller.Call) error, called bool) {
		t.Helper()
		got, before, err := h.once(id, "d", f)
		if err != nil || got != called || (before == nil) != called {
			t.Errorf("%s: called %v, before %+v, %v", what, got, before, err)
		}
	}
	fails := errors.New("fails")
	if _, _, err := h.once("a", "d", func(controller.Call) error { return fails }); !errors.Is(err, fails) {
		t.Error(err)
	}
	expect("after a failure", "a", h.pause(true), true)
	expect("of no change", "b", h.pause(true), true)
	// The change is durable, and a later step fails: it is made.
	if _, _, err := h.once("c", "d", func(call controller.Call) error {
		return errors.Join(h.pause(false)(call), fails)
	}); !errors.Is(err, fails) {
		t.Error(err)
	}
	for range 2 {
		for _, id := range []string{"a", "b", "c"} {
			expect("again", id, func(controller.Call) error { return fails }, false)
		}
		if _, _, err := h.once("a", "other", nil); !errors.Is(err, controller.ErrRequestReuse) {
			t.Errorf("another content: %v", err)
		}
		h.close()
		h.open()
	}
	// An id is of one scheduler: another has it for a request of its own.
	h.register("other", controller.Auto)
	for made := range 2 {
		before, err := h.service.Once(t.Context(), controller.Request{ID: "a", Digest: "of other", Scheduler: "other"},
			func() (string, error) {
				_, err := h.service.Modify(t.Context(), controller.Call{Request: "a"}, "other",
					func(s *controller.Scheduler) error { s.Paused = true; return nil })
				return "", err
			})
		if err != nil || (before != nil) != (made == 1) {
			t.Errorf("%v, %v", before, err)
		}
		h.close()
		h.open()
	}
	expect("again", "a", func(controller.Call) error { return fails }, false)
	// Work that a call leaves running is not part of it.
	var left *controller.RequestRecord
	expect("a call that leaves its record", "d", func(call controller.Call) error {
		left = h.service.RequestRecord(call, "s")
		return nil
	}, true)
	if r := left.Request(); left == nil || r != nil {
		t.Errorf("after its end a call has the request %+v", r)
	}
}

// Calls with one id wait for each other: one of them is made.
func TestOnceAtATime(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	var calls atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, _, err := h.once("a", "d", func(call controller.Call) error {
				calls.Add(1)
				return h.pause(true)(call)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// The oldest ids of a scheduler make room for new ones, also in the store; ids expire after a day.
func TestRequestsAreBounded(t *testing.T) {
	var clock atomic.Int64
	h := start(t, keep)
	now := func() time.Time { return time.Unix(1_800_000_000, clock.Load()) }
	h.reopen(now)
	h.register("s", controller.Auto)
	var saved []controller.Request
	for i := range controller.MaxRequests {
		saved = append(saved, controller.Request{ID: fmt.Sprint(i), Digest: "d", Scheduler: "s", Method: "Pause",
			Created: now().Add(time.Duration(i))})
	}
	h.service.Preload(saved)
	clock.Add(int64(time.Minute))
	nothing := func(controller.Call) error { return nil }
	made := func(id string) bool {
		t.Helper()
		called, _, err := h.once(id, "d", nothing)
		if err != nil {
			t.Fatal(err)
		}
		return called
	}
	if made("0") || !made("new") || made("1") || !made("0") {
		t.Error("the oldest does not make room for a new one")
	}
	if err := h.service.Purge(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.reopen(now)
	if made("new") || made("0") {
		t.Error("they are forgotten by a restart")
	}
	clock.Add(int64(24 * time.Hour))
	if !made("new") {
		t.Error("an id is remembered for more than a day")
	}
	if err := h.service.Purge(context.Background()); err != nil {
		t.Fatal(err)
	}
	if made("new") || !made("0") {
		t.Error("a purge takes others than those that expired")
	}
}
