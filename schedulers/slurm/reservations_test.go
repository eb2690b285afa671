package slurm

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestAdvanceReservations: jobs start on nodes that are not reserved before their limits are over, or behind the
// reservation, and a job that waits for it keeps no other waiting.
func TestAdvanceReservations(t *testing.T) {
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(from, to int, whole bool, nodes ...int) workload.Reservation {
		r := workload.Reservation{From: zero.Add(time.Duration(from) * time.Minute),
			To: zero.Add(time.Duration(to) * time.Minute), Whole: whole}
		for _, n := range nodes {
			r.Nodes = append(r.Nodes, workload.ReservedNode{Number: n})
		}
		return r
	}
	type job struct{ nodes, limit int }
	const never = 1000
	for name, c := range map[string]struct {
		reservations []workload.Reservation
		jobs         []job
		from, to     []int // minutes in which each starts
	}{
		"none":   {nil, []job{{2, 30}, {1, 5}}, []int{0, 0}, []int{1, never}},
		"part":   {[]workload.Reservation{at(10, 60, false, 1)}, []job{{1, 30}, {1, 5}}, []int{0, 0}, []int{1, 1}},
		"wide":   {[]workload.Reservation{at(10, 60, false, 1)}, []job{{2, 30}, {1, 30}}, []int{60, 0}, []int{62, 1}},
		"longer": {[]workload.Reservation{at(0, 60, false, 1)}, []job{{2, 5}, {1, 5}}, []int{60, 0}, []int{62, 1}},
		"whole": {[]workload.Reservation{at(10, 60, true, 0, 1)}, []job{{1, 30}, {1, 5}},
			[]int{60, 0}, []int{62, 1}},
		"over": {[]workload.Reservation{at(-30, -10, true, 0, 1)}, []job{{2, 30}}, []int{0}, []int{1}},
		"two": {[]workload.Reservation{at(10, 60, true, 0, 1), at(70, 90, true, 0, 1)},
			[]job{{1, 30}, {1, 5}, {1, 9}}, []int{90, 0, 0}, []int{92, 1, 1}},
		"of nodes that are gone": {[]workload.Reservation{at(0, 60, false, 7)}, []job{{2, 30}}, []int{0}, []int{1}},
	} {
		cluster := workload.Uniform(2, 8)
		cluster.Site.Reservations = c.reservations
		var all []workload.Job
		for i, x := range c.jobs {
			asks := workload.Request{NodeCount: int32(x.nodes), TimeLimit: time.Duration(x.limit) * time.Minute}
			all = append(all, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i), Duration: 2 * time.Minute,
				GPUs: workload.GPUs(4 * x.nodes), Requested: asks.Shared()})
		}
		w, err := workload.New("t", zero, all)
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		if err := sim.Start(cluster, w, NewPolicy(Defaults()), simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, o := range sim.Outcomes(nil) {
			if m := int(o.Start / time.Minute); m < c.from[i] || m >= c.to[i] {
				t.Errorf("%s: job %d starts at %v, want from minute %d to %d", name, i, o.Start, c.from[i], c.to[i])
			}
		}
	}
}
