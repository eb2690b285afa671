package generation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// Predictor draws run times as the futures of an instant do. It is read-only, and safe for many goroutines.
type Predictor struct {
	At    time.Duration
	known *durations.Outlook
}

// Predictor returns that of the last futures, nil before the first.
func (e *Engine) Predictor() *Predictor { return e.last }

// draw draws the whole run time of a job that has run for ran.
func (p *Predictor) draw(r *rand.Rand, j *workload.Job, ran time.Duration) time.Duration {
	return within(j, p.known.Draw(r, j, ran), ran)
}

// RunTime is a predicted run time: the 10 % quantile, the median and the 90 % quantile of draws. Modelled says that
// they are of a model, not of history alone.
type RunTime struct {
	Low, Middle, High time.Duration
	Modelled          bool
}

// runTimeDraws is a number of draws of which a quantile of 10 % has ten beyond it.
const runTimeDraws = 101

// RunTime predicts the whole run time of a job that has run for ran: the same for the same job and time.
func (p *Predictor) RunTime(j *workload.Job, ran time.Duration) RunTime {
	draw := rng.Stream("run time of "+j.ID, uint64(ran))
	all := make([]float64, runTimeDraws)
	for i := range all {
		all[i] = p.draw(draw, j, ran).Seconds()
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return time.Duration(stats.Quantile(all, q) * float64(time.Second)) }
	return RunTime{max(ran, at(.1)), max(ran, at(.5)), max(ran, at(.9)), p.known.Modelled(j.ID)}
}
