package replay

import (
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// loop has the service's state machine of configurations around rounds, which keeps changes
// within limits. The live cluster applies an offer at once.
type loop struct {
	e     *Evaluation
	live  *Cluster
	out   *Outcome
	state rollout.State
}

// newLoop registers a configuration with limits of its changes.
func newLoop(e *Evaluation, live *Cluster, out *Outcome, registered space.Config, limits rollout.Limits) (*loop,
	error) {
	l := &loop{e: e, live: live, out: out, state: rollout.State{Limits: limits}}
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

// waits reports whether no round is decided.
func (l *loop) waits() bool { return l.state.Wait() != "" }

// adopt puts the winner of a round in force, unless the state machine keeps it from being offered, for which it
// returns the reason.
func (l *loop) adopt(in *RoundInput, r *round.Result) (kept string, err error) {
	at := in.State.At
	e := rollout.Publish{At: l.clock(at), Config: r.Config, Origin: rollout.FromTuning, Reason: r.Reason,
		Evidence: &rollout.Evidence{Round: int64(in.Round), At: l.clock(at)}}
	if err := l.state.CheckAdoption(e, l.state.Basis()); err != nil {
		return err.Error(), nil
	}
	if err := l.step(e, at); err != nil {
		return "", err
	}
	l.out.Changes++
	l.live.Sim.Reconfigure(l.e.Options.Scheduler.New(l.incumbent()))
	l.live.Applied(at, l.incumbent().Hash())
	return "", nil
}
