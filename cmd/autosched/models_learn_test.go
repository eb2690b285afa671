package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller/repository"
	"github.com/autosched/autosched/workload"
)

// TestModelsLearnFromService reads what a service has stored.
func TestModelsLearnFromService(t *testing.T) {
	dir := t.TempDir()
	r, err := repository.Open(dir, repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var events []workload.Event
	tell := func(id string, kind workload.EventKind, at time.Duration) {
		e := workload.Event{ID: fmt.Sprintf("%09d", len(events)), Kind: kind, Time: at, Job: workload.Job{ID: id}}
		switch kind {
		case workload.Submitted:
			e.Job.Key, e.Job.GPUs = "k", workload.GPUs(1)
		case workload.Started, workload.Resumed:
			e.Placement = workload.Shares([]workload.NodeGPUs{{Node: 0, GPUs: 1}})
		}
		events = append(events, e)
	}
	for i := range 10 {
		at := time.Duration(i) * 1000 * time.Second
		plain, stopped := fmt.Sprint("plain", i), fmt.Sprint("stopped", i)
		tell(plain, workload.Submitted, at)
		tell(plain, workload.Started, at)
		tell(stopped, workload.Submitted, at)
		tell(stopped, workload.Started, at)
		tell(stopped, workload.Preempted, at+10*time.Second)
		tell(stopped, workload.Resumed, at+50*time.Second)
		tell(plain, workload.Finished, at+100*time.Second)
		tell(stopped, workload.Finished, at+165*time.Second) // held 10 + 115 s
	}
	if err := r.AppendEvents(context.Background(), "s", events); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "m.json")
	code, text, errs := command("models", "learn", "--events", dir, "--out", out)
	if code != 0 || !strings.Contains(text, "restart from 1 GPUs on (s): 25, from 10 of 20 runs") {
		t.Fatalf("exit %d: %s%s", code, text, errs)
	}
	if code, _, errs := command("models", "learn", "--events", t.TempDir(), "--out", out); code != 1 || !strings.Contains(errs, "no events") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
