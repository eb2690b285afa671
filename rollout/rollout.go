// Package rollout is the state machine of a scheduler's configurations: which
// revision is offered, which is in force and which values are parked. It is
// pure: [Step] takes a state, an event and a time and returns the state after
// the event and the revisions that changed. Making them durable, assigning ids
// and notifying watchers is up to the caller.
package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/space"
)

// Errors of Step. All but ErrNoCurrent come wrapped, with the revision they are
// about.
var (
	ErrNotFound  = errors.New("not found")
	ErrNoCurrent = errors.New("the scheduler refused every configuration it was offered")
	ErrRefused   = errors.New("configuration was refused and is parked")
	ErrState     = errors.New("wrong state")
	ErrChanged   = errors.New("another configuration is on offer by now")
)

// Revisions are the numbers of the revisions that matter.
type Revisions struct {
	// LastRevision is the newest one.
	LastRevision int64 `json:"last"`
	// OfferedRevision is the one the scheduler should run, 0 if it refused all.
	OfferedRevision int64 `json:"served"`
	// AcknowledgedRevision is the newest one the scheduler said it runs, 0 before
	// the first.
	AcknowledgedRevision int64 `json:"acknowledged"`
}

// State is where the configurations of one scheduler stand.
type State struct {
	Scheduler string // its id
	Revisions
	Configurations []*Configuration // by revision, from 1
	Limits         Limits           // of changes by tuning
}

// Configuration returns a revision, or nil.
func (s *State) Configuration(revision int64) *Configuration {
	if revision < 1 || revision > int64(len(s.Configurations)) {
		return nil
	}
	return s.Configurations[revision-1]
}

// Offered is the configuration the scheduler should run, nil if it refused all.
func (s *State) Offered() *Configuration { return s.Configuration(s.OfferedRevision) }

// Running is the configuration the scheduler runs as far as it said: the one it
// acknowledged last, whatever was offered since, or else the registered
// defaults. It is nil if the scheduler refused these.
func (s *State) Running() *Configuration {
	c := s.Configuration(max(1, s.AcknowledgedRevision))
	if c == nil || c.State == Rejected || c.State == Lost {
		return nil
	}
	return c
}

// Parked are the configurations that a round must not offer at an event time: those
// that were refused, and those that did worse than promised a short time ago.
func (s *State) Parked(at time.Time) []space.Config {
	var out []space.Config
	for _, c := range s.Configurations {
		if c.State == Rejected {
			out = append(out, c.Config)
		}
		if i := c.Incident; i != nil && i.parks(at) {
			if worse := s.Configuration(i.Revision); worse.State != Lost {
				out = append(out, worse.Config)
			}
		}
	}
	return out
}

// LastIncident is the newest revision with an Incident, nil if there is none.
func (s *State) LastIncident() *Configuration {
	for _, c := range slices.Backward(s.Configurations) {
		if c.Incident != nil {
			return c
		}
	}
	return nil
}

// IncidentWithin reports whether the last incident is less than some time before an event
// time.
func (s *State) IncidentWithin(at time.Time, d time.Duration) bool {
	c := s.LastIncident()
	return c != nil && since(c.Incident.At, at, d)
}

// GoingBack is the revision of the judge that is offered and not acknowledged yet, nil if
// there is none.
func (s *State) GoingBack() *Configuration {
	if c := s.Offered(); c != nil && c.Incident != nil && c.State == Published {
		return c
	}
	return nil
}

// parked reports whether values are parked for ever.
func (s *State) parked(hash string) bool {
	return slices.ContainsFunc(s.Configurations, func(c *Configuration) bool {
		return c.State == Rejected && c.Hash == hash
	})
}

// didWorse reports whether the values of a revision did worse than promised later.
func (s *State) didWorse(c *Configuration) bool {
	return slices.ContainsFunc(s.Configurations[c.Revision:], func(later *Configuration) bool {
		return later.Incident != nil && s.Configuration(later.Incident.Revision).Hash == c.Hash
	})
}

// LastGood is the newest revision that the scheduler applied and that did not do worse
// than promised, or else the registered defaults; never parked values nor those of bad.
func (s *State) LastGood(bad *Configuration) *Configuration {
	fits := func(c *Configuration) bool { return c.State != Lost && c.Hash != bad.Hash && !s.parked(c.Hash) }
	for _, c := range slices.Backward(s.Configurations) {
		if c.Ack.applied() && fits(c) && !s.didWorse(c) {
			return c
		}
	}
	if first := s.Configurations[0]; fits(first) {
		return first
	}
	return nil
}

// Salvage offers the last good revision if the record of the one on offer is Lost.
func (s *State) Salvage() {
	if c := s.Offered(); c != nil && c.State == Lost {
		s.OfferedRevision = 0
		if c = s.LastGood(&Configuration{}); c != nil {
			s.OfferedRevision = c.Revision
		}
	}
}

// Basis identifies what a tuning round compares its candidates with.
type Basis struct{ Offered, Running int64 }

// Basis returns the present one.
func (s *State) Basis() Basis {
	b := Basis{Offered: s.OfferedRevision}
	if c := s.Running(); c != nil {
		b.Running = c.Revision
	}
	return b
}

// CheckAdoption returns why the winner of a round that was decided on a basis
// should not be published, nil if it should.
func (s *State) CheckAdoption(e Publish, basis Basis) error {
	hash := e.Config.Hash()
	if s.Basis() != basis {
		return errors.New("what ran changed while the round was decided")
	}
	if s.parked(hash) {
		return errors.New("the scheduler refused these values before")
	}
	if slices.ContainsFunc(s.Parked(e.At), e.Config.Equal) {
		return errors.New("these values did worse than promised and are parked")
	}
	if c := s.Offered(); c != nil && c.Hash == hash {
		return errors.New("the best configuration is the one offered already")
	}
	for _, c := range s.Configurations {
		if c.State == Proposed && c.Hash == hash {
			return fmt.Errorf("revision %d proposes the same", c.Revision)
		}
	}
	if e.Propose {
		return nil
	}
	if why := cmp.Or(s.Hold(e.At), s.flaps(hash, e.At)); why != "" {
		return errors.New(why)
	}
	return nil
}

// An Event moves revisions from state to state: one of Publish, Acknowledge,
// Confirm, Approve, Rollback, Promise and Revert.
type Event interface {
	apply(t *transition) error
}

// Step returns the state after an event and the revisions that are new or
// differ, with Updated at the time given. If there are none the event changes
// nothing. The given state and its configurations stay as they are.
func Step(s State, e Event, at time.Time) (next State, changed []*Configuration, err error) {
	t := transition{State: s, at: at}
	t.Configurations = slices.Clone(s.Configurations)
	if err := e.apply(&t); err != nil || len(t.changed) == 0 {
		return s, nil, err
	}
	return t.State, t.changed, nil
}

// transition is a State that an event is changing.
type transition struct {
	State
	at      time.Time
	changed []*Configuration
}

// edit returns a copy of a revision that may be changed.
func (t *transition) edit(revision int64) *Configuration {
	c := t.Configurations[revision-1]
	if slices.Contains(t.changed, c) {
		return c
	}
	next := *c
	next.Updated = t.at
	t.Configurations[revision-1] = &next
	t.changed = append(t.changed, &next)
	return &next
}

func (t *transition) set(c *Configuration, state RevisionState) { t.edit(c.Revision).State = state }

func (t *transition) notFound(revision int64) error {
	return fmt.Errorf("revision %d of scheduler %q: %w", revision, t.Scheduler, ErrNotFound)
}

func (t *transition) lost(revision int64) error {
	return fmt.Errorf("%w: the record of revision %d of scheduler %q is damaged", ErrState, revision, t.Scheduler)
}

func (t *transition) refused(revision int64) error {
	return fmt.Errorf("revision %d of scheduler %q: %w", revision, t.Scheduler, ErrRefused)
}

// Publish adds a revision and offers it at an event time, or only proposes it.
type Publish struct {
	At       time.Time // of no event if zero
	Config   space.Config
	Origin   Origin
	Reason   string
	Evidence *Evidence
	Propose  bool
}

func (e Publish) apply(t *transition) error {
	t.publish(e)
	return nil
}

// publish supersedes what was proposed and, unless it only proposes, what was
// offered.
func (t *transition) publish(e Publish) *Configuration {
	for _, old := range t.Configurations {
		if old.State == Proposed || old.State == Published && !e.Propose {
			t.set(old, Superseded)
		}
	}
	t.LastRevision++
	c := &Configuration{
		Scheduler: t.Scheduler, Revision: t.LastRevision, State: Published, Origin: e.Origin, Config: e.Config,
		Hash:    e.Config.Hash(),
		Created: t.at, Updated: t.at, Reason: e.Reason, Evidence: e.Evidence,
	}
	if e.Propose {
		c.State = Proposed
	} else {
		t.offer(c, e.At)
	}
	t.Configurations = append(t.Configurations, c)
	t.changed = append(t.changed, c)
	return c
}

// offer offers a revision at an event time; if it is zero, at that of the last offer.
func (t *transition) offer(c *Configuration, at time.Time) {
	if at.IsZero() {
		for _, old := range t.offers() {
			at = old.OfferedAt
		}
	}
	c.OfferedAt, t.OfferedRevision = at, c.Revision
}

// Acknowledge is a scheduler's answer to a revision.
//
// Applied puts the revision in force, unless a later one is. Rejected parks its
// values: the offer falls back to the last revision acknowledged. If another
// instance had applied the refused revision, the values before it are published
// again under a new revision, so that revisions only go forward. Failed changes
// nothing but the record. The same acknowledgement again changes nothing.
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
	case c.State == Rejected && e.Ack.State != AckRejected:
		return t.refused(e.Revision)
	case c.Ack != nil && c.Ack.same(e.Ack):
		return nil
	}
	t.acknowledge(c, e.Ack)
	return nil
}

// Confirm is an event that names the revision in force. It acknowledges the
// revision as applied, unless it or a later one has been acknowledged.
type Confirm struct {
	Revision int64
	At       time.Time
}

func (e Confirm) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case c.State == Lost:
		return t.lost(e.Revision)
	case c.State == Rejected:
		return t.refused(e.Revision)
	case e.Revision <= t.AcknowledgedRevision:
		return nil
	}
	t.acknowledge(c, Ack{State: AckApplied, Applied: e.At})
	return nil
}

func (t *transition) acknowledge(c *Configuration, ack Ack) {
	ack.Received = t.at
	next := t.edit(c.Revision)
	next.Ack = &ack
	switch ack.State {
	case AckApplied, AckPartial:
		if c.Revision < t.AcknowledgedRevision {
			return // a later one is in force
		}
		next.State = RolledOut
		t.AcknowledgedRevision = c.Revision
		if t.OfferedRevision < c.Revision { // a proposal, applied by hand
			t.offer(next, time.Time{})
		}
		for _, old := range t.Configurations[:c.Revision-1] {
			if old.State == RolledOut || old.State == Published || old.State == Proposed {
				t.set(old, Superseded)
			}
		}
	case AckRejected:
		next.State = Rejected
		t.fallBack(next)
	}
}

// fallBack finds what to offer after a refusal.
func (t *transition) fallBack(refused *Configuration) {
	wasRunning := t.AcknowledgedRevision == refused.Revision
	if wasRunning {
		t.restoreAcknowledged(refused)
	}
	if t.OfferedRevision != refused.Revision {
		return
	}
	good := t.LastGood(refused)
	t.OfferedRevision = 0
	switch {
	case good == nil:
	case wasRunning:
		reason := fmt.Sprintf("revision %d was refused by one instance after another had applied it; "+
			"these are the values of revision %d", refused.Revision, good.Revision)
		t.publish(Publish{Config: good.Config, Origin: FromRestore, Reason: reason})
	default:
		t.OfferedRevision = good.Revision
		if good.State == Superseded {
			t.set(good, Published)
		}
	}
}

// restoreAcknowledged takes back the acknowledgement of a revision that turned
// out bad.
func (t *transition) restoreAcknowledged(bad *Configuration) {
	t.AcknowledgedRevision = 0
	if good := t.LastGood(bad); good != nil && good.Ack != nil {
		t.AcknowledgedRevision = good.Revision
	}
}

// Approve offers a proposed revision. To approve what is offered or in force
// already changes nothing.
type Approve struct {
	Revision int64
	At       time.Time // the event time
}

func (e Approve) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case t.OfferedRevision == e.Revision:
		return nil
	case c.State != Proposed:
		return fmt.Errorf("%w: revision %d of scheduler %q is %s, not proposed",
			ErrState, e.Revision, t.Scheduler, c.State)
	case t.parked(c.Hash):
		return t.refused(e.Revision)
	}
	for _, old := range t.Configurations {
		if old.State == Published {
			t.set(old, Superseded)
		}
	}
	t.set(c, Published)
	t.offer(t.edit(c.Revision), e.At)
	t.unpark(c)
	return nil
}

// Rollback offers the values of an earlier revision again, under a new revision,
// so that revisions only go forward.
//
// It may be repeated: to go back to what is offered already changes nothing, nor
// does it without To while a rollback made the offer, whatever the scheduler
// answered since. Only Park, if it was not asked for before, parks the values
// that were gone back from.
type Rollback struct {
	// To is the revision whose values are wanted. 0 is the newest one before the
	// offer that the scheduler applied, or else the registered defaults.
	To int64
	// From, if not 0, is the revision to go back from: if another one is offered,
	// that is ErrChanged. Going back from the revision of a rollback needs To,
	// and is ErrState without.
	From int64
	// Park parks the values gone back from, as if the scheduler had refused them.
	Park bool
	At   time.Time // the event time
}

func (e Rollback) apply(t *transition) error {
	from := t.Offered()
	if from == nil {
		return fmt.Errorf("scheduler %q: %w", t.Scheduler, ErrNoCurrent)
	}
	to := t.Configuration(e.To)
	switch {
	case e.To != 0 && to == nil:
		return t.notFound(e.To)
	case e.From != 0 && e.From != from.Revision && (e.From != from.Left || to != nil && to.Hash != from.Hash):
		return fmt.Errorf("%w: revision %d of scheduler %q, not %d; nothing was changed", ErrChanged, from.Revision,
			t.Scheduler, e.From)
	case e.To == 0 && from.Left != 0 && e.From == from.Revision:
		return fmt.Errorf("%w: revision %d of scheduler %q is itself a rollback from revision %d; "+
			"name the revision to go back to", ErrState, from.Revision, t.Scheduler, from.Left)
	case e.To == 0 && from.Left != 0:
		t.parkLeft(from, e.Park)
		return nil
	case e.To == 0:
		if to = t.LastGood(from); to == nil {
			return fmt.Errorf("%w: scheduler %q has nothing to go back to: no other revision was applied",
				ErrState, t.Scheduler)
		}
	case to.State == Lost:
		return t.lost(e.To)
	case to.State == Rejected || t.parked(to.Hash):
		return t.refused(e.To)
	case to.Hash == from.Hash:
		t.parkLeft(from, e.Park)
		return nil
	}
	reason := fmt.Sprintf("an operator went back from revision %d to the values of revision %d", from.Revision,
		to.Revision)
	t.publish(Publish{At: e.At, Config: to.Config, Origin: FromRestore, Reason: reason}).Left = from.Revision
	t.unpark(to)
	if e.Park {
		t.park(from)
	}
	return nil
}

// parkLeft parks the values that a repeated rollback went back from, if asked to
// and they are not parked yet.
func (t *transition) parkLeft(offered *Configuration, park bool) {
	left := t.Configuration(offered.Left)
	if park && left != nil && left.Hash != offered.Hash && !t.parked(left.Hash) {
		t.park(left)
	}
}

// park rejects every revision with the values of bad.
func (t *transition) park(bad *Configuration) {
	for _, c := range t.Configurations {
		if c.Hash == bad.Hash {
			t.set(c, Rejected)
		}
	}
	if running := t.Configuration(t.AcknowledgedRevision); running != nil && running.Hash == bad.Hash {
		t.restoreAcknowledged(bad)
	}
}

// unpark ends the parks of values that did worse, which an operator chose.
func (t *transition) unpark(chosen *Configuration) {
	for _, c := range t.Configurations {
		if i := c.Incident; i != nil && !i.Until.IsZero() && t.Configuration(i.Revision).Hash == chosen.Hash {
			edited := *i
			edited.Until = time.Time{}
			t.edit(c.Revision).Incident = &edited
		}
	}
}

// Promise records what is expected of a revision that a round found.
type Promise struct {
	Revision   int64
	Prediction json.RawMessage
}

func (e Promise) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	if c == nil || c.Evidence == nil {
		return t.notFound(e.Revision)
	}
	evidence := *c.Evidence
	evidence.Prediction = e.Prediction
	t.edit(e.Revision).Evidence = &evidence
	return nil
}

// Revert goes back from the offered revision, which did worse than promised, to the values
// of the last good one, under a new revision that carries the Incident.
type Revert struct {
	Incident Incident
	Propose  bool
}

func (e Revert) apply(t *transition) error {
	from, to := t.Configuration(e.Incident.Revision), t.Configuration(e.Incident.Good)
	if from == nil || to == nil {
		return t.notFound(max(e.Incident.Revision, e.Incident.Good))
	}
	if t.OfferedRevision != from.Revision {
		return fmt.Errorf("%w: revision %d of scheduler %q, not %d", ErrChanged, t.OfferedRevision, t.Scheduler,
			from.Revision)
	}
	if to.State == Lost || t.parked(to.Hash) {
		if to = t.LastGood(from); to == nil {
			return fmt.Errorf("%w: scheduler %q has nothing to go back to", ErrState, t.Scheduler)
		}
		e.Incident.Good = to.Revision
	}
	reason := fmt.Sprintf("revision %d did worse than promised; these are the values of revision %d: %s", from.Revision,
		to.Revision, e.Incident.Verdict.Reason)
	next := t.publish(Publish{At: e.Incident.At, Config: to.Config, Origin: FromJudge, Reason: reason,
		Propose: e.Propose})
	next.Left, next.Incident = from.Revision, &e.Incident
	return nil
}
