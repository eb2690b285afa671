package score

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/lab/inject"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/workload"
)

func stream(t *testing.T, rules []string, prevalence float64) *inject.Stream {
	x := rng.Stream("score test", 1)
	var jobs []workload.Job
	for i := range 300 {
		j := workload.Job{ID: fmt.Sprintf("j%03d", i), Tenant: fmt.Sprintf("vc%d", i%4), Key: fmt.Sprintf("k%d", i%40),
			Submit: time.Duration(x.IntN(23*3600)) * time.Second, GPUs: workload.GPUs(1 << (i % 4)),
			Duration: time.Duration(600+x.IntN(40000)) * time.Second}
		jobs = append(jobs, j)
	}
	w, err := workload.New("test", time.Unix(1_500_000_000, 0).UTC(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	s, err := inject.New(inject.Options{Trace: w, To: 24 * time.Hour, Nodes: 8, Prevalence: prevalence, Rules: rules,
		Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScore: a rule that is right and one that finds nothing have the scores 1 and 0, and false
// alerts are counted.
func TestScore(t *testing.T) {
	s := stream(t, []string{"idle_allocation"}, .2)
	if len(s.Labels) < 5 {
		t.Fatalf("%d cases", len(s.Labels))
	}
	finding := func(entity string, at time.Duration, confidence float64) *patterns.Finding {
		return &patterns.Finding{Rule: "idle_allocation", Entity: patterns.Entity{Kind: "job", Name: entity},
			Opened: s.Zero.Add(at), Closed: s.Zero.Add(at), Confidence: confidence, WastedGPUHours: 1e6}
	}
	var right []*patterns.Finding
	for _, l := range s.Labels {
		right = append(right, finding(l.Entity, l.From+time.Hour, .9))
	}
	healthy := finding("j000", time.Hour, .5)
	late := finding(s.Labels[0].Entity, s.Labels[0].To+2*grace, .95)
	for _, x := range []struct {
		name                         string
		found                        []*patterns.Finding
		f1, balanced, area, perthous float64
	}{
		{"right", right, 1, 1, 1, 0},
		{"nothing", nil, 0, .5, 0, 0},
		{"a false alert of low confidence", append([]*patterns.Finding{healthy}, right...), 2 * float64(len(right)) /
			float64(2*len(right)+1), 1, 1, 1000 / s.GPUDays},
		{"too late", []*patterns.Finding{late}, 0, .5, 0, 1000 / s.GPUDays},
	} {
		var b Bench
		b.Add(s, x.found)
		r := b.Report(1).Rules[0]
		testshared.Near(t, x.name+": F1", r.F1.Value, x.f1, 1e-9)
		testshared.Near(t, x.name+": balanced accuracy", r.Balanced.Value, x.balanced, .02)
		testshared.Near(t, x.name+": PR-AUC", r.PRAUC.Value, x.area, 1e-9)
		testshared.Near(t, x.name+": false alerts", r.PerGPUDays.Value, x.perthous, 1e-9)
		if !r.Stops || r.Cases != len(s.Labels) {
			t.Errorf("%s: %+v", x.name, r)
		}
	}
	var b Bench
	b.Add(s, right)
	if r := b.Report(1).Rules[0]; r.Minutes.Value != 60 || r.Waste.Value != 1 {
		t.Errorf("%+v", r)
	}
}

// TestBuiltinRules: the built-in rules find most injected cases, and hardly anything where
// there is none.
func TestBuiltinRules(t *testing.T) {
	testshared.Full(t)
	s := stream(t, nil, .15)
	found, _, err := Scan(s, patterns.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	var b Bench
	b.Add(s, found)
	r := b.Report(1)
	cases, hit := 0, 0
	for _, row := range r.Rules {
		cases, hit = cases+row.Cases, hit+row.Found
	}
	if 10*hit < 8*cases {
		t.Errorf("%d of %d cases found; missed %v", hit, cases, r.Missed)
	}
	s = stream(t, []string{}, .15)
	found, _, err = Scan(s, patterns.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if Stops(f.Rule) {
			t.Errorf("found where nothing was injected: %s %s, %v", f.Rule, f.Entity.Name, f.Evidence)
		}
	}
}
