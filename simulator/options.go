package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"time"

	"github.com/autosched/autosched/workload"
)

// Version of the simulator's semantics: results of equal versions, inputs and
// seeds are equal, so caches key on it.
const Version = "13"

// Options of a run. The zero value is the product's semantics.
type Options struct {
	Placement Placement
	// Round is the decision grid, counted from instant 0; 0 decides at every event.
	Round time.Duration
	// Models default to DefaultModels().
	Models *Models
	// EventBudget bounds the events of a run, so that a livelocked configuration
	// ends. 0 means 1,000 per job and 10,000 more.
	EventBudget int
	// Estimate is the run time of a job that is reported to the scheduler, alone on
	// the GPUs it asks for; nil reports none. It must not change during the run.
	Estimate func(*workload.Job) time.Duration
	// Past is the jobs that ended before the run, for policies that learn from
	// history; nil for none.
	Past *Past
	// Protect bounds the preemption of a job.
	Protect Protection
	// Quota says whether the cluster's virtual clusters bind.
	Quota Quota
	// Nodes are the node events during the run, in order of time.
	// An event that is not after the run's begin holds from its begin; a resumed run takes that
	// from its state instead.
	Nodes []workload.NodeEvent
	// Epilog is how long the GPUs of a job that ended stay taken.
	Epilog time.Duration
	// Wake is how long a node takes to wake that sleeps (Sleeper); 0 is DefaultWake.
	Wake time.Duration
	// Deferral says which jobs are deferred (Deferrer); nil defers none.
	Deferral Deferral
	// Peer reproduces peculiarities of other simulators.
	Peer Peer
	// Meter measures the power of jobs (Outcome.Draw); nil measures nothing.
	Meter Meter
	// CountFrom is the end of the warm-up: jobs submitted before it run and have no outcome, and means over time begin
	// at it. 0 is no warm-up.
	CountFrom time.Duration

	// The following observe a run and do not change it.

	// Observer receives every event of a job and of a node, in order. It must not call the
	// simulation's mutating methods.
	Observer func(Event)
	// PerTenant keeps each tenant's demand and usage over time, for
	// Sim.TenantReports.
	PerTenant bool
	// Attribute records the causes of queueing delay, for Sim.Delays.
	Attribute bool
	// Series samples metrics over time; nil costs nothing. A fork has none.
	Series *Series
}

// Digest identifies the options by everything that decides the results of a run:
// options with equal digests give equal results for the jobs on clusters of up to
// a number of GPUs. Functions are identified by their values: Models over the
// GPUs, Estimate for each job. Observer, PerTenant, Attribute and Series do not
// count.
func (o *Options) Digest(gpus int, jobs iter.Seq[*workload.Job]) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d %+v %+v %s\n",
		o.Placement, o.Round, o.EventBudget, o.Quota, o.Protect, o.Peer, o.Past.Digest())
	fmt.Fprintln(h, o.Models.Digest(gpus))
	if o.Epilog > 0 {
		fmt.Fprintln(h, "epilog", int64(o.Epilog))
	}
	if o.Deferral != nil {
		fmt.Fprintln(h, "deferral", o.Deferral.Digest())
	}
	if o.Wake > 0 {
		fmt.Fprintln(h, "wake", int64(o.Wake))
	}
	if o.CountFrom != 0 {
		fmt.Fprintln(h, "count from", int64(o.CountFrom))
	}
	if len(o.Nodes) > 0 {
		fmt.Fprintln(h, o.Nodes)
	}
	if o.Meter != nil {
		fmt.Fprintln(h, "meter", o.Meter.Digest())
	}
	if o.Estimate != nil {
		for j := range jobs {
			fmt.Fprintln(h, int64(o.Estimate(j)))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
