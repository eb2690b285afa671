package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noisy generates rows of numbers in [0, 1), some missing, and their targets.
func noisy(seed uint64, rows, cols int, missing float64, f func(row []float64, src *rand.Rand) float64) (Matrix,
	[]float64) {
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

func classesOf2(row []float64, src *rand.Rand) float64 {
	return math.Floor(2 * math.Min(0.999, math.Max(0, row[0]+0.1*src.NormFloat64())))
}

func boost(t testing.TB, x Matrix, y, w []float64, o BoostOptions) *Model {
	t.Helper()
	m, err := Boost(context.Background(), x, y, w, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func predictions(m *Model, x Matrix) []float64 {
	out := make([]float64, x.Rows*m.outputs)
	for i := range x.Rows {
		m.Predict(x.Row(i), out[i*m.outputs:(i+1)*m.outputs])
	}
	return out
}

// sameAsServed compares the predictions of the written and loaded model with the
// model's own, bit for bit.
func sameAsServed(t *testing.T, m *Model, x Matrix) {
	t.Helper()
	s, err := Load(strings.NewReader(text1(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	k := m.outputs
	served := make([]float64, k)
	own := predictions(m, x)
	for i := range x.Rows {
		if err := s.Predict(x.Row(i), served); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(own[i*k:(i+1)*k], served) {
			t.Fatalf("row %d: predicts %v, served %v", i, own[i*k:(i+1)*k], served)
		}
	}
}

func TestServedEqualsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("trains large models")
	}
	for _, o := range []BoostOptions{
		{Objective: L2}, {Objective: L1},
		{Objective: Softmax, Classes: 3, RowSample: 0.7, ColumnSample: 0.6},
	} {
		for _, cols := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s/%d", o.Objective, cols), func(t *testing.T) {
				f := classesOf
				if cols == 1 {
					f = classesOf2
				}
				x, y := noisy(1, 1501, cols, 0.15, f)
				o.Rounds = 20
				m := boost(t, x, y, nil, o)
				sameAsServed(t, m, x)
				fresh, _ := noisy(2, 501, cols, 0.3, f)
				fresh.Data[0], fresh.Data[cols] = math.Inf(1), math.Inf(-1)
				sameAsServed(t, m, fresh)
			})
		}
	}
}

func TestStump(t *testing.T) {
	// Four rows, one cut: the leaves are the means of the two sides.
	x := Matrix{4, 1, []float64{1, 2, 3, 4}}
	m := boost(t, x, []float64{1, 3, 10, 14}, nil, BoostOptions{Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 1})
	out := make([]float64, 1)
	for v, want := range map[float64]float64{1: 2, 2.5: 2, 2.6: 12, 4: 12} {
		m.Predict([]float64{v}, out)
		if math.Abs(out[0]-want) > 1e-9 {
			t.Errorf("at %g: %g, want %g", v, out[0], want)
		}
	}
	// The sides' means are 5 from the common one: the cut removes 4*5^2.
	gain, splits := m.Importance()
	if math.Abs(gain[0]-100) > 1e-6 || splits[0] != 1 {
		t.Errorf("gain %g, %d splits", gain[0], splits[0])
	}
}

// TestLeafValues compares with -G/(H+lambda) times the learning rate.
func TestLeafValues(t *testing.T) {
	x := Matrix{4, 1, []float64{0, 0, 1, 1}}
	y := []float64{0, 0, 6, 6}
	m := boost(t, x, y, nil, BoostOptions{Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 0.5, L2: 1})
	// From the mean 3, each side has residuals of 3: 6/(2+1) * 0.5 = 1.
	if got := predictions(m, x); math.Abs(got[0]-2) > 1e-9 || math.Abs(got[3]-4) > 1e-9 {
		t.Errorf("%v, want 2 and 4", got)
	}
	// Two classes with equal shares: p = 1/2, g = -+1/2, h = 2/1 * 1/4.
	m = boost(t, x, []float64{0, 0, 1, 1}, nil,
		BoostOptions{Objective: Softmax, Classes: 2, Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 0.1})
	raw := make([]float64, 2)
	m.predictRaw(x.Row(0), raw)
	if d := raw[0] - raw[1]; math.Abs(d-0.2) > 1e-9 {
		t.Errorf("scores differ by %g, want 0.2", d)
	}
}

// TestAdditive checks that stumps learn a sum of steps in a balanced design exactly,
// one step a round.
func TestAdditive(t *testing.T) {
	x, y := NewMatrix(64, 3), make([]float64, 64)
	for i := range y {
		for j := range 3 {
			x.Row(i)[j] = float64(i >> (2 * j) & 3)
		}
		y[i] = 10*step01(x.Row(i)[0] > 1) - 4*step01(x.Row(i)[1] > 1) + step01(x.Row(i)[2] > 1)
	}
	m := boost(t, x, y, nil, BoostOptions{Rounds: 3, Leaves: 2, MinLeaf: 1, LearningRate: 1})
	for i, p := range predictions(m, x) {
		if math.Abs(p-y[i]) > 1e-9 {
			t.Fatalf("row %d: %g, want %g", i, p, y[i])
		}
	}
	gain, splits := m.Importance()
	// 64 rows, half of them on each side of a step of height h: 64 (h/2)^2.
	for j, want := range []float64{1600, 256, 16} {
		if math.Abs(gain[j]-want) > 1e-6 || splits[j] != 1 {
			t.Errorf("feature %d: gain %g, want %g; %d splits", j, gain[j], want, splits[j])
		}
	}
}

func step01(b bool) float64 { return float64(bit(b)) }

// TestMemorises checks that a tree with a leaf for every value reproduces the targets:
// histograms lose nothing if there are no more values than bins.
func TestMemorises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 200).Draw(t, "y")
		x := NewMatrix(len(y), 1)
		perm := rand.New(rand.NewPCG(uint64(len(y)), 0)).Perm(len(y))
		for i := range y {
			x.Data[i] = float64(perm[i])
		}
		m, err := Boost(context.Background(), x, y, nil,
			BoostOptions{Rounds: 1, Leaves: 200, MinLeaf: 1, LearningRate: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range predictions(m, x) {
			if math.Abs(p-y[i]) > 1e-3 { // differences below 1e-10 of the mean count as rounding
				t.Fatalf("row %d: %g, want %g", i, p, y[i])
			}
		}
	})
}

// loss returns the mean loss of a model's predictions.
func loss(m *Model, x Matrix, y []float64) float64 {
	sum := 0.0
	for i, p := 0, predictions(m, x); i < len(y); i++ {
		switch m.options.Objective {
		case L2:
			sum += (p[i] - y[i]) * (p[i] - y[i])
		case L1:
			sum += math.Abs(p[i] - y[i])
		case Softmax:
			sum -= math.Log(p[m.outputs*i+int(y[i])])
		}
	}
	return sum / float64(len(y))
}

func TestLossFalls(t *testing.T) {
	if testing.Short() {
		t.Skip("trains large models")
	}
	for _, o := range []BoostOptions{
		{Objective: L2}, {Objective: L1}, {Objective: Softmax, Classes: 3},
	} {
		t.Run(o.Objective.String(), func(t *testing.T) {
			x, y := noisy(4, 2000, 5, 0.1, classesOf)
			if o.Objective != Softmax {
				x, y = noisy(4, 2000, 5, 0.1, func(row []float64, src *rand.Rand) float64 {
					return 2*row[0]*row[1] + 0.2*src.NormFloat64()
				})
			}
			o.Rounds = 60
			m := boost(t, x, y, nil, o)
			var losses []float64
			for r := 1; r <= m.Rounds(); r++ {
				first := *m
				first.trees = m.trees[:r*m.outputs]
				losses = append(losses, loss(&first, x, y))
			}
			for i := 1; i < len(losses); i++ {
				if losses[i] > losses[i-1]*(1+1e-12) {
					t.Fatalf("round %d: loss %g after %g", i+1, losses[i], losses[i-1])
				}
			}
			if last := losses[len(losses)-1]; last > 0.95*losses[0] {
				t.Errorf("the loss falls from %g to %g only", losses[0], last)
			}
		})
	}
}

// TestMedianIgnoresOutlier checks that L1 predicts medians, which one outlier does not
// change.
func TestMedianIgnoresOutlier(t *testing.T) {
	x := Matrix{6, 1, []float64{0, 0, 0, 1, 1, 1}}
	m := boost(t, x, []float64{1, 2, 3, 10, 11, 1e9}, nil,
		BoostOptions{Objective: L1, Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 1})
	if got := predictions(m, x); got[0] != 2 || got[5] != 11 {
		t.Errorf("%v, want 2 and 11", got)
	}
}

func TestMissingDirectionIsLearned(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		y    []float64 // of the values 0, 0, 1, 1 and two missing ones
		want float64   // for a missing value
	}{
		"like low":   {[]float64{0, 0, 6, 6, 0, 0}, 0},
		"like high":  {[]float64{0, 0, 6, 6, 6, 6}, 6},
		"on its own": {[]float64{3, 3, 3, 3, 9, 9}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			x := Matrix{6, 1, []float64{0, 0, 1, 1, nan, nan}}
			m := boost(t, x, c.y, nil, BoostOptions{Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 1})
			for i, p := range predictions(m, x) {
				if math.Abs(p-c.y[i]) > 1e-9 {
					t.Errorf("row %d: %g, want %g", i, p, c.y[i])
				}
			}
			sameAsServed(t, m, x)
		})
	}
	// Without missing values in training, they go with the majority.
	m := boost(t, Matrix{3, 1, []float64{0, 1, 1}}, []float64{0, 6, 6}, nil,
		BoostOptions{Rounds: 1, Leaves: 2, MinLeaf: 1, LearningRate: 1})
	if p := predictions(m, Matrix{1, 1, []float64{nan}}); math.Abs(p[0]-6) > 1e-9 {
		t.Errorf("missing: %g, want the majority's 6", p[0])
	}
}

// TestWeightsAreRepeats checks that a row of weight n equals n equal rows.
func TestWeightsAreRepeats(t *testing.T) {
	for _, o := range []BoostOptions{{Objective: L2}, {Objective: L1}, {Objective: Softmax, Classes: 3}} {
		t.Run(o.Objective.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				src := rand.New(rand.NewPCG(seed, 2))
				x, y := noisy(seed, 60, 3, 0.1, classesOf)
				w := make([]float64, x.Rows)
				var data, ys []float64
				for i := range w {
					n := src.IntN(4)
					w[i] = float64(n)
					for range n {
						data, ys = append(data, x.Row(i)...), append(ys, y[i])
					}
				}
				o.Rounds, o.Leaves, o.MinLeaf = 3, 5, 1
				a, err := Boost(context.Background(), x, y, w, o)
				if err != nil {
					t.Fatal(err)
				}
				b, err := Boost(context.Background(), Matrix{len(ys), 3, data}, ys, nil, o)
				if err != nil {
					t.Fatal(err)
				}
				p, q := predictions(a, x), predictions(b, x)
				for i := range p {
					if math.Abs(p[i]-q[i]) > 1e-6 {
						t.Fatalf("%d: weighted %g, repeated %g", i, p[i], q[i])
					}
				}
			})
		})
	}
}

// TestRowOrder checks that the order of the rows does not change the result, to the
// last bit.
func TestRowOrder(t *testing.T) {
	for _, o := range []BoostOptions{{Objective: L2}, {Objective: L1}, {Objective: Softmax, Classes: 3}} {
		t.Run(o.Objective.String(), func(t *testing.T) {
			x, y := noisy(31, 700, 4, 0.1, classesOf)
			src := rand.New(rand.NewPCG(5, 5))
			w := make([]float64, x.Rows)
			for i := range w {
				w[i] = src.ExpFloat64()
			}
			if o.Objective == L2 {
				for i := range y {
					y[i] += src.NormFloat64()
				}
			}
			px, py, pw := NewMatrix(x.Rows, x.Cols), make([]float64, x.Rows), make([]float64, x.Rows)
			for to, from := range src.Perm(x.Rows) {
				copy(px.Row(to), x.Row(from))
				py[to], pw[to] = y[from], w[from]
			}
			o.Rounds = 10
			if diff := cmp.Diff(text1(t, boost(t, x, y, w, o)), text1(t, boost(t, px, py, pw, o))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWorkersDoNotShow(t *testing.T) {
	x, y := noisy(3, 6000, 9, 0.1, classesOf)
	for _, o := range []BoostOptions{
		{Objective: Softmax, Classes: 3, RowSample: 0.8, ColumnSample: 0.5}, {Objective: L1, ColumnSample: 0.8},
		{Objective: L2},
	} {
		t.Run(o.Objective.String(), func(t *testing.T) {
			var first string
			for _, workers := range []int{1, 2, 3, 8, 0} {
				if workers == 0 {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
				}
				o.Rounds, o.Seed, o.Workers = 6, 7, workers
				text := text1(t, boost(t, x, y, nil, o))
				if first == "" {
					first = text
				} else if text != first {
					t.Fatalf("%d workers give another model", workers)
				}
			}
		})
	}
}

// TestTreesKeepToTheOptions checks trees against random options.
func TestTreesKeepToTheOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := BoostOptions{
			Objective:    Objective(rapid.IntRange(0, 2).Draw(t, "objective")),
			Classes:      3,
			Rounds:       3,
			Leaves:       rapid.IntRange(1, 20).Draw(t, "leaves"),
			MinLeaf:      rapid.IntRange(1, 30).Draw(t, "least"),
			Bins:         rapid.IntRange(2, 255).Draw(t, "bins"),
			RowSample:    rapid.Float64Range(0.1, 1).Draw(t, "rows"),
			ColumnSample: rapid.Float64Range(0.1, 1).Draw(t, "columns"),
			L2:           rapid.Float64Range(0, 3).Draw(t, "l2"),
			Seed:         rapid.Uint64().Draw(t, "seed"),
		}
		n := rapid.IntRange(1, 300).Draw(t, "n")
		cols := rapid.IntRange(3, 9).Draw(t, "cols")
		x, y := noisy(o.Seed, n, cols, rapid.Float64Range(0, 1).Draw(t, "missing"), classesOf)
		m, err := Boost(context.Background(), x, y, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.trees {
			tr := &m.trees[i]
			if len(tr.leaves) > o.Leaves || len(tr.leaves) != len(tr.nodes)+1 {
				t.Fatalf("%d leaves, %d nodes", len(tr.leaves), len(tr.nodes))
			}
			sum := 0
			for _, l := range tr.leafInfo {
				sum += int(l.count)
				if int(l.count) < o.MinLeaf && len(tr.leaves) > 1 {
					t.Fatalf("a leaf of %d rows", l.count)
				}
			}
			if sum != share(o.RowSample, n) {
				t.Fatalf("leaves hold %d rows of %d", sum, n)
			}
			for _, nd := range tr.info {
				if !(nd.gain > 0) {
					t.Fatalf("gain %g", nd.gain)
				}
			}
		}
		for i, p := range predictions(m, x) {
			if math.IsNaN(p) || math.IsInf(p, 0) {
				t.Fatalf("prediction %d is %g", i, p)
			}
		}
		if _, err := Load(strings.NewReader(text1b(m))); err != nil {
			t.Fatal(err)
		}
	})
}

func text1b(m *Model) string {
	var b bytes.Buffer
	if err := m.WriteLightGBM(&b, nil); err != nil {
		return err.Error()
	}
	return b.String()
}

func TestOddSamples(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		x    Matrix
		y    []float64
		want float64
	}{
		"one row":          {Matrix{1, 1, []float64{3}}, []float64{7}, 7},
		"constant targets": {Matrix{4, 1, []float64{1, 2, 3, 4}}, []float64{5, 5, 5, 5}, 5},
		"constant column":  {Matrix{3, 1, []float64{1, 1, 1}}, []float64{1, 2, 6}, 3},
		"missing column":   {Matrix{3, 1, []float64{nan, nan, nan}}, []float64{1, 2, 6}, 3},
		"too few rows":     {Matrix{3, 1, []float64{1, 2, 3}}, []float64{1, 2, 6}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := boost(t, c.x, c.y, nil, BoostOptions{Rounds: 5, MinLeaf: 2})
			for _, p := range predictions(m, c.x) {
				if math.Abs(p-c.want) > 1e-9 {
					t.Errorf("%g, want %g", p, c.want)
				}
			}
			sameAsServed(t, m, c.x)
		})
	}
	// Huge, tiny and close values.
	x := Matrix{6, 1, []float64{-math.MaxFloat64, -1, math.Nextafter(1, 0), 1, math.Nextafter(1, 2), math.MaxFloat64}}
	y := []float64{1, 2, 3, 4, 5, 6}
	m := boost(t, x, y, nil, BoostOptions{Rounds: 1, MinLeaf: 1, LearningRate: 1})
	for i, p := range predictions(m, x) {
		if math.Abs(p-y[i]) > 1e-9 {
			t.Errorf("row %d: %g, want %g", i, p, y[i])
		}
	}
	sameAsServed(t, m, x)
}

func TestRefusedSamples(t *testing.T) {
	x := Matrix{2, 1, []float64{1, 2}}
	y := []float64{0, 1}
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		x    Matrix
		y, w []float64
		o    BoostOptions
		want string
	}{
		"no rows":         {Matrix{0, 1, nil}, nil, nil, BoostOptions{}, "0 rows"},
		"short data":      {Matrix{2, 2, []float64{1, 2}}, y, nil, BoostOptions{}, "2 numbers for 2 rows of 2"},
		"targets":         {x, []float64{1}, nil, BoostOptions{}, "1 targets"},
		"weights":         {x, y, []float64{1}, BoostOptions{}, "1 weights"},
		"infinite":        {Matrix{2, 1, []float64{1, inf}}, y, nil, BoostOptions{}, "row 1, column 0 is infinite"},
		"target NaN":      {x, []float64{0, nan}, nil, BoostOptions{}, "target of row 1"},
		"target huge":     {x, []float64{0, 1e80}, nil, BoostOptions{}, "target of row 1"},
		"weight negative": {x, y, []float64{1, -1}, BoostOptions{}, "weight of row 1"},
		"no weight":       {x, y, []float64{0, 0}, BoostOptions{}, "no row counts"},
		"class": {x, []float64{0, 2}, nil, BoostOptions{Objective: Softmax, Classes: 2},
			"classes are 0 to 1"},
		"half class": {x, []float64{0, 0.5}, nil, BoostOptions{Objective: Softmax, Classes: 2}, "classes are 0 to 1"},
		"one class":  {x, y, nil, BoostOptions{Objective: Softmax, Classes: 1}, "classes 1"},
		"objective":  {x, y, nil, BoostOptions{Objective: 9}, "objective"},
		"bins":       {x, y, nil, BoostOptions{Bins: 256}, "bins 256"},
		"leaves":     {x, y, nil, BoostOptions{Leaves: -1}, "leaves -1"},
		"rate":       {x, y, nil, BoostOptions{LearningRate: nan}, "learning rate"},
		"rounds":     {x, y, nil, BoostOptions{Rounds: -1}, "rounds"},
		"row sample": {x, y, nil, BoostOptions{RowSample: 2}, "row sample"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Boost(context.Background(), c.x, c.y, c.w, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	x, y := noisy(51, 500, 4, 0, classesOf)
	ctx, cancel := context.WithCancel(context.Background())
	rounds := 0
	_, err := Boost(ctx, x, y, nil,
		BoostOptions{Objective: Softmax, Classes: 3, Rounds: 100_000, Progress: func(round int) {
			if rounds++; round != rounds {
				t.Errorf("round %d after %d", round, rounds-1)
			}
			if rounds == 3 {
				cancel()
			}
		}})
	if !errors.Is(err, context.Canceled) || rounds != 3 {
		t.Errorf("%v after %d rounds", err, rounds)
	}
}

// TestImportance checks that irrelevant features have almost no gain.
func TestImportance(t *testing.T) {
	f := func(row []float64, src *rand.Rand) float64 { return 4*row[1] + 2*row[3] + 0.5*src.NormFloat64() }
	x, y := noisy(71, 3000, 6, 0, f)
	gain, splits := boost(t, x, y, nil, BoostOptions{Rounds: 30, Leaves: 8}).Importance()
	sum := 0.0
	for _, g := range gain {
		sum += g
	}
	if gain[1] < 2*gain[3] || gain[1]+gain[3] < 0.95*sum {
		t.Errorf("gain %v", gain)
	}
	total := 0
	for _, n := range splits {
		total += n
	}
	if total != 30*7 {
		t.Errorf("%d splits, want 7 in each of 30 trees", total)
	}
}

func ExampleBoost() {
	// The class is whether the first feature exceeds 2; the second is noise.
	x := Matrix{Rows: 6, Cols: 2, Data: []float64{1, 5, 2, 7, 1, 6, 3, 5, 4, 7, 3, 6}}
	y := []float64{0, 0, 0, 1, 1, 1}
	m, err := Boost(context.Background(), x, y, nil,
		BoostOptions{Objective: Softmax, Classes: 2, Rounds: 50, MinLeaf: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := make([]float64, 2)
	m.Predict([]float64{3.5, 6}, p)
	fmt.Printf("%.2f\n", p)
	_, splits := m.Importance()
	fmt.Println(splits[0] > 0, splits[1])
	// Output:
	// [0.00 1.00]
	// true 0
}
