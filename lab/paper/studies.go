package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/lab/aggregate"
	"github.com/autosched/autosched/lab/studies"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/workload"
)

// windowOf returns the window of a name.
func windowOf(name string) *window {
	return &windows[slices.IndexFunc(windows, func(x window) bool { return x.name == name })]
}

// Features of the history before a window, which a user has, for the scheduler that runs it.
type Features struct {
	Jobs int     `json:"jobs"`
	Load float64 `json:"load"`
	// Burst is the variance of hourly submissions over their mean.
	Burst float64 `json:"burst"`
	// Tail is the share of the GPU-time that the longest hundredth of the jobs by it has.
	Tail float64 `json:"tail"`
	// Drift is the Kolmogorov-Smirnov distance of the durations of its halves.
	Drift float64 `json:"drift"`
	// Wide is the share of the GPU-time of jobs of more than a node.
	Wide float64 `json:"wide"`
	// Waiting is the share of the JCT that jobs wait, simulated under the default.
	Waiting float64 `json:"waiting"`
	// Recurrence is the share of the GPU-time of jobs whose key (user and name, where a trace has them) an earlier job
	// of the history had.
	Recurrence float64 `json:"recurrence"`
	Knobs      int     `json:"knobs"`
}

// featureDays is the history that features are of.
const featureDays = 14

func windowUnits() (out []Unit) {
	for i := range windows {
		x := &windows[i]
		for _, scheduler := range schedulerNames {
			out = append(out, Unit{Experiment: "windows", Name: x.name + "/" + scheduler, Core: !x.fortnight,
				Data:    x.file,
				Seconds: .5, measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
					f, err := features(ctx, d, x, scheduler)
					return f, nil, err
				}})
		}
	}
	return out
}

func features(ctx context.Context, d *Data, x *window, scheduler string) (*Features, error) {
	o, err := d.load(ctx, x, scheduler)
	if err != nil {
		return nil, err
	}
	o.Warmup = 0
	o.From, o.To = max(o.From-featureDays*day, 0), o.From
	jobs := o.Trace.Window(o.From, o.To).Jobs()
	if len(jobs) > 0 {
		o.From = max(o.From, jobs[0].Submit)
	}
	f := &Features{Jobs: len(jobs), Load: load(&o), Knobs: len(o.Scheduler.Space.Params())}
	hours := make([]float64, int(math.Ceil((o.To - o.From).Hours())))
	var work, early, late []float64
	wide, again, all := 0., 0., 0.
	seen := map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		hours[int((j.Submit-o.From).Hours())]++
		w := j.Duration.Seconds() * j.GPUs.Count()
		work, all = append(work, w), all+w
		if j.GPUs.Count() > 8 {
			wide += w
		}
		if seen[j.Key] {
			again += w
		}
		seen[j.Key] = j.Key != ""
		if i < len(jobs)/2 {
			early = append(early, j.Duration.Seconds())
		} else {
			late = append(late, j.Duration.Seconds())
		}
	}
	slices.Sort(work)
	top := 0.
	for _, w := range work[len(work)-(len(work)+99)/100:] {
		top += w
	}
	f.Burst, f.Tail, f.Wide, f.Drift = burst(hours), top/all, wide/all, stats.KS(early, late)
	f.Recurrence = again / all
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, err
	}
	m, err := e.Measure(ctx, "default")
	if err != nil {
		return nil, err
	}
	f.Waiting = m.AvgQueue / m.AvgJCT
	return f, nil
}

// Rejection compares studies with and without the causal model.
type Rejection struct {
	Parameters int              `json:"parameters"`
	Reference  float64          `json:"reference_jct_s"`
	Studies    []RejectionStudy `json:"studies"`
}

// RejectionStudy is one study: the trials until one was within 1 % of the reference, 0 if none was.
type RejectionStudy struct {
	Causal   bool    `json:"causal"`
	Seed     uint64  `json:"seed"`
	Trials   int     `json:"trials"`
	Measured int     `json:"measured"`
	Skipped  int     `json:"skipped"`
	Best     float64 `json:"best_over_reference"`
}

// Evaluator's processor time, trials and reference of the comparison.
const (
	evaluatorTakes                                      = 5 * time.Second
	rejectionTrials, rejectionReference, rejectionSeeds = 50, 120, 5
)

func rejectionUnits() (out []Unit) {
	for _, scheduler := range []string{"tiresias", "lucid", "gandiva"} {
		x := windowOf("pai")
		out = append(out, Unit{Experiment: "rejection", Name: scheduler, Core: true, Data: x.file, Seed: 1, Rank: 4,
			Seconds: 15, measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
				o, err := d.load(ctx, x, scheduler)
				if err != nil {
					return nil, nil, err
				}
				o.Seed = 1
				r, err := studies.Compare(ctx, o, studies.Options{Trials: rejectionTrials,
					Reference: rejectionReference,
					Seeds:     rejectionSeeds, Algorithms: []string{search.DefaultSampler}, Took: evaluatorTakes})
				if err != nil {
					return nil, nil, err
				}
				got, tuner, spent := Rejection{Parameters: r.Parameters,
					Reference: r.ReferenceJCT}, [2]float64{}, [2]float64{}
				for _, s := range r.Studies {
					got.Studies = append(got.Studies, RejectionStudy{s.Causal, s.Seed, s.Trials, s.Measured,
						s.Skipped, s.Best})
					k := 0
					if s.Causal {
						k = 1
					}
					tuner[k] += s.Tuner
					spent[k] += float64(s.Measured) * evaluatorTakes.Seconds()
				}
				return &got, map[string]float64{"tuner_over_evaluator_without": round3(tuner[0] / spent[0]),
					"tuner_over_evaluator_with": round3(tuner[1] / spent[1])}, nil
			}})
	}
	return out
}

// Aggregated is the trace aggregator on a window.
type Aggregated struct {
	JobsIn  float64 `json:"jobs_in"`
	JobsOut float64 `json:"jobs_out"`
	Tau     float64 `json:"tau"`
	// Noise is the rank correlation between the jobs and the same jobs up to a minute later.
	Noise float64 `json:"tau_of_moved_jobs"`
	Lost  float64 `json:"objective_lost"`
	Bias  float64 `json:"bias"`
}

func aggregatorUnits() (out []Unit) {
	for i := range windows {
		x := &windows[i]
		if !x.all || x.fortnight {
			continue
		}
		for _, scheduler := range schedulerNames {
			out = append(out, Unit{Experiment: "aggregator", Name: x.name + "/" + scheduler, Core: true, Data: x.file,
				Seed: 1, Rank: 3, Seconds: 1, measure: func(ctx context.Context, d *Data) (any, map[string]float64,
					error) {
					o, err := d.load(ctx, x, scheduler)
					if err != nil {
						return nil, nil, err
					}
					o.Seed, o.Horizon = 1, time.Hour
					r, err := aggregate.Measure(ctx, o, aggregate.Options{Sizes: []int{aggregate.DefaultGroup},
						Configs: 20,
						Hours:   6, Repeats: 3})
					if err != nil {
						return nil, nil, err
					}
					g := &r.Rows[1]
					return &Aggregated{g.JobsIn, g.JobsOut, g.Tau, r.Rows[0].Tau, g.Lost, g.Bias},
						map[string]float64{"speedup": round3(g.Speedup), "most_speedup": round3(g.MostSpeedup)}, nil
				}})
		}
	}
	return out
}

// Predicted is the duration predictor on later jobs, by kind of question.
type Predicted struct {
	Train   int                       `json:"train_jobs"`
	Test    int                       `json:"test_jobs"`
	Queries map[string]PredictedQuery `json:"queries"`
}

// PredictedQuery has accuracies: of the predictor and of two rules.
type PredictedQuery struct {
	Accuracy float64 `json:"accuracy"`
	Majority float64 `json:"majority"`
	Elapsed  float64 `json:"elapsed_rule"`
}

// traceUnits are units of whole traces, of some windows.
func traceUnits(experiment string, rank int, seconds float64, measure func(context.Context, *workload.Workload) (any,
	error)) (out []Unit) {
	for _, name := range forecastTraces {
		x := windowOf(name)
		out = append(out, Unit{Experiment: experiment, Name: name, Core: true, Data: x.file, Seed: 1, Rank: rank,
			Seconds: seconds, measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
				o, err := d.load(ctx, x, "tiresias")
				if err != nil {
					return nil, nil, err
				}
				v, err := measure(ctx, o.Trace)
				return v, nil, err
			}})
	}
	return out
}

// mostJobs bounds the jobs of a trace that predictors are evaluated on, the latest.
const mostJobs = 12000

func predictorUnits() []Unit {
	return traceUnits("predictor", 3, 3, func(ctx context.Context, w *workload.Workload) (any, error) {
		jobs := w.Jobs()
		jobs = jobs[max(0, len(jobs)-mostJobs):]
		e, err := durations.Evaluate(ctx, durations.Unqueued(jobs), w.Zero(), durations.EvaluateOptions{Seed: 1,
			Workers: 1}, nil)
		if err != nil {
			return nil, err
		}
		out := Predicted{Train: e.TrainJobs, Test: e.TestJobs, Queries: map[string]PredictedQuery{}}
		for _, q := range e.Queries {
			out.Queries[q.Kind] = PredictedQuery{q.Accuracy, q.Majority, q.Elapsed}
		}
		return &out, nil
	})
}

// Forecasts are the errors of forecasts of an hour's submissions, by method.
type Forecasts map[string]ForecastError

// ForecastError is the relative error by day, the paper's measure, and that of all hours together.
type ForecastError struct {
	DayLeast  float64 `json:"day_least"`
	DayMedian float64 `json:"day_median"`
	DayMost   float64 `json:"day_most"`
	WAPE      float64 `json:"wape"`
}

func arrivalUnits() []Unit {
	return traceUnits("arrivals", 3, 1, func(ctx context.Context, w *workload.Workload) (any, error) {
		first, last := w.Span()
		end := last.Truncate(day)
		h, err := arrivals.FromJobs(w.Zero(), w.Jobs(), end, arrivals.Grid{})
		if err != nil {
			return nil, err
		}
		out := Forecasts{}
		for _, name := range []string{arrivals.Repeat, "paper", arrivals.DefaultMethod} {
			choice, err := arrivals.Parse(name)
			if err != nil {
				return nil, err
			}
			f, err := arrivals.New(arrivals.Options{Method: choice})
			if err != nil {
				return nil, err
			}
			from := max(first.Truncate(day)+8*day, end-14*day)
			s, _, err := arrivals.Evaluate(ctx, h, f, arrivals.Rolling{From: from, To: end, Futures: 20, Seed: 1})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = ForecastError{s.RelMin, s.RelMed, s.RelMax, s.WAPE}
		}
		return out, nil
	})
}
