package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Cluster is the live simulation in place of a real cluster, and the ledger that a
// controller keeps of it.
type Cluster struct {
	live.Cluster
	ledger *workload.Ledger
	fault  error // of the ledger
}

// Start begins the live simulation with the history recalled. Without
// observed the ledger stays as it is then.
func (e *Evaluation) Start(incumbent space.Config, observed bool) (*Cluster, error) {
	c := &Cluster{ledger: workload.NewLedger(e.Options.Cluster)}
	if err := e.recall(c.ledger); err != nil {
		return nil, err
	}
	c.Send = func(ev workload.Event) {
		if _, err := c.ledger.Apply(ev); err != nil && c.fault == nil {
			c.fault = err
		}
	}
	o := e.Options.Simulate
	o.Services = round.Services(c.ledger, e.start())
	if observed {
		o.Observer = c.Observe
	}
	return c, c.Sim.Start(e.Options.Cluster, e.Workload, e.Options.Scheduler.New(incumbent), o)
}

// RunUntil simulates to an instant.
func (c *Cluster) RunUntil(ctx context.Context, at time.Duration) error {
	if err := c.Sim.RunUntil(ctx, at); err != nil {
		return err
	}
	if c.fault != nil {
		return fmt.Errorf("the ledger refuses an event of the live simulation: %w", c.fault)
	}
	return nil
}

// recall puts the history into a ledger: the jobs that had ended by the start,
// at the times of the trace. Those that had not are not on the cluster, which
// starts cold, and nobody has seen their end.
func (e *Evaluation) recall(l *workload.Ledger) error {
	for i := range e.before {
		j := &e.before[i]
		end := j.Submit + j.Duration
		if end > e.start() {
			continue
		}
		for k, ev := range [...]workload.Event{
			{Kind: workload.Submitted, Time: j.Submit, Job: *j},
			{Kind: workload.Started, Time: j.Submit, Job: workload.Job{ID: j.ID}},
			{Kind: workload.Finished, Time: end, Job: workload.Job{ID: j.ID, Status: j.Status}},
		} {
			ev.ID = fmt.Sprintf("history-%08d-%d", i, k)
			if _, err := l.Apply(ev); err != nil {
				return fmt.Errorf("history: job %q: %w", j.ID, err)
			}
		}
	}
	return nil
}
