package replay

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// withNodeEvents is the sample on a cluster whose nodes go and come.
func withNodeEvents(t *testing.T, methods ...string) Options {
	o := sample(t, methods...)
	o.Cluster = workload.Uniform(16, 8)
	for _, e := range []struct {
		hours, node int
		kind        workload.EventKind
	}{{0, 15, workload.NodeDown}, {1, 5, workload.NodeDrained}, {2, 3, workload.NodeDown}, {2, 4, workload.NodeDown},
		{9, 15, workload.NodeUp}, {11, 6, workload.NodeDown}, {12, 3, workload.NodeUp}, {12, 4, workload.NodeUp},
		{12, 9, workload.NodeDrained}, {20, 5, workload.NodeUp}, {26, 6, workload.NodeUp}, {28, 9, workload.NodeUp}} {
		o.Simulate.Nodes = append(o.Simulate.Nodes, workload.NodeEvent{At: o.From + time.Duration(e.hours)*time.Hour,
			Node: e.node, Kind: e.kind})
	}
	return o
}

// TestRoundMeasuresNodeEvents: with the true future, node events included, a configuration
// held has the measures of the live simulation under it.
func TestRoundMeasuresNodeEvents(t *testing.T) {
	testshared.Full(t)
	o := withNodeEvents(t)
	exactly(t, o, hours(o.From, 3, 10, 24), 1)
}

// TestForecastsKnowNodes: in a round's futures, nodes are as the state has them.
func TestForecastsKnowNodes(t *testing.T) {
	testshared.Full(t)
	o := withNodeEvents(t)
	e, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	incumbent := o.Scheduler.Space.Default()
	l, err := e.Start(incumbent, true)
	if err != nil {
		t.Fatal(err)
	}
	at := o.From + 3*time.Hour
	if err := l.Sim.RunUntil(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	x, err := e.Futures(context.Background(), e.Input(l, 3, at, incumbent))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range x {
		s := f.State
		if !slices.Equal(s.Down, []int{3, 4, 15}) || !slices.Equal(s.Draining, []int{5}) || s.Cluster.Nodes() != 16 ||
			len(f.Nodes) > 0 {
			t.Errorf("down %v, draining %v of %v, events %v", s.Down, s.Draining, s.Cluster, f.Nodes)
		}
	}
	scorer, err := e.Scorer(x...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scorer.Measure(context.Background(), incumbent); err != nil {
		t.Error(err)
	}
}

func TestEveryMethodRunsWithNodeEvents(t *testing.T) {
	testshared.Full(t)
	o := withNodeEvents(t)
	o.To, o.Budget = o.From+4*time.Hour, 6
	r := evaluate(t, o)
	for i := range r.Methods {
		if m := &r.Methods[i]; len(m.Rows) != r.Jobs || !(m.AvgJCT > 0 && m.Utilization > 0 && m.Utilization <= 1) {
			t.Errorf("%s: %d of %d jobs, %+v", m.Method, len(m.Rows), r.Jobs, m)
		}
	}
	whole := sample(t)
	whole.To, whole.Cluster, whole.Methods = o.To, o.Cluster, []string{"default"}
	if without := evaluate(t, whole).Methods[0].AvgJCT; r.Methods[0].AvgJCT <= without {
		t.Errorf("the mean JCT is %.0f s, without node events %.0f s", r.Methods[0].AvgJCT, without)
	}
}

// TestNodesOfPhilly: as many nodes are up as were active at the time.
func TestNodesOfPhilly(t *testing.T) {
	testshared.Full(t)
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC).Sub(w.Zero())
	o := sample(t)
	o.Trace, o.From, o.To = w, from, from+24*time.Hour
	o.Simulate.Nodes, o.Cluster = phillyNodes(t, w.Zero(), o.From, o.To+round.Settings{}.WithDefaults().Horizon)
	presets := -1
	if long {
		presets = 0
	}
	exactly(t, o, hours(from, 10), presets)
}

// phillyNodes reads the file of active nodes: of n active ones, the first n are up.
func phillyNodes(t *testing.T, zero time.Time, from, to time.Duration) ([]workload.NodeEvent, workload.Cluster) {
	f, err := os.Open(testshared.Path(t, "traces", "philly", "active_nodes_10min.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var events []workload.NodeEvent
	up, most := 0, 0
	for _, row := range rows[1:] {
		clock, err1 := time.Parse(time.RFC3339, row[0])
		active, err2 := strconv.Atoi(row[2])
		if err1 != nil || err2 != nil {
			t.Fatal(fmt.Errorf("%v: %w, %w", row, err1, err2))
		}
		at := clock.Sub(zero)
		if at > to {
			break
		}
		if at < from {
			continue
		}
		for ; up < active; up++ {
			events = append(events, workload.NodeEvent{At: at, Node: up, Kind: workload.NodeUp})
		}
		for ; up > active; up-- {
			events = append(events, workload.NodeEvent{At: at, Node: up - 1, Kind: workload.NodeDown})
		}
		most = max(most, up)
	}
	for n := most - 1; n >= 0; n-- {
		events = slices.Insert(events, 0, workload.NodeEvent{At: from - 1, Node: n, Kind: workload.NodeDown})
	}
	return events, workload.Uniform(most, 8)
}
