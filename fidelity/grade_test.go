package fidelity

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/workload"
)

// TestDoubt: a difference that another scheduler may explain is not refused where it is not known which one ran
// the history.
func TestDoubt(t *testing.T) {
	const minute, day = 60, 86400
	report := func(queue, mean float64, others ...float64) *Report {
		r := &Report{Graded: Graded{Grade: Incomparable}, Cluster: workload.Uniform(20, 8), Queue: queue,
			MeanGPUs: mean, Delay: Agreement{Recorded: 6 * minute, Simulated: queue}, JCT: Agreement{Recorded: day}}
		for _, q := range append(others, queue) {
			r.Orders = append(r.Orders, Order{Queue: q})
		}
		return r
	}
	for name, c := range map[string]struct {
		report *Report
		says   string // "" if it is not refused
	}{
		"7.6 days, everywhere":        {report(7.6*day, 100, 6*day), "no simulated scheduler explains it"},
		"7.6 days, a small cluster":   {report(7.6*day, 900, 0), "900 GPUs were in use on average, and the cluster has 160"},
		"7.6 days, by order":          {report(7.6*day, 100, 10*minute), ""},
		"five times as long":          {report(30*minute, 900), ""},
		"longer by less than the JCT": {report(.9*day, 900), ""},
	} {
		c.report.doubt()
		if r := c.report; r.Refused != (c.says != "") || !strings.Contains(r.Why, c.says) ||
			r.Refused && r.Grade != Not {
			t.Errorf("%s: %+v", name, r.Graded)
		}
	}
}

// TestLimits: each limit of a grade, by itself.
func TestLimits(t *testing.T) {
	good := Agreement{Recorded: 1000, Simulated: 1000, Factor: 1.1, KS: .05, Rank: .9, Delayed: 100}
	for name, c := range map[string]struct {
		edit func(*Report)
		want Grade
	}{
		"good":                      {func(*Report) {}, Describes},
		"half as long again":        {func(r *Report) { r.Delay.Simulated = 1500 }, Roughly},
		"half":                      {func(r *Report) { r.Delay.Simulated = 450 }, Barely},
		"a third":                   {func(r *Report) { r.Delay.Simulated = 330 }, Not},
		"a difference of 1 %":       {func(r *Report) { r.Delay.Simulated, r.JCT.Recorded = 450, 60000 }, Describes},
		"off by 1.7":                {func(r *Report) { r.Delay.Factor = 1.7 }, Roughly},
		"off by 2.01":               {func(r *Report) { r.Delay.Factor = 2.01 }, Barely},
		"off by 3":                  {func(r *Report) { r.Delay.Factor = 3 }, Not},
		"another distribution":      {func(r *Report) { r.Delay.KS = .2 }, Roughly},
		"quite another":             {func(r *Report) { r.Delay.KS = .4 }, Not},
		"other jobs":                {func(r *Report) { r.Delay.Rank = .6 }, Roughly},
		"quite others":              {func(r *Report) { r.Delay.Rank = .4 }, Not},
		"others, but few delayed":   {func(r *Report) { r.Delay.Rank, r.Delay.Delayed = 0, 29 }, Describes},
		"delays that do not matter": {func(r *Report) { r.Delay.KS, r.JCT.Recorded = .9, 200000 }, Describes},
		"another scheduler":         {func(r *Report) { r.Recorded = Other }, Incomparable},
	} {
		r := &Report{Scheduler: "fifo", Recorded: "fifo", Delay: good, JCT: Agreement{Recorded: 10000}}
		c.edit(r)
		if r.grade(); r.Grade != c.want || r.Refused != (c.want == Not) || r.Why == "" {
			t.Errorf("%s: %+v, want %s", name, r.Graded, c.want)
		}
	}
}

// TestRefusal: the error has the first cause, and the scheduler that is closer wherever it stands.
func TestRefusal(t *testing.T) {
	r := &Report{Graded: Graded{Not, "delays differ", true}, Causes: []Cause{{LessCapacity, "nodes were out", "x"},
		{OtherOrder, "jobs overtake", "x"}, {OtherScheduler, "sjf describes it better", "x"}}}
	const want = "recorded cluster: delays differ; nodes were out; sjf describes it better. Correct"
	if err := r.Refusal("--x"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
