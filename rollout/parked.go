package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/space"
)

// Park keeps values from being offered until they are unparked. The registered defaults
// are never parked, so that there is always something to offer.
type Park struct {
	Hash     string    `json:"hash"`
	Revision int64     `json:"revision"`           // one that has the values
	Instance string    `json:"instance,omitempty"` // that refused them
	Actor    string    `json:"actor"`              // Scheduler, Operator, Judge, or the name of an operator
	Why      string    `json:"why,omitempty"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"` // event time, of Judge; zero: until they are unparked
	// Proposal says that Revision is a Parked proposal. It is not stored here.
	Proposal bool `json:"-"`
}

// Actors that have no name.
const (
	Scheduler = "scheduler"
	Operator  = "operator"
)

// String says whose values are parked and by whom.
func (p *Park) String() string {
	who := "refused by the scheduler"
	if p.Instance != "" {
		who = fmt.Sprintf("refused by instance %q", p.Instance)
	}
	if p.Actor != Scheduler {
		who = "parked by " + p.Actor
	}
	if p.Why != "" {
		who += ": " + p.Why
	}
	return fmt.Sprintf("those of revision %d, %s", p.Revision, who)
}

// parked returns the park of values that were refused, nil if there is none.
func (s *State) parked(hash string) *Park {
	for i := range s.Parks {
		if s.Parks[i].Hash == hash {
			return &s.Parks[i]
		}
	}
	return nil
}

// ListParked returns all parks at an event time, the newest last: with those of parked proposals, and of
// values that did worse than promised a short time ago.
func (s *State) ListParked(at time.Time) []Park {
	out := slices.Clone(s.Parks)
	for _, c := range s.Configurations {
		if r := c.Review; c.State == Parked && r != nil {
			out = append(out, Park{Hash: c.Hash, Revision: c.Revision, Actor: cmp.Or(r.Actor, Operator), Why: r.Why,
				Since: r.At, Proposal: true})
		}
		if i := c.Incident; i != nil && i.parks(at) {
			if worse := s.Configuration(i.Revision); worse.State != Lost {
				out = append(out, Park{Hash: worse.Hash, Revision: worse.Revision, Actor: i.Actor, Since: i.At,
					Until: i.Until, Why: "they did worse than promised"})
			}
		}
	}
	return out
}

// Parked are the configurations that a round must not offer at an event time.
func (s *State) Parked(at time.Time) []space.Config {
	var out []space.Config
	for _, p := range s.ListParked(at) {
		if c := s.Configuration(p.Revision); c != nil && c.State != Lost {
			if config, err := s.moved(c.Config); err == nil {
				out = append(out, config)
			}
		}
	}
	return out
}

// isDefault reports whether a revision has the registered defaults.
func (s *State) isDefault(c *Configuration) bool { return c.Hash == s.defaults().Hash }

// park parks the values of a revision for the reason and time of a Park.
func (t *transition) park(bad *Configuration, p Park) {
	if t.parked(bad.Hash) == nil {
		p.Hash, p.Revision, p.Since, p.Actor = bad.Hash, bad.Revision, t.at, cmp.Or(p.Actor, Operator)
		t.Parks = append(t.Parks, p)
	}
	for _, c := range t.Configurations {
		if c.Hash == bad.Hash && c.State != Lost {
			t.set(c, Rejected)
		}
	}
}

// unpark ends the parks of values.
func (t *transition) unpark(hash string) {
	t.Parks = slices.DeleteFunc(t.Parks, func(p Park) bool { return p.Hash == hash })
	for _, c := range t.Configurations {
		if c.Hash == hash && c.State == Rejected {
			t.set(c, Superseded)
		}
		if i := c.Incident; i != nil && !i.Until.IsZero() && t.Configuration(i.Revision).Hash == hash {
			edited := *i
			edited.Until = time.Time{}
			t.edit(c.Revision).Incident = &edited
		}
	}
}

func (t *transition) neverParked(c *Configuration) error {
	return fmt.Errorf("%w: revision %d of scheduler %q has the registered defaults, which are never parked", ErrState,
		c.Revision, t.Scheduler)
}

// ParkProposal sets a proposal aside, for an operator: it may be approved or rejected later, and until then no
// round proposes its values. To park a parked one changes nothing.
type ParkProposal struct {
	Revision int64
	Actor    string
	Why      string
}

func (e ParkProposal) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case c.State == Parked:
		return nil
	case c.State != Proposed:
		return t.notProposed(c)
	}
	t.set(c, Parked)
	t.edit(e.Revision).Review = &Review{Parked: true, Actor: e.Actor, Why: e.Why, At: t.at}
	return nil
}

// Unpark lets the values of a revision be offered again; a parked proposal waits again, which is ErrState while
// another one does. That the values are not parked is ErrNotFound.
type Unpark struct{ Revision int64 }

func (e Unpark) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case c.State == Lost:
		return t.lost(e.Revision)
	}
	if c.State == Parked {
		return t.resume(c)
	}
	for _, proposal := range t.Configurations {
		if proposal.State == Parked && proposal.Hash == c.Hash {
			return t.resume(proposal)
		}
	}
	worse := func(later *Configuration) bool {
		i := later.Incident
		return i != nil && !i.Until.IsZero() && t.Configuration(i.Revision).Hash == c.Hash
	}
	if t.parked(c.Hash) == nil && !slices.ContainsFunc(t.Configurations, worse) {
		return fmt.Errorf("revision %d of scheduler %q: parked values %w: 'autosched scheduler config parked %s' lists what is parked",
			e.Revision, t.Scheduler, ErrNotFound, t.Scheduler)
	}
	t.unpark(c.Hash)
	return nil
}

// resume makes a parked proposal wait again.
func (t *transition) resume(c *Configuration) error {
	if other := t.Proposal(); other != 0 {
		return fmt.Errorf("%w: revision %d of scheduler %q waits for a decision: decide about it first, or approve or "+
			"reject revision %d as it is", ErrState, other, t.Scheduler, c.Revision)
	}
	t.set(c, Proposed)
	t.edit(c.Revision).Review = nil
	return nil
}

func (t *transition) notProposed(c *Configuration) error {
	return fmt.Errorf("%w: revision %d of scheduler %q is %s, not proposed", ErrState, c.Revision, t.Scheduler, c.State)
}

// Reject parks the values of a proposal, for an operator. To reject parked values
// changes nothing.
type Reject struct {
	Revision int64
	Actor    string
	Why      string
}

func (e Reject) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case c.State == Rejected:
		return nil
	case !c.undecided():
		return t.notProposed(c)
	case t.isDefault(c):
		t.set(c, Superseded)
	default:
		t.park(c, Park{Actor: e.Actor, Why: e.Why})
		t.fallBack(c)
	}
	t.edit(e.Revision).Review = &Review{Actor: e.Actor, Why: e.Why, At: t.at}
	return nil
}
