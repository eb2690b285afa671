package decide

import (
	"sort"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// tuneReport is the result of tune, the trials best first.
type tuneReport struct {
	Trace     string     `json:"trace"`
	Synthetic bool       `json:"synthetic"`
	At        string     `json:"at"`
	Scheduler string     `json:"scheduler"`
	Objective string     `json:"objective"`
	goal      round.Goal // of Objective
	// Unit of the trials' objective, floor and values (round.Goal.Unit).
	Unit        string          `json:"unit"`
	ActiveJobs  int             `json:"active_jobs"`
	WaitingJobs int             `json:"waiting_jobs"`
	Adopt       bool            `json:"adopt"`
	Reason      string          `json:"reason"`
	Ratio       float64         `json:"controllable_ratio"`
	Verdict     *replay.Verdict `json:"verdict"`
	// Searched is the result of the search by the futures alone, FuturesAdopt whether they alone would adopt it.
	Searched     string `json:"searched"`
	FuturesAdopt bool   `json:"futures_adopt"`
	// Interval of Ratio at 95 %, absent where there are too few futures.
	Interval *round.Interval `json:"interval,omitempty"`
	// Stopped is why the search ended, Choice which sampler auto took and why.
	Stopped   string       `json:"stopped"`
	Sampler   string       `json:"sampler"`
	Choice    string       `json:"choice,omitempty"`
	Incumbent space.Config `json:"incumbent"`
	Best      space.Config `json:"best"`
	// Changes are the parameters in which Best differs from Incumbent. Recommended is Best
	// as measured, which need not be one of Trials: it is the simplest form of the configuration
	// that the search found (search.Simplifier).
	Changes     []space.Difference `json:"changes"`
	Recommended *tuneTrial         `json:"recommended,omitempty"`
	// Effects are the gains from each parameter that the search changed. Irrelevant have
	// none above the noise, and keep the incumbent's values.
	Effects    []search.Effect `json:"effects,omitempty"`
	Irrelevant []string        `json:"irrelevant,omitempty"`
	// Inert are parameters that make no difference here: all trials have them as the
	// incumbent has.
	Inert []string `json:"inert,omitempty"`
	// Change is that of a Slurm site's settings, absent without --site and where nothing is adopted.
	Change *replay.SettingsChange `json:"settings_change,omitempty"`
	Wall   float64                `json:"wall_s"`
	Trials []tuneTrial            `json:"trials"`
	// Metrics are those that --pareto names, Front the steps of the trials that no
	// other beats in all of them.
	Metrics []string `json:"pareto,omitempty"`
	Front   []int    `json:"front,omitempty"`
}

type tuneTrial struct {
	Step      int          `json:"step"`
	Origin    string       `json:"origin"`
	Objective float64      `json:"objective"`
	Floor     float64      `json:"floor"`
	Ratio     float64      `json:"controllable_ratio"`
	Every     bool         `json:"better_in_every_future"`
	Values    []float64    `json:"values"`
	Queue     float64      `json:"avg_queue_s"`
	Exhausted bool         `json:"exhausted,omitempty"`
	Error     string       `json:"error,omitempty"`
	Config    space.Config `json:"config"`
	// Limits are the constraints, Sides the further metrics of the goal.
	Limits []tuneLimit        `json:"constraints,omitempty"`
	Sides  map[string]float64 `json:"metrics,omitempty"`
	kept   float64            // the least probability of a constraint relative to the incumbent
}

func newTuneReport(in *cli.ReplayInput, state *workload.State, got *round.Result, incumbent space.Config,
	wall time.Duration) *tuneReport {
	r := &tuneReport{
		Trace: in.Trace.Name(), Synthetic: in.Trace.Synthetic(),
		At: in.Trace.Zero().Add(state.At).Format(time.RFC3339), Scheduler: in.Scheduler.Name,
		ActiveJobs: len(state.Jobs), Ratio: got.Ratio, Incumbent: incumbent, Wall: wall.Seconds(),
	}
	r.Stopped, r.Sampler, r.Choice, r.Inert = got.Stopped, got.Sampler, got.Choice, got.Inert
	if !got.Interval.IsZero() {
		r.Interval = &got.Interval
	}
	for i := range state.Jobs {
		if !state.Jobs[i].Running {
			r.WaitingJobs++
		}
	}
	for i := range got.Trials {
		r.Trials = append(r.Trials, newTuneTrial(&got.Trials[i], got.Incumbent))
	}
	r.Effects, r.Searched, r.FuturesAdopt = got.Effects, got.Reason, got.Adopt
	if got.Best.OK() {
		x := newTuneTrial(&got.Best, got.Incumbent)
		r.Recommended = &x
	}
	for _, e := range got.Effects {
		if e.Reverted {
			r.Irrelevant = append(r.Irrelevant, e.Parameters...)
		}
	}
	rank := func(t *tuneTrial) int { // feasible, infeasible, without an objective
		switch {
		case t.Exhausted || t.Error != "":
			return 2
		case t.breaks() != nil:
			return 1
		}
		return 0
	}
	sort.SliceStable(r.Trials, func(a, b int) bool {
		x, y := &r.Trials[a], &r.Trials[b]
		if rank(x) != rank(y) {
			return rank(x) < rank(y)
		}
		return x.Objective < y.Objective
	})
	return r
}

func newTuneTrial(t *search.Trial, incumbent search.Trial) tuneTrial {
	g := search.Gain(*t, incumbent)
	x := tuneTrial{Step: t.Step, Origin: t.Origin, Objective: t.Measurement.Mean(), Ratio: g.Ratio,
		Every: g.BetterInEvery, Values: t.Measurement.Values,
		Queue: t.Measurement.Metrics["avg_queue_s"], Exhausted: t.Measurement.Exhausted, Error: t.Err,
		Config: t.Config}
	for _, v := range t.Measurement.Floors {
		x.Floor += v / float64(len(t.Measurement.Floors))
	}
	x.addGoal(&t.Measurement)
	return x
}

// tuneLimit is a constraint and how a trial keeps to it.
type tuneLimit struct {
	Name string `json:"constraint"`
	Of   string `json:"of,omitempty"`
	// Value and Bound are means over the futures, Excess by which share of the bound
	// the value is above it, negative below, Kept the probability that the
	// constraint is kept in the mean over many such futures.
	Value  float64 `json:"value"`
	Bound  float64 `json:"bound"`
	Excess float64 `json:"excess"`
	Kept   float64 `json:"probability"`
}

// describe adds the goal and the Pareto front.
func (r *tuneReport) describe(got *round.Result, f *goalFlags) {
	r.goal, r.Objective, r.Unit, r.Metrics = f.goal, f.goal.String(), f.goal.Unit(), f.pareto
	if len(f.pareto) > 0 {
		r.Front = search.Front(got.Trials, f.pareto)
	}
}

func (t *tuneTrial) addGoal(m *search.Measurement) {
	mean := func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}
	t.kept = m.Kept()
	for i := range m.Limits {
		l := &m.Limits[i]
		t.Limits = append(t.Limits, tuneLimit{l.Name, l.Of, mean(l.Values), mean(l.Bounds), l.Excess(), l.Kept()})
	}
	for _, s := range m.Secondary {
		if t.Sides == nil {
			t.Sides = map[string]float64{}
		}
		t.Sides[s.Name] = mean(s.Values)
	}
}

// breaks returns the constraint that is broken most, nil if all are kept.
func (t *tuneTrial) breaks() *tuneLimit {
	var worst *tuneLimit
	for i := range t.Limits {
		if l := &t.Limits[i]; l.Excess > 0 && (worst == nil || l.Excess > worst.Excess) {
			worst = l
		}
	}
	return worst
}
