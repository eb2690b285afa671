// Package horizons measures how futures of different length rank configurations.
package horizons

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/lab/busy"
	"github.com/autosched/autosched/lab/portfolio"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Options configure Rank.
type Options struct {
	// Horizons of the scores to compare.
	Horizons []time.Duration
	// Configs is the number of configurations spread over the space, besides the default
	// and the presets.
	Configs int
	// Hours is the number of instants to score at, spread evenly over instants at which jobs
	// wait under the default, or run, if the scheduler is elastic.
	Hours int
	// Progress is called after every score.
	Progress func(done, of int)
}

// Ranking says how well the scores of rounds order configurations as holding each
// over the whole window does.
type Ranking struct {
	Window         string `json:"window,omitempty"`
	Scheduler      string `json:"scheduler"`
	Configurations int    `json:"configurations"`
	Instants       int    `json:"instants"`
	// Average JCTs over the window, in seconds.
	DefaultJCT float64 `json:"default_jct_s"`
	BestJCT    float64 `json:"best_jct_s"`
	Horizons   []Row   `json:"horizons"`
}

// Row is one horizon.
type Row struct {
	HorizonS float64 `json:"horizon_s"`
	// Rank is Spearman's correlation, over configurations, of the average JCT over the window
	// with the mean over instants of the score relative to the default's; OnTruth is the same
	// with the true future. Once is the mean of the correlations of single instants.
	Rank    float64 `json:"rank_correlation"`
	OnTruth float64 `json:"rank_correlation_on_truth"`
	Once    float64 `json:"rank_correlation_of_one_instant"`
	// Regret is the average JCT over the window of the configuration with the best score,
	// over the least of all, minus 1. RegretOnTruth is the same with the true future.
	Regret        float64 `json:"regret"`
	RegretOnTruth float64 `json:"regret_on_truth"`
	// Seconds is the CPU time that scores one configuration on all sampled futures.
	Seconds float64 `json:"cpu_s"`
}

// Rank holds configurations over the window, and scores each at instants of the run
// under the default, on futures whose arrivals reach as far as each of the horizons.
func Rank(ctx context.Context, o replay.Options, h Options) (*Ranking, error) {
	if len(h.Horizons) == 0 || h.Configs < 0 || h.Hours < 1 {
		return nil, fmt.Errorf("horizons: %d horizons, %d configurations, %d instants; want at least 1, 0 and 1",
			len(h.Horizons), h.Configs, h.Hours)
	}
	o.Simulate.EventBudget = portfolio.HeldEvents*o.Trace.Window(o.From, o.To).Len() + 1000
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, err
	}
	standard := o.Scheduler.Space.Default()
	instants, err := busy.Instants(ctx, e, standard, h.Hours)
	if err != nil {
		return nil, err
	}
	configs := configurations(e, h.Configs)
	held, err := holdAll(ctx, e, configs)
	if err != nil {
		return nil, err
	}
	r := &Ranking{Scheduler: o.Scheduler.Name, Configurations: len(configs), Instants: len(instants),
		DefaultJCT: held[0], BestJCT: slices.Min(held)}
	live, err := e.Start(standard, true)
	if err != nil {
		return nil, err
	}
	sampled, truth := make([]scores, len(h.Horizons)), make([]scores, len(h.Horizons))
	done := 0
	for n, at := range instants {
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return nil, err
		}
		in := e.Input(live, n, at, standard)
		for k, horizon := range h.Horizons {
			e.Options.Horizon = horizon
			futures, err := e.Futures(ctx, in)
			if err == nil {
				err = sampled[k].score(ctx, e, configs, futures)
			}
			if err == nil {
				err = truth[k].score(ctx, e, configs, []round.Scenario{e.Truth(in)})
			}
			if err != nil {
				return nil, fmt.Errorf("horizon %v at %s: %w", horizon, e.Clock(at), err)
			}
			if done++; h.Progress != nil {
				h.Progress(done, len(instants)*len(h.Horizons))
			}
		}
	}
	for k, horizon := range h.Horizons {
		row := Row{HorizonS: horizon.Seconds(),
			Seconds: sampled[k].took.Seconds() / float64(len(configs)*len(instants))}
		row.Rank, row.Regret = sampled[k].against(held)
		row.OnTruth, row.RegretOnTruth = truth[k].against(held)
		for _, once := range sampled[k].relative {
			row.Once += stats.Spearman(once, held) / float64(len(instants))
		}
		r.Horizons = append(r.Horizons, row)
	}
	return r, nil
}

// configurations are the default, the presets, and a spread over the space in which
// parameters without effect have the default's values; none is there twice.
func configurations(e *replay.Evaluation, spread int) []space.Config {
	s := e.Options.Scheduler
	inert := round.Inert(s, round.HasDeadline(e.Workload.Jobs()), false)
	all := []space.Config{s.Space.Default()}
	for _, p := range s.Presets {
		all = append(all, p.Config)
	}
	all = append(all, search.Spread(s.Space, e.Options.Seed, spread)...)
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(c space.Config) bool {
		for _, id := range inert {
			c = c.With(id, s.Space.Default().Get(id))
		}
		c, _ = s.Space.Project(c)
		again := seen[c.Hash()]
		seen[c.Hash()] = true
		return again
	})
}

// holdAll holds each configuration over the window and returns the average JCTs in
// seconds, +Inf of livelocked ones.
func holdAll(ctx context.Context, e *replay.Evaluation, configs []space.Config) ([]float64, error) {
	out := make([]float64, len(configs))
	for i, c := range configs {
		live, err := e.Start(c, false)
		if err == nil {
			err = live.Sim.Run(ctx)
		}
		switch {
		case errors.Is(err, simulator.ErrBudget):
			out[i] = math.Inf(1)
		case err != nil:
			return nil, fmt.Errorf("%v: %w", c, err)
		default:
			out[i] = simulator.Describe(live.Sim.Outcomes(nil)).AvgJCT
		}
	}
	return out, nil
}

// scores are the scores of all configurations at instants, relative to the first one's.
type scores struct {
	relative [][]float64 // by instant, then configuration
	took     time.Duration
}

func (s *scores) score(ctx context.Context, e *replay.Evaluation, configs []space.Config, x []round.Scenario) error {
	scorer, err := e.Scorer(x...)
	if err != nil {
		return err
	}
	began := cputime.Process()
	values := make([]float64, len(configs))
	for i, c := range configs {
		m, err := scorer.Measure(ctx, c)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		values[i] = math.Inf(1)
		if !m.Exhausted {
			values[i] = m.Mean()
		}
	}
	s.took += cputime.Process() - began
	standard := values[0]
	for i := range values {
		values[i] /= standard
	}
	s.relative = append(s.relative, values)
	return nil
}

// against compares means over instants with the results of holding the configurations: their
// rank correlation, and the regret of the best on average.
func (s *scores) against(held []float64) (rank, regret float64) {
	mean := make([]float64, len(held))
	best := 0
	for i := range mean {
		for _, once := range s.relative {
			mean[i] += once[i] / float64(len(s.relative))
		}
		if mean[i] < mean[best] {
			best = i
		}
	}
	return stats.Spearman(mean, held), held[best]/slices.Min(held) - 1
}
