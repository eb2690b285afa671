package generation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/workload"
)

// RepeatArrivals is the arrivals of an Engine that repeat the last hour; other
// names are those of arrivals.Methods.
const RepeatArrivals = "repeat"

// Ways to draw durations.
const (
	// HistoryDurations draws from the longer jobs of the closest group.
	HistoryDurations = "history"
	// PredictedDurations draws a class first, as a model predicts it that is learnt
	// anew every midnight.
	PredictedDurations = "predicted"
)

// Method says how an Engine makes futures: "arrivals" or "arrivals/durations",
// such as "ensemble/predicted". Empty parts are the defaults.
type Method string

// DefaultMethod of making futures. On real traces tuning gained more with
// predicted durations than with those of history, in the mean (docs/forecast.md).
const DefaultMethod Method = arrivals.DefaultMethod + "/" + PredictedDurations

func (m Method) split() (arrive, last string) {
	arrive, last, _ = strings.Cut(string(m), "/")
	a, l, _ := strings.Cut(string(DefaultMethod), "/")
	if arrive == "" {
		arrive = a
	}
	if last == "" {
		last = l
	}
	return arrive, last
}

// Check refuses unknown methods.
func (m Method) Check() error {
	arrive, last := m.split()
	if last != HistoryDurations && last != PredictedDurations {
		return fmt.Errorf("generation: durations %q are not %s or %s", last, HistoryDurations, PredictedDurations)
	}
	if arrive == RepeatArrivals {
		return nil
	}
	if _, err := arrivals.New(arrivals.Options{Method: arrive}); err != nil {
		return fmt.Errorf("generation: %w, or %s", err, RepeatArrivals)
	}
	return nil
}

// trainJobs bounds the jobs that durations are learnt from, the latest: more make
// a round that learns slow, and durations drift.
const trainJobs = 6000

// Engine makes the futures of one scheduler's rounds. It remembers what it has
// learnt, so that hourly rounds cost little; its futures are a function of the
// request and the history alone. It is for one goroutine.
type Engine struct {
	arrive, last string
	zero         time.Time
	forecaster   *arrivals.Forecaster
	horizon      time.Duration
	predictor    *durations.Predictor
	learnt       time.Duration // the midnight before which the predictor's jobs ended
	tried        bool
}

// NewEngine makes one for a clock whose instant 0 is zero.
func NewEngine(zero time.Time, m Method) (*Engine, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	e := &Engine{zero: zero}
	e.arrive, e.last = m.split()
	return e, nil
}

// History is what an engine learns from, as it is known at a request's instant.
type History struct {
	// Submitted are the jobs of the past in order of submission, whose arrivals are
	// forecast from.
	Submitted []workload.Job
	// Records are the ended and the active jobs in order of submission.
	Records []durations.Record
}

// Futures draws futures: active jobs with the work they have left, and arrivals
// until the horizon. Request.Durations and Recent are what is drawn from and
// repeated where the engine's own means do not reach.
func (e *Engine) Futures(ctx context.Context, r Request, h History) ([]Future, error) {
	known, err := e.outlook(ctx, &r, h)
	if err != nil {
		return nil, err
	}
	if known != nil {
		r.Durations = known
	}
	if e.arrive == RepeatArrivals {
		return Repeat(r)
	}
	drawn, err := e.forecast(ctx, &r, h)
	if err != nil {
		return nil, err
	}
	if drawn == nil {
		return Repeat(r) // nothing to forecast from yet
	}
	ran := map[string]time.Duration{}
	for i := range h.Records {
		if h.Records[i].Ended {
			ran[h.Records[i].ID] = max(h.Records[i].Ran, time.Second)
		}
	}
	futures := make([]Future, r.Count)
	for k := range futures {
		futures[k].Left = r.left(k)
		draw := rng.Stream("durations of arrivals", r.Seed, uint64(k))
		var jobs []workload.Job
		for n, a := range drawn[k].Arrivals {
			j := h.Submitted[a.Source]
			j.ID = fmt.Sprintf("%s+%d", j.ID, n)
			// A job comes again with its own duration, so that a batch's stay
			// alike; that of one that has not ended is not known.
			d, ended := ran[h.Submitted[a.Source].ID]
			if !ended {
				d = r.Durations.Draw(draw, &j, 0)
			}
			j = again(j, a.At)
			j.Duration = d
			jobs = append(jobs, j)
		}
		w, err := workload.New(fmt.Sprintf("future %d", k), r.Zero, jobs)
		if err != nil {
			return nil, fmt.Errorf("generation: %w", err)
		}
		futures[k].Arrivals = w
	}
	return futures, nil
}

// leastHistory is how much of the past a forecast needs; before, the last hour
// is repeated.
const leastHistory = 24 * time.Hour

// forecast draws arrivals; nil if there is too little history.
func (e *Engine) forecast(ctx context.Context, r *Request, h History) ([]arrivals.Future, error) {
	if len(h.Submitted) == 0 || r.At-h.Submitted[0].Submit < leastHistory {
		return nil, nil
	}
	past, err := arrivals.FromJobs(e.zero, h.Submitted, r.At, arrivals.Grid{})
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	bin := past.Bin()
	horizon := (r.Horizon + bin - 1) / bin * bin
	if e.forecaster == nil || e.horizon != horizon {
		if e.forecaster, err = arrivals.New(arrivals.Options{Method: e.arrive, Horizon: horizon}); err != nil {
			return nil, fmt.Errorf("generation: %w", err)
		}
		e.horizon = horizon
	}
	futures, err := e.forecaster.Sample(ctx, past, r.Count, r.Seed)
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	skipped := len(h.Submitted) - len(past.Jobs()) // jobs before the history begins
	for k := range futures {
		n := 0
		for _, a := range futures[k].Arrivals {
			if a.At >= r.At && a.At < r.At+r.Horizon {
				a.Source += skipped
				futures[k].Arrivals[n] = a
				n++
			}
		}
		futures[k].Arrivals = futures[k].Arrivals[:n]
	}
	return futures, nil
}

// outlook predicts the durations of the active jobs; nil where history alone
// decides. The model is learnt from what was known at the last midnight, so that
// a restart learns the same.
func (e *Engine) outlook(ctx context.Context, r *Request, h History) (Drawer, error) {
	if e.last != PredictedDurations {
		return nil, nil
	}
	day := e.zero.Add(r.At).UTC().Truncate(24 * time.Hour).Sub(e.zero)
	if !e.tried || day != e.learnt {
		past := durations.Known(h.Records, day)
		if over := len(past) - trainJobs; over > 0 {
			past = past[over:]
		}
		m, err := durations.Train(ctx, past, e.zero, "", durations.LearnOptions{Seed: 1})
		if err != nil && !errors.Is(err, durations.ErrTooFew) {
			return nil, fmt.Errorf("generation: %w", err)
		}
		e.predictor = durations.NewPredictor(e.zero, m)
		e.learnt, e.tried = day, true
	}
	if e.predictor.Model() == nil {
		return nil, nil
	}
	o, err := e.predictor.At(h.Records, nil, r.At)
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	return o, nil
}
