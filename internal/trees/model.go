package trees

import (
	"fmt"
	"math"
)

// node divides by one feature: values up to the threshold go left. Children
// below zero are leaves, the complement of their index.
type node struct {
	threshold float64
	feature   int32
	left      int32
	right     int32
	missing   int32 // 1: missing values go left
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

// nodeInfo is what predicting does not need.
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

// leaf is the leaf that a row falls in.
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

// Model is a boosted ensemble. It is safe for use by many goroutines.
type Model struct {
	options  BoostOptions
	features int
	outputs  int
	// trees[r*outputs+k] is round r's tree for output k. The constant that
	// boosting starts from is in the first round's leaves.
	trees []tree
	lo    []float64 // range of each feature in training, NaN if always missing
	hi    []float64
}

// Features is how many columns a row must have.
func (m *Model) Features() int { return m.features }

// Outputs is how many numbers a prediction has: one, or one per class.
func (m *Model) Outputs() int { return m.outputs }

// Rounds is how many rounds of boosting are in the model.
func (m *Model) Rounds() int { return len(m.trees) / m.outputs }

// Options are those the model was trained with, defaults filled in.
func (m *Model) Options() BoostOptions { return m.options }

// Predict writes the prediction for a row: the expected target (L2, Poisson),
// median or quantile, or the classes' probabilities. out has Outputs numbers.
func (m *Model) Predict(row, out []float64) {
	m.PredictRaw(row, out)
	m.link(out[:m.outputs])
}

// PredictRaw writes the sum of the trees before the link (log, softmax).
func (m *Model) PredictRaw(row, out []float64) {
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

// PredictAll predicts every row of x; out has Rows*Outputs numbers.
func (m *Model) PredictAll(x Matrix, out []float64) {
	m.predictRawAll(x, out, 1)
	for i := range x.Rows {
		m.link(out[i*m.outputs : (i+1)*m.outputs])
	}
}

// rowBlock is how many rows go through a tree while it is in the cache.
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
			t := &m.trees[i]
			for r := from; r < to; r++ {
				out[r*k+i%k] += t.leaves[t.leaf(x.Row(r))]
			}
		}
	})
}

func (m *Model) link(out []float64) {
	switch m.options.Objective {
	case Poisson:
		out[0] = math.Exp(out[0])
	case Softmax:
		softmax(out, out)
	}
}

// Importance is what each feature contributed: the total gain of its splits,
// and how many there are.
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
