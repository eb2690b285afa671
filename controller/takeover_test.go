package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
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

// TestReplayIsTheSame: what is derived of events is the same whatever number of processors reads them, with events out
// of order, twice and beyond the clock.
func TestReplayIsTheSame(t *testing.T) {
	h := &harness{t: t, dir: t.TempDir(), decide: keep}
	inherit(t, h, 7, 7*3*300)
	h.open()
	random := rand.New(rand.NewPCG(1, 2))
	ids := h.service.Schedulers("", 10)
	for _, id := range ids {
		var all []workload.Event
		for i := range 900 {
			e := submission(fmt.Sprint("y", i%850), 0)
			e.Kind = workload.EventKind(1 + i%3*random.IntN(3))
			e.Time = time.Duration(random.Int64N(int64(takeoverSpan)))
			if i%300 == 0 {
				e.Time += 400 * 24 * time.Hour
			}
			all = append(all, e)
		}
		if err := h.repo.AppendEvents(t.Context(), id, all); err != nil {
			t.Fatal(err)
		}
	}
	h.close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	want := map[string]string{}
	for _, n := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(n)
		h.open()
		for _, id := range ids {
			got, err := h.service.Derived(id)
			if err != nil || len(got) < 10_000 {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if n == 1 {
				want[id] = got
			} else if got != want[id] {
				t.Errorf("%d processors, %s: %.300s, want %.300s", n, id, got, want[id])
			}
		}
		h.close()
	}
}

// BenchmarkTakeover starts a service on the events of 30 days, from few to those of 1,000 schedulers with 100 GPUs each
// at Philly's rate.
func BenchmarkTakeover(b *testing.B) {
	for _, size := range []struct{ schedulers, events int }{{10, 12_000}, {100, 120_000}, {1000, 1_200_000},
		{1000, 5_400_000}} {
		b.Run(fmt.Sprint("events=", size.events), func(b *testing.B) {
			h := &harness{t: b, dir: b.TempDir(), decide: keep}
			inherit(b, h, size.schedulers, size.events)
			cpu := cputime.Process()
			for b.Loop() {
				h.open()
				b.StopTimer()
				h.close()
				b.StartTimer()
			}
			b.ReportMetric((cputime.Process()-cpu).Seconds()/float64(b.N), "cpu-s")
		})
	}
}
