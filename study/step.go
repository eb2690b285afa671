package study

import (
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// An Event is one of Suggest, Create, CreateAll, Measure, Complete, Stop, Check, Renew, Tick, Evaluate, Pause, Resume
// and Cancel.
type Event interface {
	apply(t *transition) error
}

// Step returns the state after an event at a time, and the trials that are new or differ, in order. The
// event changes nothing if there are none and the Record is equal but for Updated. The given state and its
// trials stay as they are.
func Step(s State, e Event, at time.Time) (next State, changed []*Trial, err error) {
	t := transition{State: s, at: at}
	t.Trials = slices.Clone(s.Trials)
	if err := e.apply(&t); err != nil {
		return s, nil, err
	}
	t.settle()
	if t.Phase != Completed && t.Phase != Cancelled {
		t.Over = time.Time{}
	} else if t.Phase != s.Phase && s.Over.IsZero() {
		t.Over = at
	}
	slices.SortFunc(t.changed, func(a, b *Trial) int { return int(a.ID - b.ID) })
	return t.State, t.changed, nil
}

// transition is a State that an event is changing.
type transition struct {
	State
	at      time.Time
	changed []*Trial
}

// edit returns a copy of a trial that may be changed.
func (t *transition) edit(id int64) *Trial {
	one := t.Trials[id-1]
	if slices.Contains(t.changed, one) {
		return one
	}
	next := *one
	t.Trials[id-1] = &next
	t.changed = append(t.changed, &next)
	return &next
}

// add adds a trial.
func (t *transition) add(state TrialState, c space.Config, from search.Provenance) *Trial {
	t.LastTrial++
	one := &Trial{ID: t.LastTrial, State: state, Values: []byte(c.Canonical()), Config: c, Origin: from.Origin,
		Prediction: from.Prediction, Suggested: from.Suggested, Narrowed: from.Narrowed, Created: t.at}
	t.Trials = append(t.Trials, one)
	t.changed = append(t.changed, one)
	return one
}

// end ends a trial.
func (t *transition) end(id int64, state TrialState, final *Measurement, reason string) {
	one := t.edit(id)
	t.Ended++
	one.State, one.Final, one.Reason, one.Ended, one.Order = state, final, reason, t.at, t.Ended
	one.Expires = time.Time{}
}

// settle finds whether the study is complete.
func (t *transition) settle() {
	if t.Phase != Active && t.Phase != Completed {
		return
	}
	open := slices.ContainsFunc(t.Trials, func(one *Trial) bool { return one.State.Open() })
	t.Phase = Active
	if !open && (t.Stopped != "" || t.Used() >= t.Spec.Budget) {
		t.Phase = Completed
	}
}

// find returns a trial.
func (t *transition) find(id int64) (*Trial, error) {
	if one := t.Trial(id); one != nil {
		return one, nil
	}
	return nil, fmt.Errorf("trial %d of study %q: %w", id, t.ID, ErrNotFound)
}

func (t *transition) wrong(one *Trial, why string) error {
	return fmt.Errorf("%w: trial %d of study %q is %s: %s", ErrState, one.ID, t.ID, one.State, why)
}

// expire makes trials stale whose leases are over, and requests their configurations again.
func (t *transition) expire() {
	for _, one := range slices.Clone(t.Trials) {
		if !one.expired(t.at) {
			continue
		}
		why := fmt.Sprintf("client %q renewed its lease no more", one.Client)
		stale := t.edit(one.ID)
		again := one.State == Running && one.Attempt+1 < maxAttempts && t.Phase != Cancelled
		if !again || len(t.Trials) >= MaxTrials {
			t.end(one.ID, Stale, nil, why)
			continue
		}
		stale.State, stale.Reason, stale.Expires, stale.Ended = Stale, why, time.Time{}, t.at
		retry := t.add(Requested, one.Config, search.Provenance{Origin: one.Origin, Prediction: one.Prediction,
			Suggested: one.Suggested, Narrowed: one.Narrowed})
		retry.RetryOf, retry.Attempt = one.ID, one.Attempt+1
		stale.Retry = retry.ID
	}
}

// Tick makes trials stale whose leases are over.
type Tick struct{}

func (Tick) apply(t *transition) error {
	t.expire()
	return nil
}

// Suggest gives a client trials: its own ones, then others, until it holds Count. The rest are proposals
// of an Engine since.
type Suggest struct {
	Client string
	Count  int
	Asked
}

func (e Suggest) apply(t *transition) error {
	t.expire()
	held := len(t.Held(e.Client, e.Count))
	switch {
	case held > 0 && held >= e.Count:
		return nil
	case t.Phase == Paused || t.Phase == Cancelled:
		if held > 0 {
			return nil
		}
		return fmt.Errorf("%w: study %q is %s", ErrState, t.ID, t.Phase)
	}
	for _, p := range e.Proposals {
		t.add(Requested, p.Config, p.Provenance)
	}
	for _, r := range e.Rejected {
		one := t.add(Skipped, r.Config, r.Provenance)
		one.Reason = r.Reason
	}
	if e.Step > t.Step {
		t.Step, t.Sampler = e.Step, e.State
	}
	if e.Choice != "" {
		t.Choice = e.Choice
	}
	if e.Stopped != "" {
		t.Stopped = e.Stopped
	}
	running := t.Count()[Running]
	for _, one := range slices.Clone(t.Trials) {
		if one.State != Requested || held >= e.Count {
			continue
		}
		if running >= MaxActive {
			break
		}
		next := t.edit(one.ID)
		next.State, next.Client, next.Started, next.Expires = Running, e.Client, t.at, t.at.Add(t.Spec.Lease)
		held++
		running++
	}
	return nil
}

// Create adds a trial that a user wants: with Final it has ended, otherwise the next client gets it. A configuration
// with a measurement ends with it, unless the study allows repeats.
type Create struct {
	Config space.Config
	Final  *Measurement
	// Failure or Infeasible is why one that was tried before has no measurement.
	Failure, Infeasible string
}

func (e Create) apply(t *transition) error {
	if t.Phase == Cancelled {
		return fmt.Errorf("%w: study %q is %s", ErrState, t.ID, t.Phase)
	}
	if len(t.Trials) >= MaxTrials {
		return fmt.Errorf("%w: study %q has %d trials", ErrLimit, t.ID, len(t.Trials))
	}
	var before *Trial
	for _, one := range t.Trials {
		if t.Spec.AllowRepeats || e.Final != nil || e.Failure+e.Infeasible != "" || !one.Config.Equal(e.Config) {
			continue
		}
		if one.State.Open() {
			return fmt.Errorf("trial %d of study %q, of the same configuration: %w", one.ID, t.ID, ErrExists)
		}
		if one.State == Succeeded && one.SameAs == 0 {
			before = one
		}
	}
	one := t.add(Requested, e.Config, search.Provenance{Origin: User})
	switch {
	case e.Final != nil:
		t.end(one.ID, Succeeded, e.Final, "")
	case e.Infeasible != "":
		t.end(one.ID, Infeasible, nil, e.Infeasible)
	case e.Failure != "":
		t.end(one.ID, Failed, nil, e.Failure)
	case before != nil:
		t.end(one.ID, Succeeded, before.Final, "")
		t.edit(one.ID).SameAs = before.ID
	}
	return nil
}

// CreateAll adds several trials, or none.
type CreateAll struct{ Trials []Create }

func (e CreateAll) apply(t *transition) error {
	for i, one := range e.Trials {
		if err := one.apply(t); err != nil {
			return fmt.Errorf("trials[%d]: %w", i, err)
		}
	}
	return nil
}

// Measure adds a measurement before the last one, and renews the lease.
type Measure struct {
	Trial int64
	Measurement
}

func (e Measure) apply(t *transition) error {
	one, err := t.find(e.Trial)
	if err != nil {
		return err
	}
	if one.State != Running && one.State != Stopping {
		return t.wrong(one, "measurements are added to active trials")
	}
	if n := len(one.Measurements); n > 0 {
		last := &one.Measurements[n-1]
		if last.same(&e.Measurement) {
			return nil // sent again
		}
		if e.Step <= last.Step {
			return fmt.Errorf("%w: step %d of trial %d is not after the one before, %d", ErrState, e.Step, one.ID,
				last.Step)
		}
		if n >= MaxMeasurements {
			return fmt.Errorf("%w: trial %d has %d measurements", ErrLimit, one.ID, n)
		}
	}
	next := t.edit(one.ID)
	next.Measurements = append(slices.Clone(one.Measurements), e.Measurement)
	next.Expires = t.at.Add(t.Spec.Lease)
	return nil
}

// Complete ends a trial: with its last measurement, or as failed or infeasible with a reason. Without any,
// the last of its measurements is the final one. A stale trial is completed once, too. To complete it with
// the same again changes nothing.
type Complete struct {
	Trial      int64
	Final      *Measurement
	Failure    string
	Infeasible string
}

func (e Complete) apply(t *transition) error {
	one, err := t.find(e.Trial)
	if err != nil {
		return err
	}
	final := e.Final
	if n := len(one.Measurements); final == nil && e.Failure == "" && e.Infeasible == "" {
		if n == 0 {
			return fmt.Errorf("%w: trial %d has no measurement yet: the final one is missing, as METRIC=NUMBER of 'autosched study trial tell'", ErrState, one.ID)
		}
		final = &one.Measurements[n-1]
		if why := t.Spec.Check(final, true); why != "" {
			return fmt.Errorf("%w: the last measurement of trial %d: %s", ErrState, one.ID, why)
		}
	}
	state, reason := Succeeded, ""
	switch {
	case e.Infeasible != "":
		state, reason = Infeasible, e.Infeasible
	case e.Failure != "":
		state, reason = Failed, e.Failure
	}
	switch one.State {
	case Requested, Running, Stopping:
		t.end(one.ID, state, final, reason)
	case Stale:
		t.end(one.ID, state, final, reason)
		t.edit(one.ID).WasStale = true
		if retry := t.Trial(one.Retry); retry != nil && retry.State == Requested {
			t.end(retry.ID, Skipped, nil, fmt.Sprintf("trial %d was measured after all", one.ID))
			t.edit(one.ID).Retry = 0
		}
	default:
		if one.State == state && one.Reason == reason && (final == nil) == (one.Final == nil) &&
			(final == nil || final.same(one.Final)) {
			return nil
		}
		return t.wrong(one, "it has ended already")
	}
	return nil
}

// Stop asks the client of a trial to end it. One that no client holds is skipped.
type Stop struct{ Trial int64 }

func (e Stop) apply(t *transition) error {
	one, err := t.find(e.Trial)
	if err != nil {
		return err
	}
	switch one.State {
	case Requested:
		t.end(one.ID, Skipped, nil, "it was stopped before it began")
	case Running:
		t.edit(one.ID).State = Stopping
	case Stopping:
	default:
		return t.wrong(one, "it has ended already")
	}
	return nil
}

// Check stops a trial that will hardly be better than others (State.Hopeless).
type Check struct{ Trial int64 }

func (e Check) apply(t *transition) error {
	one, err := t.find(e.Trial)
	if err != nil {
		return err
	}
	if one.State == Running && t.Hopeless(one) {
		t.edit(one.ID).State = Stopping
	}
	return nil
}

// Renew renews the lease of a trial.
type Renew struct{ Trial int64 }

func (e Renew) apply(t *transition) error {
	one, err := t.find(e.Trial)
	if err != nil {
		return err
	}
	if one.State != Running && one.State != Stopping {
		return t.wrong(one, "only an active trial has a lease")
	}
	t.edit(one.ID).Expires = t.at.Add(t.Spec.Lease)
	return nil
}

// Evaluate lets an evaluator measure trials, in place of the one before. Since is set.
type Evaluate struct{ Run }

func (e Evaluate) apply(t *transition) error {
	if t.Phase == Cancelled || t.Phase == Completed {
		return fmt.Errorf("%w: study %q is %s", ErrState, t.ID, t.Phase)
	}
	e.Since = t.at
	if before := t.Run; before != nil {
		same := e.Run
		if same.Since, same.Actor = before.Since, before.Actor; same == *before {
			return nil
		}
	}
	t.Run = &e.Run
	return nil
}

// Pause suggests nothing new until Resume. A study that is complete stays so.
type Pause struct{}

func (Pause) apply(t *transition) error {
	switch t.Phase {
	case Cancelled:
		return fmt.Errorf("%w: study %q is %s", ErrState, t.ID, t.Phase)
	case Active:
		t.Phase = Paused
	}
	return nil
}

// Resume ends a pause.
type Resume struct{}

func (Resume) apply(t *transition) error {
	switch t.Phase {
	case Cancelled:
		return fmt.Errorf("%w: study %q is %s", ErrState, t.ID, t.Phase)
	case Paused:
		t.Phase = Active
	}
	return nil
}

// Cancel ends a study that is not complete: trials that wait are skipped, clients should end the ones they hold.
type Cancel struct{}

func (Cancel) apply(t *transition) error {
	for _, one := range slices.Clone(t.Trials) {
		switch one.State {
		case Requested:
			t.end(one.ID, Skipped, nil, "the study was cancelled")
		case Running:
			t.edit(one.ID).State = Stopping
		}
	}
	if t.Phase != Completed {
		t.Phase = Cancelled
	}
	return nil
}
