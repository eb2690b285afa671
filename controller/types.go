package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Errors of Service, besides errors of package rollout. All but ErrClosed come
// wrapped, with the scheduler they are about.
var (
	ErrClosed       = errors.New("the service is closed")
	ErrNotFound     = rollout.ErrNotFound // of a scheduler or a revision
	ErrExists       = errors.New("already exists")
	ErrRequestReuse = errors.New("request id was used for another request")
	ErrQuarantined  = errors.New("quarantined: its record is damaged or not accepted")
	ErrOutsideSpace = errors.New("configuration is outside the registered space")
	ErrStale        = errors.New("another process changed the scheduler; restart this one")
)

// Mode says where a better configuration goes.
type Mode string

// The modes.
const (
	Recommend Mode = "recommend" // recorded as proposed
	Auto      Mode = "auto"      // offered to the scheduler
)

// Policy says when a scheduler's rounds run, and has their settings.
type Policy struct {
	UpdateInterval time.Duration `json:"update_interval"`
	// Weight is the share of the time of rounds, beside other schedulers; 0 is 1.
	Weight float64 `json:"weight,omitempty"`
	// AllowedLateness is how long after its instant, in event time, a round waits for events
	// of other streams. Not at all unless it is positive.
	AllowedLateness time.Duration `json:"allowed_lateness,omitempty"`
	// AckDeadline is how long an instance may take to acknowledge an offer before
	// it is degraded; 0 for DefaultAckDeadline, negative for any time.
	AckDeadline time.Duration `json:"ack_deadline,omitempty"`
	round.Settings
	Limits rollout.Limits `json:"limits"`
	Waves  rollout.Waves  `json:"waves,omitzero"`
}

// UnmarshalJSON reads a policy. One without limits has the default ones.
func (p *Policy) UnmarshalJSON(text []byte) error {
	type plain Policy
	read := plain{Limits: rollout.DefaultLimits()}
	err := json.Unmarshal(text, &read)
	*p = Policy(read)
	return err
}

func (p *Policy) weight() float64 {
	if p.Weight > 0 {
		return p.Weight
	}
	return 1
}

// defaultLateness is more than streams of one scheduler are apart, and little beside an interval.
const defaultLateness = time.Minute

// DefaultAckDeadline is twice as long as a poller that backs off takes.
const DefaultAckDeadline = 10 * time.Minute

// DefaultPolicy decides hourly.
func DefaultPolicy() Policy {
	return Policy{UpdateInterval: round.DefaultInterval, AllowedLateness: defaultLateness,
		AckDeadline: DefaultAckDeadline,
		Settings:    round.DefaultSettings(), Limits: rollout.DefaultLimits()}
}

// External is the type of a scheduler that is not simulated: it has a space and a metric of its own,
// no rounds are decided for it, and studies tune it.
const External = "external"

// Registration describes a scheduler to the service.
type Registration struct {
	ID          string           `json:"id"`
	DisplayName string           `json:"display_name,omitempty"`
	Type        string           `json:"type"`
	Params      []space.Param    `json:"params"`
	Rules       []space.Rule     `json:"rules"`
	Objective   string           `json:"objective"`
	Cluster     workload.Cluster `json:"cluster"`
	Policy      Policy           `json:"policy"`
	Mode        Mode             `json:"mode"`
	Simulation  Simulation       `json:"simulation"`
	// Labels are for callers to select schedulers by, Annotations are their notes.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Creator is the name of the caller that registered it, "" if it was not identified.
	Creator string `json:"creator,omitempty"`
}

// Simulation says how rounds simulate a scheduler and its cluster. The zero
// Simulation is the simulator's default.
type Simulation struct {
	// MaxPreemptions and MinRun bound the preemptions of a job
	// (simulator.Protection).
	MaxPreemptions int           `json:"max_preemptions,omitempty"`
	MinRun         time.Duration `json:"min_run,omitempty"`
	// Models are performance models, restart costs among them; nil for the
	// built-in ones.
	Models *simulator.ModelSpec `json:"models,omitempty"`
}

func (s *Simulation) equal(other *Simulation) bool { return reflect.DeepEqual(s, other) }

// options are the simulator's.
func (s *Simulation) options() simulator.Options {
	o := simulator.Options{Protect: simulator.Protection{MaxPreemptions: s.MaxPreemptions, MinRun: s.MinRun}}
	if s.Models != nil {
		o.Models = s.Models.Models()
	}
	return o
}

// Scheduler is a registered scheduler as stored.
type Scheduler struct {
	Registration
	UID string `json:"uid"`
	// Version counts the stored changes, from 1; 0 before the first in a record of an older version.
	Version int64 `json:"version,omitempty"`
	// Generation counts the changes by operators, from 1; 0 before the first in a
	// record of an older version.
	Generation int64 `json:"generation,omitempty"`
	// Revision counts the changes of parameters, rules, cluster and objective, from 1; 0 is 1, of
	// a scheduler without changes.
	Revision int64     `json:"revision,omitempty"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	// Zero is instant 0 of the scheduler's ledger: the midnight (UTC) before the
	// first event. The zero Time before there is one.
	Zero time.Time `json:"zero"`
	rollout.Records
	// Round is the last round decided; rounds begin after the first event's.
	Round int64 `json:"round"`
	// Deleted is when the scheduler was deleted, and Expires when it is purged; zero if it is not
	// deleted.
	Deleted time.Time `json:"deleted,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Paused keeps rounds from being decided; events are still ingested.
	Paused bool `json:"paused,omitempty"`
	// Pause says who paused it and why; nil if it is not paused, or an older version did.
	Pause *Pause `json:"pause,omitempty"`
	// Freeze keeps the configuration from being changed, but by operators; nil for none.
	Freeze *rollout.Freeze `json:"freeze,omitempty"`
	// ClockSet counts how often events that agreed set the event clock.
	ClockSet int64 `json:"clock_set,omitempty"`
	// Experience has the results of earlier rounds, for the next one.
	Experience json.RawMessage `json:"experience,omitempty"`
	// Probation is that of the last revision that a round found and that took effect; nil
	// before the first.
	Probation *rollout.Probation `json:"probation,omitempty"`
	// Operations are the latest that callers asked for, oldest first.
	Operations []Operation `json:"operations,omitempty"`
}

// Pause is an operator's.
type Pause struct {
	Actor   string    `json:"actor"` // of audit.Origin
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
}

// Status is where the service stands with a scheduler.
// Event time and events are zero until the events are read, which LastDecision says.
type Status struct {
	EventTime time.Time // zero before the first event
	Events    int64
	// Rounds that ended since the service started, urgent decisions between them included,
	// and how many of them failed.
	Rounds, Failures int64
	LateEvents       int64 // that came too late for the round at or after them, since the service started
	// Failing is how many rounds failed since the last one that did not.
	Failing      int
	Watchers     int
	LastDecision string
	LastError    string
	// Fidelity says how far the simulation describes the delays of the last days; empty
	// until jobs enough have started.
	Fidelity string
	// Deciding reports whether a round, a look or an answer is due or under way.
	Deciding bool
	// Hold says why tuning changes nothing now; empty if it may.
	Hold string
	// Watching describes the trial of the running revision; empty if nothing is on trial.
	Watching string
	// Proposed is the revision that waits for an operator, 0 for none.
	Proposed int64
	// Incident is the last revision with one, nil if there is none.
	Incident *rollout.Configuration
	// Degraded is why the scheduler is, empty if it is not.
	Degraded  string
	Instances []InstanceStatus
}

// InstanceStatus is an instance, and how it stands to the revision that it should run.
type InstanceStatus struct {
	rollout.Instance
	Desired   int64 // 0 for none
	Condition rollout.Condition
	Why       string // it is degraded
}

// SchedulerRevision has the space, the cluster and the objective of a scheduler at a time.
type SchedulerRevision struct {
	Number    int64            `json:"number"` // from 1
	Created   time.Time        `json:"created"`
	Params    []space.Param    `json:"params"`
	Rules     []space.Rule     `json:"rules"`
	Objective string           `json:"objective"`
	Cluster   workload.Cluster `json:"cluster"`
	// Space is that of Params and Rules.
	Space *space.Space `json:"-"`
	// Damage says why its record cannot be read. Then it has only its Number.
	Damage error `json:"-"`
}

// Deletion is when a scheduler was deleted and when it expires; zero if it was undeleted.
type Deletion struct {
	Deleted time.Time `json:"deleted,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
}

// Change is written whole or not at all.
type Change struct {
	// Scheduler is the record after the change, whose Version is one above that of the stored one; 1 for a new one.
	Scheduler Scheduler
	// Revisions are the scheduler's before the change and after, if it has another one.
	Revisions []SchedulerRevision
	// Deletion, of a quarantined scheduler, is stored beside its records, which stay as they are.
	Deletion       *Deletion
	Configurations []*rollout.Configuration
	Dropped        []int64 // revisions whose records go
	Request        *Request
	// Audit is the record of the change, without its place in the log; nil for notes of rounds and
	// looks note of themselves.
	Audit *audit.Record
}

// Apply returns the revisions after the change, of those before it.
func (c *Change) Apply(before []*rollout.Configuration) []*rollout.Configuration {
	dropped := slices.Sorted(slices.Values(c.Dropped))
	after := slices.DeleteFunc(slices.Clone(before), func(one *rollout.Configuration) bool {
		_, gone := slices.BinarySearch(dropped, one.Revision)
		return gone
	})
	for _, one := range c.Configurations {
		at, found := slices.BinarySearchFunc(after, one.Revision, func(c *rollout.Configuration, revision int64) int {
			return cmp.Compare(c.Revision, revision)
		})
		if found {
			after[at] = one
		} else {
			after = slices.Insert(after, at, one)
		}
	}
	return after
}

// Expired has the records that no caller can reach.
type Expired struct {
	// Scheduler is the id of a scheduler that was deleted, UID its uid; "" if none was.
	Scheduler, UID string
	Requests       []RequestKey
	Audit          *audit.Record // of the scheduler's end
}

// Saved is a scheduler as a store has it.
type Saved struct {
	Scheduler      Scheduler
	Space          *space.Space             // of the scheduler's parameters and rules
	Revisions      []SchedulerRevision      // by number; none if there is one only
	Configurations []*rollout.Configuration // by revision, from 1, without dropped ones; Lost where a record is damaged
	// Fault is the fault of the scheduler's record, nil for none. Then only the id may be
	// there; without a Space no configuration is.
	Fault error
}

// Damage is a part of the store that differs from the written one. It stays where it is.
type Damage struct {
	File    string
	Records int   // that are damaged, 0 if whole pages are
	Err     error // names the first
}

// Retention says which events a store may drop.
type Retention struct {
	// Before is the day before which files are old. It is the first that stays.
	Before time.Time
	// Needs returns two functions for the events of a scheduler in old files. The first is called
	// with each of them, then the second, which returns the part of it to keep, if any.
	Needs func(scheduler string) (note func(workload.Event), rest func(workload.Event) (workload.Event, bool),
		err error)
	// Cut has what Needs follows from, for stores that other nodes copy.
	Cut func(scheduler string) (Cut, error)
}

// Cut says which events of a scheduler are needed: all from an event time on, and those before it on which the state
// of jobs and of the cluster rests.
type Cut struct {
	From    time.Duration    `json:"from"`
	Cluster workload.Cluster `json:"cluster"`
}

// ErrDropped is the error of events that are not there any more.
var ErrDropped = errors.New("dropped by retention")

// Store keeps the records of Service. Writes that return nil are durable.
type Store interface {
	// Commit writes a change. It is an ErrStale, and nothing is written, if the change does not follow the stored
	// version, and an error if new configurations leave a gap or stored ones get other values.
	Commit(ctx context.Context, c Change) error
	// Purge removes expired records.
	Purge(ctx context.Context, e Expired) error
	// Remember stores a request that changed nothing.
	Remember(ctx context.Context, r Request) error
	// Note appends a record to the audit log, of a change that is stored elsewhere.
	Note(ctx context.Context, r audit.Record) error
	// Epoch is that of the store while it is open.
	Epoch() Epoch
	AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error
	// Load and ReplayEvents pass over damaged records and report them.
	Load() (saved []Saved, requests []Request, damage []Damage, err error)
	// Audit calls visit with the lines of the audit log and their places in it until it returns false: from a place
	// on in order, or with newestFirst from a place back, of which 0 is the last. A damaged record comes with an
	// error, and so do the records of files that are passed over, once at the last of their places. The result is
	// the error of such files.
	Audit(from int64, newestFirst bool, visit func(place int64, line []byte, err error) bool) error
	// ArchiveAudit moves the audit log of former days out of the way of changes, and drops archives of days before
	// keep, none if it is zero.
	ArchiveAudit(ctx context.Context, keep time.Time) error
	// KeepRound stores the record of a round of the scheduler with a uid, in place of one with the
	// same sequence, and drops all but the newest keep.
	KeepRound(uid string, sequence int64, record []byte, keep int) error
	// Cursor is the place of the last event of a scheduler, "" if there is none.
	Cursor(scheduler string) (string, error)
	// DropEvents drops the old files of events, except for needed events, and returns their
	// names.
	DropEvents(ctx context.Context, keep Retention) (dropped []string, err error)
	RoundLog
	EventLog
}

// RoundLog is the part of Store that reads rounds.
type RoundLog interface {
	// Rounds calls visit with the records of the scheduler with a uid before a sequence, newest
	// first, until it returns false. All are before 0. A damaged one comes with an error.
	Rounds(uid string, before int64, visit func(sequence int64, record []byte, err error) bool) error
	// EventsUntil calls apply with the stored events of a scheduler up to a cursor. It passes over
	// damaged records, and returns the first of them as unread. The error is ErrDropped if the
	// file of the cursor is dropped.
	EventsUntil(scheduler, cursor string, apply func(workload.Event) error) (unread, err error)
}
