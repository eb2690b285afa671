package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// ErrBudget is wrapped by the error of a run that used up its event budget.
var ErrBudget = errors.New("event budget exhausted")

// Run goes on until every job has ended. An error names the stuck job.
func (s *Sim) Run(ctx context.Context) error { return s.RunUntil(ctx, never) }

// RunUntil goes on until every job has ended or everything up to and including
// an instant has happened. Time stops with the last end.
func (s *Sim) RunUntil(ctx context.Context, until time.Duration) error {
	asked := false
	for i := 0; ; i++ {
		if i&0xfff == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if s.Done() && s.planAt == never {
			break
		}
		t := min(s.heap.peek(s.jobs), s.wake, s.arrives)
		if s.changes < t && (s.active > 0 || s.arrives != never) {
			t = s.changes
		}
		if s.planAt < t {
			if s.planAt > until {
				break
			}
			s.advance(s.planAt)
			if err := s.decide(); err != nil {
				return err
			}
			continue
		}
		if t == never {
			if s.active == 0 {
				break
			}
			if asked {
				return s.stuck()
			}
			// No event is left: ask the policy once more before giving up.
			asked = true
			if p, ok := s.policy.(Stallable); ok {
				p.Stalled()
			}
			if err := s.decide(); err != nil {
				return err
			}
			continue
		}
		asked = false
		if t > until {
			break
		}
		s.advance(t)
		if err := s.processEvents(t); err != nil {
			return err
		}
		s.planAt = s.ceil(t)
	}
	if until != never && until > s.now && !s.Done() {
		s.advance(until)
	}
	return nil
}

// decide asks the policy for a plan. A plan that moved a job may be followed by
// another that moves more, so the next round is not skipped.
func (s *Sim) decide() error {
	s.planAt, s.moved = never, -1
	s.planning = true
	s.policy.Plan(&s.plan)
	s.planning = false
	for _, id := range s.moves {
		if j := &s.jobs[id]; j.next != never {
			s.heap.push(heapItem{j.next, id})
		}
		s.jobs[id].noted = false
	}
	s.moves = s.moves[:0]
	if len(s.heap) > s.sweepAt {
		s.sweep()
	}
	if s.moved < 0 || s.opts.Round <= 0 {
		return nil
	}
	s.planAt = s.ceil(s.now + 1)
	return s.count(s.moved) // so that a livelock ends
}

// processEvents processes the events of an instant: ends and quanta in order of ID,
// then arrivals, then node events, then the wake-up.
func (s *Sim) processEvents(t time.Duration) error {
	s.due = s.due[:0]
	readmit := false // as the constraint of a waiting job changed
	for len(s.heap) > 0 && s.heap[0].at == t {
		s.due = append(s.due, s.heap.pop().id)
	}
	slices.Sort(s.due)
	for _, id := range s.due {
		j := &s.jobs[id]
		if j.next != t {
			continue // stale
		}
		j.next = never
		if err := s.count(id); err != nil {
			return err
		}
		if j.phase != running { // its hold-off, its deferral or its epilog is over
			switch {
			case j.phase == done:
				s.free(id)
			case j.aside:
				s.enter(id)
			default:
				s.change(id, func(j *job) { j.where = s.constraintOf(s.spec(id)) })
				if s.holds != nil {
					s.holds.Eligible(id)
				}
				readmit = s.holds == nil
			}
			continue
		}
		if j.ends <= t {
			s.finish(id, s.opts.Epilog)
			continue
		}
		j.quantum = never
		if s.quanta != nil {
			s.quanta.Quantum(id)
		}
		s.schedule(id)
	}
	for s.arrives == t {
		if err := s.arrive(); err != nil {
			return err
		}
	}
	if s.changes == t {
		s.changeNodes()
	} else if readmit {
		s.readmit(s.policy)
	}
	if s.wake == t {
		s.wake = never
		return s.count(-1)
	}
	return nil
}

// nextArrival sets the instant of the next arrival.
func (s *Sim) nextArrival() {
	s.arrives = never
	if len(s.jobs) < s.total {
		s.arrives = s.w.Jobs()[len(s.jobs)-int(s.base)].Submit
	}
}

// arrive makes the next job active. Jobs to come have no record, so that jobs
// never simulated (beyond a horizon, in a fork) cost nothing.
func (s *Sim) arrive() error {
	id := ID(len(s.jobs))
	a := &s.w.Jobs()[id-s.base]
	s.jobs = append(s.jobs, s.newJob(id, a))
	j := &s.jobs[id]
	j.work, j.left, j.since, j.ready, j.load = a.Duration, a.Duration, a.Submit, a.Submit, s.load
	j.floor = s.least(id, 0)
	s.nextArrival()
	if err := s.count(id); err != nil {
		return err
	}
	if len(s.jobs) == s.total {
		s.metrics.lastSubmit(s)
	}
	if !s.postpone(id) {
		s.enter(id)
	}
	s.notify(workload.Submitted, id)
	return nil
}

// newJob is the record of a job that waits, but for its times.
func (s *Sim) newJob(id ID, spec *workload.Job) job {
	limit, asks := never, spec.Requested != (workload.Requested{})
	if asks {
		if l := spec.Request().TimeLimit; l > 0 {
			limit = l + s.overtime
		}
	}
	tenant := int32(-1) // tenants do not matter
	if len(s.tenantsOf) > 0 {
		tenant = s.tenantsOf[id]
	}
	return job{
		first: -1, quantum: never, next: never, limit: limit, asks: asks,
		gpus: int32(min(spec.GPUs.Whole(), workload.MaxGPUs)), members: int32(spec.Size()), relaxed: spec.Size() > 1,
		node: -1, multi: -1, partner: -1, tenant: tenant, class: -1, burden: -1, where: s.constraintOf(spec),
		firstPool: -1,
		rate:      1, share: 1,
	}
}

// count counts an event, of a job or, with -1, of the policy alone.
func (s *Sim) count(id ID) error {
	if s.events++; s.events > s.budget {
		for i := ID(0); id < 0; i++ {
			if i == s.Submitted() {
				return fmt.Errorf("%w after %d events at %v: no job is active", ErrBudget, s.budget, s.now)
			}
			if s.JobActive(i) {
				id = i
			}
		}
		j := &s.jobs[id]
		return fmt.Errorf("%w after %d events at %v: job %q has %v of %v left",
			ErrBudget, s.budget, s.now, s.JobName(id), j.left, j.work)
	}
	return nil
}

func (s *Sim) stuck() error {
	for i := range s.jobs {
		if j := &s.jobs[i]; j.phase == pending {
			return fmt.Errorf("simulate: job %q (%d GPUs, waiting since %v) can never start: "+
				"nothing runs or arrives any more and the policy does not start it%s",
				s.JobName(ID(i)), j.gpus, j.since, s.closedNodes())
		}
	}
	for i := range s.jobs {
		if s.jobs[i].phase == running {
			return fmt.Errorf("simulate: job %q runs without progress and can never end", s.JobName(ID(i)))
		}
	}
	return errors.New("simulate: active jobs are neither waiting nor running")
}

// ceil is the first decision instant at or after t.
func (s *Sim) ceil(t time.Duration) time.Duration {
	if s.opts.Round <= 0 {
		return t
	}
	return nextTick(t, s.opts.Round)
}

// nextTick is the first multiple of a length at or after t.
func nextTick(t, length time.Duration) time.Duration {
	m := t % length
	if m > 0 {
		m -= length
	}
	return t - m
}

func (s *Sim) advance(t time.Duration) {
	if t == s.now {
		return
	}
	if from := s.opts.CountFrom; from != 0 && s.now < from && from < t {
		s.advance(from)
	}
	dt := (t - s.now).Seconds()
	s.load += float64(s.active) * dt
	if s.opts.Attribute {
		s.attribute(t - s.now)
	}
	if !s.warms(t) {
		s.metrics.add(s, dt)
		if s.opts.Series != nil {
			s.opts.Series.add(s, t)
		}
	}
	s.now = t
}

// schedule puts the running job's next event into the heap.
func (s *Sim) schedule(id ID) {
	j := &s.jobs[id]
	if t := min(j.ends, j.quantum); t != j.next {
		s.setNext(id, t)
	}
}

// setNext puts a job's next event into the heap.
func (s *Sim) setNext(id ID, t time.Duration) {
	j := &s.jobs[id]
	j.next = t
	switch {
	case s.deferred:
	case !s.planning:
		s.heap.push(heapItem{t, id})
	case !j.noted:
		j.noted = true
		s.moves = append(s.moves, id)
	}
}
