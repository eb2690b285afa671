package durations

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/trees"
)

// Header is a model file's description of its model, in its first line, before the
// model itself as LightGBM text.
type Header struct {
	Format string `json:"format"` // headerFormat
	// Version identifies the model: a hash of its text.
	Version string `json:"version"`
	Trained Window `json:"trained"`
	// Lessons is how many questions about the trained window's jobs it learnt
	// from.
	Lessons int `json:"lessons"`
	// Held is the window after it that Scores are from, by kind of question.
	Held     Window           `json:"held_back"`
	Scores   map[string]Score `json:"scores"`
	Bounds   []float64        `json:"class_bounds_s"`
	Features []string         `json:"features"`
	Seed     uint64           `json:"seed"`
	// KeyShare is how much of a prediction is the survival estimate of the job's
	// key, where it has one; the rest is the trees'.
	KeyShare float64 `json:"key_share"`
}

// Window is jobs of a trace by submission, both ends included.
type Window struct {
	Trace string    `json:"trace,omitempty"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Jobs  int       `json:"jobs"`
}

const headerFormat = "autosched durations 1"

// maxModel bounds the size of a model: 100 rounds of 6 classes with 31 leaves
// are 2 MB.
const maxModel = 256 << 20

// Model is a classifier that was learnt and scored. It is read-only, and safe for
// many goroutines through Classifier.
type Model struct {
	Header
	text    []byte
	served  *trees.Served
	columns []int
}

// Classifier serves the model, to one goroutine.
func (m *Model) Classifier() Classifier { return &server{model: m} }

type server struct {
	model *Model
	row   []float64
}

func (s *server) Probabilities(dst, row []float64) {
	s.row = chosen(s.row, row, s.model.columns)
	if err := s.model.served.Predict(s.row, dst); err != nil {
		panic("durations: " + err.Error()) // the number of features was checked
	}
	hedge(dst, row, s.model.KeyShare)
	mask(dst, row[ranColumn])
}

// newModel serves a model text. Its features must be among Features, and its
// outputs the classes.
func newModel(text []byte) (*Model, error) {
	served, err := trees.Load(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if served.Outputs() != Classes {
		return nil, fmt.Errorf("the model has %d outputs; a duration model has one for each of the %d classes",
			served.Outputs(), Classes)
	}
	m := &Model{text: text, served: served}
	for _, name := range served.Names() {
		c := slices.Index(Features, name)
		if c < 0 {
			return nil, fmt.Errorf("feature_names: %q is no feature; train it anew with "+
				"'autosched forecast durations train'", name)
		}
		m.columns = append(m.columns, c)
	}
	if len(m.columns) != served.Features() {
		return nil, errors.New("feature_names: is missing: the model does not say which features its columns are")
	}
	sum := sha256.Sum256(text)
	m.Header = Header{Format: headerFormat, Version: hex.EncodeToString(sum[:8]), Features: served.Names()}
	for _, b := range Bounds {
		m.Bounds = append(m.Bounds, b.Seconds())
	}
	return m, nil
}

// Write writes the model file.
func (m *Model) Write(w io.Writer) error {
	head, err := json.Marshal(m.Header)
	if err != nil {
		return err
	}
	_, err = w.Write(slices.Concat(head, []byte("\n"), m.text))
	return err
}

// ReadModel reads the output of Write, or a bare LightGBM text of which the
// feature_names are among Features. Fields of the header that it does not know are
// ignored. The error names the fault.
func ReadModel(r io.Reader) (*Model, error) {
	br := bufio.NewReader(io.LimitReader(r, maxModel+1))
	var head Header
	bare := true
	if first, err := br.Peek(1); err == nil && first[0] == '{' {
		bare = false
		line, err := br.ReadBytes('\n')
		if err != nil {
			return nil, errors.New("durations: the header is cut short")
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return nil, fmt.Errorf("durations: header: %w", err)
		}
		if head.Format != headerFormat {
			return nil, fmt.Errorf("durations: header: format: %q is not %q", head.Format, headerFormat)
		}
	}
	text, err := io.ReadAll(br)
	if err != nil {
		return nil, fmt.Errorf("durations: %w", err)
	}
	if len(text) > maxModel {
		return nil, fmt.Errorf("durations: the model is larger than %d MiB", maxModel>>20)
	}
	m, err := newModel(text)
	if err != nil {
		return nil, fmt.Errorf("durations: model: %w", err)
	}
	if bare {
		return m, nil
	}
	switch {
	case head.Version != m.Version:
		return nil,
			fmt.Errorf("durations: header: version: %q is not that of the model below it (%q): the file was changed",
				head.Version, m.Version)
	case !slices.Equal(head.Features, m.Features):
		return nil, errors.New("durations: header: features: are not those of the model below it")
	case !slices.Equal(head.Bounds, m.Bounds):
		return nil, fmt.Errorf("durations: header: class_bounds_s: are %v, and this program's %v",
			head.Bounds, m.Bounds)
	case !(head.KeyShare >= 0 && head.KeyShare <= 1):
		return nil, fmt.Errorf("durations: header: key_share: %g is not between 0 and 1", head.KeyShare)
	}
	m.Header = head
	return m, nil
}
