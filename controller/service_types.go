package controller

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The errors that callers of Service tell apart. All but the first two come
// wrapped, with what they are about.
var (
	ErrClosed       = errors.New("the service is closed")
	ErrNoCurrent    = errors.New("the scheduler refused every configuration it was offered")
	ErrNotFound     = errors.New("not found")
	ErrExists       = errors.New("already exists")
	ErrRequestReuse = errors.New("request id was used for another request")
	ErrRefused      = errors.New("configuration was refused and is parked")
	ErrState        = errors.New("wrong state")
	ErrChanged      = errors.New("another configuration is on offer by now")
	ErrOutsideSpace = errors.New("configuration is outside the registered space")
)

// Mode says where a better configuration goes.
type Mode string

// The modes.
const (
	Recommend Mode = "recommend" // recorded as proposed
	Auto      Mode = "auto"      // offered to the scheduler
)

// Policy says when a scheduler's rounds run and what they ask for.
type Policy struct {
	UpdateInterval time.Duration `json:"update_interval"`
	MinRatio       float64       `json:"min_ratio"`
	Horizon        time.Duration `json:"horizon"`
	Futures        int           `json:"futures"`
	Budget         int           `json:"budget"`
	Seed           uint64        `json:"seed"`
}

// DefaultPolicy is the hourly round of DESIGN.md section 8.
func DefaultPolicy() Policy {
	return Policy{UpdateInterval: time.Hour, MinRatio: 1.05, Horizon: 4 * time.Hour, Futures: 4, Budget: 40}
}

// Registration is what an operator says of a scheduler.
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
}

// Scheduler is a registered scheduler as stored.
type Scheduler struct {
	Registration
	UID     string    `json:"uid"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Zero is instant 0 of the scheduler's ledger: the midnight (UTC) before the
	// first event. The zero Time before there is one.
	Zero time.Time `json:"zero"`
	// Last is the newest revision, Served the one offered to the scheduler (0 if
	// it refused all), Acknowledged the newest one it said it runs.
	Last         int64 `json:"last"`
	Served       int64 `json:"served"`
	Acknowledged int64 `json:"acknowledged"`
	// Round is the last round decided; rounds begin after the first event's.
	Round int64 `json:"round"`
	// Paused keeps rounds from being decided; events are taken in.
	Paused bool `json:"paused,omitempty"`
	// ClockSet counts how often events that agreed set the event clock.
	ClockSet int64 `json:"clock_set,omitempty"`
	// Experience is what the rounds so far found, for the next one.
	Experience json.RawMessage `json:"experience,omitempty"`
}

// ConfigState is where a revision stands.
type ConfigState string

// The states of a revision.
const (
	Proposed   ConfigState = "proposed"
	Published  ConfigState = "published"
	RolledOut  ConfigState = "rolled_out"
	Superseded ConfigState = "superseded"
	Rejected   ConfigState = "rejected"
)

// Origin is why a revision exists.
type Origin string

// The origins of revisions.
const (
	FromDefault Origin = "default"
	FromTuning  Origin = "tuned"
	FromRestore Origin = "restored"
)

// Configuration is one revision of a scheduler's configuration. A stored one is
// never changed, only replaced by one that differs in State, Updated and Ack.
type Configuration struct {
	Scheduler string
	UID       string
	Revision  int64
	State     ConfigState
	Origin    Origin
	Config    space.Config
	Hash      string
	Created   time.Time
	Updated   time.Time
	Reason    string
	Evidence  *Evidence
	Ack       *Ack
	// Left is the revision that an operator went back from to this one, 0 if it is
	// here for another reason.
	Left int64
}

// Evidence is what the round behind a revision found.
type Evidence struct {
	Round     int64     `json:"round"`
	At        time.Time `json:"at"`
	Seed      uint64    `json:"seed"`
	Ratio     float64   `json:"ratio"`
	Incumbent int64     `json:"incumbent"`
	// Interval of Ratio; both 0 if there were too few futures. Search is what was
	// searched, and Why why.
	Interval round.Interval     `json:"interval,omitzero"`
	Search   string             `json:"search,omitempty"`
	Why      string             `json:"why,omitempty"`
	Details  map[string]float64 `json:"details,omitempty"`
	// Candidates are what the round measured, in order.
	Candidates []round.Candidate `json:"candidates,omitempty"`
}

// AckState is what became of a revision at its scheduler.
type AckState string

// The acknowledgements.
const (
	AckApplied  AckState = "applied"
	AckPartial  AckState = "partially_applied"
	AckRejected AckState = "rejected"
	AckFailed   AckState = "failed"
)

// Ack is an acknowledgement.
type Ack struct {
	State     AckState               `json:"state"`
	Effective map[string]space.Value `json:"effective,omitempty"` // what differs from the revision
	Error     string                 `json:"error,omitempty"`
	Applied   time.Time              `json:"applied"`
	Instance  string                 `json:"instance,omitempty"`
	Received  time.Time              `json:"received"`
}

// Request remembers a mutation by its caller's id.
type Request struct {
	ID        string `json:"id"`
	Digest    string `json:"digest"` // of what was asked
	Scheduler string `json:"scheduler"`
}

// Change is written whole or not at all.
type Change struct {
	Scheduler      Scheduler
	Configurations []*Configuration
	Ack            *Ack  // of AckRevision
	AckRevision    int64 // 0 without Ack
	Request        *Request
}

// Saved is what a store holds of one scheduler.
type Saved struct {
	Scheduler      Scheduler
	Space          *space.Space     // of the scheduler's parameters and rules
	Configurations []*Configuration // by revision, from 1
}

// Store keeps what Service must not lose. Writes that return nil are durable.
type Store interface {
	Commit(ctx context.Context, c Change) error
	AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error
	Load() (saved []Saved, requests []Request, err error)
	ReplayEvents(apply func(scheduler string, e workload.Event) error) error
}
