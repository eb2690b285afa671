package trees

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// forestSample is the training set of a forest. As in boosting, sums are in fixed
// point: exact in any order.
type forestSample struct {
	rows, cols int
	classes    int // 0 for regression
	outputs    int // numbers per leaf: mean and variance, or a share per class
	y, w       []float64
	class      []int32
	positive   []uint32
	cells      []cell // by row: weighted difference from center; weight and count
	center     float64
	fixed      fixed

	keys    [][]int64 // by column, for random cuts: see key
	missing []bool    // by column, for random cuts
	bins    *bins     // for best cuts
}

// key maps floats to integers in the same order, which are compared without
// branches. Missing values come last.
func key(v float64) int64 {
	if v != v {
		return missingKey
	}
	b := int64(math.Float64bits(v + 0)) // -0 becomes 0
	return b ^ int64(uint64(b>>63)>>1)
}

const missingKey = math.MaxInt64

// value returns the float of a key.
func value(k int64) float64 { return math.Float64frombits(uint64(k ^ int64(uint64(k>>63)>>1))) }

func newForestSample(x Matrix, y, weights []float64, classes int, o ForestOptions) *forestSample {
	s := &forestSample{rows: x.Rows, cols: x.Cols, classes: classes, y: y, w: weights, outputs: 2}
	s.positive = positive(x.Rows, weights)
	if classes > 0 {
		s.outputs = classes
		s.class = make([]int32, x.Rows)
		for i, v := range y {
			s.class[i] = int32(v)
		}
	} else {
		n, row := len(s.positive), func(i int) uint32 { return s.positive[i] }
		total := exactSum(n, func(i int) float64 { return s.weight(row(i)) })
		s.center = exactSum(n, func(i int) float64 { return s.weight(row(i)) * y[row(i)] }) / total
	}
	s.measure()
	if !o.RandomCuts {
		s.bins = binned(x, s.positive, maxBins, o.Workers)
		return s
	}
	all := make([]int64, x.Rows*x.Cols)
	s.keys, s.missing = make([][]int64, x.Cols), make([]bool, x.Cols)
	for j := range s.keys {
		s.keys[j] = all[j*x.Rows : (j+1)*x.Rows]
	}
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			k := key(v)
			s.keys[j][i] = k
			s.missing[j] = s.missing[j] || k == missingKey
		}
	}
	return s
}

func (s *forestSample) weight(r uint32) float64 {
	if s.w == nil {
		return 1
	}
	return s.w[r]
}

// measure computes the rows' cells.
func (s *forestSample) measure() {
	distance := func(r uint32) float64 {
		if s.classes > 0 {
			return 0
		}
		return s.weight(r) * (s.y[r] - s.center)
	}
	maxG, maxH := 0.0, 0.0
	for _, r := range s.positive {
		maxG, maxH = max(maxG, math.Abs(distance(r))), max(maxH, s.weight(r))
	}
	s.fixed = newFixed(len(s.positive), maxG, maxH)
	s.cells = make([]cell, s.rows)
	for _, r := range s.positive {
		s.cells[r] = s.fixed.cell(distance(r), s.weight(r))
	}
}

type forestNode struct {
	node
	gain float64
}

type forestTree struct {
	root   int32
	nodes  []forestNode
	leaves []float64
}

// forestSums holds sums over rows; by holds weights and counts by class.
type forestSums struct {
	cell
	by []int64
}

func (a *forestSums) clear() {
	a.cell = cell{}
	clear(a.by)
}

func (a *forestSums) set(b *forestSums) {
	a.cell = b.cell
	copy(a.by, b.by)
}

func (a *forestSums) add(b *forestSums) {
	a.g += b.g
	a.hc += b.hc
	for k := range a.by {
		a.by[k] += b.by[k]
	}
}

// forestCut is a candidate split.
type forestCut struct {
	gain      float64
	col       int // -1 for none
	threshold float64
	bin       uint8
	missLeft  bool
}

// forestGrower grows trees depth first, one after another.
type forestGrower struct {
	s     *forestSample
	o     ForestOptions
	src   *rand.Rand
	rows  []uint32
	spare []uint32
	order []int // columns, shuffled as they are drawn

	// Nodes and leaves of all trees, so that a tree needs no allocation; children are
	// relative to the tree's first node or leaf.
	nodes     []forestNode
	leaves    []float64
	firstNode int
	firstLeaf int

	near   []cell  // cells of the current node's rows
	keys   []int64 // keys of the current node's rows in one column
	lo, hi float64 // range of the current node's targets

	whole, left, miss, run forestSums

	// A column's histogram, all zero between uses, and the set of its non-empty bins.
	hist   [256]cell
	byBin  []int64 // [bin*classes+class]
	filled [4]uint64
}

func newForestGrower(s *forestSample, o ForestOptions) *forestGrower {
	n := len(s.positive)
	g := &forestGrower{
		s: s, o: o, order: make([]int, s.cols),
		rows: make([]uint32, n), spare: make([]uint32, n), near: make([]cell, n), keys: make([]int64, n),
		byBin: make([]int64, 256*s.classes),
	}
	by := make([]int64, 4*s.classes)
	for i, a := range []*forestSums{&g.whole, &g.left, &g.miss, &g.run} {
		a.by = by[i*s.classes : (i+1)*s.classes]
	}
	return g
}

func (g *forestGrower) grow() forestTree {
	g.firstNode, g.firstLeaf = len(g.nodes), len(g.leaves)
	for j := range g.order {
		g.order[j] = j
	}
	if g.o.Bootstrap {
		for i := range g.rows {
			g.rows[i] = g.s.positive[g.src.IntN(len(g.s.positive))]
		}
	} else {
		copy(g.rows, g.s.positive)
	}
	root := g.node(g.rows, 0)
	return forestTree{root, g.nodes[g.firstNode:len(g.nodes):len(g.nodes)],
		g.leaves[g.firstLeaf:len(g.leaves):len(g.leaves)]}
}

// maxForestDepth bounds the recursion when cuts repeatedly split off single rows.
const maxForestDepth = 500

// node grows the subtree of rows and returns its index.
func (g *forestGrower) node(rows []uint32, depth int) int32 {
	varied := g.measure(rows)
	if len(rows) < 2*g.o.MinLeaf || !varied || depth >= maxForestDepth {
		return g.leaf(rows)
	}
	cut := g.best(rows)
	if cut.col < 0 {
		return g.leaf(rows)
	}
	at := len(g.nodes)
	g.nodes = append(g.nodes, forestNode{node32(int32(cut.col), cut.threshold, cut.missLeft), cut.gain})
	mid := g.partition(rows, cut)
	left := g.node(rows[:mid], depth+1)
	right := g.node(rows[mid:], depth+1)
	g.nodes[at].left, g.nodes[at].right = left, right
	return int32(at - g.firstNode)
}

// measure sums the rows and reports whether their targets differ.
func (g *forestGrower) measure(rows []uint32) bool {
	a := &g.whole
	a.clear()
	near := g.near[:len(rows)]
	for i, r := range rows {
		c := g.s.cells[r]
		near[i] = c
		a.g += c.g
		a.hc += c.hc
	}
	if g.s.classes > 0 {
		first, varied := g.s.class[rows[0]], false
		for i, r := range rows {
			c := g.s.class[r]
			a.by[c] += near[i].hc
			varied = varied || c != first
		}
		return varied
	}
	lo, hi := g.s.y[rows[0]], g.s.y[rows[0]]
	for _, r := range rows[1:] {
		y := g.s.y[r]
		if y < lo {
			lo = y
		}
		if y > hi {
			hi = y
		}
	}
	g.lo, g.hi = lo, hi
	return lo < hi
}

// leaf appends the leaf of the rows measured last.
func (g *forestGrower) leaf(rows []uint32) int32 {
	at := ^int32((len(g.leaves) - g.firstLeaf) / g.s.outputs)
	f := &g.s.fixed
	// At least one unit: all rows of a bootstrap sample may have weights below it.
	total := max(1, float64(g.whole.hc>>f.countBits))
	if g.s.classes > 0 {
		for _, hc := range g.whole.by {
			g.leaves = append(g.leaves, float64(hc>>f.countBits)/total)
		}
		return at
	}
	mean := g.s.center + float64(g.whole.g)*f.perG/(total*f.perH)
	mean = max(g.lo, min(g.hi, mean)) // rounding must not leave the range of the targets
	variance, weight := 0.0, 0.0
	if g.lo < g.hi {
		for _, r := range rows {
			w, d := g.s.weight(r), g.s.y[r]-mean
			variance += w * d * d
			weight += w
		}
		variance /= weight
	}
	g.leaves = append(g.leaves, mean, variance)
	return at
}

// best draws columns until MaxFeatures of them are splittable, and returns the best
// cut.
func (g *forestGrower) best(rows []uint32) forestCut {
	best := forestCut{col: -1}
	tried := 0
	for i := 0; i < len(g.order) && tried < g.o.MaxFeatures; i++ {
		if g.o.MaxFeatures < len(g.order) {
			j := i + g.src.IntN(len(g.order)-i)
			g.order[i], g.order[j] = g.order[j], g.order[i]
		}
		var cut forestCut
		var ok bool
		if g.o.RandomCuts {
			cut, ok = g.random(rows, g.order[i])
		} else {
			cut, ok = g.sharpest(rows, g.order[i])
		}
		if !ok {
			continue // constant in these rows
		}
		tried++
		if cut.col >= 0 && (best.col < 0 || cut.gain > best.gain*(1+tie)) {
			best = cut
		}
	}
	return best
}

// random cuts a column at a random value of the rows' range. It returns false if all
// values are equal.
func (g *forestGrower) random(rows []uint32, col int) (forestCut, bool) {
	lo, hi, missing := g.span(rows, col)
	var cut int64
	switch {
	case lo < hi:
		// In [lo, hi): the largest value always goes right.
		a, b, u := value(lo), value(hi), g.src.Float64()
		cut = max(lo, min(hi-1, key(a*(1-u)+b*u)))
	case lo == hi && missing > 0:
		cut = missingKey - 1 // separates values from missing values
	default:
		return forestCut{}, false
	}
	g.left.clear()
	g.miss.clear()
	keys, near := g.keys[:len(rows)], g.near[:len(rows)]
	if g.s.classes == 0 {
		// Branch-free: the side of a row is unpredictable.
		var sg, shc int64
		for i, k := range keys {
			left := -int64(bit(k <= cut))
			sg += near[i].g & left
			shc += near[i].hc & left
		}
		g.left.g, g.left.hc = sg, shc
	} else {
		for i, k := range keys {
			hc := near[i].hc & -int64(bit(k <= cut))
			g.left.by[g.s.class[rows[i]]] += hc
			g.left.hc += hc
		}
	}
	if missing > 0 {
		for i, k := range keys {
			if k == missingKey {
				g.miss.g += near[i].g
				g.miss.hc += near[i].hc
				if g.s.classes > 0 {
					g.miss.by[g.s.class[rows[i]]] += near[i].hc
				}
			}
		}
	}
	threshold := math.MaxFloat64
	if cut != missingKey-1 {
		threshold = value(cut)
	}
	return g.sides(forestCut{col: col, threshold: threshold}), true
}

// span collects a column's keys and returns the smallest, the largest and the number
// of missing values.
func (g *forestGrower) span(rows []uint32, col int) (lo, hi int64, missing int) {
	from, keys := g.s.keys[col], g.keys[:len(rows)]
	lo, hi = math.MaxInt64, math.MinInt64
	if !g.s.missing[col] {
		for i, r := range rows {
			k := from[r]
			keys[i] = k
			lo, hi = min(lo, k), max(hi, k)
		}
		return lo, hi, 0
	}
	for i, r := range rows {
		k := from[r]
		keys[i] = k
		if k == missingKey {
			missing++
			continue
		}
		lo, hi = min(lo, k), max(hi, k)
	}
	return lo, hi, missing
}

// sides scores the cut with the sums in g.left and g.miss, with missing values on
// the better side. col is -1 if either side would be too small.
func (g *forestGrower) sides(cut forestCut) forestCut {
	out := forestCut{col: -1}
	missing := g.miss.hc != 0
	if gain, ok := g.gain(); ok {
		out = cut
		out.gain = gain
		// Without missing values in training, they go to the heavier side.
		f := &g.s.fixed
		out.missLeft = !missing && f.hess(g.left.hc) >= (0.5-tie)*f.hess(g.whole.hc)
	}
	if !missing {
		return out
	}
	g.left.add(&g.miss)
	if gain, ok := g.gain(); ok && (out.col < 0 || gain > out.gain*(1+tie)) {
		out = cut
		out.gain, out.missLeft = gain, true
	}
	return out
}

// gain returns the weighted decrease of impurity (squared error or Gini) by
// splitting off g.left. For regression it is p q (m - n)^2 / (p + q) with means m,
// n, which does not cancel for targets far from zero. It returns false if a side is
// too small.
func (g *forestGrower) gain() (float64, bool) {
	f := &g.s.fixed
	left, whole := g.left.hc, g.whole.hc
	ln, n := f.count(left), f.count(whole)
	if least := int64(g.o.MinLeaf); ln < least || n-ln < least {
		return 0, false
	}
	shift := f.countBits & 63
	p, q := float64(left>>shift), float64((whole-left)>>shift)
	if p <= 0 || q <= 0 {
		return 0, false
	}
	if g.s.classes == 0 {
		d := meanDifference(float64(g.left.g), p, float64(g.whole.g-g.left.g), q, n)
		return d * d * (p * q / (p + q)), true
	}
	sum := 0.0
	for k, hc := range g.left.by {
		d := meanDifference(float64(hc>>shift), p, float64((g.whole.by[k]-hc)>>shift), q, n)
		sum += d * d
	}
	return sum * (p * q / (p + q)), true
}

// meanDifference returns the difference of the means a/p and b/q of n rows in fixed
// point, or zero if it could be rounding error, so that useless cuts tie.
func meanDifference(a, p, b, q float64, n int64) float64 {
	a, b = a/p, b/q
	if d := a - b; math.Abs(d) > 1e-12*(math.Abs(a)+math.Abs(b))+float64(n)*(1/p+1/q) {
		return d
	}
	return 0
}

// sharpest returns the best cut of a column between bins. It returns false if all
// rows are in one bin.
func (g *forestGrower) sharpest(rows []uint32, col int) (forestCut, bool) {
	c := &g.s.bins.cols[col]
	if c.quad < 0 {
		return forestCut{}, false
	}
	g.histogram(rows, c)
	g.run.clear()
	g.miss.clear()
	if c.missing {
		g.take(&g.miss, len(c.upper))
	}
	best, some := forestCut{col: -1}, false
	for word := range g.filled {
		for set := g.filled[word]; set != 0; set &= set - 1 {
			b := word<<6 + bits.TrailingZeros64(set)
			if g.take(&g.run, b); g.run.hc == g.whole.hc {
				break // all rows are on the left
			}
			some = true
			g.left.set(&g.run)
			cut := g.sides(forestCut{col: col, threshold: c.upper[b], bin: uint8(b)})
			if cut.col >= 0 && (best.col < 0 || cut.gain > best.gain*(1+tie)) {
				best = cut
			}
		}
		g.filled[word] = 0
	}
	return best, some
}

// histogram sums the rows' cells by bin.
func (g *forestGrower) histogram(rows []uint32, c *column) {
	words, shift := g.s.bins.quads[c.quad].words, c.shift&31
	near := g.near[:len(rows)]
	for i, r := range rows {
		b := uint8(words[r] >> shift)
		p := &g.hist[b]
		p.g += near[i].g
		p.hc += near[i].hc
		g.filled[b>>6] |= 1 << (b & 63)
	}
	if k := g.s.classes; k > 0 {
		for i, r := range rows {
			b := int(uint8(words[r] >> shift))
			g.byBin[b*k+int(g.s.class[r])] += near[i].hc
		}
	}
}

// take moves a bin's sums from the histogram to to.
func (g *forestGrower) take(to *forestSums, b int) {
	g.filled[b>>6] &^= 1 << (b & 63)
	to.g += g.hist[b].g
	to.hc += g.hist[b].hc
	g.hist[b] = cell{}
	if k := g.s.classes; k > 0 {
		for i, hc := range g.byBin[b*k : (b+1)*k] {
			to.by[i] += hc
		}
		clear(g.byBin[b*k : (b+1)*k])
	}
}

// partition moves the rows that go left before the others and returns their number.
func (g *forestGrower) partition(rows []uint32, cut forestCut) int {
	left, right := 0, 0
	spare := g.spare[:len(rows)]
	if g.o.RandomCuts {
		keys, at := g.s.keys[cut.col], key(cut.threshold)
		missLeft := bit(cut.missLeft)
		for _, r := range rows {
			k := keys[r]
			toLeft := int(bit(k <= at) | bit(k == missingKey)&missLeft)
			rows[left], spare[right] = r, r
			left += toLeft
			right += 1 - toLeft
		}
	} else {
		c := &g.s.bins.cols[cut.col]
		side := g.s.bins.sides(c, cut.bin, cut.missLeft)
		words, shift := g.s.bins.quads[c.quad].words, c.shift&31
		for _, r := range rows {
			toLeft := int(side[uint8(words[r]>>shift)])
			rows[left], spare[right] = r, r
			left += toLeft
			right += 1 - toLeft
		}
	}
	copy(rows[left:], spare[:right])
	return left
}
