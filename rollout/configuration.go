package rollout

import (
	"encoding/json"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// RevisionState is where a revision stands.
type RevisionState string

// The states of a revision.
const (
	Proposed   RevisionState = "proposed"   // waits for approval
	Parked     RevisionState = "parked"     // a proposal that an operator set aside: it waits for no decision
	Published  RevisionState = "published"  // offered, not acknowledged yet
	RolledOut  RevisionState = "rolled_out" // in force, as the scheduler said
	Superseded RevisionState = "superseded" // a later revision took its place
	Rejected   RevisionState = "rejected"   // its values are parked
	Lost       RevisionState = "lost"       // its stored record is damaged: Reason says how
)

// Origin is why a revision exists.
type Origin string

// The origins of revisions.
const (
	FromDefault Origin = "default"
	FromTuning  Origin = "tuned"
	FromRestore Origin = "restored"
	FromJudge   Origin = "reverted"
	FromSpace   Origin = "projected" // the space was changed
	FromPin     Origin = "pinned"    // an operator chose the values
	FromStudy   Origin = "study"     // a trial of a study
	FromManual  Origin = "manual"    // an operator proposed the values
)

// found reports whether revisions of an origin are rolled out in waves: they are new.
func (o Origin) found() bool { return o == FromTuning || o == FromStudy }

// Configuration is one revision of a scheduler's configuration. It is never
// changed, only replaced by one that differs in State, Updated and Ack.
type Configuration struct {
	Scheduler string
	UID       string // set by the caller of Step
	Revision  int64
	State     RevisionState
	Origin    Origin
	Config    space.Config
	// Space is the number of the scheduler's revision that Config is in; 0 is 1. It is set by the
	// caller of Step.
	Space   int64
	Hash    string
	Created time.Time
	Updated time.Time
	// OfferedAt is the event time at which it was offered; zero before, and if no event was known.
	OfferedAt time.Time
	Reason    string
	// Offered is the service's time at which it was offered; zero if it never was, or by a
	// version that did not keep it.
	Offered  time.Time
	Evidence *Evidence // of FromTuning and FromStudy
	Ack      *Ack      // the last one since it was offered
	// Left is the revision that a Rollback went back from to this one, 0 if it is
	// here for another reason.
	Left int64
	// Incident is the one that was gone back from, of FromJudge; of others the one that this revision caused.
	Incident *Incident
	// Review is an operator's decision about the proposal, nil if it was none or waits.
	Review *Review
}

// Review is an operator's decision about a proposal.
type Review struct {
	Approved bool      `json:"approved"`
	Parked   bool      `json:"parked,omitempty"` // neither is rejected
	Actor    string    `json:"actor,omitempty"`
	Why      string    `json:"why,omitempty"`
	At       time.Time `json:"at"` // the service's time
}

// Incident is a configuration that did worse than promised.
type Incident struct {
	// At is the event time of the look that found it, Actor who looked.
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	// Revision did worse than Good, whose values came back unless it is an alarm.
	Revision int64 `json:"revision"`
	Good     int64 `json:"good"`
	// Until is the event time until which the values of Revision are parked; zero if they
	// are not.
	Until   time.Time     `json:"until,omitzero"`
	Verdict round.Verdict `json:"verdict"`
}

// Alarmed reports whether a revision did worse than promised, and stayed.
func (c *Configuration) Alarmed() bool { return c.Incident != nil && c.Incident.Revision == c.Revision }

// Judge is the Actor of incidents.
const Judge = "judge"

// parks reports whether values are parked at an event time.
func (i *Incident) parks(at time.Time) bool { return since(i.At, at, i.Until.Sub(i.At)) }

// Evidence is the result of the round behind a revision.
type Evidence struct {
	Round     int64     `json:"round"`
	At        time.Time `json:"at"`
	Seed      uint64    `json:"seed"`
	Ratio     float64   `json:"ratio"`
	Incumbent int64     `json:"incumbent"`
	// Interval of Ratio; both 0 if there were too few futures. Search is what was
	// searched, and Why the reason for it.
	Interval round.Interval `json:"interval,omitzero"`
	Search   round.Search   `json:"search,omitempty"`
	Why      string         `json:"why,omitempty"`
	// Trial is the name of the trial of FromStudy. Then there was no round: Ratio is the metric of
	// the configuration in force over the trial's, 0 if it was not measured.
	Trial string `json:"trial,omitempty"`
	// Metric is the objective of the study of FromStudy: it is to be small, or large with Maximize.
	Metric   string `json:"metric,omitempty"`
	Maximize bool   `json:"maximize,omitempty"`
	// Record is the sequence of the round's record, 0 if it has none.
	Record int64 `json:"record,omitempty"`
	// Fidelity says how far the simulation describes the delays of the last days.
	Fidelity string      `json:"fidelity,omitempty"`
	Stats    round.Stats `json:"details,omitzero"`
	// Candidates are the configurations that the round measured, in order.
	Candidates []round.Candidate `json:"candidates,omitempty"`
	// Energy compares the energy of the values with the incumbent's; nil if the round counted none.
	Energy *round.EnergyChange `json:"energy,omitempty"`
	// Prediction is the round.Prediction of the values, from the instant at which they
	// took effect; nil before.
	Prediction json.RawMessage `json:"prediction,omitempty"`
}

// AckState is the outcome of a revision at its scheduler.
type AckState string

// The outcomes.
const (
	AckApplied  AckState = "applied"
	AckPartial  AckState = "partially_applied"
	AckRejected AckState = "rejected"
	AckFailed   AckState = "failed"
)

// Ack is an acknowledgement.
type Ack struct {
	State     AckState               `json:"state"`
	Effective map[string]space.Value `json:"effective,omitempty"` // values that differ from the revision's
	Error     string                 `json:"error,omitempty"`
	Applied   time.Time              `json:"applied"`
	Instance  string                 `json:"instance,omitempty"`
	Received  time.Time              `json:"received"` // set by Step
}

// applied reports whether the revision took effect, with its values or others.
func (a *Ack) applied() bool { return a != nil && (a.State == AckApplied || a.State == AckPartial) }

// Effective is a configuration as the scheduler applied it. It is an error if the applied
// configuration is outside the space.
func (s *State) Effective(c *Configuration) (space.Config, error) {
	if c.Ack == nil {
		return s.moved(c.Config)
	}
	return s.effective(c.Config, c.Ack.Effective)
}

// byOperator reports whether an operator went back to it.
func (c *Configuration) byOperator() bool { return c.Origin == FromRestore && c.Left != 0 }

// undecided reports whether a revision may be approved or rejected.
func (c *Configuration) undecided() bool { return c.State == Proposed || c.State == Parked }

// wasOffered reports whether instances were to run a revision.
func (c *Configuration) wasOffered() bool {
	return !c.Offered.IsZero() || c.State == Published || c.State == RolledOut || c.Ack != nil
}
