// Package rollout is the state machine of a scheduler's configurations: which
// revision each instance should run, which it reports and which values are
// parked. It is pure: [Step] takes a state, an event and a time and returns the
// state after the event and the revisions that changed. Making them durable,
// assigning ids and notifying watchers is up to the caller.
//
// The target of an instance changes by a new revision only, with a higher
// number than the one before, and never has values that are parked.
package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/autosched/autosched/space"
)

// Errors of Step. All but ErrNoCurrent come wrapped, with the revision they are
// about.
var (
	ErrNotFound  = errors.New("not found")
	ErrNoCurrent = errors.New("no configuration of the scheduler can be offered: its records are damaged")
	ErrRefused   = errors.New("values are parked")
	ErrState     = errors.New("wrong state")
	ErrChanged   = errors.New("another configuration is on offer by now")
)

// Revisions are the numbers of the revisions that matter.
type Revisions struct {
	// LastRevision is the newest one.
	LastRevision int64 `json:"last"`
	// OfferedRevision is the one the scheduler should run, or the instances that its rollout
	// reached so far; 0 if the records of all that could be are damaged.
	OfferedRevision int64 `json:"served"`
	// AcknowledgedRevision is the one that most instances say they run, the older of
	// equals; 0 before the first.
	AcknowledgedRevision int64 `json:"acknowledged"`
	// DefaultRevision is the one that has the registered defaults; 0 is the first.
	DefaultRevision int64 `json:"default,omitempty"`
}

// Records are the parts of the State that a scheduler's record keeps.
type Records struct {
	Revisions
	Parks     []Park     `json:"parked,omitempty"`    // one for a content hash, oldest first
	Instances []Instance `json:"instances,omitempty"` // by id
	Wave      *Wave      `json:"wave,omitempty"`      // nil unless a rollout is under way
	Pin       *Pin       `json:"pin,omitempty"`       // nil if none was made; it may be over
}

// Equal reports whether two records are the same.
func (r *Records) Equal(o *Records) bool { return reflect.DeepEqual(r, o) }

// State is where the configurations of one scheduler stand.
type State struct {
	Scheduler string // its id
	Records
	Configurations []*Configuration // by revision, from 1, without those that were dropped
	Limits         Limits           // of changes by tuning
	Freeze         *Freeze          // nil if it was not frozen; it may be over
	Waves          Waves            // of the results of rounds
	Space          *space.Space     // that new revisions are in; nil is any
	// Keep is how many superseded proposals are kept beside the ones that another record refers to; 0 for all.
	Keep int
}

// Configuration returns a revision, or nil.
func (s *State) Configuration(revision int64) *Configuration {
	if i, found := s.place(revision); found {
		return s.Configurations[i]
	}
	return nil
}

// place returns the place of a revision among the Configurations, or of the first one after it.
func (s *State) place(revision int64) (at int, found bool) {
	return slices.BinarySearchFunc(s.Configurations, revision, func(c *Configuration, revision int64) int {
		return cmp.Compare(c.Revision, revision)
	})
}

// After are the Configurations after a revision.
func (s *State) After(revision int64) []*Configuration {
	i, _ := s.place(revision + 1)
	return s.Configurations[i:]
}

// Before are the Configurations before a revision.
func (s *State) Before(revision int64) []*Configuration {
	i, _ := s.place(revision)
	return s.Configurations[:i]
}

// Offered is the configuration the scheduler should run once its rollout ends, nil if there is
// none.
func (s *State) Offered() *Configuration { return s.Configuration(s.OfferedRevision) }

// Running is the configuration in force as far as the scheduler said, whatever was
// offered since: the acknowledged one, or else the registered defaults. It is nil if
// their record is damaged.
func (s *State) Running() *Configuration {
	c := s.Configuration(max(1, s.AcknowledgedRevision))
	if s.AcknowledgedRevision == 0 && c != nil && !s.inSpace(c) {
		c = s.defaults()
	}
	if c == nil || c.State == Lost {
		return nil
	}
	return c
}

// Proposal is the revision that waits for an operator, 0 if none does.
func (s *State) Proposal() int64 {
	for _, c := range slices.Backward(s.Configurations) {
		if c.State == Proposed {
			return c.Revision
		}
	}
	return 0
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

// wasLeft reports whether the values of a revision did worse than promised later, and the service went back.
func (s *State) wasLeft(c *Configuration) bool {
	return slices.ContainsFunc(s.After(c.Revision), func(later *Configuration) bool {
		return later.Incident != nil && !later.Alarmed() && s.Configuration(later.Incident.Revision).Hash == c.Hash
	})
}

// LastGood is the newest revision that the scheduler applied and that the service did not go back from, or else the
// registered defaults; never parked values, the values of bad, nor the revision of a rollout under way. It is nil if
// the records of all that could be are damaged.
func (s *State) LastGood(bad *Configuration) *Configuration {
	fits := func(c *Configuration) bool {
		return c.State != Lost && c.Hash != bad.Hash && s.parked(c.Hash) == nil && s.inSpace(c)
	}
	for _, c := range slices.Backward(s.Configurations) {
		if c.Ack.applied() && fits(c) && !s.wasLeft(c) && (s.Wave == nil || c.Revision != s.OfferedRevision) {
			return c
		}
	}
	if first := s.defaults(); fits(first) {
		return first
	}
	return nil
}

// Salvage offers the last good revision if the record of one that instances should run is Lost.
func (s *State) Salvage() {
	lost := func(c *Configuration) bool { return c != nil && c.State == Lost }
	if lost(s.Offered()) || lost(s.Stable()) {
		good := s.LastGood(&Configuration{})
		s.OfferedRevision, s.Wave = 0, nil
		if good != nil {
			s.OfferedRevision = good.Revision
		}
	}
}

// Upgrade completes records of a version that kept neither parks nor instances: revisions
// that are Rejected are parked, and the unnamed instance runs the acknowledged revision.
func (s *State) Upgrade() {
	for _, c := range s.Configurations {
		if c.State == Rejected && !s.isDefault(c) && s.parked(c.Hash) == nil {
			p := Park{Hash: c.Hash, Revision: c.Revision, Actor: Operator, Since: c.Updated}
			if c.Ack != nil && c.Ack.State == AckRejected {
				p.Actor, p.Instance, p.Why, p.Since = Scheduler, c.Ack.Instance, c.Ack.Error, c.Ack.Received
			}
			s.Parks = append(s.Parks, p)
		}
	}
	if c := s.Configuration(s.AcknowledgedRevision); c != nil && c.Ack.applied() && len(s.Instances) == 0 {
		i := Instance{ID: c.Ack.Instance}
		i.answer(c, c.Ack)
		i.Reached = c.Revision
		s.Instances = []Instance{i}
	}
}

// Basis identifies the reference of a tuning round's candidates.
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
	if p := s.parked(hash); p != nil {
		return fmt.Errorf("%w: %s", ErrRefused, p)
	}
	if s.refuses(hash) {
		return errors.New("the scheduler refuses these values")
	}
	for _, c := range s.Configurations {
		switch {
		case c.Hash != hash:
		case c.State == Proposed:
			return fmt.Errorf("revision %d proposes the same", c.Revision)
		case c.State == Parked:
			return fmt.Errorf("revision %d, which is parked, proposes the same", c.Revision)
		}
	}
	if slices.ContainsFunc(s.Parked(e.At), e.Config.Equal) {
		return errors.New("these values did worse than promised and are parked")
	}
	if c := s.Offered(); c != nil && c.Hash == hash {
		return fmt.Errorf("revision %d, which is on offer, has these values", c.Revision)
	}
	if e.Propose {
		return nil
	}
	if err := s.underWay(); err != nil {
		return err
	}
	if why := cmp.Or(s.Hold(e.At), s.flaps(hash, e.At)); why != "" {
		return errors.New(why)
	}
	return nil
}

// An Event moves revisions from state to state: one of Publish, Acknowledge,
// Confirm, Forget, Approve, Reject, ParkProposal, Unpark, Rollback, Promise, Alarm, Revert, Resume, Respace,
// PinValues, UnpinValues and Tick.
type Event interface {
	apply(t *transition) error
}

// Step returns the state after an event and the revisions that are new or
// differ, in order, with Updated at the time given. The event changes nothing if there are
// none and the Records are equal. The given state and its configurations stay as they are.
// A new revision drops the oldest superseded proposals beyond Keep.
func Step(s State, e Event, at time.Time) (next State, changed []*Configuration, err error) {
	t := transition{State: s, at: at}
	t.Configurations = slices.Clone(s.Configurations)
	t.Parks, t.Instances = slices.Clone(s.Parks), slices.Clone(s.Instances)
	if err := e.apply(&t); err != nil {
		return s, nil, err
	}
	t.settle()
	t.drop(s.LastRevision)
	slices.SortFunc(t.changed, func(a, b *Configuration) int { return cmp.Compare(a.Revision, b.Revision) })
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
	at, _ := t.place(revision)
	c := t.Configurations[at]
	if slices.Contains(t.changed, c) {
		return c
	}
	next := *c
	next.Updated = t.at
	t.Configurations[at] = &next
	t.changed = append(t.changed, &next)
	return &next
}

// set changes the state of a revision if it differs.
func (t *transition) set(c *Configuration, state RevisionState) {
	if c.State != state {
		t.edit(c.Revision).State = state
	}
}

// settle finds the revision in force, and the states of revisions that follow from it.
func (t *transition) settle() {
	t.AcknowledgedRevision = t.reported()
	for _, c := range t.Configurations {
		switch {
		case c.State != Published && c.State != RolledOut && c.State != Superseded || !c.wasOffered():
		case c.Revision == t.AcknowledgedRevision && (t.Wave == nil || c.Revision != t.OfferedRevision):
			t.set(c, RolledOut)
		case c.Revision == t.OfferedRevision || c == t.Stable():
			t.set(c, Published)
		default:
			t.set(c, Superseded)
		}
	}
}

// drop removes superseded proposals beyond Keep, the oldest first, if there is a revision after the last.
func (t *transition) drop(last int64) {
	if t.Keep == 0 || t.LastRevision == last {
		return
	}
	spare := 0
	for _, c := range t.Configurations {
		if c.neverMattered() {
			spare++
		}
	}
	if spare -= t.Keep; spare <= 0 {
		return
	}
	t.Configurations = slices.DeleteFunc(t.Configurations, func(c *Configuration) bool {
		if !c.neverMattered() || spare <= 0 {
			return false
		}
		spare--
		return !t.refersTo(c.Revision)
	})
	t.changed = slices.DeleteFunc(t.changed, func(c *Configuration) bool { return t.Configuration(c.Revision) == nil })
}

// neverMattered reports whether a revision is a superseded proposal about which no operator decided.
func (c *Configuration) neverMattered() bool {
	return c.State == Superseded && !c.wasOffered() && c.Review == nil && c.Incident == nil
}

// refersTo reports whether the records refer to a revision that was not offered.
func (s *State) refersTo(revision int64) bool {
	return revision == s.LastRevision || revision == max(1, s.DefaultRevision) ||
		slices.ContainsFunc(s.Parks, func(p Park) bool { return p.Revision == revision }) ||
		slices.ContainsFunc(s.Instances, func(i Instance) bool {
			return i.Revision == revision || i.Answered == revision || i.Reached == revision
		})
}

func (t *transition) notFound(revision int64) error {
	return fmt.Errorf("revision %d of scheduler %q: %w: 'autosched scheduler config list %s' shows the ones kept",
		revision, t.Scheduler, ErrNotFound, t.Scheduler)
}

func (t *transition) lost(revision int64) error {
	return fmt.Errorf("%w: the record of revision %d of scheduler %q is damaged", ErrState, revision, t.Scheduler)
}

func (t *transition) refused(c *Configuration) error {
	return fmt.Errorf("revision %d of scheduler %q: %w: %s", c.Revision, t.Scheduler, ErrRefused, t.parked(c.Hash))
}

// Publish adds a revision and offers it at an event time, or only proposes it. The result of a round
// is offered in Waves, and not while another rollout is under way.
type Publish struct {
	At       time.Time // of no event if zero
	Config   space.Config
	Origin   Origin
	Reason   string
	Evidence *Evidence
	Propose  bool
}

func (e Publish) apply(t *transition) error {
	if p := t.parked(e.Config.Hash()); p != nil {
		return fmt.Errorf("scheduler %q: %w: %s", t.Scheduler, ErrRefused, p)
	}
	if err := t.underWay(); err != nil && !e.Propose {
		return err
	}
	if _, err := t.moved(e.Config); err != nil {
		return fmt.Errorf("%w: scheduler %q: %w", ErrState, t.Scheduler, err)
	}
	t.publish(e)
	return nil
}

// publish adds a revision. It takes the place of the proposal that waits.
func (t *transition) publish(e Publish) *Configuration {
	t.supersede(Proposed)
	c := t.add(e)
	switch {
	case e.Propose:
	case e.Origin.found():
		t.roll(c, e.At)
	default:
		t.offer(c, e.At)
	}
	return c
}

// add adds a revision that is proposed.
func (t *transition) add(e Publish) *Configuration {
	if moved, err := t.moved(e.Config); err == nil {
		e.Config = moved
	}
	t.LastRevision++
	c := &Configuration{
		Scheduler: t.Scheduler, Revision: t.LastRevision, State: Proposed, Origin: e.Origin, Config: e.Config,
		Hash:    e.Config.Hash(),
		Created: t.at, Updated: t.at, Reason: e.Reason, Evidence: e.Evidence,
	}
	t.Configurations = append(t.Configurations, c)
	t.changed = append(t.changed, c)
	return c
}

// supersede ends proposals in a state.
func (t *transition) supersede(state RevisionState) {
	for _, c := range t.Configurations {
		if c.State == state {
			t.set(c, Superseded)
		}
	}
}

// offer puts a revision on offer to all instances at an event time; if it is zero, at that of the last offer. It
// supersedes proposals, parked or not: they were compared with another offer, and revisions only go forward.
func (t *transition) offer(c *Configuration, at time.Time) {
	if at.IsZero() {
		for _, old := range t.offers() {
			at = old.OfferedAt
		}
	}
	c = t.edit(c.Revision)
	c.State, c.Offered, c.OfferedAt = Published, t.at, at
	t.supersede(Proposed)
	t.supersede(Parked)
	t.OfferedRevision, t.Wave = c.Revision, nil
	if t.Pin != nil && t.Pin.Revision != c.Revision {
		t.Pin = nil
	}
}

// fallBack offers the last good values, under a new revision, if an instance should run the values of
// a refused revision.
func (t *transition) fallBack(refused *Configuration) {
	has := func(c *Configuration) bool { return c != nil && c.Hash == refused.Hash }
	if !has(t.Offered()) && !has(t.Stable()) {
		return
	}
	if good := t.LastGood(refused); good != nil {
		reason := fmt.Sprintf("revision %d was refused; these are the values of revision %d", refused.Revision,
			good.Revision)
		t.publish(Publish{Config: good.Config, Origin: FromRestore, Reason: reason})
	} else if !t.isDefault(refused) {
		t.OfferedRevision, t.Wave = 0, nil
	}
}

// Resume offers the last good values if none are on offer.
type Resume struct{}

func (Resume) apply(t *transition) error {
	if t.OfferedRevision != 0 {
		return nil
	}
	good := t.LastGood(&Configuration{})
	if good == nil {
		return fmt.Errorf("scheduler %q: %w", t.Scheduler, ErrNoCurrent)
	}
	reason := fmt.Sprintf("nothing was on offer; these are the values of revision %d", good.Revision)
	t.publish(Publish{Config: good.Config, Origin: FromRestore, Reason: reason})
	return nil
}

// Approve offers a proposed revision, or a parked one, as Publish does. To approve values that are offered or in force
// already changes nothing.
type Approve struct {
	Revision int64
	// Applied says that an operator has put it in force: every instance runs it.
	Applied    bool
	Actor, Why string    // the requester and the reason
	At         time.Time // the event time
}

func (e Approve) apply(t *transition) error {
	c := t.Configuration(e.Revision)
	switch {
	case c == nil:
		return t.notFound(e.Revision)
	case t.OfferedRevision == e.Revision:
	case !c.undecided():
		next := ""
		if c.State == Superseded {
			next = fmt.Sprintf("; 'autosched scheduler config rollback %s --revision %d' offers its values again",
				t.Scheduler,
				e.Revision)
		}
		return fmt.Errorf("%w: revision %d of scheduler %q is %s, not proposed%s",
			ErrState, e.Revision, t.Scheduler, c.State, next)
	case t.parked(c.Hash) != nil:
		return t.refused(c)
	case e.Applied || !c.Origin.found():
		t.offer(c, e.At)
		t.unpark(c.Hash)
	case t.Wave != nil:
		return t.underWay()
	default:
		t.roll(c, e.At)
		t.unpark(c.Hash)
	}
	if c.undecided() {
		t.edit(e.Revision).Review = &Review{Approved: true, Actor: e.Actor, Why: e.Why, At: t.at}
	}
	if e.Applied {
		t.Wave = nil
		return t.applied(t.Configuration(e.Revision))
	}
	return nil
}

// Rollback offers the values of an earlier revision again, under a new revision,
// so that revisions only go forward.
//
// It may be repeated: to go back to the offered values changes nothing, nor
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
	// Park parks the values gone back from; the registered defaults cannot be, which is
	// ErrState. Actor names the requester, and Why the reason.
	Park       bool
	Actor, Why string
	At         time.Time // the event time
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
		return t.parkLeft(from, e)
	case e.To == 0:
		if to = t.LastGood(from); to == nil {
			return fmt.Errorf("%w: scheduler %q has nothing to go back to: no other revision was applied",
				ErrState, t.Scheduler)
		}
	case to.State == Lost:
		return t.lost(e.To)
	case t.parked(to.Hash) != nil:
		return t.refused(to)
	case !t.inSpace(to):
		return t.outside(to)
	case to.Hash == from.Hash:
		return t.parkLeft(from, e)
	}
	if e.Park && t.isDefault(from) {
		return t.neverParked(from)
	}
	reason := e.because(fmt.Sprintf("%s went back from revision %d to the values of revision %d", e.who(),
		from.Revision, to.Revision))
	t.publish(Publish{At: e.At, Config: to.Config, Origin: FromRestore, Reason: reason}).Left = from.Revision
	t.unpark(to.Hash)
	if e.Park {
		t.park(from, Park{Actor: e.Actor, Why: e.because(e.who() + " went back from these values")})
	}
	return nil
}

func (e *Rollback) who() string {
	if e.Actor == "" || e.Actor == Operator {
		return "an operator"
	}
	return e.Actor
}

// because adds to a text the operator's reason.
func (e *Rollback) because(text string) string {
	if e.Why == "" {
		return text
	}
	return text + ": " + e.Why
}

// parkLeft parks the values that a repeated rollback went back from, if asked to
// and they are not parked yet.
func (t *transition) parkLeft(offered *Configuration, e Rollback) error {
	left := t.Configuration(offered.Left)
	if !e.Park || left == nil || left.Hash == offered.Hash {
		return nil
	}
	if t.isDefault(left) {
		return t.neverParked(left)
	}
	t.park(left, Park{Actor: e.Actor, Why: e.because(e.who() + " went back from these values")})
	return nil
}

// Promise records the prediction for a revision that a round found.
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

// Alarm notes on a revision that it did worse than promised. It stays.
type Alarm struct{ Incident Incident }

func (e Alarm) apply(t *transition) error {
	if t.Configuration(e.Incident.Revision) == nil {
		return t.notFound(e.Incident.Revision)
	}
	t.edit(e.Incident.Revision).Incident = &e.Incident
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
	if to.State == Lost || t.parked(to.Hash) != nil || !t.inSpace(to) {
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
