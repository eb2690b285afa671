package fidelity_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestEnsemble: jobs that wait for cycles every 300 s, of a scheduler whose clocks struck at other instants than the
// clocks of the simulation. The member that struck as it did is found; where jobs wait long it does not matter, and no
// member is simulated.
func TestEnsemble(t *testing.T) {
	s, config := scheduler(t, "slurm", "SchedulerParameters.bf_interval=300s",
		"SchedulerParameters.sched_interval=300s")
	members, scale := s.Members(config)
	if scale != 300*time.Second {
		t.Fatalf("the scale is %v", scale)
	}
	r := rand.New(rand.NewPCG(1, 3))
	var all []workload.Job
	at := time.Duration(0)
	for i := range 400 {
		at += time.Duration(r.IntN(80)) * time.Second
		run := time.Duration(30+r.IntN(900)) * time.Second
		all = append(all, workload.Job{ID: fmt.Sprint(i), Submit: at, Duration: run, GPUs: workload.GPUs(1 + r.IntN(8)),
			Requested: workload.Request{TimeLimit: run + time.Hour}.Shared()})
	}
	w, err := workload.New("t", time.Time{}, all)
	if err != nil {
		t.Fatal(err)
	}
	of := func(m simulator.Member, duration int) fidelity.Input {
		longer := slices.Clone(w.Jobs())
		for i := range longer {
			longer[i].Duration *= time.Duration(duration)
		}
		made := *s
		made.New = func(_ space.Config) simulator.Policy { return m.Policy }
		h := recorded(t, workload.NewSorted("t", w.Zero(), longer, true), cluster, &made, config,
			simulator.Options{Epilog: m.Epilog})
		return input(h, s, config)
	}
	for _, i := range []int{2, 7} {
		got, err := fidelity.Quick(t.Context(), of(members[i], 1))
		if err != nil {
			t.Fatal(err)
		}
		e := got.Ensemble
		if e == nil || e.Members != len(members)+1 || !(e.Least < e.Greatest) || e.Least > got.Delay.Recorded ||
			e.Greatest < got.Delay.Recorded || got.Grade != fidelity.Describes || got.Delay.Factor != 1 {
			t.Errorf("member %d: %s: %s, factor %g, %+v", i, got.Grade, got.Why, got.Delay.Factor, e)
		}
	}
	if got, err := fidelity.Quick(t.Context(), of(members[2], 40)); err != nil || got.Ensemble != nil {
		t.Errorf("%v: jobs wait %.0f s, %+v", err, got.Delay.Recorded, got.Ensemble)
	}
}
