package lanes

import "github.com/autosched/autosched/simulator"

// Line is the policy of non-preemptive schedulers: waiting jobs in order of a
// key, smallest first, started as places are found. Under strict quotas each
// tenant has a line of its own.
type Line struct {
	// Key orders the jobs, smallest first; ties go by ID.
	Key func(*simulator.Sim, simulator.ID) int64
	// Backfill looks past jobs that find no place; otherwise the first such job
	// blocks those behind it.
	Backfill bool
	// ByCount chooses whom to start by counts of GPUs alone and places the widest
	// first; whoever finds no place waits on, and so does everybody else. It is the
	// way of TitanSched's shortest-first.
	ByCount bool

	s      *simulator.Sim
	queue  Lanes
	chosen []simulator.ID
}

// Reset implements simulator.Policy.
func (l *Line) Reset(s *simulator.Sim) {
	l.s = s
	l.queue.Reset()
	l.queue.Split(s)
}

// Admit implements simulator.Policy.
func (l *Line) Admit(j simulator.ID, _ simulator.Seen) {
	if !l.s.JobRunning(j) {
		l.queue.Add(l.s.JobGPUs(j), false, Entry{Key: l.Key(l.s, j), ID: j})
	}
}

// Finish implements simulator.Policy.
func (l *Line) Finish(simulator.ID) {}

// Plan implements simulator.Policy.
func (l *Line) Plan(p *simulator.Plan) {
	if l.ByCount {
		l.planByCount(p)
		return
	}
	limit := l.s.Cluster().TotalGPUs()
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

// planByCount starts the jobs that fit the number of free GPUs, widest first.
func (l *Line) planByCount(p *simulator.Plan) {
	l.chosen = l.chosen[:0]
	l.queue.Walk()
	for free := p.Free(); free > 0; {
		e, g, in, ok := l.queue.Next(free)
		if !ok {
			break
		}
		l.queue.Skip(in)
		l.chosen = append(l.chosen, e.ID)
		free -= g
	}
	p.Exchange(nil, l.chosen)
	for _, j := range l.chosen {
		if l.s.JobRunning(j) {
			l.queue.Remove(l.s.JobGPUs(j), false, Entry{Key: l.Key(l.s, j), ID: j})
		}
	}
}
