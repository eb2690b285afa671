package rollout

import (
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// Probation is where the judge stands with a revision that a round found and the scheduler
// applied, or that a study found and the scheduler reports metrics of.
type Probation struct {
	Revision int64 `json:"revision"`
	// Good is the last revision that was found good, 0 if there is none.
	Good int64 `json:"good,omitempty"`
	// Next is the event time of the next look, since the ledger's zero.
	Next time.Duration `json:"next,omitempty"`
	// Verdict is that of the last look. Ended says why there are no more.
	Verdict round.Verdict `json:"verdict,omitzero"`
	// Intervals of reports that the last look had; of a study's revision.
	Intervals int    `json:"intervals,omitempty"`
	Ended     string `json:"ended,omitempty"`
}

// OnTrial returns the revision that the judge looks at, nil if there is none: the one in force,
// if a round found it and nothing else is offered.
func (s *State) OnTrial() *Configuration {
	c := s.Running()
	if c == nil || c.Origin != FromTuning || c.Revision != s.OfferedRevision || c.Revision != s.AcknowledgedRevision ||
		c.Evidence == nil {
		return nil
	}
	if _, err := s.Effective(c); err != nil {
		return nil
	}
	return c
}

// OnReports returns the revision that is judged by the metrics that the scheduler reports, nil if there is none: the
// offered one, if a study found it. During a rollout in waves some instances run it and others the former one.
func (s *State) OnReports() *Configuration {
	if c := s.Offered(); c != nil && c.Origin == FromStudy && c.Evidence != nil {
		return c
	}
	return nil
}

// Reference returns the revision that one on trial is compared with, nil if there is none: the
// last good one, or that of its own probation, if that is not over.
func (s *State) Reference(c *Configuration, before *Probation) *Configuration {
	good := s.LastGood(c)
	if before != nil && before.Ended == "" && good != nil && good.Revision == before.Revision {
		return s.Configuration(before.Good)
	}
	return good
}

// Incident is that of a revision that was found Worse at an event time.
func (t *Probation) Incident(at time.Time) Incident {
	return Incident{At: at, Actor: Judge, Revision: t.Revision, Good: t.Good, Verdict: t.Verdict}
}

// Regression is the event with which the judge goes back at an event time from a revision that did
// worse. Its values are parked, unless they are the registered ones, which are always there to
// return to.
func (s *State) Regression(t *Probation, at time.Time, propose bool) Revert {
	i := t.Incident(at)
	if !s.isDefault(s.Configuration(t.Revision)) {
		i.Until = at.Add(round.Parked)
	}
	return Revert{Incident: i, Propose: propose}
}

// Wait says why no round is decided, "" if one may be.
func (s *State) Wait() string {
	if _, err := s.Incumbent(space.Config{}); err != nil {
		return "rounds wait: the scheduler runs " + err.Error()
	}
	if text := s.Waiting(); text != "" {
		return "rounds wait: " + text
	}
	return ""
}
