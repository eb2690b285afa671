package trees

import (
	"math"
	"math/bits"
)

// cell is one bin of a histogram, or one row's part in it: the sum of gradients
// and, packed in one word, the sum of hessians above the count of rows. Both
// are fixed-point integers, so sums are exact, do not depend on their order,
// and a sibling's histogram is the parent's less the child's to the last bit.
type cell struct{ g, hc int64 }

// fixed converts derivatives to cells and back.
type fixed struct {
	g, h         float64 // scales, powers of two
	perG, perH   float64 // their inverses
	countBits    int
	countMask    int64
	minH, lambda float64
}

// newFixed chooses the scales at which sums over n rows, of magnitudes up to
// maxG and maxH, leave no word.
func newFixed(n int, maxG, maxH float64) fixed {
	b := bits.Len(uint(n))
	f := fixed{countBits: b, countMask: 1<<b - 1}
	f.g = scale(maxG, 62-b)
	f.h = scale(maxH, 62-2*b)
	f.perG, f.perH = 1/f.g, 1/f.h
	return f
}

// scale is the largest power of two that takes v to at most 2^to, within what
// can be inverted.
func scale(v float64, to int) float64 {
	if v <= 0 {
		return 1
	}
	_, e := math.Frexp(v) // v < 2^e
	return math.Ldexp(1, max(-1000, min(1000, to-e)))
}

func (f *fixed) cell(g, h float64) cell {
	return cell{int64(math.RoundToEven(g * f.g)), int64(math.RoundToEven(h*f.h))<<f.countBits | 1}
}

func (f *fixed) count(hc int64) int64  { return hc & f.countMask }
func (f *fixed) hess(hc int64) float64 { return float64(hc>>f.countBits) * f.perH }

// score is twice the loss that a leaf's best step saves.
func (f *fixed) score(g, hc int64) float64 {
	v := float64(g) * f.perG
	return v * v / (f.hess(hc) + f.lambda)
}

// split is a way to divide a leaf: bins up to bin go left, missing values
// where missLeft says.
type split struct {
	gain     float64
	col      int // -1: none
	bin      uint8
	missLeft bool
	left     cell
}

// leaf is a leaf of the growing tree: rows[from:to] of the grower.
type leaf struct {
	from, to int
	sum      cell
	slot     int // of its histogram, -1 if none was made
	best     split
	node     int32 // its parent's index and side
	right    bool
}

// grower grows trees leaf by leaf, the best split first (Shi 2007; LightGBM),
// on histograms, of which only the smaller child's is summed from rows.
type grower struct {
	b       *bins
	o       *BoostOptions
	workers int

	g, h  []float64 // derivatives by row
	rows  []uint32  // grouped by leaf
	spare []uint32
	cells []cell // by row
	near  []cell // the current leaf's cells, in the order of its rows
	hists [][]cell
	found []split // best split by active column
	cols  []int   // active columns
	fixed fixed

	leaves []leaf
	tree   tree
	bin    []uint8 // of each node's split
}

func newGrower(b *bins, o *BoostOptions, workers int) *grower {
	return &grower{
		b: b, o: o, workers: workers,
		g: make([]float64, b.rows), h: make([]float64, b.rows),
		spare: make([]uint32, b.rows), cells: make([]cell, b.rows), near: make([]cell, b.rows),
		found: make([]split, len(b.cols)),
	}
}

// grow learns one tree from g.rows, g.cols and the derivatives; meanWeight is
// the scale of what counts as no hessian. The leaves' values are Newton steps
// times the learning rate.
func (g *grower) grow(meanWeight float64) {
	maxG, maxH := 0.0, 0.0
	for _, r := range g.rows {
		maxG, maxH = max(maxG, math.Abs(g.g[r])), max(maxH, g.h[r])
	}
	g.fixed = newFixed(len(g.rows), maxG, maxH)
	g.fixed.lambda = g.o.L2
	g.fixed.minH = minHessian * meanWeight
	root := leaf{to: len(g.rows), slot: -1, node: -1, best: split{col: -1}}
	for _, r := range g.rows {
		c := g.fixed.cell(g.g[r], g.h[r])
		g.cells[r] = c
		root.sum.g += c.g
		root.sum.hc += c.hc
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
			if l := &g.leaves[i]; l.best.col >= 0 && (best < 0 || l.best.gain > g.leaves[best].best.gain) {
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

// minHessian is the least hessian of a leaf in rows of average weight
// (LightGBM's min_sum_hessian_in_leaf).
const minHessian = 1e-3

// divide splits a leaf: the left child takes its place, the right one is new.
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
	mid := l.from + g.partition(l.from, l.to, col, s)
	left := leaf{from: l.from, to: mid, sum: s.left, slot: -1, best: split{col: -1}, node: node}
	other := leaf{from: mid, to: l.to, sum: right, slot: -1, best: split{col: -1}, node: node, right: true}
	g.leaves[at] = left
	g.leaves = append(g.leaves, other)
	if len(g.leaves) == g.o.Leaves {
		return
	}
	// The larger child inherits the histogram; without room for a split neither
	// needs one.
	small, large := &g.leaves[at], &g.leaves[len(g.leaves)-1]
	if small.to-small.from > large.to-large.from {
		small, large = large, small
	}
	if large.to-large.from < 2*g.o.MinLeaf {
		return
	}
	large.slot, small.slot = l.slot, len(g.leaves)-1
	g.evaluate(small, large)
}

// partition moves the rows that go left before those that go right, keeping
// their order, and returns how many there are.
func (g *grower) partition(from, to int, col *column, s split) int {
	rows, of := g.rows[from:to], col.of
	miss := uint8(255) // no column has so many bins
	if col.missing {
		miss = uint8(len(col.upper))
	}
	n, spare := 0, g.spare[:0:len(rows)]
	for _, r := range rows {
		b := of[r]
		if left := b <= s.bin; (left && b != miss) || (b == miss && s.missLeft) {
			rows[n] = r
			n++
		} else {
			spare = append(spare, r)
		}
	}
	copy(rows[n:], spare)
	return n
}

// parallelWork is how many row-column pairs are worth a goroutine's start.
const parallelWork = 1 << 15

// evaluate makes the histogram of small from its rows, turns the one in large's
// slot, so far their parent's, into large's, and finds the best split of each.
func (g *grower) evaluate(small, large *leaf) {
	for len(g.hists) <= small.slot {
		g.hists = append(g.hists, make([]cell, g.b.cells+256))
	}
	rows := g.rows[small.from:small.to]
	near := g.near[:len(rows)]
	for i, r := range rows {
		near[i] = g.cells[r]
	}
	workers := g.workers
	if len(rows)*len(g.cols) < parallelWork {
		workers = 1
	}
	hist := g.hists[small.slot]
	if large == nil {
		parallel(workers, len(g.cols), func(_, i int) {
			c := &g.b.cols[g.cols[i]]
			fill(hist[c.off:], c, rows, near)
			g.found[i] = g.scan(hist[c.off:], g.cols[i], small.sum)
		})
		small.best = g.pick(0)
		return
	}
	if len(g.found) < 2*len(g.cols) {
		g.found = make([]split, 2*len(g.b.cols))
	}
	whole := g.hists[large.slot]
	parallel(workers, len(g.cols), func(_, i int) {
		c := &g.b.cols[g.cols[i]]
		fill(hist[c.off:], c, rows, near)
		subtract(whole[c.off:c.off+c.size()], hist[c.off:])
		g.found[2*i] = g.scan(hist[c.off:], g.cols[i], small.sum)
		g.found[2*i+1] = g.scan(whole[c.off:], g.cols[i], large.sum)
	})
	small.best, large.best = g.pickOf(0), g.pickOf(1)
}

// pick is the best of the splits found, the first column's among equals.
func (g *grower) pick(first int) split {
	best := split{col: -1}
	for _, s := range g.found[first : first+len(g.cols)] {
		if s.col >= 0 && (best.col < 0 || s.gain > best.gain) {
			best = s
		}
	}
	return best
}

// pickOf is pick for one of two leaves whose splits alternate.
func (g *grower) pickOf(side int) split {
	best := split{col: -1}
	for i := range g.cols {
		if s := g.found[2*i+side]; s.col >= 0 && (best.col < 0 || s.gain > best.gain) {
			best = s
		}
	}
	return best
}

// fill sums the rows' cells by bin. A histogram has 256 cells of room behind
// its last column, so that a byte needs no bound.
func fill(hist []cell, c *column, rows []uint32, near []cell) {
	clear(hist[:c.size()])
	h := (*[256]cell)(hist)
	of := c.of
	near = near[:len(rows)]
	for i, r := range rows {
		p := &h[of[r]]
		p.g += near[i].g
		p.hc += near[i].hc
	}
}

func subtract(whole, part []cell) {
	part = part[:len(whole)]
	for i := range whole {
		whole[i].g -= part[i].g
		whole[i].hc -= part[i].hc
	}
}

// scan finds the best split of a leaf by one column.
func (g *grower) scan(hist []cell, col int, sum cell) split {
	c := &g.b.cols[col]
	f := &g.fixed
	best := split{col: -1}
	n := f.count(sum.hc)
	least := int64(g.o.MinLeaf)
	if n < 2*least {
		return best
	}
	parent := f.score(sum.g, sum.hc)
	// Less than this is rounding.
	floor := parent*1e-10 + math.SmallestNonzeroFloat64
	values := hist[:len(c.upper)]
	var miss cell
	if c.missing {
		miss = hist[len(c.upper)]
	}
	missing := f.count(miss.hc)
	try := func(left cell, bin int, missLeft bool) {
		ln := f.count(left.hc)
		rg, rhc := sum.g-left.g, sum.hc-left.hc
		rn := n - ln
		if ln < least || rn < least || f.hess(left.hc) < f.minH || f.hess(rhc) < f.minH {
			return
		}
		gain := f.score(left.g, left.hc) + f.score(rg, rhc) - parent
		if gain > floor && (best.col < 0 || gain > best.gain) {
			if missing == 0 {
				missLeft = ln >= rn
			}
			best = split{gain, col, uint8(bin), missLeft, left}
		}
	}
	var left cell
	for b := range values {
		if values[b].hc == 0 {
			continue // no rows: the same division as before
		}
		left.g += values[b].g
		left.hc += values[b].hc
		last := b == len(values)-1
		if missing > 0 {
			try(left, b, false)
			if !last {
				try(cell{left.g + miss.g, left.hc + miss.hc}, b, true)
			}
		} else if !last {
			try(left, b, false)
		}
	}
	return best
}

// step is a leaf's Newton step times the learning rate.
func (g *grower) step(sum cell) float64 {
	d := g.fixed.hess(sum.hc) + g.o.L2
	if d <= 0 {
		return 0
	}
	return -float64(sum.g) * g.fixed.perG / d * g.o.LearningRate
}

// finish gives the leaves their numbers and values.
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

// leafOf is the leaf a training row falls in.
func (g *grower) leafOf(row int) int {
	if len(g.tree.nodes) == 0 {
		return 0
	}
	at := int32(0)
	for {
		nd := &g.tree.nodes[at]
		c := &g.b.cols[nd.feature]
		b := c.of[row]
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
