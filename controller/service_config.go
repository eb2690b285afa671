package controller

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Current returns the configuration a scheduler should run.
func (s *Service) Current(id string) (*Configuration, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	v := t.view.Load()
	if c := v.config(v.Served); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("scheduler %q: %w", id, ErrNoCurrent)
}

// Configuration returns one revision.
func (s *Service) Configuration(id string, revision int64) (*Configuration, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if c := t.view.Load().config(revision); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("revision %d of scheduler %q: %w", revision, id, ErrNotFound)
}

// Configurations returns the revisions below one (all if it is 0), newest
// first, at most limit of them.
func (s *Service) Configurations(id string, below int64, limit int) ([]*Configuration, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	v := t.view.Load()
	from := int64(len(v.configs))
	if below > 0 {
		from = min(from, below-1)
	}
	var out []*Configuration
	for r := from; r >= 1 && len(out) < limit; r-- {
		out = append(out, v.config(r))
	}
	return out, nil
}

// Acknowledge records what a scheduler did with a revision, and returns the
// revision and what the scheduler should run now (0 if it refused all).
//
// Applied puts the revision in force, unless a later one is. Rejected parks its
// values: what is offered falls back to the last revision acknowledged. If
// another instance had applied the refused revision, the values before it are
// published again under a new revision, so that revisions only go forward.
// Failed changes nothing but the record.
func (s *Service) Acknowledge(ctx context.Context, id string, revision int64, ack Ack) (*Configuration, int64, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, 0, err
	}
	err = s.update(ctx, t, func(v *view) (*Change, error) {
		cfg := v.config(revision)
		switch {
		case cfg == nil:
			return nil, fmt.Errorf("revision %d of scheduler %q: %w", revision, id, ErrNotFound)
		case cfg.State == Rejected && ack.State != AckRejected:
			return nil, fmt.Errorf("revision %d of scheduler %q: %w", revision, id, ErrRefused)
		case cfg.Ack != nil && cfg.Ack.same(ack):
			return nil, nil // the same word again
		}
		return s.acknowledge(v, cfg, ack), nil
	})
	if err != nil {
		return nil, 0, err
	}
	v := t.view.Load()
	return v.config(revision), v.Served, nil
}

// confirm takes the last of new events that tell which revision is in force for
// an acknowledgement, if the scheduler has not acknowledged it, or a later one.
func (s *Service) confirm(ctx context.Context, t *tuned, events []workload.Event) {
	var last *workload.Event
	for i := range events {
		if e := &events[i]; e.Kind == workload.ConfigApplied && (last == nil || e.Time >= last.Time) {
			last = e
		}
	}
	if last == nil {
		return
	}
	revision, err := strconv.ParseInt(last.Revision, 10, 64)
	if err == nil {
		err = s.update(ctx, t, func(v *view) (*Change, error) {
			cfg := v.config(revision)
			switch {
			case cfg == nil:
				return nil, fmt.Errorf("revision %d: %w", revision, ErrNotFound)
			case cfg.State == Rejected:
				return nil, fmt.Errorf("revision %d: %w", revision, ErrRefused)
			case revision <= v.Acknowledged:
				return nil, nil
			}
			return s.acknowledge(v, cfg, Ack{State: AckApplied, Applied: v.Zero.Add(last.Time)}), nil
		})
	}
	if err != nil { // the event itself is taken in
		s.o.Log.Warn("event of an applied configuration confirms nothing", "scheduler", t.id, "event", last.ID, "err", err)
	}
}

func (s *Service) acknowledge(v *view, cfg *Configuration, ack Ack) *Change {
	now := s.o.Now().UTC()
	ack.Received = now
	c := &Change{Scheduler: v.Scheduler, Ack: &ack, AckRevision: cfg.Revision}
	next := c.replace(cfg, cfg.State, now)
	next.Ack = &ack
	switch ack.State {
	case AckApplied, AckPartial:
		if cfg.Revision < v.Acknowledged {
			break // late word of a revision that is history
		}
		next.State = RolledOut
		c.Scheduler.Acknowledged = cfg.Revision
		c.Scheduler.Served = max(v.Served, cfg.Revision)
		for _, old := range v.configs[:cfg.Revision-1] {
			if old.State == RolledOut || old.State == Published || old.State == Proposed {
				c.replace(old, Superseded, now)
			}
		}
	case AckRejected:
		next.State = Rejected
		s.fallBack(c, v, cfg)
	}
	s.o.Log.Info("configuration acknowledged", "scheduler", v.ID, "revision", cfg.Revision, "ack", ack.State, "instance", ack.Instance, "error", ack.Error)
	return c
}

// fallBack finds what a scheduler should run after it refused a revision.
func (s *Service) fallBack(c *Change, v *view, refused *Configuration) {
	applied := v.Acknowledged == refused.Revision
	if applied {
		c.Scheduler.Acknowledged = 0
		if last := v.lastGood(refused); last != nil && last.Ack != nil {
			c.Scheduler.Acknowledged = last.Revision
		}
	}
	if v.Served != refused.Revision {
		return
	}
	good := v.lastGood(refused)
	c.Scheduler.Served = 0
	switch {
	case good == nil:
	case applied:
		reason := fmt.Sprintf("revision %d was refused by one instance after another had applied it; these are the values of revision %d", refused.Revision, good.Revision)
		s.publish(c, v, good.Config, FromRestore, reason, nil)
	default:
		c.Scheduler.Served = good.Revision
		if good.State == Superseded {
			c.replace(good, Published, s.o.Now().UTC())
		}
	}
}

// lastGood is the newest revision that its scheduler applied, or else the
// defaults it was registered with; never refused values.
func (v *view) lastGood(refused *Configuration) *Configuration {
	fits := func(c *Configuration) bool { return c.State != Rejected && c.Hash != refused.Hash && !v.parked(c.Hash) }
	for r := int64(len(v.configs)); r >= 1; r-- {
		c := v.config(r)
		if c.Ack != nil && (c.Ack.State == AckApplied || c.Ack.State == AckPartial) && fits(c) {
			return c
		}
	}
	if first := v.config(1); fits(first) {
		return first
	}
	return nil
}

// same reports whether both say the same; when it was received does not count.
func (a *Ack) same(o Ack) bool {
	return a.State == o.State && a.Error == o.Error && a.Instance == o.Instance && a.Applied.Equal(o.Applied) &&
		maps.EqualFunc(a.Effective, o.Effective, space.Value.Equal)
}

// Watcher learns of changes of what a scheduler should run. It holds no queue:
// however many changes it misses, it is told once, and asks for the newest.
type Watcher struct {
	// C has an element when something changed since it was last received from.
	C chan struct{}
	t *tuned
}

// Watch returns a watcher, to be closed by the caller.
func (s *Service) Watch(id string) (*Watcher, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	w := &Watcher{C: make(chan struct{}, 1), t: t}
	t.watchMu.Lock()
	defer t.watchMu.Unlock()
	t.watchers[w] = struct{}{}
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.t.watchMu.Lock()
	defer w.t.watchMu.Unlock()
	delete(w.t.watchers, w)
}

// Current returns what the scheduler should run, nil if it refused everything.
func (w *Watcher) Current() *Configuration {
	v := w.t.view.Load()
	return v.config(v.Served)
}

func (t *tuned) notify() {
	t.watchMu.Lock()
	defer t.watchMu.Unlock()
	for w := range t.watchers {
		select {
		case w.C <- struct{}{}:
		default:
		}
	}
}
