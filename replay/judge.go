package replay

import (
	"context"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// judge keeps what was adopted on trial, and goes back to the last good configuration
// where it does worse than promised.
type judge struct {
	e     *Evaluation
	live  *Cluster
	out   *Outcome
	trial *round.Prediction // nil: the configuration in force is good
	last  round.Verdict     // of the trial
	next  time.Duration     // the instant of the next look
	// parked are the configurations that did worse, until is when rounds are trusted again.
	parked []parked
	until  time.Duration
	spent  time.Duration
}

type parked struct {
	config space.Config
	until  time.Duration
}

// adopt puts a configuration that a round adopts on trial, beside the last one that was
// found good.
func (j *judge) adopt(ctx context.Context, m *RoundInput, c space.Config) error {
	good := m.Incumbent
	if j.trial != nil {
		good = j.trial.LastGood
	}
	j.trial, j.last = nil, round.Verdict{}
	if c.Equal(good) {
		return nil
	}
	var err error
	j.trial, err = round.Predict(ctx, j.e.decideInput(m), c, good)
	j.next = m.State.At + round.NextLook(0)
	return err
}

// runUntil runs the live simulation until an instant, with looks on the way. It returns
// the configuration in force then.
func (j *judge) runUntil(ctx context.Context, at time.Duration, incumbent space.Config) (space.Config, error) {
	sim := &j.live.Sim
	for j.trial != nil && j.next <= at && !sim.Done() {
		if err := sim.RunUntil(ctx, j.next); err != nil || sim.Done() {
			return incumbent, err
		}
		began := time.Now()
		var err error
		if incumbent, err = j.look(ctx, j.next, incumbent); err != nil {
			return incumbent, err
		}
		j.spent += time.Since(began)
	}
	return incumbent, sim.RunUntil(ctx, at)
}

// look judges the configuration on trial at an instant.
func (j *judge) look(ctx context.Context, at time.Duration, incumbent space.Config) (space.Config, error) {
	age := at - j.trial.At
	if age > j.trial.Until() {
		j.trial = nil
		return incumbent, nil
	}
	o := &j.e.Options
	m := j.e.Input(j.live, 0, at, incumbent)
	v, err := round.Judge(ctx, &round.JudgeInput{Snapshot: m.Snapshot, Scheduler: o.Scheduler.Name, Goal: o.Goal,
		Prediction: j.trial, Suspect: j.last.Suspect, Seed: round.Seed(o.Seed, int(at/time.Minute))})
	if err != nil {
		return incumbent, err
	}
	d := Decision{At: j.e.Clock(at), AtS: at.Seconds(), Reason: v.Reason, Ratio: finite(v.Ratio), Verdict: &v}
	report := v.Judgement == round.DemandLeft && j.last.Judgement != round.DemandLeft
	j.last, j.next = v, j.trial.At+round.NextLook(age)
	if v.Judgement == round.Worse {
		j.until = at + round.Parked
		if !incumbent.Equal(o.Scheduler.Space.Default()) { // always there to return to
			j.parked = append(j.parked, parked{incumbent, j.until})
		}
		incumbent, report, d.Adopted = j.trial.LastGood, true, true
		j.live.Sim.Reconfigure(o.Scheduler.New(incumbent))
		j.live.Applied(at, incumbent.Hash())
		j.out.Changes++
		j.out.Rollbacks++
		j.trial = nil
	}
	if report {
		d.Configuration = incumbent.String()
		j.out.Decisions = append(j.out.Decisions, d)
	}
	return incumbent, nil
}

// refused returns the configurations that are parked at an instant, and whether rounds
// are distrusted.
func (j *judge) refused(at time.Duration) (configs []space.Config, distrusted bool) {
	for _, p := range j.parked {
		if at < p.until {
			configs = append(configs, p.config)
		}
	}
	return configs, at < j.until
}
