package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
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
		Assumed: base.Method == "default", Default: defaults}
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
	defaults = "backfill=false"
	other    = "backfill=true"
	both     = "backfill=true limit=1h"
)

// fewJobs keeps 100 jobs.
func fewJobs(r *document) *document {
	for i := range r.Methods {
		r.Methods[i].Rows = r.Methods[i].Rows[:100]
	}
	return r
}

// decided gives a report the verdict that a configuration replaces the baseline, or is refused if breaks are named;
// that the baseline stays if it is "".
func decided(r *document, config string, breaks ...string) *document {
	s, err := schedulers.Find("fifo")
	if err != nil {
		panic(err)
	}
	c := s.Space.Default()
	if config != "" {
		if c, err = s.Space.Parse(c, []string{config}); err != nil {
			panic(err)
		}
	}
	r.Verdict = &replay.Verdict{Text: "Keep what runs.", Configuration: c}
	switch {
	case len(breaks) > 0:
		r.Verdict = &replay.Verdict{Text: "Refused.", Configuration: s.Space.Default(),
			Refused: &replay.RefusedChange{Configuration: c, Gain: .3, Breaks: breaks}}
	case config != "":
		r.Verdict.Text, r.Verdict.Change, r.Verdict.Gain, r.Verdict.Flags = "Change once.", true, .2, "--set "+config
	}
	return r
}

func TestAnswer(t *testing.T) {
	const none = "Tuning every hour: not evaluated, as autosched is not among the methods."
	for _, c := range []struct {
		name string
		r    *document
		want []string // sentences
	}{
		{"change once", decided(reportOf("current", defaults, 100., "preset", other, 80., "autosched", defaults, 79.),
			other), []string{"Change once.", "Tuning every hour on top: 1.3 % shorter, within noise (2 %)."}},
		// A method that is no better than the best fixed configuration is not a reason to keep
		// the present configuration.
		{"tuning no better than a fixed configuration", decided(reportOf("default", defaults, 100.,
			"preset", defaults, 100., "fixed-history", other, 57.6, "autosched", other, 57.6), other),
			[]string{"Change once.", "Tuning every hour on top: no difference, within noise (2 %)."}},
		{"a change that no method held", decided(reportOf("current", defaults, 100., "autosched", both, 80.), other),
			[]string{"Change once.", "Tuning every hour: 20.0 % shorter, 95 % interval 20.0 to 20.0 %."}},
		{"keep what runs", decided(reportOf("current", defaults, 100., "default", defaults, 130., "preset", other, 99.,
			"autosched", both, 101.), ""),
			[]string{"Keep what runs.", "Tuning every hour: 1.0 % longer, within noise (2 %)."}},
		{"tuning is worse", decided(reportOf("default", defaults, 100., "preset", other, 100., "autosched", both, 110.), ""),
			[]string{"Keep what runs.", "Tuning every hour: 10.0 % longer, 95 % interval 10.0 to 10.0 %."}},
		{"a refused change", decided(pays(reportOf("current", defaults, 100., "preset", other, 80., "autosched",
			both, 70.),
			"autosched", "p99 JCT 8 h, was 1 h"), other, "p99 JCT 1 h -> 9 h"),
			[]string{"Refused.", "Tuning every hour: 30.0 % shorter, 95 % interval 30.0 to 30.0 %; the price: " +
				"p99 JCT 8 h, was 1 h."}},
		{"the wide pay", decided(losing(pays(reportOf("current", defaults, 100., "autosched", other, 80.), "autosched",
			"64-GPU jobs wait 102 h, before 10 h (4 jobs)"), "autosched"), ""),
			[]string{"Tuning every hour: 20.0 % shorter, 95 % interval 20.0 to 20.0 %; the price: 64-GPU jobs wait 102 h, " +
				"before 10 h (4 jobs).", "Keep what runs."}},
		{"only tuning gains", decided(reportOf("current", defaults, 100., "preset", other, 100., "autosched", both, 80.), ""),
			[]string{"Tuning every hour: 20.0 % shorter, 95 % interval 20.0 to 20.0 %.", "Keep what runs."}},
		{"presets drawn at random", decided(reportOf("current", defaults, 100., "preset", other, 100.,
			"fixed-oracle", both, 50., "oracle", both, 40., "random-preset", both, 40., "autosched", both, 80.), ""),
			[]string{"Keep what runs.", "Tuning every hour: 20.0 % shorter, 95 % interval 20.0 to 20.0 %, but presets drawn " +
				"at random do as well."}},
		{"tuning that falls behind the change", decided(reportOf("current", defaults, 100., "preset", other, 50.,
			"autosched", both, 75.), other),
			[]string{"Change once.", "Tuning every hour instead: 50.0 % longer, 95 % interval 50.0 to 50.0 %."}},
		{"too few jobs for an interval", decided(fewJobs(reportOf("current", defaults, 100., "preset", other, 80.,
			"autosched", both, 90.)), ""),
			[]string{"Keep what runs.", "Tuning every hour: 10.0 % shorter (too few jobs for an interval), which may be " +
				"chance."}},
		{"tuning that is worse by chance", decided(unsure(reportOf("current", defaults, 100., "preset", other, 100.,
			"autosched", other, 103.)), ""),
			[]string{"Keep what runs.", "Tuning every hour: 3.0 % longer, 95 % interval -, which may be chance."}},
		{"luck", decided(bySeed(reportOf("current", defaults, 100., "preset", other, 100., "autosched", other, 95.), 85,
			105), ""),
			[]string{"Keep what runs.", "Tuning every hour: a matter of luck, by seed from 5.0 % longer to 15.0 % shorter."}},
		{"nothing tunes", decided(reportOf("current", defaults, 100., "preset", other, 80.), other),
			[]string{"Change once.", none}},
		{"AutoSched before other tuners", decided(reportOf("current", defaults, 100., "selftune", both, 80.,
			"autosched", both, 100.), ""),
			[]string{"Keep what runs.", "Tuning every hour: no difference, within noise (2 %)."}},
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
		if v := c.r.Verdict; a.Flags != v.Flags || v.Change && a.Once.Finding != Better ||
			v.Refused != nil && (a.Once.Finding != BreaksGuards || !slices.Equal(a.Once.Pays, v.Refused.Breaks)) {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

// TestRegister: the service registers the configuration to run, which is the baseline if only tuning
// gains.
func TestRegister(t *testing.T) {
	for want, r := range map[string]*document{
		"autosched scheduler register --builtin fifo --nodes 5 --gpus-per-node 8 --set backfill=true": decided(
			reportOf("current", defaults, 100., "preset", other, 80.), other),
		"autosched scheduler register --builtin fifo --nodes 5 --gpus-per-node 8 --set limit=1h": decided(reportOf("current",
			"backfill=false limit=1h", 100., "preset", other, 100., "autosched", both, 80.), ""),
		"": decided(reportOf("current", both, 100., "default", defaults, 100.), ""),
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
	r := decided(reportOf("current", defaults, 100., "autosched", other, 80.), "")
	r.Objective = "p95_rho"
	r.Methods[0].P95Rho, r.Methods[1].P95Rho = 4, 3
	want := "Tuning every hour: 25.0 % lower, without an interval."
	if a := r.answer(); a.Tuning.Text != want || a.Tuning.Gain.Interval != nil {
		t.Errorf("%s", a.Tuning.Text)
	}
	r.Objective, r.Methods[0].FTFLe1 = "ftf", 1 // nothing to gain
	if _, err := json.Marshal(JSON(r.Report)); err != nil {
		t.Error(err)
	}
}

func TestChanges(t *testing.T) {
	got := fmt.Sprint(changes("a=1 b=2 c=3", "a=1 b=3 d=4"))
	if want := "[{b 2 3  } {d  4  } {c 3   }]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
