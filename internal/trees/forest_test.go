package trees

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func forestOf(t testing.TB, x Matrix, y, w []float64, o ForestOptions) *ForestModel {
	t.Helper()
	m, err := Forest(x, y, w, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var kinds = map[string]ForestOptions{
	"extra":  {RandomCuts: true, Trees: 60, MinLeaf: 2},
	"random": {Bootstrap: true, Trees: 60, MinLeaf: 2},
}

func TestForestLearns(t *testing.T) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			f := func(row []float64, src *rand.Rand) float64 {
				return 10*row[0] + 5*math.Floor(2*row[1]) + 0.1*src.NormFloat64()
			}
			x, y := noisy(5, 1000, 4, 0, f)
			m := forestOf(t, x, y, nil, o)
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
			imp, total := m.Importance(), 0.0
			for _, v := range imp {
				total += v
			}
			if imp[0]+imp[1] < 0.95 || math.Abs(total-1) > 1e-9 {
				t.Errorf("importance %v", imp)
			}
		})
	}
}

func TestClassForestLearns(t *testing.T) {
	x, y := noisy(8, 2000, 5, 0.1, classesOf)
	test, want := noisy(9, 1000, 5, 0.1, classesOf)
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			m, err := ClassForest(x, y, nil, 3, o)
			if err != nil {
				t.Fatal(err)
			}
			right, p := 0, make([]float64, 3000)
			m.PredictAll(test, p)
			for i := range want {
				p := p[3*i : 3*i+3]
				if s := p[0] + p[1] + p[2]; math.Abs(s-1) > 1e-9 {
					t.Fatalf("probabilities %v", p)
				}
				best := 0
				for k := range p {
					if p[k] > p[best] {
						best = k
					}
				}
				if float64(best) == want[i] {
					right++
				}
			}
			if right < 600 { // of 1000; the most frequent class alone has fewer than half
				t.Errorf("%d of 1000 right", right)
			}
		})
	}
}

// TestVarianceWithinLeaves checks that a tree of one leaf predicts the sample's mean
// and variance.
func TestVarianceWithinLeaves(t *testing.T) {
	x := Matrix{4, 1, []float64{1, 2, 3, 4}}
	y, w := []float64{1, 2, 3, 10}, []float64{1, 1, 1, 5}
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			o.MinLeaf, o.Bootstrap = 4, false
			mean, variance := forestOf(t, x, y, nil, o).Predict([]float64{9})
			if math.Abs(mean-4) > 1e-12 || math.Abs(variance-(9+4+1+36)/4.0) > 1e-12 {
				t.Errorf("mean %g, variance %g, want 4 and 12.5", mean, variance)
			}
			mean, variance = forestOf(t, x, y, w, o).Predict([]float64{9})
			if math.Abs(mean-7) > 1e-12 || math.Abs(variance-(36+25+16+5*9)/8.0) > 1e-12 {
				t.Errorf("weighted: mean %g, variance %g, want 7 and 15.25", mean, variance)
			}
		})
	}
}

// TestVarianceBetweenTrees checks that with pure leaves all variance is between trees:
// a random cut between two rows takes either side, so that halfway the prediction is a
// coin toss.
func TestVarianceBetweenTrees(t *testing.T) {
	m := forestOf(t, Matrix{2, 1, []float64{0, 1}}, []float64{0, 10}, nil, ForestOptions{Trees: 4000, RandomCuts: true})
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

// TestForestMemorises checks that best cuts without sampling grow the same tree for
// every seed, with a leaf per row.
func TestForestMemorises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 200).Draw(t, "y")
		x := NewMatrix(len(y), 2)
		perm := rand.New(rand.NewPCG(uint64(len(y)), 0)).Perm(len(y))
		for i := range y {
			x.Row(i)[0], x.Row(i)[1] = 1, float64(perm[i])
		}
		o := ForestOptions{Trees: 2, RandomCuts: rapid.Bool().Draw(t, "random"), Seed: rapid.Uint64().Draw(t, "seed")}
		m, err := Forest(x, y, nil, o)
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
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			x, y := noisy(15, 300, 3, 0.1, func(row []float64, src *rand.Rand) float64 {
				return row[0] + 0.1*src.NormFloat64()
			})
			far := make([]float64, len(y))
			for i := range y {
				far[i] = y[i] + 1e9
			}
			o.Seed = 4
			a, b := forestOf(t, x, y, nil, o), forestOf(t, x, far, nil, o)
			for i := range x.Rows {
				m1, v1 := a.Predict(x.Row(i))
				m2, v2 := b.Predict(x.Row(i))
				if math.Abs(m1+1e9-m2) > 1e-4 || math.Abs(v1-v2) > 1e-4 {
					t.Fatalf("row %d: %g +- %g, shifted %g +- %g", i, m1, v1, m2-1e9, v2)
				}
			}
		})
	}
}

func TestForestMissing(t *testing.T) {
	nan := math.NaN()
	x := Matrix{6, 1, []float64{0, 0, 1, 1, nan, nan}}
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			o.MinLeaf, o.Bootstrap = 1, false
			for _, y := range [][]float64{{0, 0, 6, 6, 0, 0}, {0, 0, 6, 6, 6, 6}, {3, 3, 3, 3, 9, 9},
				{0, 0, 3, 3, 9, 9}} {
				m := forestOf(t, x, y, nil, o)
				for i := range y {
					if mean, _ := m.Predict(x.Row(i)); mean != y[i] {
						t.Errorf("%v: row %d is %g", y, i, mean)
					}
				}
				c, err := ClassForest(x, y, nil, 10, o)
				if err != nil {
					t.Fatal(err)
				}
				p := make([]float64, 10)
				for i := range y {
					if c.Predict(x.Row(i), p); p[int(y[i])] != 1 {
						t.Errorf("%v: row %d has probabilities %v", y, i, p)
					}
				}
			}
		})
	}
	// Columns that are constant or always missing have no effect.
	m := forestOf(t, Matrix{3, 2, []float64{nan, 1, nan, 1, nan, 1}}, []float64{1, 2, 6}, nil, ForestOptions{})
	if mean, _ := m.Predict([]float64{5, 5}); math.Abs(mean-3) > 1e-12 {
		t.Errorf("mean %g, want 3", mean)
	}
}

// TestForestWeightsAreRepeats checks that, without sampling, a row of weight n equals
// n equal rows.
func TestForestWeightsAreRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		src := rand.New(rand.NewPCG(seed, 3))
		x, y := noisy(seed, 50, 3, 0.1, classesOf)
		w := make([]float64, x.Rows)
		var data, ys []float64
		for i := range w {
			n := src.IntN(4)
			w[i] = float64(n)
			for range n {
				data, ys = append(data, x.Row(i)...), append(ys, y[i])
			}
		}
		o := ForestOptions{Trees: 3, RandomCuts: rapid.Bool().Draw(t, "random"), Seed: seed}
		rep := Matrix{len(ys), 3, data}
		a, err := Forest(x, y, w, o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Forest(rep, ys, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		o.MaxFeatures = 3
		c, err := ClassForest(x, y, w, 3, o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ClassForest(rep, ys, nil, 3, o)
		if err != nil {
			t.Fatal(err)
		}
		p, q := make([]float64, 3), make([]float64, 3)
		for i := range x.Rows {
			m1, v1 := a.Predict(x.Row(i))
			m2, v2 := b.Predict(x.Row(i))
			if math.Abs(m1-m2) > 1e-9 || math.Abs(v1-v2) > 1e-9 {
				t.Fatalf("row %d: weighted %g +- %g, repeated %g +- %g", i, m1, v1, m2, v2)
			}
			c.Predict(x.Row(i), p)
			d.Predict(x.Row(i), q)
			for k := range p {
				if math.Abs(p[k]-q[k]) > 1e-9 {
					t.Fatalf("row %d: weighted %v, repeated %v", i, p, q)
				}
			}
		}
	})
}

func TestForestWorkersDoNotShow(t *testing.T) {
	x, y := noisy(81, 500, 6, 0.1, classesOf)
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			o.Seed, o.MaxFeatures = 9, 3
			var first *ForestModel
			var firstClass *ClassForestModel
			for _, workers := range []int{1, 2, 7} {
				o.Workers = workers
				m := forestOf(t, x, y, nil, o)
				c, err := ClassForest(x, y, nil, 3, o)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first, firstClass = m, c
				} else if diff := cmp.Diff(first, m, cmp.AllowUnexported(ForestModel{}, forest{}, node{})); diff != "" {
					t.Fatalf("%d workers: %s", workers, diff)
				} else if diff := cmp.Diff(firstClass, c,
					cmp.AllowUnexported(ClassForestModel{}, forest{}, node{})); diff != "" {
					t.Fatalf("%d workers: %s", workers, diff)
				}
			}
			o.Seed = 10
			if cmp.Equal(first, forestOf(t, x, y, nil, o), cmp.AllowUnexported(ForestModel{}, forest{}, node{})) {
				t.Error("another seed gives the same forest")
			}
		})
	}
}

// TestForestKeepsToTheOptions checks the leaves' sizes, and that predictions stay
// within the targets' range.
func TestForestKeepsToTheOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := ForestOptions{
			Trees:       rapid.IntRange(1, 5).Draw(t, "trees"),
			MinLeaf:     rapid.IntRange(1, 40).Draw(t, "least"),
			MaxFeatures: rapid.IntRange(0, 9).Draw(t, "features"),
			Bootstrap:   rapid.Bool().Draw(t, "bootstrap"),
			RandomCuts:  rapid.Bool().Draw(t, "random"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
		}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		x, y := noisy(o.Seed, n, rapid.IntRange(3, 8).Draw(t, "cols"), rapid.Float64Range(0, 1).Draw(t, "missing"),
			classesOf)
		m, err := Forest(x, y, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		if most := o.Trees * (n/o.MinLeaf + 1); len(m.leaves)/2 > most {
			t.Fatalf("%d leaves, room for %d", len(m.leaves)/2, most)
		}
		for i := range n {
			mean, variance := m.Predict(x.Row(i))
			if !(mean >= 0 && mean <= 2 && variance >= 0 && variance <= 1+1e-9) {
				t.Fatalf("%g +- %g", mean, variance)
			}
		}
		if o.Bootstrap {
			return
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
	for _, c := range []struct {
		o    ForestOptions
		want string
	}{
		{ForestOptions{Trees: -1}, "-1 trees"}, {ForestOptions{MinLeaf: -1}, "rows per leaf"},
		{ForestOptions{MaxFeatures: -1}, "features per split"},
	} {
		if _, err := Forest(x, y, nil, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q in it", err, c.want)
		}
	}
	if _, err := Forest(x, y[:1], nil, ForestOptions{}); err == nil {
		t.Error("too few targets are accepted")
	}
	if _, err := ClassForest(x, y, nil, 1, ForestOptions{}); err == nil {
		t.Error("one class is accepted")
	}
	if _, err := ClassForest(x, []float64{0, 2}, nil, 2, ForestOptions{}); err == nil {
		t.Error("a class out of range is accepted")
	}
	// Weights of such different magnitude that a bootstrap sample may miss all large
	// ones.
	m := forestOf(t, x, y, []float64{1, 1e-50}, ForestOptions{Bootstrap: true})
	if mean, variance := m.Predict([]float64{2}); !(mean >= 0 && mean <= 1 && variance >= 0) {
		t.Errorf("%g +- %g", mean, variance)
	}
}
