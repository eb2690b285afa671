package controller

import (
	"context"
	"math"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// ReportTrial is a revision that is judged by the metrics that its scheduler reports.
type ReportTrial struct {
	Revision int64
	Good     int64 // the last good revision
	// Metric is the objective of the revision: it is to be small, or large with Maximize.
	Metric   string
	Maximize bool
	// Intervals of the revision that have been looked at.
	Intervals int
}

// onReports returns the revision that is judged by reported metrics, nil if there is none.
func (v *snapshot) onReports() *rollout.Configuration {
	state := v.rollout()
	return state.OnReports()
}

// reportTrial is the trial of a revision under way, nil if there is none; ended says why there is none any more.
func (v *snapshot) reportTrial() (t *ReportTrial, ended string) {
	c := v.onReports()
	if v.Type != External || v.Paused || !v.Deleted.IsZero() || c == nil {
		return nil, ""
	}
	t = &ReportTrial{Revision: c.Revision, Metric: c.Evidence.Metric, Maximize: c.Evidence.Maximize}
	if p := v.Probation; p != nil && p.Revision == c.Revision {
		if p.Ended != "" || p.Verdict.Judgement == round.Worse {
			return nil, ""
		}
		t.Intervals = p.Intervals
	}
	state := v.rollout()
	good := state.Reference(c, v.Probation)
	switch {
	case t.Metric == "":
		return t, "Not watched: it is not known what it was tuned for."
	case good == nil:
		return t, "Not watched: there is nothing to go back to."
	}
	t.Good = good.Revision
	return t, ""
}

// Reported notes the event time of a report of metrics.
func (s *Service) Reported(ctx context.Context, call Call, id string, at time.Time) error {
	m, err := s.active(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	if at.After(m.lastReportAt) {
		m.lastReportAt = at
	}
	m.mu.Unlock()
	return s.tick(ctx, call, m)
}

// LookAtReports has judge compare the reports of the revision on trial with the reports of the last good
// one: judge returns the verdict, the number of intervals that it had, the same as before if it did not look, and why
// there are no more looks. A revision that did worse is gone back from.
func (s *Service) LookAtReports(id string,
	judge func(ReportTrial) (v round.Verdict, intervals int, ended string)) error {
	m, err := s.active(id)
	if err != nil {
		return err
	}
	t, ended := m.snapshot.Load().reportTrial()
	if t == nil {
		return nil
	}
	p := &rollout.Probation{Revision: t.Revision, Good: t.Good, Ended: ended}
	if ended == "" {
		if p.Verdict, p.Intervals, p.Ended = judge(*t); p.Intervals == t.Intervals {
			return nil
		}
	}
	at := m.eventTime()
	_, err = s.commit(s.ctx, Call{Origin: audit.Origin{Actor: judgeActor, Verb: "Revert"}}, m,
		func(now *snapshot) (*Change, error) {
			if again, _ := now.reportTrial(); again == nil || *again != *t {
				return nil, nil
			}
			change := &Change{Scheduler: now.Scheduler}
			if p.Verdict.Judgement == round.Worse {
				if change, err = s.revert(now, now.onReports(), p, at); err != nil {
					return nil, err
				}
			}
			change.Scheduler.Probation = p
			return change, nil
		})
	result := string(p.Verdict.Judgement)
	if err != nil {
		result = "failed"
	}
	if result != "" {
		s.looks.WithLabelValues(id, result).Inc()
	}
	return err
}

// revert is the change that goes back at an event time from a revision that did worse; in mode
// RECOMMEND it is proposed.
func (s *Service) revert(v *snapshot, c *rollout.Configuration, t *rollout.Probation,
	at time.Time) (*Change, error) {
	state := v.rollout()
	frozen := state.Frozen(at)
	e := state.Regression(t, at, v.Mode != Auto || frozen != nil)
	change, err := v.step(e, s.now())
	if err != nil {
		return nil, err
	}
	published := change.Configurations[len(change.Configurations)-1]
	s.o.Log.Warn("configuration did worse than promised", "scheduler", v.ID, "revision", c.Revision, "back_to",
		published.Incident.Good, "as", published.Revision, "state", published.State, "ratio", t.Verdict.Ratio,
		"excess", math.Round(100*t.Verdict.Excess)/100, "parked_until", e.Incident.Until, "reason", t.Verdict.Reason)
	if frozen != nil && v.Mode == Auto {
		s.o.Log.Warn("the way back is only proposed: approve it, or unfreeze", "scheduler", v.ID, "revision",
			published.Revision, "freeze", frozen)
	}
	return change, nil
}
