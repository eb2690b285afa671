package trees

import (
	"math"
	"math/bits"
)

// cell is a histogram bin, or one row's contribution to it: the sum of gradients
// and, packed in one word, the sum of hessians above the row count. Both are
// fixed-point integers, so that sums are exact in any order, and a sibling's
// histogram equals the parent's minus the child's to the last bit.
type cell struct{ g, hc int64 }

// fixed converts derivatives to fixed point and back.
type fixed struct {
	g, h         float64 // scales, powers of two
	perG, perH   float64 // their inverses
	countBits    int
	countMask    int64
	minH, lambda float64
}

// newFixed chooses scales at which sums over n rows with magnitudes up to maxG and
// maxH do not overflow.
func newFixed(n int, maxG, maxH float64) fixed {
	b := bits.Len(uint(n))
	f := fixed{countBits: b, countMask: 1<<b - 1}
	f.g = scale(maxG, 62-b)
	f.h = scale(maxH, 62-2*b)
	f.perG, f.perH = 1/f.g, 1/f.h
	return f
}

// scale returns the largest power of two that scales v to at most 2^to, within the
// range of invertible floats.
func scale(v float64, to int) float64 {
	if v <= 0 {
		return 1
	}
	_, e := math.Frexp(v) // v < 2^e
	return math.Ldexp(1, max(-1000, min(1000, to-e)))
}

// limitG bounds the gradients' scale by s.
func (f *fixed) limitG(s float64) {
	f.g = min(f.g, s)
	f.perG = 1 / f.g
}

func (f *fixed) cell(g, h float64) cell {
	return cell{int64(math.RoundToEven(g * f.g)), int64(math.RoundToEven(h*f.h))<<f.countBits | 1}
}

func (f *fixed) count(hc int64) int64  { return hc & f.countMask }
func (f *fixed) hess(hc int64) float64 { return float64(hc>>f.countBits) * f.perH }

// split is a split of a leaf: bins up to bin go left, and missing values if missLeft
// is set.
type split struct {
	gain     float64
	col      int // -1 for none
	bin      uint8
	missLeft bool
	left     cell
}

// leaf is a leaf of the growing tree, with rows[from:to] of the grower.
type leaf struct {
	from, to int
	sum      cell
	slot     int // of its histogram, -1 without one
	best     split
	node     int32 // parent node, -1 for the root; right is the side
	right    bool
}

// grower grows trees leaf-wise, best split first (Shi 2007; LightGBM), on
// histograms. Only the smaller child's histogram is summed from rows.
type grower struct {
	b       *bins
	o       *BoostOptions
	workers int

	g, h   []float64 // derivatives by row
	rows   []uint32  // grouped by leaf
	spare  []uint32
	cells  []cell // by row
	near   []cell // cells of the current leaf's rows
	hists  [][]cell
	found  [][2]split // best splits of the current pair of leaves, by column position in the quads
	active []bool     // columns drawn for the tree
	cols   []int      // the same as a list
	fixed  fixed

	leaves []leaf
	tree   tree
	bin    []uint8 // bin of each node's split
}

func newGrower(b *bins, o *BoostOptions, workers int) *grower {
	return &grower{
		b: b, o: o, workers: workers,
		g: make([]float64, b.rows), h: make([]float64, b.rows),
		spare: make([]uint32, b.rows), cells: make([]cell, b.rows), near: make([]cell, b.rows),
		found: make([][2]split, 4*len(b.quads)), active: make([]bool, len(b.cols)),
	}
}

// precision is the number of bits of the initial largest gradient that are resolved.
// Gradients below, of rows fitted up to rounding, are noise.
const precision = 44

// grow grows one tree from g.rows, g.cols and the derivatives. meanWeight scales the
// smallest hessian of a leaf. top is the largest gradient at the start of training;
// grow sets it if it is 0. Leaf values are Newton steps times the learning rate.
func (g *grower) grow(meanWeight float64, top *float64) {
	maxG, maxH := 0.0, 0.0
	for _, r := range g.rows {
		maxG, maxH = max(maxG, math.Abs(g.g[r])), max(maxH, g.h[r])
	}
	if *top == 0 {
		*top = maxG
	}
	g.fixed = newFixed(len(g.rows), maxG, maxH)
	g.fixed.limitG(scale(*top, precision))
	g.fixed.lambda = g.o.L2
	g.fixed.minH = minHessian * meanWeight
	root := leaf{to: len(g.rows), slot: -1, node: -1, best: split{col: -1}}
	for _, r := range g.rows {
		c := g.fixed.cell(g.g[r], g.h[r])
		g.cells[r] = c
		root.sum.g += c.g
		root.sum.hc += c.hc
	}
	clear(g.active)
	for _, j := range g.cols {
		g.active[j] = true
	}
	g.tree, g.bin = tree{}, g.bin[:0]
	g.leaves = append(g.leaves[:0], root)
	if g.o.Leaves > 1 && len(g.rows) >= 2*g.o.MinLeaf {
		g.leaves[0].slot = 0
		g.evaluate(&g.leaves[0], nil)
	}
	for len(g.leaves) < g.o.Leaves {
		best := -1
		for i := range g.leaves {
			if l := &g.leaves[i]; l.best.col >= 0 && (best < 0 || l.best.gain > g.leaves[best].best.gain*(1+tie)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		g.divide(best)
	}
	g.finish()
}

// minHessian is the smallest hessian of a leaf for rows of average weight
// (LightGBM's min_sum_hessian_in_leaf).
const minHessian = 1e-3

// divide splits a leaf: the left child replaces it, the right child is appended.
func (g *grower) divide(at int) {
	l := g.leaves[at]
	s := l.best
	node := int32(len(g.tree.nodes))
	col := &g.b.cols[s.col]
	right := cell{l.sum.g - s.left.g, l.sum.hc - s.left.hc}
	g.tree.nodes = append(g.tree.nodes, node32(int32(s.col), col.upper[s.bin], s.missLeft))
	g.tree.info = append(g.tree.info, nodeInfo{
		gain: s.gain, value: g.step(l.sum), weight: g.fixed.hess(l.sum.hc), count: int32(l.to - l.from),
	})
	g.bin = append(g.bin, s.bin)
	if l.node >= 0 {
		g.tree.nodes[l.node].setChild(l.right, node)
	}
	mid := l.from + g.partition(g.rows[l.from:l.to], s)
	left := leaf{from: l.from, to: mid, sum: s.left, slot: -1, best: split{col: -1}, node: node}
	other := leaf{from: mid, to: l.to, sum: right, slot: -1, best: split{col: -1}, node: node, right: true}
	g.leaves[at] = left
	g.leaves = append(g.leaves, other)
	if len(g.leaves) == g.o.Leaves {
		return
	}
	small, large := &g.leaves[at], &g.leaves[len(g.leaves)-1]
	if small.to-small.from > large.to-large.from {
		small, large = large, small
	}
	// The larger child inherits the histogram. A leaf too small to split needs none.
	large.slot = l.slot
	switch room := 2 * g.o.MinLeaf; {
	case large.to-large.from < room:
	case small.to-small.from < room:
		g.subtractRows(small, large)
	default:
		small.slot = len(g.leaves) - 1
		g.evaluate(small, large)
	}
}

// partition moves the rows that go left before the others, preserving their order,
// and returns their number.
func (g *grower) partition(rows []uint32, s split) int {
	c := &g.b.cols[s.col]
	side := g.b.sides(c, s.bin, s.missLeft)
	words, shift := g.b.quads[c.quad].words, c.shift&31
	left, right := 0, 0
	spare := g.spare[:len(rows)]
	for _, r := range rows {
		// Branch-free: the side of a row is unpredictable.
		toLeft := int(side[uint8(words[r]>>shift)])
		rows[left] = r
		spare[right] = r
		left += toLeft
		right += 1 - toLeft
	}
	copy(rows[left:], spare[:right])
	return left
}

// sides returns a table of the bins that a split sends left (1).
func (b *bins) sides(c *column, bin uint8, missLeft bool) (side [256]uint8) {
	for i := 0; i <= int(bin); i++ {
		side[i] = 1
	}
	if c.missing && missLeft {
		side[len(c.upper)] = 1
	}
	return side
}

// step returns a leaf's Newton step times the learning rate.
func (g *grower) step(sum cell) float64 {
	d := g.fixed.hess(sum.hc) + g.o.L2
	if d <= 0 {
		return 0
	}
	v := -float64(sum.g) * g.fixed.perG / d
	if g.o.Objective == Softmax {
		v = max(-maxStep, min(maxStep, v))
	}
	return v * g.o.LearningRate
}

// finish numbers the leaves and sets their values.
func (g *grower) finish() {
	t := &g.tree
	for i := range g.leaves {
		l := &g.leaves[i]
		if l.node >= 0 {
			t.nodes[l.node].setChild(l.right, ^int32(i))
		}
		t.leaves = append(t.leaves, g.step(l.sum))
		t.leafInfo = append(t.leafInfo, nodeInfo{weight: g.fixed.hess(l.sum.hc), count: int32(l.to - l.from)})
	}
}

// leafOf returns the leaf of a training row.
func (g *grower) leafOf(row int) int {
	if len(g.tree.nodes) == 0 {
		return 0
	}
	at := int32(0)
	for {
		nd := &g.tree.nodes[at]
		c := &g.b.cols[nd.feature]
		b := g.b.of(c, row)
		left := b <= g.bin[at]
		if c.missing && int(b) == len(c.upper) {
			left = nd.missLeft()
		}
		at = nd.child(!left)
		if at < 0 {
			return int(^at)
		}
	}
}
