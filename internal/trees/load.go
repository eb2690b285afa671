package trees

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/dmitryikh/leaves"
)

// Served is a model loaded from text, for prediction only. It is safe for concurrent
// use.
type Served struct {
	ensemble *leaves.Ensemble
	features int
	outputs  int
	rounds   int
	names    []string
	link     func(out []float64)
	// categories maps features split by category sets to the missing type of their
	// nodes.
	categories map[int]int
}

// Load reads LightGBM text, version 3, with numerical and categorical splits, as
// written by WriteLightGBM or LightGBM. It checks the whole file first; the error
// names what is invalid or unsupported.
func Load(r io.Reader) (s *Served, err error) {
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	s = &Served{
		features: t.features, outputs: t.classes, rounds: len(t.trees) / t.classes,
		names: t.names, categories: map[int]int{},
	}
	if s.link, err = t.link(); err != nil {
		return nil, err
	}
	for i := range t.trees {
		if err := s.note(&t.trees[i]); err != nil {
			return nil, fmt.Errorf("trees: model: tree %d: %w", i, err)
		}
	}
	// The library trusts its input: it receives the parsed model written anew, not the
	// file.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("trees: model: cannot be served: %v", p)
		}
	}()
	s.ensemble, err = leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(t.plain())), false)
	if err != nil {
		return nil, fmt.Errorf("trees: model: %w", err)
	}
	return s, nil
}

// note records the features with categories and their missing type.
func (s *Served) note(t *textTree) error {
	for i, d := range t.decision {
		kind := -1 // -1 for a threshold
		if d&decisionCategory != 0 {
			kind = d &^ (decisionCategory | decisionLeft)
		}
		j := t.feature[i]
		if known, ok := s.categories[j]; ok && known != kind {
			return fmt.Errorf("feature %d is split by category and by threshold, or has two missing types", j)
		}
		if kind >= 0 {
			s.categories[j] = kind
		}
	}
	return nil
}

// Features returns the number of columns of a row.
func (s *Served) Features() int { return s.features }

// Names returns the features' names, nil if the file has none.
func (s *Served) Names() []string { return s.names }

// Outputs returns the number of values of a prediction: one, or one per class.
func (s *Served) Outputs() int { return s.outputs }

// Rounds returns the number of boosting rounds.
func (s *Served) Rounds() int { return s.rounds }

// Predict writes the prediction of the model's objective for a row to out: an
// expected target, a quantile, or probabilities. len(out) must be Outputs.
func (s *Served) Predict(row, out []float64) error {
	if err := s.PredictRaw(row, out); err != nil {
		return err
	}
	s.link(out[:s.outputs])
	return nil
}

// PredictRaw writes the sum of the trees, without the link function.
func (s *Served) PredictRaw(row, out []float64) (err error) {
	if len(row) != s.features || len(out) < s.outputs {
		return fmt.Errorf("trees: %d features and room for %d numbers: the model has %d and %d", len(row), len(out),
			s.features, s.outputs)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("trees: predicting: %v", p)
		}
	}()
	if len(s.categories) > 0 {
		row = s.sane(row)
	}
	return s.ensemble.Predict(row, 0, out)
}

// sane returns a row whose categories have the same meaning on every machine:
// LightGBM sends missing, negative and overly large ones right, or treats missing as
// category 0 if training had no missing values.
func (s *Served) sane(row []float64) []float64 {
	row = append([]float64(nil), row...)
	for j, missing := range s.categories {
		switch v := row[j]; {
		case v != v && missing != missingNaN:
			row[j] = 0
		case v != v || v <= -1 || v > math.MaxInt32:
			row[j] = -1
		}
	}
	return row
}

// link returns the objective's transformation of raw scores.
func (t *text) link() (func(out []float64), error) {
	each := func(f func(float64) float64) func([]float64) {
		return func(out []float64) {
			for k := range out {
				out[k] = f(out[k])
			}
		}
	}
	identity := func([]float64) {}
	name, params := "", map[string]string{}
	if len(t.objective) > 0 {
		name = t.objective[0]
		for _, p := range t.objective[1:] {
			k, v, _ := strings.Cut(p, ":")
			params[k] = v
		}
	}
	sigmoid := 1.0
	if s, ok := params["sigmoid"]; ok {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("trees: model: objective %s: sigmoid is %q", name, clip(s))
		}
		sigmoid = v
	}
	logistic := each(func(v float64) float64 { return 1 / (1 + math.Exp(-sigmoid*v)) })
	var link func([]float64)
	switch name {
	case "regression", "regression_l2":
		link = identity
		if _, ok := params["sqrt"]; ok {
			link = each(func(v float64) float64 { return math.Copysign(v*v, v) })
		}
	case "", "custom", "none", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg":
		link = identity
	case "poisson", "gamma", "tweedie":
		link = each(math.Exp)
	case "binary", "multiclassova", "cross_entropy":
		link = logistic
	case "multiclass":
		link = func(out []float64) { softmax(out, out) }
	default:
		return nil, fmt.Errorf("trees: model: objective %q cannot be served", clip(name))
	}
	if v, ok := params["num_class"]; ok && v != strconv.Itoa(t.classes) {
		return nil, fmt.Errorf("trees: model: objective says %q classes, num_class %d", clip(v), t.classes)
	}
	if t.average && t.version == "v2" {
		link = identity // LightGBM 2 averaged transformed scores
	}
	return link, nil
}

// plain returns the model as the minimal text that the library reads.
func (t *text) plain() []byte {
	var b bytes.Buffer
	b.WriteString("tree\n")
	field(&b, "version", "v3")
	field(&b, "num_class", strconv.Itoa(t.classes))
	field(&b, "num_tree_per_iteration", strconv.Itoa(t.classes))
	field(&b, "max_feature_idx", strconv.Itoa(t.features-1))
	if t.average {
		b.WriteString("average_output\n")
	}
	field(&b, "tree_sizes", list(len(t.trees), func(int) string { return "0" }))
	b.WriteString("\n")
	for i := range t.trees {
		t.trees[i].plain(&b)
	}
	return b.Bytes()
}

func (t *textTree) plain(b *bytes.Buffer) {
	field(b, "num_leaves", strconv.Itoa(len(t.leaves)))
	field(b, "num_cat", strconv.Itoa(t.categories))
	ints := func(name string, v []int) {
		field(b, name, list(len(v), func(i int) string { return strconv.Itoa(v[i]) }))
	}
	floats := func(name string, v []float64) {
		field(b, name, list(len(v), func(i int) string { return number(v[i]) }))
	}
	if len(t.left) > 0 {
		ints("split_feature", t.feature)
		floats("threshold", t.threshold)
		ints("decision_type", t.decision)
		ints("left_child", t.left)
		ints("right_child", t.right)
		if t.categories > 0 {
			ints("cat_boundaries", t.catBound)
			ints("cat_threshold", t.catSet)
		}
	}
	floats("leaf_value", t.leaves)
	b.WriteString("\n")
}
