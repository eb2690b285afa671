package workload_test

import (
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestStartUp: a job has held its GPUs since before it ran, at most since its last wait began; packed events are equal.
func TestStartUp(t *testing.T) {
	l := workload.NewLedger(workload.Uniform(1, 8))
	add := func(kind workload.EventKind, at, startUp time.Duration) {
		l.Apply(workload.Event{ID: kind.String() + at.String(), Kind: kind, Time: at, StartUp: startUp,
			Job: workload.Job{ID: "a", GPUs: workload.GPUs(4)}})
	}
	add(workload.Submitted, 0, 0)
	add(workload.Started, 50*time.Second, 20*time.Second)
	a := l.State(60 * time.Second).Jobs[0]
	if a.Since != 30*time.Second || a.RunTime != 30*time.Second || a.WaitTime != 30*time.Second ||
		a.Attained != 120*time.Second {
		t.Errorf("%+v", a)
	}
	if a := l.State(40 * time.Second).Jobs[0]; a.Running || a.WaitTime != 40*time.Second {
		t.Errorf("before the start: %+v", a)
	}
	add(workload.Preempted, 70*time.Second, 0)
	add(workload.Resumed, 80*time.Second, time.Hour)
	spells := l.Spells(0, 90*time.Second)
	if len(spells) != 2 || spells[0].From != 30*time.Second || spells[0].To != 70*time.Second ||
		spells[1].From != 70*time.Second || spells[1].To != 90*time.Second {
		t.Errorf("%+v", spells)
	}
	add(workload.Finished, 100*time.Second, 0)
	if f := l.Finishes(0, time.Hour); len(f) != 1 || f[0].RunTime != 70*time.Second || f[0].Starts != 2 {
		t.Errorf("%+v", f)
	}
}
