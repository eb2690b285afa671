package generation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// GradeRequest is the past that forecasts are graded on.
type GradeRequest struct {
	// From and To bound the hours that are graded.
	From, To time.Duration
	// Records are the jobs that ended and the active ones, as known now, in order of submission; Known returns them as
	// they were at an earlier instant.
	Records []durations.Record
	Known   func(at time.Duration) []durations.Record
	// Submitted are the jobs of the past in order of submission, of which arrivals are forecast.
	Submitted []workload.Job
	Seed      uint64
}

// Grades are the forecasts of the past beside the truth.
type Grades struct {
	From, To time.Duration
	Since    time.Duration // submission of the first job that a forecast learns from
	Futures  int
	// Jobs and GPUHours are scores of hours, forecast when they begin; GPUHours is nil where the jobs of too many hours
	// have not ended.
	Jobs, GPUHours *arrivals.Score
	Hours          []GradedHour
	Durations      *durations.DailyGrade
}

// GradedHour is an hour with its forecast.
type GradedHour struct {
	At   time.Duration
	Jobs stats.Band
	Came int
	// GPUHours are those of the jobs that arrive in the hour. CameGPUHours is what those that ended took; the other
	// Open ones are left out.
	GPUHours     stats.Band
	CameGPUHours float64
	Open         int
}

// ErrShortHistory is the reason why nothing is graded.
var ErrShortHistory = errors.New("there is no whole hour a day or more after the first job")

const (
	gradedJobs  = 20_000
	gradedDraws = 50
	// leastClosed is the share of hours whose jobs have all ended from which on GPU-hours are scored: the others have
	// the long jobs.
	leastClosed = .9
)

// Grader grades forecasts as an Engine of its method makes them: arrivals an hour ahead, run times at submission. It
// remembers the models of past days. Its grades are a function of the request alone. It is for one goroutine.
type Grader struct {
	method     Method
	zero       time.Time
	forecaster *arrivals.Forecaster
	models     map[time.Duration]*learnt // by midnight
}

// learnt is a model with the records that it was learnt from.
type learnt struct {
	model *durations.Model
	from  []durations.Record
}

// NewGrader makes one for a clock whose instant 0 is zero.
func NewGrader(zero time.Time, m Method) *Grader {
	return &Grader{method: m, zero: zero, models: map[time.Duration]*learnt{}}
}

// Grade grades the forecasts of a past.
func (g *Grader) Grade(ctx context.Context, r GradeRequest) (*Grades, error) {
	if len(r.Submitted) == 0 {
		return nil, ErrShortHistory
	}
	r.From = g.hour(max(r.From, r.Submitted[0].Submit+leastHistory) + time.Hour - 1)
	if r.To = g.hour(r.To); r.To < r.From+time.Hour {
		return nil, ErrShortHistory
	}
	dawns := map[time.Duration]*dawn{}
	at := func(midnight time.Duration) *dawn {
		d := dawns[midnight]
		if d == nil {
			known := r.Known(midnight)
			d = &dawn{known, durations.NewDraws(known)}
			dawns[midnight] = d
		}
		return d
	}
	out := &Grades{From: r.From, To: r.To, Since: r.Submitted[0].Submit, Futures: arrivals.DefaultFutures}
	if err := g.hours(ctx, &r, out, at); err != nil {
		return nil, err
	}
	var err error
	out.Durations, err = durations.EvaluateDaily(ctx, r.Records, g.zero, durations.Daily{From: r.From, To: r.To,
		Learn: func(ctx context.Context, midnight time.Duration) (*durations.Model, *durations.Draws, error) {
			d := at(midnight)
			m, err := g.model(ctx, midnight, d.known)
			return m, d.draws, err
		},
		Bound: func(j *workload.Job, d time.Duration) time.Duration { return within(j, d, 0) },
		Most:  gradedJobs, Count: gradedDraws, Seed: r.Seed})
	for midnight := range g.models {
		if midnight < r.From-24*time.Hour || midnight > r.To {
			delete(g.models, midnight)
		}
	}
	return out, err
}

// dawn is the knowledge at a midnight.
type dawn struct {
	known []durations.Record
	draws *durations.Draws
}

// hour is the last full hour of the clock until an instant.
func (g *Grader) hour(at time.Duration) time.Duration {
	return g.zero.Add(at).UTC().Truncate(time.Hour).Sub(g.zero)
}

// model is that of the records known at a midnight.
func (g *Grader) model(ctx context.Context, midnight time.Duration, known []durations.Record) (*durations.Model,
	error) {
	if g.method.history {
		return nil, nil
	}
	known = known[max(0, len(known)-trainJobs):]
	if l := g.models[midnight]; l != nil && slices.EqualFunc(known, l.from, sameRecord) {
		return l.model, nil
	}
	m, err := trained(ctx, known, g.zero)
	if err != nil {
		return nil, err
	}
	g.models[midnight] = &learnt{m, known}
	return m, nil
}

// hours forecasts every hour of a past and compares it with the arrivals.
func (g *Grader) hours(ctx context.Context, r *GradeRequest, out *Grades,
	at func(midnight time.Duration) *dawn) error {
	past, err := arrivals.FromJobs(g.zero, r.Submitted, r.To, arrivals.Grid{})
	if err != nil {
		return err
	}
	if g.forecaster == nil {
		if g.forecaster, err = arrivals.New(arrivals.Options{Method: g.method.Arrivals}); err != nil {
			return err
		}
	}
	ended := map[string]*durations.Record{}
	for i := range r.Records {
		if x := &r.Records[i]; x.Ended {
			ended[x.ID] = x
		}
	}
	var sums stats.Forecasts
	closed := 0
	jobs := past.Jobs()
	each := func(begin time.Duration, known *arrivals.History, futures []arrivals.Future, band stats.Band) {
		h := GradedHour{At: begin, Jobs: band}
		for i := len(known.Jobs()); i < len(jobs) && jobs[i].Submit < begin+time.Hour; i++ {
			h.Came++
			if x := ended[jobs[i].ID]; x != nil {
				h.CameGPUHours += x.GPUs.Count() * x.Ran.Hours()
			} else {
				h.Open++
			}
		}
		draws := at(g.zero.Add(begin).UTC().Truncate(24 * time.Hour).Sub(g.zero)).draws
		totals := make([]float64, len(futures))
		p := make([]float64, durations.Classes)
		for k := range futures {
			random := rng.Stream("graded arrivals", r.Seed, uint64(begin), uint64(k))
			for _, a := range futures[k].Arrivals {
				j := &jobs[a.Source]
				var ran time.Duration
				if x := ended[j.ID]; x != nil && x.Until <= begin {
					ran = within(x.Job, max(x.Ran, time.Second), x.Ran)
				} else {
					draws.Plain(p, j, 0)
					ran = within(j, draws.Draw(random, j, p, 0), 0)
				}
				totals[k] += j.GPUs.Count() * ran.Hours()
			}
		}
		if h.Open == 0 {
			closed++
			h.GPUHours = sums.Add(totals, h.CameGPUHours)
		} else {
			h.GPUHours = new(stats.Forecasts).Add(totals, h.CameGPUHours)
		}
		out.Hours = append(out.Hours, h)
	}
	if out.Jobs, _, err = arrivals.Evaluate(ctx, past, g.forecaster, arrivals.Rolling{From: r.From, To: r.To,
		Seed: r.Seed, Each: each}); err != nil {
		return err
	}
	if closed > 0 && float64(closed) >= leastClosed*float64(len(out.Hours)) {
		out.GPUHours = arrivals.ScoreOf(&sums)
	}
	return nil
}
