package causal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// SearchOptions say how far Discover goes. The zero value asks for the whole
// search, without limits, at alpha 0.01.
type SearchOptions struct {
	// Alpha is the p-value above which two variables count as independent, 0.01 if
	// zero.
	Alpha float64
	// MaxCond is the largest set of neighbours to condition on; 0 for no limit.
	MaxCond int
	// PDSMax is the largest set of the possible-d-sep stage; 0 for no limit.
	PDSMax int
	// NoPDS leaves that stage out: faster, at the price of an edge too many now and
	// then.
	NoPDS bool
	// MaxP takes, of the separating sets of one size, the one with the largest
	// p-value rather than the first: the result then does not depend on the order
	// of the variables, for some more tests.
	MaxP bool
	// Selection allows for data selected by a common effect (rules R5 to R7).
	Selection bool
	// arrowsOnly leaves out R8 to R10, to compare with results that lack them.
	arrowsOnly bool
	// Budget is how long the search may take; 0 for no limit. When it, or the
	// context's deadline, runs out, the result is that of the last finished depth.
	Budget time.Duration
	// Workers is how many goroutines test, 0 for one a processor. The result does
	// not depend on it.
	Workers int
	// Progress, if set, is called from several goroutines with how many of the
	// stage's pairs are done.
	Progress func(stage string, done, total int)
}

// A Result is a learned graph with the reasons for it, by index.
type Result struct {
	Graph *Graph
	// Complete is false if time ran out, and Stopped says where.
	Complete bool
	Stopped  string
	// Depth is how many sizes of conditioning sets were finished, from 0.
	Depth int
	// Tests is how many distinct tests were done, and Untestable how many of them
	// had too few rows to say anything.
	Tests, Untestable int
	// Cut says that the search for paths, which gives tails, was given up: there
	// may be circles that could be tails.
	Cut bool

	search *search
}

// Discover runs FCI on n variables with a test of their independence.
// knowledge may be nil. It returns the context's error if that was cancelled, but
// a result, not complete, if time ran out.
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
	if o.MaxCond < 0 || o.PDSMax < 0 || o.Budget < 0 {
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
	if o.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Budget)
		defer cancel()
	}
	rules := k.rules(n)
	s := newSearch(n, rules, test, o.Alpha, o.MaxP, o.Workers)
	if o.Progress != nil {
		s.observe = o.Progress
	}
	r := &Result{search: s, Complete: true}
	var finished bool
	r.Depth, finished = s.skeleton(ctx, o.MaxCond)
	if !finished {
		r.stop(fmt.Sprintf("in the skeleton, at sets of %d", r.Depth))
	}
	orient := &orientation{Graph: NewGraph(n), search: s, rules: rules, selection: o.Selection, arrowsOnly: o.arrowsOnly}
	orient.reset()
	orient.colliders()
	if r.Complete && !o.NoPDS {
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
	r.Graph, r.Cut = orient.Graph, orient.spent
	for k := range s.pairs {
		r.Tests += s.pairs[k].tests
		r.Untestable += s.pairs[k].untestable
	}
	return r, nil
}

func (r *Result) stop(where string) { r.Complete, r.Stopped = false, where }

// Evidence is what is known of a pair of variables.
type Evidence struct {
	// Separated says that the pair is independent given Set, with probability P.
	// Otherwise Set is the conditioning set that gave the largest P.
	Separated bool
	Set       []int
	P         float64
	// Tests is how many sets were tried; with none there is no P and no Set.
	Tests int
	// Strength is the least dependence that any set left, in 0..1.
	Strength float64
	// Conflict says that knowledge keeps the pair apart but no set does.
	Conflict bool
}

// Evidence returns what the search found out about i and j.
func (r *Result) Evidence(i, j int) Evidence {
	p := r.search.at(i, j)
	e := Evidence{Separated: p.separated, Tests: p.tests, Conflict: p.fiat && !p.separated, Strength: p.strength}
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

// Visible reports whether i --> j is an edge that no hidden common cause of the
// two can account for (Zhang, "Causal reasoning with ancestral graphs", 2008): i
// is exogenous, or some variable apart from j has an arrow at i, or a path of
// colliders into i whose vertices are all parents of j.
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
			if o.apart(c, j) {
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
