package objectives

import (
	"math"

	"github.com/autosched/autosched/space"
)

// shapes are functions of other benchmarks and worst cases of schedulers' parameters:
// each violates an assumption of some model.
var shapes = []Objective{
	{
		Name:        "valley",
		Description: "a bent, rotated valley over four numbers (Rosenbrock's), spanning five orders of magnitude",
		Params: []space.Param{float("a", -2, 2, -1), float("b", -2, 2, 1.5), float("c", -2, 2, 0),
			float("d", -2, 2, -.5)},
		Optimum: 1,
		Cost: func(v []float64) float64 {
			r := 1.0
			for i := range 3 {
				r += 100*sq(v[i+1]-sq(v[i])) + sq(1-v[i])
			}
			return r
		},
	},
	{
		Name: "ripples", Description: "a wide bowl under ripples: dozens of valleys in three numbers (Rastrigin's)",
		Params:  []space.Param{float("a", -3, 3, 2), float("b", -3, 3, -2), float("c", -3, 3, 1)},
		Optimum: 10,
		Cost: func(v []float64) float64 {
			r := 10.0
			for _, x := range v {
				r += sq(x-.5) + 3*(1-math.Cos(2*math.Pi*(x-.5)))
			}
			return r
		},
	},
	{
		Name: "needle", Description: "flat but for a small region in three numbers",
		Params:  []space.Param{float("a", 0, 1, .1), float("b", 0, 1, .1), float("c", 0, 1, .1)},
		Optimum: 50,
		Cost: func(v []float64) float64 {
			r := math.Sqrt(sq(v[0]-.6) + sq(v[1]-.3) + sq(v[2]-.8))
			return 50 + 50*min(r/.35, 1)
		},
	},
	{
		Name: "decoy", Description: "a wide valley that leads away from the narrow one with the optimum",
		Params:  []space.Param{float("a", 0, 1, .5), float("b", 0, 1, .5), category("c", "x", "y")},
		Optimum: 100,
		Cost: func(v []float64) float64 {
			wide := 15 + 40*(sq(v[0]-.2)+sq(v[1]-.25))
			narrow := 600 * (sq(v[0]-.8) + sq(v[1]-.75))
			return 100 + min(wide, narrow) + 5*v[2]
		},
	},
	{
		Name: "stairs", Description: "five numbers that count in steps only, some of them coupled",
		Params: []space.Param{float("a", 0, 1, .5), float("b", 0, 1, .5), logScale(float("c", 1, 1e4, 100)),
			float("d", 0, 1, .5), integer("e", 0, 100, 50)},
		Optimum: 10,
		Cost: func(v []float64) float64 {
			step := func(x float64, n float64) float64 { return math.Floor(n*math.Abs(x)) / n }
			return 10 + 5*step(v[0]-.83, 8) + 4*step(v[1]-v[0]/2, 6) + 3*step(share(v[2], 1, 1e4)-.21, 10) +
				2*step(v[3]-.5, 5) + 3*step((v[4]-7)/100, 9)
		},
	},
	{
		Name: "cats6", Description: "six categories of five, in pairs that suit each other, and one number",
		Params: []space.Param{
			category("a", "p", "q", "r", "s", "t"), category("b", "p", "q", "r", "s", "t"),
			category("c", "p", "q", "r", "s", "t"),
			category("d", "p", "q", "r", "s", "t"), category("e", "p", "q", "r", "s", "t"),
			category("f", "p", "q", "r", "s", "t"), float("x", 0, 1, .5),
		},
		Optimum: 20,
		Cost: func(v []float64) float64 {
			r := 20 + 8*sq(v[6]-.37)
			for i := 0; i < 6; i += 2 {
				a, b := int(v[i]), int(v[i+1])
				r += []float64{0, 3, 1, 2, 4}[(a+i)%5] + 3*[]float64{0, 1, 1, 1, 1}[(a+b+i)%5]
			}
			return r
		},
	},
	{
		Name: "tails", Description: "noise with heavy tails that grows with the cost",
		Params: []space.Param{logScale(float("a", 1, 1000, 30)), float("b", 0, 1, .5), integer("c", 1, 8, 4),
			category("d", "x", "y", "z")},
		Optimum: 1000, HeavyTails: true,
		NoiseAt: func(v []float64) float64 { return .04 + .15*math.Abs(share(v[0], 1, 1000)-.6) },
		Cost: func(v []float64) float64 {
			return 1000 * (1 + 1.5*sq(share(v[0], 1, 1000)-.6) + sq(v[1]-.2) + .6*sq((v[2]-3)/7) +
				[3]float64{.15, .3, 0}[int(v[3])])
		},
	},
	{
		Name: "noise50", Description: "four numbers under 50 % noise",
		Params: []space.Param{float("a", 0, 1, .5), float("b", 0, 1, .5), integer("c", 0, 6, 3),
			category("d", "x", "y")},
		Optimum: 100, Noise: .5,
		Cost: func(v []float64) float64 {
			return 100 * (1 + 2*sq(v[0]-.8) + sq(v[1]-.1) + .8*sq((v[2]-5)/6) + .4*(1-v[3]))
		},
	},
	{
		Name: "wave1", Description: "one number, several valleys",
		Params:  []space.Param{float("x", 0, 10, 5)},
		Optimum: 5,
		Cost:    func(v []float64) float64 { return 5 + 2*(1-math.Cos(3*(v[0]-7.1))) + .3*math.Abs(v[0]-7.1) },
	},
	{
		Name: "cliff1", Description: "one number on a log scale, a cliff beside the optimum",
		Params:  []space.Param{logScale(float("x", 1, 1e6, 1e5))},
		Optimum: 10,
		Cost: func(v []float64) float64 {
			if r := share(v[0], 1, 1e6) - .31; r < 0 {
				return 1000
			} else {
				return 10 * (1 + 5*r)
			}
		},
	},
	{
		Name: "two12", Description: "twelve numbers of which two matter, together only",
		Params: func() []space.Param {
			var out []space.Param
			for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
				out = append(out, float(id, 0, 1, .5))
			}
			return out
		}(),
		Optimum: 10,
		Cost: func(v []float64) float64 {
			return 10 * (1 + 4*sq(v[3]-v[8]-.4) + 2*sq(v[3]+v[8]-1))
		},
	},
	{
		Name: "tiny36", Description: "36 configurations, without a pattern",
		Params: []space.Param{category("a", "x", "y", "z"), integer("b", 1, 4, 2), category("c", "u", "v", "w")},
		Cost: func(v []float64) float64 {
			return float64((int(v[0])*17 + int(v[1])*29 + int(v[2])*11 + int(v[0]*v[1]*v[2])*7 + 13) % 37)
		},
	},
	{
		Name: "deep", Description: "parameters that exist only three decisions down",
		Params: []space.Param{
			category("mode", "plain", "adaptive", "learned"),
			{ID: "history", Kind: space.KindBool, Default: space.Bool(false)},
			category("model", "mean", "quantile"), float("quantile", 0, 1, .5), integer("window", 1, 50, 10),
			logScale(float("decay", 1e-3, 1, .1)), float("weight", 0, 1, .5),
		},
		Rules: []space.Rule{
			{ID: "r1", Activation: &space.Activation{Param: "history", When: "mode", Op: space.Equal,
				Value: space.Text("learned")}},
			{ID: "r2", Activation: &space.Activation{Param: "model", When: "history",
				Op: space.Equal, Value: space.Bool(true)}},
			{ID: "r3", Activation: &space.Activation{Param: "quantile", When: "model", Op: space.Equal,
				Value: space.Text("quantile")}},
			{ID: "r4", Activation: &space.Activation{Param: "window", When: "history", Op: space.Equal,
				Value: space.Bool(true)}},
			{ID: "r5", Activation: &space.Activation{Param: "decay", When: "mode", Op: space.Equal,
				Value: space.Text("adaptive")}},
		},
		Optimum: 100,
		Cost: func(v []float64) float64 {
			r := 1 + .3*sq(v[6]-.75)
			switch {
			case v[0] == 0:
				r += .5
			case v[0] == 1:
				r += .25 + sq(share(v[5], 1e-3, 1)-.5)
			case v[1] == 0:
				r += .6
			default:
				r += 1.2*sq((v[4]-35)/49) + .1*(1-v[2])
				if v[2] == 1 {
					r += 2 * sq(v[3]-.9)
				}
			}
			return 100 * r
		},
	},
	{
		Name:        "rungs",
		Description: "three to six thresholds in increasing order, a factor of two apart, and a share that they leave",
		Params: []space.Param{
			integer("n", 3, 6, 3),
			{ID: "t", Kind: space.KindFloat, Min: 1, Max: 1e5, Log: true, Array: &space.Array{Length: "n", Max: 6},
				Default: space.Nums(4, 64, 1024)},
			float("share", 0, 1, .5),
		},
		Rules:   []space.Rule{{ID: "increase", Ordering: &space.Ordering{Params: []string{"t"}, MinRatio: 2}}},
		Optimum: 10,
		Cost: func(v []float64) float64 {
			r := 1 + sq(v[7]-.3)
			for k, best := range [6]float64{3, 20, 100, 900, 1e4, 6e4} {
				if math.IsNaN(v[1+k]) {
					r += .2
				} else {
					r += .6 * math.Abs(share(v[1+k], 1, 1e5)-share(best, 1, 1e5))
				}
			}
			return 10 * r
		},
	},
	{
		Name: "offset", Description: "a bowl a thousandth as high as its offset",
		Params:  []space.Param{float("a", 0, 1, .5), float("b", 0, 1, .5), integer("c", 0, 10, 5)},
		Optimum: 1e6,
		Cost:    func(v []float64) float64 { return 1e6 + 1000*(sq(v[0]-.62)+sq(v[1]-.17)+sq((v[2]-9)/10)) },
	},
	{
		Name: "steep", Description: "four numbers, costs from 1 to a billion",
		Params: []space.Param{float("a", 0, 1, .8), float("b", 0, 1, .8), float("c", 0, 1, .2),
			logScale(float("d", 1, 100, 50))},
		Optimum: 1,
		Cost: func(v []float64) float64 {
			return math.Exp(9 * (sq(v[0]-.25) + sq(v[1]-.4) + sq(v[2]-.9) + sq(share(v[3], 1, 100)-.3)) * 1.2)
		},
	},
	{
		Name: "knobs18", Description: "eighteen parameters of every kind, pairs of which interact",
		Params: func() []space.Param {
			var out []space.Param
			for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
				out = append(out, float(id+"1", 0, 1, .5), integer(id+"2", 0, 4, 2), category(id+"3", "x", "y", "z"))
			}
			return out
		}(),
		Optimum: 100,
		Cost: func(v []float64) float64 {
			r := 1.0
			for i := range 6 {
				x, n, c := v[3*i], v[3*i+1]/4, int(v[3*i+2])
				w := [6]float64{1, .8, .4, .2, .1, .05}[i]
				r += w * (sq(x-[3]float64{.2, .5, .8}[c]) + .5*sq(n-[3]float64{.25, 1, .5}[(c+i)%3]) +
					[3]float64{.1, .2, 0}[(c+i)%3])
			}
			return 100 * r
		},
	},
}
