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

// nodeInfo is the part of a node that prediction does not need.
type nodeInfo struct {
	gain, value, weight float64
	count               int32
}

type tree struct {
	nodes    []node
	info     []nodeInfo
	leaves   []float64
	leafInfo []nodeInfo
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
