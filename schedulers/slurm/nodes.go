package slurm

import (
	"math/bits"
	"slices"
)

// set is a set of nodes: bit n%64 of word n/64.
type nodeSet []uint64

func (s nodeSet) has(n int) bool { return s[n>>6]&(1<<(n&63)) != 0 }
func (s nodeSet) add(n int)      { s[n>>6] |= 1 << (n & 63) }
func (s nodeSet) remove(n int)   { s[n>>6] &^= 1 << (n & 63) }

func (s nodeSet) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// and keeps the members that another set has, too.
func (s nodeSet) and(o nodeSet) {
	for i, w := range o {
		s[i] &= w
	}
}

// minus removes the members of another set.
func (s nodeSet) minus(o nodeSet) {
	for i, w := range o {
		s[i] &^= w
	}
}

// or adds the members of another set.
func (s nodeSet) or(o nodeSet) {
	for i, w := range o {
		s[i] |= w
	}
}

// common counts the members that another set has, too.
func (s nodeSet) common(o nodeSet) int {
	n := 0
	for i, w := range s {
		n += bits.OnesCount64(w & o[i])
	}
	return n
}

// within reports whether another set has all members.
func (s nodeSet) within(o nodeSet) bool {
	for i, w := range s {
		if w&^o[i] != 0 {
			return false
		}
	}
	return true
}

// overlaps reports whether another set has some of the members.
func (s nodeSet) overlaps(o nodeSet) bool {
	for i, w := range s {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// next is the least member that is at least n, or -1.
func (s nodeSet) next(n int) int {
	w := n >> 6
	if w >= len(s) {
		return -1
	}
	x := s[w] >> (n & 63) << (n & 63)
	for x == 0 {
		if w++; w == len(s) {
			return -1
		}
		x = s[w]
	}
	return w<<6 + bits.TrailingZeros64(x)
}

// run is a number of consecutive nodes.
type run struct{ first, nodes int }

// nextRun is the first run at or behind a node; of no nodes if there is none.
func (s nodeSet) nextRun(n int) run {
	first := s.next(n)
	if first < 0 {
		return run{}
	}
	w, x := first>>6, ^s[first>>6]>>(first&63)<<(first&63)
	for x == 0 {
		if w++; w == len(s) {
			return run{first, len(s)<<6 - first}
		}
		x = ^s[w]
	}
	return run{first, w<<6 + bits.TrailingZeros64(x) - first}
}

// nodeWeights are weights by node, nil if all are equal.
type nodeWeights []int64

// choose appends n of the nodes, which must have as many: of runs of equal weight, of those of the least weight, the
// first of the shortest that suffices; if none does, the longest run, then again for the rest.
// _eval_nodes in src/plugins/select/cons_tres/job_test.c. The scratch is overwritten.
func (w nodeWeights) choose(s nodeSet, dst []int32, n int, scratch nodeSet) []int32 {
	scratch = append(scratch[:0], s...)
	for n > 0 {
		best, least := run{}, int64(0)
		for r := scratch.nextRun(0); r.nodes > 0; r = scratch.nextRun(r.first + r.nodes) {
			weight := int64(0)
			if w != nil {
				weight = w[r.first]
				if k := slices.IndexFunc(w[r.first:r.first+r.nodes], func(o int64) bool { return o != weight }); k > 0 {
					r.nodes = k
				}
			}
			enough, was := r.nodes >= n, best.nodes >= n
			if best.nodes == 0 || weight < least || weight == least &&
				(enough && (!was || r.nodes < best.nodes) || !enough && !was && r.nodes > best.nodes) {
				best, least = r, weight
			}
		}
		if best.nodes == 0 {
			panic("slurm: a job has too few nodes")
		}
		k := min(n, best.nodes)
		for i := best.first; i < best.first+k; i++ {
			dst = append(dst, int32(i))
			scratch.remove(i)
		}
		n -= k
	}
	return dst
}
