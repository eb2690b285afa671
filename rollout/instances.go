package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/space"
)

// MaxInstances bounds the instances of a scheduler. Beyond it a new one takes the place of the one
// that is behind its target and has reported nothing for longest, at least for goneAfter.
const (
	MaxInstances = 256
	goneAfter    = 7 * 24 * time.Hour
)

// ErrInstances is an instance beyond MaxInstances.
var ErrInstances = errors.New("too many instances")

// Instance is a process of the scheduler, as it reported itself. The unnamed one, with id "",
// is the only one of a scheduler that does not name them.
type Instance struct {
	ID string `json:"id,omitempty"`
	// Revision is the one it says it runs, 0 before it said. Hash is that of its values,
	// Effective the values that differ, and Applied the scheduler's time at which they took effect,
	// zero if it did not say.
	Revision  int64                  `json:"revision,omitempty"`
	Hash      string                 `json:"hash,omitempty"`
	Effective map[string]space.Value `json:"effective,omitempty"`
	Applied   time.Time              `json:"applied,omitzero"`
	// Answered is the revision of its last acknowledgement, with that one's State and Error.
	Answered int64     `json:"answered"`
	State    AckState  `json:"state"`
	Error    string    `json:"error,omitempty"`
	Reported time.Time `json:"reported"`
	// Reached is the newest revision that it ran while it should.
	Reached int64 `json:"reached,omitempty"`
}

// answer notes an acknowledgement of a revision.
func (i *Instance) answer(c *Configuration, a *Ack) {
	i.Answered, i.State, i.Error, i.Reported = c.Revision, a.State, a.Error, a.Received
	if a.applied() {
		i.Revision, i.Hash, i.Effective, i.Applied = c.Revision, c.Hash, a.Effective, a.Applied
	}
}

// Refuses reports whether a revision did not take effect.
func (s AckState) Refuses() bool { return s == AckRejected || s == AckFailed }

// answered reports whether the last acknowledgement was this one.
func (i *Instance) answered(revision int64, a *Ack) bool {
	return i.Answered == revision && i.State == a.State && i.Error == a.Error && (!a.applied() ||
		i.Applied.Equal(a.Applied) && maps.EqualFunc(i.Effective, a.Effective, space.Value.Equal))
}

// reported is the revision that most instances run, the older of equals; 0 if none said.
func (s *State) reported() int64 {
	count := map[int64]int{}
	for _, i := range s.Instances {
		count[i.Revision]++
	}
	delete(count, 0)
	best := int64(0)
	for revision, n := range count {
		if n > count[best] || n == count[best] && revision < best {
			best = revision
		}
	}
	return best
}

// refuses reports whether an instance last answered these values, under some revision, with a
// refusal.
func (s *State) refuses(hash string) bool {
	return slices.ContainsFunc(s.Instances, func(i Instance) bool {
		c := s.Configuration(i.Answered)
		return i.State == AckRejected && c != nil && c.Hash == hash
	})
}

// Incumbent is the configuration in force, with the values that most instances reported of it; def if
// nothing is known of it. It is an error if they are outside the space: then nothing can be
// compared with them.
func (s *State) Incumbent(def space.Config) (space.Config, error) {
	c := s.Running()
	if c == nil {
		return def, nil
	}
	var differ map[string]space.Value
	most := 0
	for _, i := range s.Instances {
		if i.Revision != c.Revision {
			continue
		}
		n := 0
		for _, o := range s.Instances {
			if o.Revision == c.Revision && maps.EqualFunc(o.Effective, i.Effective, space.Value.Equal) {
				n++
			}
		}
		if n > most {
			differ, most = i.Effective, n
		}
		if 2*most >= len(s.Instances) {
			break // no other has more
		}
	}
	return s.effective(c.Config, differ)
}

// effective is a configuration with the values that differ in it.
func (s *State) effective(config space.Config, differ map[string]space.Value) (space.Config, error) {
	for id, value := range differ {
		if _, ok := config.Space().Param(id); ok {
			config = config.With(id, value)
		}
	}
	moved, err := s.moved(config)
	if err == nil && len(differ) > 0 {
		if err = moved.Space().Check(moved); err != nil {
			err = fmt.Errorf("values outside the registered space: %w", err)
		}
	}
	return moved, err
}

// Condition is an instance's state relative to its target.
type Condition string

// The conditions.
const (
	InSync   Condition = "in_sync"  // it runs it
	Pending  Condition = "pending"  // it has yet to acknowledge it, and time to
	Degraded Condition = "degraded" // it does not run it
)

// Condition returns the condition of an instance at a time, and why it is Degraded. An instance
// acknowledges a revision within deadline after it was put on offer.
func (s *State) Condition(i *Instance, now time.Time, deadline time.Duration) (Condition, string) {
	want := s.Desired(i.ID)
	if want == nil {
		return Degraded, ErrNoCurrent.Error()
	}
	runs := s.Configuration(i.Revision)
	switch {
	case i.Answered == want.Revision && i.State == AckRejected:
		return Degraded, reason("refuses revision %d", want.Revision, i.Error)
	case i.Answered == want.Revision && i.State == AckFailed:
		return Degraded, reason("could not apply revision %d", want.Revision, i.Error)
	case i.Revision > want.Revision || runs != nil && !runs.wasOffered():
		return Degraded, fmt.Sprintf("runs revision %d, which was not offered to it", i.Revision)
	case i.Revision < want.Revision && i.Reached >= want.Revision:
		return Degraded, fmt.Sprintf("went back by itself from revision %d to revision %d", want.Revision, i.Revision)
	case i.Revision < want.Revision && late(want, now, deadline):
		return Degraded, fmt.Sprintf("has not acknowledged revision %d within %v", want.Revision, deadline)
	case i.Revision < want.Revision:
		return Pending, ""
	}
	if runs.State != Lost {
		if _, err := s.effective(runs.Config, i.Effective); err != nil {
			return Degraded, "runs " + err.Error()
		}
	}
	return InSync, ""
}

// Degradation is why a scheduler is degraded at a time, "" if it is not: an instance is, or none
// has acknowledged anything in time.
func (s *State) Degradation(now time.Time, deadline time.Duration) string {
	var parts []string
	for k := range s.Instances {
		i := &s.Instances[k]
		if condition, why := s.Condition(i, now, deadline); condition == Degraded {
			if i.ID != "" {
				why = fmt.Sprintf("instance %q %s", i.ID, why)
			} else {
				why = "the scheduler " + why
			}
			parts = append(parts, why)
		}
	}
	if c := s.Offered(); c != nil && len(s.Instances) == 0 && late(c, now, deadline) {
		parts = append(parts, fmt.Sprintf("no instance has acknowledged revision %d within %v", c.Revision, deadline))
	}
	if n := len(parts); n > 3 {
		parts = append(parts[:3], fmt.Sprintf("and %d more", n-3))
	}
	return strings.Join(parts, "; ")
}

func late(c *Configuration, now time.Time, deadline time.Duration) bool {
	since := c.Offered
	if since.IsZero() {
		since = c.Created
	}
	return deadline > 0 && now.Sub(since) > deadline
}

func reason(format string, revision int64, why string) string {
	text := fmt.Sprintf(format, revision)
	if why != "" {
		text += ": " + why
	}
	return text
}

// find is where the instance of an id stands, or would. An instance without a name is the only
// one there is, and the first one with a name is the one that had none.
func (s *State) find(id string) (at int, found bool) {
	if len(s.Instances) == 1 && (id == "" || s.Instances[0].ID == "") {
		return 0, true
	}
	return slices.BinarySearchFunc(s.Instances, id, func(i Instance, id string) int {
		return strings.Compare(i.ID, id)
	})
}

// instance is the one of an id, to be changed, made if it is new.
func (t *transition) instance(id string) (*Instance, error) {
	at, found := t.find(id)
	if !found && len(t.Instances) >= MaxInstances {
		t.forgetGone()
		at, _ = t.find(id)
	}
	if !found {
		if len(t.Instances) >= MaxInstances {
			return nil, fmt.Errorf("%w: scheduler %q has %d, the most there may be; forget those that are gone",
				ErrInstances, t.Scheduler, MaxInstances)
		}
		t.Instances = slices.Insert(t.Instances, at, Instance{ID: id})
	}
	i := &t.Instances[at]
	if i.ID == "" {
		i.ID = id
	}
	return i, nil
}

// forgetGone drops the instance that is most likely gone, if one is.
func (t *transition) forgetGone() {
	gone := -1
	for k := range t.Instances {
		i := &t.Instances[k]
		behind := t.Desired(i.ID) == nil || i.Revision != t.Desired(i.ID).Revision
		if behind && !t.at.Before(i.Reported.Add(goneAfter)) &&
			(gone < 0 || i.Reported.Before(t.Instances[gone].Reported)) {
			gone = k
		}
	}
	if gone >= 0 {
		t.Instances = slices.Delete(t.Instances, gone, gone+1)
	}
}

// Acknowledge is an instance's answer to a revision.
//
// Applied names the revision that the instance runs, be it the revision it should run or not: a proposal
// that is applied is not approved by that. Rejected parks the values, unless they are the
// registered defaults: if they are on offer, the last good ones follow under a new revision.
// Failed changes nothing but the record. The same acknowledgement again changes nothing.
type Acknowledge struct {
	Revision int64
	Ack      Ack
}

func (e Acknowledge) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case c.State == Lost:
		return t.lost(e.Revision)
	}
	return t.acknowledge(c, e.Ack)
}

// Confirm is an event that names the revision in force. It acknowledges the revision as
// applied, unless the instance says that it runs it, or has later named another. Without
// an Instance it speaks for the only one.
type Confirm struct {
	Revision int64
	Instance string
	At       time.Time
}

func (e Confirm) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case c.State == Lost:
		return t.lost(e.Revision)
	case e.Instance == "" && len(t.Instances) > 1:
		return fmt.Errorf("%w: scheduler %q has %d instances, and the event has no instance_id to say which one "+
			"applied revision %d", ErrState, t.Scheduler, len(t.Instances), e.Revision)
	}
	if at, found := t.find(e.Instance); found {
		i := &t.Instances[at]
		if named := e.Instance == "" || i.ID != ""; named && (i.Revision == e.Revision || e.At.Before(i.Applied)) {
			return nil
		}
	}
	return t.acknowledge(c, Ack{State: AckApplied, Instance: e.Instance, Applied: e.At})
}

func (t *transition) acknowledge(c *Configuration, ack Ack) error {
	i, err := t.instance(ack.Instance)
	if err != nil || i.answered(c.Revision, &ack) {
		return err
	}
	want := t.Desired(i.ID)
	// The refusal of the offer stays until that is answered again, whatever comes late about an older revision.
	stays := want != nil && i.Answered == want.Revision && i.State.Refuses() && c.Revision < want.Revision &&
		!ack.applied()
	if stays && c.Ack != nil && c.Ack.State == ack.State && c.Ack.Error == ack.Error && c.Ack.Instance == i.ID {
		return nil
	}
	ack.Instance, ack.Received = i.ID, t.at
	if !stays {
		i.answer(c, &ack)
	}
	if ack.applied() && want != nil && want.Revision == c.Revision {
		i.Reached = c.Revision
	}
	if c.wasOffered() {
		t.edit(c.Revision).Ack = &ack
	}
	if ack.State == AckRejected {
		if !t.isDefault(c) {
			t.park(c, Park{Actor: Scheduler, Instance: ack.Instance, Why: ack.Error})
		}
		t.fallBack(c)
	}
	return nil
}

// applied acknowledges a revision for every instance.
func (t *transition) applied(c *Configuration) error {
	ids := []string{""}
	if len(t.Instances) > 0 {
		ids = ids[:0]
		for _, i := range t.Instances {
			ids = append(ids, i.ID)
		}
	}
	for _, id := range ids {
		if err := t.acknowledge(c, Ack{State: AckApplied, Instance: id}); err != nil {
			return err
		}
	}
	return nil
}

// Forget drops an instance that is gone. One that is not known is ErrNotFound.
type Forget struct{ Instance string }

func (e Forget) apply(t *transition) error {
	n := len(t.Instances)
	t.Instances = slices.DeleteFunc(t.Instances, func(i Instance) bool { return i.ID == e.Instance })
	if len(t.Instances) == n {
		return fmt.Errorf("instance %q of scheduler %q: %w: 'autosched scheduler get %s' lists the instances",
			e.Instance, t.Scheduler, ErrNotFound, t.Scheduler)
	}
	return nil
}
