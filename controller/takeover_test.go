package controller_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

// takeoverSpan is the time of the events of inherit.
const takeoverSpan = 30 * 24 * time.Hour

// inherit leaves a directory of schedulers with 100 GPUs each and the events of their jobs, as many a day. It returns
// the events of each.
func inherit(t testing.TB, h *harness, schedulers, events int) int64 {
	now := origin
	h.now = func() time.Time { return now }
	h.open()
	for i := range schedulers {
		id := fmt.Sprintf("s%04d", i)
		reg := controller.Registration{ID: id, Type: "test", Params: serviceParams, Objective: "avg_jct",
			Cluster: workload.Uniform(25, 4), Policy: promptly(), Mode: controller.Auto}
		reg.Policy.UpdateInterval = 24 * time.Hour
		if _, err := h.service.Register(t.Context(), controller.Call{}, reg); err != nil {
			t.Fatal(err)
		}
		if _, err := h.service.Ingest(t.Context(), controller.Call{}, id,
			[]workload.Event{submission("first", 0)}); err != nil {
			t.Fatal(err)
		}
	}
	each, jobs := events/schedulers/3, 0
	for day := range 30 {
		now = origin.Add(time.Duration(day) * 24 * time.Hour)
		var all []workload.Event
		for ; jobs < each*(day+1)/30; jobs++ {
			e := submission(fmt.Sprint("x", jobs), 0)
			e.Time = takeoverSpan * time.Duration(jobs) / time.Duration(each)
			begin, end := e, e
			begin.ID, begin.Kind, begin.Time = e.ID+"start", workload.Started, e.Time+time.Minute
			end.ID, end.Kind, end.Time = e.ID+"end", workload.Finished, e.Time+time.Hour
			all = append(all, e, begin, end)
		}
		var group sync.WaitGroup
		for first := range 100 { // callers share a commit
			group.Go(func() {
				for i := first; i < schedulers; i += 100 {
					if err := h.repo.AppendEvents(t.Context(), fmt.Sprintf("s%04d", i), all); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	now = origin.Add(takeoverSpan)
	h.close()
	return int64(3*each + 1)
}

// TestTakeover: a service of many schedulers serves their configurations before it has read their events, and is ready
// once it has. AUTOSCHED_TAKEOVER is the number of events of 1,000 schedulers in 30 days, in place of few, and the
// times and the memory are logged.
func TestTakeover(t *testing.T) {
	schedulers, events := 10, 1000
	if text := os.Getenv("AUTOSCHED_TAKEOVER"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		schedulers = 1000
	}
	h := &harness{t: t, dir: t.TempDir(), decide: keep}
	each := inherit(t, h, schedulers, events)
	resident(true)
	began, cpu := time.Now(), cputime.Process()
	repo, err := store.Open(h.dir, store.Options{Now: h.now})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	s, err := controller.NewService(controller.Options{Store: repo, Decide: keep, Workers: 1, Now: h.now})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range s.Schedulers("", schedulers) {
		if _, err := s.Current(id, ""); err != nil {
			t.Errorf("before the events are read: %v", err)
		}
	}
	served, used := time.Since(began), cputime.Process()-cpu
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, controller.Hooks{}) }()
	<-s.Rebuilt()
	t.Logf("%d schedulers, %d events: configurations after %v (%v of CPU), all after %v (%v of CPU), %d MiB resident",
		schedulers, events, served, used, time.Since(began), cputime.Process()-cpu, resident(false)>>20)
	if _, st, err := s.Scheduler("s0000"); err != nil || st.Events != each {
		t.Errorf("%d events, %v", st.Events, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
