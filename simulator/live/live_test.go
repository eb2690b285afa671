package live_test

import (
	"maps"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/workload"
)

// inOrder starts every job that fits, in order of submission.
type inOrder struct{ s *simulator.View }

func (p *inOrder) Reset(v *simulator.View, _ *simulator.Plan) { p.s = v }
func (p *inOrder) Admit(simulator.ID, simulator.Seen)         {}
func (p *inOrder) Finish(simulator.ID)                        {}
func (p *inOrder) Plan(plan *simulator.Plan) {
	for j := range p.s.Submitted() {
		if p.s.JobActive(j) && !p.s.JobRunning(j) {
			plan.Start(j)
		}
	}
}

// TestEventsDescribeTheRun: a ledger that applies the events of a run ends with
// every job as the simulation has it, and durations are in no event.
func TestEventsDescribeTheRun(t *testing.T) {
	var jobs []workload.Job
	for i, id := range []string{"a", "b", "c", "d"} {
		jobs = append(jobs, workload.Job{ID: id, Submit: time.Duration(i) * time.Minute,
			Duration: time.Duration(4-i) * time.Hour, GPUs: workload.GPUs(4)})
	}
	w, err := workload.New("four jobs", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	var events []workload.Event
	cluster := live.Cluster{Revision: "1", Send: func(e workload.Event) { events = append(events, e) }}
	options := simulator.Options{Observer: cluster.Observe}
	if err := cluster.Sim.Start(workload.Uniform(1, 8), w, &inOrder{}, options); err != nil {
		t.Fatal(err)
	}
	cluster.Applied(0, "2")
	if err := cluster.Sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := map[workload.EventKind]int{}
	ids := map[string]bool{}
	for _, e := range events {
		count[e.Kind]++
		if ids[e.ID] {
			t.Errorf("event id %s is sent twice", e.ID)
		}
		ids[e.ID] = true
		if e.Job.Duration != 0 {
			t.Errorf("event %s of %s has duration %v", e.ID, e.Job.ID, e.Job.Duration)
		}
		if e.Kind == workload.Started && len(e.Placement) == 0 {
			t.Errorf("event %s starts %s without a placement", e.ID, e.Job.ID)
		}
		if e.Kind != workload.Submitted && e.Revision != "2" {
			t.Errorf("event %s has revision %q, want 2", e.ID, e.Revision)
		}
	}
	if count[workload.Submitted] != 4 || count[workload.Finished] != 4 || count[workload.ConfigApplied] != 1 {
		t.Errorf("sent %v, want 4 submissions, 4 ends and 1 configuration", count)
	}
	for _, o := range cluster.Sim.Outcomes(nil) {
		if o.End == 0 {
			t.Errorf("job %+v has not ended", o)
		}
	}
}

// canceller is inOrder, and cancels the first job once the second is there.
type canceller struct{ inOrder }

func (p *canceller) Plan(plan *simulator.Plan) {
	p.inOrder.Plan(plan)
	if p.s.Now() >= time.Minute && p.s.JobRunning(0) {
		plan.Cancel(0)
	}
}

// TestEnds: the end of a job says whether the policy cancelled it or it reached its limit.
func TestEnds(t *testing.T) {
	jobs := []workload.Job{{ID: "a", Duration: time.Hour, GPUs: workload.GPUs(4)},
		{ID: "b", Submit: time.Minute, Duration: time.Hour, GPUs: workload.GPUs(4)},
		{ID: "c", Submit: 2 * time.Minute, Duration: time.Hour, GPUs: workload.GPUs(4), Status: workload.Failed}}
	jobs[1].Requested = workload.Request{TimeLimit: 10 * time.Minute}.Shared()
	w, err := workload.New("three jobs", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]workload.Status{}
	cluster := live.Cluster{Send: func(e workload.Event) {
		if e.Kind == workload.Finished {
			ends[e.Job.ID] = e.Job.Status
		}
	}}
	options := simulator.Options{Observer: cluster.Observe}
	if err := cluster.Sim.Start(workload.Uniform(1, 8), w, &canceller{}, options); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]workload.Status{"a": workload.Cancelled, "b": workload.TimedOut, "c": workload.Failed}
	if !maps.Equal(ends, want) {
		t.Errorf("the jobs end as %v, want %v", ends, want)
	}
}
