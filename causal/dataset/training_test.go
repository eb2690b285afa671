package dataset

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// sample is a day of the built-in trace on its cluster, with a day of history.
func sample(t *testing.T) replay.Options {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Span()
	first = first.Truncate(24 * time.Hour)
	return replay.Options{Trace: w, From: first + 24*time.Hour, To: first + 36*time.Hour,
		Cluster:   workload.Uniform(20, 8),
		Scheduler: s, Settings: round.Settings{Budget: 10, Futures: 2, Seed: 7}}
}

func train(t *testing.T, workers int) *Training {
	t.Helper()
	o := sample(t)
	o.Cluster, o.Workers = workload.Uniform(12, 8), workers
	o.From, o.To = o.From-24*time.Hour, o.From+48*time.Hour
	set, err := Train(context.Background(), o,
		Options{Segment: 12 * time.Hour, Stride: 4 * time.Hour, Configs: 12})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTrain(t *testing.T) {
	testshared.Full(t)
	set := train(t, 1)
	if n := len(set.Starts); n != 16 {
		t.Fatalf("%d segments, want 16", n)
	}
	if rows := set.Table.Rows() + set.Exhausted; rows != 16*12 || len(set.Bases) != set.Table.Rows() ||
		len(set.Segments) != set.Table.Rows() {
		t.Fatalf("%d rows, %d exhausted", set.Table.Rows(), set.Exhausted)
	}
	for i, n := range set.Table.Names() {
		values := set.Table.Column(i).Values
		if set.Spec.Tiers[n] == "" && !slices.Contains(set.Spec.Ignore, n) {
			t.Errorf("%s has no tier", n)
		}
		// The workload of a segment is the same for all its rows.
		if set.Spec.Tiers[n] == causal.TierContext {
			for r := 1; r < len(values); r++ {
				if set.Segments[r] == set.Segments[r-1] && values[r] != values[r-1] {
					t.Errorf("%s differs within a segment", n)
				}
			}
		}
		if slices.Max(values) == slices.Min(values) {
			t.Errorf("%s never changes", n)
		}
	}
	for _, want := range []string{"queues", "queue_thresholds_5", "starve_limit_state", "offered_load", "queue_change",
		RatioName("avg_jct")} {
		if set.Table.Index(want) < 0 {
			t.Errorf("no column %s among %v", want, set.Table.Names())
		}
	}
}

func TestTrainDoesNotDependOnWorkers(t *testing.T) {
	a, b := train(t, 1), train(t, 3)
	if a.Table.Hash() != b.Table.Hash() {
		t.Error("the tables differ")
	}
	if diff := cmp.Diff(a.Bases, b.Bases); diff != "" {
		t.Error(diff)
	}
}

func TestTrainRefuses(t *testing.T) {
	testshared.Full(t)
	o := sample(t)
	for name, c := range map[string]struct {
		t    Options
		want string
	}{
		"no configurations": {Options{Segment: time.Hour}, "must be positive"},
		"no segment":        {Options{Configs: 3}, "must be positive"},
		"long segment":      {Options{Segment: 1000 * time.Hour, Configs: 3}, "shorter than a segment"},
	} {
		if _, err := Train(context.Background(), o, c.t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
