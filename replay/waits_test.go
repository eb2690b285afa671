package replay_test

import (
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// TestCompareWaits: a long wide job before short narrow ones. The shortest first, they no longer wait, and it does.
func TestCompareWaits(t *testing.T) {
	at := func(n int) time.Duration { return time.Duration(n) * time.Second }
	ask := func(account, partition string) workload.Requested {
		return workload.Request{Account: account, Partition: partition}.Shared()
	}
	w, err := workload.New("t", time.Time{}, []workload.Job{
		{ID: "first", Tenant: "a", Submit: 0, Duration: at(100), GPUs: workload.GPUs(16)},
		{ID: "wide", Tenant: "a", Submit: at(1), Duration: at(1000), GPUs: workload.GPUs(16),
			Requested: ask("lab", "x")},
		{ID: "short", Tenant: "b", Submit: at(2), Duration: at(10), GPUs: workload.GPUs(1), Requested: ask("", "y")},
		{ID: "small", Tenant: "b", Submit: at(3), Duration: at(20), GPUs: workload.GPUs(2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := func(names ...string) (out []replay.Row) {
		for _, name := range names {
			s, err := schedulers.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			config, err := s.Space.Parse(s.Space.Default(), []string{"backfill=false"})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, replay.Row{Name: name, Scheduler: s, Config: config})
		}
		return out
	}
	o := replay.CompareOptions{Trace: w, Cluster: workload.Uniform(2, 8), Rows: rows("fifo", "sjf"),
		Windows: []replay.Window{{To: at(10)}}}
	got, err := replay.CompareWaits(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// fifo: wide runs from 100 to 1100, then both others. sjf: short and small from 100, wide from 120.
	type row struct {
		by, name      string
		jobs          int
		before, after float64
		slower        int
		worst         float64
	}
	want := []row{
		{"all", "", 4, (0 + 99 + 1098 + 1097) / 4., (0 + 119 + 98 + 97) / 4., 1, 20},
		{"GPUs", "1", 1, 1098, 98, 0, 0}, {"GPUs", "2", 1, 1097, 97, 0, 0}, {"GPUs", "9-16", 2, 49.5, 59.5, 1, 20},
		{"partition", "x", 1, 99, 119, 1, 20}, {"partition", "y", 1, 1098, 98, 0, 0},
		{"tenant", "a", 1, 0, 0, 0, 0}, {"tenant", "b", 2, 1097.5, 97.5, 0, 0}, {"tenant", "lab", 1, 99, 119, 1, 20},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, g := range got {
		x := want[i]
		if (row{g.By, g.Name, g.Jobs, x.before, x.after, g.Slower, g.Worst}) != x ||
			math.Abs(g.Before.Mean-x.before)+math.Abs(g.After.Mean-x.after) > 1e-9 {
			t.Errorf("%+v, want %+v", g, x)
		}
	}
	o.Rows = rows("fifo")
	if _, err := replay.CompareWaits(t.Context(), o); err == nil {
		t.Error("one configuration was compared")
	}
}
