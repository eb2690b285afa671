package workload

import (
	"math"
	"time"
)

// folded is the state of a job at an instant.
type folded struct {
	ActiveJob   // without Placement
	placement   []NodeShare
	known       bool          // it was submitted by then
	ended       bool          // and has ended
	last        time.Duration // of its events
	first       time.Duration // start, if Starts is above 0
	accountedTo time.Duration // by RunTime, WaitTime and Attained
	spells      []Spell       // unless nil, spells until accountedTo
}

// fold replays a job's events until at, with placements or without.
//
// Events that contradict the state of the job are ignored: a start of
// a running job, a preemption of a waiting one. Spells at one instant alternate:
// a start and a preemption of a waiting job leave it waiting.
func (r *record) fold(at time.Duration, placements bool) (f folded) {
	f.replay(r.unpack(placements), at)
	return f
}

func (f *folded) replay(open *openRecord, at time.Duration) {
	if open.submission.job == nil || open.submission.time > at {
		return
	}
	f.known = true
	f.Job = *open.submission.job
	f.Since, f.accountedTo, f.Pool = f.Submit, f.Submit, open.submission.pool
	f.HoldUntil = open.submission.holdUntil
	early, stop := time.Duration(math.MinInt64), jobEvent{} // a preemption before its start
	events := open.all(jobEvent.compare)
	for i := range events {
		e := &events[i]
		if e.time > at {
			break
		}
		now := max(e.time, f.Submit) // clocks may differ
		if e.repeats(&open.submission) {
			continue
		}
		f.last = e.time
		switch {
		case e.observed:
			f.observe(e, now)
		case e.kind == Started, e.kind == Resumed:
			if f.Running {
				continue
			}
			f.start(e, now)
			if early == e.time {
				early = math.MinInt64
				f.preempt(now, &stop)
			}
		case e.kind == Preempted:
			if !f.Running {
				early, stop = e.time, *e
				continue
			}
			f.spend(now)
			f.preempt(now, e)
		case e.kind == Resized:
			f.spend(now)
			f.Since = now
			f.Resizes++
			f.place(e)
		case e.kind == Finished:
			f.spend(now)
			f.Since = now
			f.Status, f.ended = e.status, true
			return
		}
		if e.hasAttained {
			f.Attained = e.attained // later time is added to it
		}
		if e.hasLevel {
			f.LevelAttained, f.HasLevel = e.levelAttained, true
		}
		if e.leaseUntil != 0 && f.Running {
			f.LeaseUntil = e.leaseUntil
		}
	}
	f.spend(at)
}

// observe adopts a snapshot's state of the job where it differs.
func (f *folded) observe(e *jobEvent, now time.Duration) {
	runs := e.kind == Started
	f.spend(now)
	switch {
	case runs && !f.Running:
		f.start(e, now)
		if e.hasAttained && f.Starts == 1 { // its start was not seen
			f.ran(now, e.attained)
		}
	case !runs && f.Running:
		f.preempt(now, e)
	case runs && len(e.placement) > 0:
		held := f.Held
		f.place(e)
		if f.Held != held {
			f.Resizes, f.Since = f.Resizes+1, now
		}
	}
}

// ran takes a running job to have run since it had the service, or was submitted.
func (f *folded) ran(now, attained time.Duration) {
	f.RunTime = min(attained/time.Duration(f.Held), f.WaitTime)
	f.Since, f.WaitTime = now-f.RunTime, f.WaitTime-f.RunTime
	f.first = f.Since
}

func (f *folded) start(e *jobEvent, now time.Duration) {
	f.spend(now)
	held := min(e.startUp, max(0, now-f.Since)) // since the last stay, at most
	f.Since, f.Running, f.HoldUntil = now-held, true, 0
	if f.Starts++; f.Starts == 1 {
		f.first = f.Since
	}
	f.place(e)
	f.WaitTime, f.accountedTo = f.WaitTime-held, now-held
	f.spend(now)
}

// place notes where a job runs from now on, and on how many GPUs.
func (f *folded) place(e *jobEvent) {
	f.placement, f.Held = e.placement, 0
	for _, n := range e.placement {
		f.Held += n.GPUs
	}
	if e.kind == Resized {
		f.Held = e.gpus.Whole()
	} else {
		f.SharesWith, f.Pool = e.sharesWith, e.pool
	}
	if f.Held <= 0 || f.Held > MaxGPUs {
		f.Held = f.GPUs.Whole()
	}
}

// spend adds the time since the last event to the job's run or wait.
func (f *folded) spend(now time.Duration) {
	d := now - f.accountedTo
	f.accountedTo = now
	if !f.Running {
		f.WaitTime += d
		return
	}
	f.RunTime += d
	if f.spells != nil {
		f.note(now)
	}
	if n := time.Duration(f.Held); d > (math.MaxInt64-f.Attained)/n {
		f.Attained = math.MaxInt64
	} else {
		f.Attained += d * n
	}
}

// note adds the time up to now to the spells of a running job.
func (f *folded) note(now time.Duration) {
	if n := len(f.spells); n > 0 && f.spells[n-1].From == f.Since {
		f.spells[n-1].To = now
		return
	}
	f.spells = append(f.spells, Spell{From: f.Since, To: now, Held: f.Held, Resumed: f.Starts-f.LostStarts > 1,
		Resized: f.Resizes > 0, SharesWith: f.SharesWith, placement: f.placement})
}

// preempt stops a running job. Progress is lost if the event or the job's request says it.
func (f *folded) preempt(now time.Duration, e *jobEvent) {
	f.Running = false
	f.Preemptions++
	f.HoldUntil = e.holdUntil
	if e.lost || f.Request().Requeue == RequeueRestarts {
		if n := len(f.spells); n > 0 {
			f.spells[n-1].Lost = f.RunTime
		}
		f.Lost, f.LostStarts, f.RunTime = f.Lost+f.RunTime, f.Starts, 0
	}
	f.placement, f.Held = nil, 0
	f.SharesWith, f.Pool = "", 0
	f.LeaseUntil = 0
	f.Since = now
}
