package trees

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/autosched/autosched/internal/rng"
)

// ForestOptions configures [Forest].
type ForestOptions struct {
	Trees       int
	MinLeaf     int // smallest number of rows of a leaf
	MaxFeatures int // columns tried per split
	Seed        uint64
}

// maxTrees bounds the trees of an ensemble.
const maxTrees = 100_000

// ForestModel is a forest of extremely randomised regression trees (Geurts, Ernst and
// Wehenkel 2006): every split tries one random threshold per column. It predicts a
// mean and its variance, and is safe for concurrent use.
type ForestModel struct {
	features int
	roots    []int32
	nodes    []node // negative children are leaves, as the complement of their index
	leaves   []forestLeaf
}

// forestLeaf has the mean and the variance of its rows' targets.
type forestLeaf struct{ mean, variance float64 }

// Forest trains a forest on finite features.
func Forest(x Matrix, y []float64, o ForestOptions) (*ForestModel, error) {
	if o.Trees < 1 || o.Trees > maxTrees || o.MinLeaf < 1 || o.MaxFeatures < 1 {
		return nil, fmt.Errorf("trees: a forest of %d trees, %d rows per leaf and %d features per split: want at least 1 "+
			"each, and at most %d trees", o.Trees, o.MinLeaf, o.MaxFeatures, maxTrees)
	}
	if err := check(x, y, nil); err != nil {
		return nil, err
	}
	g := newForestGrower(x, y, o)
	for i, v := range x.Data {
		if v != v {
			return nil, fmt.Errorf("trees: row %d, column %d is missing: a forest takes none", i/x.Cols, i%x.Cols)
		}
	}
	for i := range o.Trees {
		g.src = rng.Stream("trees forest", o.Seed, uint64(i))
		for j := range g.order {
			g.order[j] = j
		}
		for r := range g.rows {
			g.rows[r] = uint32(r)
		}
		g.model.roots = append(g.model.roots, g.node(g.rows, 0))
	}
	return g.model, nil
}

// Predict returns the mean and variance of a row's target. By the law of total
// variance, the variance is that of the trees' means plus the mean variance within
// their leaves (Hutter et al. 2014, section 4.3.2).
func (f *ForestModel) Predict(row []float64) (mean, variance float64) {
	if len(row) != f.features {
		panic(fmt.Sprintf("trees: a row of %d features for a forest of %d", len(row), f.features))
	}
	// Welford's recurrence avoids cancellation for targets far from zero.
	between, within := 0.0, 0.0
	for i, root := range f.roots {
		l := f.leaves[f.at(root, row)]
		d := l.mean - mean
		mean += d / float64(i+1)
		between += d * (l.mean - mean)
		within += l.variance
	}
	n := float64(len(f.roots))
	return mean, (between + within) / n
}

// at returns the index of a row's leaf.
func (f *ForestModel) at(root int32, row []float64) int32 {
	at := root
	for at >= 0 {
		n := &f.nodes[at]
		at = n.child(!(row[n.feature] <= n.threshold))
	}
	return ^at
}

// key maps floats to integers in the same order, which are compared without branches.
func key(v float64) int64 {
	b := int64(math.Float64bits(v + 0)) // -0 becomes 0
	return b ^ int64(uint64(b>>63)>>1)
}

// value returns the float of a key.
func value(k int64) float64 { return math.Float64frombits(uint64(k ^ int64(uint64(k>>63)>>1))) }

// forestCut is a candidate split.
type forestCut struct {
	gain float64
	col  int   // -1 for none
	at   int64 // the largest key on the left
}

// forestGrower grows trees depth first, one after another. As in boosting, sums are in
// fixed point: exact in any order.
type forestGrower struct {
	model *ForestModel
	o     ForestOptions
	src   *rand.Rand

	y      []float64
	center float64
	perG   float64   // the unit of fixed-point numbers
	g      []int64   // by row: difference of the target from center
	keys   [][]int64 // by column

	rows  []uint32
	spare []uint32
	order []int // columns, shuffled as they are drawn

	// The current node: its rows' differences, their sum, and the range of the targets.
	near   []int64
	sum    int64
	lo, hi float64
	column []int64 // keys of its rows in one column
}

func newForestGrower(x Matrix, y []float64, o ForestOptions) *forestGrower {
	n := x.Rows
	g := &forestGrower{
		model: &ForestModel{features: x.Cols}, o: o, y: y, g: make([]int64, n), keys: make([][]int64, x.Cols),
		rows: make([]uint32, n), spare: make([]uint32, n), order: make([]int, x.Cols), near: make([]int64, n),
		column: make([]int64, n),
	}
	g.center = exactSum(n, func(i int) float64 { return y[i] }) / float64(n)
	most := 0.0
	for _, v := range y {
		most = max(most, math.Abs(v-g.center))
	}
	unit := scale(most, 62-bits.Len(uint(n)))
	g.perG = 1 / unit
	for i, v := range y {
		g.g[i] = int64(math.RoundToEven((v - g.center) * unit))
	}
	for j := range g.keys {
		g.keys[j] = make([]int64, n)
		for i := range n {
			g.keys[j][i] = key(x.Data[i*x.Cols+j])
		}
	}
	return g
}

// maxForestDepth bounds the recursion when cuts repeatedly split off single rows.
const maxForestDepth = 500

// node grows the subtree of rows and returns its index.
func (g *forestGrower) node(rows []uint32, depth int) int32 {
	g.measure(rows)
	if len(rows) < 2*g.o.MinLeaf || g.lo == g.hi || depth >= maxForestDepth {
		return g.leaf(rows)
	}
	cut := g.best(rows)
	if cut.col < 0 {
		return g.leaf(rows)
	}
	at := int32(len(g.model.nodes))
	g.model.nodes = append(g.model.nodes, node32(int32(cut.col), value(cut.at), false))
	mid := g.partition(rows, cut)
	left := g.node(rows[:mid], depth+1)
	right := g.node(rows[mid:], depth+1)
	g.model.nodes[at].left, g.model.nodes[at].right = left, right
	return at
}

// measure sums the rows and finds the range of their targets.
func (g *forestGrower) measure(rows []uint32) {
	g.sum, g.lo, g.hi = 0, g.y[rows[0]], g.y[rows[0]]
	for i, r := range rows {
		g.near[i] = g.g[r]
		g.sum += g.g[r]
		g.lo, g.hi = min(g.lo, g.y[r]), max(g.hi, g.y[r])
	}
}

// leaf appends the leaf of the rows measured last.
func (g *forestGrower) leaf(rows []uint32) int32 {
	n := float64(len(rows))
	mean := g.center + float64(g.sum)*g.perG/n
	mean = max(g.lo, min(g.hi, mean)) // rounding must not leave the range of the targets
	variance := 0.0
	if g.lo < g.hi {
		for _, r := range rows {
			d := g.y[r] - mean
			variance += d * d
		}
		variance /= n
	}
	g.model.leaves = append(g.model.leaves, forestLeaf{mean, variance})
	return ^int32(len(g.model.leaves) - 1)
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
		cut, ok := g.random(rows, g.order[i])
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

// random cuts a column at a random value of the rows' range; col is -1 if a side would
// be too small. It returns false if all values are equal.
func (g *forestGrower) random(rows []uint32, col int) (forestCut, bool) {
	from, keys := g.keys[col], g.column[:len(rows)]
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for i, r := range rows {
		keys[i] = from[r]
		lo, hi = min(lo, keys[i]), max(hi, keys[i])
	}
	if lo == hi {
		return forestCut{}, false
	}
	// In [lo, hi): the largest value always goes right.
	a, b, u := value(lo), value(hi), g.src.Float64()
	cut := forestCut{col: col, at: max(lo, min(hi-1, key(a*(1-u)+b*u)))}
	// Branch-free: the side of a row is unpredictable.
	var sum, count int64
	for i, k := range keys {
		left := int64(bit(k <= cut.at))
		sum += g.near[i] & -left
		count += left
	}
	rest := int64(len(rows)) - count
	if least := int64(g.o.MinLeaf); count < least || rest < least {
		cut.col = -1
		return cut, true
	}
	cut.gain = decrease(float64(sum), float64(count), float64(g.sum-sum), float64(rest))
	return cut, true
}

// decrease returns the decrease of the squared error by a split into p rows of sum a and
// q rows of sum b, in fixed point: p q (m - n)^2 / (p + q) with means m, n, which does
// not cancel for targets far from zero. A difference that could be rounding error is
// none, so that useless cuts tie.
func decrease(a, p, b, q float64) float64 {
	a, b = a/p, b/q
	d := a - b
	if !(math.Abs(d) > 1e-12*(math.Abs(a)+math.Abs(b))+(p+q)*(1/p+1/q)) {
		return 0
	}
	return d * d * (p * q / (p + q))
}

// partition moves the rows that go left before the others and returns their number.
func (g *forestGrower) partition(rows []uint32, cut forestCut) int {
	left, right := 0, 0
	spare, keys := g.spare[:len(rows)], g.keys[cut.col]
	for _, r := range rows {
		toLeft := int(bit(keys[r] <= cut.at))
		rows[left], spare[right] = r, r
		left += toLeft
		right += 1 - toLeft
	}
	copy(rows[left:], spare[:right])
	return left
}
