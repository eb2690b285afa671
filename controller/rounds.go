package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/controller/queue"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// finishRound decides a round and returns a function that notes its end, the decision and the error.
func (s *Service) finishRound(m *schedulerState, due roundID) (note func(), text string, err error) {
	start := time.Now() // for operators; nothing is decided by it
	text, err = s.runRound(m, due)
	return func() {
		s.roundDuration.WithLabelValues(m.id).Observe(time.Since(start).Seconds())
		s.decisionAge.WithLabelValues(m.id).Observe(max(0, (m.history.Now() - due.at()).Seconds()))
		m.status.Rounds++
		m.status.LastDecision, m.status.LastError = text, ""
		if err != nil {
			m.status.LastError = err.Error()
			m.status.Failures++
			s.o.Log.Error("round failed", "scheduler", m.id, "interval", due.number, "urgent", due.urgent, "err", err)
			m.backoff.start(s.o.Jitter)
			return
		}
		m.backoff.failures = 0
		s.o.Log.Info("round decided", "scheduler", m.id, "interval", due.number, "urgent", due.urgent, "decision", text)
	}, text, err
}

// burst reports whether the newest mark of round.BurstInterval after the last round asks
// for an urgent decision, and sets it in the id. Every mark is looked at once, and again
// after a restart: decisions by then are in the scheduler's experience. The caller must hold mu.
func (m *schedulerState) burst(v *snapshot, id *roundID) bool {
	mark := time.Duration(dueRound(m.watermark(v), round.BurstInterval)) * round.BurstInterval
	if m.broken || mark <= v.roundTime() || !m.marks.passBurst(mark) {
		return false
	}
	id.urgent, id.mark = round.Burst(v.Experience, m.history.Ledger(), mark), mark
	return id.urgent
}

// roundID identifies a round: its number, in intervals of event time, by a clock
// that had been set so often.
type roundID struct {
	number   int64
	interval time.Duration
	clockSet int64
	urgent   bool          // a decision between this round and the next
	asked    *running      // the operation of a caller, between this round and the next; or nil
	search   round.Search  // that the caller asked for
	mark     time.Duration // its instant
}

// between reports whether it is no round that was due at an interval.
func (r roundID) between() bool { return r.urgent || r.asked != nil }

func (r roundID) at() time.Duration {
	if r.between() {
		return r.mark
	}
	return time.Duration(r.number) * r.interval
}

// runRound decides one round and publishes the winner. A round that failed counts
// as decided: the next one is due an interval later. It counts for nothing if the
// clock was set meanwhile.
func (s *Service) runRound(m *schedulerState, id roundID) (text string, err error) {
	ctx, span := s.o.Tracer.Start(s.ctx, roundSpan, trace.WithAttributes(schedulerKey.String(m.id),
		intervalKey.Int64(id.number), urgentKey.Bool(id.urgent)))
	defer func() { endSpan(span, err) }()
	job, err := s.enter(m)
	if isDropped(err) {
		return err.Error(), nil
	} else if err != nil {
		return "", err
	}
	defer s.leave(m, job)
	call := Call{Origin: audit.Origin{Actor: tuningActor, Verb: "Adopt"}}
	if id.asked != nil {
		s.operations.begin(id.asked)
		call.Origin = id.asked.origin
	}
	v := m.snapshot.Load()
	basis := v.basis()
	d, record, decideErr := s.decide(job.Context(), job.Run, m, v, id)
	switch cause := context.Cause(job.Context()); {
	case s.ctx.Err() != nil:
		return "", s.ctx.Err()
	case isDropped(cause):
		return cause.Error(), nil
	case cause != nil && decideErr != nil:
		d, decideErr = round.Decision{Ratio: 1, Reason: fmt.Sprintf("%v after %v", cause, s.o.RoundLimit)}, nil
	}
	found := v.evidence(id, basis, &d)
	if decideErr == nil && d.Adopt { // no revision without the round that found it
		s.keepRecord(m, record)
		found.Record = record.sequence()
	}
	m.mu.Lock()
	found.Fidelity = m.status.Fidelity
	m.mu.Unlock()
	revision := int64(0)
	_, err = s.commit(ctx, call, m, func(now *snapshot) (*Change, error) {
		why := now.droppedSince(v, id.clockSet)
		if id.asked != nil && now.hasEnded(id.asked.ID) {
			why = ErrCanceled.Error()
		}
		if why != "" {
			text = dropped(why).Error()
			return nil, nil
		}
		c := &Change{Scheduler: now.Scheduler}
		if decideErr == nil {
			c, text = s.adopt(now, basis, id.at(), &d, found)
			if c.Scheduler.LastRevision > now.LastRevision {
				revision = c.Scheduler.LastRevision
			}
			if json.Valid(d.History) {
				c.Scheduler.Experience = d.History
			}
		}
		if id.between() {
			return c, nil
		}
		c.Scheduler.Round = max(now.Round, id.number)
		if now.Policy.UpdateInterval != id.interval {
			c.Scheduler.Round = max(now.Round, dueRound(id.at()+1, now.Policy.UpdateInterval))
		}
		return c, nil
	})
	if failed := cmp.Or(decideErr, err); failed != nil {
		record.outcome("failed: "+failed.Error(), 0)
		s.keepRecord(m, record)
		return "", failed
	}
	record.outcome(text, revision)
	s.keepRecord(m, record)
	return text, nil
}

// hasEnded reports whether the stored operation has ended.
func (v *snapshot) hasEnded(operation string) bool {
	return slices.ContainsFunc(v.Operations, func(o Operation) bool { return o.ID == operation && !o.Ended.IsZero() })
}

// droppedSince describes a change since before that a decision must not outlive, "" if
// nothing did.
func (v *snapshot) droppedSince(before *snapshot, clockSet int64) string {
	switch {
	case v.ClockSet != clockSet:
		return "the event clock was set while the round was decided"
	case !v.Deleted.IsZero():
		return "the scheduler was deleted while the round was decided"
	case v.Paused:
		return "tuning was paused while the round was decided"
	case v.Objective != before.Objective:
		return "the objective was changed while the round was decided"
	case v.Revision != before.Revision:
		return "the space or the cluster was changed while the round was decided"
	case !v.Simulation.equal(&before.Simulation):
		return "the simulation was changed while the round was decided"
	case v.Policy.Settings != before.Policy.Settings:
		return "the settings of rounds were changed while the round was decided"
	}
	return ""
}

// dropped is the cause of the end of a round that a change cancelled.
type dropped string

func (d dropped) Error() string { return "dropped: " + string(d) }

func isDropped(err error) bool {
	var d dropped
	return errors.As(err, &d)
}

// cancelStale ends a round or a look under way at once if a change since a snapshot would drop
// it.
func (s *Service) cancelStale(m *schedulerState, before *snapshot) {
	now := m.snapshot.Load()
	if why := now.droppedSince(before, before.ClockSet); why != "" {
		s.cancelJobs(m.id, dropped(why))
	}
}

// enter waits for the turn of a scheduler's round or look, which ends with leave.
func (s *Service) enter(m *schedulerState) (*queue.Job, error) {
	return s.queue.Enter(s.ctx, m.id, m.snapshot.Load().Policy.weight(), s.o.RoundLimit)
}

func (s *Service) leave(m *schedulerState, job *queue.Job) {
	s.used.WithLabelValues(m.id).Add(job.Leave().Seconds())
}

// studyOwner is the owner of proposals of studies in the queue, beside the rounds of their scheduler.
const studyOwner = " studies"

// Turn does work on a study of a scheduler when it is its turn. The error is that of the work, or the cause of the end
// of the context.
func (s *Service) Turn(ctx context.Context, id string, work func() error) error {
	m, err := s.lookup(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })()
	job, err := s.queue.Enter(ctx, id+studyOwner, m.snapshot.Load().Policy.weight(), 0)
	if err != nil {
		return err
	}
	defer s.leave(m, job)
	return job.Run(work)
}

// decide runs the decision of a round on a scheduler's ledger, which is its own
// until it returns. record is nil if there is nothing to store.
func (s *Service) decide(ctx context.Context, turn round.Turn, m *schedulerState, v *snapshot,
	id roundID) (d round.Decision,
	record *RoundRecord, err error) {
	ledger, err := s.takeLedger(m, id.clockSet)
	if err != nil || ledger == nil {
		return d, nil, err
	}
	err = s.simulate(m, func() error {
		in, tariff, err := s.roundInput(m, v, ledger, id)
		if err != nil {
			return err
		}
		in.Turn = turn
		record = s.beginRecord(ctx, m, v, id, &in, tariff)
		d, err = s.o.Decide(ctx, in)
		record.end(s.now(), &d, err)
		if err == nil && !id.urgent {
			s.grade(ctx, m, v, id, ledger, in.Incumbent)
		}
		ledger.Forget(id.at() - round.Retention) // no later round looks further back
		if err == nil && d.Adopt {
			err = checkDecision(v.space, &d)
		}
		return err
	})
	return d, record, err
}

// roundInput returns the input of a round, with the part of the tariff that it needs. The caller has the ledger and
// the engine.
func (s *Service) roundInput(m *schedulerState, v *snapshot, ledger *workload.Ledger, id roundID) (in round.Input,
	tariff *energy.Tariff, err error) {
	state := v.rollout()
	incumbent, err := state.Incumbent(v.space.Default())
	if err != nil {
		return in, nil, fmt.Errorf("the scheduler runs %w", err)
	}
	at, settings := v.Zero.Add(id.at()), v.settings(s.o.Workers)
	if id.search != "" {
		settings.Search = id.search
	}
	seen, tariff, err := s.sees(v, ledger, id.at())
	if err != nil {
		return in, nil, err
	}
	return round.Input{
		Snapshot: seen, Settings: settings,
		Scheduler: v.Type, Space: v.space, Goal: v.goal, Engine: m.futures.of(v),
		Incumbent: incumbent, Refused: state.Parked(at), Round: int(id.number), Urgent: id.urgent,
		History: v.Experience, Replays: &m.replays,
	}, tariff, nil
}

// futures makes the futures of a scheduler.
type futures struct {
	engine *generation.Engine // of the rule; nil until it is needed
	rule   round.Rule
}

// of returns the engine of a state. The caller has the ledger.
func (f *futures) of(v *snapshot) *generation.Engine {
	if f.engine == nil || f.rule != v.Policy.Rule {
		f.engine, f.rule = generation.NewEngine(v.Zero, v.Policy.Rule.Generator()), v.Policy.Rule
	}
	return f.engine
}

// simulate runs a function that uses the ledger and the engine. If it panics, it may leave them half
// changed: they are rebuilt, at the latest by the next round.
func (s *Service) simulate(m *schedulerState, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("controller: decision panicked: %v", p)
			m.mu.Lock()
			m.futures.engine, m.broken = nil, true
			m.mu.Unlock()
			if again := s.rebuild(m); again != nil {
				err = fmt.Errorf("%w; %w", err, again)
			}
		}
	}()
	err = f()
	if e := m.futures.engine; e != nil && e.Predictor() != nil {
		m.mu.Lock()
		set := m.snapshot.Load().ClockSet
		if p := e.Predictor(); m.predictor == nil || m.predictedSet != set || p.At >= m.predictor.At {
			m.predictor, m.predictedSet = p, set
		}
		m.mu.Unlock()
	}
	return err
}

// gradeEvery is the event time after which a scheduler's fidelity is looked at again.
const gradeEvery = 24 * time.Hour

// grade compares the simulation with the delays that were observed, once a day.
func (s *Service) grade(ctx context.Context, m *schedulerState, v *snapshot, id roundID, ledger *workload.Ledger,
	incumbent space.Config) {
	m.mu.Lock()
	due := m.status.Fidelity == "" || id.at() < m.fidelityAt || id.at() >= m.fidelityAt+gradeEvery
	m.mu.Unlock()
	if !due {
		return
	}
	g, err := fidelity.Observed(ctx, &fidelity.Live{Ledger: ledger, Zero: v.Zero, At: id.at(), Scheduler: v.Type,
		Config: incumbent, Simulate: v.Simulation.options()})
	text := ""
	switch {
	case err != nil:
		s.o.Log.Warn("fidelity not known", "scheduler", m.id, "interval", id.number, "err", err)
	case g.Grade != fidelity.Incomparable:
		text = g.String()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fidelityAt, m.status.Fidelity = id.at(), text
}

// takeLedger returns the ledger for a round to decide on, nil if the clock was
// set since: the round must then not forget events of the ledger.
func (s *Service) takeLedger(m *schedulerState, clockSet int64) (*workload.Ledger, error) {
	m.mu.Lock()
	stale := m.broken || !reflect.DeepEqual(m.history.Cluster(), m.snapshot.Load().Cluster)
	m.mu.Unlock()
	if stale {
		if err := s.rebuild(m); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.snapshot.Load().ClockSet != clockSet {
		return nil, nil
	}
	return m.history.Ledger(), nil
}

// adopt is the change that a decision makes to the rollout, with its description.
func (s *Service) adopt(v *snapshot, basis rollout.Basis, at time.Duration, d *round.Decision,
	found *rollout.Evidence) (*Change, string) {
	keep := &Change{Scheduler: v.Scheduler}
	if !d.Adopt {
		return keep, "kept: " + d.Reason
	}
	state := v.rollout()
	e := rollout.Publish{At: v.Zero.Add(at), Config: d.Config, Origin: rollout.FromTuning, Reason: d.Reason,
		Evidence: found, Propose: v.Mode != Auto}
	if err := state.CheckAdoption(e, basis); err != nil {
		return keep, "kept: " + err.Error()
	}
	c, err := v.step(e, s.now())
	if err != nil {
		return keep, "kept: " + err.Error()
	}
	published := c.Configurations[len(c.Configurations)-1]
	return c, fmt.Sprintf("%s as revision %d: %s", published.State, published.Revision, d.Reason)
}

// evidence is the evidence of a round on the state.
func (v *snapshot) evidence(id roundID, basis rollout.Basis, d *round.Decision) *rollout.Evidence {
	return &rollout.Evidence{
		Round: id.number, At: v.Zero.Add(id.at()), Seed: v.Policy.Seed, Ratio: d.Ratio, Incumbent: basis.Running,
		Interval: d.Interval, Search: d.Search, Why: d.Why, Stats: d.Stats, Candidates: d.Candidates,
		Energy: d.Energy,
	}
}

// checkDecision turns the decision's configuration into one of the registered
// space, or says why it is none.
func checkDecision(sp *space.Space, d *round.Decision) error {
	config, err := validateOutgoing(sp, d.Config)
	if err != nil {
		return err
	}
	if math.IsNaN(d.Ratio) || math.IsInf(d.Ratio, 0) {
		return fmt.Errorf("controller: ratio %v of the decision is not finite", d.Ratio)
	}
	d.Config = config
	return nil
}

// dueRound is the last round whose instant, its number times the interval, lies
// before an event time: events at the instant itself belong to it.
func dueRound(at, interval time.Duration) int64 {
	at--
	n := int64(at / interval)
	if at < 0 && at%interval != 0 {
		n--
	}
	return n
}
