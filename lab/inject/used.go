package inject

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Use is the number of its GPUs that a job uses for the first part of its run, and none after it.
type Use struct {
	GPUs int
	For  time.Duration
}

// NewUsed makes a stream of jobs as they run under a policy until Options.To. Uses are of jobs that waste GPUs. As
// many others look like them: they pause for less than an hour, or use little for a short time, while no job waits, or
// just enough.
func NewUsed(o Options, jobs []workload.Job, uses map[string]Use, policy simulator.Policy) (*Stream, error) {
	s, err := newStream(&o)
	if err != nil {
		return nil, err
	}
	if err := s.runUnder(&o, jobs, policy); err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	s.last = map[string]*run{}
	x := s.stream("used")
	var healthy []*run
	pauses, small := 0, 0 // as many look idle, and look as if they hoard
	for _, r := range s.runs {
		s.last[r.job.ID] = r
		u, wastes := uses[r.job.ID]
		if r.before != nil {
			r.prof = r.before.prof
		} else if s.give(r, x); wastes {
			r.steady(x)
			delete(s.labels, r.job.ID)
		}
		if !wastes {
			if len(r.at) > 0 && r.before == nil && !r.stopped {
				healthy = append(healthy, r)
			}
			continue
		}
		if n := r.gpus() - u.GPUs; n > 0 {
			small++
			r.effects = append(r.effects, effect{what: partly, gpu: -1, n: n, from: r.start, to: r.end})
		}
		if from := r.start + max(0, u.For-r.ranBefore()); from < r.end {
			pauses++
			r.idle(x, from, r.end)
		}
	}
	s.maintain(&o, x)
	for _, i := range x.Perm(len(healthy)) {
		r := healthy[i]
		switch {
		case small > 0 && r.gpus() >= 2 && r.span() >= time.Hour && s.hoarding(x, r, small%2 == 0, false):
			small--
		case pauses > 0 && r.span() >= 100*time.Minute:
			from := r.start + warmUp + span(x, 0, r.span()-100*time.Minute)
			r.steady(x)
			r.idle(x, from, from+span(x, 35*time.Minute, 55*time.Minute))
			pauses--
		}
	}
	s.jobEvents()
	s.finish()
	return s, nil
}

// idle lets a run use nothing for a time.
func (r *run) idle(x *rand.Rand, from, to time.Duration) {
	e := idling(x)
	e.from, e.to = from, to
	r.effects = append(r.effects, e)
}

// ranBefore is for how long the job ran before this run.
func (r *run) ranBefore() (d time.Duration) {
	for p := r.before; p != nil; p = p.before {
		d += p.span()
	}
	return d
}

// Ran is for how long a job of NewUsed had run by an instant.
func (s *Stream) Ran(job string, at time.Duration) time.Duration {
	r := s.last[job]
	for r != nil && r.start > at {
		r = r.before
	}
	if r == nil {
		return 0
	}
	return r.ranBefore() + min(at, r.end) - r.start
}
