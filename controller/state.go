package controller

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/autosched/autosched/controller/history"
	"github.com/autosched/autosched/controller/watch"
	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// schedulerState is a registered scheduler in memory.
//
// Locks are taken in this order, left first, and never the other way:
//
//	the turn of the queue < ingesting < committing < watchers
//	               ingesting < mu < Service.mu
//	        Service.creating < ingesting, mu < watchers
//
// committing and mu are never held together. Neither mu nor Service.mu is held
// while the store reads or writes; the others may be: creating by a registration,
// the turn by a round or a look.
type schedulerState struct {
	id       string
	snapshot atomic.Pointer[snapshot] // replaced with committing held
	watchers watch.Hub
	fault    error         // why it is quarantined; nil if it is not
	ready    chan struct{} // closed once its history is read
	gone     chan struct{} // closed, with committing held, once it is purged

	learner learner

	committing sync.Mutex // one Change at a time
	explaining sync.Mutex // one explanation at a time: its futures take memory; taken alone
	ingesting  sync.Mutex // one group of calls at a time; its holder replaces history and moves its clock

	// Of the loop and its tasks, without a lock.
	futures    futures
	replays    round.Replays
	recorded   int64         // the sequence of the last RoundRecord, 0 before the first
	fidelityAt time.Duration // instant of status.Fidelity

	mu           sync.Mutex // guards all below
	inbox        inbox
	history      *history.History
	broken       bool // a task panicked; the ledger waits to be rebuilt
	agenda       agenda
	backoff      backoff
	marks        marks
	lastReportAt time.Time     // the latest report of metrics
	lastEventsAt time.Time     // the service's time of the latest events since the start
	skew         time.Duration // by which the latest of these events were ahead of it
	ahead        foreseen
	gained       gained
	predictor    *generation.Predictor // of the latest futures
	predictedSet int64                 // the snapshot's ClockSet then
	tenants      []tenantSums          // the latest first
	graded       graded
	metered      metered
	status       Status // of rounds
}

// watermark is the event time up to which all events are taken to be there. The caller must hold mu.
func (m *schedulerState) watermark(v *snapshot) time.Duration {
	return m.history.Now() - max(0, v.Policy.AllowedLateness)
}

// newSchedulerState returns a scheduler as it was saved, which keeps a number of superseded proposals. One whose
// registration is not accepted, or whose configuration in force or on offer is Lost, has a fault: it serves the last
// good one and does nothing else.
func newSchedulerState(one Saved, keep int) *schedulerState {
	goal, err := parseGoal(&one.Scheduler)
	m := &schedulerState{id: one.Scheduler.ID, history: history.New(one.Scheduler.Cluster),
		fault: cmp.Or(one.Fault, err), ready: make(chan struct{}), gone: make(chan struct{}),
		learner: newLearner(), agenda: agenda{chosen: make(chan *task, 1)}, backoff: newBackoff()}
	v := &snapshot{Scheduler: one.Scheduler, space: one.Space, revisions: one.Revisions, goal: goal,
		configs: one.Configurations, keep: keep}
	if len(v.revisions) == 0 {
		v.revisions = []SchedulerRevision{v.revision(one.Scheduler.Created)}
	}
	state := v.rollout()
	state.Upgrade()
	v.Records = state.Records
	for _, c := range []*rollout.Configuration{state.Offered(), state.Stable(),
		state.Configuration(state.AcknowledgedRevision)} {
		if c != nil && c.State == rollout.Lost {
			m.fault = cmp.Or[error](m.fault, errors.New(c.Reason))
		}
	}
	if m.fault != nil {
		state.Salvage()
		v.Records = state.Records
		m.status.LastError = "quarantined: " + m.fault.Error()
	}
	m.snapshot.Store(v)
	return m
}

// isReady reports whether its history is read.
func (m *schedulerState) isReady() bool { return isClosed(m.ready) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (m *schedulerState) quarantined() error {
	return fmt.Errorf("scheduler %q is %w: %w; restore the store from a backup, start a version that accepts it, "+
		"or delete it",
		m.id, ErrQuarantined, m.fault)
}

// parseGoal reads the goal of rounds. The objective of an external scheduler is the name of a metric
// that studies measure.
func parseGoal(s *Scheduler) (round.Goal, error) {
	if s.Type == External {
		return round.Goal{}, nil
	}
	goal, err := round.ParseGoal(s.Objective)
	if err != nil {
		return goal, fmt.Errorf("controller: scheduler %q: %w", s.ID, err)
	}
	return goal, nil
}

// append notes stored events, the last of which is at a cursor. Events that come while a
// round or a look has the ledger enter it when that is over.
func (m *schedulerState) append(events []workload.Event, cursor string, late int64, zero, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	latest := events[0].Time
	for i := range events {
		latest = max(latest, events[i].Time)
	}
	m.lastEventsAt, m.skew = now, zero.Add(latest).Sub(now)
	m.status.LateEvents += late
	m.history.Append(events, cursor)
	m.applyPending()
}

// applyPending brings the ledger up to date, unless a task has it. The caller must hold mu.
func (m *schedulerState) applyPending() {
	if m.agenda.task != nil || m.broken {
		return
	}
	m.history.Apply()
	m.history.Trim(m.snapshot.Load().horizon(m.history.Now()))
}

// eventTime is the event time as far as it is known: of a scheduler that sends no events that of its reports, and at
// least that of the last incident, which a restart does not forget. It is zero before the first of these.
func (m *schedulerState) eventTime() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.eventTimeLocked()
}

// eventTimeLocked is eventTime with mu held.
func (m *schedulerState) eventTimeLocked() time.Time {
	v := m.snapshot.Load()
	if v.Zero.IsZero() {
		state, at := v.rollout(), m.lastReportAt
		if c := state.LastIncident(); c != nil && c.Incident.At.After(at) {
			at = c.Incident.At
		}
		return at
	}
	return v.Zero.Add(max(m.history.Now(), v.roundTime()))
}

// snapshot is the state of a scheduler for readers. It is never changed, only
// replaced.
type snapshot struct {
	Scheduler
	space     *space.Space             // of its Params and Rules; nil if nothing can be read of it
	revisions []SchedulerRevision      // by number, from 1
	goal      round.Goal               // its Objective
	configs   []*rollout.Configuration // by revision, from 1, without dropped ones
	keep      int                      // superseded proposals
}

// revision is the present one of the scheduler, which began at a time.
func (v *snapshot) revision(since time.Time) SchedulerRevision {
	return SchedulerRevision{Number: max(1, v.Revision), Created: since, Params: v.Params, Rules: v.Rules,
		Objective: v.Objective, Cluster: v.Cluster, Space: v.space}
}

func (v *snapshot) rollout() rollout.State {
	return rollout.State{Scheduler: v.ID, Records: v.Records, Configurations: v.configs, Limits: v.Policy.Limits,
		Freeze: v.Freeze, Waves: v.Policy.Waves, Space: v.space, Keep: v.keep}
}

// config returns a revision, or nil.
func (v *snapshot) config(revision int64) *rollout.Configuration {
	state := v.rollout()
	return state.Configuration(revision)
}

// desired returns the revision that an instance should run, nil for none.
func (v *snapshot) desired(instance string) *rollout.Configuration {
	state := v.rollout()
	return state.Desired(instance)
}

// step returns the change that an event of the rollout makes, nil for none.
func (v *snapshot) step(e rollout.Event, now time.Time) (*Change, error) {
	next, changed, err := rollout.Step(v.rollout(), e, now)
	if err != nil || len(changed) == 0 && next.Records.Equal(&v.Records) {
		return nil, err
	}
	c := &Change{Scheduler: v.Scheduler, Configurations: changed}
	c.Scheduler.Records = next.Records
	for _, old := range v.configs {
		if next.Configuration(old.Revision) == nil {
			c.Dropped = append(c.Dropped, old.Revision)
		}
	}
	return c, nil
}

// roundTime is the instant of the last round. The clock is never before it.
func (v *snapshot) roundTime() time.Duration {
	return time.Duration(v.Round) * v.Policy.UpdateInterval
}

// horizon is the event time before which nothing counts once the clock shows an instant. It follows the clock, so that
// what is kept of a scheduler without rounds is bounded, too.
func (v *snapshot) horizon(now time.Duration) time.Duration {
	return max(v.roundTime()-round.Retention, v.lookback(now))
}

// passed is the round before the one that is due at an instant of the clock.
func (v *snapshot) passed(now time.Duration) int64 {
	return dueRound(now-max(0, v.Policy.AllowedLateness), v.Policy.UpdateInterval) - 1
}

// lookback is the event time that no round looks back to which begins once the clock shows an instant.
func (v *snapshot) lookback(now time.Duration) time.Duration {
	return time.Duration(v.passed(now))*v.Policy.UpdateInterval - round.Retention
}
