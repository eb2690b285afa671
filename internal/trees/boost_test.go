package trees

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// noisy draws rows of numbers in [0, 1), some missing, and their targets.
func noisy(seed uint64, rows, cols int, missing float64, f func(row []float64, src *rand.Rand) float64) (Matrix, []float64) {
	src := rand.New(rand.NewPCG(seed, 1))
	x, y := NewMatrix(rows, cols), make([]float64, rows)
	for i := range rows {
		row := x.Row(i)
		for j := range row {
			row[j] = src.Float64()
		}
		y[i] = f(row, src)
		for j := range row {
			if src.Float64() < missing {
				row[j] = math.NaN()
			}
		}
	}
	return x, y
}

func classesOf(row []float64, src *rand.Rand) float64 {
	return math.Floor(3 * math.Min(0.999, math.Max(0, row[0]*row[1]*2+0.2*src.NormFloat64()+0.2*row[2])))
}

// sameAsServed compares raw scores through the file with the model's own.
func sameAsServed(t *testing.T, m *Model, x Matrix) {
	t.Helper()
	var b bytes.Buffer
	if err := m.WriteLightGBM(&b, nil); err != nil {
		t.Fatal(err)
	}
	s, err := Load(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, b.String())
	}
	want, got := make([]float64, m.Outputs()), make([]float64, m.Outputs())
	for i := range x.Rows {
		m.PredictRaw(x.Row(i), want)
		if err := s.PredictRaw(x.Row(i), got); err != nil {
			t.Fatal(err)
		}
		for k := range want {
			if want[k] != got[k] {
				t.Fatalf("row %d output %d: served %v, own %v", i, k, got[k], want[k])
			}
		}
		m.Predict(x.Row(i), want)
		if err := s.Predict(x.Row(i), got); err != nil {
			t.Fatal(err)
		}
		for k := range want {
			if want[k] != got[k] {
				t.Fatalf("row %d output %d: served prediction %v, own %v", i, k, got[k], want[k])
			}
		}
	}
}

func TestServedEqualsOwn(t *testing.T) {
	for _, o := range []BoostOptions{
		{Objective: L2}, {Objective: L1}, {Objective: Quantile, Alpha: 0.9}, {Objective: Poisson}, {Objective: Softmax, Classes: 3, RowSample: 0.7, ColumnSample: 0.6},
	} {
		t.Run(o.Objective.String(), func(t *testing.T) {
			x, y := noisy(1, 1500, 5, 0.15, classesOf)
			o.Rounds = 20
			m, err := Boost(context.Background(), x, y, nil, nil, o)
			if err != nil {
				t.Fatal(err)
			}
			sameAsServed(t, m, x)
			fresh, _ := noisy(2, 500, 5, 0.3, classesOf)
			sameAsServed(t, m, fresh)
		})
	}
}

func TestStump(t *testing.T) {
	// Four rows, one cut: the leaves are the means of the two sides.
	x := Matrix{4, 1, []float64{1, 2, 3, 4}}
	m, err := Boost(context.Background(), x, []float64{1, 3, 10, 14}, nil, nil, BoostOptions{
		Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, 1)
	for v, want := range map[float64]float64{1: 2, 2.4: 2, 2.6: 12, 4: 12} {
		m.Predict([]float64{v}, out)
		if math.Abs(out[0]-want) > 1e-9 {
			t.Errorf("at %g: %g, want %g", v, out[0], want)
		}
	}
	gain, splits := m.Importance()
	// 2*6.5^2 + 2*6.5^2-... : the variance removed, n*(5^2).
	if math.Abs(gain[0]-100) > 1e-6 || splits[0] != 1 {
		t.Errorf("gain %g, %d splits", gain[0], splits[0])
	}
	sameAsServed(t, m, x)
}

func TestWorkersDoNotShow(t *testing.T) {
	x, y := noisy(3, 6000, 8, 0.1, classesOf)
	var first []byte
	for _, workers := range []int{1, 2, 3, 8} {
		m, err := Boost(context.Background(), x, y, nil, nil, BoostOptions{
			Objective: Softmax, Classes: 3, Rounds: 8, RowSample: 0.8, ColumnSample: 0.5, Seed: 7, Workers: workers,
		})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := m.WriteLightGBM(&b, nil); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Fatalf("%d workers give another model", workers)
		}
	}
}

func TestForestLearns(t *testing.T) {
	for name, o := range map[string]ForestOptions{
		"extra":  {RandomCuts: true, Trees: 50, MinLeaf: 2},
		"random": {Bootstrap: true, Trees: 50, MinLeaf: 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := func(row []float64, src *rand.Rand) float64 {
				return 10*row[0] + 5*math.Floor(2*row[1]) + 0.1*src.NormFloat64()
			}
			x, y := noisy(5, 1000, 4, 0, f)
			m, err := Forest(x, y, nil, o)
			if err != nil {
				t.Fatal(err)
			}
			test, want := noisy(6, 500, 4, 0, f)
			sum, base := 0.0, 0.0
			for i := range want {
				mean, variance := m.Predict(test.Row(i))
				if !(variance >= 0) {
					t.Fatalf("variance %g", variance)
				}
				sum += (mean - want[i]) * (mean - want[i])
				base += (want[i] - 7.5) * (want[i] - 7.5)
			}
			if sum > 0.03*base {
				t.Errorf("explains %.3f of the variance", 1-sum/base)
			}
			imp := m.Importance()
			if imp[0]+imp[1] < 0.9 {
				t.Errorf("importance %v", imp)
			}
		})
	}
}
