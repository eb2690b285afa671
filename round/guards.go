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
	// guardShare of the replays in which a guard is broken break it.
	guardShare = .5
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

// broken returns the guards that replays break, the worst first: the times that are worse than those of other replays
// by more than a share, and a minute, on average and in half of the replays or more. accept is the least share, in
// whole percent, with which none is broken.
func broken(share float64, now, before []*replayed) (out []Broken, accept float64) {
	if share < 0 {
		share = DefaultSettings().Guard
	}
	type pair struct{ was, now meanTime }
	times := map[string][]pair{}
	for i, x := range now {
		if before[i].exhausted {
			return nil, 0
		}
		for what, now := range x.guarded {
			if was, ok := before[i].guarded[what]; ok {
				times[what] = append(times[what], pair{was, now})
			}
		}
	}
	// enough is the share with which a time keeps the guard.
	enough := func(was, now float64) float64 { return max(0, now-GuardSlack-was) / max(was, 1) }
	for _, what := range slices.Sorted(maps.Keys(times)) {
		var shares []float64
		b, jobsWas, jobsNow := Broken{What: what}, 0., 0.
		for _, t := range times[what] {
			b.Before, b.After = b.Before+t.was.mean*t.was.jobs, b.After+t.now.mean*t.now.jobs
			jobsWas, jobsNow = jobsWas+t.was.jobs, jobsNow+t.now.jobs
			shares = append(shares, enough(t.was.mean, t.now.mean))
		}
		b.Before, b.After = b.Before/jobsWas, b.After/jobsNow
		n := float64(len(shares))
		slices.Sort(shares)
		// With a share of the one at this place, less than guardShare of the replays are worse.
		least := min(enough(b.Before, b.After), shares[len(shares)-int(math.Ceil(guardShare*n))])
		if least > share {
			out, accept = append(out, b), max(accept, math.Ceil(100*least)/100)
		}
	}
	slices.SortStableFunc(out, func(x, y Broken) int { return cmp.Compare(y.After-y.Before, x.After-x.Before) })
	return out, accept
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
	out, _ := broken(g.share, now, g.before)
	return out, nil
}
