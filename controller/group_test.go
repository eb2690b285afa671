package controller_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
	"github.com/autosched/autosched/workload"
)

// Callers of one scheduler that come while a commit is under way share the next one: 64 take
// two. Each gets its own outcome, once its events are durable; an event that two of them send counts once.
func TestConcurrentCallersShareACommit(t *testing.T) {
	const callers = 64
	entered, gate := make(chan struct{}, 1), make(chan struct{})
	var appends atomic.Int64
	h := &harness{t: t, dir: t.TempDir(), decide: keep, wrap: func(s controller.Store) controller.Store {
		return &storetest.Faulty{Store: s, OnAppend: func() error {
			appends.Add(1)
			select {
			case entered <- struct{}{}:
			default:
			}
			<-gate
			return nil
		}}
	}}
	h.open()
	defer h.close()
	h.register("s", controller.Recommend)
	var wg sync.WaitGroup
	var answered, accepted, duplicates, rejected atomic.Int64
	ingest := func(events ...workload.Event) {
		wg.Go(func() {
			r, err := h.service.Ingest(context.Background(), controller.Call{}, "s", events)
			if err != nil {
				t.Error(err)
			}
			answered.Add(1)
			accepted.Add(int64(r.Accepted))
			duplicates.Add(int64(r.Duplicates))
			for _, one := range r.Rejected {
				if one.Index != 1 || one.ID != "" {
					t.Errorf("rejected %+v", one)
				}
				rejected.Add(1)
			}
		})
	}
	ingest(submission("first", time.Minute))
	<-entered
	for i := range callers - 2 {
		ingest(submission(fmt.Sprint(i), time.Minute), submission("", time.Minute))
	}
	ingest(submission("0", time.Minute))
	for deadline := time.Now().Add(patience); h.service.Waiting("s") < callers-1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("callers do not wait")
		}
	}
	if n := answered.Load(); n != 0 {
		t.Errorf("%d callers are answered before anything is durable", n)
	}
	close(gate)
	wg.Wait()
	if appends.Load() != 2 || accepted.Load() != callers-1 || duplicates.Load() != 1 ||
		rejected.Load() != callers-2 {
		t.Errorf("%d commits of %d callers: %d events accepted, %d duplicates, %d rejected", appends.Load(), callers,
			accepted.Load(), duplicates.Load(), rejected.Load())
	}
	h.close()
	h.open()
	if _, st, err := h.service.Scheduler("s"); err != nil || st.Events != callers-1 {
		t.Errorf("after a restart: %+v, %v", st, err)
	}
}

// A failed commit fails every caller of the group, and the next group goes on.
func TestFailedGroup(t *testing.T) {
	var fails atomic.Bool
	h := &harness{t: t, dir: t.TempDir(), decide: keep, wrap: func(s controller.Store) controller.Store {
		return &storetest.Faulty{Store: s, OnAppend: func() error {
			if fails.Load() {
				return context.DeadlineExceeded
			}
			return nil
		}}
	}}
	h.open()
	defer h.close()
	h.register("s", controller.Recommend)
	fails.Store(true)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			e := submission(fmt.Sprint(i), time.Minute)
			if r, err := h.service.Ingest(context.Background(), controller.Call{}, "s",
				[]workload.Event{e}); err == nil {
				t.Errorf("acknowledged what was not stored: %+v", r)
			}
		})
	}
	wg.Wait()
	fails.Store(false)
	if r := h.send("s", time.Minute, 1); r.Accepted != 1 {
		t.Errorf("%+v", r)
	}
}
