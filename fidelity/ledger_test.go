package fidelity_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/workload"
)

// TestObserved: a service's observation of a cluster is described by the same cluster and
// scheduler, and not by another.
func TestObserved(t *testing.T) {
	s, config := fifo(t, "true")
	_, blocking := fifo(t, "false")
	const at = 6 * 24 * time.Hour
	// grade runs the jobs on a number of nodes, and says that they ran on cluster.
	grade := func(nodes int, observe func(*fidelity.Live)) *fidelity.Graded {
		t.Helper()
		ledger := workload.NewLedger(cluster)
		var c live.Cluster
		c.Send = func(e workload.Event) { ledger.Apply(e) }
		if err := c.Sim.Start(workload.Uniform(nodes, 8), jobs(t), s.New(config),
			simulator.Options{Observer: c.Observe}); err != nil {
			t.Fatal(err)
		}
		if err := c.Sim.RunUntil(context.Background(), at); err != nil {
			t.Fatal(err)
		}
		in := fidelity.Live{Ledger: ledger, Zero: jobs(t).Zero(), At: at, Scheduler: "fifo", Config: config}
		observe(&in)
		g, err := fidelity.Observed(context.Background(), &in)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d nodes: %s", nodes, g)
		return g
	}
	same := func(*fidelity.Live) {}
	if g := grade(8, same); g.Grade != fidelity.Describes || g.Refused || !strings.Contains(g.Why, "factor of 1.00") {
		t.Errorf("%s", g)
	}
	if g := grade(4, same); g.Grade != fidelity.Not || !g.Refused {
		t.Errorf("%s", g)
	}
	if g := grade(8, func(in *fidelity.Live) { in.Config = blocking }); g.Grade == fidelity.Describes &&
		strings.Contains(g.Why, "factor of 1.00") {
		t.Errorf("%s", g)
	}
	if g := grade(8, func(in *fidelity.Live) { in.At = time.Hour }); g.Grade != fidelity.Incomparable {
		t.Errorf("%s", g)
	}
}
