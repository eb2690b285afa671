package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/autosched/autosched/space"
)

// objective is a test function to maximise; its optimum is known.
type objective struct {
	name    string
	params  []space.Param
	optimum float64
	reward  func(x []float64) float64 // categories as numbers, without noise
	noise   float64                   // relative standard deviation
}

func float(id string, low, high, start float64) space.Param {
	return space.Param{ID: id, Kind: space.KindFloat, Min: low, Max: high, Default: space.Num(start)}
}

func integer(id string, low, high float64, start int) space.Param {
	return space.Param{ID: id, Kind: space.KindInt, Min: low, Max: high, Default: space.Int(start)}
}

func sq(x float64) float64 { return x * x }

// objectives are the four functions BlueFin was measured on.
var objectives = []objective{
	{
		name:   "quad2",
		params: []space.Param{float("x", 0, 10, 5), integer("n", 1, 10, 4)},
		reward: func(v []float64) float64 { return -(sq((v[0]-2.3)/10) + sq((v[1]-8)/9)) },
	},
	{
		name: "quad5",
		params: []space.Param{
			float("a", 0, 1, 0.5), float("b", -5, 5, 0),
			{ID: "c", Kind: space.KindFloat, Min: 100, Max: 900, Step: 100, Default: space.Num(500)},
			integer("m", 0, 20, 10), integer("q", 1, 5, 3),
		},
		reward: func(v []float64) float64 {
			u := []float64{v[0], (v[1] + 5) / 10, (v[2] - 100) / 800, v[3] / 20, (v[4] - 1) / 4}
			t := []float64{.15, .8, .75, .3, .75}
			var d [5]float64
			var dd float64
			for i := range d {
				d[i] = u[i] - t[i]
				dd += sq(d[i])
			}
			return -(dd + .8*d[0]*d[1] + .6*d[2]*d[3])
		},
	},
	{
		name: "cat4",
		params: []space.Param{
			{ID: "policy", Kind: space.KindCategorical, Categories: []string{"fifo", "sjf", "las", "gittins"}, Default: space.Text("fifo")},
			float("x", 0, 1, 0.5), integer("k", 1, 16, 8),
			{ID: "b", Kind: space.KindCategorical, Categories: []string{"off", "on"}, Default: space.Text("off")},
		},
		reward: func(v []float64) float64 {
			p := int(v[0])
			r := []float64{.35, .15, .05, 0}[p] + sq(v[1]-[]float64{.5, .3, .2, .85}[p]) + sq((v[2]-[]float64{8, 4, 12, 3}[p])/15)
			if v[3] == 0 {
				r += .1
			}
			return -r
		},
	},
	{
		name: "jctnoisy",
		params: []space.Param{
			{ID: "thr", Kind: space.KindFloat, Min: 60, Max: 36000, Log: true, Default: space.Num(3600)},
			integer("queues", 1, 6, 3), float("ratio", 1, 20, 4), integer("cap", 1, 32, 16),
		},
		optimum: -10000,
		noise:   0.05,
		reward: func(v []float64) float64 {
			l := (math.Log(v[0]) - math.Log(60)) / (math.Log(36000) - math.Log(60))
			r := 1 + 2*sq(l-.42) + .15*sq((v[1]-2)/5) + .4*sq((v[2]-6)/19) + .8*sq((v[3]-20)/31)
			if v[3] > 24 {
				r += .5
			}
			return -10000 * r
		},
	},
}

func (o objective) space() *space.Space {
	s, err := space.New(o.params, nil)
	if err != nil {
		panic(err)
	}
	return s
}

// axes are the parameters as the original registers them: no log scale.
func (o objective) axes() []Axis {
	var axes []Axis
	for _, p := range o.params {
		switch p.Kind {
		case space.KindCategorical: // coded 0, 1, ... and started at 0
			axes = append(axes, Axis{High: float64(len(p.Categories) - 1), Int: true})
		default:
			axes = append(axes, Axis{Low: p.Min, High: p.Max, Start: p.Default.Float(), Step: p.Step, Int: p.Kind == space.KindInt})
		}
	}
	return axes
}

// numbers returns a configuration as the objective reads it.
func (o objective) numbers(c space.Config) []float64 {
	var x []float64
	for _, p := range o.params {
		v := c.Get(p.ID)
		if p.Kind == space.KindCategorical {
			x = append(x, float64(slices.Index(p.Categories, v.Text())))
		} else {
			x = append(x, v.Float())
		}
	}
	return x
}

// observed returns the reward at x with noise.
func (o objective) observed(x []float64, rng *rand.Rand) float64 {
	return o.reward(x) * (1 + o.noise*rng.NormFloat64())
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
			best, regret = r, o.optimum-o.reward(x)
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

// samplerRegret does the same for a sampler over the space.
func (o objective) samplerRegret(name string, evaluations int, seed uint64) float64 {
	s := o.space()
	sampler, err := NewSampler(name, Setup{Space: s, Start: s.Default(), Seed: seed})
	if err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	best, regret := math.Inf(-1), 0.0
	for _, c := range sampler.Suggest(nil, evaluations) {
		x := o.numbers(c)
		if r := o.observed(x, rng); r > best {
			best, regret = r, o.optimum-o.reward(x)
		}
	}
	return regret
}
