package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// report of methods, as a name, a configuration and an average JCT in seconds each; a third
// of the jobs wait. The baseline is the first, which is the user's configuration if it is current.
func reportOf(methods ...any) *document {
	r := &document{&replay.Report{Objective: "avg_jct", Scheduler: "fifo", IntervalS: 3600, Seed: 1}}
	for i := 0; i < len(methods); i += 3 {
		m := replay.Method{Method: methods[i].(string), Outcome: replay.Outcome{
			Configuration: methods[i+1].(string), AvgJCT: methods[i+2].(float64)}}
		for j := range 600 {
			m.Rows = append(m.Rows, named(fmt.Sprint("job", j), m.AvgJCT*(.5+.5*float64(j%3)))...)
		}
		r.Methods = append(r.Methods, m)
	}
	base := &r.Methods[0]
	r.Baseline = replay.Baseline{Method: base.Method, Configuration: base.Configuration,
		Assumed: base.Method == "default", Default: "order=submit limit=off"}
	return r
}

// unsure lets one job make the difference of the last method.
func unsure(r *document) *document {
	m := &r.Methods[len(r.Methods)-1]
	base := &r.Methods[0]
	copy(m.Rows, base.Rows)
	m.Rows[0].JCT += 600 * (m.AvgJCT - base.AvgJCT)
	return r
}

// bySeed gives the last method an outcome for each average JCT.
func bySeed(r *document, jcts ...float64) *document {
	m := &r.Methods[len(r.Methods)-1]
	for _, v := range jcts {
		m.Seeds = append(m.Seeds, replay.Outcome{AvgJCT: v, Configuration: m.Configuration})
	}
	return r
}

// pays lets a method break a guard.
func pays(r *document, name, text string) *document {
	r.find(name).Guards = &replay.Guards{Broken: []string{text}}
	return r
}

// losing lets jobs of 64 GPUs wait longer under a method.
func losing(r *document, name string) *document {
	job := workload.Job{ID: "wide", GPUs: workload.GPUs(64)}
	waits := func(s float64) round.JobResult { return round.JobResult{Wait: s, JCT: s, Ended: true} }
	r.find(name).Guards.Losers = round.Losers(slices.Repeat([]round.JobChange{{Job: &job, Before: waits(36000),
		After: waits(367200)}}, 4))[1:]
	return r
}

const (
	defaults = "order=submit limit=off"
	other    = "order=size limit=off"
	both     = "order=size limit=1h"
)

// fewJobs keeps 100 jobs.
func fewJobs(r *document) *document {
	for i := range r.Methods {
		r.Methods[i].Rows = r.Methods[i].Rows[:100]
	}
	return r
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		r    *document
		want []string // sentences
		set  string
	}{
		{"change once", reportOf("current", defaults, 100., "preset", other, 80., "autosched", defaults, 79.),
			[]string{"Change once: set order=size (average JCT 1 min 40 s -> 1 min 20 s, 20.0 % shorter, " +
				"95 % interval 20.0 to 20.0 %).",
				"Tuning every hour on top: 1.3 % shorter, within noise (2 %)."}, "--set order=size"},
		// A method that is no better than the best fixed configuration is not a reason to keep
		// the present configuration.
		{"tuning no better than a fixed configuration", reportOf("default", defaults, 100., "preset", defaults, 100.,
			"fixed-history", other, 57.6, "autosched", other, 57.6),
			[]string{"Change once: set order=size (average JCT 1 min 40 s -> 58 s, 42.4 % shorter, " +
				"95 % interval 42.4 to 42.4 %).",
				"Tuning every hour on top: no difference, within noise (2 %)."}, "--set order=size"},
		{"keep what runs", reportOf("current", both, 100., "default", defaults, 130., "preset", other, 99.,
			"autosched", both, 101.),
			[]string{"Keep what you run: no configuration that could be chosen beforehand is better by more than noise " +
				"(2 %).", "Tuning every hour: 1.0 % longer, within noise (2 %)."}, ""},
		{"defaults are assumed", reportOf("default", defaults, 100., "preset", other, 100., "autosched", both, 110.),
			[]string{"Keep the defaults, if they are what you run: no configuration that could be chosen beforehand is " +
				"better by more than noise (2 %).",
				"Tuning every hour: 10.0 % longer, 95 % interval 10.0 to 10.0 %."}, ""},
		{"back to the defaults", reportOf("current", both, 100., "default", defaults, 90., "preset", other, 95.),
			[]string{"Change once: set order=submit, limit=off (average JCT 1 min 40 s -> 1 min 30 s, 10.0 % " +
				"shorter, 95 % interval 10.0 to 10.0 %).",
				"Tuning every hour: not evaluated, as autosched is not among the methods."},
			"(no --set: the defaults)"},
		{"the fewest changes within noise", reportOf("current", defaults, 100., "preset", other, 80.5,
			"fixed-history", both, 80.),
			[]string{"Change once: set order=size (average JCT 1 min 40 s -> 1 min 21 s, 19.5 % shorter, " +
				"95 % interval 19.5 to 19.5 %).",
				"Tuning every hour: not evaluated, as autosched is not among the methods."}, "--set order=size"},
		{"what keeps the guards within noise", pays(reportOf("current", defaults, 100., "preset", other, 80.5,
			"fixed-history", both, 80.), "preset", "p99 JCT 9 h, was 1 h"),
			[]string{"Change once: set order=size, limit=1h (average JCT 1 min 40 s -> 1 min 20 s, 20.0 % shorter, " +
				"95 % interval 20.0 to 20.0 %).",
				"Tuning every hour: not evaluated, as autosched is not among the methods."},
			"--set order=size --set limit=1h"},
		{"what keeping the guards costs", pays(reportOf("current", defaults, 100., "preset", other, 90.,
			"fixed-history", both, 80.), "fixed-history", "p99 JCT 9 h, was 1 h"),
			[]string{"Change once: set order=size (average JCT 1 min 40 s -> 1 min 30 s, 10.0 % shorter, " +
				"95 % interval 10.0 to 10.0 %); fixed-history would be 20.0 % shorter, but worse: p99 JCT 9 h, was 1 h.",
				"Tuning every hour: not evaluated, as autosched is not among the methods."}, "--set order=size"},
		{"worse for some", pays(pays(reportOf("current", both, 100., "preset", other, 80., "autosched", both, 70.),
			"preset", "p99 JCT 9 h, was 1 h"), "autosched", "p99 JCT 8 h, was 1 h"),
			[]string{"Change once, if what gets worse is acceptable: set limit=off (average JCT 1 min 40 s -> " +
				"1 min 20 s, 20.0 % shorter, 95 % interval 20.0 to 20.0 %); the price: p99 JCT 9 h, was 1 h.",
				"Tuning every hour on top: 12.5 % shorter, 95 % interval 12.5 to 12.5 %; the price: " +
					"p99 JCT 8 h, was 1 h."}, "--set order=size"},
		{"the wide pay", losing(pays(reportOf("current", both, 100., "preset", other, 80.), "preset",
			"64-GPU jobs wait 102 h, before 10 h (4 jobs)"), "preset"),
			[]string{"Change once, if what gets worse is acceptable: set limit=off (average JCT 1 min 40 s -> " +
				"1 min 20 s, 20.0 % shorter, 95 % interval 20.0 to 20.0 %); the price: 64-GPU jobs wait 102 h, " +
				"before 10 h (4 jobs).", "Tuning every hour: not evaluated, as autosched is not among the methods."},
			"--set order=size"},
		{"only tuning gains", reportOf("current", defaults, 100., "preset", other, 100., "autosched", both, 80.),
			[]string{"Tuning every hour: 20.0 % shorter, 95 % interval 20.0 to 20.0 %.",
				"Change once: no configuration that could be chosen beforehand is better by more than noise (2 %)."}, ""},
		{"hindsight and chance recommend nothing", reportOf("current", defaults, 100., "preset", other, 100.,
			"fixed-oracle", both, 50., "oracle", both, 40., "random-preset", both, 40., "autosched", both, 80.),
			[]string{"Keep what you run: no configuration that could be chosen beforehand is better by more than noise " +
				"(2 %).", "Tuning every hour: 20.0 % shorter, 95 % interval 20.0 to 20.0 %, but presets drawn at random do " +
				"as well."}, ""},
		{"a change may be chance", unsure(reportOf("current", defaults, 100., "fixed-history", other, 98.)),
			[]string{"Keep what you run: the best configuration, fixed-history, is 2.0 % shorter, 95 % interval -, " +
				"which may be chance.",
				"Tuning every hour: not evaluated, as autosched is not among the methods."}, ""},
		{"tuning that falls behind the change", reportOf("current", defaults, 100., "preset", other, 50.,
			"autosched", both, 75.),
			[]string{"Change once: set order=size (average JCT 1 min 40 s -> 50 s, 50.0 % shorter, " +
				"95 % interval 50.0 to 50.0 %).",
				"Tuning every hour instead: 50.0 % longer, 95 % interval 50.0 to 50.0 %."}, "--set order=size"},
		{"too few jobs for an interval", fewJobs(reportOf("current", defaults, 100., "preset", other, 80.,
			"autosched", both, 90.)),
			[]string{"Keep what you run: the best configuration, preset, is 20.0 % shorter (too few jobs for an interval), " +
				"which may be chance.",
				"Tuning every hour: 10.0 % shorter (too few jobs for an interval), which may be chance."}, ""},
		{"worse by chance", unsure(reportOf("current", defaults, 100., "preset", other, 103.)),
			[]string{"Keep what you run: no configuration that could be chosen beforehand is better by more than noise " +
				"(2 %).", "Tuning every hour: not evaluated, as autosched is not among the methods."}, ""},
		{"tuning that is worse by chance", unsure(reportOf("current", defaults, 100., "preset", other, 100.,
			"autosched", other, 103.)),
			[]string{"Keep what you run: no configuration that could be chosen beforehand is better by more than noise " +
				"(2 %).", "Tuning every hour: 3.0 % longer, 95 % interval -, which may be chance."}, ""},
		{"luck", bySeed(reportOf("current", defaults, 100., "preset", other, 100., "autosched", other, 95.), 85, 105),
			[]string{"Keep what you run: no configuration that could be chosen beforehand is better by more than noise " +
				"(2 %).", "Tuning every hour: a matter of luck, by seed from 5.0 % longer to 15.0 % shorter."}, ""},
		{"luck of what is tuned once", bySeed(reportOf("current", defaults, 100., "fixed-history", other, 95.), 85,
			105),
			[]string{"Keep what you run: the best configuration, fixed-history, is a matter of luck, by seed from " +
				"5.0 % longer to 15.0 % shorter.",
				"Tuning every hour: not evaluated, as autosched is not among the methods."}, ""},
		{"nothing fixed evaluated", reportOf("current", defaults, 100., "autosched", both, 100.),
			[]string{"Change once: not evaluated, as neither preset nor fixed-history is among the methods.",
				"Tuning every hour: no difference, within noise (2 %)."}, ""},
		{"nothing tried for want of a history", reportOf("current", defaults, 100., "preset", defaults, 100.,
			"fixed-history", defaults, 100.),
			[]string{"Change once: nothing else was tried, as no job before the window shows what to choose.",
				"Tuning every hour: not evaluated, as autosched is not among the methods."}, ""},
		{"AutoSched before other tuners", reportOf("current", defaults, 100., "selftune", both, 80.,
			"autosched", both, 100.),
			[]string{"Change once: not evaluated, as neither preset nor fixed-history is among the methods.",
				"Tuning every hour: no difference, within noise (2 %)."}, ""},
	} {
		a := c.r.answer()
		got := a.Sentences()
		if i := slices.IndexFunc(got, func(s string) bool {
			return strings.Contains(s, "interval") && strings.Contains(s, "%, which may be chance")
		}); i >= 0 {
			from := strings.Index(got[i], "interval ")
			got[i] = got[i][:from] + "interval -" + got[i][strings.Index(got[i], ", which"):]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
		if a.Flags != c.set {
			t.Errorf("%s: flags %q, want %q", c.name, a.Flags, c.set)
		}
	}
}

// TestRegister: the service registers the configuration to run, which is the baseline if only tuning
// gains.
func TestRegister(t *testing.T) {
	for want, r := range map[string]*document{
		"autosched scheduler register --builtin fifo --nodes 5 --gpus-per-node 8 --set order=size": reportOf("current",
			defaults, 100., "preset", other, 80.),
		"autosched scheduler register --builtin fifo --nodes 5 --gpus-per-node 8 --set limit=1h": reportOf("current",
			"order=submit limit=1h", 100., "preset", other, 100., "autosched", both, 80.),
		"autosched scheduler register --builtin fifo --nodes 5 --gpus-per-node 8": reportOf("current", both, 100.,
			"default", defaults, 80.),
		"": reportOf("current", both, 100., "default", defaults, 100.),
	} {
		r.Cluster = workload.Uniform(5, 8)
		if got := r.answer().Register; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		r.Cluster.Site.Partitions = []workload.Partition{{Name: "train"}}
		if got := r.answer().Register; got != "" {
			t.Errorf("of a site: %q", got)
		}
	}
}

// TestAnswerNeedsNoJobs: fairness has a gain without an interval.
func TestAnswerNeedsNoJobs(t *testing.T) {
	r := reportOf("current", defaults, 100., "preset", other, 80.)
	r.Objective = "p95_rho"
	r.Methods[0].P95Rho, r.Methods[1].P95Rho = 4, 3
	want := "Change once: set order=size (p95 of rho 4.000 -> 3.000, 25.0 % lower, without an interval)."
	if a := r.answer(); a.Once.Text != want || a.Once.Gain.Interval != nil {
		t.Errorf("%s", a.Once.Text)
	}
	r.Objective, r.Methods[0].FTFLe1 = "ftf", 1 // nothing to gain
	if _, err := json.Marshal(JSON(r.Report)); err != nil {
		t.Error(err)
	}
}

func TestChanges(t *testing.T) {
	got := fmt.Sprint(changes("a=1 b=2 c=3", "a=1 b=3 d=4"))
	if want := "[{b 2 3 } {d  4 } {c 3  }]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestAnswerCorrectsForSeveral: a gain that one configuration shows may be chance where it is
// the best of three.
func TestAnswerCorrectsForSeveral(t *testing.T) {
	noisy := func(r *document, factor float64) *document {
		m, draw := r.find("preset"), rng.Stream("noise", 1)
		sum := 0.0
		for i := range m.Rows {
			m.Rows[i].JCT = r.Methods[0].Rows[i].JCT * draw.ExpFloat64() / factor
			sum += m.Rows[i].JCT
		}
		m.AvgJCT = sum / float64(len(m.Rows))
		return r
	}
	alone := func() *document { return reportOf("current", defaults, 100., "preset", other, 100.) }
	r := noisy(alone(), 1)
	one, _, _ := r.interval(&r.Methods[1], &r.Methods[0], 1)
	three, _, _ := r.interval(&r.Methods[1], &r.Methods[0], 3)
	factor := 1 / math.Sqrt(one*three)
	if a := noisy(alone(), factor).answer(); a.Once.Finding != Better {
		t.Errorf("alone: %s (%g, %g)", a.Once.Text, one, three)
	}
	several := noisy(reportOf("current", defaults, 100., "preset", other, 100., "default", both, 100.,
		"fixed-history", both, 100.), factor)
	if a := several.answer(); a.Once.Finding != Chance {
		t.Errorf("the best of three: %s", a.Once.Text)
	}
}
