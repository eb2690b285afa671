package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
)

// someGP draws points and values for a process with given hyper-parameters.
func someGP(n int, seed uint64) (*gp, [][]float64, []float64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	g := &gp{kernel: matern52, nominal: []bool{false, true, false}, weights: []float64{2, 0.7, 9}, noise: 0.01}
	var x [][]float64
	var y []float64
	for range n {
		p := []float64{rng.Float64(), float64(rng.IntN(3)), rng.Float64()}
		x = append(x, p)
		y = append(y, math.Sin(3*p[0])+0.3*p[1]+0.05*rng.NormFloat64())
	}
	return g, x, y
}

// The posterior must equal the textbook's formula with explicit inverses.
func TestPosteriorAgreesWithTheFormula(t *testing.T) {
	g, x, y := someGP(15, 1)
	g.reset(len(x))
	for i := range x {
		g.add(x[i], y[i])
	}
	g.ready(false)
	n := len(x)
	c := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			c.Set(i, j, g.correlation(x[i], x[j]))
		}
		c.Set(i, i, 1+g.noise+jitter)
	}
	var inv mat.Dense
	if err := inv.Inverse(c); err != nil {
		t.Fatal(err)
	}
	one, target := mat.NewVecDense(n, nil), mat.NewVecDense(n, y)
	for i := range n {
		one.SetVec(i, 1)
	}
	ones := mat.Inner(one, &inv, one)
	mean := mat.Inner(one, &inv, target) / ones
	resid := mat.NewVecDense(n, nil)
	for i := range n {
		resid.SetVec(i, y[i]-mean)
	}
	scale := (priorWeight + mat.Inner(resid, &inv, resid)) / float64(priorWeight+n)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("mean", g.mean, mean)
	near("scale", g.scale, scale)
	v := make([]float64, n)
	for _, at := range [][]float64{{0.3, 1, 0.9}, {0, 0, 0}, x[4]} {
		k := mat.NewVecDense(n, nil)
		for i := range n {
			k.SetVec(i, g.correlation(at, x[i]))
		}
		u := 1 - mat.Inner(one, &inv, k)
		wantMean := mean + mat.Inner(k, &inv, resid)
		wantVar := scale * (1 - mat.Inner(k, &inv, k) + u*u/ones)
		gotMean, gotVar := g.predict(at, v)
		near("posterior mean", gotMean, wantMean)
		near("posterior variance", gotVar, wantVar)
		near("guess", g.guess(at, v), wantMean)
	}
}

// Adding points one at a time and dropping some again leaves the same bits as
// never having had them.
func TestPointsComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 30).Draw(t, "n")
		g, x, y := someGP(n+5, rapid.Uint64().Draw(t, "seed"))
		g.reset(n + 5)
		for i := range n {
			g.add(x[i], y[i])
		}
		g.ready(false)
		factor, alpha := slices.Clone(g.l), slices.Clone(g.alpha[:n])
		for i := n; i < n+5; i++ {
			g.add(x[i], y[i])
		}
		g.ready(true)
		g.n = n
		g.ready(false)
		for i := range n {
			if !slices.Equal(factor[i*g.wide:i*g.wide+i+1], g.l[i*g.wide:i*g.wide+i+1]) || alpha[i] != g.alpha[i] {
				t.Fatalf("row %d changed", i)
			}
		}
	})
}

func TestLogImprovement(t *testing.T) {
	// From the definition with 60 digits.
	for z, want := range map[float64]float64{
		3: 1.0987396393, 0: -0.9189385332, -1: -2.4851210054, -5: -16.7437098, -10: -55.553122036, -20: -206.9177746,
		-30: -457.72466, -100: -5010.1295789,
	} {
		if got := logH(z); math.Abs(got-want) > 2e-4*math.Abs(want) {
			t.Errorf("at %v: %v, want %v", z, got, want)
		}
	}
	last := math.Inf(-1)
	for z := -40.0; z < 5; z += 0.01 {
		h := logH(z)
		if !(h > last-1e-6) {
			t.Fatalf("not increasing at %v: %v after %v", z, h, last)
		}
		last = h
	}
}

func TestHermite(t *testing.T) {
	var moments [5]float64
	for _, h := range hermite {
		for k := range moments {
			moments[k] += h[1] * math.Pow(h[0], float64(k))
		}
	}
	for k, want := range []float64{1, 0, 1, 0, 3} {
		if math.Abs(moments[k]-want) > 1e-9 {
			t.Errorf("moment %d is %v, want %v", k, moments[k], want)
		}
	}
}

func TestWarpsAreMonotoneAndInvertible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 30).Draw(t, "values")
		for w := range warpKinds {
			f, ok := fitWarp(w, values)
			if !ok {
				continue
			}
			sorted := slices.Sorted(slices.Values(values))
			for i, v := range sorted {
				y := f.forward(v)
				if !finite(y) || i > 0 && y < f.forward(sorted[i-1]) {
					t.Fatalf("warp %d maps %v to %v", w, v, y)
				}
				if back := f.back(y); math.Abs(back-v) > 1e-6*(1+math.Abs(v)+f.knee) && v > 1e-290 {
					t.Fatalf("warp %d: %v comes back as %v", w, v, back)
				}
			}
		}
	})
}

// A settled point does not change, and equals the encoding of its configuration.
func TestSettleIsWhatEncodeSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := find(rapid.SampledFrom([]string{"quad5", "cat4", "jctnoisy", "branch", "ladder", "ints8"}).Draw(t,
			"objective"))
		e := newEncoder(o.Space())
		x := rapid.SliceOfN(rapid.Float64Range(0, 1), len(e.dims), len(e.dims)).Draw(t, "x")
		e.settle(x)
		again := e.space.Encode(e.space.Decode(x))
		for i := range x {
			if math.Abs(x[i]-again[i]) > 1e-5 {
				t.Fatalf("coordinate %d settles at %v but encodes to %v", i, x[i], again[i])
			}
		}
		f := make([]float64, e.features)
		e.encode(f, x)
		for i, v := range f {
			if !(v >= -1e-9) || !e.nominal[i] && v > 1+1e-9 {
				t.Fatalf("feature %d is %v", i, v)
			}
		}
	})
}

// A sampler recreated in the middle of a study proposes the same: its proposals depend
// on the history alone.
func TestSamplersAreFunctionsOfTheHistory(t *testing.T) {
	testshared.Full(t)
	s := ladder(t)
	for _, e := range Samplers {
		setup := Setup{Space: s, Start: s.Default(), Seed: 5, Budget: 40}
		sampler, err := e.New(setup)
		if err != nil {
			t.Fatal(err)
		}
		if _, learns := sampler.(Learner); learns {
			continue // carries its state; see TestStateContinuesAcrossStudies
		}
		var asked []Request
		var answers [][]Suggestion
		spy := samplerFunc(func(q Request) []Suggestion {
			out := sampler.Suggest(q)
			q.History = slices.Clone(q.History)
			asked, answers = append(asked, q), append(answers, out)
			return out
		})
		if _, err := Tune(context.Background(),
			Options{Space: s, Evaluate: ladderCost, Sampler: spy, Budget: 40}); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{len(asked) - 1, len(asked) / 2, 0} { // later ones first
			again, _ := e.New(setup)
			got := again.Suggest(asked[i])
			if len(got) != len(answers[i]) {
				t.Fatalf("%s: %d suggestions at step %d, before %d", e.Name, len(got), asked[i].Step, len(answers[i]))
			}
			for k := range got {
				if !got[k].Config.Equal(answers[i][k].Config) {
					t.Errorf("%s: suggestion %d of step %d is %v, before %v",
						e.Name, k, asked[i].Step, got[k].Config, answers[i][k].Config)
				}
			}
		}
	}
}

type samplerFunc func(Request) []Suggestion

func (f samplerFunc) Suggest(q Request) []Suggestion { return f(q) }
