package causal

import "slices"

// orientation orients the edges of a skeleton (Zhang 2008; methods are named after
// its rules). a *-> b stands for any mark at a and an arrow at b.
type orientation struct {
	*Graph
	search     *search
	rules      *rules
	arrowsOnly bool // skip R8 to R10, which only give tails
	// steps is the remaining number of vertices that path searches may visit, which
	// bounds the time on a dense graph; exhausted is true when it has reached 0.
	steps     int
	exhausted bool
}

// maxSteps is the number of vertices that all searches for uncovered paths of a
// graph may visit: about a second.
const maxSteps = 20_000_000

// separated reports whether a known set separates a and c. A pair whose edge the
// knowledge forbids has no separating set and does not count.
func (o *orientation) separated(a, c int) bool {
	return a != c && !o.Adjacent(a, c) && o.search.at(a, c).separated
}

// reset puts circles on every edge of the skeleton, then the marks that follow from
// knowledge.
func (o *orientation) reset() {
	for i := range o.n {
		for j := range o.n {
			o.marks[i*o.n+j] = None
			if i != j && o.search.at(i, j).edge() {
				o.marks[i*o.n+j] = Circle
			}
		}
	}
	for i := range o.n {
		for j := range o.n {
			if !o.Adjacent(i, j) {
				continue
			}
			switch {
			case o.rules.requires(i, j):
				o.Set(i, j, Tail, Arrow)
			case o.rules.requires(j, i):
			case o.rules.forbids(j, i):
				o.mark(i, j, Arrow)
				if o.rules.exogenous[i] {
					o.mark(j, i, Tail)
				}
			}
		}
	}
}

// mayPoint reports whether the edge between i and j can have an arrow at j.
func (o *orientation) mayPoint(i, j int) bool {
	m := o.At(i, j)
	return m == Arrow || m == Circle && !o.rules.requires(j, i)
}

// arrow turns a circle at j into an arrow and reports whether it did.
func (o *orientation) arrow(i, j int) bool {
	if o.At(i, j) != Circle || !o.mayPoint(i, j) {
		return false
	}
	o.mark(i, j, Arrow)
	return true
}

// tail turns a circle at j into a tail and reports whether it did.
func (o *orientation) tail(i, j int) bool {
	if o.At(i, j) != Circle {
		return false
	}
	o.mark(i, j, Tail)
	return true
}

// cause orients b o-* c as b -> c and reports whether it did.
func (o *orientation) cause(b, c int) bool {
	if o.At(c, b) != Circle || !o.mayPoint(b, c) {
		return false
	}
	o.tail(c, b)
	o.arrow(b, c)
	return true
}

// colliders applies R0: in a *-* b *-* c, with a and c separated by a set without b,
// b is a collider. All colliders are found before the first is marked.
func (o *orientation) colliders() {
	var found [][3]int
	for b := range o.n {
		near := o.Neighbours(b)
		for k, a := range near {
			for _, c := range near[k+1:] {
				if o.separated(a, c) && !o.search.at(a, c).sep.has(b) {
					found = append(found, [3]int{a, b, c})
				}
			}
		}
	}
	for _, f := range found {
		a, b, c := f[0], f[1], f[2]
		if o.mayPoint(a, b) && o.mayPoint(c, b) {
			o.arrow(a, b)
			o.arrow(c, b)
		}
	}
}

// run applies R1 to R4 and R8 to R10 until none applies: R5 to R7 concern rows selected
// by an effect, and configurations are not.
func (o *orientation) run() {
	o.steps = maxSteps
	for {
		for o.r1() || o.r2() || o.r3() {
		}
		if !o.r4() {
			break
		}
	}
	for !o.arrowsOnly && (o.r8() || o.r9() || o.r10()) {
	}
}

// r1: a *-> b o-* c, a and c separated: b -> c.
func (o *orientation) r1() (changed bool) {
	for b := range o.n {
		for _, c := range o.Neighbours(b) {
			if o.At(c, b) != Circle {
				continue
			}
			for _, a := range o.Neighbours(b) {
				if a != c && o.At(a, b) == Arrow && o.separated(a, c) && o.cause(b, c) {
					changed = true
					break
				}
			}
		}
	}
	return changed
}

// r2: a -> b *-> c or a *-> b -> c, and a *-o c: a *-> c.
func (o *orientation) r2() (changed bool) {
	for a := range o.n {
		for _, c := range o.Neighbours(a) {
			if o.At(a, c) != Circle {
				continue
			}
			for _, b := range o.Neighbours(a) {
				if b != c && o.At(a, b) == Arrow && o.At(b, c) == Arrow && (o.At(b, a) == Tail || o.At(c, b) == Tail) &&
					o.arrow(a, c) {
					changed = true
					break
				}
			}
		}
	}
	return changed
}

// r3: a *-> b <-* c, a *-o t o-* c, a and c separated, t *-o b: t *-> b.
func (o *orientation) r3() (changed bool) {
	for b := range o.n {
		near := o.Neighbours(b)
		for _, t := range near {
			if o.At(t, b) != Circle {
				continue
			}
			if o.hasR3(b, t, near) && o.arrow(t, b) {
				changed = true
			}
		}
	}
	return changed
}

func (o *orientation) hasR3(b, t int, near []int) bool {
	for k, a := range near {
		if a == t || o.At(a, b) != Arrow || o.At(a, t) != Circle {
			continue
		}
		for _, c := range near[k+1:] {
			if c != t && o.At(c, b) == Arrow && o.At(c, t) == Circle && o.separated(a, c) {
				return true
			}
		}
	}
	return false
}

// r4: a path t, ..., a, b, c discriminates b if t and c are separated and every
// vertex between t and b is a collider on it and a parent of c. With b o-* c: if b
// is in the separating set of t and c then b -> c, else a <-> b <-> c. It returns
// after the first edge that it orients.
func (o *orientation) r4() bool {
	for b := range o.n {
		for _, c := range o.Neighbours(b) {
			if o.At(c, b) != Circle {
				continue
			}
			for _, a := range o.Neighbours(b) {
				if a != c && o.At(b, a) == Arrow && o.Is(a, c, Tail, Arrow) && o.discriminate(a, b, c) {
					return true
				}
			}
		}
	}
	return false
}

func (o *orientation) discriminate(a, b, c int) bool {
	seen := set(0).with(a).with(b).with(c)
	queue := []int{a}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, t := range o.Neighbours(v) {
			if seen.has(t) || o.At(t, v) != Arrow {
				continue
			}
			seen = seen.with(t)
			if o.separated(t, c) {
				if o.search.at(t, c).sep.has(b) {
					if o.cause(b, c) {
						return true
					}
				} else if o.mayPoint(a, b) && o.mayPoint(c, b) && o.mayPoint(b, c) {
					o.arrow(a, b)
					o.arrow(b, c)
					return o.arrow(c, b)
				}
			} else if o.At(v, t) == Arrow && o.Is(t, c, Tail, Arrow) {
				queue = append(queue, t)
			}
		}
	}
	return false
}

// open turns the circle at a of every a o-> c that fits accepts into a tail.
func (o *orientation) open(fits func(a, c int) bool) (changed bool) {
	for a := range o.n {
		for _, c := range o.Neighbours(a) {
			if o.Is(a, c, Circle, Arrow) && fits(a, c) {
				changed = o.tail(c, a) || changed
			}
		}
	}
	return changed
}

// r8: a -> b -> c or a --o b -> c, and a o-> c: a -> c.
func (o *orientation) r8() bool {
	return o.open(func(a, c int) bool {
		return slices.ContainsFunc(o.Neighbours(a), func(b int) bool {
			return b != c && o.At(b, a) == Tail && o.At(a, b) != Tail && o.Is(b, c, Tail, Arrow)
		})
	})
}

// towards reports whether u *-* v may be directed from u to v.
func (o *orientation) towards(u, v int) bool {
	return o.Adjacent(u, v) && o.At(u, v) != Tail && o.At(v, u) != Arrow
}

// r9: a o-> c and an uncovered possibly directed path a, b, ..., c, b and c
// separated: a -> c.
func (o *orientation) r9() bool {
	return o.open(func(a, c int) bool {
		for _, b := range o.Neighbours(a) {
			if b != c && o.towards(a, b) && o.separated(b, c) &&
				o.uncovered([]int{a, b}, set(0).with(a).with(b), c) {
				return true
			}
		}
		return false
	})
}

// r10: a o-> c, b -> c <- d, uncovered possibly directed paths from a to b through m
// and from a to d through w (m may be b and w d), m and w separated: a -> c.
func (o *orientation) r10() bool {
	return o.open(func(a, c int) bool {
		var causes set
		for _, b := range o.Neighbours(c) {
			if b != a && o.Is(b, c, Tail, Arrow) {
				causes = causes.with(b)
			}
		}
		var over []int
		reach := map[int]set{}
		for _, m := range o.Neighbours(a) {
			if m == c || !o.towards(a, m) {
				continue
			}
			if r := o.reach(a, m, causes); r != 0 {
				over = append(over, m)
				reach[m] = r
			}
		}
		for k, m := range over {
			for _, w := range over[k+1:] {
				// The two paths reach two distinct parents of c.
				if o.separated(m, w) && (reach[m]|reach[w])&((reach[m]|reach[w])-1) != 0 {
					return true
				}
			}
		}
		return false
	})
}

// reach returns the targets that an uncovered possibly directed path from a through
// m reaches, m itself included.
func (o *orientation) reach(a, m int, targets set) set {
	var out set
	if targets.has(m) {
		out = out.with(m)
	}
	for _, t := range targets.without(m).without(a).list() {
		if o.uncovered([]int{a, m}, set(0).with(a).with(m), t) {
			out = out.with(t)
		}
	}
	return out
}

// uncovered reports whether a possibly directed path can be extended to goal such that,
// of three consecutive vertices, the outer two are separated. It is a depth-first search:
// breadth-first search that visits each vertex once misses paths. It returns false when
// o.steps is exhausted.
func (o *orientation) uncovered(path []int, on set, goal int) bool {
	u, v := path[len(path)-2], path[len(path)-1]
	if o.steps--; o.steps < 0 {
		o.exhausted = true
		return false
	}
	if o.towards(v, goal) && o.separated(u, goal) {
		return true
	}
	for _, next := range o.Neighbours(v) {
		if next != goal && !on.has(next) && o.towards(v, next) && o.separated(u, next) &&
			o.uncovered(append(path, next), on.with(next), goal) {
			return true
		}
	}
	return false
}

// possibleDSep returns for every variable the variables reachable by a path on which
// every inner vertex is a collider or has adjacent neighbours on the path.
func (o *orientation) possibleDSep() []set {
	out := make([]set, o.n)
	for x := range o.n {
		seen := make([]set, o.n) // by vertex: the predecessors it was entered from
		type step struct{ from, at int }
		var walk []step
		for _, v := range o.Neighbours(x) {
			seen[v] = seen[v].with(x)
			walk = append(walk, step{x, v})
		}
		for len(walk) > 0 {
			s := walk[len(walk)-1]
			walk = walk[:len(walk)-1]
			out[x] = out[x].with(s.at)
			for _, c := range o.Neighbours(s.at) {
				if c == x || c == s.from || seen[c].has(s.at) {
					continue
				}
				if o.Adjacent(s.from, c) || o.At(s.from, s.at) == Arrow && o.At(c, s.at) == Arrow {
					seen[c] = seen[c].with(s.at)
					walk = append(walk, step{s.at, c})
				}
			}
		}
	}
	return out
}
