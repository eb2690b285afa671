package trees

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Read reads a model from text, to continue its training or to predict. Besides
// models written here it reads LightGBM models, versions 2 and 3, of the same objectives,
// without categories, and with NaN as the missing value. Training options come from the
// file's parameters, if present. The error names what is invalid or unsupported.
func Read(r io.Reader) (*Model, error) {
	m, _, err := read(r)
	return m, err
}

// read returns the model with the names of its features, nil if the file has none.
func read(r io.Reader) (_ *Model, names []string, err error) {
	t, err := parse(r)
	if err != nil {
		return nil, nil, err
	}
	m := &Model{features: t.features, outputs: t.classes, lo: t.lo, hi: t.hi}
	if m.options, err = t.options(); err != nil {
		return nil, nil, fmt.Errorf("trees: model: %w", err)
	}
	if m.lo == nil {
		m.lo, m.hi = make([]float64, t.features), make([]float64, t.features)
		for j := range m.lo {
			m.lo[j], m.hi[j] = math.NaN(), math.NaN()
		}
	}
	for i := range t.trees {
		tree, err := t.trees[i].tree()
		if err != nil {
			return nil, nil, fmt.Errorf("trees: model: tree %d: %w", i, err)
		}
		m.trees = append(m.trees, tree)
	}
	return m, t.names, nil
}

// options returns the training options in a file.
func (t *text) options() (BoostOptions, error) {
	var o BoostOptions
	name := ""
	if len(t.objective) > 0 {
		name = t.objective[0]
	}
	at := slices.Index(objectiveNames[:], name)
	o.Objective = Objective(at)
	if at < 0 || o.Objective != Softmax && len(t.objective) > 1 {
		return o, fmt.Errorf("objective %q is not one of %s", clip(strings.Join(t.objective, " ")),
			strings.Join(objectiveNames[:], ", "))
	}
	if o.Objective == Softmax {
		o.Classes = t.classes
	}
	if (o.Objective == Softmax) != (t.classes > 1) {
		return o, fmt.Errorf("objective %s with %d classes", name, t.classes)
	}
	for param, dst := range map[string]*int{
		"num_iterations": &o.Rounds, "num_leaves": &o.Leaves, "min_data_in_leaf": &o.MinLeaf, "max_bin": &o.Bins,
	} {
		if v, err := strconv.Atoi(t.params[param]); err == nil {
			*dst = v
		}
	}
	for param, dst := range map[string]*float64{
		"learning_rate": &o.LearningRate, "lambda_l2": &o.L2,
		"bagging_fraction": &o.RowSample, "feature_fraction": &o.ColumnSample,
	} {
		if v, err := strconv.ParseFloat(t.params[param], 64); err == nil {
			*dst = v
		}
	}
	if v, err := strconv.ParseUint(t.params["seed"], 10, 64); err == nil {
		o.Seed = v
	}
	o.Bins = min(o.Bins, maxBins)
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return o, fmt.Errorf("parameters: %w", err)
	}
	return o, nil
}

// tree converts the tree to the form used in training.
func (t *textTree) tree() (tree, error) {
	out := tree{leaves: t.leaves}
	at := func(v []float64, i int) float64 {
		if v == nil {
			return 0
		}
		return v[i]
	}
	for i, d := range t.decision {
		missLeft := d&decisionLeft != 0
		switch d &^ decisionLeft {
		case missingNaN:
		case missingNone: // missing values count as zero
			missLeft = 0 <= t.threshold[i]
		default:
			return out, errors.New("zero as the missing value is not supported: train with zero_as_missing=false")
		}
		n := node32(int32(t.feature[i]), t.threshold[i], missLeft)
		n.left, n.right = int32(t.left[i]), int32(t.right[i])
		out.nodes = append(out.nodes, n)
		out.info = append(out.info, nodeInfo{at(t.gain, i), at(t.value, i), at(t.weight, i), int32(at(t.count, i))})
	}
	for i := range t.leaves {
		out.leafInfo = append(out.leafInfo, nodeInfo{weight: at(t.leafWeight, i), count: int32(at(t.leafCount, i))})
	}
	out.flatten()
	return out, nil
}
