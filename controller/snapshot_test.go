package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// A scheduler whose FINISHED events were lost holds no GPUs for ever: once it sent a snapshot,
// rounds see active jobs, also after a restart.
func TestSnapshotMendsLostEvents(t *testing.T) {
	var jobs, held, waited atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		gpus, wait := 0, time.Duration(0)
		for i := range in.State.Jobs {
			gpus += in.State.Jobs[i].Held
			wait += in.State.Jobs[i].WaitTime
		}
		jobs.Store(int64(len(in.State.Jobs)))
		held.Store(int64(gpus))
		waited.Store(int64(wait))
		return keep(ctx, in)
	})
	h.register("s", "auto")
	for i := range 100 {
		s := submission(fmt.Sprint(i), time.Duration(i)*time.Minute)
		s.Job.GPUs = workload.GPUs(8)
		r := s
		r.ID, r.Kind = "r"+s.ID, workload.Started
		if _, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{s,
			r}); err != nil {
			t.Fatal(err)
		}
	}
	h.send("s", 3*time.Hour+1, 1)
	h.decided("s", 3)
	if jobs.Load() != 100 || held.Load() != 800 {
		t.Fatalf("%d jobs hold %d GPUs", jobs.Load(), held.Load())
	}
	at := func(d time.Duration) time.Duration { return submission("", d).Time }
	snapshot := workload.Event{ID: "snapshot", Kind: workload.TakenSnapshot, Time: at(3*time.Hour + 30*time.Minute),
		Active: []workload.Event{
			{Kind: workload.Started, Job: workload.Job{ID: "job-3", GPUs: 8000, Submit: at(3 * time.Minute)}},
			{Kind: workload.Submitted, Job: workload.Job{ID: "unheard of", GPUs: 1000, Submit: at(2 * time.Hour)}},
		}}
	for range 2 {
		if r, err := h.service.Ingest(context.Background(), controller.Call{}, "s",
			[]workload.Event{snapshot}); err != nil ||
			r.Accepted+r.Duplicates != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	seen := func() {
		t.Helper()
		if jobs.Load() != 2 || held.Load() != 8 || time.Duration(waited.Load()) != 2*time.Hour {
			t.Errorf("%d jobs hold %d GPUs and waited for %v", jobs.Load(), held.Load(), time.Duration(waited.Load()))
		}
	}
	h.close()
	h.open()
	heartbeat := workload.Event{ID: "heartbeat", Kind: workload.Heartbeat, Time: at(4*time.Hour + 1)}
	r, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{heartbeat})
	if err != nil || r.Accepted != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.decided("s", 4)
	seen()
}

// A snapshot without jobs may be a mistake: the log says its effect.
func TestSnapshotWithoutJobsIsLogged(t *testing.T) {
	h := start(t, keep)
	h.register("s", "auto")
	h.service.Close()
	var log lockedBuffer
	var err error
	h.service, err = controller.NewService(controller.Options{Decide: h.decide, Store: h.repo,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	job := workload.Event{Kind: workload.Submitted, Job: workload.Job{ID: "a", GPUs: 1000}}
	for id, active := range map[string][]workload.Event{"full": {job}, "empty": nil} {
		_, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{
			{ID: id, Kind: workload.TakenSnapshot, Time: submission("", time.Hour).Time, Active: active}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); !strings.Contains(got, "event=empty") || strings.Contains(got, "event=full") {
		t.Error(got)
	}
}
