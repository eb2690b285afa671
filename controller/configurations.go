package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/controller/watch"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// Current returns the configuration an instance of a scheduler should run.
func (s *Service) Current(id, instance string) (*rollout.Configuration, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	v := m.snapshot.Load()
	if !v.Deleted.IsZero() {
		return nil, deleted(id)
	}
	if c := v.desired(instance); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("scheduler %q: %w", id, rollout.ErrNoCurrent)
}

// Configuration returns one revision.
func (s *Service) Configuration(id string, revision int64) (*rollout.Configuration, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	if c := m.snapshot.Load().config(revision); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("revision %d of scheduler %q: %w: 'autosched scheduler config list %s' shows the ones kept",
		revision, id, rollout.ErrNotFound, id)
}

// WayBack returns the revision with which the judge went back from one, nil if it did not.
func (s *Service) WayBack(c *rollout.Configuration) *rollout.Configuration {
	m, err := s.readable(c.Scheduler)
	if err != nil {
		return nil
	}
	state := m.snapshot.Load().rollout()
	for _, later := range state.After(c.Revision) {
		if later.Incident != nil && later.Incident.Revision == c.Revision {
			return later
		}
	}
	return nil
}

// Configurations returns the revisions below one (all if it is 0), newest
// first, at most limit of them.
func (s *Service) Configurations(id string, below int64, limit int) ([]*rollout.Configuration, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	state := m.snapshot.Load().rollout()
	all := state.Configurations
	if below > 0 {
		all = state.Before(below)
	}
	out := slices.Clone(all[max(0, len(all)-limit):])
	slices.Reverse(out)
	return out, nil
}

// Acknowledge records the outcome of a revision at an instance of its scheduler. It
// returns the revision and the one that the instance should run now, 0 for none.
func (s *Service) Acknowledge(ctx context.Context, call Call, id string, revision int64,
	ack rollout.Ack) (*rollout.Configuration, int64, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, 0, err
	}
	changed, err := s.step(ctx, call, m, rollout.Acknowledge{Revision: revision, Ack: ack})
	if err != nil {
		return nil, 0, err
	}
	if changed {
		s.o.Log.InfoContext(ctx, "configuration acknowledged", "scheduler", id, "revision", revision, "ack", ack.State,
			"instance", ack.Instance, "error", ack.Error)
	}
	if err := s.tick(ctx, call, m); err != nil {
		return nil, 0, err
	}
	v := m.snapshot.Load()
	current := int64(0)
	if c := v.desired(ack.Instance); c != nil {
		current = c.Revision
	}
	return v.config(revision), current, nil
}

// Running is the configuration that most instances of a scheduler say they run. It is an error if that is
// outside its space.
func (s *Service) Running(id string) (space.Config, error) {
	m, err := s.readable(id)
	if err != nil {
		return space.Config{}, err
	}
	v := m.snapshot.Load()
	state := v.rollout()
	return state.Incumbent(v.space.Default())
}

// Propose proposes a configuration that a study found.
func (s *Service) Propose(ctx context.Context, call Call, id string, c space.Config, reason string,
	found rollout.Evidence) (*rollout.Configuration, error) {
	e := rollout.Publish{Origin: rollout.FromStudy, Reason: reason, Evidence: &found}
	return s.propose(ctx, call, id, &e, func(v *snapshot, at time.Time) (err error) {
		state := v.rollout()
		found.At, found.Incumbent = at, state.Basis().Running
		if e.Config, err = v.space.ParseJSON([]byte(c.Canonical())); err != nil {
			return fmt.Errorf("%w: %w", ErrOutsideSpace, err)
		}
		return nil
	})
}

// ProposeValues proposes an operator's values, which config makes of those that run, if check of what is on offer
// returns nil.
func (s *Service) ProposeValues(ctx context.Context, call Call, id, reason string, check Check,
	config func(sp *space.Space, base space.Config) (space.Config, error)) (*rollout.Configuration, error) {
	e := rollout.Publish{Origin: rollout.FromManual, Reason: reason}
	return s.propose(ctx, call, id, &e, func(v *snapshot, _ time.Time) error {
		if err := check.of(v.config(v.OfferedRevision)); err != nil {
			return err
		}
		state := v.rollout()
		base, _ := state.Incumbent(v.space.Default()) // config brings values outside the space into it
		c, err := config(v.space, base)
		e.Config = c
		return err
	})
}

// propose publishes a proposal that complete has filled in.
func (s *Service) propose(ctx context.Context, call Call, id string, e *rollout.Publish,
	complete func(v *snapshot, at time.Time) error) (*rollout.Configuration, error) {
	m, err := s.active(id)
	if err != nil {
		return nil, err
	}
	revision := int64(0)
	after, err := s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		e.At, e.Propose = m.eventTime(), true
		if err := complete(v, e.At); err != nil {
			return nil, err
		}
		state := v.rollout()
		if err := state.CheckAdoption(*e, state.Basis()); err != nil {
			return nil, fmt.Errorf("%w: %w", rollout.ErrState, err)
		}
		change, err := v.step(*e, s.now())
		if err == nil {
			revision = change.Scheduler.LastRevision
			s.nameRevision(call, id, revision)
		}
		return change, err
	})
	if err != nil {
		return nil, err
	}
	if !call.DryRun {
		s.o.Log.InfoContext(ctx, "configuration proposed", "scheduler", id, "revision", revision, "reason", e.Reason)
	}
	return after.config(revision), nil
}

// nameRevision names the revision that the request of a call makes or offers.
func (s *Service) nameRevision(call Call, id string, revision int64) {
	s.RequestRecord(call, id).SetName(fmt.Sprintf("schedulers/%s/configurations/%d", id, revision))
}

// Check is asked before a change of a configuration is made: an error leaves it as it is. Nil asks nothing.
type Check func(*rollout.Configuration) error

func (c Check) of(cfg *rollout.Configuration) error {
	if c == nil || cfg == nil { // an event says that there is none
		return nil
	}
	return c(cfg)
}

// Approve offers a proposed revision to its scheduler.
func (s *Service) Approve(ctx context.Context, call Call, id string, e rollout.Approve,
	check Check) (*rollout.Configuration, error) {
	return s.operate(ctx, call, id, e, e.Revision, check, "configuration approved", "applied", e.Applied)
}

// Reject parks the values of a proposed revision.
func (s *Service) Reject(ctx context.Context, call Call, id string, e rollout.Reject,
	check Check) (*rollout.Configuration, error) {
	return s.operate(ctx, call, id, e, e.Revision, check, "configuration rejected", "reason", e.Why)
}

// Park sets a proposed revision aside.
func (s *Service) Park(ctx context.Context, call Call, id string, e rollout.ParkProposal,
	check Check) (*rollout.Configuration, error) {
	return s.operate(ctx, call, id, e, e.Revision, check, "proposal parked", "reason", e.Why)
}

// Pin offers values and keeps them on offer: the checked ones on offer, or the result of config for values in
// force. Where these are not known, or while others are pinned, it takes the ones on offer.
func (s *Service) Pin(ctx context.Context, call Call, id string, pin rollout.Pin, check Check,
	config func(sp *space.Space, base space.Config) (space.Config, error)) (*rollout.Configuration, error) {
	m, err := s.active(id)
	if err != nil {
		return nil, err
	}
	e := rollout.PinValues{Pin: pin, At: m.eventTime()}
	if !pin.Until.IsZero() && !pin.Until.After(e.At) {
		return nil, fmt.Errorf("%w: scheduler %q is at event time %s, which is not before the pin's end",
			rollout.ErrState,
			id, e.At.UTC().Format(time.RFC3339))
	}
	var revision int64
	var changed bool
	after, err := s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		e.Config = v.space.Default()
		offered := v.config(v.OfferedRevision)
		if offered != nil {
			e.Config = offered.Config
		}
		if err := check.of(offered); err != nil {
			return nil, err
		}
		if config != nil {
			base := e.Config
			if state := v.rollout(); state.AcknowledgedRevision > 0 && state.Pinned(e.At) == nil {
				base, _ = state.Incumbent(base) // config brings values outside the space into it
			}
			if e.Config, err = config(v.space, base); err != nil {
				return nil, err
			}
		}
		c, err := v.step(e, s.now())
		if revision = v.OfferedRevision; c != nil {
			changed, revision = true, c.Scheduler.OfferedRevision
			s.nameRevision(call, id, revision)
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	if changed && !call.DryRun {
		s.o.Log.InfoContext(ctx, "configuration pinned", "scheduler", id, "revision", revision, "until", pin.Until,
			"reason", pin.Reason)
	}
	return after.config(revision), nil
}

// Unpin ends a pin.
func (s *Service) Unpin(ctx context.Context, call Call, id string) error {
	m, err := s.active(id)
	if err != nil {
		return err
	}
	changed, err := s.step(ctx, call, m, rollout.UnpinValues{})
	if changed {
		s.o.Log.InfoContext(ctx, "configuration unpinned", "scheduler", id)
	}
	return err
}

// Unpark lets the values of a revision be offered again. It returns the proposal of these values that waits again, or
// else the revision.
func (s *Service) Unpark(ctx context.Context, call Call, id string, revision int64,
	check Check) (*rollout.Configuration, error) {
	return s.operate(ctx, call, id, rollout.Unpark{Revision: revision}, revision, check, "configuration unparked")
}

// operate makes an operator's change of a revision. It returns it, or the proposal that waits again by the change.
func (s *Service) operate(ctx context.Context, call Call, id string, e rollout.Event, revision int64, check Check,
	done string,
	attrs ...any) (*rollout.Configuration, error) {
	m, err := s.active(id)
	if err != nil {
		return nil, err
	}
	if a, ok := e.(rollout.Approve); ok {
		a.At = m.eventTime()
		e = a
	}
	changed := false
	after, err := s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		if err := check.of(v.config(revision)); err != nil {
			return nil, err
		}
		c, err := v.step(e, s.now())
		if changed = c != nil; changed {
			for _, one := range c.Configurations {
				if one.State == rollout.Proposed {
					revision = one.Revision
					s.nameRevision(call, id, revision)
				}
			}
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	if changed && !call.DryRun {
		s.o.Log.InfoContext(ctx, done, append([]any{"scheduler", id, "revision", revision}, attrs...)...)
	}
	return after.config(revision), nil
}

// ForgetInstance drops an instance of a scheduler that is gone.
func (s *Service) ForgetInstance(ctx context.Context, call Call, id, instance string) error {
	m, err := s.active(id)
	if err != nil {
		return err
	}
	changed, err := s.step(ctx, call, m, rollout.Forget{Instance: instance})
	if changed {
		s.o.Log.InfoContext(ctx, "instance forgotten", "scheduler", id, "instance", instance)
	}
	if err != nil || call.DryRun {
		return err
	}
	return s.tick(ctx, call, m)
}

// Parked lists the parks of a scheduler's values.
func (s *Service) Parked(id string) ([]rollout.Park, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	state := m.snapshot.Load().rollout()
	return state.ListParked(m.eventTime()), nil
}

// Rollback offers the values of an earlier revision again and returns the revision
// offered.
func (s *Service) Rollback(ctx context.Context, call Call, id string, r rollout.Rollback) (*rollout.Configuration,
	error) {
	m, err := s.active(id)
	if err != nil {
		return nil, err
	}
	r.At = m.eventTime()
	var last int64
	var c *Change
	after, err := s.commit(ctx, call, m, func(v *snapshot) (_ *Change, err error) {
		last = v.LastRevision
		if c, err = v.step(r, s.now()); c != nil {
			s.nameRevision(call, id, c.Scheduler.OfferedRevision)
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case c == nil, call.DryRun:
	case c.Scheduler.LastRevision > last:
		published := after.config(c.Scheduler.LastRevision)
		s.o.Log.InfoContext(ctx, "configuration rolled back", "scheduler", id, "from", published.Left, "revision",
			published.Revision, "park", r.Park)
	default:
		s.o.Log.InfoContext(ctx, "configuration parked", "scheduler", id, "revision",
			after.config(c.Scheduler.OfferedRevision).Left)
	}
	return after.config(after.OfferedRevision), nil
}

// Watcher learns of changes of the configuration an instance of a scheduler should run.
type Watcher struct {
	*watch.Subscription
	m        *schedulerState
	instance string
}

// Watch returns a watcher, to be closed by the caller.
func (s *Service) Watch(id, instance string) (*Watcher, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	w := &Watcher{m.watchers.Subscribe(), m, instance}
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

// Current returns the revision that the instance should run, nil for none.
func (w *Watcher) Current() *rollout.Configuration { return w.m.snapshot.Load().desired(w.instance) }

// Paused reports whether tuning is paused, and who paused it, if that is known.
func (w *Watcher) Paused() (*Pause, bool) {
	v := w.m.snapshot.Load()
	return v.Pause, v.Paused
}
