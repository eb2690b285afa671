package foresight

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/lab/internal/window"
	"github.com/autosched/autosched/workload"
)

func train(t *testing.T) *dataset.Training {
	t.Helper()
	o := window.Sample(t)
	o.Cluster = workload.Uniform(12, 8)
	o.From, o.To = o.From-24*time.Hour, o.From+48*time.Hour
	set, err := dataset.Train(context.Background(), o,
		dataset.Options{Segment: 12 * time.Hour, Stride: 4 * time.Hour, Configs: 12})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestNewTraining(t *testing.T) {
	testshared.Full(t)
	set := train(t)
	again, err := NewTraining(set.Table, set.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(set.Bases, again.Bases); diff != "" || !slices.Equal(set.Segments, again.Segments) ||
		!slices.Equal(set.Starts, again.Starts) {
		t.Errorf("read again: %s, segments %v, starts %v", diff, again.Segments, again.Starts)
	}
}

func TestNewTrainingRefuses(t *testing.T) {
	segment := func(s ...string) causal.Column { return causal.NewCategorical(dataset.SegmentColumn, s) }
	ratio := causal.Column{Name: dataset.RatioName("avg_jct"), Values: []float64{1, 2}}
	base := func(v ...float64) causal.Column { return causal.Column{Name: dataset.BaseName("avg_jct"), Values: v} }
	for name, c := range map[string]struct {
		columns []causal.Column
		want    string
	}{
		"no segments":  {[]causal.Column{ratio, base(5, 6)}, "no column \"segment\""},
		"no base":      {[]causal.Column{ratio, segment("a", "b")}, "X_incumbent"},
		"no objective": {[]causal.Column{segment("a", "b"), base(5, 6)}, "no objective"},
		"not sorted":   {[]causal.Column{ratio, segment("b", "a"), base(5, 6)}, "row 2"},
		"zero base":    {[]causal.Column{ratio, segment("a", "b"), base(5, 0)}, "row 2, column \"avg_jct_incumbent\""},
	} {
		table, err := causal.NewTable(c.columns...)
		if err != nil {
			t.Fatal(err)
		}
		spec := &causal.Spec{Tiers: map[string]string{ratio.Name: causal.TierObjective}}
		if _, err := NewTraining(table, spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestForesee(t *testing.T) {
	testshared.Full(t)
	set := train(t)
	f, err := Foresee(context.Background(), set, .7, causal.LearnOptions{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f.TrainSegments != 11 || f.TestSegments != 5 || f.TrainRows+f.TestRows != set.Table.Rows() || f.Spread <= 1 {
		t.Errorf("%+v", f)
	}
	// The workload's own run times are most of the objective.
	if f.Error >= f.Mean || f.Error > .5 || f.Rank < 0 {
		t.Errorf("%+v", f)
	}
	if d := f.Differ; d.Segments == 0 || d.Segments > f.TestSegments || d.Rows == 0 || d.Rows > f.TestRows ||
		d.Error <= 0 || d.IncumbentOnly <= 0 {
		t.Errorf("where configurations differ: %+v", d)
	}
	if f.Document == nil || len(f.Document.Nodes) == 0 {
		t.Error("no graph")
	}
}

func TestForeseeRefuses(t *testing.T) {
	testshared.Full(t)
	if _, err := Foresee(context.Background(), train(t), 1, causal.LearnOptions{}, model.Options{}); err == nil {
		t.Error("nothing to judge on, and no error")
	}
	idle := train(t)
	c := idle.Table.Column(idle.Table.Index(dataset.RatioName("avg_jct")))
	for r := range c.Values {
		c.Values[r] = 1
	}
	if _, err := Foresee(context.Background(), idle, .7, causal.LearnOptions{}, model.Options{}); err == nil ||
		!strings.Contains(err.Error(), "configurations make no difference") {
		t.Errorf("an objective that never changes: %v", err)
	}
}

func TestTries(t *testing.T) {
	var tries Tries
	// The two best of five are within 1 %: the predictions put one of them second.
	tries.add([]float64{3, 1, 2, 5, 4}, []float64{10, 20, 10.05, 30, 40})
	// Drawn at random, the first of two good ones among five comes after 6/3. The
	// best of three of five: 10 in 6 of 10 cases, 10.05 in 3, 20 in 1.
	want := Tries{Random: 2, Model: 2, RandomOf: (6*10 + 3*10.05 + 20) / 10 / 10, ModelOf: 1}
	if diff := cmp.Diff(want, tries, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Error(diff)
	}
	tries.add([]float64{1, 1}, []float64{2, 2}) // fewer than three
	tries.over(2)
	if diff := cmp.Diff(Tries{Random: 1.5, Model: 1.5, RandomOf: (want.RandomOf + 1) / 2, ModelOf: 1}, tries,
		cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Error(diff)
	}
}
