package decide

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func (r *tuneReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, %d of them waiting\n\n", r.Trace, cli.SyntheticLabel(r.Synthetic), r.At,
		r.ActiveJobs, r.WaitingJobs)
	fmt.Fprintf(w, "minimise %s\n\n", r.Objective)
	t := newTrialTable(w, r.Incumbent, "step\tsource\t"+round.Label(r.goal.Metric())+"\tchange\tinfluence\tqueue s\t"+
		"better in"+r.columns())
	shown := 0
	for left := r.Trials; len(left) > 0 && shown < top; shown++ {
		x, equal := simplestOf(left, r.Incumbent)
		left = left[1+equal:]
		source := round.Source(x.Origin)
		if equal > 0 {
			source += fmt.Sprintf(" = %d more", equal)
		}
		switch {
		case x.Exhausted:
			t.add(x.Config, "%d\t%s\tevent budget exhausted\t\t\t\t%s", x.Step, source, r.empty())
		case x.Error != "":
			t.add(x.Config, "%d\t%s\tfailed: %s\t\t\t\t%s", x.Step, source, x.Error, r.empty())
		default:
			t.add(x.Config, "%d\t%s\t%s\t%s\t%s\t%.0f\t%s%s", x.Step, source, r.goal.Format(x.Objective),
				r.change(x), cli.SavedShare(x.Ratio), x.Queue, r.betterIn(x), r.cells(x))
		}
		t.of += 1 + equal
	}
	if err := t.print(w, len(r.Trials)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	table.Prose(w, "", fmt.Sprintf("By these futures alone (%.2f s): %s", r.Wall, r.Searched))
	fmt.Fprintln(w)
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	if err := r.printFront(w, top); err != nil {
		return err
	}
	if _, why, ok := strings.Cut(r.Choice, ": "); ok {
		table.Prose(w, "", "Search: "+why+".")
	}
	return nil
}

// trialTable is a table of trials whose last column has the parameters that a trial changes.
type trialTable struct {
	*table.Writer
	from space.Config
	of   int // trials in it
}

func newTrialTable(w io.Writer, from space.Config, columns string) *trialTable {
	t := &trialTable{table.New(w, columns+"\t"), from, 0}
	t.Items([]string{"parameters changed"})
	return t
}

func (t *trialTable) add(c space.Config, format string, args ...any) {
	fmt.Fprintf(t, format+"\t\n", args...)
	t.Items(changesText(t.from, c))
}

// print prints the table of some of the trials in the width of the output.
func (t *trialTable) print(w io.Writer, all int) error {
	err := t.Flush()
	if err == nil && t.of < all {
		_, err = fmt.Fprintf(w, "... %d more; --json has all, with all parameters\n", all-t.of)
	}
	return err
}

// simplestOf is the trial with the fewest changes among the first of a list and those behind it that measure the same
// but for noise, with the number of the others.
func simplestOf(list []tuneTrial, from space.Config) (best *tuneTrial, others int) {
	best = &list[0]
	if best.Exhausted || best.Error != "" || best.breaks() != nil {
		return best, 0
	}
	first := search.Measurement{Values: best.Values}
	for i := range list[1:] {
		x := &list[i+1]
		m := search.Measurement{Values: x.Values}
		if len(x.Values) == 0 || x.Exhausted || x.Error != "" || x.breaks() != nil ||
			m.Mean()-first.Mean() > search.Noise(&first, &m) {
			break
		}
		others++
		if len(space.DiffConfigs(from, x.Config)) < len(space.DiffConfigs(from, best.Config)) {
			best = x
		}
	}
	return best, others
}

// changesText lists the parameters in which a configuration differs from another.
func changesText(from, to space.Config) []string {
	var out []string
	for _, d := range space.DiffConfigs(from, to) {
		if d.To != "" { // else it has no meaning
			out = append(out, d.Field+"="+d.To)
		}
	}
	if len(out) == 0 {
		return []string{"none"}
	}
	return out
}

// incumbent is its trial, nil if it was not measured.
func (r *tuneReport) incumbent() *tuneTrial {
	for i := range r.Trials {
		if t := &r.Trials[i]; t.Config.Equal(r.Incumbent) && len(t.Values) > 0 {
			return t
		}
	}
	return nil
}

// change is the relative change of the objective, "" if it is not known.
func (r *tuneReport) change(t *tuneTrial) string {
	if was := r.incumbent(); was != nil && was.Objective > 0 {
		return fmt.Sprintf("%+.1f %%", 100*(t.Objective/was.Objective-1))
	}
	return ""
}

// betterIn says in how many futures a trial is better than the incumbent.
func (r *tuneReport) betterIn(t *tuneTrial) string {
	was := r.incumbent()
	if was == nil {
		return ""
	}
	n := 0
	for i, v := range t.Values {
		if i < len(was.Values) && v < was.Values[i] {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(t.Values))
}

// constrained reports whether there are constraints to show.
func (r *tuneReport) constrained() bool { return strings.Contains(r.Objective, "subject to") }

// shown are the further metrics to show, in the order of the first trial that has
// them.
func (r *tuneReport) shown() []string {
	if len(r.Metrics) > 0 {
		return r.Metrics
	}
	var out []string
	for _, rank := range r.goal.Then {
		out = append(out, rank.Metric)
	}
	return out
}

func (r *tuneReport) columns() string {
	out := ""
	for _, m := range r.shown() {
		out += "\t" + m
	}
	if r.constrained() {
		out += "\tconstraints"
	}
	return out
}

func (r *tuneReport) empty() string { return strings.Repeat("\t", strings.Count(r.columns(), "\t")+1) }

func (r *tuneReport) cells(t *tuneTrial) string {
	out := ""
	for _, m := range r.shown() {
		out += "\t" + round.FormatMetric(m, t.Sides[m])
	}
	if !r.constrained() {
		return out
	}
	l := t.breaks()
	switch {
	case len(t.Limits) == 0:
		return out + "\t"
	case l == nil:
		return out + fmt.Sprintf("\tkept (%.2f)", t.kept)
	case l.Of != "":
		return out + fmt.Sprintf("\t%s of %s: %s", l.Name, l.Of, above(l.Excess))
	}
	return out + fmt.Sprintf("\t%s: %s", l.Name, above(l.Excess))
}

func above(excess float64) string {
	if excess >= 10 {
		return "far above"
	}
	return fmt.Sprintf("%.1f %% above", 100*excess)
}

// printFront prints the trials that no other beats.
func (r *tuneReport) printFront(w io.Writer, top int) error {
	if len(r.Metrics) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%d of %d configurations are beaten by no other in all of %s:\n\n", len(r.Front), len(r.Trials),
		strings.Join(r.Metrics, ", "))
	t := newTrialTable(w, r.Incumbent, "step\tsource\t"+strings.Join(r.Metrics, "\t"))
	for _, step := range r.Front[:min(top, len(r.Front))] {
		x := &r.Trials[slices.IndexFunc(r.Trials, func(x tuneTrial) bool { return x.Step == step })]
		row := fmt.Sprintf("%d\t%s", x.Step, round.Source(x.Origin))
		for _, m := range r.Metrics {
			row += "\t" + round.FormatMetric(m, x.Sides[m])
		}
		t.add(x.Config, "%s", row)
		t.of++
	}
	return t.print(w, len(r.Front))
}

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
	t.kept = m.Kept()
	for i := range m.Limits {
		l := &m.Limits[i]
		t.Limits = append(t.Limits, tuneLimit{l.Name, l.Of, stats.Mean(l.Values), stats.Mean(l.Bounds), l.Excess(),
			l.Kept()})
	}
	for _, s := range m.Secondary {
		if t.Sides == nil {
			t.Sides = map[string]float64{}
		}
		t.Sides[s.Name] = stats.Mean(s.Values)
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
