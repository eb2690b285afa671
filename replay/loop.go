package replay

import (
	"context"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// loop has the service's machinery around rounds: the state machine of configurations, which
// keeps changes within limits, and the judge, which goes back from a configuration that does worse
// than promised. The live cluster applies at once an offer.
type loop struct {
	e      *Evaluation
	live   *Cluster
	out    *Outcome
	judged bool
	state  rollout.State
	// trial is nil before the first, watch is its promise.
	trial *rollout.Probation
	watch round.Probation
	spent time.Duration
}

// newLoop registers a configuration with limits of its changes.
func newLoop(e *Evaluation, live *Cluster, out *Outcome, registered space.Config, limits rollout.Limits,
	judged bool) (*loop, error) {
	l := &loop{e: e, live: live, out: out, judged: judged, state: rollout.State{Limits: limits}}
	return l, l.step(rollout.Publish{Config: registered, Origin: rollout.FromDefault}, e.start())
}

// step makes an event of the state machine, and acknowledges its offers.
func (l *loop) step(e rollout.Event, at time.Duration) error {
	now := l.clock(at)
	next, _, err := rollout.Step(l.state, e, now)
	if err != nil {
		return err
	}
	ack := rollout.Ack{State: rollout.AckApplied, Applied: now}
	l.state, _, err = rollout.Step(next, rollout.Acknowledge{Revision: next.OfferedRevision, Ack: ack}, now)
	return err
}

func (l *loop) clock(at time.Duration) time.Time { return l.e.Options.Trace.Zero().Add(at) }

// incumbent is the configuration in force.
func (l *loop) incumbent() space.Config { return l.state.Running().Config }

// apply makes an event and reconfigures the live cluster.
func (l *loop) apply(e rollout.Event, at time.Duration) error {
	if err := l.step(e, at); err != nil {
		return err
	}
	l.out.Changes++
	l.live.Sim.Reconfigure(l.e.Options.Scheduler.New(l.incumbent()))
	l.live.Applied(at, l.incumbent().Hash())
	return nil
}

// input is that of a round.
func (l *loop) input(n int, at time.Duration) *RoundInput {
	in := l.e.Input(l.live, n, at, l.incumbent())
	in.Refused = l.state.Parked(l.clock(at))
	in.Incidents = l.state.Incidents(l.clock(at), round.Parked)
	return in
}

// waits reports whether no round is decided at an instant.
func (l *loop) waits(at time.Duration) bool { return l.state.Wait(l.clock(at)) != "" }

// adopt puts the winner of a round in force and on trial, unless the state machine keeps
// it from being offered, for which it returns the reason.
func (l *loop) adopt(ctx context.Context, in *RoundInput, r *round.Result) (kept string, err error) {
	at := in.State.At
	e := rollout.Publish{At: l.clock(at), Config: r.Config, Origin: rollout.FromTuning, Reason: r.Reason,
		Evidence: &rollout.Evidence{Round: int64(in.Round), At: l.clock(at)}}
	if err := l.state.CheckAdoption(e, l.state.Basis()); err != nil {
		return err.Error(), nil
	}
	if err := l.apply(e, at); err != nil || !l.judged {
		return "", err
	}
	c := l.state.OnTrial()
	t := &rollout.Probation{Revision: c.Revision}
	good := l.state.Reference(c, l.trial)
	if l.trial = t; good == nil {
		t.Ended = "there is nothing to go back to"
		return "", nil
	}
	p, err := round.Predict(ctx, l.e.decideInput(in), c.Config, good.Config)
	if err != nil {
		return "", err
	}
	l.watch = round.NewProbation(p)
	t.Good, t.Next, t.Ended = good.Revision, l.watch.Next, l.watch.Over(at)
	return "", nil
}

// runUntil runs the live simulation until an instant, with looks of the judge on the way.
func (l *loop) runUntil(ctx context.Context, at time.Duration) error {
	sim := &l.live.Sim
	for l.trial != nil && !l.trial.Over() && l.trial.Next <= at && !sim.Done() {
		next := l.trial.Next
		if err := sim.RunUntil(ctx, next); err != nil || sim.Done() {
			return err
		}
		began := time.Now()
		if err := l.look(ctx, next); err != nil {
			return err
		}
		l.spent += time.Since(began)
	}
	return sim.RunUntil(ctx, at)
}

// look judges the configuration on trial at an instant.
func (l *loop) look(ctx context.Context, at time.Duration) error {
	t := l.trial
	if t.Ended = l.watch.Over(at); t.Ended != "" {
		return nil
	}
	o := &l.e.Options
	m := l.e.Input(l.live, 0, at, l.incumbent())
	before := t.Verdict.Judgement
	v, err := l.watch.Look(ctx, round.JudgeInput{Snapshot: m.Snapshot, Scheduler: o.Scheduler.Name, Goal: o.Goal,
		Seed: o.Seed})
	if err != nil {
		return err
	}
	t.Verdict, t.Next = v, l.watch.Next
	if v.Judgement == round.Worse {
		if err := l.apply(l.state.Regression(t, l.clock(at), false), at); err != nil {
			return err
		}
		l.out.Rollbacks++
	}
	if worse := v.Judgement == round.Worse; worse || v.Judgement == round.DemandLeft && before != round.DemandLeft {
		l.out.Decisions = append(l.out.Decisions, Decision{At: l.e.Clock(at), AtS: at.Seconds(), Reason: v.Reason,
			Ratio: finite(v.Ratio), Verdict: &v, Adopted: worse, Configuration: l.incumbent().String()})
	}
	return nil
}
