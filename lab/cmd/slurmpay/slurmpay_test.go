package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func sample(t *testing.T) []workload.Job {
	t.Helper()
	w, _, err := trace.Open(t.Context(), "sample", trace.Options{})
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

// TestRule: the rule sees jobs at its own times, decides by them, and its settings in force keep the cluster's times.
func TestRule(t *testing.T) {
	var shown conf.Shown
	for i, to := range []*[]byte{&shown.Config, &shown.Partitions, &shown.Nodes, &shown.QOS, &shown.Associations} {
		text, err := os.ReadFile(filepath.Join("../../../schedulers/slurm/conf/testdata", conf.Commands[i].File))
		if err != nil {
			t.Fatal(err)
		}
		*to = text
	}
	site, err := shown.Site()
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{options: &options{jobs: 600, span: 10 * time.Minute}, site: site}
	r, err := l.newRule()
	if err != nil {
		t.Fatal(err)
	}
	if got, was := r.incumbent.Get("SchedulerParameters.bf_interval").Float(),
		site.Current.Get("SchedulerParameters.bf_interval").Float(); got != stretch*was {
		t.Errorf("backfill every %g s of the rule, %g of the cluster", got, was)
	}
	if _, there := r.order(r.incumbent)["SchedulerParameters.bf_interval"]; there {
		t.Error("an interval is put in force")
	}
	j := job{Job: slurmtest.Job{Nodes: 1, GPUs: 2, Minutes: 5, User: "games", Account: "vc1"}}
	r.begin = 24 * time.Hour
	r.observed("a", &j, -100, -90, -30, 0)
	r.observed("b", &j, 5, math.NaN(), math.NaN(), 10)
	r.observed("c", &j, 5, 8, 12, 10)
	if n := len(r.snapshot(10).State.Jobs); n != 2 {
		t.Errorf("%d jobs are active", n)
	}
	if ended := r.ledger.Finishes(0, r.begin+1); len(ended) != 1 || ended[0].RunTime != stretched(60) {
		t.Errorf("ended %+v", ended)
	}
	if did, err := r.decide(t.Context(), 10); did != "" || err != nil || r.rounds != 1 {
		t.Errorf("without a history it did %q, %v", did, err)
	}
}

// TestReversed: widths go to run times in reverse, and all else stays.
func TestReversed(t *testing.T) {
	from := []workload.Job{{GPUs: 1000, Duration: time.Hour}, {GPUs: 8000, Duration: 3 * time.Hour},
		{GPUs: 2000, Duration: 2 * time.Hour}}
	got := reversed(from)
	if got[0].GPUs != 8000 || got[1].GPUs != 1000 || got[2].GPUs != 2000 || got[1].Duration != 3*time.Hour {
		t.Errorf("%+v", got)
	}
}

func TestInterval(t *testing.T) {
	mean, low, high := interval([]float64{.5, .5, .5})
	if mean != .5 || low != .5 || high != .5 {
		t.Errorf("%g, %g to %g", mean, low, high)
	}
	// Of -.1, .1: mean 0, standard error .1, t 12.706.
	mean, low, high = interval([]float64{-.1, .1})
	if mean != 0 || math.Abs(high-1.2706) > 1e-3 || math.Abs(low+1.2706) > 1e-3 {
		t.Errorf("%g, %g to %g", mean, low, high)
	}
}

// TestReport: workloads that lack an arm are left out; gains are split into cadence and order; the rule looks at runs
// in which an account has enough jobs, and allows the difference of repeats.
func TestReport(t *testing.T) {
	// A run of 40 jobs of vc1, of 1 GPU, and 10 of vc2, of 16, with equal waits; more is promised by 2 s.
	run := func(seed uint64, arm string, repeat int, vc1, vc2 float64) result {
		r := result{Seed: seed, Arm: arm, Repeat: repeat, Changes: make([]change, 1)}
		add := func(n, nodes, gpus int, account string, wait float64) {
			for range n {
				r.Jobs = append(r.Jobs, recorded{Start: wait, End: wait + 1, Nodes: nodes, GPUs: gpus,
					Account: account})
				r.WaitOf = append(r.WaitOf, wait+2)
			}
		}
		add(40, 1, 1, "vc1", vc1)
		add(10, 2, 8, "vc2", vc2)
		r.Wait = (40*vc1 + 10*vc2) / 50
		r.Promised = r.Wait + 2
		return r
	}
	runs := []result{
		run(1, "default", 0, 100, 50), run(1, "intervals", 0, 80, 50), run(1, "site", 0, 60, 50),
		run(1, "live", 0, 95, 500),
		run(2, "default", 0, 100, 50), run(2, "intervals", 0, 80, 50), run(2, "site", 0, 60, 50),
		run(2, "live", 0, 85, 50),
		run(3, "default", 0, 100, 50), // the other arms have not run
		run(1, "site", 1, 66, 50), run(1, "site", 2, 59, 50),
	}
	out := filepath.Join(t.TempDir(), "results.jsonl")
	var file []byte
	for _, r := range runs {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, line...), '\n')
	}
	if err := os.WriteFile(out, file, 0o644); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	o := options{out: out, only: strings.Join(arms, ",")}
	if err := o.report(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 1 | live | 176.0 | 178.0 | 500 | 502 | 500 | 502 | 0.0 | 0 |  |",
		"| cadence | default | intervals | 0.82 | 0.82 to 0.82 | 0.83 | 16.0 | 16.0 to 16.0 | 16.0 | 100 % |",
		"| order | intervals | site | 0.78 | 0.78 to 0.78 | 0.79 | 16.0 | 16.0 to 16.0 | 16.0 | 100 % |",
		"| both | default | site | 0.64 | 0.64 to 0.64 | 0.65 | 32.0 | 32.0 to 32.0 | 32.0 | 100 % |",
		"| 1 | 80 | 100 / 102 | 80 / 82 | 60 / 62 | 90 / 92 |",
		"| 16 and more | 20 | 50 / 52 | 50 / 52 | 50 / 52 | 275 / 277 |",
		"| intervals | vc1 |  | -20 (-20 to -20) / -20 | +10 (-54 to +74) / +10 |", // of 15 and 5 s
		// Of 60 s: 6, 15, and the 7 s of repeats; 35 s are more, 25 s are not.
		"| site | vc1 | 2 | 7 |  |  | 1: +35 / +35 |",
		"| default | vc1 | 2 | 7 | kept | kept | kept |",
		"| site | vc2 | 0 | 0 |  |  |  |", // 10 jobs
		"Workload 1 under site again: mean wait 58.0 s, 62.8 s, 57.2 s.",
	} {
		if !strings.Contains(got.String(), want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	for _, not := range []string{"\n| 3 |", "vc3", "NaN"} { // a workload that is left out, an account without jobs
		if strings.Contains(got.String(), not) {
			t.Errorf("%q is printed", not)
		}
	}
	var once strings.Builder
	gather(runs[:9], arms).rule(&once)
	if want := "| default | vc1 | 2 | - | kept | kept | kept |\n"; !strings.Contains(once.String(), want) {
		t.Errorf("without repeats there is no line %q:\n%s", want, once.String())
	}
	if t.Failed() {
		t.Log(got.String())
	}
}

func TestCycles(t *testing.T) {
	text, err := os.ReadFile("../../../adapter/slurm/testdata/sdiag.txt")
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
