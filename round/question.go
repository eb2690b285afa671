package round

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

const (
	// leastGain is the gain, as a logarithm, above which a configuration replaces the one in force, youngGain with a
	// history of less than youngHistory. Below leastHistory nothing is known.
	leastGain, youngGain       = .01, .02
	leastHistory, youngHistory = stretchLength, 2 * stretchLength
	// quieter is the size of a second cluster, in nodes of the cluster, on which the history is replayed too: changes
	// lose in quiet weeks. crowded is a third one, for the range of a promise.
	quieter, crowded = 1.3, .8
	// luck is the number of standard deviations of one replay's gain, as moved submissions cause them, that a gain has
	// to exceed: what comes is one such draw.
	luck = 2
	// little and unsure are said of a gain below the bar, and of one within its doubt.
	little = "gains too little"
	unsure = "the replays of the history differ by more than it gains"
	// boundLevel is the confidence of the lower bound of the gain of a configuration that a search found.
	boundLevel = .95
)

// Question asks whether the history of a cluster justifies a configuration other than the one in force.
type Question struct {
	// Problem has the configuration in force as its Incumbent, and of Options neither Past nor Nodes counts.
	Problem
	// History is the jobs until the instant of the question: RecordedOf a trace or Snapshot.Recorded.
	History Recorded
	// Also are further candidates. The configuration in force, the default and the scheduler's presets always are.
	Also []search.Preset
	// Found are candidates that a search found, perhaps on the same history: their gain counts by its lower bound.
	Found []search.Preset
	// Guard is the share by which a change may make a guarded time worse; negative accepts any loss.
	Guard float64
	Seed  uint64 // of the moved submissions and of the run times that are not known yet
	// Workers is the number of concurrent simulations; 0 is one per processor. The answer does not depend on it.
	Workers int
	// Replays, if set, keeps the simulations for later questions.
	Replays *Replays
	// Progress is called as replays end, from one goroutine at a time. Of is the most replays that there may be.
	Progress func(done, of int)
}

// Answer is the configuration that the history justifies.
type Answer struct {
	// Config is the configuration to run: the one in force unless Adopt.
	Config space.Config
	Adopt  bool
	Reason string // in a sentence or two
	// Gain, Low and High are those of Best, 0 without one.
	Gain, Low, High float64
	// Best is Config if that is adopted, else the candidate with the largest gain that may be adopted, nil if none is
	// better than the one in force.
	Best *Compared
	// Refused is the candidate with the largest gain that would be adopted but for a guard, nil if there is none.
	Refused *Compared
	// Compared are all candidates, the one in force first.
	Compared []Compared
	// From is the beginning of the first stretch that was replayed, Stretches their number, Jobs the number of jobs
	// that count in them. They are 0 if nothing was replayed.
	From      time.Time
	Stretches int
	Jobs      int
	// Known is the time from which on there is enough history to answer; zero if there is enough.
	Known time.Time
}

// Compared is a candidate's replays compared with those of the configuration in force.
type Compared struct {
	Origin string // as of Candidate
	Config space.Config
	Found  bool // by a search
	// Gain is the mean over the replays of the logarithm of the objective in force over that of the candidate, Bound
	// its lower bound; Low and High are the lowest and highest in a replay. Of an adopted candidate and the Refused,
	// Gain is that in replays of the stretches that have passed, with up to two weeks before each, and Low and High are
	// of these, too, and of .8 times the nodes.
	Gain, Bound, Low, High float64
	// Changes is the number of parameters that differ from the one in force.
	Changes int
	// Breaks are the guards that it breaks, the worst first; Unclear those of which the history does not tell.
	Breaks  []Broken
	Unclear []string
	// Accept is the least Question.Guard with which no guard is broken, 0 if none is.
	Accept float64
	// Losers are the groups of jobs that wait longer, the worst first, of the Best and the Refused.
	Losers []Group
	// Verdict says why it is not adopted: "" if it is.
	Verdict string
	logs    []float64 // gain in each replay
	doubt   float64   // a gain that is no larger may be a loss
	promise []float64 // gain in each replay of settled, nil where nothing is promised
	limits  []search.Limit
	failed  bool        // it did not end within its budget of events
	partial bool        // it was not replayed on the larger cluster
	rank    int         // of the metric that it gains in
	replays []*replayed // on the cluster as it is
}

// Measurement has the objective over that in force in each replay.
func (c *Compared) Measurement() search.Measurement {
	m := search.Measurement{Exhausted: c.failed}
	for _, gain := range c.logs {
		m.Values = append(m.Values, math.Exp(-gain))
	}
	return m
}

// Saved is a gain as the share of the objective that is saved.
func Saved(gain float64) float64 { return 1 - math.Exp(-gain) }

// Ask answers a question by the daily rule (docs/search.md#adoption): of the candidates, replayed on the last four
// stretches of five days, each three times with submissions moved by up to ten minutes, on the cluster and on one of
// 1.3 times the nodes, the one with the largest mean gain is adopted if that is more than 1 %, more than the standard
// error of the gain on the cluster as it is over the stretches and, unless all replays there gain, more than twice the
// standard deviation of a single one's as moved submissions cause it, and if it keeps the constraints, breaks no guard
// and gains with two weeks before each stretch, too. With less than ten days of history it has to be more than 2 %;
// with less than five the configuration in force is kept. Of candidates that gain the same but for noise, the one that
// changes the fewest parameters is taken. A configuration in force that breaks a constraint is replaced by the best
// that keeps all.
func Ask(ctx context.Context, q Question) (Answer, error) {
	out := Answer{Config: q.Incumbent}
	first, all := q.History.first(), q.History.stretches()
	if span := q.History.At - first; span < leastHistory || len(all) == 0 {
		out.Known = q.History.Zero.Add(first + leastHistory)
		out.Reason = fmt.Sprintf("The history is too short to choose by: %s of %d days.",
			units.Duration(span.Seconds()),
			leastHistory/day)
		if span > 0 {
			out.Reason += fmt.Sprintf(" It will do from %s on.", out.Known.UTC().Format("2 Jan 15:04"))
		} else {
			out.Known = time.Time{}
		}
		return out, ctx.Err()
	}
	if q.Workers <= 0 {
		q.Workers = runtime.GOMAXPROCS(0)
	}
	a := asking{Question: &q, out: &out, bar: leastGain}
	if q.History.At-first < youngHistory {
		a.bar = youngGain
	}
	err := a.measure(ctx, all)
	if errors.Is(err, errNothing) {
		clock := func(at time.Duration) string { return q.History.Zero.Add(at).UTC().Format("2 Jan 15:04") }
		out.Reason = fmt.Sprintf("No job that fits was submitted from %s to %s, in the stretches that are replayed.",
			clock(all[0].from), clock(all[len(all)-1].to))
		return out, nil
	}
	if err != nil {
		return out, err
	}
	return out, a.answer(ctx, all)
}

// guard returns the guards that a configuration breaks, the worst first.
type guard func(context.Context, space.Config) ([]Broken, error)

// guard returns the guards in the replays of the daily rule. It fails with errNothing if the history has no stretch
// that counts.
func (q *Question) guard(ctx context.Context) (guard, error) {
	f, err := q.newField(ctx, q.History.stretches(), q.History.tape(q.Seed), asIs)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c space.Config) ([]Broken, error) {
		got, err := f.run(ctx, []space.Config{q.Incumbent, c}, q.Replays, q.Workers, func() {})
		if err != nil {
			return nil, err
		}
		if exhausted(got[1]) {
			return []Broken{{What: endless}}, nil
		}
		return f.guarded(q.Guard, got[1], got[0]).breaks, nil
	}, nil
}

// asking is a question on its way to an answer.
type asking struct {
	*Question
	out        *Answer
	bar        float64
	candidates []Compared
	tape       *tape
	fields     []*field // on the cluster, and on a larger one
	steps      int
	of         int
}

// list is the candidates: the one in force first, each configuration once.
func (q *Question) list() []Compared {
	out := []Compared{{Origin: "incumbent", Config: q.Incumbent}}
	add := func(origin string, c space.Config, found bool) {
		if !slices.ContainsFunc(out, func(x Compared) bool { return x.Config.Equal(c) }) {
			out = append(out, Compared{Origin: origin, Config: c, Found: found,
				Changes: len(space.DiffConfigs(q.Incumbent, c))})
		}
	}
	add("default", q.Space.Default(), false)
	for _, p := range presetsIn(q.Space, q.Scheduler) {
		add("preset:"+p.Name, p.Config, false)
	}
	for _, p := range q.Also {
		add(originOf(p), p.Config, false)
	}
	for _, p := range q.Found {
		add(originOf(p), p.Config, true)
	}
	return out
}

// originOf is the origin of a trial of a preset.
func originOf(p search.Preset) string { return cmp.Or(p.Origin, "preset") + ":" + p.Name }

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

// counts is the gain of a candidate that counts.
func (c *Compared) counts() float64 {
	if c.Found {
		return min(c.Gain, c.Bound)
	}
	return c.Gain
}

// choose compares the candidates by the rule.
func (a *asking) choose() {
	out, inForce := a.out, &a.candidates[0]
	out.Compared = a.candidates
	out.Best, out.Config, out.Adopt = nil, a.Incumbent, false
	must := inForce.failed || inForce.infeasible()
	bar := a.bar
	if must {
		bar = math.Inf(-1)
	}
	inForce.Verdict = "in force"
	var can, refused []*Compared
	for i := 1; i < len(a.candidates); i++ {
		c := &a.candidates[i]
		switch {
		case c.failed:
			c.Verdict = endless
		case slices.ContainsFunc(a.Problem.Refused, c.Config.Equal):
			c.Verdict = "the scheduler refused it"
		case !keeps(c.limits):
			c.Verdict = "may break a constraint" + tightestOf(c.limits)
		case c.Found && c.Gain > bar && c.Bound <= bar:
			c.Verdict = fmt.Sprintf("a search found it, and it gains no more than %.1f %% with a confidence of %.0f %%",
				100*max(0, Saved(c.Bound)), 100*boundLevel)
		case c.counts() <= bar || c.partial && (must || len(c.Breaks) == 0):
			c.Verdict = little
		case (c.Gain <= c.doubt || c.promise != nil && stats.Mean(c.promise) <= 0) && !must:
			c.Verdict = unsure
		case len(c.Breaks) > 0 && a.Guard >= 0 && !must:
			c.Verdict = "guard: " + c.Breaks[0].String()
			if !c.partial {
				refused = append(refused, c)
			}
		default:
			c.Verdict = ""
			can = append(can, c)
		}
	}
	best := a.simplest(can)
	out.Refused = a.simplest(refused)
	for _, c := range can {
		switch {
		case c == best:
			out.Best, out.Config, out.Adopt = c, c.Config, true
		case c.counts() > best.counts():
			c.Verdict = "gains the same, but for noise, as one with fewer changes"
		default:
			c.Verdict = "the adopted one gains more, or the same with fewer changes"
		}
	}
	if best == nil {
		for i := range a.candidates[1:] {
			if c := &a.candidates[i+1]; (c.Verdict == little || c.Verdict == unsure) && !c.partial && c.Gain > 0 &&
				(out.Best == nil || c.Gain > out.Best.Gain) {
				out.Best = c
			}
		}
	}
	if r := out.Refused; r != nil && best != nil && r.counts() <= best.counts() {
		out.Refused = nil
	}
}

// infeasible reports whether a configuration breaks a constraint on average.
func (c *Compared) infeasible() bool { return !(&search.Measurement{Limits: c.limits}).Feasible() }

// keeps reports whether constraints are kept: on average and, where they are relative to the one in force, with
// probability minFeasibleProb.
func keeps(limits []search.Limit) bool {
	m := search.Measurement{Limits: limits}
	return m.Feasible() && m.Kept() >= minFeasibleProb
}

func tightestOf(limits []search.Limit) string {
	return tightest(&search.Trial{Measurement: search.Measurement{Limits: limits}})
}

// simplest is the candidate with the largest gain, or one that gains the same but for noise and changes fewer
// parameters.
func (a *asking) simplest(can []*Compared) (best *Compared) {
	for _, c := range can {
		if best == nil || c.counts() > best.counts() {
			best = c
		}
	}
	largest := best
	for _, c := range can {
		if c.Changes < best.Changes && largest.counts()-c.counts() <= a.noise(largest, c) {
			best = c
		}
	}
	return best
}

// noise is the standard error of the difference of two gains, as far as moved submissions cause it.
func (a *asking) noise(x, y *Compared) float64 {
	differences := make([]float64, len(x.logs))
	for i := range differences {
		differences[i] = x.logs[i] - y.logs[i]
	}
	squares, free, rest := 0.0, 0.0, differences
	for _, f := range a.fields {
		s, n := f.within(rest)
		squares, free, rest = squares+s, free+n, rest[len(f.runs):]
	}
	return math.Sqrt(squares / max(1, free) / float64(len(differences)))
}

// mostPromised is the number of configurations replayed for promises: the one in force and those of the answer.
const mostPromised = 3

// answer chooses among the candidates, promises the gains of the adopted and the refused one, and gives the reason. One
// that promises no gain is neither.
func (a *asking) answer(ctx context.Context, all []stretch) error {
	out := a.out
	for a.choose(); !a.candidates[0].failed; a.choose() {
		fresh := slices.DeleteFunc(a.named(), func(c *Compared) bool { return c.promise != nil })
		if len(fresh) == 0 {
			break
		}
		if err := a.promise(ctx, all, fresh); err != nil {
			return err
		}
	}
	for _, c := range a.named() {
		if c.promise == nil {
			continue
		}
		c.Gain = stats.Mean(c.promise)
		var err error
		if c.Losers, err = a.fields[0].losersOf(ctx, &a.candidates[0], c, a.Replays); err != nil {
			return err
		}
	}
	for i := range a.candidates {
		a.candidates[i].replays = nil
	}
	if a.Progress != nil {
		a.Progress(a.of, a.of)
	}
	if b := out.Best; b != nil {
		out.Gain, out.Low, out.High = b.Gain, b.Low, b.High
	}
	out.Reason = a.reason()
	return nil
}

// named are the candidates that the answer makes promises of.
func (a *asking) named() (out []*Compared) {
	if a.out.Adopt {
		out = append(out, a.out.Best)
	}
	if a.out.Refused != nil {
		out = append(out, a.out.Refused)
	}
	return out
}

// promise replays candidates in the ways that promises are of, on the stretches that have passed.
func (a *asking) promise(ctx context.Context, all []stretch, of []*Compared) error {
	configs := []space.Config{a.Incumbent}
	for _, c := range of {
		configs = append(configs, c.Config)
		c.promise = []float64{c.Gain}
	}
	for _, how := range [...]way{settled, smaller} {
		f, err := a.newField(ctx, a.History.passed(all), a.tape, how)
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return err
		}
		a.of = min(a.of, a.steps+2*len(configs)*len(f.runs))
		got, err := f.run(ctx, configs, a.Replays, a.Workers, a.step)
		if err != nil {
			return err
		}
		for n, c := range of {
			switch now := got[n+1]; {
			case exhausted(got[0]):
			case exhausted(now):
				c.failed = c.failed || how == settled
			default:
				gains := a.gains(c.rank, now, got[0])
				c.Low, c.High = min(c.Low, slices.Min(gains)), max(c.High, slices.Max(gains))
				if how == settled {
					c.promise = gains
				}
			}
		}
	}
	return nil
}

// byStretch groups the first values, one for each replay of a field, by stretch.
func (f *field) byStretch(values []float64) map[int][]float64 {
	groups := map[int][]float64{}
	for i, r := range f.runs {
		groups[r.stretch] = append(groups[r.stretch], values[i])
	}
	return groups
}

// reason gives the reason of the answer, in sentences.
func (a *asking) reason() string {
	out := a.out
	days := fmt.Sprintf("in the %s of up to five days since %s", units.Plural(out.Stretches, "part"),
		out.From.UTC().Format("2 Jan"))
	text := ""
	switch b := out.Best; {
	case out.Adopt && a.candidates[0].failed:
		text = fmt.Sprintf("The one in force does not end the work of the last days; %s does.", Source(b.Origin))
	case out.Adopt && !keeps(a.candidates[0].limits) && b.Gain <= a.bar:
		text = fmt.Sprintf("The one in force %s; %s keeps to all constraints%s.",
			describeLimit((&search.Measurement{Limits: a.candidates[0].limits}).Worst()), Source(b.Origin),
			tightestOf(b.limits))
	case out.Adopt:
		text = fmt.Sprintf("Expected %s %s (%s)%s.", a.change(b), days, Source(b.Origin), tightestOf(b.limits))
		if losers := LosersText(b.Losers, 1); losers != "" {
			text += " " + losers + "."
		}
		if n := len(b.Unclear); n > 0 {
			text += fmt.Sprintf(" The history does not tell the effect on the %s", b.Unclear[0])
			if n > 1 {
				text += " and on " + units.Plural(n-1, "other guarded time")
			}
			text += "."
		}
	case b != nil:
		text = fmt.Sprintf("The best (%s): expected %s %s. ", Source(b.Origin), a.change(b), days)
		if b.Verdict == unsure {
			text += "The replays differ by more than that, so it may as well be a loss."
		} else {
			text += fmt.Sprintf("A change has to gain more than %.0f %%.", 100*a.bar)
		}
	case out.Refused == nil && a.candidates[0].infeasible():
		text = fmt.Sprintf("The one in force %s %s, and none of %d configurations keeps all constraints.",
			describeLimit((&search.Measurement{Limits: a.candidates[0].limits}).Worst()), days, len(a.candidates))
	case out.Refused == nil:
		text = fmt.Sprintf("None of %d configurations is better than the one in force", len(a.candidates))
		if slices.ContainsFunc(a.candidates, func(c Compared) bool { return !c.failed && !keeps(c.limits) }) {
			text += " and keeps to the constraints"
		}
		text += " " + days + "."
	}
	if r := out.Refused; r != nil {
		if text != "" {
			text += " "
		}
		text += fmt.Sprintf("Refused (%s): expected %s %s, but %s.", Source(r.Origin), a.change(r), days, r.Breaks[0])
	}
	return text
}

// change is the change of the objective that a candidate is expected to bring, with its range.
func (a *asking) change(c *Compared) string {
	percent := func(gain float64) string { return units.Change(-Saved(gain)) }
	return fmt.Sprintf("%s %s (%s to %s)", Label(a.Goal.name(c.rank)), percent(c.Gain), percent(c.High), percent(c.Low))
}
