package replay

import (
	"fmt"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Cluster is the live simulation in place of a real cluster, with the ledger of its
// events.
type Cluster struct {
	live.Cluster
	ledger *workload.Ledger
}

// Start begins the live simulation with the history in the ledger. Unless observed, the
// ledger gets no further events.
func (e *Evaluation) Start(incumbent space.Config, observed bool) (*Cluster, error) {
	c := &Cluster{ledger: workload.NewLedger(e.Options.Cluster)}
	e.recall(c.ledger)
	c.Send = func(ev workload.Event) { c.ledger.Apply(ev) }
	o := e.Options.Simulate
	o.Past = round.Past(c.ledger, e.start())
	if observed {
		o.Observer = c.Observe
	}
	return c, c.Sim.Start(e.Options.Cluster, e.Workload, e.Options.Scheduler.New(incumbent), o)
}

// recall puts the history into a ledger: the jobs that had ended by the start,
// at the times of the trace. Jobs that had not ended are left out: the cluster starts
// empty, and their end is unknown.
func (e *Evaluation) recall(l *workload.Ledger) {
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
			l.Apply(ev)
		}
	}
}
