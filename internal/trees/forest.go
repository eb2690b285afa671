package trees

import (
	"fmt"
	"math"

	"github.com/autosched/autosched/internal/rng"
)

// ForestOptions say how to grow a forest. The zero value of a field means its
// default. RandomCuts without Bootstrap is extremely randomised trees (Geurts,
// Ernst and Wehenkel 2006); Bootstrap without RandomCuts is a random forest
// (Breiman 2001).
type ForestOptions struct {
	Trees       int  // default 100
	MinLeaf     int  // fewest rows of a leaf, whatever their weight; default 1
	MaxFeatures int  // columns tried at a split; default all, for classes the square root
	Bootstrap   bool // each tree sees a sample of the rows, drawn with replacement
	RandomCuts  bool // try one random threshold per column instead of the best one
	Seed        uint64
	Workers     int // default: all processors; the result does not depend on it
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

// forest is what both kinds share.
type forest struct {
	features int
	outputs  int // numbers per leaf
	roots    []int32
	nodes    []node // children are indices into nodes; below zero: leaves
	leaves   []float64
	gain     []float64
}

// leaf is the numbers of the leaf that a row falls in.
func (f *forest) leaf(root int32, row []float64) []float64 {
	i := int(f.at(root, row)) * f.outputs
	return f.leaves[i : i+f.outputs]
}

// at is the number of that leaf.
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

// Features is how many columns a row must have.
func (f *forest) Features() int { return f.features }

// Importance is the share of the impurity that splits by each feature removed;
// the shares add up to one, or are all zero when nothing was split.
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

// ForestModel predicts a mean and how sure it is. It is safe for use by many
// goroutines.
type ForestModel struct{ forest }

// Forest trains a regression forest. weights may be nil. A row of weight 2
// counts as two equal rows, except for MinLeaf and for what Bootstrap draws.
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

// Predict is the expected target of a row, and its variance by the law of total
// variance: that of the trees' means plus the mean of the variance within their
// leaves (Hutter et al. 2014, section 4.3.2).
func (f *ForestModel) Predict(row []float64) (mean, variance float64) {
	if len(row) != f.features {
		panic(fmt.Sprintf("trees: a row of %d features for a forest of %d", len(row), f.features))
	}
	// Welford's recurrence: no cancellation for targets far from zero.
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

// ClassForestModel predicts the probabilities of classes. It is safe for use by
// many goroutines.
type ClassForestModel struct{ forest }

// ClassForest trains a forest for targets 0 to classes-1, on Gini impurity.
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

// Predict writes the classes' probabilities: the mean of their shares in the
// row's leaves.
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

// PredictAll predicts every row of x; out has Rows*classes numbers.
func (f *ClassForestModel) PredictAll(x Matrix, out []float64) {
	for i := range x.Rows {
		f.Predict(x.Row(i), out[i*f.outputs:(i+1)*f.outputs])
	}
}

// growForest grows the trees side by side and joins them in their order.
// classes is 0 for regression.
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
