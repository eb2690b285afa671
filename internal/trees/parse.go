package trees

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
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

// text is a parsed model file.
type text struct {
	classes   int
	features  int
	names     []string
	objective []string // name and its parameters
	trees     []textTree
}

type textTree struct {
	feature     []int
	threshold   []float64
	decision    []int
	left, right []int
	leaves      []float64
}

// parse reads a whole model file and returns the first error in it.
func parse(r io.Reader) (*text, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("trees: model: %w", err)
	}
	if len(data) > maxText {
		return nil, fmt.Errorf("trees: model: longer than %d MiB", maxText>>20)
	}
	p := parser{rest: data}
	t, err := p.model()
	if p.long {
		err = fmt.Errorf("longer than %d MiB", maxLine>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("trees: model: line %d: %w", max(1, p.line), err)
	}
	return t, nil
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

func (p *parser) model() (*text, error) {
	first, _ := p.next()
	if first != "tree" {
		return nil,
			errors.New(
				`the first line is not "tree": want a model that LightGBM saved as text (not JSON, pickle or XGBoost's formats)`)
	}
	head := fields{}
	if err := p.fields(head); err != nil {
		return nil, err
	}
	t := &text{}
	n, err := t.header(head)
	if err != nil {
		return nil, err
	}
	for i := range n {
		tree, err := p.tree(i, t.features)
		if err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
		t.trees = append(t.trees, *tree)
	}
	for {
		line, ok := p.next()
		if !ok {
			return t, nil
		}
		if line == "end of trees" {
			break
		}
		if line != "" {
			return nil, fmt.Errorf("%q after the %d trees that tree_sizes lists", clip(line), n)
		}
	}
	return t, nil
}

// header reads the fields before the trees and returns the number of trees.
func (t *text) header(f fields) (int, error) {
	version, err := f.text("version")
	if err != nil {
		return 0, err
	}
	switch version {
	case "v2", "v3": // identical in the parts read here
	case "v4":
		return 0, errors.New("version v4 (LightGBM 4): only v3 can be served; train with LightGBM 3.x, or here")
	default:
		return 0, fmt.Errorf("version %q: only v3 can be served", clip(version))
	}
	if t.classes, err = f.whole("num_class", 1, maxClasses); err != nil {
		return 0, err
	}
	per, err := f.whole("num_tree_per_iteration", 1, maxClasses)
	if err != nil {
		return 0, err
	}
	if per != t.classes {
		return 0, fmt.Errorf("num_tree_per_iteration is %d and num_class %d: only equal ones can be served",
			per, t.classes)
	}
	last, err := f.whole("max_feature_idx", 0, maxFeatures-1)
	if err != nil {
		return 0, err
	}
	t.features = last + 1
	if _, ok := f["average_output"]; ok {
		return 0, errors.New("average_output: random forests cannot be served")
	}
	t.objective = strings.Fields(f["objective"])
	sizes, err := f.text("tree_sizes")
	if err != nil {
		return 0, err
	}
	n := len(strings.Fields(sizes))
	if n == 0 || n%t.classes != 0 || n > maxModelTrees {
		return 0, fmt.Errorf("tree_sizes lists %d trees: want a multiple of num_class, %d, and at most %d",
			n, t.classes,
			maxModelTrees)
	}
	if names := strings.Fields(f["feature_names"]); len(names) > 0 {
		if len(names) != t.features {
			return 0, fmt.Errorf("feature_names has %d names, max_feature_idx says %d", len(names), t.features)
		}
		t.names = names
	}
	return n, nil
}

func (p *parser) tree(index, features int) (*textTree, error) {
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
	t := &textTree{}
	if t.leaves, err = f.numbers("leaf_value", n); err != nil {
		return nil, err
	}
	if n == 1 {
		return t, nil
	}
	return t, t.read(f, n, features)
}

// read reads the fields of a tree of n >= 2 leaves.
func (t *textTree) read(f fields, n, features int) error {
	for _, l := range []struct {
		name   string
		dst    *[]int
		lo, hi int
	}{
		{"split_feature", &t.feature, 0, features - 1},
		{"decision_type", &t.decision, 0, decisionLeft | missingNaN},
		{"left_child", &t.left, -n, n - 2},
		{"right_child", &t.right, -n, n - 2},
	} {
		v, err := f.wholes(l.name, n-1, l.lo, l.hi)
		if err != nil {
			return err
		}
		*l.dst = v
	}
	var err error
	if t.threshold, err = f.numbers("threshold", n-1); err != nil {
		return err
	}
	return t.shape()
}

// shape checks that the children form one tree: every node but the first, and every
// leaf, is the child of exactly one node, and all are connected.
func (t *textTree) shape() error {
	nodes := make([]bool, len(t.left))
	leaves := make([]bool, len(t.leaves))
	nodes[0] = true
	stack := []int{0}
	reached := 1
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, c := range []int{t.left[at], t.right[at]} {
			seen := nodes
			i := c
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
