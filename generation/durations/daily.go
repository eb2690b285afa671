package durations

import (
	"context"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// Range80 is how well run times drawn for jobs cover the true ones, of jobs that ended. The prediction is the median of
// the draws.
type Range80 struct {
	N int `json:"n"`
	// Coverage is the share of run times between the 10 % and the 90 % quantile of their draws, bounds included.
	Coverage float64 `json:"coverage_80"`
	// WAPE is the sum of absolute errors over the sum of run times, MedianError the median of |error| / run time.
	WAPE        float64 `json:"wape"`
	MedianError float64 `json:"median_rel_error"`
}

// ranges adds up a Range80.
type ranges struct {
	sums     stats.Forecasts
	relative []float64
}

// add takes the draws of a job in seconds, which it sorts, and the run time.
func (r *ranges) add(drawn []float64, ran time.Duration) {
	came := max(ran, time.Second).Seconds()
	band := r.sums.Add(drawn, came)
	r.relative = append(r.relative, max(band.Median-came, came-band.Median)/came)
}

func (r *ranges) score() Range80 {
	f := &r.sums
	if f.N == 0 {
		return Range80{}
	}
	slices.Sort(r.relative)
	return Range80{N: f.N, Coverage: float64(f.Inside+f.OnBound) / float64(f.N), WAPE: f.AbsMedian / f.Came,
		MedianError: stats.Quantile(r.relative, .5)}
}

// Daily says how predictions at the submission of jobs are graded: by the knowledge of the last midnight, as rounds
// have it.
type Daily struct {
	From, To time.Duration // of the submissions
	// Learn returns the knowledge at a midnight: a model, nil if too few jobs had ended, and durations to draw from.
	Learn func(ctx context.Context, midnight time.Duration) (*Model, *Draws, error)
	// Bound bounds the run time of a job.
	Bound func(j *workload.Job, d time.Duration) time.Duration
	// Most jobs are asked about, evenly spread over those that were submitted. Count run times are drawn of each.
	Most, Count int
	Seed        uint64
}

// DailyGrade is the grade of predictions at the submission of jobs.
type DailyGrade struct {
	Score
	Drawn Range80
	// Submitted jobs, of which Asked were asked about, Open of these have not ended. Open jobs have no part in Drawn,
	// and in Score only once their class is decided.
	Submitted, Asked, Open int
}

// EvaluateDaily grades predictions of the jobs of a history, which is in order of submission. Nothing after the
// submission of a job reaches its prediction.
func EvaluateDaily(ctx context.Context, history []Record, zero time.Time, o Daily) (*DailyGrade, error) {
	out := &DailyGrade{}
	var asked []Question
	for i := range history {
		if at := history[i].Submit; at >= o.From && at < o.To {
			asked = append(asked, Question{i, at})
		}
	}
	out.Submitted = len(asked)
	if step := (len(asked) + o.Most - 1) / max(1, o.Most); step > 1 {
		kept := asked[:0]
		for i := 0; i < len(asked); i += step {
			kept = append(kept, asked[i])
		}
		asked = kept
	}
	out.Asked = len(asked)
	inTime(asked)
	e, err := Extract(ctx, history, asked)
	if err != nil {
		return nil, err
	}
	var classes scorer
	var drawn ranges
	var model Classifier
	var draws *Draws
	day := time.Duration(-1)
	p, times := make([]float64, Classes), make([]float64, o.Count)
	for i, q := range e.Questions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if midnight := zero.Add(q.At).UTC().Truncate(24 * time.Hour).Sub(zero); draws == nil || midnight != day {
			m, d, err := o.Learn(ctx, midnight)
			if err != nil {
				return nil, err
			}
			if model, draws, day = nil, d, midnight; m != nil {
				model = m.Classifier()
			}
		}
		r := &history[q.Job]
		if model != nil {
			model.Probabilities(p, e.X.Row(i))
		} else {
			draws.Plain(p, r.Job, 0)
		}
		if decided(r) {
			classes.add(p, ClassOf(r.Ran))
		}
		if !r.Ended {
			out.Open++
			continue
		}
		random := rng.Stream("graded durations", o.Seed, uint64(q.At), uint64(i))
		j := *r.Job
		j.Status = workload.Unknown // it had not ended
		for k := range times {
			times[k] = o.Bound(&j, draws.Draw(random, &j, p, 0)).Seconds()
		}
		drawn.add(times, r.Ran)
	}
	out.Score, out.Drawn = classes.score(), drawn.score()
	return out, nil
}
