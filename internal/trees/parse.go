package trees

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits of a model file, far above the models trained here: 600 trees of 31 leaves
// take 2 MB. Parsing takes about ten times the file's size in memory.
const (
	maxText       = 32 << 20
	maxLine       = 4 << 20
	maxFeatures   = 1 << 18
	maxModelTrees = 100_000
)

// parse reads a whole model file and returns the model and the names of its features, or the
// first error.
func parse(r io.Reader) (*Model, []string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return nil, nil, fmt.Errorf("trees: model: %w", err)
	}
	if len(data) > maxText {
		return nil, nil, fmt.Errorf("trees: model: longer than %d MiB", maxText>>20)
	}
	p := parser{rest: data}
	m, names, err := p.model()
	if p.long {
		err = fmt.Errorf("longer than %d MiB", maxLine>>20)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("trees: model: line %d: %w", max(1, p.line), err)
	}
	return m, names, nil
}

type parser struct {
	rest []byte
	line int
	long bool // a line was too long
}

// next returns the next line without surrounding space, or false at the end of the
// file and at a line that is too long.
func (p *parser) next() (string, bool) {
	if len(p.rest) == 0 || p.long {
		return "", false
	}
	p.line++
	line, rest, _ := bytes.Cut(p.rest, []byte{'\n'})
	p.rest = rest
	if p.long = len(line) > maxLine; p.long {
		return "", false
	}
	return strings.TrimSpace(string(line)), true
}

// fields holds the lines "name=value" up to a blank line.
type fields map[string]string

func (p *parser) fields(into fields) error {
	for {
		line, ok := p.next()
		if !ok || line == "" {
			return nil
		}
		name, value, _ := strings.Cut(line, "=")
		if _, twice := into[name]; twice {
			return fmt.Errorf("%q is given twice", clip(name))
		}
		into[name] = value
	}
}

// clip shortens quoted text from a file.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

func (f fields) text(name string) (string, error) {
	v, ok := f[name]
	if !ok {
		return "", fmt.Errorf("no field %s", name)
	}
	return v, nil
}

func (f fields) whole(name string, lo, hi int) (int, error) {
	s, err := f.text(name)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < lo || v > hi {
		return 0, fmt.Errorf("%s is %q: want a whole number from %d to %d", name, clip(s), lo, hi)
	}
	return v, nil
}

// wholes parses exactly n integers in [lo, hi].
func (f fields) wholes(name string, n, lo, hi int) ([]int, error) {
	parts, err := f.split(name, n)
	if err != nil {
		return nil, err
	}
	out := make([]int, n)
	for i, s := range parts {
		v, err := strconv.Atoi(s)
		if err != nil || v < lo || v > hi {
			return nil, fmt.Errorf("%s: number %d is %q: want a whole number from %d to %d", name, i+1, clip(s), lo, hi)
		}
		out[i] = v
	}
	return out, nil
}

func (f fields) numbers(name string, n int) ([]float64, error) {
	parts, err := f.split(name, n)
	if err != nil {
		return nil, err
	}
	out := make([]float64, n)
	for i, s := range parts {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s: number %d is %q: want a finite number", name, i+1, clip(s))
		}
		out[i] = v
	}
	return out, nil
}

func (f fields) split(name string, n int) ([]string, error) {
	s, err := f.text(name)
	if err != nil {
		return nil, err
	}
	// Count first, so that an invalid file cannot request much memory.
	if c := strings.Count(s, " ") + 1; c != n || s == "" {
		if s == "" {
			c = 0
		}
		return nil, fmt.Errorf("%s has %d numbers, want %d", name, c, n)
	}
	return strings.Split(s, " "), nil
}

func (p *parser) model() (*Model, []string, error) {
	first, _ := p.next()
	if first != "tree" {
		return nil, nil,
			errors.New(
				`the first line is not "tree": want a model that LightGBM saved as text (not JSON, pickle or XGBoost's formats)`)
	}
	head := fields{}
	if err := p.fields(head); err != nil {
		return nil, nil, err
	}
	m, n, err := head.model()
	if err != nil {
		return nil, nil, err
	}
	names := strings.Fields(head["feature_names"])
	if len(names) > 0 && len(names) != m.features {
		return nil, nil, fmt.Errorf("feature_names has %d names, max_feature_idx says %d", len(names), m.features)
	}
	for i := range n {
		tree, err := p.tree(i, m.features)
		if err != nil {
			return nil, nil, fmt.Errorf("tree %d: %w", i, err)
		}
		m.trees = append(m.trees, *tree)
	}
	for {
		line, ok := p.next()
		if !ok || line == "end of trees" {
			return m, names, nil
		}
		if line != "" {
			return nil, nil, fmt.Errorf("%q after the %d trees that tree_sizes lists", clip(line), n)
		}
	}
}

// model makes a model without trees of the fields before them, and returns the number of trees.
func (f fields) model() (*Model, int, error) {
	version, err := f.text("version")
	if err != nil {
		return nil, 0, err
	}
	switch version {
	case "v2", "v3": // identical in the parts read here
	case "v4":
		return nil, 0, errors.New("version v4 (LightGBM 4): only v3 can be served; train with LightGBM 3.x, or here")
	default:
		return nil, 0, fmt.Errorf("version %q: only v3 can be served", clip(version))
	}
	classes, err := f.whole("num_class", 1, maxClasses)
	if err != nil {
		return nil, 0, err
	}
	per, err := f.whole("num_tree_per_iteration", 1, maxClasses)
	if err != nil {
		return nil, 0, err
	}
	if per != classes {
		return nil, 0, fmt.Errorf("num_tree_per_iteration is %d and num_class %d: only equal ones can be served",
			per, classes)
	}
	last, err := f.whole("max_feature_idx", 0, maxFeatures-1)
	if err != nil {
		return nil, 0, err
	}
	if _, ok := f["average_output"]; ok {
		return nil, 0, errors.New("average_output: random forests cannot be served")
	}
	words := strings.Fields(f["objective"])
	name := strings.Join(words[:min(1, len(words))], "")
	objective := Objective(slices.Index(objectiveNames[:], name))
	if objective < 0 || objective != Softmax && len(words) > 1 {
		return nil, 0, fmt.Errorf("objective %q is not one of %s", clip(strings.Join(words, " ")),
			strings.Join(objectiveNames[:], ", "))
	}
	if (objective == Softmax) != (classes > 1) {
		return nil, 0, fmt.Errorf("objective %s with %d classes", name, classes)
	}
	sizes, err := f.text("tree_sizes")
	if err != nil {
		return nil, 0, err
	}
	n := len(strings.Fields(sizes))
	if n == 0 || n%classes != 0 || n > maxModelTrees {
		return nil, 0, fmt.Errorf("tree_sizes lists %d trees: want a multiple of num_class, %d, and at most %d",
			n, classes,
			maxModelTrees)
	}
	return &Model{features: last + 1, outputs: classes, options: BoostOptions{Objective: objective}}, n, nil
}

func (p *parser) tree(index, features int) (*tree, error) {
	line := ""
	for ok := true; line == ""; {
		if line, ok = p.next(); !ok {
			return nil, errors.New("the file ends before it")
		}
	}
	if line != "Tree="+strconv.Itoa(index) {
		return nil, fmt.Errorf("%q where Tree=%d should begin", clip(line), index)
	}
	f := fields{}
	if err := p.fields(f); err != nil {
		return nil, err
	}
	if v, ok := f["is_linear"]; ok && v != "0" {
		return nil, errors.New("is_linear: linear trees cannot be served; train without linear_tree")
	}
	n, err := f.whole("num_leaves", 1, 1<<24)
	if err != nil {
		return nil, err
	}
	if sets, err := f.whole("num_cat", 0, n); err != nil || sets > 0 {
		return nil, cmp.Or(err, errors.New("num_cat: category sets cannot be served; train with numeric features"))
	}
	t := &tree{leafInfo: make([]nodeInfo, n), info: make([]nodeInfo, n-1)}
	if t.leaves, err = f.numbers("leaf_value", n); err != nil || n == 1 {
		return t, err
	}
	return t, t.read(f, features)
}

// read reads the nodes of a tree of two leaves or more.
func (t *tree) read(f fields, features int) error {
	n := len(t.leaves)
	var feature, decision, left, right []int
	for _, l := range []struct {
		name   string
		dst    *[]int
		lo, hi int
	}{
		{"split_feature", &feature, 0, features - 1},
		{"decision_type", &decision, 0, decisionLeft | missingNaN},
		{"left_child", &left, -n, n - 2},
		{"right_child", &right, -n, n - 2},
	} {
		v, err := f.wholes(l.name, n-1, l.lo, l.hi)
		if err != nil {
			return err
		}
		*l.dst = v
	}
	threshold, err := f.numbers("threshold", n-1)
	if err != nil {
		return err
	}
	for i, d := range decision {
		missLeft := d&decisionLeft != 0
		switch d &^ decisionLeft {
		case missingNaN:
		case missingNone: // missing values count as zero
			missLeft = 0 <= threshold[i]
		default:
			return errors.New("zero as the missing value is not supported: train with zero_as_missing=false")
		}
		node := node32(int32(feature[i]), threshold[i], missLeft)
		node.left, node.right = int32(left[i]), int32(right[i])
		t.nodes = append(t.nodes, node)
	}
	return t.shape()
}

// shape checks that the children form one tree: every node but the first, and every
// leaf, is the child of exactly one node, and all are connected.
func (t *tree) shape() error {
	nodes := make([]bool, len(t.nodes))
	leaves := make([]bool, len(t.leaves))
	nodes[0] = true
	stack := []int32{0}
	reached := 1
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, c := range []int32{t.nodes[at].left, t.nodes[at].right} {
			seen, i := nodes, c
			if c < 0 {
				seen, i = leaves, ^c
			} else {
				stack = append(stack, c)
				reached++
			}
			if seen[i] {
				return fmt.Errorf("child %d of node %d has another parent: not a tree", c, at)
			}
			seen[i] = true
		}
	}
	if reached != len(nodes) {
		return fmt.Errorf("%d of %d nodes hang together: not a tree", reached, len(nodes))
	}
	return nil
}
