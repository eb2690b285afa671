package aggregate

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Sweeps of four equal jobs fare alike as jobs and as groups: a policy compares
// the service and width of a member with its settings, not the group's. The
// remaining difference: a group is stopped when one member's GPUs are
// wanted; with leases of a minute that happens all the time.
func TestGroupsFareAsTheirMembers(t *testing.T) {
	var jobs []workload.Job
	for i := range 240 {
		sweep := i / 4
		jobs = append(jobs, workload.Job{ID: fmt.Sprintf("%03d", i), Key: fmt.Sprintf("k%d", sweep%7),
			Model: "resnet50", Submit: time.Duration(sweep*400) * time.Second,
			Duration: time.Duration(600+(sweep*7919)%9000) * time.Second, GPUs: workload.GPUs(1)})
	}
	c := workload.Uniform(5, 8)
	w, err := workload.New("sweeps", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	groups := Group(c, w, 4)
	if groups.Len() != w.Len()/4 {
		t.Fatalf("%d groups", groups.Len())
	}
	for _, name := range []string{"tiresias", "themis", "lucid"} {
		s, err := schedulers.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range append([]schedulers.Preset{{Name: "default", Config: s.Space.Default()}}, s.Presets...) {
			run := func(w *workload.Workload) simulator.Summary {
				var sim simulator.Sim
				if err := sim.Start(c, w, s.New(set.Config), simulator.Options{}); err != nil {
					t.Fatal(err)
				}
				if err := sim.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				return sim.Summarize()
			}
			one, four := run(w), run(groups)
			if one.Jobs != four.Jobs {
				t.Errorf("%s %s: %d and %d jobs", name, set.Name, one.Jobs, four.Jobs)
			}
			if d := math.Abs(four.AvgJCT/one.AvgJCT - 1); d > .06 {
				t.Errorf("%s %s: average JCT %.0f s of jobs, %.0f s of groups", name, set.Name, one.AvgJCT, four.AvgJCT)
			}
		}
	}
}
