// Package searches compares searches round by round.
package searches

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/lab/busy"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// Options configure Compare.
type Options struct {
	// Searches by name, see [Searches]; the first is the reference that the
	// others are tested against.
	Searches []string
	// Hours is the number of instants tuned at, spread evenly over instants at which jobs
	// wait; Seeds the number of searches at each.
	Hours, Seeds int
	// Time, if positive, bounds the processor time of each search; Options.Budget
	// bounds it too. Results then depend on the machine, but not on its load.
	Time time.Duration
	// Incumbent is in force all the time.
	Incumbent space.Config
	// Progress is called after every search.
	Progress func(done, of int)
}

// Comparison is the result of several searches on the same rounds.
type Comparison struct {
	Trace     string           `json:"trace"`
	Scheduler string           `json:"scheduler"`
	Objective string           `json:"objective"`
	Budget    int              `json:"budget"`
	TimeS     float64          `json:"time_s,omitempty"`
	Futures   int              `json:"futures"`
	Hours     []string         `json:"hours"`
	Seeds     int              `json:"seeds"`
	Reference string           `json:"reference"`
	Searches  []ComparedSearch `json:"searches"`
}

// ComparedSearch is one search of a comparison. Ratios are geometric means over
// hours of means over seeds, of the controllable part of the objective:
// incumbent's over winner's, above 1 is better.
type ComparedSearch struct {
	Search string `json:"search"`
	// OnFutures is measured on the futures that were searched on, OnTruth on the actual
	// future.
	OnFutures float64 `json:"ratio_on_futures"`
	OnTruth   float64 `json:"ratio_on_truth"`
	// AgainstReference is this search's controllable part over the reference's,
	// on the futures and in truth: below 1 it found better configurations. P is
	// of a two-sided paired t-test over the hours.
	AgainstReference      float64 `json:"against_reference"`
	P                     float64 `json:"p"`
	AgainstReferenceTruth float64 `json:"against_reference_truth"`
	PTruth                float64 `json:"p_truth"`
	// ByHour are the ratios of OnFutures and OnTruth for each of the hours.
	ByHour []HourRatios `json:"by_hour"`
	// Evaluations and Seconds of processor time per search.
	Evaluations float64 `json:"evaluations"`
	Seconds     float64 `json:"seconds"`
	// EvaluationsToMatch is the number of evaluations until a configuration was found
	// whose objective is within 1 % of the reference's best; searches that found none
	// count with all of theirs. Matched is the share that found one.
	EvaluationsToMatch float64 `json:"evaluations_to_match"`
	Matched            float64 `json:"matched"`
	// Plain is the same against the best of this search without a causal model, with
	// the processor time: the saving by a model at equal quality.
	Plain ToMatch `json:"to_match_without_model"`
	// Rejected is the number of rejected proposals per search, Audits the number of
	// rejected ones measured to check the rejection, AuditsRight the share confirmed.
	Rejected    float64 `json:"rejected,omitempty"`
	AuditsRight float64 `json:"audits_right,omitempty"`
	Audits      int     `json:"audits,omitempty"`
}

// HourRatios are the gains of a search at one instant: geometric means over seeds.
type HourRatios struct {
	OnFutures float64 `json:"ratio_on_futures"`
	OnTruth   float64 `json:"ratio_on_truth"`
}

// ToMatch is the mean cost of a search until it had a configuration within 1 % of the
// best of another search; the whole search if it found none.
type ToMatch struct {
	Evaluations float64 `json:"evaluations"`
	Seconds     float64 `json:"seconds"`
	Matched     float64 `json:"matched"` // share of the searches that did
}

// A searchKind is a way to search in one round.
type searchKind struct {
	name, description string
	set               func(*round.Round)
	prunes            bool // by a causal model of its own trials
}

// searchKinds lists the searches to compare: the product's search, its portfolio
// alone, and each sampler on its own from the incumbent.
func searchKinds() []searchKind {
	kinds := []searchKind{
		{name: "autosched", description: "presets, then the default sampler", set: func(*round.Round) {}},
		{name: "portfolio", description: "the presets only", set: func(r *round.Round) {
			r.Search = round.SearchPortfolio
		}},
	}
	for _, s := range search.Samplers {
		kinds = append(kinds, searchKind{name: s.Name, description: s.Description + ", without presets",
			set: func(r *round.Round) {
				r.Sampler, r.NoPresets = s.Name, true
			}})
	}
	return kinds
}

// Causal is a suffix of the name of a search: a causal model, learnt from its trials, rejects proposals and
// narrows the scope.
const Causal = "+causal"

// Check fails on a name that is not one of Searches.
func Check(name string) error {
	_, err := findSearches([]string{name})
	return err
}

// Searches returns the names and descriptions of the searches to compare.
func Searches() [][2]string {
	var out [][2]string
	for _, k := range searchKinds() {
		out = append(out, [2]string{k.name, k.description})
	}
	return out
}

// Compare runs the cluster under one configuration and searches at several instants,
// with every search on the same futures. It measures the winners on these futures and
// on the actual future.
func Compare(ctx context.Context, o replay.Options, c Options) (*Comparison, error) {
	kinds, err := findSearches(c.Searches)
	if err != nil {
		return nil, err
	}
	if c.Hours < 2 || c.Seeds < 1 {
		return nil, fmt.Errorf("compare: %d hours and %d seeds; want at least 2 and 1", c.Hours, c.Seeds)
	}
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, err
	}
	if c.Incumbent.IsZero() {
		c.Incumbent = e.Options.Scheduler.Space.Default()
	}
	instants, err := busy.Instants(ctx, e, c.Incumbent, c.Hours)
	if err != nil {
		return nil, err
	}
	out := &Comparison{Trace: o.Trace.Name(), Scheduler: o.Scheduler.Name, Objective: e.Options.Goal.String(),
		Budget: e.Options.Budget, TimeS: c.Time.Seconds(),
		Futures: e.Options.Futures, Seeds: c.Seeds, Reference: kinds[0].name}
	live, err := e.Start(c.Incumbent, true)
	if err != nil {
		return nil, err
	}
	all := make([]tally, len(kinds))
	done := 0
	for n, at := range instants {
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return nil, err
		}
		out.Hours = append(out.Hours, e.Clock(at))
		for k := range all {
			all[k].begin()
		}
		for seed := range c.Seeds {
			in := e.Input(live, n*c.Seeds+seed, at, c.Incumbent)
			shared, err := newMatch(ctx, e, in, kinds[0].name)
			if err != nil {
				return nil, err
			}
			for k, kind := range kinds {
				if err := all[k].search(ctx, kind, shared, seed, c.Time); err != nil {
					return nil, fmt.Errorf("%s at %s: %w", kind.name, e.Clock(at), err)
				}
				if done++; c.Progress != nil {
					c.Progress(done, len(instants)*c.Seeds*len(kinds))
				}
			}
		}
	}
	for k, kind := range kinds {
		out.Searches = append(out.Searches, all[k].report(kind.name, &all[0]))
	}
	return out, nil
}

// match is shared by the searches of one seed at one instant.
type match struct {
	e         *replay.Evaluation
	in        *replay.RoundInput
	futures   []round.Scenario
	truth     *round.Scorer      // of the actual future
	before    search.Measurement // of the incumbent in truth
	reference string
	best      map[string]float64 // objectives found, by search without a model
}

func newMatch(ctx context.Context, e *replay.Evaluation, in *replay.RoundInput, reference string) (*match, error) {
	x := &match{e: e, in: in, reference: reference, best: map[string]float64{}}
	var err error
	if x.futures, err = e.Futures(ctx, in); err != nil {
		return nil, err
	}
	if x.truth, err = e.Scorer(e.Truth(in)); err != nil {
		return nil, err
	}
	x.before, err = x.truth.Measure(ctx, in.Incumbent)
	return x, err
}

func findSearches(names []string) ([]searchKind, error) {
	var out []searchKind
	all := searchKinds()
	for _, name := range names {
		base, prunes := strings.CutSuffix(name, Causal)
		i := slices.IndexFunc(all, func(k searchKind) bool { return k.name == base })
		if i < 0 {
			return nil, fmt.Errorf("compare: there is no search %q", name)
		}
		kind := all[i]
		kind.name, kind.prunes = name, prunes
		out = append(out, kind)
	}
	if len(out) == 0 {
		return nil, errors.New("compare: no search named")
	}
	return out, nil
}

// tally holds a search's results: logarithms of ratios by hour.
type tally struct {
	toMatch, matched int
	plain            ToMatch // sums
	rejected         float64
	audits, right    int

	futures, truth []float64 // incumbent over winner, sums over the hour's seeds
	searches       int
	evaluations    int
	took           time.Duration
}

func (t *tally) begin() {
	t.futures, t.truth = append(t.futures, 0), append(t.truth, 0)
}

// leastControllable, a share of the objective, is the least controllable part, which
// keeps ratios finite.
const leastControllable = 1e-3

func controllable(m search.Measurement) float64 {
	sum := 0.0
	for i, v := range m.Values {
		sum += max(v-m.Floors[i], leastControllable*v)
	}
	return sum / float64(len(m.Values))
}

// search runs one search and adds its result. limit, if positive, bounds its processor
// time.
func (t *tally) search(ctx context.Context, kind searchKind, x *match, seed int, limit time.Duration) error {
	r := x.e.Round(x.futures, x.in.Incumbent, x.in.Seed)
	r.Always, r.Cache = true, nil
	kind.set(r)
	began := cputime.Process()
	var at []time.Duration // of each trial
	r.Progress = func(search.Trial) { at = append(at, cputime.Process()-began) }
	spent, stop := ctx, func() {}
	if limit > 0 {
		spent, stop = withProcessTime(ctx, began+limit)
	}
	var pruning *prune.Pruner
	if kind.prunes {
		pruning = prune.New(spent, x.e.Options.Scheduler.Space, r.Incumbent, uint64(seed))
		r.Pruner = pruning
	}
	got, err := r.Run(spent)
	late := spent.Err() != nil
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !late {
		return err
	}
	t.took += cputime.Process() - began
	t.evaluations += got.Stats.Evaluations
	t.searches++
	if pruning != nil {
		t.audit(pruning)
	}
	t.match(got, at, x.reference, kind.name, x.best)
	if !got.Best.OK() || !got.Incumbent.OK() {
		return nil // no time for two configurations: the incumbent stays
	}
	after, err := x.truth.Measure(ctx, got.Config)
	if err != nil {
		return err
	}
	last := len(t.futures) - 1
	t.futures[last] += math.Log(controllable(got.Incumbent.Measurement) / controllable(got.Best.Measurement))
	if !after.Exhausted && !x.before.Exhausted {
		t.truth[last] += math.Log(controllable(x.before) / controllable(after))
	}
	return nil
}

// withProcessTime cancels a context once the process has used processor time until.
// Call stop to release it.
func withProcessTime(ctx context.Context, until time.Duration) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for cputime.Process() < until {
			select {
			case <-limited.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	return limited, func() { cancel(); <-done }
}

// audit counts a search's rejections, and how many audited ones were right.
func (t *tally) audit(s *prune.Pruner) {
	t.rejected += float64(s.Rejected)
	for _, a := range s.Audits {
		if a.Measured {
			t.audits++
			if a.Worse {
				t.right++
			}
		}
	}
}

// match counts the evaluations until the search was near the reference's best, and near
// that of the search without a model.
func (t *tally) match(got round.Result, at []time.Duration, reference, name string, best map[string]float64) {
	if _, known := best[name]; !known {
		best[name] = math.Inf(1)
		for _, x := range got.Trials {
			if x.OK() {
				best[name] = min(best[name], x.Measurement.Mean())
			}
		}
	}
	n, ok := near(got.Trials, best[reference])
	t.toMatch += n
	if ok {
		t.matched++
	}
	plain, _ := strings.CutSuffix(name, Causal)
	target, known := best[plain]
	if !known {
		target = best[reference]
	}
	n, ok = near(got.Trials, target)
	t.plain.Evaluations += float64(n)
	if n = min(n, len(at)); n > 0 {
		t.plain.Seconds += at[n-1].Seconds()
	}
	if ok {
		t.plain.Matched++
	}
}

// near returns the number of trials until one was within 1 % of an objective, all if
// none was.
func near(trials []search.Trial, target float64) (n int, ok bool) {
	for n, x := range trials {
		if x.OK() && x.Measurement.Mean() <= 1.01*target {
			return n + 1, true
		}
	}
	return len(trials), false
}

func (t *tally) report(name string, reference *tally) ComparedSearch {
	out := ComparedSearch{Search: name, Evaluations: float64(t.evaluations) / float64(t.searches),
		Seconds: t.took.Seconds() / float64(t.searches)}
	seeds := float64(t.searches) / float64(len(t.futures))
	out.OnFutures = math.Exp(stat.Mean(t.futures, nil) / seeds)
	out.OnTruth = math.Exp(stat.Mean(t.truth, nil) / seeds)
	for i := range t.futures {
		out.ByHour = append(out.ByHour, HourRatios{math.Exp(t.futures[i] / seeds), math.Exp(t.truth[i] / seeds)})
	}
	out.EvaluationsToMatch, out.Matched = float64(t.toMatch)/float64(t.searches), float64(t.matched)/float64(t.searches)
	n := float64(t.searches)
	out.Plain = ToMatch{t.plain.Evaluations / n, t.plain.Seconds / n, t.plain.Matched / n}
	out.Rejected, out.Audits = t.rejected/float64(t.searches), t.audits
	if t.audits > 0 {
		out.AuditsRight = float64(t.right) / float64(t.audits)
	}
	out.AgainstReference, out.P = against(reference.futures, t.futures, seeds)
	out.AgainstReferenceTruth, out.PTruth = against(reference.truth, t.truth, seeds)
	return out
}

// against tests the paired differences of two series of sums over seeds.
func against(reference, other []float64, seeds float64) (ratio, p float64) {
	d := make([]float64, len(other))
	for i := range d {
		d[i] = (reference[i] - other[i]) / seeds
	}
	mean, sd := stat.MeanStdDev(d, nil)
	if sd == 0 {
		if mean == 0 {
			return 1, 1
		}
		return math.Exp(mean), 0
	}
	n := float64(len(d))
	tail := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.CDF(-math.Abs(mean) / (sd / math.Sqrt(n)))
	return math.Exp(mean), 2 * tail
}
