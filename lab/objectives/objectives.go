// Package objectives holds test functions with a known optimum: the four that the
// published samplers were measured on, and others with further properties (conditions,
// arrays, cliffs, heavier noise, optima on a bound, many small integers, failing regions).
// Costs are not negative and lower is better.
package objectives

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// Objective is one function over a space.
type Objective struct {
	Name        string
	Description string
	Params      []space.Param
	Rules       []space.Rule
	// Optimum is the lowest cost a configuration can have.
	Optimum float64
	// Noise is the relative standard deviation of one measurement.
	Noise float64
	// NoiseAt, if set, is the relative standard deviation at x instead.
	NoiseAt func(x []float64) float64
	// HeavyTails makes the noise Student's t with three degrees of freedom.
	HeavyTails bool
	// Cost is the true cost at x, one number per dimension of the space's cube:
	// the value of a number, the index of a category, 0 or 1 for a boolean, NaN for an
	// inactive parameter. It is infinite if the configuration fails.
	Cost func(x []float64) float64
}

// Find returns an objective by name.
func Find(name string) (*Objective, error) {
	for i := range All {
		if All[i].Name == name {
			return &All[i], nil
		}
	}
	return nil, fmt.Errorf("objectives: no objective %q, want one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the objectives.
func Names() []string {
	var out []string
	for i := range All {
		out = append(out, All[i].Name)
	}
	return out
}

// Space returns the objective's space.
func (o *Objective) Space() *space.Space {
	s, err := space.New(o.Params, o.Rules)
	if err != nil {
		panic("objectives: " + o.Name + ": " + err.Error())
	}
	return s
}

// Numbers returns a configuration as Cost reads it.
func (o *Objective) Numbers(c space.Config) []float64 {
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

// Regret returns the true cost of a configuration minus that of the best one.
func (o *Objective) Regret(c space.Config) float64 { return o.Cost(o.Numbers(c)) - o.Optimum }

// Measure returns the cost with noise: a function of configuration and seed, independent
// between configurations, never negative. It is infinite if the configuration fails.
func (o *Objective) Measure(c space.Config, seed uint64) float64 {
	x := o.Numbers(c)
	cost, noise := o.Cost(x), o.Noise
	if o.NoiseAt != nil {
		noise = o.NoiseAt(x)
	}
	if noise == 0 || math.IsInf(cost, 0) {
		return cost
	}
	h, err := hex.DecodeString(c.Hash()[:16])
	if err != nil {
		panic("objectives: a hash that is not hexadecimal: " + err.Error())
	}
	draw := rng.Stream("objectives", seed, binary.LittleEndian.Uint64(h))
	z := draw.NormFloat64()
	if o.HeavyTails {
		z /= math.Sqrt((sq(draw.NormFloat64()) + sq(draw.NormFloat64()) + sq(draw.NormFloat64())) / 3)
	}
	return max(cost*(1+noise*z), 0)
}

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

func sq(x float64) float64 { return x * x }

// share returns where x lies between low and high on a log scale.
func share(x, low, high float64) float64 { return math.Log(x/low) / math.Log(high/low) }
