package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// Peer holds the semantics in which published simulators differ from this one, so
// that their results can be reproduced. The zero value is the product's semantics.
type Peer struct {
	// NoRestartCost makes restarts free (Tiresias simulator).
	NoRestartCost bool
	// RestartAsWork adds the restart cost to the remaining work when a job is
	// preempted, instead of holding GPUs idle when it resumes (Lucid): a cost that is
	// not paid off before the next preemption remains.
	RestartAsWork bool
	// RestartOutsideJCT subtracts restart time from the reported end of a job,
	// though its GPUs were held (TitanSched).
	RestartOutsideJCT bool
	// RestartOutsideService excludes restart time from attained service (TitanSched).
	RestartOutsideService bool
	// GuestStaysSlow keeps a packed job at its shared speed after its host, the job
	// that held the GPUs first, has finished (Lucid).
	GuestStaysSlow bool
	// Clock checks for finished jobs at multiples of this span only, before counting
	// the progress of the tick before: a job holds its GPUs until one tick after the
	// first tick by which its work is done (Lucid, 1 s). 0 is continuous.
	Clock time.Duration
	// QuotaOnly makes an Exchange compare GPU counts only: jobs are preempted even
	// if the jobs that they make room for find no place, and GPUs that a job could not be
	// placed on stay idle (TitanSched, Lucid).
	QuotaOnly bool
}

// restartCost is the time that a job holds a number of GPUs without progress when
// it is resized.
func (s *Sim) restartCost(j *workload.Job, gpus int) time.Duration {
	if s.opts.Peer.NoRestartCost {
		return 0
	}
	return s.opts.Models.JobRestart(j, gpus)
}

// resumeCost is the time that a resumed job holds a number of GPUs without progress.
func (s *Sim) resumeCost(j *workload.Job, gpus int) time.Duration {
	if s.opts.Peer.RestartAsWork {
		return 0
	}
	return s.restartCost(j, gpus)
}

// preemptionWork is the work that a preemption adds to a job that runs on a number
// of GPUs.
func (s *Sim) preemptionWork(id ID, gpus int) time.Duration {
	if !s.opts.Peer.RestartAsWork {
		return 0
	}
	return s.restartCost(s.spec(id), gpus)
}

// servedNow is the time since mark in which a running job attained service.
func (v *View) servedNow(j *job) time.Duration {
	if v.opts.Peer.RestartOutsideService {
		return v.now - j.mark - v.idleNow(j)
	}
	return v.now - j.mark
}

// leastLeft is the least work that a running job has left before its end. With a
// clock, a job may be done before its end.
func (v *View) leastLeft() time.Duration {
	if v.opts.Peer.Clock > 0 {
		return 0
	}
	return 1
}

// endFor is the instant at which a job whose work is done at t releases its GPUs.
func (s *Sim) endFor(t time.Duration) time.Duration {
	if c := s.opts.Peer.Clock; c > 0 && t < never-2*c {
		return nextTick(t, c) + c
	}
	return t
}
