package trees

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
)

var update = flag.Bool("update", false, "rewrite golden files")

func fixture(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("testdata/lightgbm.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestServedByTheRules predicts with a hand-written file in LightGBM's format, with
// missing values that go left, right, and count as zero. The sums were computed by hand
// from LightGBM's rules.
func TestServedByTheRules(t *testing.T) {
	s, err := Load(strings.NewReader(fixture(t)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"elapsed", "tenant", "gap", "status"}, s.Names()); diff != "" {
		t.Error(diff)
	}
	nan := math.NaN()
	// First tree: elapsed <= 0.5, missing left; then tenant <= 1.5, missing right.
	// Second: gap <= -1, missing is zero; status <= 2, missing right; gap <= 2, missing is zero.
	for _, c := range []struct {
		row  []float64
		want float64
	}{
		{[]float64{1, 0, 3, 2}, 0.5 + 2},
		{[]float64{0.5, 1, 3, 5}, -0.25 + 8},
		{[]float64{0.2, 2, 1, 4}, 0.125 + 4},
		{[]float64{nan, 1, 1, 4}, -0.25 + 4},    // missing elapsed goes left
		{[]float64{0, nan, 1, 4}, 0.125 + 4},    // missing tenant goes right
		{[]float64{9, 0, nan, 2}, 0.5 + 2},      // missing gap is above -1
		{[]float64{9, 0, nan, 3}, 0.5 + 4},      // and not above 2
		{[]float64{9, 0, -7, nan}, 0.5 + 1},     // below the threshold
		{[]float64{9, 0, 2, nan}, 0.5 + 4},      // missing status goes right
		{[]float64{9, 0, math.Inf(1), 3}, 8.5},  // infinite is just large
		{[]float64{9, 0, math.Inf(-1), 3}, 1.5}, // or small
	} {
		t.Run(fmt.Sprint(c.row), func(t *testing.T) {
			out := []float64{0}
			if err := s.Predict(c.row, out); err != nil || out[0] != c.want {
				t.Errorf("%g (%v), want %g", out[0], err, c.want)
			}
		})
	}
	if err := s.Predict([]float64{1, 2, 3}, []float64{0}); err == nil {
		t.Error("a short row is accepted")
	}
}

// TestLightGBMModel compares with a model and predictions of LightGBM, which are part
// of the library's tests.
func TestLightGBMModel(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dmitryikh/leaves").Output()
	if err != nil || strings.TrimSpace(string(dir)) == "" {
		t.Skip("the sources of leaves are not at hand (vendored or offline)")
	}
	base := filepath.Join(strings.TrimSpace(string(dir)), "testdata")
	f, err := os.Open(filepath.Join(base, "lgmulticlass.model"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	s, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	rows := table(t, filepath.Join(base, "multiclass_test.tsv"))
	want := table(t, filepath.Join(base, "lgmulticlass_true_predictions.txt"))
	if len(rows) != len(want) || len(rows) == 0 {
		t.Fatalf("%d rows, %d predictions", len(rows), len(want))
	}
	out := make([]float64, s.Outputs())
	for i, row := range rows {
		if err := s.Predict(row[1:][:s.Features()], out); err != nil { // it begins with the target
			t.Fatal(err)
		}
		for k := range out {
			if math.Abs(out[k]-want[i][k]) > 1e-6 {
				t.Fatalf("row %d output %d: %v, LightGBM says %v", i, k, out[k], want[i][k])
			}
		}
	}
}

func table(t *testing.T, path string) [][]float64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	var out [][]float64
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var row []float64
		for _, s := range strings.FieldsFunc(line, func(r rune) bool { return r == '\t' || r == ',' || r == ' ' }) {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				v = 0 // a heading
			}
			row = append(row, v)
		}
		out = append(out, row)
	}
	return out
}

// TestRefused checks that every error names the line or the field.
func TestRefused(t *testing.T) {
	good := fixture(t)
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the fixture has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":               {"", `not "tree"`},
		"json":                {`{"name":"tree"}`, "not JSON"},
		"xgboost":             {"binf\x00\x00\x00", "XGBoost"},
		"only the first line": {"tree\n", "no field version"},
		"version 4":           {swap("version=v3", "version=v4"), "LightGBM 4"},
		"version 9":           {swap("version=v3", "version=9"), `version "9"`},
		"field twice":         {swap("num_class=1", "num_class=1\nnum_class=1"), "given twice"},
		"no classes":          {swap("num_class=1\n", ""), "no field num_class"},
		"classes":             {swap("num_class=1", "num_class=0"), "num_class"},
		"trees per class":     {swap("iteration=1", "iteration=2"), "num_tree_per_iteration is 2"},
		"features":            {swap("max_feature_idx=3", "max_feature_idx=-1"), "max_feature_idx"},
		"many features":       {swap("max_feature_idx=3", "max_feature_idx=99999999"), "max_feature_idx"},
		"names":               {swap("elapsed tenant", "elapsed"), "feature_names has 3"},
		"sizes":               {swap("tree_sizes=452 437", "tree_sizes="), "lists 0 trees"},
		"too few sizes":       {swap("tree_sizes=452 437", "tree_sizes=452"), "after the 1 trees"},
		"too many sizes":      {swap("tree_sizes=452 437", "tree_sizes=452 437 1"), "tree 2"},
		"objective":           {swap("objective=regression", "objective=huber2"), `objective "huber2"`},
		"parameters":          {swap("objective=regression", "objective=regression sqrt"), `objective "regression sqrt"`},
		"objective's classes": {swap("objective=regression", "objective=multiclass num_class:1"), "classes"},
		"random forest":       {swap("max_feature_idx=3", "max_feature_idx=3\naverage_output"), "random forests"},
		"tree order":          {swap("Tree=1", "Tree=2"), "Tree=1 should begin"},
		"linear":              {swap("is_linear=0", "is_linear=1"), "linear trees"},
		"leaves":              {swap("num_leaves=3", "num_leaves=0"), "num_leaves"},
		"many leaves":         {swap("num_leaves=3", "num_leaves=9999999"), "leaf_value has 3 numbers, want 9999999"},
		"leaf missing": {swap("leaf_value=0.5 -0.25 0.125", "leaf_value=0.5 -0.25"),
			"tree 0: leaf_value has 2 numbers, want 3"},
		"leaf not a number":    {swap("leaf_value=0.5", "leaf_value=x"), `leaf_value: number 1 is "x"`},
		"leaf NaN":             {swap("leaf_value=0.5", "leaf_value=nan"), "finite"},
		"threshold infinite":   {swap("threshold=0.5", "threshold=inf"), "finite"},
		"feature out of range": {swap("split_feature=0 1", "split_feature=0 4"), "split_feature: number 2"},
		"child out of range":   {swap("left_child=1 -2", "left_child=2 -2"), "left_child: number 1"},
		"leaf out of range":    {swap("left_child=1 -2", "left_child=1 -4"), "left_child: number 2"},
		"cycle":                {swap("left_child=1 -2", "left_child=0 -2"), "not a tree"},
		"leaf twice":           {swap("right_child=-1 -3", "right_child=-1 -2"), "another parent"},
		"unreachable":          {swap("left_child=1 -2", "left_child=-3 -2"), "not a tree"},
		"decision":             {swap("decision_type=10 8", "decision_type=12 8"), "decision_type: number 1"},
		"category sets":        {swap("num_cat=0", "num_cat=1"), "category sets"},
		"category":             {swap("decision_type=10 8", "decision_type=10 1"), "zero as the missing value"},
		"zero is missing":      {swap("decision_type=10 8", "decision_type=10 4"), "zero as the missing value"},
		"cut off":              {good[:strings.Index(good, "Tree=1")+60], "no field"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := Load(strings.NewReader(good)); err != nil {
		t.Error(err)
	}
}

type endless struct{ line string }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.line[i%len(e.line)]
	}
	return len(p), nil
}

func TestTooLong(t *testing.T) {
	testshared.Full(t)
	if _, err := Load(endless{"tree\n"}); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("an endless file: %v", err)
	}
	long := strings.Replace(fixture(t), "tree_sizes=", "tree_sizes="+strings.Repeat("1 ", maxLine/2), 1)
	if _, err := Load(strings.NewReader(long)); err == nil || !strings.Contains(err.Error(), "line 10: longer") {
		t.Errorf("a long line: %v", err)
	}
}

func text1(t testing.TB, m *Model) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.WriteLightGBM(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGoldenText(t *testing.T) {
	x := Matrix{6, 2, []float64{1, math.NaN(), 2, 0, 3, 5, 4, math.NaN(), 5, 1, 6, 7}}
	m := boost(t, x, []float64{1, 1, 2, 9, 8, 9}, nil,
		BoostOptions{Rounds: 2, Leaves: 3, MinLeaf: 1, LearningRate: 0.5})
	var b bytes.Buffer
	if err := m.WriteLightGBM(&b, []string{"elapsed", "gap"}); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-golden +now)\n%s", diff)
	}
	// LightGBM reads trees in parallel by these sizes: they must cover the text from the
	// first tree to the end mark.
	header, rest, _ := strings.Cut(b.String(), "\n\n")
	_, line, _ := strings.Cut(header, "tree_sizes=")
	for i, s := range strings.Fields(line) {
		n, err := strconv.Atoi(s)
		if err != nil || !strings.HasPrefix(rest, fmt.Sprintf("Tree=%d\n", i)) {
			t.Fatalf("tree %d is not where the sizes say", i)
		}
		rest = rest[n:]
	}
	if !strings.HasPrefix(rest, "end of trees\n") {
		t.Errorf("the sizes end before %.20q", rest)
	}
}

func TestNamesThatCannotBeWritten(t *testing.T) {
	x, y := noisy(1, 50, 2, 0, classesOf2)
	m := boost(t, x, y, nil, BoostOptions{Rounds: 1})
	for _, names := range [][]string{{"a"}, {"a", "a"}, {"a", "b c"}, {"a", ""}, {"a", "b=c"}, {"a", "b\nTree=0"}} {
		if err := m.WriteLightGBM(&bytes.Buffer{}, names); err == nil {
			t.Errorf("names %q are accepted", names)
		}
	}
}

// FuzzLoad checks that any file neither panics nor hangs nor takes more memory than a
// few times its size, and that an accepted model predicts.
func FuzzLoad(f *testing.F) {
	good := fixture(f)
	f.Add(good)
	f.Add(strings.Replace(good, "objective=regression", "objective=multiclass num_class:1", 1))
	f.Add(
		"tree\nversion=v3\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\ntree_sizes=1\n\nTree=0\nnum_leaves=1\nnum_cat=0\nleaf_value=1\n")
	x := Matrix{6, 2, []float64{1, math.NaN(), 2, 0, 3, 5, 4, math.NaN(), 5, 1, 6, 7}}
	m, err := Boost(context.Background(), x, []float64{0, 1, 2, 2, 1, 0}, nil,
		BoostOptions{Objective: Softmax, Classes: 3, Rounds: 2, Leaves: 3, MinLeaf: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text1(f, m))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Load(strings.NewReader(text))
		if err != nil || s.Features() > 1000 || s.Outputs() > 1000 {
			return
		}
		row, out := make([]float64, s.Features()), make([]float64, s.Outputs())
		want := make([]float64, len(out))
		for _, v := range []float64{0, 1, -3, 1e300, math.NaN(), math.Inf(1)} {
			for j := range row {
				row[j] = v
			}
			if err := s.Predict(row, out); err != nil {
				t.Fatal(err)
			}
			s.model.Predict(row, want)
			for k := range want {
				if want[k] != out[k] && !(want[k] != want[k] && out[k] != out[k]) {
					t.Fatalf("at %g: served %v, own %v", v, out, want)
				}
			}
		}
	})
}
