package schedulers_test

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestResumePairsWhoCanShare: of three jobs on two GPUs of a node, two share.
// Which is not reported, and two of them could not: they would stop each other.
func TestResumePairsWhoCanShare(t *testing.T) {
	heavy, light := "ResNet-50/128", "ResNet-18/16"
	models := simulator.DefaultModels()
	at := map[string]int{}
	for i, l := range models.Loads {
		at[l.Name] = i
	}
	if own, _ := models.PairSpeeds(at[heavy], at[heavy]); own != 0 {
		t.Fatalf("two of %s run at %g", heavy, own)
	}
	state := &workload.State{At: time.Hour, Cluster: workload.Uniform(1, 2)}
	for _, model := range []string{heavy, light, heavy} {
		state.Jobs = append(state.Jobs, workload.ActiveJob{
			Job:     workload.Job{ID: model + string(rune('a'+len(state.Jobs))), GPUs: workload.GPUs(1), Model: model},
			Running: true, Starts: 1, RunTime: time.Hour,
			Placement: []workload.NodeGPUs{{Node: 0, GPUs: 1}},
		})
	}
	none, err := workload.New("none", time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lucid, err := schedulers.Find("lucid")
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	left := []time.Duration{time.Hour, time.Hour, time.Hour}
	if err := sim.Resume(state, left, none, lucid.New(lucid.Space.Default()), simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := sim.JobPartner(2); got != 1 {
		t.Errorf("the third job shares with %d, want 1", got)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, o := range sim.Outcomes(nil) {
		if o.End < 2*time.Hour || o.End > 24*time.Hour {
			t.Errorf("job %d ends at %v", o.ID, o.End)
		}
	}
}
