package simulator

import (
	"math"
	"time"
)

// settle counts a running job's progress and service up to now. It is done only
// where the rate changes and at the end of a spell, so that reading a job never
// changes how its progress is rounded.
func (s *Sim) settle(id ID) {
	j := &s.jobs[id]
	s.meter(id, j)
	s.progress(j)
}

// progress is settle without the meter.
func (s *Sim) progress(j *job) {
	j.attained = s.attainedNow(j)
	j.left = s.leftNow(j)
	j.restart += s.idleNow(j)
	j.mark = s.now
}

// idleNow is how long a running job has made no progress since mark, because it
// restarts.
func (v *View) idleNow(j *job) time.Duration {
	return max(0, min(v.now, j.ready)-j.mark)
}

func (v *View) attainedNow(j *job) time.Duration {
	return j.attained + v.servedNow(j)*time.Duration(j.held)
}

func (v *View) leftNow(j *job) time.Duration {
	least := v.leastLeft()
	if v.now >= j.ends {
		if least = 0; j.cut == uncut {
			return 0
		}
	}
	progress := v.now - j.mark - v.idleNow(j)
	if j.rate != 1 {
		progress = time.Duration(math.Round(float64(progress) * j.rate))
	}
	return max(least, j.left-progress)
}

// scheduleEnd sets the end of a job that now runs, from its work left and its speed.
func (s *Sim) scheduleEnd(id ID) {
	j := &s.jobs[id]
	span, from := j.left, max(j.mark, j.ready)
	if j.rate != 1 {
		// A job with next to no progress has no end.
		span = never - max(from, 0)
		if spell := math.Ceil(float64(j.left) / j.rate); spell < float64(span) {
			span = time.Duration(spell)
		}
	}
	j.ends = s.endFor(from + span)
	j.cut = uncut
	if j.limit <= j.ends && j.limit != never {
		j.cut, j.ends = atLimit, j.limit
	}
	s.schedule(id)
}

// least is a lower bound on the time that a waiting job, or one observed on a number
// of GPUs, still takes: without waiting and restarts, alone, consolidated, and on the
// most GPUs that the policy gives it.
func (s *Sim) least(id ID, held int) time.Duration {
	j := &s.jobs[id]
	limit := j.limit // a span, as the job waits
	most := max(held, int(j.gpus))
	if e, ok := s.policy.(Elastic); ok {
		most = max(most, min(e.MaxScale()*int(j.gpus), s.place.capacity(s.where(j), int(j.members), false)))
	}
	if most == int(j.gpus) {
		return min(j.left, limit)
	}
	return min(time.Duration(float64(j.left)/s.opts.Models.speedup(s.JobClass(id), int(j.gpus), most)), limit)
}

// updateRate sets a job's rate of progress from its place, its GPUs and its partner.
func (s *Sim) updateRate(id ID) {
	j := &s.jobs[id]
	j.rate = j.share
	if j.spread && !s.evenly {
		if d := s.opts.Models.Classes[s.JobClass(id)].Slowdown; d > 1 {
			j.rate /= d
		}
	}
	if j.held != j.gpus {
		j.rate *= s.opts.Models.speedup(s.JobClass(id), int(j.gpus), int(j.held))
	}
}
