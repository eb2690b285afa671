// Package effects learns a causal model of a scheduler from configurations that were measured: which
// parameters change the objective, through which metrics, and by how much. A model says how well it ranks
// configurations of workloads that it was not learnt from, and answers nothing if that is not well enough.
package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// A model answers if it was learnt from at least MinTrials, and its rank correlation is at least MinRank.
const (
	MinTrials = 40
	MinRank   = .5
)

const (
	// maxTrials bounds the trials that a model is learnt from, the latest ones, and maxMetrics their metrics.
	maxTrials  = 1000
	maxMetrics = 12
	// minGroup is how many trials of a group make its rank correlation count, minSpread the largest
	// objective over the smallest there: between equal configurations there is nothing to rank.
	minGroup  = 5
	minSpread = 1.01
	// minGroups is how many groups are left out whole by cross-validation; with fewer, trials are.
	minGroups = 5
	// maxRatio bounds the objective over the base's.
	maxRatio = 20
	// draws is the number of bootstrap samples of the graph, maxCond its largest conditioning set.
	draws   = 10
	maxCond = 2
)

// Trial is a configuration with its measurement.
type Trial struct {
	Config    space.Config
	Objective float64 // above 0, lower is better
	Metrics   map[string]float64
}

// Group is the trials that were measured on one workload.
type Group struct {
	// Base is the reference of comparisons; nil for the median of the trials.
	Base   *Trial
	Trials []Trial
}

// Options of Learn.
type Options struct {
	// Objective names the metric to improve. Parts are metrics in its unit that add up to it, so that they are
	// known to change it.
	Objective string
	Parts     []string
	Seed      uint64
	Workers   int // one per processor if 0; the model does not depend on it
	// Run does a piece of the work; it calls the function if nil.
	Run func(func() error) error
}

// Layer is a layer of the graph.
type Layer string

// The layers, from causes to effects.
const (
	Parameter Layer = "parameter"
	Metric    Layer = "metric"
	Objective Layer = "objective"
)

// Node is a variable. Metrics and the objective are differences from the base of the trial's group: the
// objective as a multiple of the base's, a metric of Options.Parts in multiples of the base's objective,
// others in their own unit.
type Node struct {
	ID    string
	Layer Layer
}

// Edge is a direct cause.
type Edge struct {
	From, To string
	// Effect is the range of the target's mean over the levels of the cause, all else being equal.
	Effect float64
	// Sign is 1 if the target grows with the cause, -1 if it falls, 0 if neither is certain or the cause is
	// a category.
	Sign int
	// Reliability is the share of bootstrap samples of the groups that have the edge; of parts of the
	// objective, which are known to cause it, 1.
	Reliability float64
	// Confounded reports whether a hidden cause may account for the edge.
	Confounded bool
}

// Path is a way from a parameter to the objective.
type Path struct {
	Metrics []string // between the two; none of a direct effect
	Effect  float64  // along it only: the range of the objective, as a multiple of the base's
}

// Effect is a parameter's effect on the objective.
type Effect struct {
	Param string
	// Share is the objective's mean at the worst level of the parameter minus that at the best, as a share
	// of the mean, all else being as in the trials; Low and High are its 90 % interval.
	Share, Low, High float64
	Best             string // the best level, for people
	Inert            bool   // it has no way to the objective, and no effect that is certain
	Constant         bool   // all trials have one value of it: nothing is known
	Paths            []Path // of largest effect
}

// Model is a learnt model. It is safe for concurrent use.
type Model struct {
	// Fault is why the model answers nothing, "" if it does. Then there are no Nodes, Edges and Effects.
	Fault          string
	Trials, Groups int
	// Rank is the mean rank correlation, within a group, of predictions with measurements, by fits that
	// left out the group, or the trial if there are few groups. Ranked is the number of groups that it
	// is of. Error is the mean relative error of these predictions, and MeanError that of
	// predicting the mean.
	Rank             float64
	Ranked           int
	Error, MeanError float64

	Nodes   []Node
	Edges   []Edge
	Effects []Effect // in descending order of Low

	space    *space.Space
	columns  *prune.Columns
	model    *model.Model
	table    *causal.Table
	context  []float64 // of the latest group
	measured domain
}

const (
	objective    = "objective"
	metricPrefix = "metric:"
	basePrefix   = "base:"
)

// Learn learns a model from groups, the latest last. The error is the context's or of Options.Run;
// other faults are the Fault of the model.
func Learn(ctx context.Context, sp *space.Space, groups []Group, o Options) (*Model, error) {
	if o.Run == nil {
		o.Run = func(f func() error) error { return f() }
	}
	l := learner{o: o, m: &Model{space: sp, columns: prune.NewColumns(sp)}}
	l.take(groups)
	m := l.m
	if m.Trials < MinTrials {
		m.Fault = fmt.Sprintf("%d trials are measured, and a model takes %d", m.Trials, MinTrials)
		return m, nil
	}
	err := l.learn(ctx)
	switch cause := ctx.Err(); {
	case cause != nil:
		return nil, cause
	case errors.Is(err, errWork):
		m.Fault = strings.TrimPrefix(err.Error(), errWork.Error()+": ")
	case err != nil:
		return nil, err
	}
	if m.Fault != "" {
		m.Nodes, m.Edges, m.Effects = nil, nil, nil
	}
	return m, nil
}

var errWork = errors.New("effects")

// learner makes a model.
type learner struct {
	o       Options
	m       *Model
	metrics []string
	rows    [][]float64 // configuration, metrics, objective, context
	group   []int       // of each row
	context int         // columns
	doc     *causal.Document
}

// take makes rows of the latest trials.
func (l *learner) take(groups []Group) {
	first, n := len(groups), 0
	for first > 0 && n+len(groups[first-1].Trials) <= maxTrials {
		first--
		n += len(groups[first].Trials)
	}
	if last := len(groups) - 1; first > last && last >= 0 { // a large one
		g := groups[last]
		g.Trials = g.Trials[len(g.Trials)-maxTrials:]
		groups = []Group{g}
	} else {
		groups = groups[first:]
	}
	l.metrics = common(groups)
	based := true
	for i := range groups {
		based = based && groups[i].Base != nil
	}
	for i := range groups {
		g := &groups[i]
		base := g.base(l.metrics)
		if base == nil {
			continue
		}
		before := len(l.rows)
		for k := range g.Trials {
			t := &g.Trials[k]
			if !(t.Objective > 0) || math.IsInf(t.Objective, 0) {
				continue
			}
			row := l.m.columns.Append(nil, t.Config)
			for _, name := range l.metrics {
				change := t.Metrics[name] - base.Metrics[name]
				if slices.Contains(l.o.Parts, name) {
					change /= base.Objective
				}
				row = append(row, change)
			}
			row = append(row, min(maxRatio, max(1./maxRatio, t.Objective/base.Objective)))
			if based {
				row = append(row, base.Objective)
				for _, name := range l.metrics {
					row = append(row, base.Metrics[name])
				}
			}
			l.rows, l.group = append(l.rows, row), append(l.group, l.m.Groups)
		}
		if len(l.rows) > before {
			l.m.Groups++
		}
	}
	l.m.Trials = len(l.rows)
	if l.context = 0; based && l.m.Groups >= minGroups {
		l.context = 1 + len(l.metrics)
	}
}

// common are the metrics that all trials have.
func common(groups []Group) []string {
	count, n := map[string]int{}, 0
	for i := range groups {
		for k := range groups[i].Trials {
			n++
			for name := range groups[i].Trials[k].Metrics {
				count[name]++
			}
		}
	}
	var out []string
	for name, of := range count {
		if of == n {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(maxMetrics, len(out))]
}

// base is the reference of a group's trials, nil if there is nothing.
func (g *Group) base(metrics []string) *Trial {
	if b := g.Base; b != nil {
		if !(b.Objective > 0) {
			return nil
		}
		return b
	}
	median := func(of func(*Trial) float64) float64 {
		var values []float64
		for i := range g.Trials {
			if t := &g.Trials[i]; t.Objective > 0 {
				values = append(values, of(t))
			}
		}
		slices.Sort(values)
		if len(values) == 0 {
			return 0
		}
		return stats.Quantile(values, .5)
	}
	b := &Trial{Objective: median(func(t *Trial) float64 { return t.Objective }), Metrics: map[string]float64{}}
	if b.Objective <= 0 {
		return nil
	}
	for _, name := range metrics {
		b.Metrics[name] = median(func(t *Trial) float64 { return t.Metrics[name] })
	}
	return b
}

// learn learns graph and model and reads answers off them, each a piece of work.
func (l *learner) learn(ctx context.Context) error {
	if err := l.tabulate(); err != nil {
		return fmt.Errorf("%w: %w", errWork, err)
	}
	var groups []int
	if l.m.Groups >= minGroups {
		groups = l.group
	}
	for _, work := range []func() error{
		func() (err error) {
			l.doc, err = causal.Learn(ctx, l.m.table, l.spec(), causal.LearnOptions{MaxCond: maxCond, PDSMax: 1,
				Bootstrap: draws, Groups: groups, Seed: l.o.Seed, Workers: l.o.Workers})
			return err
		},
		func() error {
			s, err := model.Follow(l.m.table, l.doc)
			if err != nil {
				return err
			}
			o := model.Options{Seed: l.o.Seed, LogObjectives: true, Groups: groups, MaxRows: maxTrials}
			if l.m.model, err = model.Fit(ctx, l.m.table, s, o); err != nil {
				return err
			}
			return l.judge()
		},
		func() error {
			if l.m.Fault != "" {
				return nil
			}
			l.m.measured = newDomain(l.m.columns, l.rows)
			return l.describe()
		},
	} {
		failed := error(nil)
		if err := l.o.Run(func() error { failed = work(); return nil }); err != nil {
			return err
		}
		if failed != nil {
			return fmt.Errorf("%w: %w", errWork, failed)
		}
	}
	return nil
}

// tabulate makes the table of the rows.
func (l *learner) tabulate() (err error) {
	var columns []causal.Column
	values := func(at int) []float64 {
		out := make([]float64, len(l.rows))
		for r, row := range l.rows {
			out[r] = row[at]
		}
		return out
	}
	at := l.m.columns.Len()
	for i := range at {
		columns = append(columns, l.m.columns.Column(i, values(i)))
	}
	var names []string
	for _, name := range l.metrics {
		names = append(names, metricPrefix+name)
	}
	names = append(names, objective)
	if l.context > 0 {
		names = append(names, basePrefix+objective)
		for _, name := range l.metrics {
			names = append(names, basePrefix+name)
		}
		l.m.context = l.rows[len(l.rows)-1][at+len(l.metrics)+1:]
	}
	for i, name := range names {
		columns = append(columns, causal.Column{Name: name, Values: values(at + i)})
	}
	l.m.table, err = causal.NewTable(columns...)
	return err
}

// spec has the knowledge about the columns.
func (l *learner) spec() *causal.Spec {
	s := &causal.Spec{Tiers: map[string]string{objective: causal.TierObjective}}
	for _, name := range l.m.columns.Names() {
		s.Tiers[name] = causal.TierConfig
	}
	for _, name := range l.metrics {
		s.Tiers[metricPrefix+name] = causal.TierMetric
		if slices.Contains(l.o.Parts, name) {
			s.Required = append(s.Required, [2]string{metricPrefix + name, objective})
		}
	}
	for i := range l.m.table.Len() {
		if name := l.m.table.Column(i).Name; strings.HasPrefix(name, basePrefix) {
			s.Tiers[name] = causal.TierContext
		}
	}
	return s
}

// judge says how far predictions of left-out trials can be trusted.
func (l *learner) judge() error {
	m := l.m
	predicted, err := m.model.HeldOut(objective)
	if err != nil {
		return err
	}
	measured := m.table.Column(m.table.Index(objective)).Values
	var ranks []float64
	for from := 0; from < len(l.group); {
		to := from
		for to < len(l.group) && l.group[to] == l.group[from] {
			to++
		}
		if of := measured[from:to]; len(of) >= minGroup && slices.Max(of) >= minSpread*slices.Min(of) {
			ranks = append(ranks, stats.Spearman(predicted[from:to], of))
		}
		from = to
	}
	e := m.model.Errors()[0]
	m.Error, m.MeanError, m.Ranked = e.Blend, e.Mean, len(ranks)
	if m.Ranked > 0 {
		m.Rank = stat.Mean(ranks, nil)
	}
	switch {
	case m.Ranked == 0:
		m.Fault = "no workload has configurations that differ enough to be ranked"
	case m.Rank < MinRank:
		m.Fault = fmt.Sprintf("it ranks what it was not learnt from with a correlation of %.2f, and %.2f is asked for",
			m.Rank, MinRank)
	case m.Error >= m.MeanError:
		m.Fault = fmt.Sprintf("its error, %.1f %%, is not below that of the mean, %.1f %%", 100*m.Error,
			100*m.MeanError)
	}
	return nil
}

// describe reads nodes, edges and effects off the model.
func (l *learner) describe() error {
	m := l.m
	for _, p := range m.space.Params() {
		m.Nodes = append(m.Nodes, Node{p.ID, Parameter})
	}
	for _, name := range l.metrics {
		m.Nodes = append(m.Nodes, Node{name, Metric})
	}
	m.Nodes = append(m.Nodes, Node{l.o.Objective, Objective})
	reliability := map[[2]string]float64{}
	for _, e := range l.doc.Edges {
		if f := e.BootFreq; f != nil {
			reliability[[2]string{e.Source, e.Target}], reliability[[2]string{e.Target, e.Source}] = *f, *f
		}
	}
	at := map[[2]string]int{} // an edge by its ends, the parameter of several columns once
	for _, a := range m.model.Arcs() {
		if strings.HasPrefix(a.Source, basePrefix) {
			continue
		}
		e := Edge{From: l.node(a.Source), To: l.node(a.Target), Effect: a.Range, Confounded: a.Confounded,
			Reliability: reliability[[2]string{a.Source, a.Target}]}
		if a.Low > 0 {
			e.Sign = 1
		} else if a.High < 0 {
			e.Sign = -1
		}
		if a.Target == objective && slices.Contains(l.o.Parts, e.From) { // it is a summand of the objective
			values := slices.Sorted(slices.Values(m.table.Column(m.table.Index(a.Source)).Values))
			e.Effect = stats.Quantile(values, .95) - stats.Quantile(values, .05)
			e.Sign, e.Reliability, e.Confounded = 1, 1, false
		}
		ends := [2]string{e.From, e.To}
		i, known := at[ends]
		switch {
		case !known:
			at[ends] = len(m.Edges)
			m.Edges = append(m.Edges, e)
		case m.Edges[i].Effect < e.Effect:
			e.Reliability = max(e.Reliability, m.Edges[i].Reliability)
			m.Edges[i] = e
		default:
			m.Edges[i].Reliability = max(e.Reliability, m.Edges[i].Reliability)
		}
	}
	return l.effects()
}

// node is the meaning of a column.
func (l *learner) node(column string) string {
	if column == objective {
		return l.o.Objective
	}
	if name, ok := strings.CutPrefix(column, metricPrefix); ok {
		return name
	}
	return l.m.columns.Param(slices.Index(l.m.columns.Names(), column))
}

// paths is how many paths of a parameter are kept.
const paths = 3

// effects reads the effects of parameters off the model: of several columns that of the largest effect.
func (l *learner) effects() error {
	m := l.m
	all, err := m.model.Effects(objective)
	if err != nil {
		return err
	}
	for _, e := range all {
		id := l.node(e.Parameter)
		share := math.Abs(e.Percent / 100 / max(e.ACE, math.SmallestNonzeroFloat64))
		one := Effect{Param: id, Share: share * e.ACE, Low: share * e.Low, High: share * e.High, Inert: e.Inert,
			Best: l.best(&e)}
		ways, err := m.model.Paths(objective, e.Parameter, paths)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(m.Effects, func(x Effect) bool { return x.Param == id })
		if i < 0 {
			i = len(m.Effects)
			m.Effects = append(m.Effects, one)
		}
		of := &m.Effects[i]
		of.Inert = of.Inert && one.Inert
		for _, w := range ways {
			of.add(l, w)
		}
	}
	for _, p := range m.space.Params() {
		if m.Effect(p.ID) == nil {
			m.Effects = append(m.Effects, Effect{Param: p.ID, Constant: true})
		}
	}
	for i := range m.Effects {
		slices.SortStableFunc(m.Effects[i].Paths, func(a, b Path) int { return cmp.Compare(b.Effect, a.Effect) })
		m.Effects[i].Paths = m.Effects[i].Paths[:min(paths, len(m.Effects[i].Paths))]
	}
	return nil
}

// best is the measured level with the lowest mean, "" if all are alike.
func (l *learner) best(e *model.Effect) string {
	seen := l.m.measured.seen[slices.Index(l.m.columns.Names(), e.Parameter)]
	levels := slices.DeleteFunc(slices.Clone(e.Levels), func(x model.Level) bool {
		return seen != nil && !seen[int(x.Value)]
	})
	low := slices.MinFunc(levels, func(a, b model.Level) int { return cmp.Compare(a.Mean, b.Mean) })
	if e.ACE == 0 {
		return ""
	}
	return e.Parameter + "=" + l.m.model.Text(e.Parameter, low.Value)
}

// add adds a path of a column.
func (e *Effect) add(l *learner, w model.Path) {
	p := Path{Effect: w.Effect}
	for _, n := range w.Nodes[1 : len(w.Nodes)-1] {
		p.Metrics = append(p.Metrics, l.node(n))
	}
	for i := range e.Paths {
		if slices.Equal(e.Paths[i].Metrics, p.Metrics) {
			e.Paths[i].Effect = max(e.Paths[i].Effect, p.Effect)
			return
		}
	}
	e.Paths = append(e.Paths, p)
}

// Effect is that of a parameter, nil if the model has none.
func (m *Model) Effect(param string) *Effect {
	for i := range m.Effects {
		if m.Effects[i].Param == param {
			return &m.Effects[i]
		}
	}
	return nil
}
