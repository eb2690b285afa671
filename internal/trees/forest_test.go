package trees

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func forestOf(t testing.TB, x Matrix, y []float64, o ForestOptions) *ForestModel {
	t.Helper()
	m, err := Forest(x, y, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestForestLearns(t *testing.T) {
	f := func(row []float64, src *rand.Rand) float64 {
		return 10*row[0] + 5*math.Floor(2*row[1]) + 0.1*src.NormFloat64()
	}
	x, y := noisy(5, 1000, 4, 0, f)
	m := forestOf(t, x, y, ForestOptions{Trees: 60, MinLeaf: 2, MaxFeatures: 4})
	test, want := noisy(6, 500, 4, 0, f)
	sum, base := 0.0, 0.0
	for i := range want {
		mean, _ := m.Predict(test.Row(i))
		sum += (mean - want[i]) * (mean - want[i])
		base += (want[i] - 7.5) * (want[i] - 7.5)
	}
	if sum > 0.03*base {
		t.Errorf("explains %.3f of the variance", 1-sum/base)
	}
}

// TestVarianceWithinLeaves checks that a tree of one leaf predicts the sample's mean
// and variance.
func TestVarianceWithinLeaves(t *testing.T) {
	x := Matrix{4, 1, []float64{1, 2, 3, 4}}
	m := forestOf(t, x, []float64{1, 2, 3, 10}, ForestOptions{Trees: 60, MinLeaf: 4, MaxFeatures: 1})
	mean, variance := m.Predict([]float64{9})
	if math.Abs(mean-4) > 1e-12 || math.Abs(variance-(9+4+1+36)/4.0) > 1e-12 {
		t.Errorf("mean %g, variance %g, want 4 and 12.5", mean, variance)
	}
}

// TestVarianceBetweenTrees checks that with pure leaves all variance is between trees:
// a random cut between two rows takes either side, so that halfway the prediction is a
// coin toss.
func TestVarianceBetweenTrees(t *testing.T) {
	m := forestOf(t, Matrix{2, 1, []float64{0, 1}}, []float64{0, 10},
		ForestOptions{Trees: 4000, MinLeaf: 1, MaxFeatures: 1})
	mean, variance := m.Predict([]float64{0.25})
	// The cut is uniform: a quarter of the trees have it below 0.25.
	if math.Abs(mean-2.5) > 0.3 || math.Abs(variance-18.75) > 1.5 {
		t.Errorf("mean %g, variance %g, want about 2.5 and 18.75", mean, variance)
	}
	if mean, variance := m.Predict([]float64{0}); mean != 0 || variance != 0 {
		t.Errorf("at a row: mean %g, variance %g", mean, variance)
	}
	if mean, variance := m.Predict([]float64{5}); mean != 10 || variance != 0 {
		t.Errorf("beyond the rows: mean %g, variance %g", mean, variance)
	}
}

// TestForestMemorises checks that every row has a leaf of its own, beside a constant column.
func TestForestMemorises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 200).Draw(t, "y")
		x := NewMatrix(len(y), 2)
		perm := rand.New(rand.NewPCG(uint64(len(y)), 0)).Perm(len(y))
		for i := range y {
			x.Row(i)[0], x.Row(i)[1] = 1, float64(perm[i])
		}
		m, err := Forest(x, y,
			ForestOptions{Trees: 2, MinLeaf: 1, MaxFeatures: 2, Seed: rapid.Uint64().Draw(t, "seed")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range y {
			mean, variance := m.Predict(x.Row(i))
			// Rows that differ by less than 1e-14 of the spread may share a leaf.
			if math.Abs(mean-y[i]) > 1e-4 || !(variance >= 0 && variance < 1e-8) {
				t.Fatalf("row %d: mean %g, variance %g, want %g", i, mean, variance, y[i])
			}
		}
	})
}

// TestForestFarFromZero checks that targets far from zero grow the same trees.
func TestForestFarFromZero(t *testing.T) {
	x, y := noisy(15, 300, 3, 0, func(row []float64, src *rand.Rand) float64 {
		return row[0] + 0.1*src.NormFloat64()
	})
	far := make([]float64, len(y))
	for i := range y {
		far[i] = y[i] + 1e9
	}
	o := ForestOptions{Trees: 60, MinLeaf: 2, MaxFeatures: 3, Seed: 4}
	a, b := forestOf(t, x, y, o), forestOf(t, x, far, o)
	for i := range x.Rows {
		m1, v1 := a.Predict(x.Row(i))
		m2, v2 := b.Predict(x.Row(i))
		if math.Abs(m1+1e9-m2) > 1e-4 || math.Abs(v1-v2) > 1e-4 {
			t.Fatalf("row %d: %g +- %g, shifted %g +- %g", i, m1, v1, m2-1e9, v2)
		}
	}
}

// TestForestDependsOnTheSeed checks that forests of one seed are equal and of two are not.
func TestForestDependsOnTheSeed(t *testing.T) {
	x, y := noisy(81, 500, 6, 0, classesOf)
	equal := func(a, b *ForestModel) bool {
		return cmp.Equal(a, b, cmp.AllowUnexported(ForestModel{}, node{}, forestLeaf{}))
	}
	o := ForestOptions{Trees: 60, MinLeaf: 2, MaxFeatures: 3, Seed: 9}
	first := forestOf(t, x, y, o)
	if !equal(first, forestOf(t, x, y, o)) {
		t.Error("the same seed gives another forest")
	}
	if o.Seed = 10; equal(first, forestOf(t, x, y, o)) {
		t.Error("another seed gives the same forest")
	}
}

// TestForestKeepsToTheOptions checks the leaves' sizes, and that predictions stay
// within the targets' range.
func TestForestKeepsToTheOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := ForestOptions{
			Trees:       rapid.IntRange(1, 5).Draw(t, "trees"),
			MinLeaf:     rapid.IntRange(1, 40).Draw(t, "least"),
			MaxFeatures: rapid.IntRange(1, 9).Draw(t, "features"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
		}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		x, y := noisy(o.Seed, n, rapid.IntRange(3, 8).Draw(t, "cols"), 0, classesOf)
		m, err := Forest(x, y, o)
		if err != nil {
			t.Fatal(err)
		}
		if most := o.Trees * (n/o.MinLeaf + 1); len(m.leaves) > most {
			t.Fatalf("%d leaves, room for %d", len(m.leaves), most)
		}
		for i := range n {
			mean, variance := m.Predict(x.Row(i))
			if !(mean >= 0 && mean <= 2 && variance >= 0 && variance <= 1+1e-9) {
				t.Fatalf("%g +- %g", mean, variance)
			}
		}
		// Count the rows that reach each leaf.
		for _, root := range m.roots {
			reached := map[int32]int{}
			for i := range n {
				reached[m.at(root, x.Row(i))]++
			}
			for leaf, rows := range reached {
				if rows < min(n, o.MinLeaf) {
					t.Fatalf("leaf %d has %d rows", leaf, rows)
				}
			}
		}
	})
}

func TestForestRefuses(t *testing.T) {
	x, y := Matrix{2, 1, []float64{1, 2}}, []float64{0, 1}
	good := ForestOptions{Trees: 1, MinLeaf: 1, MaxFeatures: 1}
	for _, c := range []struct {
		o    ForestOptions
		want string
	}{
		{ForestOptions{MinLeaf: 1, MaxFeatures: 1}, "0 trees"},
		{ForestOptions{Trees: maxTrees + 1, MinLeaf: 1, MaxFeatures: 1}, "100001 trees"},
		{ForestOptions{Trees: 1, MaxFeatures: 1}, "0 rows per leaf"},
		{ForestOptions{Trees: 1, MinLeaf: 1}, "0 features per split"},
	} {
		if _, err := Forest(x, y, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q in it", err, c.want)
		}
	}
	if _, err := Forest(x, y[:1], good); err == nil {
		t.Error("too few targets are accepted")
	}
	if _, err := Forest(Matrix{2, 1, []float64{1, math.NaN()}}, y, good); err == nil ||
		!strings.Contains(err.Error(), "row 1, column 0 is missing") {
		t.Errorf("a missing value: %v", err)
	}
}
