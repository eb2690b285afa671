package replay

import (
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// TestReplaysKnowTheWork: a replay of the last hours gives every job that ended the work that it
// did in them, whether it was stopped, shared its GPUs, held others than it asked for or was
// spread over nodes.
func TestReplaysKnowTheWork(t *testing.T) {
	testshared.Full(t)
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			o := sample(t)
			o.Scheduler, o.Cluster = s, workload.Uniform(11, 8)
			e, err := prepare(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range configurations(s, 3) {
				l, err := e.Start(c, true)
				if err != nil {
					t.Fatal(err)
				}
				from, sim := e.Options.From+5*time.Hour, &l.Sim
				if err := sim.RunUntil(t.Context(), from); err != nil {
					t.Fatal(err)
				}
				want := map[string]time.Duration{}
				for id := range sim.Submitted() {
					if sim.JobActive(id) {
						want[sim.JobName(id)] = sim.JobLeft(id)
					}
				}
				if err := sim.RunUntil(t.Context(), from+8*time.Hour); err != nil {
					t.Fatal(err)
				}
				ended := map[string]bool{}
				for id := range sim.Submitted() {
					if _, known := want[sim.JobName(id)]; !known {
						want[sim.JobName(id)] = sim.Spec(id).Duration
					}
					ended[sim.JobName(id)] = !sim.JobActive(id)
				}
				in := e.Input(l, 0, from+8*time.Hour, c)
				x, err := in.Since(t.Context(), from, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				compared := 0
				check := func(id string, work time.Duration) {
					if !ended[id] {
						return
					}
					compared++
					if gap := (work - want[id]).Abs(); gap > time.Millisecond && work != time.Second {
						t.Errorf("%v: %s did %v, replayed with %v", c, id, want[id], work)
					}
				}
				for i := range x[0].Left {
					check(x[0].State.Jobs[i].ID, x[0].Left[i])
				}
				for _, j := range x[0].Arrivals.Jobs() {
					check(j.ID, j.Duration)
				}
				if compared < 20 {
					t.Errorf("%v: %d jobs compared", c, compared)
				}
			}
		})
	}
}
