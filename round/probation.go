package round

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/internal/units"
)

const (
	// Parked is how long a configuration is refused that reported metrics found Worse.
	Parked = 24 * time.Hour
	// leastHorizon is the least horizon that leaves time for two looks.
	leastHorizon = leastAge + 2*BurstInterval
)

// Probation compares a configuration that was adopted with what was promised of it, in looks
// that get rarer.
type Probation struct {
	Prediction *Prediction
	// Next is the instant of the next look, Verdict the result of the last one.
	Next    time.Duration
	Verdict Verdict
}

// NewProbation begins at the instant of the prediction.
func NewProbation(p *Prediction) Probation {
	return Probation{Prediction: p, Next: p.At + NextLook(0, false)}
}

// Over says why a trial ends without a loss at an instant, "" if it goes on.
func (t *Probation) Over(at time.Duration) string {
	switch p := t.Prediction; {
	case p.Applied.Equal(p.LastGood):
		return "It has the values of the last good configuration."
	case len(p.Futures) == 0:
		return "Not watched: no job was expected."
	case p.Until() < leastHorizon:
		return fmt.Sprintf("Not watched: a horizon of %s is too short, the least is %s.",
			units.Duration(p.Until().Seconds()), units.Duration(leastHorizon.Seconds()))
	case at-p.At > p.Until():
		return fmt.Sprintf("No loss within %s, as far as was forecast.", units.Duration(p.Until().Seconds()))
	}
	return ""
}

// Look judges at the instant of the input's Snapshot. Of the input, Prediction and Against are
// the trial's, and Seed is that of all its looks.
func (t *Probation) Look(ctx context.Context, in JudgeInput) (Verdict, error) {
	at := in.State.At
	in.Prediction, in.Against, in.Seed = t.Prediction, t.Verdict.Against, Seed(in.Seed, int(at/time.Minute))
	v, err := Judge(ctx, &in)
	if err != nil {
		return v, err
	}
	t.Verdict, t.Next = v, t.Prediction.At+NextLook(at-t.Prediction.At, v.Suspect && v.Judgement != Worse)
	return v, nil
}
