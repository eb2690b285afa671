package slurm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestWhy: the reason for which the last of some jobs waits after two minutes, and that noting it starts no other job.
func TestWhy(t *testing.T) {
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	apart := func(from, to int) []workload.Reservation {
		return []workload.Reservation{{From: zero.Add(time.Duration(from) * time.Minute),
			To: zero.Add(time.Duration(to) * time.Minute), Nodes: []workload.ReservedNode{{Number: 1}}}}
	}
	type job struct{ nodes, limit int } // minutes
	const depth = "a cycle looks at fewer jobs"
	for name, c := range map[string]struct {
		set          func(*Settings)
		reservations []workload.Reservation
		jobs         []job
		want         simulator.Reason
		detail       string // its beginning
	}{
		"taken":    {nil, nil, []job{{1, 60}, {1, 60}, {1, 60}}, simulator.Taken, ""},
		"reserved": {nil, nil, []job{{1, 60}, {2, 60}, {1, 90}}, simulator.Reserved, "it would start with a time limit below"},
		"set apart": {nil, apart(-10, 600), []job{{1, 60}, {1, 60}},
			simulator.Closed, ""},
		"set apart before its end": {nil, apart(30, 600), []job{{1, 60}, {1, 60}}, simulator.Closed, ""},
		"jobs of a backfill cycle": {func(s *Settings) { s.BFMaxJobTest = 1 }, nil, []job{{1, 60}, {2, 60}, {1, 30}},
			simulator.Depth, depth},
		"jobs of a user": {func(s *Settings) { s.BFMaxJobUser = 1 }, nil, []job{{1, 60}, {2, 60}, {1, 30}},
			simulator.Depth, depth},
		"jobs of a partition": {func(s *Settings) { s.BFMaxJobPart = 1 }, nil, []job{{1, 60}, {2, 60}, {1, 30}},
			simulator.Depth, depth},
		"a deep enough cycle": {nil, nil, []job{{1, 60}, {2, 60}, {1, 30}}, simulator.NoReason, ""},
	} {
		settings := Defaults()
		if c.set != nil {
			c.set(&settings)
		}
		cluster := workload.Uniform(2, 8)
		cluster.Site.Reservations = c.reservations
		var all []workload.Job
		for i, x := range c.jobs {
			asks := workload.Request{NodeCount: int32(x.nodes), TimeLimit: time.Duration(x.limit) * time.Minute}
			all = append(all, workload.Job{ID: fmt.Sprint(i), User: "u", Submit: time.Duration(i) * time.Second,
				Duration: asks.TimeLimit, GPUs: workload.GPUs(8 * x.nodes), Requested: asks.Shared()})
		}
		w, err := workload.New("t", zero, all)
		if err != nil {
			t.Fatal(err)
		}
		last := simulator.ID(len(all) - 1)
		why := simulator.Why{Job: last}
		var runs [2][]bool
		for asked := range runs {
			p := NewPolicy(settings)
			if asked == 1 {
				p.(simulator.Reasoned).Explain(&why)
			}
			var sim simulator.Sim
			if err := sim.Start(cluster, w, p, simulator.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := sim.RunUntil(t.Context(), 2*time.Minute); err != nil {
				t.Fatal(err)
			}
			for j := range all {
				runs[asked] = append(runs[asked], sim.JobRunning(simulator.ID(j)))
			}
		}
		if runs[1][last] != (c.want == simulator.NoReason) || !slices.Equal(runs[0], runs[1]) {
			t.Errorf("%s: %v run, %v if the reason is noted", name, runs[0], runs[1])
		}
		if !runs[1][last] && (why.Reason != c.want || !strings.HasPrefix(why.Detail, c.detail) ||
			why.Detail == "" != (c.detail == "")) {
			t.Errorf("%s: reason %d %q, want %d %q", name, why.Reason, why.Detail, c.want, c.detail)
		}
	}
}
