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
	"math"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Ranker is what one scheduler has of its own.
type Ranker interface {
	// Begin is told of the simulation and of the service received in it before
	// any job.
	Begin(s *simulator.Sim, received *Service)
	// Prepare comes before the ranking of a round; active are all active jobs, in
	// order of ID, and changed says that they are others than in the last round. It
	// reports whether the jobs that wait since then keep their ranks.
	Prepare(active *lanes.List, changed bool) (keep bool)
	// Rank sets the keys of jobs that all wait or all run, smallest first.
	Rank(jobs []Ranked, running bool)
	// Line orders the waiting jobs between rounds, smallest first. It is asked
	// when the job begins to wait, before it is ranked.
	Line(j simulator.ID) int64
}

// Starter is a Ranker that is told of each job that begins to run.
type Starter interface {
	Started(j simulator.ID)
}

// Policy implements simulator.Policy by a Ranker.
type Policy struct {
	length  time.Duration
	ranker  Ranker
	starter Starter // the ranker, if it is one

	s       *simulator.Sim
	grid    Grid
	service Service
	active  lanes.List // by ID
	changed bool       // since the last round
	changes int        // of who waits and who runs
	queue   Queue
	// until is by job: the instant before which it may not be stopped, as it has not
	// had one round of progress, or one of the following.
	until []time.Duration
	least int // width of a waiting job when the round began

	// The lists begin with those that the last round has put in order, and may
	// have some that are elsewhere by now.
	wait, run     []Ranked
	waited, moved int // how many those are
	stale         bool
	free, kept    []Ranked // running jobs of a round that may be moved, and that may not
	scratch       []Ranked
	stop, start   []simulator.ID
}

const (
	waits = time.Duration(math.MaxInt64)
	gone  = time.Duration(math.MaxInt64 - 1)
)

// New makes a policy with rounds of a length.
func New(length time.Duration, r Ranker) *Policy {
	starter, _ := r.(Starter)
	return &Policy{length: length, ranker: r, starter: starter}
}

// Reset implements simulator.Policy.
func (p *Policy) Reset(s *simulator.Sim) {
	p.s, p.grid = s, NewGrid(s, p.length)
	p.active.Reset()
	p.queue.reset(s)
	p.changed = true
	p.until, p.wait, p.run = p.until[:0], p.wait[:0], p.run[:0]
	p.waited, p.moved, p.stale = 0, 0, false
	p.service.Reset(s)
	p.ranker.Begin(s, &p.service)
}

// Admit implements simulator.Policy.
func (p *Policy) Admit(j simulator.ID, seen simulator.Seen) {
	p.service.Admit(j, seen)
	for int(j) >= len(p.until) {
		p.until = append(p.until, gone)
	}
	p.active.Insert(lanes.Entry{ID: j})
	p.changed = true
	if p.s.JobRunning(j) {
		p.runs(j)
		return
	}
	p.waits(j)
	p.s.WakeAt(p.grid.After(p.s.Now()))
}

// Finish implements simulator.Policy.
func (p *Policy) Finish(j simulator.ID) {
	p.active.Remove(lanes.Entry{ID: j})
	p.changed = true
	p.changes++
	p.until[j] = gone
}

// Report implements simulator.Reporter.
func (p *Policy) Report(j simulator.ID) simulator.Seen { return p.service.Report(j) }

// Changes is how often a job has begun to wait or to run, or ended.
func (p *Policy) Changes() int { return p.changes }

// Queue are the waiting jobs. Whoever starts one tells so by Took.
func (p *Policy) Queue() *Queue { return &p.queue }

// Took tells that the job which the queue's Next returned runs now.
func (p *Policy) Took(j simulator.ID, in int) {
	p.queue.took(in)
	p.runs(j)
	p.stale = true
}

func (p *Policy) ranked(j simulator.ID) Ranked {
	return Ranked{ID: j, Width: int32(p.s.JobGPUs(j))}
}

// waits puts a job among the waiting ones.
func (p *Policy) waits(j simulator.ID) {
	p.until[j] = waits
	p.changes++
	p.queue.add(j, p.ranker.Line(j))
	p.wait = append(p.wait, p.ranked(j))
}

// runs puts a job among the running ones.
func (p *Policy) runs(j simulator.ID) {
	p.starts(j)
	p.run = append(p.run, p.ranked(j))
}

// starts notes until when a running job may not be stopped.
func (p *Policy) starts(j simulator.ID) {
	until := p.s.JobSince(j) + time.Duration(p.grid)
	if p.s.JobStarts(j) > 1 {
		until += p.s.Models().Restart(p.s.JobHeld(j))
	}
	p.until[j] = until
	p.changes++
	if p.starter != nil {
		p.starter.Started(j)
	}
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
	if plan.Backfills() {
		p.backfill(plan)
	}
	if p.s.Waiting() > 0 && (!due || p.s.Waiting() < p.s.Active()) {
		p.s.WakeAt(p.grid.After(p.s.Now()))
	}
}

// round ranks the jobs that are free to be moved and exchanges them. Those that
// share GPUs stay.
func (p *Policy) round(plan *simulator.Plan) {
	p.start, p.stop, p.least = p.start[:0], p.stop[:0], p.queue.narrowest()
	left, old := p.part()
	if left < p.least {
		p.stay(old) // too few may be stopped for anybody to start
		return
	}
	keep := p.ranker.Prepare(&p.active, p.changed)
	p.changed = false
	p.rankWaiting(keep)
	p.rankRunning(old)
	passed := p.choose(left)
	if len(p.start) > 0 && plan.Exchange(p.stop, p.start) {
		p.took(passed, plan.Stopped())
	} else {
		p.stay(len(p.free)) // nobody needs the GPUs, or can have them
	}
}

// stay lets all who run go on; so many are in order.
func (p *Policy) stay(ordered int) {
	p.run = append(append(p.run[:0], p.free...), p.kept...)
	p.moved = ordered
}

// rankWaiting puts the waiting jobs in order.
func (p *Policy) rankWaiting(keep bool) {
	if p.stale {
		p.waited, p.wait = p.drop(p.waited)
		p.stale = false
	}
	if keep {
		p.ranker.Rank(p.wait[p.waited:], false)
	} else {
		p.ranker.Rank(p.wait, false)
	}
	if !keep {
		repair(p.wait[:p.waited])
	}
	repair(p.wait[p.waited:])
	p.scratch = merge(p.wait, p.waited, p.scratch)
	p.waited = len(p.wait)
}

// drop leaves out of the list of the waiting who waits no more, and returns how
// many are left of its first n.
func (p *Policy) drop(n int) (int, []Ranked) {
	to, first := 0, 0
	for i, x := range p.wait {
		if p.until[x.ID] != waits {
			continue
		}
		if i < n {
			first++
		}
		p.wait[to] = x
		to++
	}
	return first, p.wait[:to]
}

// part finds the running jobs that may be stopped. It returns the number of GPUs
// that would be left if all of them were, and how many of them are in order from
// the last round.
func (p *Policy) part() (left, old int) {
	now := p.s.Now()
	left = p.s.Free()
	p.free, p.kept = p.free[:0], p.kept[:0]
	for i, x := range p.run {
		switch until := p.until[x.ID]; {
		case until == gone:
		case until > now || p.s.JobPartner(x.ID) >= 0:
			p.kept = append(p.kept, x)
		default:
			p.free = append(p.free, x)
			left += p.s.JobHeld(x.ID)
			if i < p.moved {
				old++
			}
		}
	}
	return left, old
}

// rankRunning puts the running jobs that may be stopped in order.
func (p *Policy) rankRunning(old int) {
	p.ranker.Rank(p.free, true)
	repair(p.free[:old])
	repair(p.free[old:])
	p.scratch = merge(p.free, old, p.scratch)
}

// choose lets the jobs in order take what they ask for of the GPUs left, and
// lists who starts and who stops for them. It returns how many of the waiting
// ones it has looked at.
func (p *Policy) choose(left int) int {
	var room *simulator.Room // of the tenants
	if p.s.Quota() == simulator.QuotaStrict {
		room = p.s.Room()
		for _, x := range p.kept {
			room.Keep(x.ID, p.s.JobHeld(x.ID))
		}
	}
	w := 0
	for _, x := range p.free {
		for ; left >= p.least && w < len(p.wait) && p.wait[w].before(x); w++ {
			left -= p.take(p.wait[w], left, room)
		}
		if int(x.Width) > left || room != nil && !room.Take(x.ID) {
			p.stop = append(p.stop, x.ID)
		} else {
			left -= int(x.Width)
		}
	}
	for ; left >= p.least && w < len(p.wait); w++ {
		left -= p.take(p.wait[w], left, room)
	}
	return w
}

// take lets a waiting job have its GPUs if it may, and returns their number.
func (p *Policy) take(x Ranked, left int, room *simulator.Room) int {
	if int(x.Width) > left || room != nil && !room.Take(x.ID) {
		return 0
	}
	p.start = append(p.start, x.ID)
	return int(x.Width)
}

// took moves jobs between the lists after an exchange, whose start list was
// among the first so many of the waiting.
func (p *Policy) took(passed int, stopped []simulator.ID) {
	for _, j := range stopped {
		p.until[j] = waits
	}
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.until[j] = gone
		}
	}
	to := 0
	for _, x := range p.wait[:passed] {
		if p.until[x.ID] == waits {
			p.wait[to] = x
			to++
		} else {
			p.kept = append(p.kept, x)
			p.queue.remove(x.ID)
			p.starts(x.ID)
		}
	}
	p.wait = append(p.wait[:to], p.wait[passed:]...)
	p.waited = len(p.wait)
	p.run = p.run[:0]
	for _, x := range p.free {
		if p.until[x.ID] == waits {
			p.waits(x.ID)
		} else {
			p.run = append(p.run, x)
		}
	}
	p.moved = len(p.run)
	p.run = append(p.run, p.kept...)
}

// backfill gives free GPUs to whoever waits and fits there.
func (p *Policy) backfill(plan *simulator.Plan) {
	if plan.Free() < p.queue.narrowest() {
		return
	}
	p.queue.Walk(plan.Free())
	for plan.Free() > 0 {
		j, in, ok := p.queue.Next(plan.Free())
		if !ok {
			return
		}
		if plan.Start(j) {
			p.Took(j, in)
		} else {
			p.queue.Close(in)
		}
	}
}
