package trees

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

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
	m, names, err := parse(r)
	if err != nil {
		return nil, err
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
	return &Served{ensemble, m, names}, nil
}

// Features returns the number of columns of a row.
func (s *Served) Features() int { return s.model.features }

// Names returns the features' names, empty if the file has none.
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
