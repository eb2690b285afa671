package controller

import (
	"context"
	"fmt"
	"time"
)

// What an operator does with a registered scheduler besides looking at it.

// Modify changes what may change of a scheduler after its registration: its
// display name, mode, objective, policy, and whether its tuning is paused. f
// changes a copy of the present scheduler; the rest of what it changes is
// ignored, and if it returns an error nothing changes. With validateOnly nothing
// is stored and what would be is returned.
//
// A round under way that decided for another objective, or while tuning was not
// paused yet, is dropped.
func (s *Service) Modify(ctx context.Context, id string, validateOnly bool, f func(*Scheduler) error) (Scheduler, error) {
	t, err := s.find(id)
	if err != nil {
		return Scheduler{}, err
	}
	var planned Scheduler
	err = s.update(ctx, t, func(v *view) (*Change, error) {
		asked := v.Scheduler
		if err := f(&asked); err != nil {
			return nil, err
		}
		next := v.Scheduler
		next.DisplayName, next.Mode, next.Objective, next.Policy, next.Paused = asked.DisplayName, asked.Mode, asked.Objective, asked.Policy, asked.Paused
		if next.Policy.UpdateInterval != v.Policy.UpdateInterval {
			// The last of the new rounds that is no later than the last one decided.
			next.Round = dueRound(time.Duration(v.Round)*v.Policy.UpdateInterval+1, next.Policy.UpdateInterval)
		}
		planned = next
		same := next.DisplayName == v.DisplayName && next.Mode == v.Mode && next.Objective == v.Objective && next.Policy == v.Policy && next.Paused == v.Paused
		if validateOnly || same {
			return nil, nil
		}
		return &Change{Scheduler: next}, nil
	})
	if err != nil || validateOnly {
		return planned, err
	}
	s.o.Log.Info("scheduler modified", "scheduler", id, "mode", planned.Mode, "objective", planned.Objective, "paused", planned.Paused, "interval", planned.Policy.UpdateInterval)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.startRound(t)
	return t.view.Load().Scheduler, nil
}

// Approve offers a proposed revision to its scheduler. To approve what is on
// offer or in force already changes nothing.
func (s *Service) Approve(ctx context.Context, id string, revision int64) (*Configuration, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, t, func(v *view) (*Change, error) {
		cfg := v.config(revision)
		switch {
		case cfg == nil:
			return nil, fmt.Errorf("revision %d of scheduler %q: %w", revision, id, ErrNotFound)
		case v.Served == revision:
			return nil, nil
		case cfg.State != Proposed:
			return nil, fmt.Errorf("%w: revision %d of scheduler %q is %s, not proposed", ErrState, revision, id, cfg.State)
		case v.parked(cfg.Hash):
			return nil, fmt.Errorf("revision %d of scheduler %q: %w", revision, id, ErrRefused)
		}
		now := s.o.Now().UTC()
		c := &Change{Scheduler: v.Scheduler}
		c.replace(cfg, Published, now)
		c.Scheduler.Served = revision
		for _, old := range v.configs {
			if old.State == Published {
				c.replace(old, Superseded, now)
			}
		}
		s.o.Log.Info("configuration approved", "scheduler", id, "revision", revision)
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return t.view.Load().config(revision), nil
}

// Back is what Rollback is asked for.
type Back struct {
	// To is the revision whose values are wanted. 0 is the newest one before what
	// is on offer that the scheduler applied, or else the registered defaults.
	To int64
	// From, if not 0, is what is to be gone back from: if another revision is on
	// offer, that is ErrChanged, and nothing changes. Going back from what itself
	// came of going back needs To, and is ErrState without.
	From int64
	// Park refuses the values gone back from for good, as if the scheduler had
	// refused them.
	Park bool
}

// Rollback offers the values of an earlier revision again, under a new revision,
// so that revisions only go forward.
//
// It may be sent again: to go back to what is on offer already changes nothing,
// nor does it without To while what is on offer came of going back, whatever the
// scheduler said of it meanwhile. Only Park, if it was not asked for before,
// parks the values that were gone back from.
func (s *Service) Rollback(ctx context.Context, id string, b Back) (*Configuration, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, t, func(v *view) (*Change, error) {
		from := v.config(v.Served)
		if from == nil {
			return nil, fmt.Errorf("scheduler %q: %w", id, ErrNoCurrent)
		}
		to := v.config(b.To)
		now := s.o.Now().UTC()
		switch {
		case b.To != 0 && to == nil:
			return nil, fmt.Errorf("revision %d of scheduler %q: %w", b.To, id, ErrNotFound)
		case b.From != 0 && b.From != from.Revision && (b.From != from.Left || to != nil && to.Hash != from.Hash):
			return nil, fmt.Errorf("%w: revision %d of scheduler %q, not %d; nothing was changed", ErrChanged, from.Revision, id, b.From)
		case b.To == 0 && from.Left != 0 && b.From == from.Revision:
			return nil, fmt.Errorf("%w: revision %d of scheduler %q itself came of going back from revision %d; name the revision to go back to", ErrState, from.Revision, id, from.Left)
		case b.To == 0 && from.Left != 0:
			return v.parkLeft(from, b.Park, now), nil
		case b.To == 0:
			if to = v.lastGood(from); to == nil {
				return nil, fmt.Errorf("%w: scheduler %q has nothing to go back to: no other revision was applied", ErrState, id)
			}
		case to.State == Rejected || v.parked(to.Hash):
			return nil, fmt.Errorf("revision %d of scheduler %q: %w", b.To, id, ErrRefused)
		case to.Hash == from.Hash:
			return v.parkLeft(from, b.Park, now), nil
		}
		c := &Change{Scheduler: v.Scheduler}
		next := s.publish(c, v, to.Config, FromRestore, fmt.Sprintf("an operator went back from revision %d to the values of revision %d", from.Revision, to.Revision), nil)
		next.Left = from.Revision
		if b.Park {
			v.park(c, from, now)
		}
		s.o.Log.Info("configuration rolled back", "scheduler", id, "from", from.Revision, "to", to.Revision, "revision", c.Scheduler.Last, "park", b.Park)
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	v := t.view.Load()
	return v.config(v.Served), nil
}

// park puts into a change that the values of a revision are refused.
func (v *view) park(c *Change, bad *Configuration, now time.Time) {
	for _, old := range v.configs {
		if old.Hash == bad.Hash {
			c.replace(old, Rejected, now).State = Rejected
		}
	}
	if running := v.config(v.Acknowledged); running != nil && running.Hash == bad.Hash {
		c.Scheduler.Acknowledged = 0
		if good := v.lastGood(bad); good != nil && good.Ack != nil {
			c.Scheduler.Acknowledged = good.Revision
		}
	}
}

// parkLeft is what there is to do when a rollback is sent again: to park the
// values gone back from to what is on offer, if that is asked for and they are
// not yet. Otherwise it is nil.
func (v *view) parkLeft(offered *Configuration, park bool, now time.Time) *Change {
	left := v.config(offered.Left)
	if !park || left == nil || left.Hash == offered.Hash || v.parked(left.Hash) {
		return nil
	}
	c := &Change{Scheduler: v.Scheduler}
	v.park(c, left, now)
	return c
}
