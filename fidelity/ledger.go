package fidelity

import (
	"context"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Live is a service's knowledge of a cluster, and the settings in force.
type Live struct {
	Ledger    *workload.Ledger
	Zero      time.Time
	At        time.Duration
	Scheduler string // a name of the table
	Config    space.Config
	Simulate  simulator.Options
}

// lookBack is how far back Observed looks.
const lookBack = 3 * 24 * time.Hour

// Observed compares the queueing delays of the jobs that were submitted in the three days before
// At with a simulation that begins in the state of the cluster then, under the
// configuration of At. Delays count until At, also after preemptions. Nodes are as at
// the begin.
func Observed(ctx context.Context, in *Live) (*Graded, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return nil, err
	}
	from := in.At - lookBack
	state := in.Ledger.State(from)
	seen := map[string]observed{}
	for _, f := range in.Ledger.Finishes(from, in.At+1) {
		seen[f.ID] = observed{run: f.RunTime, work: f.RunTime, life: f.End - f.Submit}
	}
	for _, a := range in.Ledger.State(in.At).Jobs {
		// A job that has not ended holds its GPUs beyond At.
		seen[a.ID] = observed{run: a.RunTime, work: a.RunTime + lookBack, life: in.At - a.Submit}
	}
	now := state.Available()
	jobs, left := state.Jobs[:0:0], []time.Duration(nil)
	for _, a := range state.Jobs {
		if x, ok := seen[a.ID]; ok && now.Fits(&a.Job) {
			jobs, left = append(jobs, a), append(left, x.work-a.RunTime)
		}
	}
	state.Jobs = jobs
	var arrived []workload.Job
	for _, j := range in.Ledger.Arrivals(from, in.At) {
		x, ok := seen[j.ID]
		if j.Duration = max(x.work, 1); ok && now.Fits(&j) {
			arrived = append(arrived, j)
		}
	}
	r := &Report{Scheduler: s.Name, Recorded: s.Name, Compared: len(arrived)}
	if r.few() {
		return &r.Graded, nil
	}
	var sim simulator.Sim
	w := workload.NewSorted("observed", in.Zero, arrived, false)
	if err := sim.Resume(&state, left, w, s.New(in.Config), in.Simulate); err != nil {
		return nil, err
	}
	if err := sim.RunUntil(ctx, in.At); err != nil {
		return nil, err
	}
	own := &run{}
	for i := range arrived {
		j, x := &arrived[i], seen[arrived[i].ID]
		delay := sim.JobWaited(simulator.ID(len(jobs) + i))
		own.pairs = append(own.pairs, pair{j, x.life - x.run, delay, x.life, x.run + delay, delay})
	}
	r.agree(own)
	return &r.Graded, nil
}

// observed is a job's time on GPUs, the time without the end of the
// observation, and the time since submission.
type observed struct{ run, work, life time.Duration }
