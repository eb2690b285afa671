package trees

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteLightGBM writes the model as LightGBM text, version 3. features are the
// column names; nil means Column_0 and so on. Numbers parse back to the same values.
func (m *Model) WriteLightGBM(w io.Writer, features []string) error {
	names, err := featureNames(features, m.features)
	if err != nil {
		return err
	}
	trees := make([][]byte, len(m.trees))
	sizes := make([]string, len(m.trees))
	for i := range m.trees {
		trees[i] = m.trees[i].text(i, m.options.LearningRate)
		sizes[i] = strconv.Itoa(len(trees[i]))
	}
	infos := make([]string, m.features)
	for j := range infos {
		infos[j] = "none"
		if m.lo != nil && m.lo[j] == m.lo[j] {
			infos[j] = "[" + number(m.lo[j]) + ":" + number(m.hi[j]) + "]"
		}
	}
	objective := m.options.Objective.String()
	if m.options.Objective == Softmax {
		objective += " num_class:" + strconv.Itoa(m.outputs)
	}
	var b bytes.Buffer
	b.WriteString("tree\n")
	field(&b, "version", "v3")
	field(&b, "num_class", strconv.Itoa(m.outputs))
	field(&b, "num_tree_per_iteration", strconv.Itoa(m.outputs))
	field(&b, "label_index", "0")
	field(&b, "max_feature_idx", strconv.Itoa(m.features-1))
	field(&b, "objective", objective)
	field(&b, "feature_names", strings.Join(names, " "))
	field(&b, "feature_infos", strings.Join(infos, " "))
	field(&b, "tree_sizes", strings.Join(sizes, " "))
	b.WriteString("\n")
	for _, t := range trees {
		b.Write(t)
	}
	b.WriteString("end of trees\n\nfeature_importances:\n")
	_, splits := m.Importance()
	for _, j := range descending(splits) {
		field(&b, names[j], strconv.Itoa(splits[j]))
	}
	b.WriteString("\nparameters:\n")
	o := &m.options
	for _, p := range [][2]string{
		{"boosting", "gbdt"},
		{"objective", o.Objective.String()},
		{"alpha", "0.5"}, // regression_l1 predicts the median
		{"num_iterations", strconv.Itoa(m.Rounds())},
		{"learning_rate", number(o.LearningRate)},
		{"num_leaves", strconv.Itoa(o.Leaves)},
		{"min_data_in_leaf", strconv.Itoa(o.MinLeaf)},
		{"max_bin", strconv.Itoa(o.Bins)},
		{"lambda_l2", number(o.L2)},
		{"bagging_fraction", number(o.RowSample)},
		{"feature_fraction", number(o.ColumnSample)},
		{"seed", strconv.FormatUint(o.Seed, 10)},
		{"num_class", strconv.Itoa(m.outputs)},
	} {
		fmt.Fprintf(&b, "[%s: %s]\n", p[0], p[1])
	}
	b.WriteString("\nend of parameters\n\npandas_categorical:null\n")
	_, err = w.Write(b.Bytes())
	return err
}

func field(b *bytes.Buffer, name, value string) {
	b.WriteString(name)
	b.WriteByte('=')
	b.WriteString(value)
	b.WriteByte('\n')
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// featureNames returns the names, or default ones, or an error for names that
// LightGBM's text cannot represent.
func featureNames(names []string, n int) ([]string, error) {
	if names == nil {
		names = make([]string, n)
		for j := range names {
			names[j] = "Column_" + strconv.Itoa(j)
		}
	}
	if len(names) != n {
		return nil, fmt.Errorf("trees: %d names for %d features", len(names), n)
	}
	seen := map[string]bool{}
	for j, s := range names {
		if s == "" || strings.ContainsAny(s, " \t\r\n=,:[]{}\"") {
			return nil, fmt.Errorf("trees: name %q of feature %d: want a word without spaces or any of =,:[]{}\"", s, j)
		}
		if seen[s] {
			return nil, fmt.Errorf("trees: two features are called %s", s)
		}
		seen[s] = true
	}
	return names, nil
}

// descending returns the features that have splits, in descending order of their
// number.
func descending(splits []int) []int {
	var out []int
	for j, n := range splits {
		if n == 0 {
			continue
		}
		at := len(out)
		for at > 0 && splits[out[at-1]] < n {
			at--
		}
		out = append(out, 0)
		copy(out[at+1:], out[at:])
		out[at] = j
	}
	return out
}

// Bits of a decision type: missing values go left; in bits 2 and 3, the missing type.
const (
	decisionLeft = 2
	missingNone  = 0 << 2
	missingNaN   = 2 << 2
)

func (t *tree) text(index int, shrinkage float64) []byte {
	var b bytes.Buffer
	b.WriteString("Tree=" + strconv.Itoa(index) + "\n")
	field(&b, "num_leaves", strconv.Itoa(len(t.leaves)))
	field(&b, "num_cat", "0")
	if n := len(t.nodes); n > 0 {
		node := func(name string, f func(i int) string) { field(&b, name, list(n, f)) }
		node("split_feature", func(i int) string { return strconv.Itoa(int(t.nodes[i].feature)) })
		node("split_gain", func(i int) string { return number(t.info[i].gain) })
		node("threshold", func(i int) string { return number(t.nodes[i].threshold) })
		node("decision_type", func(i int) string {
			return strconv.Itoa(missingNaN + int(t.nodes[i].missing)*decisionLeft)
		})
		node("left_child", func(i int) string { return strconv.Itoa(int(t.nodes[i].left)) })
		node("right_child", func(i int) string { return strconv.Itoa(int(t.nodes[i].right)) })
	}
	field(&b, "leaf_value", list(len(t.leaves), func(i int) string { return number(t.leaves[i]) }))
	if n := len(t.nodes); n > 0 {
		field(&b, "leaf_weight", list(len(t.leaves), func(i int) string { return number(t.leafInfo[i].weight) }))
		field(&b, "leaf_count", list(len(t.leaves), func(i int) string {
			return strconv.Itoa(int(t.leafInfo[i].count))
		}))
		field(&b, "internal_value", list(n, func(i int) string { return number(t.info[i].value) }))
		field(&b, "internal_weight", list(n, func(i int) string { return number(t.info[i].weight) }))
		field(&b, "internal_count", list(n, func(i int) string { return strconv.Itoa(int(t.info[i].count)) }))
	}
	field(&b, "is_linear", "0")
	field(&b, "shrinkage", number(shrinkage))
	b.WriteString("\n\n")
	return b.Bytes()
}

func list(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, " ")
}
