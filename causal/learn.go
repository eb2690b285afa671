package causal

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// LearnOptions configures Learn. The zero value is recommended.
type LearnOptions struct {
	// Alpha is the significance level: two variables count as independent at a larger
	// p-value. Zero means 0.01 for up to 5,000 rows and 0.001 for more, where tests
	// detect effects too small to matter.
	Alpha float64
	// MaxCond is the largest conditioning set. Zero means 4, or 2 below 300 rows,
	// where tests with larger sets lack power.
	MaxCond int
	// PDSMax is the largest conditioning set of the possible-d-sep stage. Zero means 2.
	PDSMax int
	// Bootstrap is the number of bootstrap samples that estimate how often an edge is
	// found; 0 disables the bootstrap, 20 is usually enough.
	Bootstrap int
	// Keep is the share of bootstrap samples that must contain an edge to keep it.
	// Zero means 0.5; a negative value keeps every edge.
	Keep float64
	// Groups, if set, has a group number per row; the bootstrap resamples whole
	// groups. Rows of one group, such as runs on one day's workload, are not
	// independent: resampling single rows would overstate the frequencies.
	Groups []int
	// Seed seeds the bootstrap's samples.
	Seed uint64
	// Budget limits the time of learning, bootstrap included; 0 means no limit.
	Budget time.Duration
	// Workers is the number of goroutines; 0 means GOMAXPROCS. The result does not
	// depend on it.
	Workers int
	// Progress, if set, is called from several goroutines with the progress of a
	// stage.
	Progress func(stage string, done, total int)
}

const (
	// minRows is the fewest rows that Learn accepts.
	minRows = 20
	// fewRows is the number of rows below which MaxCond defaults to 2.
	fewRows = 300
	// manyRows is the number of rows above which Alpha defaults to 0.001.
	manyRows = 5000
	// minPerLevel is the smallest average number of rows a category.
	minPerLevel = 5
	// maxCategories is the largest number of categories of a column.
	maxCategories = 64
	// duplicateCorrelation is the correlation from which two columns are duplicates.
	duplicateCorrelation = 1 - 1e-9
	// defaultKeep is the default of LearnOptions.Keep.
	defaultKeep = 0.5
)

func (o LearnOptions) withDefaults(rows int) LearnOptions {
	if o.Alpha == 0 {
		o.Alpha = 0.01
		if rows > manyRows {
			o.Alpha = 0.001
		}
	}
	if o.MaxCond == 0 {
		o.MaxCond = 4
		if rows < fewRows {
			o.MaxCond = 2
		}
	}
	if o.PDSMax == 0 {
		o.PDSMax = 2
	}
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	return o
}

func (o *LearnOptions) search() SearchOptions {
	return SearchOptions{Alpha: o.Alpha, MaxCond: o.MaxCond, PDSMax: o.PDSMax, Workers: o.Workers,
		Progress: o.Progress}
}

// Learn learns the causal graph of a table. Constant columns, and all but one of
// several columns with the same information, are left out with a warning. If the
// deadline passes, the document is marked as incomplete; if the context is
// cancelled, Learn returns its error.
func Learn(ctx context.Context, t *Table, spec *Spec, o LearnOptions) (*Document, error) {
	if spec == nil {
		spec = &Spec{Mode: ModeNone}
	}
	if o.Bootstrap < 0 || o.Keep > 1 || o.Budget < 0 || math.IsNaN(o.Keep) {
		return nil, fmt.Errorf("causal: bootstrap %d, keep %v or budget %v is out of range",
			o.Bootstrap, o.Keep, o.Budget)
	}
	if o.Groups != nil && len(o.Groups) != t.Rows() {
		return nil, fmt.Errorf("causal: %d rows have %d group numbers", t.Rows(), len(o.Groups))
	}
	o = o.withDefaults(t.Rows())
	if o.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Budget)
		defer cancel()
	}
	in, err := prepare(t, spec)
	if err != nil {
		return nil, err
	}
	test, remark, err := NewTest(in.table)
	if err != nil {
		return nil, err
	}
	if remark != "" {
		in.warn("%s", remark)
	}
	r, err := Discover(ctx, in.table.Len(), in.know, test, o.search())
	if err != nil {
		return nil, err
	}
	var boot *bootstrap
	if o.Bootstrap > 0 {
		if boot, err = runBootstrap(ctx, in, r.Graph, o); err != nil {
			return nil, err
		}
	}
	return describe(t, in, r, boot, o), nil
}

// input is a table prepared for learning.
type input struct {
	table    *Table
	spec     *Spec // of the table's columns
	know     *Knowledge
	warnings []string
}

func (in *input) warn(format string, args ...any) {
	in.warnings = append(in.warnings, fmt.Sprintf(format, args...))
}

// prepare checks a table against a spec and leaves out ignored, constant and
// duplicate columns, the latter two with a warning.
func prepare(t *Table, spec *Spec) (*input, error) {
	in := &input{}
	if t.Rows() < minRows {
		return nil, fmt.Errorf("%d rows are too few to learn causes from: measure at least %d, better %d", t.Rows(),
			minRows, fewRows)
	}
	// Check the whole spec first: below, names of left-out columns are accepted.
	if _, err := spec.without(spec.Ignore).Bind(without(t.Names(), spec.Ignore)); err != nil {
		return nil, err
	}
	for _, name := range spec.Ignore {
		if t.Index(name) < 0 {
			return nil, fmt.Errorf("ignore: the data have no column %q; they have %s",
				name, strings.Join(t.Names(), ", "))
		}
	}
	var kept []int
	var dropped []string
	for i := range t.Len() {
		c := t.Column(i)
		if slices.Contains(spec.Ignore, c.Name) {
			continue
		}
		if !c.varies() {
			in.warn("column %q is constant and left out: nothing can be learned about what does not change", c.Name)
			dropped = append(dropped, c.Name)
			continue
		}
		if k := len(c.Levels); c.Kind == Categorical && (k > maxCategories || k*minPerLevel > t.Rows()) {
			return nil,
				fmt.Errorf(
					"column %q has %d categories in %d rows: a category needs at least %d rows on average, and "+
						"there may be %d; group some, declare the column numeric, or put it under \"ignore\"",
					c.Name, k, t.Rows(), minPerLevel, maxCategories)
		}
		if same := in.duplicate(t, kept, i, spec); same >= 0 {
			other := t.Column(same)
			loser := i
			if duplicateRank(spec, c.Name) > duplicateRank(spec, other.Name) {
				loser = same
				kept = append(slices.DeleteFunc(kept, func(k int) bool { return k == same }), i)
			}
			in.warn(
				"columns %q and %q carry the same information, nothing can tell their effects apart: %q is left out",
				other.Name, c.Name, t.Column(loser).Name)
			dropped = append(dropped, t.Column(loser).Name)
			continue
		}
		kept = append(kept, i)
	}
	slices.Sort(kept)
	switch {
	case len(kept) < 2:
		return nil, fmt.Errorf("only %d of %d columns can be learned from: %s", len(kept), t.Len(),
			strings.Join(append(in.warnings, "two are needed"), "; "))
	case len(kept) > MaxVariables:
		return nil, fmt.Errorf("%d columns are more than the %d a graph can have: put some under \"ignore\"", len(kept),
			MaxVariables)
	}
	in.table = t.Columns(kept)
	in.spec = spec.without(append(dropped, spec.Ignore...))
	in.spec.Ignore = spec.Ignore
	var err error
	in.know, err = in.spec.Bind(in.table.Names())
	return in, err
}

func without(names, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(drop, name) })
}

// without returns the spec without the named columns.
func (s *Spec) without(names []string) *Spec {
	gone := func(name string) bool { return slices.Contains(names, name) }
	pairs := func(list [][2]string) [][2]string {
		return slices.DeleteFunc(slices.Clone(list), func(p [2]string) bool { return gone(p[0]) || gone(p[1]) })
	}
	out := &Spec{Mode: s.Mode, Tiers: map[string]string{}, Forbidden: pairs(s.Forbidden), Required: pairs(s.Required),
		Order: without(s.Order, names)}
	for name, tier := range s.Tiers {
		if !gone(name) {
			out.Tiers[name] = tier
		}
	}
	for name, kind := range s.Types {
		if !gone(name) {
			if out.Types == nil {
				out.Types = map[string]Kind{}
			}
			out.Types[name] = kind
		}
	}
	return out
}

// varies reports whether a column has two distinct values.
func (c *Column) varies() bool {
	lo, hi := slices.Min(c.Values), slices.Max(c.Values)
	return hi/2-lo/2 > 0 // halved against overflow
}

// duplicateRank ranks duplicate columns by which to keep: objectives, then inputs,
// then metrics.
func duplicateRank(s *Spec, name string) int {
	switch s.Tiers[name] {
	case TierObjective:
		return 2
	case TierConfig, TierContext:
		return 1
	}
	return 0
}

// duplicate returns the index of a kept column with the same information as column
// i, or -1: numbers that are a linear function of each other, or categories that
// differ in their names only.
func (in *input) duplicate(t *Table, kept []int, i int, spec *Spec) int {
	c := t.Column(i)
	for _, k := range kept {
		other := t.Column(k)
		if (c.Kind == Categorical) != (other.Kind == Categorical) {
			continue
		}
		if c.Kind == Categorical && sameCategories(c, other) || c.Kind != Categorical && sameNumbers(c, other) {
			return k
		}
	}
	return -1
}

func sameCategories(a, b *Column) bool {
	if len(a.Levels) != len(b.Levels) {
		return false
	}
	as := make([]int, len(a.Levels)) // matching level of b plus 1; 0 if unmatched
	taken := make([]bool, len(b.Levels))
	for r, v := range a.Values {
		x, y := int(v), int(b.Values[r])
		switch {
		case as[x] == 0 && !taken[y]:
			as[x], taken[y] = y+1, true
		case as[x] != y+1:
			return false
		}
	}
	return true
}

func sameNumbers(a, b *Column) bool {
	x, okX := standardised(a.Values)
	y, okY := standardised(b.Values)
	return okX && okY && math.Abs(dot(x, y))/float64(len(x)) >= duplicateCorrelation
}

// describe returns the document of a learned graph.
func describe(whole *Table, in *input, r *Result, boot *bootstrap, o LearnOptions) *Document {
	names := in.table.Names()
	kinds := make([]Kind, len(names))
	for i := range kinds {
		kinds[i] = in.table.Column(i).Kind
	}
	d := NewDocument(NewGraph(len(names)), names, kinds, in.spec.Tiers)
	// Drop edges first: the visibility of an edge depends on other edges.
	kept := d.dropUnstable(r, boot, names, o.Keep)
	d.describePairs(kept, in, boot)
	var order []int
	for _, name := range in.spec.Order {
		order = append(order, slices.Index(names, name))
	}
	d.DAG = Resolve(kept, in.table, order).document(names)
	d.Knowledge = in.spec
	d.Learning = learning(whole, r, boot, o)
	in.warnOf(d, r, o)
	d.Warnings = in.warnings
	return d
}

// dropUnstable adds the edges with a bootstrap frequency below keep to d.Dropped
// and returns the result without them.
func (d *Document) dropUnstable(r *Result, boot *bootstrap, names []string, keep float64) *Result {
	kept := *r
	kept.Graph = r.Graph.Clone()
	for i := range names {
		for j := i + 1; j < len(names); j++ {
			if edge := r.edge(i, j, names); r.Graph.Adjacent(i, j) && boot.setFrequencies(&edge, i, j) &&
				*edge.BootFreq < keep {
				kept.Graph.Set(i, j, None, None)
				edge.Visible = false
				d.Dropped = append(d.Dropped, edge)
			}
		}
	}
	return &kept
}

// describePairs adds every pair's edge, separation or conflict to the document.
func (d *Document) describePairs(r *Result, in *input, boot *bootstrap) {
	names := in.table.Names()
	for i := range names {
		for j := i + 1; j < len(names); j++ {
			e := r.Evidence(i, j)
			switch {
			case r.Graph.Adjacent(i, j):
				edge := r.edge(i, j, names)
				boot.setFrequencies(&edge, i, j)
				d.Edges = append(d.Edges, edge)
			case e.Separated:
				d.Separations = append(d.Separations,
					Separation{names[i], names[j], pick(names, e.Set), roundStored(e.P)})
			case e.Conflict && in.know.exogenous(i) && in.know.exogenous(j):
				d.DependentInputs = append(d.DependentInputs, Dependence{names[i], names[j], roundStored(e.P)})
			case e.Conflict:
				d.Conflicts = append(d.Conflicts, Conflict{names[i], names[j], roundStored(e.P), pick(names, e.Set),
					conflictHint(in.spec, names[i], names[j])})
			}
		}
	}
}

// learning returns the description of how r was learned from the table whole.
func learning(whole *Table, r *Result, boot *bootstrap, o LearnOptions) *Learning {
	l := &Learning{
		Test: TestBFX2, Alpha: o.Alpha, MaxCond: o.MaxCond, PDSMax: o.PDSMax, Policy: "first",
		Rows: whole.Rows(), DataHash: whole.Hash(), Tests: r.Tests, Complete: r.Complete, Stopped: r.Stopped,
	}
	if boot != nil {
		l.Bootstrap, l.Keep, l.Seed = boot.samples, max(o.Keep, 0), o.Seed
		l.Complete = l.Complete && boot.samples == o.Bootstrap
	}
	return l
}

// warnOf warns about limits of the trust in the document.
func (in *input) warnOf(d *Document, r *Result, o LearnOptions) {
	if !r.Complete {
		in.warn("time ran out %s: edges are too many and marks too few", r.Stopped)
	}
	if o.Bootstrap > d.Learning.Bootstrap {
		in.warn("time ran out after %d of %d bootstrap samples", d.Learning.Bootstrap, o.Bootstrap)
	}
	if n := len(d.Dropped); n > 0 {
		in.warn("%d edges were found in fewer than %.0f %% of the bootstrap samples and are dropped", n, 100*o.Keep)
	}
	if n := len(d.DependentInputs); n > 0 {
		in.warn(
			"%d pairs of config or context variables were not set independently of each other: their effects are "+
				"harder to tell apart", n)
	}
	if n := len(d.Conflicts); n > 0 {
		in.warn("the data contradict the knowledge in %d pairs: see the conflicts", n)
	}
	if r.Untestable > 0 {
		in.warn(
			"%d of %d tests had too few rows for their number of parameters and count neither way: there may be "+
				"surplus edges", r.Untestable, r.Tests)
	}
	if r.PathsCut {
		in.warn("the graph is so dense that the search for paths was given up: circles may stand where tails could")
	}
}

func (r *Result) edge(i, j int, names []string) Edge {
	e := r.Evidence(i, j)
	edge := Edge{
		Source: names[i], Target: names[j], MarkSource: r.Graph.At(j, i), MarkTarget: r.Graph.At(i, j),
		Tests: e.Tests, Visible: r.Visible(i, j) || r.Visible(j, i),
	}
	if e.Tests > 0 {
		p, strength := roundStored(e.P), roundStored(e.Strength)
		edge.P, edge.Strength, edge.Given = &p, &strength, pick(names, e.Set)
	}
	return edge
}

// conflictHint returns the usual cause of a conflict.
func conflictHint(s *Spec, a, b string) string {
	tiers := []string{s.Tiers[a], s.Tiers[b]}
	slices.Sort(tiers)
	switch {
	case tiers[0] == TierObjective && tiers[1] == TierObjective:
		return "the objectives share a cause that is not in the data, or one causes the other: add the metric between"
	case (tiers[0] == TierConfig || tiers[0] == TierContext) && tiers[1] == TierObjective:
		return "a direct effect bypasses all metrics: add a metric, or allow it with mode \"tiers\""
	case tiers[0] == TierMetric && tiers[1] == TierMetric:
		return "metrics affect each other: allow it with mode \"tiers\""
	}
	return "knowledge keeps the two apart, but nothing in the data does: look at the forbidden pairs"
}

// document returns the DAG with names in place of indices.
func (d *DAG) document(names []string) *DAGDocument {
	out := &DAGDocument{Edges: []DAGEdge{}, Order: pick(names, d.Order)}
	for _, a := range d.Arcs {
		out.Edges = append(out.Edges, DAGEdge{names[a.From], names[a.To], a.ConfoundingPossible})
	}
	for _, c := range d.Correlated {
		out.Correlated = append(out.Correlated, [2]string{names[c[0]], names[c[1]]})
	}
	for _, a := range d.Assumed {
		out.Resolved = append(out.Resolved, Resolution{names[a.I], names[a.J], a.From, a.To, a.Reason})
	}
	return out
}
