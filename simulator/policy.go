package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// ID is a job in a run: an index in order of submission. Ties break by it.
type ID int32

// Policy decides which jobs run. One value serves one simulation at a time; Reset
// makes it new.
type Policy interface {
	// Reset begins a run. The policy keeps v to read and p to set alarms and to
	// direct placement; no job is active yet.
	Reset(v *View, p *Plan)
	// Admit reports that a job became active: it was submitted now (Seen is zero
	// and JobStarts is 0), or the run resumes from an observed state in which it
	// is already running or waiting. Jobs come in order of ID.
	Admit(j ID, seen Seen)
	// Finish reports that a running job ended.
	Finish(j ID)
	// Plan proposes starts and stops, after everything of an instant has
	// happened. Proposing nothing is fine.
	Plan(p *Plan)
}

// Member varies the unknowns of a recorded scheduler: its policy, and Options.Epilog.
type Member struct {
	Policy
	Epilog time.Duration
}

// Quantumed is a policy that sets quanta and is called when they are over.
type Quantumed interface {
	// Quantum reports that the instant set for a running job has come.
	Quantum(j ID)
}

// Freed is a policy that is called when the GPUs of an ended job are free.
type Freed interface {
	// Freed reports that the GPUs of a job are free: at its end, or Options.Epilog after it.
	Freed(j ID)
}

// Stallable is a policy under which jobs may wait for ever.
type Stallable interface {
	// Stalled reports that jobs wait and nothing runs or arrives any more: the plan that follows must start one, or the
	// run fails.
	Stalled()
}

// Holding is a policy that knows of jobs that may not start for a time after a preemption (View.JobEligible).
// For others, the run is as if it resumed when that time is over.
type Holding interface {
	// Eligible reports that a waiting job may start from now on.
	Eligible(j ID)
}

// Lenient is a policy whose scheduler kills a job some time after its limit.
type Lenient interface {
	// Overtime is that time, the same throughout a run, asked for after Reset.
	Overtime() time.Duration
}

// Reporter is a policy that remembers more about jobs than their events record.
// Its reports travel with the job's events and come back to Admit.
type Reporter interface {
	Report(j ID) Seen
}

// Sharer marks a policy that packs jobs on the same GPUs. For others, two jobs
// reported on the same GPUs are a mistake in the report.
type Sharer interface {
	Shares()
}

// Scattered marks a policy whose scheduler leaves the choice of nodes to another one: its jobs ran on any free GPUs
// when their run times were recorded, so that spreading slows them no further.
type Scattered interface {
	Scatters()
}

// Elastic is a policy that runs jobs on more GPUs than they ask for.
type Elastic interface {
	// MaxScale returns the most GPUs that a job runs on under any configuration of the
	// policy, in multiples of its request.
	MaxScale() int
}

// Clairvoyant is a policy that needs true durations, which no real scheduler
// knows: a baseline.
type Clairvoyant interface {
	// Foresee hands over the oracle of a run, before Reset.
	Foresee(o *Oracle)
}

// Seen is an optional report of a scheduler about an active job.
type Seen struct {
	// LevelAttained is the service behind the job's priority level, and whether
	// the scheduler reports it. It is less than the service attained where the
	// scheduler forgot some.
	LevelAttained time.Duration
	HasLevel      bool
	// LeaseUntil is the end of the lease in force, 0 for none.
	LeaseUntil time.Duration
}

// Event is an event of a job or a node, for Options.Observer.
type Event struct {
	Kind workload.EventKind // of a job, Submitted to Finished, or of a node
	Time time.Duration
	Job  ID  // of an event of a job
	Node int // of an event of a node
	Seen Seen
	// Lost and HoldUntil are of a preemption: whether it lost the job's progress, and the instant before
	// which the job may not start again, 0 for none.
	Lost      bool
	HoldUntil time.Duration
}
