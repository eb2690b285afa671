package replay

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// TestCurrentIsTheBaseline: the configuration that the user runs is the first row and 1 of
// every ratio; guards compare with it, and tuning begins with it in force.
func TestCurrentIsTheBaseline(t *testing.T) {
	testshared.Full(t)
	o := sample(t, "default", "preset", "random-preset", "autosched")
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	o.Scheduler, o.Cluster = s, workload.Uniform(14, 8)
	if o.Current, err = s.Space.Parse(s.Space.Default(), []string{"backfill=true"}); err != nil {
		t.Fatal(err)
	}
	r := evaluate(t, o)
	base := r.Methods[0]
	if base.Method != "current" || base.Ratio != 1 || base.Guards != nil || base.Configuration != "backfill=true" {
		t.Fatalf("the first row is %s: ratio %g, guards %v, %s", base.Method, base.Ratio, base.Guards,
			base.Configuration)
	}
	if b := r.Baseline; b.Method != "current" || b.Assumed || b.Configuration != "backfill=true" ||
		b.Default != "backfill=false" {
		t.Errorf("baseline %+v", b)
	}
	for _, m := range r.Methods[1:] {
		if want := base.AvgJCT / m.AvgJCT; m.Ratio != want {
			t.Errorf("%s: ratio %g, to the baseline %g", m.Method, m.Ratio, want)
		}
		for _, d := range m.Decisions {
			if d.Configuration != "backfill=true" {
				t.Errorf("%s at %s: %s", m.Method, d.At, d.Configuration)
			}
		}
	}
	byDefault := r.Methods[1]
	if byDefault.Method != "default" || byDefault.Ratio > .95 || len(byDefault.Guards.Broken) == 0 ||
		!strings.Contains(byDefault.Guards.Broken[0], ", before ") {
		t.Errorf("%s: ratio %g, guards %+v", byDefault.Method, byDefault.Ratio, byDefault.Guards)
	}
	if m := r.Methods[2]; m.Method != "preset" || m.Ratio != 1 { // FIFO has none
		t.Errorf("%s: ratio %g", m.Method, m.Ratio)
	}
}

// TestCurrentIsNamed: without a configuration there is no method current.
func TestCurrentIsNamed(t *testing.T) {
	e, err := Prepare(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Measure(t.Context(), "current"); err == nil {
		t.Error("a configuration that nobody named was evaluated")
	}
}
