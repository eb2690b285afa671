// Package rounds is the base of round-based schedulers. At every multiple of the
// round length all active jobs are ranked; in order of rank, jobs that fit a quota
// of all GPUs (and of their tenant's GPUs, where quotas are strict) run, and
// running jobs that do not fit are preempted.
//
// A started job keeps its GPUs for at least one round of progress (a restart
// comes on top), so that short rounds do not make jobs restart forever. Between
// rounds no job is preempted; freed GPUs go to waiting jobs in a fixed order, as
// they fit.
package rounds

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Ranker is the part of a round-based scheduler that differs from others.
type Ranker interface {
	// Begin starts a run. It precedes all other calls.
	Begin(s *simulator.View, received *Service)
	// Prepare precedes the ranking of a round; active holds all active jobs in
	// order of ID.
	Prepare(active *lanes.List)
	// Rank returns a job's rank in this round: smallest first, ties by ID.
	Rank(j simulator.ID) float64
	// Line returns the key by which waiting jobs are ordered between rounds, smallest
	// first. It is called when the job begins to wait.
	Line(j simulator.ID) int64
}

// Policy implements simulator.Policy by a Ranker.
type Policy struct {
	length time.Duration
	ranker Ranker

	s           *simulator.View
	plan        *simulator.Plan
	grid        Grid
	service     Service
	active      lanes.List // by ID
	wait        lanes.Lanes
	line        []int64 // by job: its key in wait
	order       []ranked
	stop, start []simulator.ID
}

type ranked struct {
	key float64
	id  simulator.ID
}

// New makes a policy with rounds of the given length.
func New(length time.Duration, r Ranker) *Policy { return &Policy{length: length, ranker: r} }

// Reset implements simulator.Policy.
func (p *Policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan, p.grid = s, plan, NewGrid(s, p.length)
	p.active.Reset()
	p.wait.Reset()
	p.wait.Split(s)
	p.line = p.line[:0]
	p.service.Reset(s)
	p.ranker.Begin(s, &p.service)
}

// Admit implements simulator.Policy.
func (p *Policy) Admit(j simulator.ID, seen simulator.Seen) {
	p.service.Admit(j, seen)
	p.line = lanes.Grow(p.line, j)
	p.active.Insert(lanes.Entry{ID: j})
	if !p.s.JobRunning(j) {
		p.enqueue(j)
		p.plan.WakeAt(p.grid.After(p.s.Now()))
	}
}

// Finish implements simulator.Policy.
func (p *Policy) Finish(j simulator.ID) { p.active.Remove(lanes.Entry{ID: j}) }

// Report implements simulator.Reporter.
func (p *Policy) Report(j simulator.ID) simulator.Seen { return p.service.Report(j) }

// Active returns the active jobs in order of ID. The caller must not change them.
func (p *Policy) Active() *lanes.List { return &p.active }

// Queue returns the waiting jobs, in lanes by Kind. The caller removes the jobs it
// starts.
func (p *Policy) Queue() *lanes.Lanes { return &p.wait }

// Kind is the lane of a job in the queue: its width, then its model class.
func Kind(s *simulator.View, j simulator.ID) int { return s.JobDemand(j)<<8 | s.JobClass(j) }

func (p *Policy) enqueue(j simulator.ID) {
	p.line[j] = p.ranker.Line(j)
	p.wait.Add(Kind(p.s, j), false, lanes.Entry{Key: p.line[j], ID: j})
}

// Plan implements simulator.Policy.
func (p *Policy) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	due := p.grid.On(p.s.Now())
	if due {
		p.round(plan)
	}
	if plan.AllowsBackfill() {
		p.backfill(plan)
	}
	if p.s.Waiting() > 0 && (!due || p.s.Waiting() < p.s.Active()) {
		plan.WakeAt(p.grid.After(p.s.Now()))
	}
}

// held reports whether a running job may not be preempted yet: it has not made
// one round of progress.
func (p *Policy) held(j simulator.ID) bool {
	until := p.s.JobSince(j) + time.Duration(p.grid)
	if p.s.JobStarts(j) > 1 {
		until += p.s.JobRestart(j, p.s.JobHeld(j))
	}
	return p.s.Now() < until
}

// round ranks the jobs that may move and exchanges them. Jobs that share GPUs
// stay.
func (p *Policy) round(plan *simulator.Plan) {
	p.ranker.Prepare(&p.active)
	p.order, p.stop, p.start = p.order[:0], p.stop[:0], p.start[:0]
	room := p.s.Room()
	for i := range p.active.Len() {
		j := p.active.At(i).ID
		if p.s.JobRunning(j) && (p.s.JobPartner(j) >= 0 || p.held(j)) {
			room.Keep(j, p.s.JobHeld(j))
			continue
		}
		p.order = append(p.order, ranked{p.ranker.Rank(j), j})
	}
	slices.SortFunc(p.order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	})
	for _, o := range p.order {
		switch runs := p.s.JobRunning(o.id); {
		case room.Take(o.id):
			if !runs {
				p.start = append(p.start, o.id)
			}
		case runs:
			p.stop = append(p.stop, o.id)
		}
	}
	if len(p.start) == 0 {
		return // no waiting job needs the GPUs
	}
	plan.Exchange(p.stop, p.start)
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.wait.Remove(Kind(p.s, j), false, lanes.Entry{Key: p.line[j], ID: j})
		}
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.enqueue(j)
		}
	}
}

// backfill starts waiting jobs that fit the free GPUs.
func (p *Policy) backfill(plan *simulator.Plan) {
	if plan.Free() == 0 {
		return
	}
	p.wait.Walk()
	for plan.Free() > 0 {
		e, _, in, ok := p.wait.Next(plan.Free()<<8 | 0xff) // all classes
		if !ok {
			return
		}
		if plan.Start(e.ID) {
			p.wait.Take(in)
		} else {
			p.wait.Close(in)
		}
	}
}
