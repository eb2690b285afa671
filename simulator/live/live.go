// Package live simulates a cluster under a scheduler, event by event, as a service sees it.
package live

import (
	"fmt"
	"strconv"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Cluster is a simulation in place of a real cluster. It sends the events that a
// scheduler would send to a ledger or to the service.
type Cluster struct {
	Sim  simulator.Sim
	Send func(workload.Event)
	// Revision is the configuration in force; every event names it.
	Revision string

	sent int
}

// Observe is the simulation's Options.Observer.
func (l *Cluster) Observe(e simulator.Event) { l.send(Report(&l.Sim, e, l.Revision)) }

// Report is the report of a simulated cluster's scheduler about an event; the revision
// is the configuration in force. It has no id.
func Report(sim *simulator.Sim, e simulator.Event, revision string) workload.Event {
	if e.Kind.OfNode() {
		return workload.Event{Kind: e.Kind, Time: e.Time, Node: strconv.Itoa(e.Node), NodeGPUs: sim.NodeGPUs(e.Node),
			Revision: revision}
	}
	spec := sim.Spec(e.Job)
	out := workload.Event{Kind: e.Kind, Time: e.Time, Revision: revision,
		LevelAttained: e.Seen.LevelAttained, HasLevel: e.Seen.HasLevel, LeaseUntil: e.Seen.LeaseUntil}
	out.Job.ID, out.Lost, out.HoldUntil = spec.ID, e.Lost, e.HoldUntil
	switch e.Kind {
	case workload.Submitted:
		out.Job = *spec
		out.Job.Duration = 0 // unknown until the end
		out.Pool = sim.JobPool(e.Job)
		out.Job.Status = workload.Unknown
	case workload.Started, workload.Resumed:
		out.Placement = workload.Shares(sim.Placement(nil, e.Job))
		out.Pool = sim.JobPool(e.Job)
		if with := sim.JobPartner(e.Job); with >= 0 {
			out.SharesWith = sim.JobName(with)
		}
	case workload.Resized:
		out.Placement = workload.Shares(sim.Placement(nil, e.Job))
		out.Job.GPUs = workload.GPUs(sim.JobHeld(e.Job))
	case workload.Finished:
		switch {
		case sim.JobTimedOut(e.Job):
			out.Job.Status = workload.TimedOut
		case sim.JobCancelled(e.Job):
			out.Job.Status = workload.Cancelled
		case spec.Status.Ended():
			out.Job.Status = spec.Status
		}
	}
	return out
}

// Applied sends that a configuration took effect.
func (l *Cluster) Applied(at time.Duration, revision string) {
	l.Revision = revision
	l.send(workload.Event{Kind: workload.ConfigApplied, Time: at, Revision: revision})
}

func (l *Cluster) send(e workload.Event) {
	l.sent++
	e.ID = fmt.Sprintf("%09d", l.sent)
	l.Send(e)
}
