package trees

import (
	"math"
	"math/rand/v2"
)

// forestSample is the training set of a forest, by column.
type forestSample struct {
	rows, cols int
	classes    int         // 0: regression
	outputs    int         // numbers per leaf: mean and variance, or a share per class
	values     [][]float64 // by column
	y, w       []float64
	class      []int32
	positive   []uint32
	bins       *bins // unless cuts are random
	most       int   // bins of the widest column
}

func newForestSample(x Matrix, y, weights []float64, classes int, o ForestOptions) *forestSample {
	s := &forestSample{rows: x.Rows, cols: x.Cols, classes: classes, y: y, w: weights, outputs: 2}
	s.positive = positive(x.Rows, weights)
	if classes > 0 {
		s.outputs = classes
		s.class = make([]int32, x.Rows)
		for i, v := range y {
			s.class[i] = int32(v)
		}
	}
	if o.RandomCuts {
		all := make([]float64, x.Rows*x.Cols)
		s.values = make([][]float64, x.Cols)
		for j := range s.values {
			c := all[j*x.Rows : (j+1)*x.Rows]
			for i := range c {
				c[i] = x.Data[i*x.Cols+j]
			}
			s.values[j] = c
		}
	} else {
		s.bins = binned(x, s.positive, maxBins, o.Workers)
		for j := range s.bins.cols {
			s.most = max(s.most, s.bins.cols[j].size())
		}
	}
	return s
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

// sums of a set of rows: for regression of weight and weighted target, for
// classes of the weight in each.
type forestSums struct {
	n    int
	w, s float64
	by   []float64
}

func (a *forestSums) clear() {
	a.n, a.w, a.s = 0, 0, 0
	clear(a.by)
}

// forestCut is a candidate split.
type forestCut struct {
	gain      float64
	col       int // -1: none
	threshold float64
	bin       uint8
	missLeft  bool
}

type forestGrower struct {
	s     *forestSample
	o     ForestOptions
	src   *rand.Rand
	rows  []uint32
	spare []uint32
	order []int // columns, shuffled as they are drawn
	tree  forestTree

	whole, left, right, miss forestSums
	hist                     []float64 // regression: weight and sum by bin; classes: weights by bin
	counts                   []int32
	mean                     float64 // of the node, subtracted from targets
}

func newForestGrower(s *forestSample, o ForestOptions) *forestGrower {
	g := &forestGrower{s: s, o: o, order: make([]int, s.cols)}
	for _, a := range []*forestSums{&g.whole, &g.left, &g.right, &g.miss} {
		a.by = make([]float64, s.classes)
	}
	g.spare = make([]uint32, len(s.positive))
	g.rows = make([]uint32, len(s.positive))
	g.hist = make([]float64, s.most*max(2, s.classes))
	g.counts = make([]int32, s.most)
	return g
}

func (g *forestGrower) weight(r uint32) float64 {
	if g.s.w == nil {
		return 1
	}
	return g.s.w[r]
}

func (g *forestGrower) grow() forestTree {
	g.tree = forestTree{}
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
	g.tree.root = g.node(g.rows)
	return g.tree
}

// node grows the subtree of some rows and returns its index. The depth is
// bounded: see maxForestDepth.
func (g *forestGrower) node(rows []uint32) int32 { return g.nodeAt(rows, 0) }

// maxForestDepth bounds the recursion where cuts keep splitting off single
// rows.
const maxForestDepth = 500

func (g *forestGrower) nodeAt(rows []uint32, depth int) int32 {
	impurity := g.measure(rows)
	if len(rows) < 2*g.o.MinLeaf || impurity <= 0 || depth >= maxForestDepth {
		return g.leaf(rows)
	}
	cut := g.best(rows)
	if cut.col < 0 {
		return g.leaf(rows)
	}
	at := int32(len(g.tree.nodes))
	g.tree.nodes = append(g.tree.nodes, forestNode{node32(int32(cut.col), cut.threshold, cut.missLeft), cut.gain})
	mid := g.partition(rows, cut)
	left := g.nodeAt(rows[:mid], depth+1)
	right := g.nodeAt(rows[mid:], depth+1)
	g.tree.nodes[at].left, g.tree.nodes[at].right = left, right
	return at
}

// measure sums the rows and returns their impurity times weight, zero if all
// targets are equal.
func (g *forestGrower) measure(rows []uint32) float64 {
	a := &g.whole
	a.clear()
	a.n = len(rows)
	if g.s.classes > 0 {
		for _, r := range rows {
			a.by[g.s.class[r]] += g.weight(r)
		}
		for _, c := range a.by {
			a.w += c
		}
		return a.w - g.score(a)
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		w, y := g.weight(r), g.s.y[r]
		a.w += w
		a.s += w * y
		lo, hi = min(lo, y), max(hi, y)
	}
	g.mean = max(lo, min(hi, a.s/a.w))
	a.s = 0
	for _, r := range rows {
		a.s += g.weight(r) * (g.s.y[r] - g.mean)
	}
	return hi - lo
}

// score is what the impurity falls by when the rows are told apart from others,
// up to a constant.
func (g *forestGrower) score(a *forestSums) float64 {
	if a.w <= 0 {
		return 0
	}
	if g.s.classes == 0 {
		return a.s * a.s / a.w
	}
	sum := 0.0
	for _, c := range a.by {
		sum += c * c
	}
	return sum / a.w
}

func (g *forestGrower) leaf(rows []uint32) int32 {
	at := ^int32(len(g.tree.leaves) / g.s.outputs)
	if g.s.classes > 0 {
		for _, c := range g.whole.by {
			g.tree.leaves = append(g.tree.leaves, c/g.whole.w)
		}
		return at
	}
	variance := 0.0
	for _, r := range rows {
		d := g.s.y[r] - g.mean
		variance += g.weight(r) * d * d
	}
	g.tree.leaves = append(g.tree.leaves, g.mean, variance/g.whole.w)
	return at
}

// best draws columns until MaxFeatures of them could be split, and returns the
// best of their cuts.
func (g *forestGrower) best(rows []uint32) forestCut {
	best := forestCut{col: -1}
	tried := 0
	for i := 0; i < len(g.order) && tried < g.o.MaxFeatures; i++ {
		j := i + g.src.IntN(len(g.order)-i)
		g.order[i], g.order[j] = g.order[j], g.order[i]
		var cut forestCut
		var ok bool
		if g.o.RandomCuts {
			cut, ok = g.random(rows, g.order[i])
		} else {
			cut, ok = g.sharpest(rows, g.order[i])
		}
		if !ok {
			continue // constant here
		}
		tried++
		if cut.col >= 0 && (best.col < 0 || cut.gain > best.gain) {
			best = cut
		}
	}
	return best
}

// random cuts a column between its least and largest value among the rows.
func (g *forestGrower) random(rows []uint32, col int) (forestCut, bool) {
	values := g.s.values[col]
	lo, hi, missing := math.Inf(1), math.Inf(-1), 0
	for _, r := range rows {
		v := values[r]
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
		if v != v {
			missing++
		}
	}
	none := forestCut{col: -1}
	if missing == len(rows) {
		return none, false
	}
	threshold := lo
	switch {
	case lo < hi:
		// In [lo, hi): the largest value always goes right.
		if t := lo + (hi-lo)*g.src.Float64(); t >= lo && t < hi {
			threshold = t
		}
	case missing > 0:
		threshold = math.MaxFloat64 // values against missing ones
	default:
		return none, false
	}
	g.left.clear()
	g.miss.clear()
	if g.s.classes > 0 {
		for _, r := range rows {
			switch v := values[r]; {
			case v <= threshold:
				g.left.n++
				g.left.by[g.s.class[r]] += g.weight(r)
			case v != v:
				g.miss.by[g.s.class[r]] += g.weight(r)
			}
		}
		g.left.total()
		g.miss.total()
	} else {
		for _, r := range rows {
			switch v := values[r]; {
			case v <= threshold:
				w := g.weight(r)
				g.left.n++
				g.left.w += w
				g.left.s += w * (g.s.y[r] - g.mean)
			case v != v:
				w := g.weight(r)
				g.miss.w += w
				g.miss.s += w * (g.s.y[r] - g.mean)
			}
		}
	}
	g.miss.n = missing
	return g.sides(forestCut{col: col, threshold: threshold}, lo < hi), true
}

func (a *forestSums) total() {
	for _, c := range a.by {
		a.w += c
	}
}

// sides scores a cut with the sums in g.left and g.miss, the missing values on
// the better side; col is -1 if either side would be too small.
func (g *forestGrower) sides(cut forestCut, both bool) forestCut {
	gain, ok := g.gain()
	out := forestCut{col: -1}
	if ok {
		out = cut
		out.gain = gain
		out.missLeft = g.miss.n == 0 && 2*g.left.n >= g.whole.n
	}
	if g.miss.n == 0 || !both {
		return out
	}
	g.left.add(&g.miss)
	if gain, ok := g.gain(); ok && (out.col < 0 || gain > out.gain) {
		out = cut
		out.gain, out.missLeft = gain, true
	}
	return out
}

func (a *forestSums) add(b *forestSums) {
	a.n += b.n
	a.w += b.w
	a.s += b.s
	for k := range a.by {
		a.by[k] += b.by[k]
	}
}

// gain is the impurity removed by putting g.left apart.
func (g *forestGrower) gain() (float64, bool) {
	l, r, all := &g.left, &g.right, &g.whole
	r.n, r.w, r.s = all.n-l.n, all.w-l.w, all.s-l.s
	if l.n < g.o.MinLeaf || r.n < g.o.MinLeaf || !(l.w > 0) || !(r.w > 0) {
		return 0, false
	}
	for k := range r.by {
		r.by[k] = all.by[k] - l.by[k]
	}
	return g.score(l) + g.score(r) - g.score(all), true
}

// sharpest finds the best cut of a column between its bins.
func (g *forestGrower) sharpest(rows []uint32, col int) (forestCut, bool) {
	c := &g.s.bins.cols[col]
	missBin := -1
	if c.missing {
		missBin = len(c.upper)
	}
	lo, hi, missing := 255, -1, 0
	for _, r := range rows {
		b := int(c.of[r])
		if b == missBin {
			missing++
			continue
		}
		lo, hi = min(lo, b), max(hi, b)
	}
	none := forestCut{col: -1}
	if hi < 0 || (lo == hi && missing == 0) {
		return none, false
	}
	k := max(2, g.s.classes)
	clear(g.hist[lo*k : (hi+1)*k])
	clear(g.counts[lo : hi+1])
	g.miss.clear()
	g.miss.n = missing
	if g.s.classes > 0 {
		for _, r := range rows {
			b := int(c.of[r])
			if b == missBin {
				g.miss.by[g.s.class[r]] += g.weight(r)
				continue
			}
			g.counts[b]++
			g.hist[b*k+int(g.s.class[r])] += g.weight(r)
		}
		g.miss.total()
	} else {
		for _, r := range rows {
			b := int(c.of[r])
			w := g.weight(r)
			d := w * (g.s.y[r] - g.mean)
			if b == missBin {
				g.miss.w += w
				g.miss.s += d
				continue
			}
			g.counts[b]++
			g.hist[2*b] += w
			g.hist[2*b+1] += d
		}
	}
	best := none
	var sum forestSums
	sum.by = make([]float64, g.s.classes)
	for b := lo; b <= hi; b++ {
		if g.counts[b] == 0 {
			continue
		}
		sum.n += int(g.counts[b])
		if g.s.classes > 0 {
			for i := range sum.by {
				sum.by[i] += g.hist[b*k+i]
				sum.w += g.hist[b*k+i]
			}
		} else {
			sum.w += g.hist[2*b]
			sum.s += g.hist[2*b+1]
		}
		if b == hi && missing == 0 {
			break
		}
		g.left.n, g.left.w, g.left.s = sum.n, sum.w, sum.s
		copy(g.left.by, sum.by)
		cut := g.sides(forestCut{col: col, threshold: c.upper[b], bin: uint8(b)}, b < hi)
		if cut.col >= 0 && (best.col < 0 || cut.gain > best.gain) {
			best = cut
		}
	}
	return best, true
}

// partition moves the rows that go left before the others.
func (g *forestGrower) partition(rows []uint32, cut forestCut) int {
	n, spare := 0, g.spare[:0]
	if g.o.RandomCuts {
		values := g.s.values[cut.col]
		for _, r := range rows {
			if v := values[r]; v <= cut.threshold || (v != v && cut.missLeft) {
				rows[n] = r
				n++
			} else {
				spare = append(spare, r)
			}
		}
	} else {
		c := &g.s.bins.cols[cut.col]
		for _, r := range rows {
			b := c.of[r]
			left := b <= cut.bin
			if c.missing && int(b) == len(c.upper) {
				left = cut.missLeft
			}
			if left {
				rows[n] = r
				n++
			} else {
				spare = append(spare, r)
			}
		}
	}
	copy(rows[n:], spare)
	return n
}
