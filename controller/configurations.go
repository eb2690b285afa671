package controller

import (
	"context"
	"fmt"

	"github.com/autosched/autosched/controller/watch"
	"github.com/autosched/autosched/rollout"
)

// Current returns the configuration a scheduler should run.
func (s *Service) Current(id string) (*rollout.Configuration, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, err
	}
	v := m.snapshot.Load()
	if !v.Deleted.IsZero() {
		return nil, deleted(id)
	}
	if c := v.config(v.OfferedRevision); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("scheduler %q: %w", id, rollout.ErrNoCurrent)
}

// Configuration returns one revision.
func (s *Service) Configuration(id string, revision int64) (*rollout.Configuration, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if c := m.snapshot.Load().config(revision); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("revision %d of scheduler %q: %w", revision, id, rollout.ErrNotFound)
}

// WayBack returns the revision with which the judge went back from one, nil if it did not.
func (s *Service) WayBack(c *rollout.Configuration) *rollout.Configuration {
	m, err := s.find(c.Scheduler)
	if err != nil {
		return nil
	}
	for _, later := range m.snapshot.Load().configs[c.Revision:] {
		if later.Incident != nil && later.Incident.Revision == c.Revision {
			return later
		}
	}
	return nil
}

// Configurations returns the revisions below one (all if it is 0), newest
// first, at most limit of them.
func (s *Service) Configurations(id string, below int64, limit int) ([]*rollout.Configuration, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, err
	}
	v := m.snapshot.Load()
	from := int64(len(v.configs))
	if below > 0 {
		from = min(from, below-1)
	}
	var out []*rollout.Configuration
	for r := from; r >= 1 && len(out) < limit; r-- {
		out = append(out, v.config(r))
	}
	return out, nil
}

// Acknowledge records the outcome of a revision at its scheduler. It returns the
// revision and what the scheduler should run now (0 if it refused all).
func (s *Service) Acknowledge(ctx context.Context, id string, revision int64,
	ack rollout.Ack) (*rollout.Configuration, int64, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, 0, err
	}
	changed, err := s.step(ctx, m, rollout.Acknowledge{Revision: revision, Ack: ack})
	if err != nil {
		return nil, 0, err
	}
	if changed {
		s.o.Log.InfoContext(ctx, "configuration acknowledged", "scheduler", id, "revision", revision, "ack", ack.State,
			"instance", ack.Instance, "error", ack.Error)
	}
	v := m.snapshot.Load()
	return v.config(revision), v.OfferedRevision, nil
}

// Approve offers a proposed revision to its scheduler.
func (s *Service) Approve(ctx context.Context, id string, revision int64) (*rollout.Configuration, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, err
	}
	changed, err := s.step(ctx, m, rollout.Approve{Revision: revision, At: m.eventTime()})
	if err != nil {
		return nil, err
	}
	if changed {
		s.o.Log.InfoContext(ctx, "configuration approved", "scheduler", id, "revision", revision)
	}
	return m.snapshot.Load().config(revision), nil
}

// Rollback offers the values of an earlier revision again and returns what is
// offered.
func (s *Service) Rollback(ctx context.Context, id string, r rollout.Rollback) (*rollout.Configuration, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, err
	}
	r.At = m.eventTime()
	var last int64
	var c *Change
	err = s.commit(ctx, m, func(v *snapshot) (_ *Change, err error) {
		last = v.LastRevision
		c, err = v.step(r, s.now())
		return c, err
	})
	v := m.snapshot.Load()
	switch {
	case err != nil:
		return nil, err
	case c == nil:
	case c.Scheduler.LastRevision > last:
		published := v.config(c.Scheduler.LastRevision)
		s.o.Log.InfoContext(ctx, "configuration rolled back", "scheduler", id, "from", published.Left, "revision",
			published.Revision, "park", r.Park)
	default:
		s.o.Log.InfoContext(ctx, "configuration parked", "scheduler", id, "revision",
			v.config(c.Scheduler.OfferedRevision).Left)
	}
	return v.config(v.OfferedRevision), nil
}

// Watcher learns of changes of the configuration a scheduler should run.
type Watcher struct {
	*watch.Subscription
	m *managed
}

// Watch returns a watcher, to be closed by the caller.
func (s *Service) Watch(id string) (*Watcher, error) {
	m, err := s.find(id)
	if err != nil {
		return nil, err
	}
	w := &Watcher{m.watchers.Subscribe(), m}
	if err := w.Err(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Err is an ErrDeleted once the scheduler is deleted.
func (w *Watcher) Err() error {
	if !w.m.snapshot.Load().Deleted.IsZero() {
		return deleted(w.m.id)
	}
	return nil
}

// Current returns what the scheduler should run, nil if it refused everything.
func (w *Watcher) Current() *rollout.Configuration {
	v := w.m.snapshot.Load()
	return v.config(v.OfferedRevision)
}
