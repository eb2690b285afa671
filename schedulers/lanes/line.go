package lanes

import "github.com/autosched/autosched/simulator"

// Line is a non-preemptive policy with one priority queue: waiting jobs start in
// order of a key, smallest first, as they find places. Under strict quotas each
// tenant has a queue of its own.
type Line struct {
	// Key orders the jobs, smallest first; ties are ordered by ID.
	Key func(*simulator.View, simulator.ID) int64
	// Backfill lets jobs start before one that finds no place; otherwise that job
	// blocks those behind it.
	Backfill bool

	s     *simulator.View
	queue Lanes
}

// Reset implements simulator.Policy.
func (l *Line) Reset(s *simulator.View, _ *simulator.Plan) {
	l.s = s
	l.queue.Reset()
	l.queue.Split(s)
}

// Admit implements simulator.Policy.
func (l *Line) Admit(j simulator.ID, _ simulator.Seen) {
	if !l.s.JobRunning(j) {
		l.queue.Add(l.s.JobDemand(j), false, Entry{Key: l.Key(l.s, j), ID: j})
	}
}

// Finish implements simulator.Policy.
func (l *Line) Finish(simulator.ID) {}

// Plan implements simulator.Policy.
func (l *Line) Plan(p *simulator.Plan) {
	limit := l.s.TotalGPUs()
	l.queue.Walk()
	for p.Free() > 0 {
		if l.Backfill {
			limit = p.Free()
		}
		e, _, in, ok := l.queue.Next(limit)
		if !ok {
			return
		}
		switch {
		case p.Start(e.ID):
			l.queue.Take(in)
		case l.Backfill:
			l.queue.Close(in)
		default:
			l.queue.CloseTenant(in)
		}
	}
}
