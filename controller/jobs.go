package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// JobQuery chooses jobs. Fields that are zero choose all.
type JobQuery struct {
	// From and To bound the time in which they were there, waiting or running.
	From, To     time.Time
	Tenant, User string
	Node         string // of which they held GPUs in that time
}

// past is the ledger of a scheduler for a reader, with the latest instant of its events. It may lack events that came
// since a round began that is being decided.
type past struct {
	m      *schedulerState
	ledger *workload.Ledger
	zero   time.Time
	at     time.Duration
}

// readPast waits until the events of a scheduler are read.
func (s *Service) readPast(ctx context.Context, id string) (past, error) {
	m, err := s.readable(id)
	if err != nil {
		return past{}, err
	}
	if m.fault == nil {
		if err := s.await(ctx, m.ready); err != nil {
			return past{}, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return past{m, m.history.Ledger(), m.snapshot.Load().Zero, m.history.Known()}, nil
}

// bounds are the instants of a window; without bounds, all up to the latest event.
func (p *past) bounds(from, to time.Time) (begin, end time.Duration) {
	begin, end = -workload.MaxSubmit, p.at
	if !from.IsZero() {
		begin = from.Sub(p.zero)
	}
	if !to.IsZero() {
		end = min(end, to.Sub(p.zero))
	}
	return begin, end
}

// has reports whether a job that was there in a window is one that the query asks for.
func (q *JobQuery) has(h *workload.JobHistory, from time.Duration) bool {
	return (q.Tenant == "" || h.Tenant == q.Tenant) && (q.User == "" || h.User == q.User) &&
		(q.Node == "" || slices.ContainsFunc(h.Spells, func(s workload.Spell) bool {
			return s.To >= from && slices.ContainsFunc(s.Placement(), func(n workload.NodeShare) bool {
				return n.Node == q.Node
			})
		}))
}

// Jobs returns up to n jobs before a place in the order of submission, the latest first, with the zero of their times.
func (s *Service) Jobs(ctx context.Context, id string, q JobQuery, before workload.Place, n int) (
	out []workload.JobHistory, zero time.Time, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil || p.zero.IsZero() {
		return nil, p.zero, err
	}
	from, to := p.bounds(q.From, q.To)
	for more := n > 0; more; {
		if err := ctx.Err(); err != nil {
			return nil, p.zero, err
		}
		before, more = p.ledger.Jobs(from, to, before, func(h *workload.JobHistory) bool {
			if q.has(h, from) {
				out = append(out, h.Clone())
			}
			return len(out) < n
		})
		more = more && len(out) < n
	}
	return out, p.zero, nil
}

// Prediction predicts run times as the latest futures of a scheduler do.
type Prediction struct {
	At time.Time // up to which ended jobs are known
	of *generation.Predictor
	s  round.Snapshot
}

// Prediction returns the one of a scheduler, nil before its first futures since the start.
func (s *Service) Prediction(ctx context.Context, id string) (*Prediction, error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return nil, err
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	v := p.m.snapshot.Load()
	if p.m.predictor == nil || p.m.predictedSet != v.ClockSet {
		return nil, nil
	}
	return &Prediction{p.zero.Add(p.m.predictor.At), p.m.predictor, round.Snapshot{Simulator: v.Simulation.options()}},
		nil
}

// RunTime predicts the run time of a job that waits or runs.
func (p *Prediction) RunTime(h *workload.JobHistory) generation.RunTime {
	return p.of.RunTime(&h.Job, p.s.Ran(&h.ActiveJob))
}

// Job returns a job as of the latest event, with the zero of its times.
func (s *Service) Job(ctx context.Context, id, job string) (h workload.JobHistory, zero time.Time, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return h, p.zero, err
	}
	h, known := p.ledger.Job(job, p.at)
	if !known {
		err = fmt.Errorf("job %q of scheduler %q: %w among those of the last 30 days of events", job, id,
			rollout.ErrNotFound)
	}
	return h, p.zero, err
}
