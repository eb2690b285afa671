package causal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// SearchOptions configures Discover. The zero value runs the whole search, without
// limits, at alpha 0.01.
type SearchOptions struct {
	// Alpha is the significance level: two variables count as independent at a larger
	// p-value. Zero means 0.01.
	Alpha float64
	// MaxCond is the largest number of neighbours to condition on; 0 means no limit.
	MaxCond int
	// PDSMax is the largest conditioning set of the possible-d-sep stage; 0 means no
	// limit.
	PDSMax int
	// noPDS skips that stage, and arrowsOnly R8 to R10, for comparison with results that
	// lack them.
	noPDS, arrowsOnly bool
	// Workers is the number of goroutines; 0 means GOMAXPROCS. The result does not
	// depend on it.
	Workers int
	// Progress, if set, is called from several goroutines with the number of a stage's
	// pairs that are done.
	Progress func(stage string, done, total int)
}

// A Result is a learned graph with its evidence, by index of variable.
type Result struct {
	Graph *Graph
	// Complete is false if the deadline passed, and Stopped names the stage where it
	// did.
	Complete bool
	Stopped  string
	// Depth is the number of finished sizes of conditioning sets; the first size is 0.
	Depth int
	// Tests is the number of distinct tests run; Untestable of them had too few rows.
	Tests, Untestable int
	// PathsCut is true if the search for uncovered paths (R9, R10) reached its
	// limit: some circles could be tails.
	PathsCut bool

	search *search
}

// Discover runs FCI on n variables with a test of conditional independence. k may be
// nil. If the deadline passes, it returns the result of the last finished depth; if
// the context is cancelled, it returns the context's error.
func Discover(ctx context.Context, n int, k *Knowledge, test Independence, o SearchOptions) (*Result, error) {
	if n < 1 || n > MaxVariables {
		return nil, fmt.Errorf("causal: %d variables: there must be 1 to %d; leave some out", n, MaxVariables)
	}
	if o.Alpha == 0 {
		o.Alpha = 0.01
	}
	if !(o.Alpha > 0 && o.Alpha < 1) {
		return nil, fmt.Errorf("causal: alpha %v is not between 0 and 1", o.Alpha)
	}
	if o.MaxCond < 0 || o.PDSMax < 0 {
		return nil, errors.New("causal: a limit is negative")
	}
	if o.MaxCond == 0 {
		o.MaxCond = n
	}
	if o.PDSMax == 0 {
		o.PDSMax = n
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	rules := k.rules(n)
	s := newSearch(n, rules, test, o.Alpha, o.Workers)
	if o.Progress != nil {
		s.observe = o.Progress
	}
	r := &Result{search: s, Complete: true}
	var finished bool
	r.Depth, finished = s.skeleton(ctx, o.MaxCond)
	if !finished {
		r.stop(fmt.Sprintf("in the skeleton, at sets of %d", r.Depth))
	}
	orient := &orientation{Graph: NewGraph(n), search: s, rules: rules, arrowsOnly: o.arrowsOnly}
	orient.reset()
	orient.colliders()
	if r.Complete && !o.noPDS {
		if s.possibleDSep(ctx, orient.possibleDSep(), o.PDSMax) {
			orient.reset()
			orient.colliders()
		} else {
			r.stop("in the possible-d-sep stage")
		}
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	orient.run()
	r.Graph, r.PathsCut = orient.Graph, orient.exhausted
	for k := range s.pairs {
		r.Tests += s.pairs[k].tests
		r.Untestable += s.pairs[k].untestable
	}
	return r, nil
}

func (r *Result) stop(where string) { r.Complete, r.Stopped = false, where }

// Evidence is the evidence for or against an edge between two variables.
type Evidence struct {
	// Separated is true if the pair is independent given Set, with p-value P.
	// Otherwise Set is the conditioning set with the largest P.
	Separated bool
	Set       []int
	P         float64
	// Tests is the number of conditioning sets tried. If it is 0, P and Set are not
	// set.
	Tests int
	// Strength is the smallest dependence given any set, in 0..1.
	Strength float64
	// Conflict is true if the knowledge forbids the edge but no set separates the
	// pair.
	Conflict bool
}

// Evidence returns the evidence on the pair i and j.
func (r *Result) Evidence(i, j int) Evidence {
	p := r.search.at(i, j)
	e := Evidence{Separated: p.separated, Tests: p.tests, Conflict: p.forbidden && !p.separated, Strength: p.strength}
	switch {
	case p.separated:
		e.Set, e.P = p.sep.list(), p.p
	case p.weakP >= 0:
		e.Set, e.P = p.weakSet.list(), p.weakP
	default:
		e.Tests, e.Strength = 0, 0
	}
	return e
}

// Visible reports whether i --> j is a visible edge: no hidden common cause of the
// two can account for it (Zhang, "Causal reasoning with ancestral graphs", 2008).
// That holds if i is exogenous, or if a variable separated from j has an arrowhead
// at i, directly or by a collider path into i whose vertices are all parents of j.
func (r *Result) Visible(i, j int) bool {
	g := r.Graph
	if !g.Is(i, j, Tail, Arrow) {
		return false
	}
	if r.search.rules.exogenous[i] {
		return true
	}
	o := orientation{Graph: g, search: r.search}
	seen := set(0).with(i).with(j)
	queue := []int{i}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, c := range g.Neighbours(v) {
			if seen.has(c) || g.At(c, v) != Arrow {
				continue
			}
			if o.separated(c, j) {
				return true
			}
			if g.At(v, c) == Arrow && g.Is(c, j, Tail, Arrow) {
				seen = seen.with(c)
				queue = append(queue, c)
			}
		}
	}
	return false
}
