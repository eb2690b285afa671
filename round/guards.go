package round

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

const (
	// GuardSlack is the time, in seconds, that counts for nothing in a guard.
	GuardSlack = 60.
	// endless is said of a configuration that uses up its budget of events.
	endless = "does not end its work"
)

// Broken is a time that a change makes much worse, in seconds: means over the jobs of all replays. Both are 0 of a
// change with which the work does not end.
type Broken struct {
	What          string
	Before, After float64
}

func (b Broken) String() string {
	if b.After == 0 {
		return b.What
	}
	was, is := twoWaits(b.Before, b.After)
	return fmt.Sprintf("%s %s -> %s", b.What, was, is)
}

// guardVerdict is the verdict on the guards of a change.
type guardVerdict struct {
	breaks []Broken // the worst first
	// unclear are the guards that are neither broken nor kept: the stretches disagree, or too few have such jobs.
	unclear []string
	// accept is the least share, in whole percent, with which none is broken.
	accept float64
}

// guarded compares the guarded times of replays with those of others, where stretch is that of each. A time is worse if
// it exceeds the other by more than a share and a minute, and in a stretch if its mean and most of its replays do:
// replays of a stretch have the same jobs, so what one of them suffers by luck is no evidence. A guard is broken if the
// time is worse on average over all jobs and in all stretches but one: a break in one stretch is noise when the others
// agree that there is none. Two stretches have no majority, so one of them is enough. A guard is kept if the time is
// worse neither on average nor in the mean of any stretch, and if most stretches have such jobs.
//
// Without stretch each result is of a future, and half of them are enough: the futures are chances of the same hours.
func guarded(share float64, stretch func(i int) int, now, before []*replayed) (out guardVerdict) {
	need := func(n int) int { return max(1, n-1) }
	if stretch == nil {
		stretch, need = func(i int) int { return i }, func(n int) int { return (n + 1) / 2 }
	}
	if share < 0 {
		share = DefaultSettings().Guard
	}
	type pair struct{ was, now meanTime }
	stretches := map[int]bool{}
	times := map[string]map[int][]pair{}
	for i, x := range now {
		if before[i].exhausted {
			return guardVerdict{}
		}
		stretches[stretch(i)] = true
		for what, now := range x.guarded {
			if was, ok := before[i].guarded[what]; ok {
				if times[what] == nil {
					times[what] = map[int][]pair{}
				}
				times[what][stretch(i)] = append(times[what][stretch(i)], pair{was, now})
			}
		}
	}
	// mean returns the means over jobs, and the share with which they keep the guard.
	mean := func(all []pair) (was, now, enough float64) {
		jobsWas, jobsNow := 0., 0.
		for _, t := range all {
			was, now = was+t.was.mean*t.was.jobs, now+t.now.mean*t.now.jobs
			jobsWas, jobsNow = jobsWas+t.was.jobs, jobsNow+t.now.jobs
		}
		was, now = was/jobsWas, now/jobsNow
		return was, now, max(0, now-GuardSlack-was) / max(was, 1)
	}
	for _, what := range slices.Sorted(maps.Keys(times)) {
		var all []pair
		most, worst := make([]float64, len(stretches)), 0. // a stretch without such jobs is not worse
		for n, s := range slices.Sorted(maps.Keys(times[what])) {
			of := times[what][s]
			all = append(all, of...)
			shares := make([]float64, len(of))
			for k := range of {
				_, _, shares[k] = mean(of[k : k+1])
			}
			_, _, enough := mean(of)
			most[n], worst = min(enough, leastBound(shares, len(shares)/2+1)), max(worst, enough)
		}
		was, is, enough := mean(all)
		if least := min(enough, leastBound(most, need(len(most)))); least > share {
			out.breaks = append(out.breaks, Broken{what, was, is})
			out.accept = max(out.accept, math.Ceil(100*least)/100)
		} else if max(enough, worst) > share || 2*len(times[what]) <= len(stretches) {
			out.unclear = append(out.unclear, what)
		}
	}
	slices.SortStableFunc(out.breaks, func(x, y Broken) int { return cmp.Compare(y.After-y.Before, x.After-x.Before) })
	return out
}

// leastBound is the least bound that fewer of the values than some exceed.
func leastBound(values []float64, some int) float64 {
	slices.Sort(values)
	return values[len(values)-some]
}

// guards are the guards on futures.
type guards struct {
	scorer *Scorer
	share  float64
	before []*replayed // of the one in force
}

// guards measures the guarded times of the configuration in force on futures with probes.
func (p Problem) guards(ctx context.Context, share float64, futures []Scenario, horizon time.Duration,
	seed uint64) (*guards, error) {
	with := slices.Clone(futures)
	for k := range with {
		x := &with[k]
		if x.Jobs() == 0 || x.Arrivals == nil {
			continue
		}
		at := time.Duration(0)
		jobs := slices.Clone(x.Arrivals.Jobs())
		if x.State != nil {
			at = x.State.At + 1
		} else if len(jobs) > 0 {
			at = jobs[0].Submit
		}
		likes := slices.Clone(jobs)
		if x.State != nil {
			for i := range x.State.Jobs {
				j := x.State.Jobs[i].Job
				j.Duration = x.Left[i]
				likes = append(likes, j)
			}
		}
		w, err := workload.New("", x.Arrivals.Zero(),
			append(jobs, probes(likes, stretch{at, at + horizon}, rng.Stream("probe of futures", seed, uint64(k)))...))
		if err != nil {
			return nil, fmt.Errorf("round: %w", err)
		}
		x.Arrivals = w
	}
	p.Goal.Constraints = nil
	sc, err := NewScorer(&p, with)
	if err != nil {
		return nil, err
	}
	g := &guards{scorer: sc, share: share}
	g.before, err = g.times(ctx, p.Incumbent)
	return g, err
}

// times are the results of a configuration.
func (g *guards) times(ctx context.Context, c space.Config) ([]*replayed, error) {
	out := make([]*replayed, len(g.scorer.scenarios))
	for i := range out {
		var err error
		if out[i], err = g.scorer.replay(ctx, c, i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// broken returns the guards that a configuration breaks.
func (g *guards) broken(ctx context.Context, c space.Config) ([]Broken, error) {
	now, err := g.times(ctx, c)
	if err != nil {
		return nil, err
	}
	if exhausted(now) {
		return []Broken{{What: endless}}, nil
	}
	return guarded(g.share, nil, now, g.before).breaks, nil
}
