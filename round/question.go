package round

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

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
	promised   int // stretches that promises are of
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
