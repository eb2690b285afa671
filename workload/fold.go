package workload

import (
	"math"
	"time"
)

// fold replays a job's events until at. ok is false if it was not active or
// had not been submitted then; fin is its end, if it ended by then.
//
// Events that contradict what is known of the job count for nothing: a start of
// a running job, a preemption of a waiting one. Spells at one instant alternate:
// a start and a preemption of a waiting job leave it waiting.
func (r *record) fold(at time.Duration) (a ActiveJob, fin *Finish, ok bool) {
	if r.submitted == nil || r.submitted.time > at {
		return a, nil, false
	}
	a.Job = *r.submitted.job
	a.Since, a.Pool = a.Submit, r.submitted.pool
	early := time.Duration(math.MinInt64) // of a preemption before its start
	for i := range r.events {
		e := &r.events[i]
		if e.time > at {
			break
		}
		now := max(e.time, a.Submit) // clocks may differ
		switch e.kind {
		case Started, Resumed:
			if a.Running {
				continue
			}
			a.spend(now)
			a.Running = true
			a.Starts++
			a.place(e)
			if early == e.time {
				early = math.MinInt64
				a.preempt(now)
			}
		case Preempted:
			if !a.Running {
				early = e.time
				continue
			}
			a.spend(now)
			a.preempt(now)
		case Resized:
			a.spend(now)
			a.Resizes++
			a.place(e)
		case Finished:
			a.spend(now)
			a.Status = e.status
			return a, &Finish{Job: a.Job, End: now, RunTime: a.RunTime, Starts: a.Starts}, false
		}
		if e.hasAttained {
			a.Attained = e.attained // what follows is added to it
		}
		if e.hasLevel {
			a.LevelAttained, a.HasLevel = e.levelAttained, true
		}
		if e.leaseUntil != 0 && a.Running {
			a.LeaseUntil = e.leaseUntil
		}
	}
	since := a.Since
	a.spend(at)
	a.Since = since
	return a, nil, true
}

// place notes where a job runs from now on, and on how many GPUs.
func (a *ActiveJob) place(e *jobEvent) {
	a.Placement, a.Held = e.placement, 0
	for _, n := range e.placement {
		a.Held += n.GPUs
	}
	if e.kind == Resized {
		a.Held = e.gpus.Whole()
	} else {
		a.SharesWith, a.Pool = e.sharesWith, e.pool
	}
	if a.Held <= 0 || a.Held > MaxGPUs {
		a.Held = a.GPUs.Whole()
	}
}

// spend adds the time since the last event to what the job ran or waited.
func (a *ActiveJob) spend(now time.Duration) {
	d := now - a.Since
	a.Since = now
	if !a.Running {
		a.WaitTime += d
		return
	}
	a.RunTime += d
	if n := time.Duration(a.Held); d > (math.MaxInt64-a.Attained)/n {
		a.Attained = math.MaxInt64
	} else {
		a.Attained += d * n
	}
}

func (a *ActiveJob) preempt(now time.Duration) {
	a.Running = false
	a.Preemptions++
	a.Placement, a.Held = nil, 0
	a.SharesWith, a.Pool = "", 0
	a.LeaseUntil = 0
	a.Since = now
}
