package arrivals

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// TestRidgeSolvesTheNormalEquations of standardised features, written out.
func TestRidgeSolvesTheNormalEquations(t *testing.T) {
	const n, p = 60, 4
	r := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(n, p, nil)
	y := mat.NewVecDense(n, nil)
	got := newRidge(p)
	for i := range n {
		row := []float64{r.NormFloat64(), 3 + 2*r.Float64(), 7, float64(i % 3)} // the third is constant
		x.SetRow(i, row)
		y.SetVec(i, 2*row[0]-row[1]+0.5*row[3]+0.1*r.NormFloat64())
		got.learn(row, y.AtVec(i))
	}
	got.refit()
	var mean, sd [p]float64
	var meanY float64
	for i := range n {
		meanY += y.AtVec(i) / n
		for j := range p {
			mean[j] += x.At(i, j) / n
		}
	}
	for j := range p {
		for i := range n {
			sd[j] += (x.At(i, j) - mean[j]) * (x.At(i, j) - mean[j]) / n
		}
		sd[j] = math.Sqrt(sd[j])
	}
	var a mat.Dense
	z := mat.NewDense(n, 3, nil)
	yc := mat.NewVecDense(n, nil)
	kept := []int{0, 1, 3}
	for i := range n {
		yc.SetVec(i, y.AtVec(i)-meanY)
		for k, j := range kept {
			z.Set(i, k, (x.At(i, j)-mean[j])/sd[j])
		}
	}
	a.Mul(z.T(), z)
	for k := range kept {
		a.Set(k, k, a.At(k, k)+ridgePenalty)
	}
	var b, want mat.VecDense
	b.MulVec(z.T(), yc)
	if err := want.SolveVec(&a, &b); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		row := []float64{r.NormFloat64(), 3 + 2*r.Float64(), 7, float64(r.IntN(3))}
		v := meanY
		for k, j := range kept {
			v += want.AtVec(k) * (row[j] - mean[j]) / sd[j]
		}
		if g := got.level(row); math.Abs(g-v) > 1e-9 {
			t.Errorf("ridge says %.12f, the normal equations %.12f", g, v)
		}
	}
	// A day later the same origins weigh less, so the penalty weighs more.
	strong := math.Abs(got.coef[0])
	got.refit()
	if weak := math.Abs(got.coef[0]); !(weak < strong) {
		t.Errorf("a coefficient of %g became %g with age", strong, weak)
	}
}

func TestBestWeights(t *testing.T) {
	for _, c := range []struct {
		name   string
		errors []float64
		want   []float64
	}{
		{"independent: by inverse variance", []float64{1, 0, 0, 4}, []float64{0.8, 0.2}},
		{"one only adds noise to the other", []float64{1, 1, 1, 3}, []float64{1, 0}},
		{"beyond: the constraint holds", []float64{1, 2, 2, 5}, []float64{1, 0}},
		{"opposite errors cancel", []float64{1, -1, -1, 1}, []float64{0.5, 0.5}},
	} {
		got := bestWeights(c.errors, []float64{0.5, 0.5})
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-4 {
				t.Errorf("%s: weights %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
	if got := bestWeights(make([]float64, 4), []float64{0.3, 0.7}); got[0] != 0.3 {
		t.Errorf("without a back-test the weights became %v", got)
	}
}

// TestBestWeightsAreTheBest of weights that are not negative and add up to one.
func TestBestWeightsAreTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 2
		e := make([]float64, n*n)
		for range rapid.IntRange(1, 30).Draw(t, "outcomes") {
			common := rapid.Float64Range(-1, 1).Draw(t, "common")
			v := make([]float64, n)
			for i := range v {
				v[i] = common + rapid.Float64Range(-1, 1).Draw(t, "error")
			}
			for i := range v {
				for j := range v {
					e[i*n+j] += v[i] * v[j]
				}
			}
		}
		loss := func(w []float64) (s float64) {
			for i := range w {
				for j := range w {
					s += w[i] * e[i*n+j] * w[j]
				}
			}
			return s
		}
		even := make([]float64, n)
		for i := range even {
			even[i] = 1 / float64(n)
		}
		got := bestWeights(e, even)
		var sum float64
		for _, w := range got {
			sum += w
			if w < 0 {
				t.Fatalf("weights %v", got)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("weights %v add up to %g", got, sum)
		}
		for range 20 {
			other, total := make([]float64, n), 0.0
			for i := range other {
				other[i] = rapid.Float64Range(0, 1).Draw(t, "other")
				total += other[i]
			}
			if total == 0 {
				continue
			}
			for i := range other {
				other[i] /= total
			}
			// The diagonal has a millionth added, for the sake of rounding.
			if l := loss(got); l > loss(other)*(1+1e-4)+1e-8 {
				t.Fatalf("weights %v lose %g, %v only %g", got, l, other, loss(other))
			}
		}
	})
}

func TestLowPass(t *testing.T) {
	const day, hour = 288, 12
	wave := func(period float64, i int) float64 { return math.Sin(2 * math.Pi * float64(i) / period) }
	values, want := make([]float64, 3*day), make([]float64, 3*day)
	for i := range values {
		want[i] = 5 + 2*wave(day, i) + wave(2*hour, i)
		values[i] = want[i] + 1.5*wave(hour, i) + wave(6, i)
	}
	var l lowPass
	for range 2 { // the rest passes again
		l.apply(values, 2*hour)
		for i := range values {
			if math.Abs(values[i]-want[i]) > 1e-9 {
				t.Fatalf("bin %d: %.12f, want %.12f", i, values[i], want[i])
			}
		}
	}
	spike := make([]float64, day)
	spike[100] = 1
	l.apply(spike, 2*hour)
	for i, v := range spike {
		if v < 0 {
			t.Errorf("bin %d became %g", i, v)
		}
	}
	l.apply(nil, 2*hour)
}

func TestMatch(t *testing.T) {
	//                 0  1  2  3  4  5  6  7  8  9 10 11
	series := []float64{1, 2, 3, 9, 9, 9, 4, 8, 12, 0, 1, 2}
	if got, ok := match(series, 3, 1, nil); !ok || got != 3 { // 1 2 3 is nearest to 0 1 2
		t.Errorf("the place before %d, %v; want 3", got, ok)
	}
	most := func(a, b []float64) float64 { return -math.Abs(a[0] - b[0]) }
	if got, ok := match([]float64{0, 5, 9, 3, 0}, 1, 1, most); !ok || got != 3 { // 9 is least like 0
		t.Errorf("by another measure: %d, %v, want 3", got, ok)
	}
	if got, ok := match([]float64{0, 0, 0, 0, 0, 0}, 2, 2, nil); !ok || got != 4 {
		t.Errorf("of equals %d was taken (%v), not the latest", got, ok)
	}
	if _, ok := match([]float64{1, 2, 3}, 2, 2, nil); ok {
		t.Error("a place was found whose future is not known")
	}
}
