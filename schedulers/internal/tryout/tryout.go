// Package tryout runs a policy on a few jobs, for tests of small examples
// worked out by hand.
package tryout

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Trial is a run on one node, without restart costs.
type Trial struct {
	Params []space.Param
	New    func(space.Config) simulator.Policy
	Set    []string // parameters, as name=value
	GPUs   int
	// Estimates gives the scheduler true run times as estimates.
	Estimates bool
	Jobs      []workload.Job
}

// Run makes the run and returns the outcomes of the jobs, in order.
func (r Trial) Run(t *testing.T) ([]simulator.Outcome, simulator.Summary) {
	t.Helper()
	s, err := space.New(r.Params, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Parse(s.Default(), r.Set)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("tryout", time.Unix(0, 0), append([]workload.Job(nil), r.Jobs...))
	if err != nil {
		t.Fatal(err)
	}
	opts := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}
	if r.Estimates {
		opts.Estimate = func(j *workload.Job) time.Duration { return j.Duration }
	}
	var sim simulator.Sim
	if err := sim.Start(workload.Uniform(1, r.GPUs), w, r.New(config), opts); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil), sim.Summarize()
}

// Job makes a job of a submission and a run time in seconds, and a number of GPUs.
func Job(id string, submit, seconds float64, gpus int) workload.Job {
	return workload.Job{ID: id, Submit: Seconds(submit), Duration: Seconds(seconds), GPUs: workload.GPUs(gpus),
		Model: "resnet50"}
}

// Seconds is a span or an instant.
func Seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// Near fails the test unless an instant is within a millisecond of the given
// number of seconds.
func Near(t *testing.T, what string, got time.Duration, seconds float64) {
	t.Helper()
	if d := got - Seconds(seconds); d > time.Millisecond || d < -time.Millisecond {
		t.Errorf("%s: %v, want %v", what, got, Seconds(seconds))
	}
}
