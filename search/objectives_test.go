package search

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// objective is a function over a space. Costs are not negative and lower is better.
type objective struct {
	Name    string
	Params  []space.Param
	Rules   []space.Rule
	Optimum float64 // the lowest cost
	Noise   float64 // relative standard deviation of a measurement
	// Cost is the true cost at x, one number per dimension of the space's cube: the
	// value of a number, the index of a category, NaN for an inactive parameter.
	Cost func(x []float64) float64
}

// published are the functions on which BlueFin was measured.
var published = objectives[:4]

func find(name string) objective {
	for _, o := range objectives {
		if o.Name == name {
			return o
		}
	}
	panic("no objective " + name)
}

// Space returns the objective's space.
func (o objective) Space() *space.Space {
	s, err := space.New(o.Params, o.Rules)
	if err != nil {
		panic(o.Name + ": " + err.Error())
	}
	return s
}

// numbers returns a configuration as Cost reads it.
func (o objective) numbers(c space.Config) []float64 {
	var x []float64
	for i := range o.Params {
		p := &o.Params[i]
		v := c.Get(p.ID)
		switch {
		case p.Array != nil:
			nums := v.Floats()
			for k := range p.Array.Max {
				if k < len(nums) {
					x = append(x, nums[k])
				} else {
					x = append(x, math.NaN())
				}
			}
		case v.IsZero():
			x = append(x, math.NaN())
		case p.Kind == space.KindCategorical:
			x = append(x, float64(slices.Index(p.Categories, v.Text())))
		case p.Kind == space.KindBool:
			b := 0.0
			if v.Bool() {
				b = 1
			}
			x = append(x, b)
		default:
			x = append(x, v.Float())
		}
	}
	return x
}

// Regret returns the true cost of a configuration above the optimum.
func (o objective) Regret(c space.Config) float64 { return o.Cost(o.numbers(c)) - o.Optimum }

// Measure returns the cost with noise, a function of configuration and seed.
func (o objective) Measure(c space.Config, seed uint64) float64 {
	cost := o.Cost(o.numbers(c))
	if o.Noise == 0 {
		return cost
	}
	h, err := hex.DecodeString(c.Hash()[:16])
	if err != nil {
		panic(err)
	}
	draw := rng.Stream("objectives", seed, binary.LittleEndian.Uint64(h))
	return max(cost*(1+o.Noise*draw.NormFloat64()), 0)
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
func (o objective) blueFinRegret(evaluations int, seed uint64) float64 {
	b, err := NewBlueFin(o.axes(), seed)
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
	for range evaluations / 2 {
		plus := look(b.Plus())
		b.Update(plus, look(b.Minus()))
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
			x := o.numbers(g.Config)
			if r := o.observed(x, rng); r > best {
				best, regret = r, -o.Optimum-o.reward(x)
			}
			done++
		}
	}
	return regret
}

func sq(x float64) float64 { return x * x }

func float(id string, low, high, start float64) space.Param {
	return space.Param{ID: id, Kind: space.KindFloat, Min: low, Max: high, Default: space.Num(start)}
}

func integer(id string, low, high float64, start int) space.Param {
	return space.Param{ID: id, Kind: space.KindInt, Min: low, Max: high, Default: space.Int(start)}
}

func category(id string, names ...string) space.Param {
	return space.Param{ID: id, Kind: space.KindCategorical, Categories: names, Default: space.Text(names[0])}
}

func logScale(p space.Param) space.Param {
	p.Log = true
	return p
}

// share returns where x lies between low and high on a log scale.
func share(x, low, high float64) float64 { return math.Log(x/low) / math.Log(high/low) }

// objectives are BlueFin's published four and others with conditions, arrays, integers and
// an optimum in a corner.
var objectives = []objective{
	{
		Name:   "quad2",
		Params: []space.Param{float("x", 0, 10, 5), integer("n", 1, 10, 4)},
		Cost:   func(v []float64) float64 { return sq((v[0]-2.3)/10) + sq((v[1]-8)/9) },
	},
	{
		Name: "quad5",
		Params: []space.Param{
			float("a", 0, 1, 0.5), float("b", -5, 5, 0),
			{ID: "c", Kind: space.KindFloat, Min: 100, Max: 900, Step: 100, Default: space.Num(500)},
			integer("m", 0, 20, 10), integer("q", 1, 5, 3),
		},
		Cost: func(v []float64) float64 {
			u := [5]float64{v[0], (v[1] + 5) / 10, (v[2] - 100) / 800, v[3] / 20, (v[4] - 1) / 4}
			t := [5]float64{.15, .8, .75, .3, .75}
			var d [5]float64
			var dd float64
			for i := range d {
				d[i] = u[i] - t[i]
				dd += sq(d[i])
			}
			return max(dd+.8*d[0]*d[1]+.6*d[2]*d[3], 0)
		},
	},
	{
		Name: "cat4",
		Params: []space.Param{category("policy", "fifo", "sjf", "las", "gittins"), float("x", 0, 1, 0.5),
			integer("k", 1, 16, 8), category("b", "off", "on")},
		Cost: func(v []float64) float64 {
			p := int(v[0])
			r := [4]float64{.35, .15, .05, 0}[p] + sq(v[1]-[4]float64{.5, .3, .2, .85}[p]) +
				sq((v[2]-[4]float64{8, 4, 12, 3}[p])/15)
			if v[3] == 0 {
				r += .1
			}
			return r
		},
	},
	{
		Name: "jctnoisy",
		Params: []space.Param{logScale(float("thr", 60, 36000, 3600)), integer("queues", 1, 6, 3),
			float("ratio", 1, 20, 4), integer("cap", 1, 32, 16)},
		Optimum: 10000, Noise: 0.05,
		Cost: func(v []float64) float64 {
			r := 1 + 2*sq(share(v[0], 60, 36000)-.42) + .15*sq((v[1]-2)/5) + .4*sq((v[2]-6)/19) + .8*sq((v[3]-20)/31)
			if v[3] > 24 {
				r += .5
			}
			return 10000 * r
		},
	},
	{
		Name: "branch",
		Params: []space.Param{
			category("kind", "lease", "ladder", "plain"), logScale(float("lease", 10, 10000, 100)),
			integer("steps", 1, 12, 6),
			float("ratio", 1, 20, 10), {ID: "pack", Kind: space.KindBool, Default: space.Bool(false)},
			float("limit", 0, 1, 0.5), float("age", 0, 1, 0.5),
		},
		Rules: []space.Rule{
			{ID: "of_lease", Activation: &space.Activation{Param: "lease", When: "kind", Op: space.Equal,
				Value: space.Text("lease")}},
			{ID: "of_ladder", Activation: &space.Activation{Param: "steps", When: "kind", Op: space.Equal,
				Value: space.Text("ladder")}},
			{ID: "ladder_too", Activation: &space.Activation{Param: "ratio", When: "kind", Op: space.Equal,
				Value: space.Text("ladder")}},
			{ID: "of_pack", Activation: &space.Activation{Param: "limit", When: "pack", Op: space.Equal,
				Value: space.Bool(true)}},
		},
		Optimum: 100,
		Cost: func(v []float64) float64 {
			r := 1.0
			switch v[0] {
			case 0:
				r += .1 + 1.5*sq(share(v[1], 10, 10000)-.3)
			case 1:
				r += sq((v[2]-9)/11) + .7*sq((v[3]-4)/19)
			default:
				r += .6
			}
			if v[4] == 1 {
				r += sq(v[5] - .8)
			} else {
				r += .15
			}
			return 100 * (r + .5*sq(v[6]-.2))
		},
	},
	{
		Name: "ladder",
		Params: []space.Param{
			category("priority", "service", "time"), integer("queues", 1, 6, 3),
			{ID: "thresholds", Kind: space.KindFloat, Min: 60, Max: 1e6, Log: true,
				Array: &space.Array{Length: "queues", Offset: -1, Max: 5}, Default: space.Nums(3250, 7200)},
			{ID: "starve", Kind: space.KindDuration, Min: 600, Max: 86400, Log: true,
				Special: []space.Special{{Value: 0, Name: "off"}}, Default: space.Num(3600)},
		},
		Rules: []space.Rule{{ID: "increase",
			Ordering: &space.Ordering{Params: []string{"thresholds"}, MinRatio: 1.1}}},
		Optimum: 1000,
		Cost: func(v []float64) float64 {
			// The cost depends on the share of the range of services that the ladder spans.
			r := .25 * sq((v[1]-5)/5)
			best := [5]float64{3.6e3, 2.2e4, 1.3e5, 5e5, 9e5}
			for k := range 4 {
				if math.IsNaN(v[2+k]) {
					r += .12
				} else {
					r += .8 * sq(share(v[2+k], 60, 1e6)-share(best[k], 60, 1e6))
				}
			}
			if v[0] == 1 {
				r += .1
			}
			if v[7] > 0 {
				r += .02 + .1*sq(1-share(v[7], 600, 86400))
			}
			return 1000 * (1 + r)
		},
	},
	{
		Name: "bound",
		Params: []space.Param{float("a", 0, 1, .5), float("b", -1, 1, 0), logScale(float("c", 1, 1000, 30)),
			integer("d", 0, 20, 10), float("e", 0, 10, 5), integer("f", 1, 5, 3)},
		Cost: func(v []float64) float64 {
			return (1 - v[0]) + .5*(v[1]+1) + .7*share(v[2], 1, 1000) + .6*(1-v[3]/20) + .4*sq(v[4]/10) + .3*(5-v[5])/4
		},
	},
	{
		Name: "ints8",
		Params: []space.Param{
			integer("a", 0, 1, 0), integer("b", 0, 2, 1), integer("c", 0, 3, 1), integer("d", 0, 4, 2),
			integer("e", 0, 1, 0), integer("f", 0, 2, 1), integer("g", 0, 3, 2), integer("h", 0, 4, 1),
		},
		Cost: func(v []float64) float64 {
			r := .3*(1-v[0]) + .2*sq((v[1]-2)/2) + .5*sq((v[2]-3)/3) + .6*sq((v[3]-v[1]-2)/4) + .2*v[4]*(1-v[0]) +
				.3*sq((v[5]-v[4])/2) + .4*sq((v[6])/3) + .3*sq((v[7]-4+v[6])/4)
			if v[4] == 0 {
				r += .1
			}
			return r
		},
	},
}
