// Package portfolio chooses presets of a scheduler by their regret over windows.
package portfolio

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Window is a window of a trace to hold configurations over, from an empty
// cluster.
type Window struct {
	Name string
	// Test windows measure the choice of the others.
	Test     bool
	Trace    *workload.Workload // jobs wider than the cluster are left out
	From, To time.Duration
	Cluster  workload.Cluster
}

// Options configure Choose.
type Options struct {
	Scheduler *schedulers.Scheduler
	Windows   []Window
	// Configs is the number of configurations spread over the space, besides the default
	// and the presets. Refine is the number of times the neighbours of the chosen ones
	// are measured too.
	Configs, Refine int
	Seed            uint64
	Workers         int // simulations at a time
	// Known returns measurements of an earlier run, Keep keeps a measurement. Keep is not
	// called concurrently. Both may be nil.
	Known func(key string) (Held, bool)
	Keep  func(Held) error
	// Progress is called after every measurement, not concurrently.
	Progress func(done, of int)
}

// Held is the result of holding a configuration over a window. Spans are in seconds.
type Held struct {
	// Key identifies all that the measurement depends on.
	Key           string  `json:"key"`
	Window        string  `json:"window"`
	Configuration string  `json:"configuration"`
	AvgJCT        float64 `json:"avg_jct_s"`
	P99JCT        float64 `json:"p99_jct_s"`
	// ShortJCT is the mean JCT of the jobs that run for less than ten minutes.
	ShortJCT float64 `json:"short_jct_s"`
	// Exhausted configurations used up their events: they are livelocked.
	Exhausted bool `json:"exhausted,omitempty"`
}

// The rules of a portfolio.
const (
	mostPresets = 8
	presetGain  = .01  // of the worst regret, by another preset
	indistinct  = .002 // differences of regret that do not count
	// guardFirst bounds the p99 JCT and the JCT of short jobs of the first preset over the
	// default's, on average over windows: 10 %, and 1 % of noise.
	guardFirst = 1.11
	// mostAlone bounds the regret of a preset in any training window, as it may be in
	// force when it should not.
	mostAlone = 1
	// A configuration is confirmed by nearby ones whose numbers differ by up to nearness.
	nearby            = 4
	nearness          = .03
	mostConfirmations = 8
	// HeldEvents bounds a simulation, in events per job.
	HeldEvents = 50
	// livelocked is the regret of a configuration that used up its events.
	livelocked = 10 * mostAlone
)

// Portfolio is the choice of a scheduler's presets. Regret is the average JCT over the
// least of any configuration measured in the window, minus 1.
type Portfolio struct {
	Scheduler string   `json:"scheduler"`
	Measured  int      `json:"configurations"` // all windows each
	Windows   []Result `json:"windows"`
	// Chosen are the presets in the order chosen; Compared are the default and the
	// present presets.
	Chosen   []Row `json:"chosen"`
	Compared []Row `json:"compared"`
}

// Result is one window.
type Result struct {
	Name string  `json:"name"`
	Test bool    `json:"test"`
	Jobs int     `json:"jobs"`
	Load float64 `json:"load"` // GPU-time submitted over capacity
	// Best is the configuration with the least average JCT, BestJCT in seconds.
	Best    string  `json:"best"`
	BestJCT float64 `json:"best_jct_s"`
	// Regrets of the default, the first chosen preset, and the best of default and
	// chosen ones.
	Default   float64 `json:"default"`
	First     float64 `json:"first"`
	Portfolio float64 `json:"portfolio"`
}

// Row is one configuration.
type Row struct {
	Name          string `json:"name,omitempty"` // of a present preset
	Configuration string `json:"configuration"`
	// Alone are its own regrets, With the regrets of the best of the default, the rows above
	// and itself.
	Alone Regrets `json:"alone"`
	With  Regrets `json:"with"`
	// P99 and Short are geometric means over windows of its p99 JCT and of its average
	// JCT of short jobs, over the default's.
	P99       float64 `json:"p99"`
	Short     float64 `json:"short"`
	P99Test   float64 `json:"p99_test"`
	ShortTest float64 `json:"short_test"`
}

// Regrets are regrets over the training and the test windows.
type Regrets struct {
	Worst     float64 `json:"worst"`
	Mean      float64 `json:"mean"`
	WorstTest float64 `json:"worst_test"`
	MeanTest  float64 `json:"mean_test"`
}

// Choose holds configurations over windows and chooses presets: first the one
// with the least worst regret over the training windows, then others, each of which lowers
// the worst regret of the best of all by presetGain. The first keeps the guards.
func Choose(ctx context.Context, o Options) (*Portfolio, error) {
	p, err := newPortfolio(o)
	if err != nil {
		return nil, err
	}
	s := o.Scheduler
	p.add(s.Space.Default())
	for _, x := range s.Presets {
		p.add(x.Config)
	}
	for _, c := range search.Spread(s.Space, o.Seed, o.Configs) {
		p.add(p.plain(c, false))
	}
	if err := p.measure(ctx); err != nil {
		return nil, err
	}
	var present []int
	for i := range 1 + len(s.Presets) {
		present = append(present, i)
	}
	if err := p.confirm(ctx, present); err != nil {
		return nil, err
	}
	chosen, err := p.chooseConfirmed(ctx)
	if err != nil {
		return nil, err
	}
	for range o.Refine {
		before := len(p.configs)
		for _, i := range chosen {
			p.addNeighbours(p.configs[i])
		}
		if before == len(p.configs) {
			break
		}
		if err := p.measure(ctx); err != nil {
			return nil, err
		}
		if chosen, err = p.chooseConfirmed(ctx); err != nil {
			return nil, err
		}
	}
	if chosen, err = p.simplify(ctx, chosen); err != nil {
		return nil, err
	}
	return p.result(chosen), nil
}

// portfolio is a choice in progress.
type portfolio struct {
	Options
	windows  []heldWindow
	inert    []string
	configs  []space.Config // the default first
	index    map[string]int // of configs, by hash
	measured int            // configs that held has
	held     [][]Held       // by configuration, then window
	// near are configurations with almost the same numbers, by configuration that was
	// confirmed; isNear are these.
	near   map[int][]int
	isNear map[int]bool
	sims   sync.Pool
}

// heldWindow is a window, ready to be simulated.
type heldWindow struct {
	jobs   *workload.Workload
	past   *simulator.Past
	digest string
}

func newPortfolio(o Options) (*portfolio, error) {
	p := &portfolio{Options: o, index: map[string]int{}, near: map[int][]int{},
		isNear: map[int]bool{}}
	p.sims.New = func() any { return new(simulator.Sim) }
	training := 0
	for _, x := range o.Windows {
		if err := x.Cluster.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name, err)
		}
		var jobs []workload.Job
		for _, j := range x.Trace.Window(x.From, x.To).Jobs() {
			if x.Cluster.Fits(&j) {
				jobs = append(jobs, j)
			}
		}
		if len(jobs) == 0 {
			return nil, fmt.Errorf("%s: no job of %s that fits the cluster is submitted in the window", x.Name,
				x.Trace.Name())
		}
		w := heldWindow{jobs: workload.NewSorted(x.Name, x.Trace.Zero(), jobs, x.Trace.Synthetic()),
			past: replay.Past(x.Trace, x.Cluster, x.From)}
		w.digest = fmt.Sprint(simulator.Version, " ", o.Scheduler.Name, " ", w.jobs.Digest(), " ", x.Cluster, " ",
			w.past.Digest())
		p.windows = append(p.windows, w)
		if !x.Test {
			training++
		}
		if inert := round.Inert(o.Scheduler, round.HasDeadline(jobs), false); len(p.windows) == 1 {
			p.inert = inert
		} else {
			p.inert = slices.DeleteFunc(p.inert, func(id string) bool { return !slices.Contains(inert, id) })
		}
	}
	if training == 0 {
		return nil, errors.New("portfolio: no training window")
	}
	return p, nil
}

// add adds a configuration with the default's values of parameters without effect,
// unless it is there.
func (p *portfolio) add(c space.Config) int {
	s := p.Scheduler.Space
	for _, id := range p.inert {
		c = c.With(id, s.Default().Get(id))
	}
	c, _ = s.Project(c)
	h := c.Hash()
	i, there := p.index[h]
	if !there {
		i = len(p.configs)
		p.index[h], p.configs = i, append(p.configs, c)
	}
	return i
}

// measure holds the new configurations over all windows.
func (p *portfolio) measure(ctx context.Context) error {
	fresh := p.configs[p.measured:]
	for range fresh {
		p.held = append(p.held, make([]Held, len(p.Windows)))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg         sync.WaitGroup
		mu         sync.Mutex
		next, done int
	)
	of := len(fresh) * len(p.Windows)
	for range max(1, p.Workers) {
		wg.Go(func() {
			for {
				mu.Lock()
				k := next
				next++
				mu.Unlock()
				if k >= of || ctx.Err() != nil {
					return
				}
				i, w := p.measured+k/len(p.Windows), k%len(p.Windows)
				h, fresh, err := p.hold(ctx, p.configs[i], w)
				mu.Lock()
				if err == nil && fresh && p.Keep != nil {
					err = p.Keep(h)
				}
				p.held[i][w] = h
				if done++; p.Progress != nil {
					p.Progress(done, of)
				}
				mu.Unlock()
				if err != nil {
					cancel(fmt.Errorf("%s: %v: %w", p.Windows[w].Name, p.configs[i], err))
				}
			}
		})
	}
	wg.Wait()
	p.measured = len(p.configs)
	return context.Cause(ctx)
}

// key identifies a measurement.
func key(window string, c space.Config) string {
	sum := sha256.Sum256([]byte(window + " " + c.Canonical()))
	return hex.EncodeToString(sum[:])
}

// hold measures a configuration over a window, unless that is known.
func (p *portfolio) hold(ctx context.Context, c space.Config, window int) (h Held, fresh bool, err error) {
	w := &p.windows[window]
	h = Held{Key: key(w.digest, c), Window: p.Windows[window].Name, Configuration: c.String()}
	if p.Known != nil {
		if known, ok := p.Known(h.Key); ok {
			return known, false, nil
		}
	}
	sim := p.sims.Get().(*simulator.Sim)
	defer p.sims.Put(sim)
	err = sim.Start(p.Windows[window].Cluster, w.jobs, p.Scheduler.New(c),
		simulator.Options{Past: w.past, EventBudget: HeldEvents*w.jobs.Len() + 1000})
	if err == nil {
		err = sim.Run(ctx)
	}
	if errors.Is(err, simulator.ErrBudget) {
		h.Exhausted = true
		return h, true, nil
	}
	if err != nil {
		return h, false, err
	}
	outcomes := sim.Outcomes(nil)
	all := simulator.Describe(outcomes)
	h.AvgJCT, h.P99JCT = all.AvgJCT, all.P99JCT
	h.ShortJCT = simulator.Describe(slices.DeleteFunc(outcomes, func(o simulator.Outcome) bool {
		return sim.Spec(o.ID).Duration >= round.ShortRun
	})).AvgJCT
	return h, true, nil
}

// confirm measures configurations with almost the same numbers: a single run may be lucky,
// as one event more or less can change all later ones.
func (p *portfolio) confirm(ctx context.Context, configs []int) error {
	for _, i := range configs {
		if p.near[i] != nil {
			continue
		}
		p.near[i] = []int{}
		for k := range nearby {
			c := p.configs[i]
			for d, param := range p.Scheduler.Space.Params() {
				v := c.Get(param.ID)
				if !numeric(&param) || v.IsZero() || isSpecial(&param, v) || slices.Contains(p.inert, param.ID) {
					continue
				}
				share := nearness * (2*float64((k+d)%nearby)/(nearby-1) - 1)
				c = c.With(param.ID, space.Num(v.Float()*(1+share)))
			}
			before := len(p.configs)
			j := p.add(c)
			if j != i && !slices.Contains(p.near[i], j) {
				p.near[i] = append(p.near[i], j)
			}
			if j == before {
				p.isNear[j] = true
			}
		}
	}
	return p.measure(ctx)
}

// chooseConfirmed chooses, confirms the choice, and chooses again until all are
// confirmed.
func (p *portfolio) chooseConfirmed(ctx context.Context) ([]int, error) {
	for range mostConfirmations {
		chosen := p.choose(false)
		if !slices.ContainsFunc(chosen, func(i int) bool { return p.near[i] == nil }) {
			return chosen, nil
		}
		if err := p.confirm(ctx, chosen); err != nil {
			return nil, err
		}
	}
	return p.choose(true), nil
}

// jct is the average JCT of a configuration in a window, of confirmed ones the mean with
// nearby ones. +Inf is livelocked.
func (p *portfolio) jct(i, w int) float64 {
	sum := 0.0
	for _, k := range append([]int{i}, p.near[i]...) {
		if p.held[k][w].Exhausted {
			return math.Inf(1)
		}
		sum += p.held[k][w].AvgJCT
	}
	return sum / float64(1+len(p.near[i]))
}

// regrets returns the regret of every configuration in every window.
func (p *portfolio) regrets() [][]float64 {
	out := make([][]float64, len(p.held))
	for i := range out {
		out[i] = make([]float64, len(p.Windows))
	}
	for w := range p.Windows {
		best := math.Inf(1)
		for i := range p.held {
			best = min(best, p.jct(i, w))
		}
		for i := range p.held {
			out[i][w] = min(p.jct(i, w)/best-1, livelocked)
		}
	}
	return out
}

// over are the worst and the mean regret over the training or the test windows.
func (p *portfolio) over(test bool, regrets []float64) (worst, mean float64) {
	n := 0.0
	for w, r := range regrets {
		if p.Windows[w].Test == test {
			worst, mean, n = max(worst, r), mean+r, n+1
		}
	}
	return worst, mean / max(1, n)
}

// choose chooses among the measured configurations, or the confirmed ones. Windows that are equally bad may need
// a preset each, so that none of them alone lowers the worst regret: presets are added by
// a softer measure, then presets are dropped that the worst regret hardly needs.
func (p *portfolio) choose(confirmed bool) []int {
	regrets := p.regrets()
	first := p.pick(regrets, nil, confirmed, p.worst)
	if first < 0 {
		return nil
	}
	chosen := []int{first}
	for len(chosen) < mostPresets {
		next := p.pick(regrets, chosen, confirmed, p.soft)
		if next < 0 {
			break
		}
		chosen = append(chosen, next)
	}
	for {
		worst := p.worst(best(regrets, chosen))
		drop, least := -1, presetGain
		for k := len(chosen) - 1; k > 0; k-- {
			if rise := p.worst(best(regrets, without(chosen, k))) - worst; rise < least {
				drop, least = k, rise
			}
		}
		if drop < 0 {
			return chosen
		}
		chosen = without(chosen, drop)
	}
}

// without is a list without an element.
func without(chosen []int, k int) []int { return slices.Delete(slices.Clone(chosen), k, k+1) }

// soft is a mean of the regrets over the training windows in which large ones count most.
func (p *portfolio) soft(regrets []float64) float64 {
	sum := 0.0
	for w, r := range regrets {
		if !p.Windows[w].Test {
			sum += math.Pow(r, 8)
		}
	}
	return math.Pow(sum, 1./8)
}

func (p *portfolio) worst(regrets []float64) float64 {
	worst, _ := p.over(false, regrets)
	return worst
}

// best are the least regrets of the default and others.
func best(regrets [][]float64, chosen []int) []float64 {
	out := slices.Clone(regrets[0])
	for _, i := range chosen {
		for w, r := range regrets[i] {
			out[w] = min(out[w], r)
		}
	}
	return out
}

// pick is the configuration that has the least score, the first alone, others together
// with the chosen ones; of equals the one with the least mean; -1 if none is left.
// One beyond mostAlone is none, nor, as the first, one that breaks the guards.
func (p *portfolio) pick(regrets [][]float64, chosen []int, confirmed bool,
	score func([]float64) float64) int {
	scores, means := make([]float64, len(regrets)), make([]float64, len(regrets))
	for i, r := range regrets {
		if len(chosen) > 0 {
			r = best(regrets, append(slices.Clone(chosen), i))
		}
		scores[i] = score(r)
		_, means[i] = p.over(false, r)
		if i == 0 || slices.Contains(chosen, i) || p.worst(regrets[i]) > mostAlone ||
			p.isNear[i] || confirmed && p.near[i] == nil || len(chosen) == 0 && !p.guarded(i) {
			scores[i] = math.Inf(1)
		}
	}
	least, out := slices.Min(scores), -1
	for i := range regrets {
		if scores[i] <= least+indistinct && !math.IsInf(scores[i], 1) && (out < 0 || means[i] < means[out]) {
			out = i
		}
	}
	return out
}

// guards are geometric means over the training or the test windows of a configuration's
// p99 JCT and of its JCT of short jobs, over the default's.
func (p *portfolio) guards(i int, test bool) (p99, short float64) {
	n := 0.0
	for w := range p.Windows {
		if p.Windows[w].Test != test {
			continue
		}
		a, b := &p.held[i][w], &p.held[0][w]
		if a.Exhausted || b.Exhausted {
			return math.Inf(1), math.Inf(1)
		}
		p99 += math.Log(a.P99JCT / b.P99JCT)
		if b.ShortJCT > 0 {
			short += math.Log(a.ShortJCT / b.ShortJCT)
		}
		n++
	}
	return math.Exp(p99 / max(1, n)), math.Exp(short / max(1, n))
}

// guarded reports whether a configuration may be the first preset.
func (p *portfolio) guarded(i int) bool {
	p99, short := p.guards(i, false)
	return max(p99, short) <= guardFirst
}

// addNeighbours adds the configurations that differ from one in one parameter.
func (p *portfolio) addNeighbours(c space.Config) {
	for _, param := range p.Scheduler.Space.Params() {
		v := c.Get(param.ID)
		if param.Array != nil || v.IsZero() || slices.Contains(p.inert, param.ID) {
			continue
		}
		for _, to := range neighbours(&param, v) {
			p.add(p.plain(c.With(param.ID, to), true))
		}
	}
}

// neighbours are other values of a parameter; numbers may be beyond its range.
func neighbours(p *space.Param, v space.Value) (out []space.Value) {
	switch p.Kind {
	case space.KindBool:
		return []space.Value{space.Bool(!v.Bool())}
	case space.KindCategorical, space.KindOrdinal:
		for _, name := range p.Categories {
			out = append(out, space.Text(name))
		}
		return out
	}
	for _, s := range p.Special {
		out = append(out, space.Num(s.Value))
	}
	if isSpecial(p, v) {
		for _, share := range []float64{.1, .3, .6, 1} {
			x := p.Min + share*(p.Max-p.Min)
			if p.Log {
				x = p.Min * math.Pow(p.Max/p.Min, share)
			}
			out = append(out, space.Num(x))
		}
		return out
	}
	for _, step := range []float64{-.2, -.07, .07, .2} {
		x := v.Float() + step*(p.Max-p.Min)
		if p.Log {
			x = v.Float() * math.Pow(2, 5*step)
		} else if p.Kind == space.KindInt && math.Abs(x-v.Float()) < 1 {
			x = v.Float() + math.Copysign(1, step)
		}
		out = append(out, space.Num(x))
	}
	return out
}

// plain rounds the numbers of a configuration to one significant digit or, if halves, to
// halves of it: 1.5, 25, 300. Durations are counted in minutes, hours or days.
func (p *portfolio) plain(c space.Config, halves bool) space.Config {
	s := p.Scheduler.Space
	for _, param := range s.Params() {
		v := c.Get(param.ID)
		if !numeric(&param) || v.IsZero() || isSpecial(&param, v) {
			continue
		}
		unit := 1.0
		if param.Kind == space.KindDuration {
			for _, u := range []float64{60, 3600, 86400} {
				if v.Float() >= u {
					unit = u
				}
			}
		}
		c = c.With(param.ID, space.Num(unit*roundPlain(v.Float()/unit, halves)))
	}
	c, _ = s.Project(c)
	return c
}

func roundPlain(v float64, halves bool) float64 {
	if v == 0 {
		return 0
	}
	parts := 1.0 // of a unit of the first digit
	if halves {
		parts = 2
	}
	exponent := math.Floor(math.Log10(math.Abs(v)))
	x := math.Round(parts*v/math.Pow(10, exponent)) / parts
	// By decimals, so that .3 is exactly .3.
	out, err := strconv.ParseFloat(fmt.Sprintf("%ge%g", x, exponent), 64)
	if err != nil {
		panic("portfolio: " + err.Error())
	}
	return out
}

func isSpecial(p *space.Param, v space.Value) bool {
	return slices.ContainsFunc(p.Special, func(s space.Special) bool { return s.Value == v.Float() })
}

// numeric reports whether a parameter is one number.
func numeric(p *space.Param) bool {
	return p.Array == nil && (p.Kind == space.KindFloat || p.Kind == space.KindInt || p.Kind == space.KindDuration)
}

// simplify gives parameters of the chosen configurations their default or one
// significant digit where regrets are hardly larger then.
func (p *portfolio) simplify(ctx context.Context, chosen []int) ([]int, error) {
	chosen = slices.Clone(chosen)
	worst, mean, first := p.together(chosen)
	for k := range chosen {
		for _, param := range p.Scheduler.Space.Params() {
			c := p.configs[chosen[k]]
			v := c.Get(param.ID)
			if v.IsZero() || v.Equal(p.Scheduler.Space.Default().Get(param.ID)) {
				continue
			}
			rounder := c.With(param.ID, p.plain(c, false).Get(param.ID))
			for _, try := range []space.Config{c.With(param.ID, p.Scheduler.Space.Default().Get(param.ID)), rounder} {
				i := p.add(try)
				if i == 0 || slices.Contains(chosen, i) {
					continue
				}
				if err := p.confirm(ctx, []int{i}); err != nil {
					return nil, err
				}
				with := slices.Clone(chosen)
				with[k] = i
				w, m, f := p.together(with)
				if w <= worst+indistinct && m <= mean+indistinct && f <= first+indistinct && (k > 0 || p.guarded(i)) {
					chosen = with
					break
				}
			}
		}
	}
	return chosen, nil
}

// together are the worst and the mean regret over the training windows of the best of
// the default and the chosen configurations, and the worst of the first alone.
func (p *portfolio) together(chosen []int) (worst, mean, first float64) {
	regrets := p.regrets()
	if len(chosen) > 0 {
		first = p.worst(regrets[chosen[0]])
	}
	worst, mean = p.over(false, best(regrets, chosen))
	return worst, mean, first
}

// result describes the choice.
func (p *portfolio) result(chosen []int) *Portfolio {
	out := &Portfolio{Scheduler: p.Scheduler.Name, Measured: len(p.configs)}
	regrets := p.regrets()
	row := func(with []int) Row {
		i := with[len(with)-1]
		r := Row{Configuration: p.configs[i].String(), Alone: p.summary(regrets[i]),
			With: p.summary(best(regrets, with))}
		r.P99, r.Short = p.guards(i, false)
		r.P99Test, r.ShortTest = p.guards(i, true)
		return r
	}
	present := []int{0}
	for _, x := range p.Scheduler.Presets {
		present = append(present, p.add(x.Config))
	}
	for k := range present {
		r := row(present[:k+1])
		if r.Name = "default"; k > 0 {
			r.Name = p.Scheduler.Presets[k-1].Name
		}
		out.Compared = append(out.Compared, r)
	}
	for k := range chosen {
		out.Chosen = append(out.Chosen, row(chosen[:k+1]))
	}
	all := best(regrets, chosen)
	for w, x := range p.Windows {
		r := Result{Name: x.Name, Test: x.Test, Jobs: p.windows[w].jobs.Len(), Default: regrets[0][w],
			Portfolio: all[w]}
		for _, j := range p.windows[w].jobs.Jobs() {
			r.Load += j.Duration.Seconds() * j.GPUs.Count()
		}
		r.Load /= (x.To - x.From).Seconds() * float64(x.Cluster.TotalGPUs())
		if len(chosen) > 0 {
			r.First = regrets[chosen[0]][w]
		}
		for i := range p.configs {
			if regrets[i][w] == 0 {
				r.Best, r.BestJCT = p.configs[i].String(), p.held[i][w].AvgJCT
				break
			}
		}
		out.Windows = append(out.Windows, r)
	}
	return out
}

func (p *portfolio) summary(regrets []float64) (r Regrets) {
	r.Worst, r.Mean = p.over(false, regrets)
	r.WorstTest, r.MeanTest = p.over(true, regrets)
	return r
}
