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
	trial *round.Probation // nil: the configuration in force is good
	// parked are the configurations that did worse, worse is the instant of the last one.
	parked []parked
	worse  time.Duration
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
		good = j.trial.Prediction.LastGood
	}
	j.trial = nil
	if c.Equal(good) {
		return nil
	}
	p, err := round.Predict(ctx, j.e.decideInput(m), c, good)
	if err != nil {
		return err
	}
	t := round.NewProbation(p)
	j.trial = &t
	return nil
}

// runUntil runs the live simulation until an instant, with looks on the way. It returns
// the configuration in force then.
func (j *judge) runUntil(ctx context.Context, at time.Duration, incumbent space.Config) (space.Config, error) {
	sim := &j.live.Sim
	for j.trial != nil && j.trial.Next <= at && !sim.Done() {
		next := j.trial.Next
		if err := sim.RunUntil(ctx, next); err != nil || sim.Done() {
			return incumbent, err
		}
		began := time.Now()
		var err error
		if incumbent, err = j.look(ctx, next, incumbent); err != nil {
			return incumbent, err
		}
		j.spent += time.Since(began)
	}
	return incumbent, sim.RunUntil(ctx, at)
}

// look judges the configuration on trial at an instant.
func (j *judge) look(ctx context.Context, at time.Duration, incumbent space.Config) (space.Config, error) {
	if j.trial.Over(at) != "" {
		j.trial = nil
		return incumbent, nil
	}
	o := &j.e.Options
	m := j.e.Input(j.live, 0, at, incumbent)
	before := j.trial.Verdict.Judgement
	v, err := j.trial.Look(ctx, round.JudgeInput{Snapshot: m.Snapshot, Scheduler: o.Scheduler.Name, Goal: o.Goal,
		Seed: o.Seed})
	if err != nil {
		return incumbent, err
	}
	d := Decision{At: j.e.Clock(at), AtS: at.Seconds(), Reason: v.Reason, Ratio: finite(v.Ratio), Verdict: &v}
	report := v.Judgement == round.DemandLeft && before != round.DemandLeft
	if v.Judgement == round.Worse {
		j.worse = at
		if !incumbent.Equal(o.Scheduler.Space.Default()) { // always there to return to
			j.parked = append(j.parked, parked{incumbent, at + round.Parked})
		}
		incumbent, report, d.Adopted = j.trial.Prediction.LastGood, true, true
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
	return configs, j.after(at, round.Parked)
}

// after reports whether a configuration did worse within some time before an instant.
func (j *judge) after(at, within time.Duration) bool {
	return j.out.Rollbacks > 0 && at < j.worse+within
}
