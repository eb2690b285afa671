package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// soaked is a service under a load that stays the same.
type soaked struct {
	*service
	began time.Time
	span  time.Duration // of the load
	days  int           // of event time, which pass within the span and end at present
}

const soakedJobs = 24 // a day of each scheduler

// day sends the jobs of a day to a scheduler, which end within it, and acknowledges the revision on offer.
func (s *soaked) day(ctx context.Context, id string, day int) error {
	zero := s.began.Add(-time.Duration(s.days) * 24 * time.Hour)
	var all []workload.Event
	for i := range soakedJobs {
		at := time.Duration(zero.UnixNano()) + time.Duration(day*24+i)*time.Hour
		job := workload.Job{ID: fmt.Sprint("j", day, "-", i), GPUs: workload.GPUs(1 + i%4), Tenant: "vc"}
		for k, kind := range []workload.EventKind{workload.Submitted, workload.Started, workload.Finished} {
			all = append(all, workload.Event{ID: fmt.Sprint(job.ID, kind), Kind: kind,
				Time: at + time.Duration(k)*10*time.Minute, Job: job})
		}
	}
	got, err := s.controller.Ingest(ctx, controller.Call{}, id, all)
	if err == nil && got.Accepted != len(all) {
		err = fmt.Errorf("day %d of %s: %+v", day, id, got)
	}
	if err != nil || day%7 > 0 {
		return err
	}
	now, _, err := s.controller.Scheduler(id)
	if err == nil {
		_, _, err = s.controller.Acknowledge(ctx, controller.Call{}, id, now.OfferedRevision,
			rollout.Ack{State: rollout.AckApplied, Instance: "a"})
	}
	return err
}

// live is the heap after a collection.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSoakOfSchedulers: many schedulers send events and acknowledge, some GPUs are sampled, and the live heap stays as
// it is once the history is as long as what rounds look back to. AUTOSCHED_SOAK is how many seconds it takes.
func TestSoakOfSchedulers(t *testing.T) {
	schedulers, gpus, seconds, days, most := 5, 40, 2, 80, 1.25
	if n, err := strconv.Atoi(os.Getenv("AUTOSCHED_SOAK")); err == nil && n >= 600 {
		schedulers, gpus, seconds, days, most = 500, 2000, n, 120, 1.05
	} else if testing.Short() {
		t.Skip("load reaches no code that other tests do not")
	}
	o, log := options(t)
	o.Agents, o.Findings.Webhook = nil, ""
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, s.tasks()) }()
	<-s.controller.Rebuilt()
	policy := controller.DefaultPolicy()
	policy.UpdateInterval, policy.AllowedLateness = 24*time.Hour, 0
	ids := make([]string, schedulers)
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
		_, err := s.controller.Register(ctx, controller.Call{}, controller.Registration{ID: ids[i], Type: "test",
			Objective: "avg_jct", Cluster: workload.Uniform(4, 8), Policy: policy, Mode: controller.Auto,
			Params: []space.Param{{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	load := &soaked{service: s, began: time.Now(), span: time.Duration(seconds) * time.Second, days: days}
	var wg sync.WaitGroup
	samples := 0
	wg.Go(func() { // every 15 s, as the collector does
		ticker := time.NewTicker(min(15*time.Second, load.span/20))
		defer ticker.Stop()
		for time.Since(load.began) < load.span {
			now := time.Duration(time.Now().UnixNano())
			for first := 0; first < gpus; first += 200 {
				var all []telemetry.GPUSample
				for g := first; g < min(gpus, first+200); g++ {
					all = append(all, telemetry.GPUSample{Time: now, GPU: telemetry.GPU{Node: fmt.Sprint("n", g/8),
						Index: g % 8}})
				}
				if err := s.samples.Append(ctx, ids[first/200%schedulers], all); err != nil {
					t.Error(err)
				}
				samples += len(all)
			}
			<-ticker.C
		}
	})
	var heaps []int64 // of the second half
	var began, ended time.Duration
	for day := range load.days {
		if day == load.days/2 {
			began = cputime.Process()
		}
		for _, id := range ids {
			if err := load.day(ctx, id, day); err != nil {
				t.Fatal(err, log)
			}
		}
		for _, id := range ids {
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
				_, st, err := s.controller.Scheduler(id)
				if err != nil || time.Now().After(deadline) {
					t.Fatalf("day %d of %s: %d rounds, %v\n%s", day, id, st.Rounds, err, log)
				}
				if st.Rounds >= int64(day) {
					break
				}
			}
		}
		time.Sleep(time.Until(load.began.Add(load.span * time.Duration(day+1) / time.Duration(load.days))))
		if day >= load.days/2 && day%2 == 0 {
			heaps = append(heaps, live())
		}
	}
	ended = cputime.Process()
	wg.Wait()
	rounds := int64(0)
	for _, id := range ids {
		_, st, err := s.controller.Scheduler(id)
		if err != nil {
			t.Fatal(err)
		}
		rounds += st.Rounds
	}
	cancel()
	if err := errors.Join(<-done, s.close()); err != nil {
		t.Error(err)
	}
	t.Logf("%d schedulers, %d GPUs, %d rounds, %d samples, %v: live heap in MB of the second half %d; %.1f %% of a core",
		schedulers, gpus, rounds, samples, load.span, inMB(heaps), 100*(ended-began).Seconds()/(load.span/2).Seconds())
	n := len(heaps)
	// The garbage of rounds varies; the least of many days does not.
	if a, b := slices.Min(heaps[:n/2]), slices.Min(heaps[n-n/2:]); float64(b) > most*float64(a) {
		t.Errorf("the live heap grew from %d to %d MB", a>>20, b>>20)
	}
	if rounds < int64(schedulers*(load.days-1)) {
		t.Errorf("only %d rounds", rounds)
	}
}

func inMB(all []int64) (out []int64) {
	for _, x := range all {
		out = append(out, x>>20)
	}
	return out
}
