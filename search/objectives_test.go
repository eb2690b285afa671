package search

import (
	"math"
	"math/rand/v2"

	"github.com/autosched/autosched/search/objectives"
	"github.com/autosched/autosched/space"
)

// objective is one of the functions that BlueFin was measured on, to maximise.
type objective struct{ *objectives.Objective }

var published = []objective{find("quad2"), find("quad5"), find("cat4"), find("jctnoisy")}

func find(name string) objective {
	o, err := objectives.Find(name)
	if err != nil {
		panic(err)
	}
	return objective{o}
}

func (o objective) reward(x []float64) float64 { return -o.Cost(x) }

// axes are the parameters as the original registers them: no log scale.
func (o objective) axes() []Axis {
	var axes []Axis
	for _, p := range o.Params {
		switch p.Kind {
		case space.KindCategorical: // coded 0, 1, ... and started at 0
			axes = append(axes, Axis{High: float64(len(p.Categories) - 1), Int: true})
		default:
			axes = append(axes, Axis{Low: p.Min, High: p.Max, Start: p.Default.Float(), Step: p.Step,
				Int: p.Kind == space.KindInt})
		}
	}
	return axes
}

// observed returns the reward at x with noise.
func (o objective) observed(x []float64, rng *rand.Rand) float64 {
	return o.reward(x) * (1 + o.Noise*rng.NormFloat64())
}

// blueFinRegret runs the plain algorithm: the optimum minus the true reward of
// the best observed point.
func (o objective) blueFinRegret(opts BlueFinOptions, evaluations int, seed uint64) float64 {
	b, err := NewBlueFin(o.axes(), opts, seed)
	if err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	best, regret := math.Inf(-1), 0.0
	look := func(x []float64) float64 {
		r := o.observed(x, rng)
		if r > best {
			best, regret = r, -o.Optimum-o.reward(x)
		}
		return r
	}
	for done := 0; done < evaluations; {
		plus, minus := look(b.Plus()), 0.0
		if done++; !opts.OnePoint {
			minus = look(b.Minus())
			done++
		}
		b.Update(plus, minus)
	}
	return regret
}

// samplerRegret is the same for a sampler without a model.
func (o objective) samplerRegret(name string, evaluations int, seed uint64) float64 {
	s := o.Space()
	sampler, err := NewSampler(name, Setup{Space: s, Start: s.Default(), Seed: seed})
	if err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	best, regret := math.Inf(-1), 0.0
	for step, done := 0, 0; done < evaluations; step++ {
		for _, g := range sampler.Suggest(Request{Step: step, N: evaluations - done}) {
			x := o.Numbers(g.Config)
			if r := o.observed(x, rng); r > best {
				best, regret = r, -o.Optimum-o.reward(x)
			}
			done++
		}
	}
	return regret
}

func sq(x float64) float64 { return x * x }
