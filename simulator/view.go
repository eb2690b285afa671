package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// View is the part of a simulation that policies may read: the knowledge of a real scheduler.
//
// The fields are the simulation's state, grouped by their treatment in a fork
// (see Sim.Fork): inputs are shared, counters and records are copied, buffers
// belong to one simulation.
type View struct {
	inputs
	counters
	records
	buffers
}

// Oracle gives Clairvoyant policies the true durations.
type Oracle struct{ v *View }

// JobLeft is the work the job still has to do, up to its time limit.
func (o *Oracle) JobLeft(id ID) time.Duration {
	j, left := &o.v.jobs[id], o.v.jobLeft(id)
	switch {
	case j.limit == never || j.phase == done:
		return left
	case j.phase == running:
		return min(left, j.limit-o.v.now)
	}
	return min(left, j.limit)
}

// Now is the current instant.
func (v *View) Now() time.Duration { return v.now }

// Zero is the wall-clock time of instant 0; the zero time if it is not known.
func (v *View) Zero() time.Time {
	if v.w == nil {
		return time.Time{}
	}
	return v.w.Zero()
}

// Cluster is the nodes that take jobs: nodes neither down nor draining. It is shared and
// must not be modified.
func (v *View) Cluster() workload.Cluster { return v.cluster }

// TotalGPUs is the number of GPUs of the cluster's nodes that take jobs, and of GPUs in
// use on nodes that drain.
func (v *View) TotalGPUs() int { return v.place.usable }

// Active is the number of jobs submitted and not ended, members of groups
// counted.
func (v *View) Active() int { return v.active }

// Waiting is the number of active jobs that do not run.
func (v *View) Waiting() int { return v.waiting }

// Submitted is one more than the highest ID that has become active.
func (v *View) Submitted() ID { return ID(len(v.jobs)) }

// spec is the job as its workload or state describes it, true duration included.
func (v *View) spec(id ID) *workload.Job {
	if id < v.base {
		return &v.state.Jobs[id].Job
	}
	return &v.w.Jobs()[id-v.base]
}

// JobName is the job's id in its workload.
func (v *View) JobName(id ID) string { return v.spec(id).ID }

// JobKey is equal for runs of one recurring job, empty if that is not known.
func (v *View) JobKey(id ID) string { return v.spec(id).Key }

// JobTenantName is the name of the job's tenant, empty if it has none.
func (v *View) JobTenantName(id ID) string { return v.spec(id).Tenant }

// JobDeadline is the instant by which the job should end, 0 if it has none.
func (v *View) JobDeadline(id ID) time.Duration { return v.spec(id).Deadline }

// JobGPUs is the gang's width in whole GPUs, of one member where the job stands
// for several (JobMembers): the width to compare with settings.
func (v *View) JobGPUs(id ID) int {
	j := &v.jobs[id]
	if j.members == 1 {
		return int(j.gpus)
	}
	return int(j.gpus / j.members)
}

// JobDemand is the number of GPUs that must be free to start the job: JobGPUs of
// all its members.
func (v *View) JobDemand(id ID) int { return int(v.jobs[id].gpus) }

// JobMembers is the number of equal jobs that the job stands for
// (workload.Job.Members), usually 1: its weight in statistics over jobs.
func (v *View) JobMembers(id ID) int { return int(v.jobs[id].members) }

// MaySpread reports whether the job's next start may spread over more nodes than
// its size needs (Plan.AllowSpread).
func (v *View) MaySpread(id ID) bool { return v.jobs[id].relaxed }

// JobHeld is the number of GPUs the job runs on, 0 if it waits.
func (v *View) JobHeld(id ID) int {
	if v.jobs[id].phase != running {
		return 0
	}
	return int(v.jobs[id].held)
}

// JobRestart is the cost of resuming the job on a number of GPUs by the models, whatever Options.Peer charges.
func (v *View) JobRestart(id ID, gpus int) time.Duration {
	return v.opts.Models.JobRestart(v.spec(id), gpus)
}

// JobShares reports whether a running job shares its GPUs.
func (v *View) JobShares(id ID) bool { return v.jobs[id].shares }

// JobPartner is the job that shares the job's GPUs, -1 for none.
func (v *View) JobPartner(id ID) ID { return ID(v.jobs[id].partner) }

// JobRate is a running job's progress per time: 1 on the GPUs it asks for,
// consolidated and alone.
func (v *View) JobRate(id ID) float64 { return v.jobs[id].rate }

// JobClass is the job's model class, an index of Models.Classes.
func (v *View) JobClass(id ID) int {
	j := &v.jobs[id]
	if j.class < 0 {
		spec := v.spec(id)
		j.class = int16(v.classes.draw(spec.Model, spec.Key))
	}
	return int(j.class)
}

// JobLoad is the job's load on its GPUs, an index of Models.Loads.
func (v *View) JobLoad(id ID) int {
	j := &v.jobs[id]
	if j.burden < 0 {
		spec := v.spec(id)
		j.burden = int16(v.loads.draw(spec.Model, spec.Key))
	}
	return int(j.burden)
}

// JobConstraint is the job's requirement on its nodes, 0 for nothing: of jobs with equal
// constraints, each finds a place where another of its size does.
func (v *View) JobConstraint(id ID) int { return int(v.where(&v.jobs[id])) }

// JobMost is the number of GPUs that the job could hold at most on an empty cluster.
func (v *View) JobMost(id ID) int {
	j := &v.jobs[id]
	return v.place.capacity(v.where(j), int(j.members), true)
}

// JobMayJoin reports whether a job may start on the nodes of a running one.
func (v *View) JobMayJoin(id, host ID) bool {
	return (v.place.closed == 0 || !v.drains(&v.jobs[host])) && v.suits(id, host)
}

// suits reports whether the nodes of a running job satisfy the constraint of another.
func (v *View) suits(id, host ID) bool {
	where := v.where(&v.jobs[id])
	if where == 0 {
		return true
	}
	h := &v.jobs[host]
	if v.place.rationed() && !v.hasRoom(&v.jobs[id], v.placementOf(nil, h)) {
		return false
	}
	if v.place.mode == Count {
		return v.place.grouped(0, where)
	}
	return !v.runsOn(h, func(n int) bool { return !v.place.satisfies(n, where) })
}

// JobPool is the pool in which the job runs, or looks for GPUs.
func (v *View) JobPool(id ID) int { return int(v.jobs[id].pool) }

// JobFirstPool is the pool in which a job that has not run looked for GPUs when it was
// submitted; -1 while it is submitted.
func (v *View) JobFirstPool(id ID) int { return int(v.jobs[id].firstPool) }

// Models are the performance models of the run. They are shared and must not be
// modified.
func (v *View) Models() *Models { return v.opts.Models }

// JobSubmit is the instant of submission.
func (v *View) JobSubmit(id ID) time.Duration { return v.spec(id).Submit }

// JobRunning reports whether the job holds GPUs.
func (v *View) JobRunning(id ID) bool { return v.jobs[id].phase == running }

// JobActive reports whether the job was submitted and has not ended.
func (v *View) JobActive(id ID) bool { return v.jobs[id].phase != done }

// JobEnded is the instant at which the job ended; 0 and false if it has not.
func (v *View) JobEnded(id ID) (at time.Duration, ok bool) {
	j := &v.jobs[id]
	if j.phase != done {
		return 0, false
	}
	return j.ends, true
}

// JobSince is the instant at which the job's present spell of running or
// waiting began.
func (v *View) JobSince(id ID) time.Duration { return v.jobs[id].since }

// JobServedFrom is the instant from which a running job attains service: now,
// or, where a restart does not count as service, its end.
func (v *View) JobServedFrom(id ID) time.Duration {
	if v.opts.Peer.RestartOutsideService {
		return max(v.now, v.jobs[id].ready)
	}
	return v.now
}

// JobReady is the instant from which a running job makes progress in its present
// spell: until then it restarts.
func (v *View) JobReady(id ID) time.Duration { return v.jobs[id].ready }

// Clocked reports whether a job may run on though its work is done
// (Peer.Clock).
func (v *View) Clocked() bool { return v.opts.Peer.Clock > 0 }

// JobStarts is how often the job was started or resumed.
func (v *View) JobStarts(id ID) int { return int(v.jobs[id].starts) }

// JobAttained is the GPU-time received until now, by each member like JobGPUs.
func (v *View) JobAttained(id ID) time.Duration {
	j := &v.jobs[id]
	attained := j.attained
	if j.phase == running {
		attained = v.attainedNow(j)
	}
	if j.members > 1 {
		attained /= time.Duration(j.members)
	}
	return attained
}

// JobWaited is the time the job has waited in all.
func (v *View) JobWaited(id ID) time.Duration {
	j := &v.jobs[id]
	if j.phase == pending {
		return j.waited + v.now - j.since
	}
	return j.waited
}

// jobLeft is the work the job still has to do.
func (v *View) jobLeft(id ID) time.Duration {
	j := &v.jobs[id]
	if j.phase == running {
		return v.leftNow(j)
	}
	return j.left
}

// JobEstimate is the reported run time of the whole job; ok is false if none is
// reported (Options.Estimate).
func (v *View) JobEstimate(id ID) (d time.Duration, ok bool) {
	if v.opts.Estimate == nil {
		return 0, false
	}
	return v.opts.Estimate(v.spec(id)), true
}

// Past is the jobs that ended before the run (Options.Past).
func (v *View) Past() *Past {
	v.pastRead = true
	return v.opts.Past
}

// PastRead reports whether the run depends on Options.Past.
func (v *View) PastRead() bool { return v.pastRead }

// JobSkew is the skew of the job's model class (Class.Skew).
func (v *View) JobSkew(id ID) float64 { return v.opts.Models.Classes[v.JobClass(id)].Skew }

// Placement appends where a running job runs.
func (v *View) Placement(dst []workload.NodeGPUs, id ID) []workload.NodeGPUs {
	return v.placementOf(dst, &v.jobs[id])
}

// Free is the number of free GPUs.
func (v *View) Free() int { return v.place.idle }

// Round is the decision grid of the run, 0 for decisions at every event.
func (v *View) Round() time.Duration { return v.opts.Round }

// HasPools reports whether Plan.Partition has an effect: whether jobs are placed on nodes,
// of one group, by GPUs alone.
func (v *View) HasPools() bool {
	return v.place.mode != Count && len(v.place.groups) == 1 && !v.place.rationed()
}

// NodesApart is the number of nodes in pool 1 (Plan.Partition).
func (v *View) NodesApart() int { return v.place.members }
