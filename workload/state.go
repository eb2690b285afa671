package workload

import (
	"slices"
	"time"
)

// State is the observable state of a cluster at an instant, built from
// job and cluster events alone (Ledger.State): which jobs are active, what each has
// received, and where it runs. It holds no duration: how long a job still runs
// is for the caller to predict.
type State struct {
	At time.Duration // since the workload's zero
	// Cluster is the nodes that are up, and the nodes of Down.
	Cluster Cluster
	// Down and Draining are the numbers of nodes that are down, and of nodes that are up
	// but start no job, in order. Nodes that are down have a number if they are named
	// by it; others are left out of Cluster.
	Down, Draining []int
	// Jobs are the active ones in order of submission, then of the id of the
	// event that submitted them.
	Jobs []ActiveJob
}

// ActiveJob is an unfinished job as its events report it.
type ActiveJob struct {
	// Job has Duration zero: it is not known yet.
	Job
	Running bool
	// Since is the instant at which the present spell began: the last start,
	// resume or resize of a running job, the last preemption or resize or the
	// submission of a waiting one.
	Since time.Duration
	// RunTime and WaitTime add up all spells until State.At. RunTime counts
	// held GPUs, also while a restart makes no progress, but not time that a preemption lost.
	RunTime  time.Duration
	WaitTime time.Duration
	// Attained is GPU-time received up to State.At: the scheduler's last report, if
	// any, plus GPUs held x time since.
	Attained    time.Duration
	Starts      int // first start and resumes
	Preemptions int
	Resizes     int // since submission
	// Lost and LostStarts are the run time and the starts whose progress preemptions lost. HoldUntil is the
	// instant before which a waiting job may not start, 0 for none.
	Lost       time.Duration
	LostStarts int
	HoldUntil  time.Duration
	// Held is the number of GPUs of a running job, 0 of a waiting one. It differs
	// from the GPUs asked for where the scheduler is elastic.
	Held int
	// LevelAttained is the GPU-time (or time, as the scheduler counts) that its
	// scheduler last reported to be behind the job's priority level, at Since.
	// It differs from Attained where a scheduler forgets service, as Tiresias
	// does on promotion. HasLevel is false where the scheduler does not report.
	LevelAttained time.Duration
	HasLevel      bool
	// LeaseUntil is the end of the lease in force, 0 if none is reported.
	LeaseUntil time.Duration
	// Placement is empty where the scheduler does not report it. Nodes count from
	// 0; one that is not known to be up is -1.
	Placement []NodeGPUs
	// SharesWith is the id of the running job whose GPUs this one joined, empty if
	// there is none or it has left them. The other job does not name this one.
	SharesWith string
	// Pool is the part of the nodes in which a running job was started, or for which
	// one that has not run was submitted, where the scheduler sets some apart; 0 is the
	// rest of the cluster.
	Pool int
}

// NodeGPUs is a share of a node.
type NodeGPUs struct {
	Node int `json:"node"`
	GPUs int `json:"gpus"`
}

// Available is the nodes that take jobs: nodes neither down nor draining.
func (s *State) Available() Cluster {
	c := s.Cluster
	if len(s.Down)+len(s.Draining) == 0 {
		return c
	}
	c.Groups = slices.Clone(c.Groups)
	for _, n := range slices.Concat(s.Down, s.Draining) {
		if g := s.Cluster.GroupOf(n); g >= 0 {
			c.Groups[g].Nodes--
		}
	}
	return c
}

// HasNode reports whether a node takes jobs.
func (s *State) HasNode() bool {
	c := s.Available()
	return c.Validate() == nil
}

// Elapsed is the time since submission.
func (s *State) Elapsed(i int) time.Duration { return s.At - s.Jobs[i].Submit }
