package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/workload"
)

// TestBenchRecommendDetected: the rules find waste that was added, acting on it is simulated, and a scheduler
// whose jobs samples cannot be of is refused.
func TestBenchRecommendDetected(t *testing.T) {
	args := strings.Fields("recommend --trace sample --windows 2 --days 1 --nodes 4 --waste 20 --detected --json")
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Fatal(errs)
	}
	var r recommendBench
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 1 || r.Rows[0].Detected == nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := r.Rows[0].Detected
	if idle := d.Cases["idle_allocation"]; idle.Found < 3 || idle.Found < idle.Cases*3/4 || idle.Cases < idle.Found {
		t.Errorf("idle jobs: %+v", idle)
	}
	if d.Before.Utilization != r.Rows[0].Before.Utilization || d.After.Utilization == d.Before.Utilization {
		t.Errorf("utilisation %g to %g, of the perfect detector from %g", d.Before.Utilization, d.After.Utilization,
			r.Rows[0].Before.Utilization)
	}
	if code, _, errs = clitest.Run(append(args, "--scheduler", "pollux")...); code == 0 ||
		!strings.Contains(errs, "--detected: pollux: inject: jobs share GPUs or change their size") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestCountMistakes: acting on a job that wastes GPUs is no mistake, also where the perfect detector comes too late.
func TestCountMistakes(t *testing.T) {
	job := func(useful time.Duration, wanted *recommend.Change) recommend.Job {
		return recommend.Job{Job: workload.Job{GPUs: workload.GPUs(1), Duration: 5 * time.Hour}, Used: 1,
			Useful: useful, Acted: wanted}
	}
	as := func(d time.Duration) *recommend.Change { return &recommend.Change{Duration: d, GPUs: workload.GPUs(1)} }
	wanted := []recommend.Job{job(5*time.Hour, nil), job(4*time.Hour, as(5*time.Hour))}
	acted := []recommend.Job{job(5*time.Hour, as(2*time.Hour)), job(4*time.Hour, as(4*time.Hour))}
	var d detectedWaste
	d.count(wanted, acted, func(*recommend.Job) time.Duration { return 5 * time.Hour })
	if d.Wrong != 1 {
		t.Errorf("%d mistakes, want 1", d.Wrong)
	}
}

// TestWaste: the share of GPU-hours that is wasted is the one asked for, and the useful work of a
// window does not depend on it.
func TestWaste(t *testing.T) {
	var jobs []workload.Job
	for i := range 200 {
		jobs = append(jobs, workload.Job{ID: fmt.Sprint("j", i), Submit: time.Duration(i) * 10 * time.Minute,
			Duration: time.Duration(1+i%9) * time.Hour, GPUs: workload.GPUs(1 + i%3)})
	}
	for _, share := range []float64{0, .05, .2} {
		w, err := wasting(jobs, 0, 48*time.Hour, 32, share, 1)
		if err != nil {
			t.Fatal(err)
		}
		var held, useful float64
		for _, j := range w.Jobs {
			held += float64(j.GPUs.Whole()) * j.Duration.Hours()
			if j.Acted == nil || !j.Acted.Drop && j.Used > 0 {
				useful += j.Used * min(j.Useful, j.Duration).Hours()
			}
		}
		testshared.Near(t, "waste", 1-useful/held, share, .02)
	}
	if _, err := wasting(jobs, 0, time.Hour, 32, 1.5, 1); err == nil {
		t.Error("more waste than GPU-hours is accepted")
	}
}
