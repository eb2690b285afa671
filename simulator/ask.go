package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// What a policy, and whoever drives a simulation, may ask.

// Now is the current instant.
func (s *Sim) Now() time.Duration { return s.now }

// Cluster is the hardware of the run.
func (s *Sim) Cluster() workload.Cluster { return s.cluster }

// Active is the number of jobs submitted and not ended, members of groups
// counted.
func (s *Sim) Active() int { return s.active }

// Waiting is the number of active jobs that do not run.
func (s *Sim) Waiting() int { return s.waiting }

// Submitted is one more than the highest ID that has become active.
func (s *Sim) Submitted() ID { return ID(len(s.jobs)) }

// Len is the number of jobs of the run, past, active and future.
func (s *Sim) Len() int { return s.total }

// Done reports whether every job has ended.
func (s *Sim) Done() bool { return s.finished == s.total }

// Events is the number of events so far.
func (s *Sim) Events() int { return s.events }

// Spec is the job as its workload or state describes it. The caller must not
// change it; a policy must not read Duration.
func (s *Sim) Spec(id ID) *workload.Job {
	if id < s.base {
		return &s.state.Jobs[id].Job
	}
	return &s.w.Jobs()[id-s.base]
}

// JobName is the job's id in its workload.
func (s *Sim) JobName(id ID) string { return s.Spec(id).ID }

// JobGPUs is the gang's width in whole GPUs.
func (s *Sim) JobGPUs(id ID) int { return int(s.jobs[id].gpus) }

// JobMembers is how many equal jobs the job stands for (workload.Job.Members),
// usually 1. What it asks for, holds and receives is theirs together.
func (s *Sim) JobMembers(id ID) int { return int(s.jobs[id].members) }

// JobWidth is JobGPUs of one member, which is what a policy compares with
// settings in GPUs or GPU-time.
func (s *Sim) JobWidth(id ID) int {
	j := &s.jobs[id]
	if j.members == 1 {
		return int(j.gpus)
	}
	return int(j.gpus / j.members)
}

// JobService is JobAttained of one member.
func (s *Sim) JobService(id ID) time.Duration {
	attained := s.JobAttained(id)
	if m := s.jobs[id].members; m > 1 {
		attained /= time.Duration(m)
	}
	return attained
}

// JobHeld is the number of GPUs the job runs on, 0 if it waits.
func (s *Sim) JobHeld(id ID) int {
	if s.jobs[id].phase != running {
		return 0
	}
	return int(s.jobs[id].held)
}

// JobShares reports whether a running job shares its GPUs.
func (s *Sim) JobShares(id ID) bool { return s.jobs[id].shares }

// JobPartner is who shares the job's GPUs, -1 for nobody.
func (s *Sim) JobPartner(id ID) ID { return ID(s.jobs[id].partner) }

// JobRate is a running job's progress per time: 1 on the GPUs it asks for,
// consolidated and alone.
func (s *Sim) JobRate(id ID) float64 { return s.jobs[id].rate }

// JobClass is the job's model class, an index of Models.Classes.
func (s *Sim) JobClass(id ID) int {
	j := &s.jobs[id]
	if j.class < 0 {
		spec := s.Spec(id)
		j.class = int16(s.classes.draw(spec.Model, spec.Key))
	}
	return int(j.class)
}

// JobLoad is what the job does to others on its GPUs, an index of Models.Loads.
func (s *Sim) JobLoad(id ID) int {
	j := &s.jobs[id]
	if j.burden < 0 {
		spec := s.Spec(id)
		j.burden = int16(s.loads.draw(spec.Model, spec.Key))
	}
	return int(j.burden)
}

// JobPool is the pool in which the job runs, or looks for GPUs.
func (s *Sim) JobPool(id ID) int { return int(s.jobs[id].pool) }

// Models are the performance models of the run.
func (s *Sim) Models() *Models { return s.opts.Models }

// JobSubmit is the instant of submission.
func (s *Sim) JobSubmit(id ID) time.Duration { return s.jobs[id].submit }

// JobRunning reports whether the job holds GPUs.
func (s *Sim) JobRunning(id ID) bool { return s.jobs[id].phase == running }

// JobActive reports whether the job was submitted and has not ended.
func (s *Sim) JobActive(id ID) bool { return s.jobs[id].phase != done }

// JobEnded is the instant at which the job ended; ok is false if it has not.
func (s *Sim) JobEnded(id ID) (at time.Duration, ok bool) {
	j := &s.jobs[id]
	return j.ends, j.phase == done
}

// JobSince is the instant at which the job's present spell of running or
// waiting began.
func (s *Sim) JobSince(id ID) time.Duration { return s.jobs[id].since }

// JobServedFrom is the instant from which a running job attains service: now,
// or, where a restart does not count as service, its end.
func (s *Sim) JobServedFrom(id ID) time.Duration {
	if s.opts.Peer.RestartOutsideService {
		return max(s.now, s.jobs[id].ready)
	}
	return s.now
}

// JobReady is the instant from which a running job makes progress in its present
// spell: until then it restarts.
func (s *Sim) JobReady(id ID) time.Duration { return s.jobs[id].ready }

// Clocked reports whether a job may run on though its work is done
// (Peer.Clock).
func (s *Sim) Clocked() bool { return s.opts.Peer.Clock > 0 }

// JobStarts is how often the job was started or resumed.
func (s *Sim) JobStarts(id ID) int { return int(s.jobs[id].starts) }

// JobPreemptions is how often the job was stopped.
func (s *Sim) JobPreemptions(id ID) int { return int(s.jobs[id].preempts) }

// JobAttained is the GPU-time received until now.
func (s *Sim) JobAttained(id ID) time.Duration {
	j := &s.jobs[id]
	if j.phase == running {
		return s.attainedNow(j)
	}
	return j.attained
}

// JobWaited is the time the job has waited in all.
func (s *Sim) JobWaited(id ID) time.Duration {
	j := &s.jobs[id]
	if j.phase == pending {
		return j.waited + s.now - j.since
	}
	return j.waited
}

// JobLeft is the work the job still has to do. Only a Clairvoyant policy may
// ask.
func (s *Sim) JobLeft(id ID) time.Duration {
	j := &s.jobs[id]
	if j.phase == running {
		return s.leftNow(j)
	}
	return j.left
}

// JobEstimate is how long the scheduler is told the whole job will run; ok is
// false if it is told nothing (Options.Estimate).
func (s *Sim) JobEstimate(id ID) (d time.Duration, ok bool) {
	if s.opts.Estimate == nil {
		return 0, false
	}
	return s.opts.Estimate(s.Spec(id)), true
}

// Services are the GPU-times that jobs took before the run, in order of their
// end (Options.Services). The caller must not change them.
func (s *Sim) Services() []time.Duration { return s.opts.Services }

// JobSkew is the skew of the job's model class (Class.Skew).
func (s *Sim) JobSkew(id ID) float64 { return s.opts.Models.Classes[s.JobClass(id)].Skew }

// SetRelaxed lets the job's next start spread over more nodes than its size
// needs, if no consolidated place is free. The members of a group always may.
func (s *Sim) SetRelaxed(id ID, relaxed bool) {
	relaxed = relaxed || s.jobs[id].members > 1
	if s.jobs[id].relaxed != relaxed {
		s.change(id, func(j *job) { j.relaxed = relaxed })
	}
}

// Placement appends where a running job runs.
func (s *Sim) Placement(dst []workload.NodeGPUs, id ID) []workload.NodeGPUs {
	return s.placementOf(dst, &s.jobs[id])
}

// Free is the number of GPUs nobody holds.
func (s *Sim) Free() int { return s.place.idle }

// Round is the decision grid of the run, 0 for decisions at every event.
func (s *Sim) Round() time.Duration { return s.opts.Round }
