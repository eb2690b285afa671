package main

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func sample(t *testing.T) []workload.Job {
	t.Helper()
	w, _, err := trace.Open("sample", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w.Jobs()
}

// TestDraw: the jobs of a window take its span and have its load, widths and order stay, and every job may end.
func TestDraw(t *testing.T) {
	from := sample(t)[200:600]
	const span, load = 5 * time.Minute, 1.1
	jobs, ok := draw(from, span, load, 1)
	if !ok || len(jobs) != len(from) {
		t.Fatalf("%d jobs", len(jobs))
	}
	work := 0.0
	for i := range jobs {
		j := &jobs[i]
		work += j.run * width(&from[i])
		if i > 0 && j.at < jobs[i-1].at || j.run < shortest || j.run > longest {
			t.Errorf("job %d at %g s runs %g s", i, j.at, j.run)
		}
		if got := j.gpus(); float64(got) < width(&from[i]) || j.Nodes > nodes || j.Job.GPUs > gpusPerNode {
			t.Errorf("job %d of %g GPUs has %d nodes of %d", i, width(&from[i]), j.Nodes, j.Job.GPUs)
		}
		if float64(j.Minutes*60) < j.run {
			t.Errorf("job %d of %g s ends at %d min", i, j.run, j.Minutes)
		}
	}
	if got := work / (span.Seconds() * nodes * gpusPerNode); math.Abs(got/load-1) > .01 {
		t.Errorf("the load is %g", got)
	}
	if last := jobs[len(jobs)-1].at; math.Abs(last-span.Seconds()) > 1e-6 {
		t.Errorf("the last job comes at %g s", last)
	}
	if _, ok := draw(from, span, 100, 1); ok {
		t.Error("no run times give a load of 100")
	}
}

// TestPromise: on a cluster with room nothing waits; a change of settings during the run is in force from then on.
func TestPromise(t *testing.T) {
	c := workload.Uniform(nodes, gpusPerNode)
	settings := func(text string) (slurm.Settings, error) {
		s := slurm.Defaults()
		return s, s.Set("SchedulerParameters", text)
	}
	var jobs []recorded
	for i := range 20 {
		jobs = append(jobs, recorded{Submit: float64(i), Start: float64(i), End: float64(i + 10), Nodes: 1, GPUs: 8,
			Minutes: 1, User: "u", Account: "a", QOS: "normal"})
	}
	waits, mean, err := promise(t.Context(), c, jobs[:10], settings, []change{{Conf: "bf_interval=5"}})
	if err != nil || mean > 5 || len(waits) != 10 {
		t.Errorf("%g %v %v", mean, waits, err)
	}
	_, short, err := promise(t.Context(), c, jobs, settings, []change{{Conf: "bf_interval=1"}})
	if err != nil {
		t.Fatal(err)
	}
	_, changed, err := promise(t.Context(), c, jobs, settings,
		[]change{{Conf: "bf_interval=1"}, {At: 1, Conf: "bf_interval=1"}})
	if err != nil || math.Abs(changed-short) > 1 {
		t.Errorf("a change of nothing: %g and %g, %v", short, changed, err)
	}
}

func TestInterval(t *testing.T) {
	low, high := interval([]float64{math.Log(.5), math.Log(.5), math.Log(.5)})
	if math.Abs(low-.5) > 1e-9 || math.Abs(high-.5) > 1e-9 {
		t.Errorf("%g to %g", low, high)
	}
	// Of -.1, .1: mean 0, standard error .1, t 12.706.
	low, high = interval([]float64{-.1, .1})
	if math.Abs(math.Log(high)-1.2706) > 1e-3 || math.Abs(math.Log(low)+1.2706) > 1e-3 {
		t.Errorf("%g to %g", low, high)
	}
}

func TestCycles(t *testing.T) {
	text, err := os.ReadFile("../../adapter/slurm/testdata/sdiag.txt")
	if err != nil {
		t.Fatal(err)
	}
	var m machine
	if err := m.cycles(string(text)); err != nil || m.Main != .001524 || m.Backfill != .002867 || m.disturbed() {
		t.Errorf("%+v %v", m, err)
	}
	if err := m.cycles("Max cycle: 1200000\nMax cycle: none"); err == nil || !m.disturbed() {
		t.Errorf("%+v %v", m, err)
	}
}
