// Package rounds is the base of schedulers that share out the cluster in
// rounds: at every multiple of a span all active jobs are ranked, the first
// that fit a quota of all GPUs (and their tenant's, where those are strict) run,
// and running ones behind them are stopped.
//
// A job that was started keeps its GPUs for one span of progress at least
// (a restart comes on top), so that no length of round can make jobs pay
// restarts for ever. Between rounds nobody is stopped; GPUs that become free go
// to the waiting jobs in a fixed order, as they fit.
package rounds

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Ranker is what one scheduler has of its own.
type Ranker interface {
	// Begin is told of the simulation and of the service received in it before
	// any job.
	Begin(s *simulator.View, received *Service)
	// Prepare comes before the ranking of a round; active are all active jobs, in
	// order of ID.
	Prepare(active *lanes.List)
	// Rank of a job in this round: smallest first, ties by ID.
	Rank(j simulator.ID) float64
	// Line orders the waiting jobs between rounds, smallest first. It is asked
	// when the job begins to wait.
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

// New makes a policy with rounds of a length.
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
		p.waits(j)
		p.plan.WakeAt(p.grid.After(p.s.Now()))
	}
}

// Finish implements simulator.Policy.
func (p *Policy) Finish(j simulator.ID) { p.active.Remove(lanes.Entry{ID: j}) }

// Report implements simulator.Reporter.
func (p *Policy) Report(j simulator.ID) simulator.Seen { return p.service.Report(j) }

// Active are the active jobs in order of ID. The caller must not change them.
func (p *Policy) Active() *lanes.List { return &p.active }

// Queue are the waiting jobs, in lanes of Kind. Whoever starts one takes it out.
func (p *Policy) Queue() *lanes.Lanes { return &p.wait }

// Kind is the lane of a job in the queue: its width, then its class.
func Kind(s *simulator.View, j simulator.ID) int { return s.JobDemand(j)<<8 | s.JobClass(j) }

// kinds is the highest kind of jobs of a width.
func kinds(width int) int { return width<<8 | 0xff }

func (p *Policy) waits(j simulator.ID) {
	p.line[j] = p.ranker.Line(j)
	p.wait.Add(Kind(p.s, j), false, lanes.Entry{Key: p.line[j], ID: j})
}

func (p *Policy) runs(j simulator.ID) {
	p.wait.Remove(Kind(p.s, j), false, lanes.Entry{Key: p.line[j], ID: j})
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

// held reports whether a running job may not be stopped yet: it has not had
// one round of progress.
func (p *Policy) held(j simulator.ID) bool {
	until := p.s.JobSince(j) + time.Duration(p.grid)
	if p.s.JobStarts(j) > 1 {
		until += p.s.Models().Restart(p.s.JobHeld(j))
	}
	return p.s.Now() < until
}

// round ranks the jobs that are free to be moved and exchanges them. Those that
// share GPUs stay.
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
	slices.SortFunc(p.order, compare)
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
		return // nobody needs the GPUs of those that could be stopped
	}
	plan.Exchange(p.stop, p.start)
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.runs(j)
		}
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.waits(j)
		}
	}
}

func compare(a, b ranked) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) }

// backfill gives free GPUs to whoever waits and fits there.
func (p *Policy) backfill(plan *simulator.Plan) {
	if plan.Free() == 0 {
		return
	}
	p.wait.Walk()
	for plan.Free() > 0 {
		e, _, in, ok := p.wait.Next(kinds(plan.Free()))
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
