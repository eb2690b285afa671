package objectives

import (
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/space"
)

// All lists the objectives, first the four of BlueFin's published results.
var All = slices.Concat(usual, shapes)

// usual are the published four and others with further properties.
var usual = []Objective{
	{
		Name: "quad2", Description: "a smooth bowl over a number and an integer",
		Params: []space.Param{float("x", 0, 10, 5), integer("n", 1, 10, 4)},
		Cost:   func(v []float64) float64 { return sq((v[0]-2.3)/10) + sq((v[1]-8)/9) },
	},
	{
		Name: "quad5", Description: "a coupled bowl over two numbers, one in steps, and two integers",
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
		Name: "cat4", Description: "two categories, each policy with an optimum of its own",
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
		Name: "jctnoisy", Description: "seconds of job completion time with 5 % noise, a log scale and a cliff",
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
		Name: "branch", Description: "a category that decides which numbers exist, one of them on a log scale",
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
		Name: "ladder", Description: "an increasing array as long as an integer says, and a limit that can be off",
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
		Name: "cliff", Description: "a good region behind a cliff on a log scale, fifty times worse before it",
		Params: []space.Param{logScale(float("quantum", 1, 10000, 1000)), logScale(float("restart", 1, 1000, 30)),
			integer("levels", 1, 8, 2), float("share", 0, 1, 0.5)},
		Optimum: 500,
		Cost: func(v []float64) float64 {
			q, r := share(v[0], 1, 10000), share(v[1], 1, 1000)
			if v[0] < 2*v[1] {
				return 500 * (50 + 10*(r-q))
			}
			return 500 * (1 + 1.2*sq(q-.35) + .8*sq(r-.2) + .2*sq((v[2]-6)/7) + .3*math.Abs(v[3]-.7))
		},
	},
	{
		Name: "noise20", Description: "six numbers under 20 % noise",
		Params: []space.Param{float("a", 0, 1, .5), float("b", 0, 1, .5), float("c", 0, 1, .5), integer("d", 0, 10, 5),
			integer("e", 1, 4, 2), category("f", "x", "y", "z")},
		Optimum: 1000, Noise: 0.2,
		Cost: func(v []float64) float64 {
			return 1000 * (1 + sq(v[0]-.7) + 1.5*sq(v[1]-.25) + .3*sq(v[2]-.5) + sq((v[3]-8)/10) + .2*sq((v[4]-3)/3) +
				[3]float64{.3, 0, .5}[int(v[5])])
		},
	},
	{
		Name: "bound", Description: "six parameters whose optimum lies in a corner",
		Params: []space.Param{float("a", 0, 1, .5), float("b", -1, 1, 0), logScale(float("c", 1, 1000, 30)),
			integer("d", 0, 20, 10), float("e", 0, 10, 5), integer("f", 1, 5, 3)},
		Cost: func(v []float64) float64 {
			return (1 - v[0]) + .5*(v[1]+1) + .7*share(v[2], 1, 1000) + .6*(1-v[3]/20) + .4*sq(v[4]/10) + .3*(5-v[5])/4
		},
	},
	{
		Name: "ints8", Description: "eight integers of two to five levels that interact in pairs",
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
	{
		Name:        "hartmann6",
		Description: "six numbers with several valleys (Hartmann's function, shifted to be positive)",
		Params: []space.Param{float("a", 0, 1, .5), float("b", 0, 1, .5), float("c", 0, 1, .5), float("d", 0, 1, .5),
			float("e", 0, 1, .5), float("f", 0, 1, .5)},
		Optimum: 4 - 3.32236801141551,
		Cost:    hartmann6,
	},
	{
		Name: "crash", Description: "a smooth bowl whose best side borders on configurations that fail",
		Params: []space.Param{float("a", 0, 1, .2), float("b", 0, 1, .2), integer("c", 0, 10, 3),
			category("d", "safe", "fast")},
		Optimum: 10,
		Cost: func(v []float64) float64 {
			if v[0]+v[1] > 1.2 || v[3] == 1 && v[2] > 8 {
				return math.Inf(1)
			}
			r := sq(v[0]-.65) + sq(v[1]-.5) + .5*sq((v[2]-7)/10)
			if v[3] == 0 {
				r += .08
			}
			return 10 * (1 + r)
		},
	},
	{
		Name: "wide12", Description: "twelve parameters of which four matter",
		Params: []space.Param{
			float("a", 0, 1, .5), float("b", 0, 1, .5), logScale(float("c", 1, 100, 10)), integer("d", 0, 10, 5),
			float("e", 0, 1, .5), float("f", 0, 1, .5),
			integer("g", 1, 4, 2), category("h", "x", "y", "z"), float("i", 0, 1, .5), integer("j", 0, 20, 10),
			float("k", 0, 1, .5), {ID: "l", Kind: space.KindBool, Default: space.Bool(false)},
		},
		Optimum: 100,
		Cost: func(v []float64) float64 {
			return 100 * (1 + sq(v[0]-.9) + .8*sq(share(v[2], 1, 100)-.15) + .6*sq((v[3]-8)/10) +
				[3]float64{.2, .1, 0}[int(v[7])] + .01*sq(v[8]-.5) + .01*sq(v[4]-v[5]))
		},
	},
	{
		Name: "plateaus", Description: "ten parameters with plateaus and steps, three of them categories of six",
		Params: []space.Param{
			category("a", "p", "q", "r", "s", "t", "u"), category("b", "p", "q", "r", "s", "t", "u"),
			category("c", "p", "q", "r", "s", "t", "u"),
			float("d", 0, 1, .5), float("e", 0, 1, .5), logScale(float("f", 1, 1000, 30)), integer("g", 1, 20, 10),
			integer("h", 1, 8, 4), float("i", 0, 1, .5),
			{ID: "j", Kind: space.KindBool, Default: space.Bool(false)},
		},
		Optimum: 100,
		Cost: func(v []float64) float64 {
			// Distance to the best plateau in steps, one per parameter.
			steps := math.Floor(6*math.Abs(v[3]-.8)) + math.Floor(4*math.Abs(share(v[5], 1, 1000)-.3)) +
				math.Floor(math.Abs(v[6]-15)/4)
			r := .1*steps + [6]float64{.5, .2, 0, .3, .4, .1}[int(v[0])]
			if v[0] == 2 { // the optimum depends on the policy
				r += .05 * math.Floor(5*math.Abs(v[4]-.2))
			} else {
				r += .05 * math.Floor(5*math.Abs(v[4]-.9))
			}
			if v[1] != 4 && v[2] != 1 {
				r += .3
			}
			if v[9] == 1 && v[7] < 6 {
				r += .2
			}
			return 100 * (1 + r)
		},
	},
	{
		Name: "many30", Description: "thirty parameters, ten of them categories, a few of which matter most",
		Params:  many30(),
		Optimum: 100,
		Cost: func(v []float64) float64 {
			var r float64
			for i, x := range v {
				weight := 1 / float64(1+i*i/4)
				switch i % 3 {
				case 0:
					r += weight * sq(x-.25)
				case 1:
					r += weight * sq((x-7)/9)
				case 2:
					if x != float64(i%4) {
						r += .4 * weight
					}
				}
			}
			return 100 * (1 + r)
		},
	},
}

func many30() []space.Param {
	var out []space.Param
	for i := range 30 {
		id := fmt.Sprintf("p%02d", i)
		switch i % 3 {
		case 0:
			out = append(out, float(id, 0, 1, .5))
		case 1:
			out = append(out, integer(id, 1, 10, 5))
		case 2:
			out = append(out, category(id, "w", "x", "y", "z"))
		}
	}
	return out
}

// hartmann6 is 4 minus the six-dimensional Hartmann function (Dixon and Szegö,
// Towards Global Optimisation 2, 1978).
func hartmann6(v []float64) float64 {
	a := [4][6]float64{{10, 3, 17, 3.5, 1.7, 8}, {.05, 10, 17, .1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8},
		{17, 8, .05, 10, .1, 14}}
	p := [4][6]float64{{1312, 1696, 5569, 124, 8283, 5886}, {2329, 4135, 8307, 3736, 1004, 9991},
		{2348, 1451, 3522, 2883, 3047, 6650}, {4047, 8828, 8732, 5743, 1091, 381}}
	alpha := [4]float64{1, 1.2, 3, 3.2}
	sum := 4.0
	for i := range a {
		var r float64
		for j := range v {
			r += a[i][j] * sq(v[j]-1e-4*p[i][j])
		}
		sum -= alpha[i] * math.Exp(-r)
	}
	return sum
}
