package trees

import (
	"fmt"
)

// node splits by one feature: values up to the threshold go left. Negative children
// are leaves, as the complement of their index.
type node struct {
	threshold float64
	feature   int32
	left      int32
	right     int32
	missing   int32 // 1 if missing values go left
}

func node32(feature int32, threshold float64, missLeft bool) node {
	n := node{feature: feature, threshold: threshold}
	if missLeft {
		n.missing = 1
	}
	return n
}

func (n *node) missLeft() bool { return n.missing != 0 }

func (n *node) setChild(right bool, to int32) {
	if right {
		n.right = to
	} else {
		n.left = to
	}
}

func (n *node) child(right bool) int32 {
	if right {
		return n.right
	}
	return n.left
}

// nodeInfo holds what prediction does not need.
type nodeInfo struct {
	gain, value, weight float64
	count               int32
}

type tree struct {
	nodes    []node
	info     []nodeInfo
	leaves   []float64
	leafInfo []nodeInfo
	steps    []step // for leaves4
}

// step is a node in a form that is followed without branches. Every leaf has a step
// too, after those of the nodes, whose children are the step itself.
type step struct {
	threshold float64
	feature   int32
	missRight int32 // 1 if missing values go right
	child     [2]int32
}

// flatten sets the steps of a complete tree.
func (t *tree) flatten() {
	n := int32(len(t.nodes))
	t.steps = make([]step, 0, len(t.nodes)+len(t.leaves))
	at := func(child int32) int32 {
		if child < 0 {
			return n + ^child
		}
		return child
	}
	for i := range t.nodes {
		nd := &t.nodes[i]
		t.steps = append(t.steps, step{nd.threshold, nd.feature, 1 - nd.missing, [2]int32{at(nd.left), at(nd.right)}})
	}
	for i := range t.leaves {
		self := n + int32(i)
		t.steps = append(t.steps, step{child: [2]int32{self, self}})
	}
}

// leaves4 adds the leaves of four consecutive rows of x to out[0], out[stride] and
// so on. Interleaving four walks hides the latency of memory and comparisons.
func (t *tree) leaves4(x []float64, cols int, out []float64, stride int) {
	r0, r1, r2, r3 := x[:cols], x[cols:2*cols], x[2*cols:3*cols], x[3*cols:4*cols]
	n := int32(len(t.nodes))
	var a0, a1, a2, a3 int32
	for a0 < n || a1 < n || a2 < n || a3 < n {
		s0 := &t.steps[a0]
		a0 = s0.next(r0[s0.feature])
		s1 := &t.steps[a1]
		a1 = s1.next(r1[s1.feature])
		s2 := &t.steps[a2]
		a2 = s2.next(r2[s2.feature])
		s3 := &t.steps[a3]
		a3 = s3.next(r3[s3.feature])
	}
	out[0] += t.leaves[a0-n]
	out[stride] += t.leaves[a1-n]
	out[2*stride] += t.leaves[a2-n]
	out[3*stride] += t.leaves[a3-n]
}

// next returns the child for a value: the right one if it exceeds the threshold, or
// if it is missing and missing values go right.
func (s *step) next(v float64) int32 {
	return s.child[(bit(v > s.threshold)|bit(v != v)&s.missRight)&1]
}

// bit returns 1 for true; it compiles without a branch.
func bit(b bool) int32 {
	var v int32
	if b {
		v = 1
	}
	return v
}

// leaf returns the index of a row's leaf.
func (t *tree) leaf(row []float64) int32 {
	if len(t.nodes) == 0 {
		return 0
	}
	at := int32(0)
	for at >= 0 {
		n := &t.nodes[at]
		v := row[n.feature]
		if v <= n.threshold || (v != v && n.missing != 0) {
			at = n.left
		} else {
			at = n.right
		}
	}
	return ^at
}

// Model is a boosted ensemble. It is safe for concurrent use.
type Model struct {
	options  BoostOptions
	features int
	outputs  int
	// trees[r*outputs+k] is round r's tree for output k. The leaves of the first round
	// include the initial constant.
	trees []tree
	lo    []float64 // range of each feature in training, NaN if always missing
	hi    []float64
}

// Rounds returns the number of boosting rounds.
func (m *Model) Rounds() int { return len(m.trees) / m.outputs }

// Predict writes the prediction for a row to out: the expected target (L2), the
// median (L1), or class probabilities (Softmax). out has a value per output.
func (m *Model) Predict(row, out []float64) {
	m.predictRaw(row, out)
	m.link(out[:m.outputs])
}

// predictRaw writes the sum of the trees, without the link function (softmax).
func (m *Model) predictRaw(row, out []float64) {
	if len(row) != m.features {
		panic(fmt.Sprintf("trees: a row of %d features for a model of %d", len(row), m.features))
	}
	out = out[:m.outputs]
	clear(out)
	for i := range m.trees {
		t := &m.trees[i]
		out[i%m.outputs] += t.leaves[t.leaf(row)]
	}
}

// rowBlock is the number of rows that pass through a tree while it is in the cache.
const rowBlock = 64

func (m *Model) predictRawAll(x Matrix, out []float64, workers int) {
	if x.Cols != m.features {
		panic(fmt.Sprintf("trees: %d columns for a model of %d features", x.Cols, m.features))
	}
	k := m.outputs
	out = out[:x.Rows*k]
	parallel(workers, (x.Rows+rowBlock-1)/rowBlock, func(_, b int) {
		from, to := b*rowBlock, min(x.Rows, (b+1)*rowBlock)
		clear(out[from*k : to*k])
		for i := range m.trees {
			m.trees[i].addAll(x, from, to, out[i%k:], k)
		}
	})
}

// addAll adds the tree's leaves for rows [from, to) of x to out, where row i's value
// is at out[i*stride].
func (t *tree) addAll(x Matrix, from, to int, out []float64, stride int) {
	r := from
	for ; r+4 <= to; r += 4 {
		t.leaves4(x.Data[r*x.Cols:], x.Cols, out[r*stride:], stride)
	}
	for ; r < to; r++ {
		out[r*stride] += t.leaves[t.leaf(x.Row(r))]
	}
}

func (m *Model) link(out []float64) {
	if m.options.Objective == Softmax {
		softmax(out, out)
	}
}

// Importance returns, by feature, the total gain and the number of its splits.
func (m *Model) Importance() (gain []float64, splits []int) {
	gain, splits = make([]float64, m.features), make([]int, m.features)
	for i := range m.trees {
		t := &m.trees[i]
		for j := range t.nodes {
			gain[t.nodes[j].feature] += t.info[j].gain
			splits[t.nodes[j].feature]++
		}
	}
	return gain, splits
}
