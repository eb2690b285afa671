package trees

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dmitryikh/leaves"
)

// Served is a model loaded from text, for prediction only. It is safe for concurrent
// use.
type Served struct {
	ensemble *leaves.Ensemble
	model    *Model
	names    []string
}

// Load reads LightGBM text, versions 2 and 3, of the objectives that are trained here,
// without categories, and with NaN as the missing value or none. The error names what is
// invalid or unsupported. The model is served through package leaves, which trusts its
// input: it receives the model written anew, not the file.
func Load(r io.Reader) (s *Served, err error) {
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	m, err := t.model()
	if err != nil {
		return nil, fmt.Errorf("trees: model: %w", err)
	}
	var text bytes.Buffer
	if err := m.WriteLightGBM(&text, nil); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("trees: model: cannot be served: %v", p)
		}
	}()
	ensemble, err := leaves.LGEnsembleFromReader(bufio.NewReader(&text), false)
	if err != nil {
		return nil, fmt.Errorf("trees: model: %w", err)
	}
	return &Served{ensemble, m, t.names}, nil
}

// Features returns the number of columns of a row.
func (s *Served) Features() int { return s.model.features }

// Names returns the features' names, nil if the file has none.
func (s *Served) Names() []string { return s.names }

// Outputs returns the number of values of a prediction: one, or one per class.
func (s *Served) Outputs() int { return s.model.outputs }

// Predict writes the prediction of the model's objective for a row to out: an
// expected target, a median, or probabilities. out has room for Outputs.
func (s *Served) Predict(row, out []float64) (err error) {
	if len(row) != s.model.features || len(out) < s.model.outputs {
		return fmt.Errorf("trees: %d features and room for %d numbers: the model has %d and %d", len(row), len(out),
			s.model.features, s.model.outputs)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("trees: predicting: %v", p)
		}
	}()
	if err := s.ensemble.Predict(row, 0, out); err != nil {
		return err
	}
	s.model.link(out[:s.model.outputs])
	return nil
}

// model converts a text to the form used in training.
func (t *text) model() (*Model, error) {
	name := strings.Join(t.objective[:min(1, len(t.objective))], "")
	objective := Objective(slices.Index(objectiveNames[:], name))
	if objective < 0 || objective != Softmax && len(t.objective) > 1 {
		return nil, fmt.Errorf("objective %q is not one of %s", clip(strings.Join(t.objective, " ")),
			strings.Join(objectiveNames[:], ", "))
	}
	if (objective == Softmax) != (t.classes > 1) {
		return nil, fmt.Errorf("objective %s with %d classes", name, t.classes)
	}
	m := &Model{features: t.features, outputs: t.classes, options: BoostOptions{Objective: objective}}
	for i := range t.trees {
		tree, err := t.trees[i].tree()
		if err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
		m.trees = append(m.trees, tree)
	}
	return m, nil
}

// tree converts the tree to the form used in training.
func (t *textTree) tree() (tree, error) {
	out := tree{leaves: t.leaves, leafInfo: make([]nodeInfo, len(t.leaves)), info: make([]nodeInfo, len(t.decision))}
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
	}
	return out, nil
}
