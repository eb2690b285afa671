package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// onTrial returns the revision that the judge looks at, nil if there is none. The paper's rule has no judge.
func (v *snapshot) onTrial() *rollout.Configuration {
	if v.Policy.Rule == round.RulePaper {
		return nil
	}
	state := v.rollout()
	return state.OnTrial()
}

// lookDue returns the newest mark of round.BurstInterval if the judge looks at it. Every
// mark is looked at once, and again after a restart. The caller must hold mu.
func (m *schedulerState) lookDue(v *snapshot) (mark time.Duration, due bool) {
	mark = time.Duration(dueRound(m.watermark(v), round.BurstInterval)) * round.BurstInterval
	c := v.onTrial()
	if c == nil || mark == m.marks.look {
		return 0, false
	}
	t := v.Probation
	if t != nil && t.Revision == c.Revision && (t.Ended != "" || mark < t.Next) {
		return 0, false
	}
	return mark, true
}

// runLook runs a look and returns a function that records its end with mu held.
func (s *Service) runLook(m *schedulerState, t *task) (record func()) {
	start := time.Now() // for operators
	result, err := s.look(m, t.mark, t.clockSet)
	return func() {
		m.marks.lookErr = ""
		if err != nil {
			if result != "" { // it could not be stored
				m.marks.look = 0
				m.backoff.start(s.o.Jitter)
			}
			result, m.marks.lookErr = "failed", err.Error()
			s.o.Log.Error("look failed", "scheduler", m.id, "err", err)
		}
		s.o.Log.Debug("look ended", "scheduler", m.id, "result", result, "took", time.Since(start))
		if result != "" {
			s.looks.WithLabelValues(m.id, result).Inc()
		}
	}
}

// look compares the running revision with its prediction, and raises an alarm if it does worse. It
// returns the result, also if that could not be stored, "" if nothing was looked at. It
// counts for nothing if the revision changed meanwhile.
func (s *Service) look(m *schedulerState, mark time.Duration, clockSet int64) (result string, err error) {
	job, err := s.enter(m)
	if isDropped(err) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer s.leave(m, job)
	v := m.snapshot.Load()
	c := v.onTrial()
	ledger, err := s.takeLedger(m, clockSet)
	if err != nil || ledger == nil || c == nil {
		return "", err
	}
	if state := ledger.State(mark); !state.HasNode() {
		return "", nil
	}
	var trial *rollout.Probation
	var promised json.RawMessage
	var since time.Duration
	err = s.simulate(m, func() error {
		trial, since, promised, err = s.judge(job.Context(), job.Run, m, v, c, ledger, mark)
		return err
	})
	if cause := context.Cause(job.Context()); err != nil && isDropped(cause) {
		return "", nil
	} else if err != nil {
		return "", cmp.Or(cause, err)
	}
	basis := v.basis()
	call := Call{Origin: audit.Origin{Actor: judgeActor, Verb: "Alarm"}}
	_, err = s.commit(s.ctx, call, m, func(now *snapshot) (*Change, error) {
		if now.basis() != basis || now.droppedSince(v, clockSet) != "" {
			return nil, nil
		}
		if trial.Ended == "" {
			result = string(trial.Verdict.Judgement)
		}
		change := &Change{Scheduler: now.Scheduler}
		switch {
		case trial.Verdict.Judgement == round.Worse && !now.config(c.Revision).Alarmed():
			change, err = s.alarm(now, trial, now.Zero.Add(mark))
		case promised != nil:
			change, err = now.step(rollout.Promise{Revision: c.Revision, Prediction: promised}, s.now())
		}
		if err == nil {
			change.Scheduler.Probation = trial
		}
		return change, err
	})
	if err == nil && result != "" {
		s.hook().Look(m.id, Look{Revision: c.Revision, Applied: v.Zero.Add(since), At: v.Zero.Add(mark),
			Verdict: trial.Verdict})
	}
	return result, err
}

// judge looks at a revision on trial, which was applied at since, or puts it on trial, whose prediction it returns
// then.
func (s *Service) judge(ctx context.Context, turn round.Turn, m *schedulerState, v *snapshot, c *rollout.Configuration,
	ledger *workload.Ledger, mark time.Duration) (trial *rollout.Probation, since time.Duration,
	promised json.RawMessage, err error) {
	if v.Probation == nil || v.Probation.Revision != c.Revision {
		trial, promised, err = s.begin(ctx, turn, m, v, c, ledger, mark)
		return trial, 0, promised, err
	}
	t := *v.Probation
	p, err := round.ReadPrediction(c.Evidence.Prediction, v.space)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("controller: prediction of revision %d: %w", c.Revision, err)
	}
	watch := round.Probation{Prediction: p, Next: t.Next, Verdict: t.Verdict}
	if t.Ended = watch.Over(mark); t.Ended != "" {
		return &t, p.At, nil, nil
	}
	seen, _, err := s.sees(v, ledger, mark)
	if err != nil {
		return nil, 0, nil, err
	}
	seen.Turn = turn
	t.Verdict, err = watch.Look(ctx, round.JudgeInput{Snapshot: seen, Scheduler: v.Type,
		Goal: v.goal, Seed: v.Policy.Seed})
	t.Next = watch.Next
	return &t, p.At, nil, err
}

// begin predicts the metrics of a revision from the instant on at which it took
// effect, as the scheduler said, or else the mark.
func (s *Service) begin(ctx context.Context, turn round.Turn, m *schedulerState, v *snapshot, c *rollout.Configuration,
	ledger *workload.Ledger, mark time.Duration) (*rollout.Probation, json.RawMessage, error) {
	t := &rollout.Probation{Revision: c.Revision}
	state := v.rollout()
	good := state.Reference(c, v.Probation)
	if good == nil {
		t.Ended = "Not watched: there is nothing to go back to."
		return t, nil, nil
	}
	t.Good = good.Revision
	from := mark
	if a := c.Ack; !a.Applied.IsZero() && !a.Applied.Before(c.Evidence.At) {
		from = min(mark, a.Applied.Sub(v.Zero))
	}
	now, nowErr := state.Effective(c)
	before, beforeErr := state.Effective(good)
	if err := cmp.Or(nowErr, beforeErr); err != nil {
		t.Ended = "Not watched: the scheduler ran " + err.Error()
		return t, nil, nil
	}
	settings := v.settings(s.o.Workers)
	if mark-from > settings.Horizon {
		t.Ended = "Not watched: it took effect longer ago than arrivals are forecast."
		return t, nil, nil
	}
	seen, _, err := s.sees(v, ledger, from)
	if err != nil {
		return nil, nil, err
	}
	seen.Turn = turn
	p, err := round.Predict(ctx, round.Input{Snapshot: seen, Settings: settings, Scheduler: v.Type,
		Space: v.space, Goal: v.goal, Engine: m.futures.of(v), Round: int(c.Evidence.Round)},
		now, before)
	if err != nil {
		return nil, nil, err
	}
	watch := round.NewProbation(p)
	t.Next, t.Ended = watch.Next, watch.Over(from)
	text, err := json.Marshal(p)
	return t, text, err
}

// alarm is the change that notes at an event time that a revision did worse.
func (s *Service) alarm(v *snapshot, t *rollout.Probation, at time.Time) (*Change, error) {
	i := t.Incident(at)
	s.o.Log.Warn("configuration did worse than promised", "scheduler", v.ID, "revision", i.Revision, "good", i.Good,
		"ratio", i.Verdict.Ratio, "excess", math.Round(100*i.Verdict.Excess)/100, "reason", i.Verdict.Reason)
	return v.step(rollout.Alarm{Incident: i}, s.now())
}

// held says why no round is decided, "" if one may be.
func (v *snapshot) held() string {
	if v.Type == External {
		return ""
	}
	state := v.rollout()
	return state.Wait()
}

// watching describes the trial of the running revision, for people; "" if nothing is on
// trial.
func (v *snapshot) watching() string {
	if text := v.held(); text != "" {
		return text
	}
	c, t := v.onTrial(), v.Probation
	if v.Type == External {
		c = v.onReports()
	}
	switch {
	case c == nil:
		return ""
	case v.Type == External && (t == nil || t.Revision != c.Revision):
		return fmt.Sprintf("revision %d is watched once %s is reported in %d intervals of event time", c.Revision,
			cmp.Or(c.Evidence.Metric, "what it was tuned for"), round.NextReportLook(0))
	case t == nil || t.Revision != c.Revision:
		return fmt.Sprintf("revision %d is watched from the next look on", c.Revision)
	}
	text := t.Ended
	switch {
	case text != "":
	case t.Verdict.Judgement == "":
		text = "No look yet."
	default:
		text = t.Verdict.Reason
	}
	return fmt.Sprintf("revision %d: %s", c.Revision, text)
}

func (v *snapshot) basis() rollout.Basis {
	state := v.rollout()
	return state.Basis()
}

// at is the view of a round or a look at an instant on a scheduler's history.
func (v *snapshot) at(ledger *workload.Ledger, at time.Duration) round.Snapshot {
	return round.Snapshot{State: ledger.State(at), Ledger: ledger, Zero: v.Zero, Simulator: v.Simulation.options(),
		Scattered: round.Scattered(v.Type)}
}

// settings returns the settings of the scheduler's rounds.
func (v *snapshot) settings(workers int) round.Settings {
	settings := v.Policy.WithDefaults()
	settings.Workers = workers
	return settings
}
