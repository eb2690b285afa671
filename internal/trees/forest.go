package trees

import (
	"fmt"
	"math"

	"github.com/autosched/autosched/internal/rng"
)

// ForestOptions configures [Forest] and [ClassForest]. A zero field means its
// default. RandomCuts without Bootstrap gives extremely randomised trees (Geurts,
// Ernst and Wehenkel 2006); Bootstrap without RandomCuts gives a random forest
// (Breiman 2001).
type ForestOptions struct {
	Trees       int  // default 100
	MinLeaf     int  // smallest number of rows of a leaf, regardless of weights; default 1
	MaxFeatures int  // columns tried per split; default all for regression, the square root for classes
	Bootstrap   bool // train each tree on a bootstrap sample of the rows
	RandomCuts  bool // try one random threshold per column instead of all
	Seed        uint64
	Workers     int // default GOMAXPROCS; the result does not depend on it
}

const maxTrees = 100_000

func (o ForestOptions) withDefaults(cols int, classes bool) ForestOptions {
	if o.Trees == 0 {
		o.Trees = 100
	}
	if o.MinLeaf == 0 {
		o.MinLeaf = 1
	}
	if o.MaxFeatures == 0 {
		o.MaxFeatures = cols
		if classes {
			o.MaxFeatures = max(1, int(math.Round(math.Sqrt(float64(cols)))))
		}
	}
	o.MaxFeatures = min(o.MaxFeatures, cols)
	o.Workers = workersOr(o.Workers)
	return o
}

func (o ForestOptions) check() error {
	switch {
	case o.Trees < 1 || o.Trees > maxTrees:
		return fmt.Errorf("trees: %d trees: want 1 to %d", o.Trees, maxTrees)
	case o.MinLeaf < 1:
		return fmt.Errorf("trees: %d rows per leaf: want at least 1", o.MinLeaf)
	case o.MaxFeatures < 1:
		return fmt.Errorf("trees: %d features per split: want at least 1", o.MaxFeatures)
	}
	return nil
}

// forest holds the trees of both kinds of forest.
type forest struct {
	features int
	outputs  int // numbers per leaf
	roots    []int32
	nodes    []node // children are indices into nodes; negative ones are leaves
	leaves   []float64
	gain     []float64
}

// leaf returns the values of a row's leaf.
func (f *forest) leaf(root int32, row []float64) []float64 {
	i := int(f.at(root, row)) * f.outputs
	return f.leaves[i : i+f.outputs]
}

// at returns the index of a row's leaf.
func (f *forest) at(root int32, row []float64) int32 {
	at := root
	for at >= 0 {
		n := &f.nodes[at]
		v := row[n.feature]
		if v <= n.threshold || (v != v && n.missing != 0) {
			at = n.left
		} else {
			at = n.right
		}
	}
	return ^at
}

// Features returns the number of columns of a row.
func (f *forest) Features() int { return f.features }

// Importance returns each feature's share of the impurity decrease by splits. The
// shares add up to 1, or are all 0 without splits.
func (f *forest) Importance() []float64 {
	out := make([]float64, len(f.gain))
	sum := 0.0
	for _, g := range f.gain {
		sum += g
	}
	if sum > 0 {
		for j, g := range f.gain {
			out[j] = g / sum
		}
	}
	return out
}

// ForestModel predicts a mean and its variance. It is safe for concurrent use.
type ForestModel struct{ forest }

// Forest trains a regression forest. weights may be nil. A row of weight 2 counts as
// two equal rows, except for MinLeaf and the bootstrap.
func Forest(x Matrix, y, weights []float64, o ForestOptions) (*ForestModel, error) {
	o = o.withDefaults(x.Cols, false)
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := check(x, y, weights); err != nil {
		return nil, err
	}
	f, err := growForest(x, y, weights, 0, o)
	if err != nil {
		return nil, err
	}
	return &ForestModel{*f}, nil
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
		l := f.leaf(root, row)
		d := l[0] - mean
		mean += d / float64(i+1)
		between += d * (l[0] - mean)
		within += l[1]
	}
	n := float64(len(f.roots))
	return mean, (between + within) / n
}

// ClassForestModel predicts class probabilities. It is safe for concurrent use.
type ClassForestModel struct{ forest }

// ClassForest trains a classification forest with Gini impurity; targets are 0 to
// classes-1.
func ClassForest(x Matrix, y, weights []float64, classes int, o ForestOptions) (*ClassForestModel, error) {
	o = o.withDefaults(x.Cols, true)
	if err := o.check(); err != nil {
		return nil, err
	}
	if classes < 2 || classes > maxClasses {
		return nil, fmt.Errorf("trees: %d classes: want 2 to %d", classes, maxClasses)
	}
	if err := check(x, y, weights); err != nil {
		return nil, err
	}
	if err := (&target{kind: Softmax, outputs: classes, y: y}).check(); err != nil {
		return nil, err
	}
	f, err := growForest(x, y, weights, classes, o)
	if err != nil {
		return nil, err
	}
	return &ClassForestModel{*f}, nil
}

// Predict writes the class probabilities to out: the mean class shares of the row's
// leaves.
func (f *ClassForestModel) Predict(row, out []float64) {
	if len(row) != f.features {
		panic(fmt.Sprintf("trees: a row of %d features for a forest of %d", len(row), f.features))
	}
	out = out[:f.outputs]
	clear(out)
	for _, root := range f.roots {
		for k, p := range f.leaf(root, row) {
			out[k] += p
		}
	}
	for k := range out {
		out[k] /= float64(len(f.roots))
	}
}

// PredictAll predicts every row of x; len(out) must be Rows*classes.
func (f *ClassForestModel) PredictAll(x Matrix, out []float64) {
	for i := range x.Rows {
		f.Predict(x.Row(i), out[i*f.outputs:(i+1)*f.outputs])
	}
}

// growForest grows trees concurrently and joins them in order. classes is 0 for
// regression.
func growForest(x Matrix, y, weights []float64, classes int, o ForestOptions) (*forest, error) {
	s := newForestSample(x, y, weights, classes, o)
	trees := make([]forestTree, o.Trees)
	growers := make([]*forestGrower, min(o.Workers, o.Trees))
	parallel(len(growers), o.Trees, func(w, i int) {
		if growers[w] == nil {
			growers[w] = newForestGrower(s, o)
		}
		g := growers[w]
		g.src = rng.Stream("trees forest", o.Seed, uint64(i))
		trees[i] = g.grow()
	})
	f := &forest{features: x.Cols, outputs: s.outputs, gain: make([]float64, x.Cols)}
	nodes, leaves := 0, 0
	for i := range trees {
		nodes += len(trees[i].nodes)
		leaves += len(trees[i].leaves)
	}
	if nodes > math.MaxInt32 || leaves/s.outputs > math.MaxInt32 {
		return nil, fmt.Errorf("trees: a forest of %d nodes: ask for fewer trees or more rows per leaf", nodes)
	}
	f.nodes, f.leaves = make([]node, 0, nodes), make([]float64, 0, leaves)
	f.roots = make([]int32, 0, o.Trees)
	for i := range trees {
		t := &trees[i]
		first, leaf := int32(len(f.nodes)), int32(len(f.leaves)/s.outputs)
		move := func(at int32) int32 {
			if at >= 0 {
				return at + first
			}
			return at - leaf
		}
		f.roots = append(f.roots, move(t.root))
		for _, n := range t.nodes {
			f.gain[n.feature] += n.gain
			n.left, n.right = move(n.left), move(n.right)
			f.nodes = append(f.nodes, n.node)
		}
		f.leaves = append(f.leaves, t.leaves...)
	}
	return f, nil
}
