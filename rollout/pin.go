package rollout

import (
	"fmt"
	"time"

	"github.com/autosched/autosched/space"
)

// Pin keeps a revision that an operator chose on offer: while it is in force nothing but operators
// and refusals changes the offer. It ends when another revision is offered.
type Pin struct {
	Revision int64     `json:"revision"`
	Reason   string    `json:"reason"`
	Actor    string    `json:"actor"`
	Created  time.Time `json:"created"`
	// Until is the event time at which it ends; zero is never.
	Until time.Time `json:"until,omitzero"`
}

// Pinned returns the pin in force at an event time, nil if there is none.
func (s *State) Pinned(at time.Time) *Pin {
	if p := s.Pin; p != nil && (p.Until.IsZero() || at.Before(p.Until)) {
		return p
	}
	return nil
}

// freeze is a pin's effect on tuning.
func (p *Pin) freeze() *Freeze {
	return &Freeze{Reason: fmt.Sprintf("revision %d is pinned: %s", p.Revision, p.Reason), Actor: p.Actor,
		Created: p.Created, Until: p.Until}
}

// PinValues offers values to all instances, under a new revision unless they are on offer, and pins
// them.
type PinValues struct {
	Config space.Config
	Pin    Pin // without Revision and Created
	At     time.Time
}

func (e PinValues) apply(t *transition) error {
	moved, err := t.moved(e.Config)
	if err != nil {
		return fmt.Errorf("%w: scheduler %q: %w", ErrState, t.Scheduler, err)
	}
	if p := t.parked(moved.Hash()); p != nil {
		return fmt.Errorf("scheduler %q: %w: %s", t.Scheduler, ErrRefused, p)
	}
	c := t.Offered()
	if c == nil || c.Hash != moved.Hash() || t.Wave != nil {
		c = t.publish(Publish{At: e.At, Config: moved, Origin: FromPin,
			Reason: "pinned by an operator: " + e.Pin.Reason})
	}
	if p := t.Pin; p != nil && p.Revision == c.Revision && p.Reason == e.Pin.Reason && p.Until.Equal(e.Pin.Until) {
		return nil // sent again
	}
	e.Pin.Revision, e.Pin.Created = c.Revision, t.at
	t.Pin = &e.Pin
	return nil
}

// UnpinValues ends a pin. The offer stays. Without a pin it changes nothing.
type UnpinValues struct{}

func (UnpinValues) apply(t *transition) error {
	t.Pin = nil
	return nil
}
