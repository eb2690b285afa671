package replay

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// sample is a day of the built-in trace on its cluster, with a day of history.
func sample(t *testing.T, methods ...string) Options {
	t.Helper()
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Span()
	first = first.Truncate(24 * time.Hour)
	return Options{Trace: w, From: first + 24*time.Hour, To: first + 36*time.Hour, Cluster: workload.Uniform(20, 8),
		Scheduler: s, Methods: methods, Settings: round.Settings{Budget: 10, Futures: 2, Seed: 7}}
}

func evaluate(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryMethodRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates every method")
	}
	r := evaluate(t, sample(t))
	var names []string
	for _, m := range r.Methods {
		names = append(names, m.Method)
		if m.AvgJCT <= 0 || len(m.Rows.JCTs()) != r.Jobs || m.Ratio <= 0 {
			t.Errorf("%s: average JCT %v of %d jobs, ratio %v", m.Method, m.AvgJCT, len(m.Rows.JCTs()), m.Ratio)
		}
		tunes := map[string]bool{"random-preset": true, "selftune": true, "selftune+": true, "paper": true,
			"autosched": true, "oracle": true}[m.Method]
		if tunes != (len(m.Decisions) > 0) {
			t.Errorf("%s has %d decisions", m.Method, len(m.Decisions))
		}
		switch m.Method {
		case "default":
			if m.Ratio != 1 || m.Evaluations != 0 {
				t.Errorf("default: ratio %v, %d evaluations", m.Ratio, m.Evaluations)
			}
		case "fixed-history", "fixed-oracle":
			if want := 10 * 12; m.Evaluations != want {
				t.Errorf("%s: %d evaluations, want the budget of all rounds, %d", m.Method, m.Evaluations, want)
			}
		case "selftune", "selftune+", "paper", "autosched", "oracle":
			for _, d := range m.Decisions {
				if d.Evaluations > 10 {
					t.Errorf("%s: %d evaluations in a round, more than the budget", m.Method, d.Evaluations)
				}
			}
		}
	}
	if diff := cmp.Diff(MethodNames()[1:], names); diff != "" { // none runs
		t.Error(diff)
	}
}

func TestSameForAnyWorkers(t *testing.T) {
	run := func(workers int) string {
		o := sample(t, "default", "fixed-history", "selftune", "autosched", "oracle")
		o.Workers, o.Jobs = workers, workers
		if testing.Short() {
			o.To = o.From + 4*time.Hour
		}
		r := evaluate(t, o)
		for i := range r.Methods {
			r.Methods[i].TuningPerRound = 0 // wall time
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := run(1)
	several := []int{5, 2}
	if testing.Short() {
		several = several[:1]
	}
	for _, n := range several {
		if diff := cmp.Diff(one, run(n)); diff != "" {
			t.Errorf("%d workers decide otherwise than one:\n%s", n, diff)
		}
	}
}

// TestDecisionsAreCausal changes everything that is unknown at an instant: later
// submissions, and the durations of jobs that have not ended. Decisions up to then must
// be the same; the oracle's are not.
func TestDecisionsAreCausal(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates five methods twice")
	}
	o := sample(t, "random-preset", "selftune", "selftune+", "autosched", "oracle")
	o.Always = true // so that the best measurement is adopted
	at := o.From + 8*time.Hour
	var jobs []workload.Job
	for _, j := range o.Trace.Jobs() {
		if j.Submit > at {
			j.Duration = j.Duration/3 + time.Second
		}
		// A job that runs longer than since its submission cannot have ended by then.
		if j.Submit >= o.From && j.Submit+j.Duration > at {
			j.Duration = 2*j.Duration + time.Hour
		}
		jobs = append(jobs, j)
	}
	other, err := workload.New("other", o.Trace.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	changed := o
	changed.Trace = other
	a, b := evaluate(t, o), evaluate(t, changed)
	for i := range a.Methods {
		known := func(m Method) (out []Decision) {
			for _, d := range m.Decisions {
				if d.AtS <= at.Seconds() {
					out = append(out, d)
				}
			}
			return out
		}
		diff := cmp.Diff(known(a.Methods[i]), known(b.Methods[i]))
		if name := a.Methods[i].Method; name == "oracle" {
			if diff == "" {
				t.Error("the oracle decides the same in two different futures: this test shows nothing")
			}
		} else if diff != "" {
			t.Errorf("%s knows the future:\n%s", name, diff)
		}
	}
}

func TestWithoutHistory(t *testing.T) {
	o := sample(t, "default", "fixed-history", "autosched")
	o.From -= 24 * time.Hour
	o.To = o.From + 6*time.Hour
	r := evaluate(t, o)
	if r.HistoryJobs != 0 || !strings.Contains(strings.Join(r.Notes, " "), "no history") {
		t.Errorf("%d jobs of history; notes %q", r.HistoryJobs, r.Notes)
	}
	if m := r.Methods[1]; m.AvgJCT != r.Methods[0].AvgJCT || !strings.Contains(m.Description, "no history") {
		t.Errorf("fixed-history without history: %+v", m)
	}
}

func TestWarmup(t *testing.T) {
	cold := sample(t, "default")
	warm := cold
	warm.Warmup = 12 * time.Hour
	a, b := evaluate(t, cold), evaluate(t, warm)
	if a.Jobs != b.Jobs || len(a.Methods[0].Rows) != len(b.Methods[0].Rows) {
		t.Errorf("warm-up changes what counts: %d and %d jobs", len(a.Methods[0].Rows), len(b.Methods[0].Rows))
	}
	if !(b.Methods[0].AvgJCT > a.Methods[0].AvgJCT) {
		t.Errorf("a warm cluster is not busier: JCT %v after %v", b.Methods[0].AvgJCT, a.Methods[0].AvgJCT)
	}
}

// TestWarmupScoresWhatCounts: the history ends at From, however long the warm-up; and a
// configuration tuned on the window in hindsight is at least as good as all with which its
// search began.
func TestWarmupScoresWhatCounts(t *testing.T) {
	testshared.Full(t)
	o := sample(t, "default", "preset", "fixed-oracle")
	o.Warmup, o.Budget = 24*time.Hour, 4
	r := evaluate(t, o)
	if r.HistoryJobs == 0 || len(r.Notes) > 0 {
		t.Errorf("%d jobs of history; notes %q", r.HistoryJobs, r.Notes)
	}
	for _, m := range r.Methods[:2] {
		if oracle := r.Methods[2]; oracle.AvgJCT > m.AvgJCT {
			t.Errorf("fixed-oracle has %v, %s %v", oracle.AvgJCT, m.Method, m.AvgJCT)
		}
	}
}

// TestFixedOracleScoresTheReplay: the objective that fixed-oracle minimises equals that
// of the live simulation, for policies that learn from past jobs too.
func TestFixedOracleScoresTheReplay(t *testing.T) {
	for _, warmup := range []time.Duration{0, 2 * time.Hour} {
		o := sample(t)
		o.Warmup, o.Cluster = warmup, workload.Uniform(14, 8) // jobs wait
		e, err := Prepare(o)
		if err != nil {
			t.Fatal(err)
		}
		scorer, err := e.Scorer(e.window())
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range [][]string{nil, {"priority=gittins", "queues=1", "order=submit"}} {
			c, err := e.Options.Scheduler.Space.Parse(e.Options.Scheduler.Space.Default(), set)
			if err != nil {
				t.Fatal(err)
			}
			want, err := scorer.Measure(context.Background(), c)
			if err != nil {
				t.Fatal(err)
			}
			var got Outcome
			if _, err := e.replay(context.Background(), &method{}, &got, c); err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.AvgJCT-want.Mean()) > 1e-6 {
				t.Errorf("%v, %v before: replayed %v, scored %v", set, warmup, got.AvgJCT, want.Mean())
			}
		}
	}
}

// TestWideHistory: jobs of the history wider than the cluster are left out, with a note.
func TestWideHistory(t *testing.T) {
	testshared.Full(t)
	o := sample(t, "default", "fixed-history", "autosched", "selftune")
	o.To = o.From + 2*time.Hour
	jobs := append([]workload.Job{{ID: "wide", Submit: o.From - 10*time.Minute, Duration: time.Minute,
		GPUs: workload.GPUs(1000)}}, o.Trace.Jobs()...)
	w, err := workload.New("wide", o.Trace.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	o.Trace = w
	if r := evaluate(t, o); !strings.Contains(strings.Join(r.Notes, " "), "1 jobs of the history") {
		t.Errorf("notes %q", r.Notes)
	}
}

// TestHistoryWiderThanGroups: a job of the history may fit no group of nodes though the
// groups together have its GPUs.
func TestHistoryWiderThanGroups(t *testing.T) {
	testshared.Full(t)
	o := sample(t, "default", "fixed-history", "autosched")
	o.To = o.From + 2*time.Hour
	half := workload.NodeGroup{Nodes: 1 << 7, GPUsPerNode: 8}
	o.Cluster = workload.Cluster{Groups: []workload.NodeGroup{half, half}}
	jobs := append([]workload.Job{{ID: "wide", Submit: o.From - 10*time.Minute, Duration: time.Minute,
		GPUs: workload.GPUs(1500)}}, o.Trace.Jobs()...)
	w, err := workload.New("wide", o.Trace.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	o.Trace = w
	if r := evaluate(t, o); !strings.Contains(strings.Join(r.Notes, " "), "1 jobs of the history") {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestSmallCluster(t *testing.T) {
	o := sample(t, "default")
	var jobs []workload.Job
	for _, j := range o.Trace.Window(o.From, o.From+2*time.Hour).Jobs() {
		if j.GPUs.Whole() <= 8 {
			jobs = append(jobs, j)
		}
	}
	w, err := workload.New("small", o.Trace.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	o.Trace, o.Cluster = w, workload.Uniform(4, 8)
	if r := evaluate(t, o); !strings.Contains(strings.Join(r.Notes, " "), "32 GPUs") {
		t.Errorf("no note about a small cluster: %q", r.Notes)
	}
}

func TestBadOptions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"method":    {func(o *Options) { o.Methods = []string{"magic"} }, `"magic"`},
		"window":    {func(o *Options) { o.To = o.From }, "not after"},
		"no jobs":   {func(o *Options) { o.From += 1000 * time.Hour; o.To += 1000 * time.Hour }, "no job"},
		"cluster":   {func(o *Options) { o.Cluster = workload.Uniform(0, 8) }, "nodes"},
		"too small": {func(o *Options) { o.Cluster = workload.Uniform(1, 8) }, "asks for"},
		"objective": {func(o *Options) { o.Goal = round.Minimise("joy") }, `"joy"`},
		"warmup":    {func(o *Options) { o.Warmup = -1 }, "warmup"},
		"interval":  {func(o *Options) { o.Interval = -1 }, "interval"},
	} {
		o := sample(t, "default")
		c.change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := sample(t, "autosched")
	o.Progress = func(s Step) {
		if s.Rounds == 2 {
			cancel()
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestTune(t *testing.T) {
	testshared.Full(t)
	o := sample(t)
	incumbent, err := o.Scheduler.Space.Parse(o.Scheduler.Space.Default(), []string{"queues=1"})
	if err != nil {
		t.Fatal(err)
	}
	o.From -= 24 * time.Hour
	o.Budget = 20
	tune := func(sampler string, truth bool) []search.Trial {
		r, state, err := Tune(context.Background(), o,
			TuneOptions{At: o.From + 30*time.Hour, Incumbent: incumbent, Sampler: sampler, Truth: truth})
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Jobs) == 0 || !r.Incumbent.Config.Equal(incumbent) {
			t.Errorf("%d active jobs, incumbent %s", len(state.Jobs), r.Incumbent.Config)
		}
		// One queue without preemption is far worse than any ladder.
		if !r.Adopt || r.Config.Equal(incumbent) || !(r.Ratio > 1.05) {
			t.Errorf("%s, truth %v: %s (%v)", sampler, truth, r.Reason, r.Ratio)
		}
		return r.Trials
	}
	for _, s := range search.Samplers {
		trials := tune(s.Name, false)
		if len(trials) > o.Budget {
			t.Errorf("%s: %d trials", s.Name, len(trials))
		}
		has := func(c space.Config) bool {
			for _, x := range trials {
				if x.Config.Equal(c) {
					return true
				}
			}
			return false
		}
		if !has(incumbent) || !has(o.Scheduler.Space.Default()) || !has(o.Scheduler.Presets[0].Config) {
			t.Errorf("%s: the incumbent, the default or a preset was not measured", s.Name)
		}
	}
	if n := len(tune("", true)[0].Measurement.Values); n != 1 {
		t.Errorf("the truth has %d futures", n)
	}
}

// Rounds between the regular ones leave later ones in the estimate.
func TestRoundsAfter(t *testing.T) {
	e := Evaluation{Options: Options{From: time.Hour, To: 11 * time.Hour, Interval: time.Hour}}
	for _, tt := range []struct {
		done int
		at   time.Duration
		want int
	}{{1, time.Hour, 10}, {12, 4 * time.Hour, 18}, {13, 270 * time.Minute, 19}, {16, 10 * time.Hour, 16}} {
		if got := e.roundsAfter(tt.done, tt.at); got != tt.want {
			t.Errorf("%d done at %v: %d in all, want %d", tt.done, tt.at, got, tt.want)
		}
	}
}
