package causal

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
)

// search finds the skeleton: it looks for a separating set of every pair.
type search struct {
	n       int
	rules   *rules
	test    Independence
	alpha   float64
	workers int

	pairs      []pair  // i < j, in order
	adjacent   []set   // by variable, after the last finished depth
	adjacentAt [][]set // by depth and variable: the neighbours at the start of the depth
	observe    func(stage string, done, total int)
}

// set is a set of variables.
type set uint64

func (s set) has(i int) bool    { return s>>uint(i)&1 != 0 }
func (s set) with(i int) set    { return s | 1<<uint(i) }
func (s set) without(i int) set { return s &^ (1 << uint(i)) }
func (s set) within(t set) bool { return s&^t == 0 }

func (s set) len() int { return bits.OnesCount64(uint64(s)) }

func (s set) list() []int {
	out := make([]int, 0, s.len())
	for ; s != 0; s &= s - 1 {
		out = append(out, bits.TrailingZeros64(uint64(s)))
	}
	return out
}

// pair is the state of a pair of variables.
type pair struct {
	i, j      int
	forbidden bool // the knowledge forbids the edge
	required  bool // the knowledge requires the edge
	// separated is true if the pair is independent given sep, with p-value p.
	separated bool
	sep       set
	p         float64
	// Over all sets tried: the largest p-value, its set, and the smallest strength.
	weakP      float64
	weakSet    set
	strength   float64
	tests      int // sets tried
	untestable int // sets with too few rows to test
}

func newSearch(n int, r *rules, test Independence, alpha float64, workers int) *search {
	s := &search{n: n, rules: r, test: test, alpha: alpha, workers: max(1, workers),
		observe: func(string, int, int) {}}
	s.adjacent = make([]set, n)
	for i := range n {
		for j := i + 1; j < n; j++ {
			p := pair{i: i, j: j, weakP: -1, strength: 1, forbidden: r.forbids(i, j) && r.forbids(j, i),
				required: r.requires(i, j) || r.requires(j, i)}
			if !p.forbidden {
				s.adjacent[i] = s.adjacent[i].with(j)
				s.adjacent[j] = s.adjacent[j].with(i)
			}
			s.pairs = append(s.pairs, p)
		}
	}
	return s
}

// at returns the pair of i and j.
func (s *search) at(i, j int) *pair {
	i, j = min(i, j), max(i, j)
	return &s.pairs[i*s.n-i*(i+1)/2+j-i-1]
}

// edge reports whether the pair is still adjacent.
func (p *pair) edge() bool { return !p.forbidden && !p.separated }

// skeleton removes edges by tests given sets of 0, 1, ... maxCond neighbours
// (PC-stable: Colombo and Maathuis, "Order-independent constraint-based causal
// structure learning", 2014). Pairs whose edge the knowledge forbids are tested too,
// for their separating sets. It returns the number of finished depths; finished is
// false if the context ended.
func (s *search) skeleton(ctx context.Context, maxCond int) (depths int, finished bool) {
	for d := 0; d <= maxCond; d++ {
		s.adjacentAt = append(s.adjacentAt, append([]set(nil), s.adjacent...))
		var open []*pair
		for k := range s.pairs {
			p := &s.pairs[k]
			if p.separated || p.required {
				continue
			}
			if max(s.candidates(d, p.i, p.j).len(), s.candidates(d, p.j, p.i).len()) >= d {
				open = append(open, p)
			}
		}
		if len(open) == 0 {
			break
		}
		done := s.each(ctx, "skeleton", open, func(w *worker, p *pair) {
			w.pair = p
			first := s.candidates(d, p.i, p.j)
			w.subsets(first, d, nil)
			w.subsets(s.candidates(d, p.j, p.i), d, func(z set) bool { return z.within(first) })
		})
		if !done {
			s.adjacentAt = s.adjacentAt[:d]
			return d, false
		}
		s.remove(open)
		depths = d + 1
	}
	return depths, true
}

// candidates returns the neighbours of x at a depth that may belong to a set
// separating x from y.
func (s *search) candidates(depth, x, y int) set {
	c := s.adjacentAt[depth][x].without(y)
	for _, z := range c.list() {
		if s.rules.forbids(z, x) {
			c = c.without(z)
		}
	}
	return c
}

// remove removes the edges of separated pairs.
func (s *search) remove(pairs []*pair) {
	for _, p := range pairs {
		if p.separated {
			s.adjacent[p.i] = s.adjacent[p.i].without(p.j)
			s.adjacent[p.j] = s.adjacent[p.j].without(p.i)
		}
	}
}

// possibleDSep removes edges by tests given sets of 1 to most variables from near,
// the possible-d-sep set of each variable. It reports whether it finished; if the
// context ended, it changes no edge.
func (s *search) possibleDSep(ctx context.Context, near []set, most int) bool {
	var open []*pair
	for k := range s.pairs {
		if p := &s.pairs[k]; p.edge() && !p.required {
			open = append(open, p)
		}
	}
	last := s.adjacent // not modified until all pairs are tested
	done := s.each(ctx, "possible-d-sep", open, func(w *worker, p *pair) {
		w.pair = p
		var before set
		for k, side := range []int{p.i, p.j} {
			from := s.mayPrecede(near[side], p)
			known := func(z set) bool {
				return z.within(last[side]) && z.len() < len(s.adjacentAt) || s.tried(p, z) ||
					k == 1 && z.within(before)
			}
			for size := 1; size <= min(most, from.len()); size++ {
				w.subsets(from, size, known)
			}
			before = from
		}
	})
	if done {
		s.remove(open)
	}
	return done
}

// mayPrecede returns from without the pair itself and without variables of higher
// tiers than both: a common effect cannot separate the pair.
func (s *search) mayPrecede(from set, p *pair) set {
	top := max(s.rules.tier[p.i], s.rules.tier[p.j])
	from = from.without(p.i).without(p.j)
	for _, z := range from.list() {
		if s.rules.tier[z] > top {
			from = from.without(z)
		}
	}
	return from
}

// tried reports whether the skeleton stage tested the pair given z.
func (s *search) tried(p *pair, z set) bool {
	d := z.len()
	return d < len(s.adjacentAt) && (z.within(s.candidates(d, p.i, p.j)) || z.within(s.candidates(d, p.j, p.i)))
}

// each calls do for every pair, on s.workers goroutines. If the context ends, it
// discards the pairs' separations and returns false.
func (s *search) each(ctx context.Context, stage string, pairs []*pair, do func(*worker, *pair)) bool {
	var next, done atomic.Int64
	var group sync.WaitGroup
	for range min(s.workers, len(pairs)) {
		group.Go(func() {
			w := &worker{search: s, ctx: ctx, run: s.test.Worker()}
			for {
				k := int(next.Add(1)) - 1
				if k >= len(pairs) || w.stopped() {
					return
				}
				do(w, pairs[k])
				s.observe(stage, int(done.Add(1)), len(pairs))
			}
		})
	}
	group.Wait()
	if ctx.Err() == nil {
		return true
	}
	for _, p := range pairs {
		p.separated = false
	}
	return false
}

// worker tests pairs on one goroutine.
type worker struct {
	*search
	ctx   context.Context
	run   func(x, y int, given []int) Outcome
	pair  *pair
	given []int
	steps int
}

func (w *worker) stopped() bool { return w.ctx.Err() != nil }

// subsets tests the pair given the subsets of from of one size, in lexicographic
// order, except the known ones, until a set separates the pair or the
// context ends.
func (w *worker) subsets(from set, size int, known func(set) bool) {
	list := from.list()
	if w.pair.separated || size > len(list) {
		return
	}
	index := make([]int, size)
	for k := range index {
		index[k] = k
	}
	for {
		w.given = w.given[:0]
		var s set
		for _, k := range index {
			w.given = append(w.given, list[k])
			s = s.with(list[k])
		}
		if w.steps++; w.steps%16 == 0 && w.stopped() {
			return
		}
		if (known == nil || !known(s)) && w.try(s) {
			return
		}
		k := size - 1
		for k >= 0 && index[k] == len(list)-size+k {
			k--
		}
		if k < 0 {
			return
		}
		index[k]++
		for l := k + 1; l < size; l++ {
			index[l] = index[l-1] + 1
		}
	}
}

// try tests the pair given one set and reports whether the set separates it.
func (w *worker) try(s set) bool {
	p := w.pair
	o := w.run(p.i, p.j, w.given)
	p.tests++
	if o.Untestable {
		p.untestable++
		return false
	}
	if o.P > p.weakP {
		p.weakP, p.weakSet = o.P, s
	}
	p.strength = min(p.strength, o.Strength)
	if o.P > w.alpha {
		p.separated, p.sep, p.p = true, s, o.P
	}
	return p.separated
}
