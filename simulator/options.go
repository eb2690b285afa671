package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// Version of the simulator's semantics: results of equal versions, inputs and
// seeds are equal, so caches key on it.
const Version = "6"

// Options of a run. The zero value is the product's semantics; the fields
// under "peers" restore what other simulators do differently.
type Options struct {
	Placement Placement
	// Round is the decision grid, counted from instant 0; 0 decides at every event.
	Round time.Duration
	// Models default to DefaultModels().
	Models *Models
	// EventBudget bounds the events of a run, so that a configuration that makes
	// jobs pay restarts for ever ends. 0 means 1,000 per job and 10,000 more.
	EventBudget int
	// Observer is told of every event of a job, in order. It must not call the
	// simulation's mutating methods.
	Observer func(Event)
	// Estimate is what the scheduler is told about how long a job will run, by
	// itself on the GPUs it asks for; nil tells nothing. It must not change while
	// the run lasts.
	Estimate func(*workload.Job) time.Duration
	// Services are the GPU-times that past jobs took, in order of their end, for
	// policies that learn from history. They must not change while the run lasts.
	Services []time.Duration
	// Protect bounds what preemption may do to a job.
	Protect Protection
	// Quota says whether the cluster's virtual clusters bind.
	Quota Quota
	// PerTenant keeps what each tenant asks for and holds over time, for
	// Sim.TenantReports.
	PerTenant bool
	// Attribute finds out why jobs wait, for Sim.Delays.
	Attribute bool
	// Series follows the run over time; nil costs nothing. A fork has none.
	Series *Series

	// Peers.

	// NoRestartCost lets preempted jobs resume for free, as the Tiresias
	// simulator does.
	NoRestartCost bool
	// RestartOutsideJCT leaves restart time out of the reported end of a job,
	// though its GPUs were held, as TitanSched does.
	RestartOutsideJCT bool
	// RestartOutsideService does not count restart time as attained service.
	RestartOutsideService bool
	// GuestStaysSlow leaves a job at its shared speed when the job whose GPUs it
	// was packed on ends, as Lucid's simulator does.
	GuestStaysSlow bool
	// Clock makes ends be looked for at its ticks only, before the progress since
	// the tick before is counted: a job holds its GPUs until one tick after the
	// first by which its work is done, as in Lucid's simulator, where it is 1 s.
	Clock time.Duration
	// RestartAsWork adds what a restart costs to the work left when a job is
	// stopped, instead of holding its GPUs idle when it resumes, as Lucid's
	// simulator does: a rest of it is not lost when the job is stopped again.
	RestartAsWork bool
	// QuotaOnly lets policies that walk a quota of GPUs look at counts alone:
	// jobs are stopped even if those they make room for find no place, and GPUs
	// left by a job that found none stay idle, as in TitanSched and Lucid.
	QuotaOnly bool
}
