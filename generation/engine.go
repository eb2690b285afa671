package generation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/workload"
)

// Ways to draw durations.
const (
	// HistoryDurations draws from the longer jobs of the closest group.
	HistoryDurations = "history"
	// PredictedDurations draws a class first, as a model predicts it that is learnt
	// anew every midnight.
	PredictedDurations = "predicted"
)

// DefaultMethod of making futures. On real traces tuning gained more with
// predicted durations than with those of history, in the mean (docs/forecast.md).
const DefaultMethod = arrivals.DefaultMethod + "/" + PredictedDurations

// Method says how an Engine makes futures. The zero value is DefaultMethod.
type Method struct {
	Arrivals arrivals.Choice
	history  bool // durations are drawn from history alone
}

// ParseMethod reads "arrivals" or "arrivals/durations", such as DefaultMethod.
// Empty parts are the default's.
func ParseMethod(text string) (Method, error) {
	arrive, last, _ := strings.Cut(text, "/")
	if last != "" && last != HistoryDurations && last != PredictedDurations {
		return Method{}, fmt.Errorf("generation: durations %q are not %s or %s",
			last, HistoryDurations, PredictedDurations)
	}
	choice, err := arrivals.Parse(arrive)
	if err != nil {
		return Method{}, fmt.Errorf("generation: %w", err)
	}
	return Method{Arrivals: choice, history: last == HistoryDurations}, nil
}

// String is the text that ParseMethod reads.
func (m Method) String() string {
	if m.history {
		return m.Arrivals.String() + "/" + HistoryDurations
	}
	return m.Arrivals.String() + "/" + PredictedDurations
}

// trainJobs bounds the jobs that durations are learnt from, the latest: more make
// a round that learns slow, and durations drift.
const trainJobs = 6000

// Engine makes the futures of one scheduler's rounds. It remembers what it has
// learnt, so that hourly rounds cost little; its futures are a function of the
// request alone. It is for one goroutine.
type Engine struct {
	method     Method
	zero       time.Time
	forecaster *arrivals.Forecaster
	model      *durations.Model   // nil if too few jobs have ended
	learnt     []durations.Record // by the model, if trained
	trained    bool
	last       *Predictor
}

// NewEngine makes one for a clock whose instant 0 is zero.
func NewEngine(zero time.Time, m Method) *Engine { return &Engine{method: m, zero: zero} }

// Futures draws futures: active jobs with the work they have left, and arrivals
// until the horizon, none longer than its time limit, unless it ran for longer. Arrivals that lack a
// limit get one where jobs like them have some. The last hour is repeated until there is enough history to
// forecast from, and durations are drawn from history until enough jobs have ended
// to learn from.
func (e *Engine) Futures(ctx context.Context, r Request) ([]Future, error) {
	known, err := e.outlook(ctx, &r)
	if err != nil {
		return nil, err
	}
	drawn, err := e.forecast(ctx, &r)
	if err != nil {
		return nil, err
	}
	e.last = &Predictor{At: r.At, known: known}
	asked := limitsOf(r.Records)
	ran := map[string]time.Duration{}
	for i := range r.Records {
		if x := &r.Records[i]; x.Ended {
			ran[x.ID] = within(x.Job, max(x.Ran, time.Second), x.Ran)
		}
	}
	futures := make([]Future, r.Count)
	for k := range futures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		draw := rng.Stream("remaining", r.Seed, uint64(k))
		left := make([]time.Duration, len(r.Active))
		for i := range r.Active {
			a := &r.Active[i]
			left[i] = max(1, e.last.draw(draw, a.Job, a.Ran)-a.Ran)
		}
		draw = rng.Stream("durations of arrivals", r.Seed, uint64(k))
		drawLimit := rng.Stream("limits of arrivals", r.Seed, uint64(k))
		jobs := make([]workload.Job, len(drawn[k]))
		for n, a := range drawn[k] {
			j := r.Submitted[a.Source]
			j.ID = fmt.Sprintf("%s+%d", j.ID, n)
			// A job comes again with its own duration, so that a batch's stay
			// alike; that of one that has not ended is not known.
			d, ended := ran[r.Submitted[a.Source].ID]
			if !ended {
				d = e.last.draw(draw, &j, 0)
			}
			jobs[n] = again(j, a.At)
			jobs[n].Duration = d
			asked.draw(drawLimit, &jobs[n], d)
		}
		w, err := workload.New(fmt.Sprintf("future %d", k), e.zero, jobs)
		if err != nil {
			return nil, fmt.Errorf("generation: %w", err)
		}
		futures[k] = Future{left, w}
	}
	return futures, nil
}

// leastHistory is how much of the past a forecast needs; before, the last hour
// is repeated.
const leastHistory = 24 * time.Hour

// forecast draws the arrivals of each future, with sources in r.Submitted.
func (e *Engine) forecast(ctx context.Context, r *Request) ([][]arrivals.Arrival, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	past, err := arrivals.FromJobs(e.zero, r.Submitted, r.At, arrivals.Grid{})
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	bin := past.Bin()
	o := arrivals.Options{Method: e.method.Arrivals, Horizon: (r.Horizon + bin - 1) / bin * bin}
	f := e.forecaster
	switch {
	case len(r.Submitted) == 0 || r.At-r.Submitted[0].Submit < leastHistory:
		if o.Method, err = arrivals.Parse(arrivals.Repeat); err == nil {
			f, err = arrivals.New(o)
		}
	case f == nil || f.Horizon() != o.Horizon:
		f, err = arrivals.New(o)
		e.forecaster = f
	}
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	futures, err := f.Sample(ctx, past, r.Count, r.Seed)
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	skipped := len(r.Submitted) - len(past.Jobs()) // jobs before the history begins
	out := make([][]arrivals.Arrival, len(futures))
	for k := range futures {
		for _, a := range futures[k].Arrivals {
			if a.At >= r.At && a.At < r.At+r.Horizon {
				a.Source += skipped
				out[k] = append(out[k], a)
			}
		}
	}
	return out, nil
}

// outlook says how long jobs last. Its model is learnt from the history until the
// last midnight, and anew once events of before come in late, so that a restart learns the
// same; there is none where history alone decides or too few jobs have ended.
func (e *Engine) outlook(ctx context.Context, r *Request) (*durations.Outlook, error) {
	if e.method.history {
		return durations.FromHistory(r.Records), nil
	}
	day := e.zero.Add(r.At).UTC().Truncate(24 * time.Hour).Sub(e.zero)
	var past []durations.Record
	if r.Known != nil {
		past = r.Known(day)
	} else {
		past = durations.Known(r.Records, day)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	past = past[max(0, len(past)-trainJobs):]
	if !e.trained || !slices.EqualFunc(past, e.learnt, sameRecord) {
		m, err := trained(ctx, past, e.zero)
		if err != nil {
			return nil, err
		}
		e.model, e.learnt, e.trained = m, past, true
	}
	o, err := durations.NewOutlook(e.model, r.Records, r.At)
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	return o, nil
}

// trained returns a model of the latest jobs of a history, nil if too few have ended.
func trained(ctx context.Context, past []durations.Record, zero time.Time) (*durations.Model, error) {
	m, err := durations.Train(ctx, past, zero, "", durations.LearnOptions{Seed: 1})
	if err != nil && !errors.Is(err, durations.ErrTooFew) {
		return nil, fmt.Errorf("generation: %w", err)
	}
	return m, nil
}

// sameRecord reports whether two records say the same of the same job.
func sameRecord(a, b durations.Record) bool {
	return a.ID == b.ID && a.Submit == b.Submit && a.Begin == b.Begin && a.Until == b.Until && a.Ran == b.Ran &&
		a.Ended == b.Ended
}
