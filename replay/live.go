package replay

import (
	"fmt"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
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
	recall(c.ledger, e.before, e.start())
	c.Send = func(ev workload.Event) { c.ledger.Apply(ev) }
	o := e.Options.Simulate
	o.Past = round.Past(c.ledger, e.start())
	if observed {
		o.Observer = c.Observe
	}
	return c, c.Sim.Start(e.Options.Cluster, e.Workload, e.Options.Scheduler.New(incumbent), o)
}

// Warmed are options of a simulation of the jobs of a trace of which those from an instant on count, and those of a
// warm-up before it run, too.
func Warmed(o simulator.Options, t *workload.Workload, c workload.Cluster, from,
	warmup time.Duration) simulator.Options {
	o.Past = Past(t, c, from-warmup)
	if t.Window(from-warmup, from).Len() > 0 {
		o.CountFrom = from
	}
	return o
}

// Past returns a scheduler's knowledge of the jobs of a trace that ended before an instant, as
// a live simulation that begins then has it.
func Past(t *workload.Workload, c workload.Cluster, at time.Duration) *simulator.Past {
	before, _ := fitting(t.Window(at-round.ReplayMemory, at).Jobs(), c)
	l := workload.NewLedger(c)
	recall(l, before, at)
	return round.Past(l, at)
}

// recall puts jobs of a trace into a ledger that had ended by an instant, at the times
// of the trace. Jobs that had not ended are left out: the cluster starts empty, and
// their end is unknown.
func recall(l *workload.Ledger, before []workload.Job, at time.Duration) {
	for i := range before {
		j := &before[i]
		end := j.Submit + j.Duration
		if end > at || !j.Status.Ended() {
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
