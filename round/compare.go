package round

import (
	"context"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// measure replays the candidates.
func (a *asking) measure(ctx context.Context, all []stretch) error {
	a.candidates, a.tape = a.list(), a.History.tape(a.Seed)
	configs := make([]space.Config, len(a.candidates))
	for i := range configs {
		configs[i] = a.candidates[i].Config
	}
	got := make([][][]*replayed, 2) // by size and candidate, nil where it was not replayed
	for n, how := range [...]way{asIs, larger} {
		f, err := a.newField(ctx, all, a.tape, how)
		if err != nil {
			return err
		}
		a.fields = append(a.fields, f)
		sizes := len(got) - n
		a.of = a.steps + (sizes*len(configs)+mostPromised)*len(f.runs)
		got[n] = make([][]*replayed, len(a.candidates))
		for len(configs) > 0 {
			now, err := f.run(ctx, configs, a.Replays, a.Workers, a.step)
			if err != nil {
				return err
			}
			for i := range a.candidates {
				if k := slices.IndexFunc(configs, a.candidates[i].Config.Equal); k >= 0 {
					got[n][i] = now[k]
				}
			}
			configs = nil
			for i, c := range a.candidates {
				if n == 1 && exhausted(got[1][0]) && got[1][i] == nil { // the one in force has to be replaced
					configs = append(configs, c.Config)
				}
			}
			a.of += len(configs) * len(f.runs)
		}
		if n == 0 {
			configs = a.hopeful(got[0])
		}
	}
	for i := range a.candidates {
		c := &a.candidates[i]
		c.replays, c.partial = got[0][i], got[1][i] == nil
		c.failed = exhausted(got[0][i]) || exhausted(got[1][i])
		if c.failed {
			continue
		}
		for rank := range len(a.Goal.Then) + 1 {
			var logs []float64
			for n := range got {
				logs = append(logs, a.gains(rank, got[n][i], got[n][0])...)
			}
			mean := stats.Mean(logs)
			if rank == 0 || mean > a.bar {
				c.rank, c.logs = rank, logs
			}
			if mean > a.bar || rank < len(a.Goal.Then) && mean < -math.Log1p(a.Goal.Then[rank].Within) {
				break
			}
		}
		c.limits = a.limits(got[0][i], got[0][0])
		g := a.fields[0].guarded(a.Guard, got[0][i], got[0][0])
		c.Breaks, c.Unclear, c.Accept = g.breaks, g.unclear, g.accept
	}
	for i := range a.candidates {
		a.summarise(&a.candidates[i])
	}
	seen := map[int]bool{}
	for i, r := range a.fields[0].runs {
		if !seen[r.stretch] {
			seen[r.stretch] = true
			a.out.Jobs += counted(&a.fields[0].scorer.scenarios[i])
		}
	}
	a.out.From, a.out.Stretches = a.History.Zero.Add(all[0].from), len(seen)
	return nil
}

const (
	// hopeless is the loss on the cluster itself, as a logarithm, that no gain on a larger one makes up for.
	hopeless = .03
	// alike is a difference of gains on the cluster itself, below which of two candidates that break a guard either may
	// be the one to name.
	alike = .005
)

// hopeful are the candidates to replay on the larger cluster, by their replays on the cluster itself: the one in force
// and others that are not hopeless; of these that break a guard, only the ones that may be named for the largest gain.
// They are all where the one in force has to be replaced, or the goal has metrics by rank.
func (a *asking) hopeful(got [][]*replayed) (out []space.Config) {
	all := len(a.Goal.Then) > 0 || exhausted(got[0]) ||
		!(&search.Measurement{Limits: a.limits(got[0], got[0])}).Feasible()
	// most is the largest gain that counts of the candidates that break a guard and may be named.
	gain, refused, most := make([]float64, len(got)), make([]bool, len(got)), -hopeless
	for i := range got {
		if all || exhausted(got[i]) {
			continue
		}
		c := Compared{Found: a.candidates[i].Found, logs: a.gains(0, got[i], got[0])}
		a.summarise(&c)
		gain[i] = c.Gain
		worse := a.fields[0].guarded(a.Guard, got[i], got[0]).breaks
		if refused[i] = a.Guard >= 0 && len(worse) > 0; !refused[i] {
			continue
		}
		if keeps(a.limits(got[i], got[0])) && !slices.ContainsFunc(a.Refused, a.candidates[i].Config.Equal) {
			most = max(most, c.counts())
		} else {
			gain[i] = -failed // nothing names it
		}
	}
	for i := range got {
		if i == 0 || all || !exhausted(got[i]) && gain[i] > -hopeless && (!refused[i] || gain[i] >= most-alike) {
			out = append(out, a.candidates[i].Config)
		}
	}
	return out
}

// step counts a replay. The last one that there may be is announced with the answer.
func (a *asking) step() {
	if a.steps++; a.Progress != nil && a.steps < a.of {
		a.Progress(a.steps, a.of)
	}
}

func exhausted(all []*replayed) bool {
	return slices.ContainsFunc(all, func(x *replayed) bool { return x.exhausted })
}

// gains are those of a candidate in each replay, in the metric of a rank.
func (a *asking) gains(rank int, got, inForce []*replayed) []float64 {
	out := make([]float64, len(got))
	for i := range got {
		if !inForce[i].exhausted {
			out[i] = a.Goal.gained(rank, got[i], inForce[i])
		}
	}
	return out
}

// gained is the gain of a replay over another, as a logarithm, in the metric of a rank.
func (g *Goal) gained(rank int, now, was *replayed) float64 {
	if rank > 0 {
		name := g.Then[rank-1].Metric
		return logRatio(atLeast(name, was.values[name]), atLeast(name, now.values[name]))
	}
	sum := 0.0
	for _, t := range g.Terms {
		sum += t.Weight * math.Exp(logRatio(atLeast(t.Metric, now.values[t.Metric]),
			atLeast(t.Metric, was.values[t.Metric])))
	}
	return -math.Log(sum)
}

// atLeast keeps ratios of values near 0 from counting: a second, a thousandth of the jobs.
func atLeast(metric string, v float64) float64 {
	switch metrics[metric].unit {
	case "s":
		return max(v, 1)
	case "%":
		return max(v, .001)
	}
	return v
}

// limits are the constraints of the goal in the replays.
func (a *asking) limits(got, inForce []*replayed) (out []search.Limit) {
	for _, c := range a.Goal.Constraints {
		if c.Factor > 0 && exhausted(inForce) {
			continue
		}
		of := func(all []*replayed) func(i int) map[string]float64 {
			return func(i int) map[string]float64 {
				if metrics[c.Metric].tenants {
					return all[i].tenants[c.Metric]
				}
				return map[string]float64{"": all[i].values[c.Metric]}
			}
		}
		out = append(out, limitsOf(c, len(got), of(got), of(inForce))...)
	}
	return out
}

// summarise computes the gain of a candidate and its bounds.
func (a *asking) summarise(c *Compared) {
	if c.failed {
		return
	}
	c.Gain, c.Low, c.High = stats.Mean(c.logs), slices.Min(c.logs), slices.Max(c.logs)
	whole := map[int][]float64{}
	rest := c.logs
	for n, f := range a.fields {
		if len(rest) == 0 { // partial
			break
		}
		if n == 0 {
			c.doubt = f.doubt(rest)
		}
		for n, v := range f.byStretch(rest) {
			whole[n] = append(whole[n], v...)
		}
		rest = rest[len(f.runs):]
	}
	if c.Bound = -failed; len(whole) > 1 { // of one stretch nothing is known
		mean, err := overStretches(whole)
		c.Bound = mean - err*distuv.StudentsT{Sigma: 1, Nu: float64(len(whole) - 1)}.Quantile(boundLevel)
	}
}

// overStretches is the mean of the means of stretches, and its standard error.
func overStretches(groups map[int][]float64) (mean, err float64) {
	var means []float64
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		means = append(means, stats.Mean(groups[n]))
	}
	if len(means) > 1 {
		err = stat.StdErr(stat.StdDev(means, nil), float64(len(means)))
	}
	return stats.Mean(means), err
}

// doubt is the least gain that replays of a field tell from a loss: the standard error of theirs over the stretches, or
// luck of a single replay where one of them gains nothing.
func (f *field) doubt(gains []float64) float64 {
	_, err := overStretches(f.byStretch(gains))
	if slices.Min(gains[:len(f.runs)]) > 0 {
		return err
	}
	squares, free := f.within(gains)
	return max(err, luck*math.Sqrt(squares/max(1, free)))
}

// within is the sum of the squared deviations of values from the means of their stretches, and its degrees of freedom.
func (f *field) within(values []float64) (squares, free float64) {
	groups := f.byStretch(values)
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		mean := stats.Mean(groups[n])
		for _, v := range groups[n] {
			squares += (v - mean) * (v - mean)
		}
		free += float64(len(groups[n]) - 1)
	}
	return squares, free
}

// byStretch groups the first values, one for each replay of a field, by stretch.
func (f *field) byStretch(values []float64) map[int][]float64 {
	groups := map[int][]float64{}
	for i, r := range f.runs {
		groups[r.stretch] = append(groups[r.stretch], values[i])
	}
	return groups
}
