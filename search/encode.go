package search

import (
	"math"
	"math/rand/v2"

	"github.com/autosched/autosched/space"
)

// maxLevels is the largest number of values with which a dimension is discrete to
// the models.
const maxLevels = 64

// dimension is one axis of the unit cube as a model encodes it.
type dimension struct {
	// levels are the cube's coordinates of the values, nil if there are too many.
	levels []float64
	// nominal levels have no order.
	nominal bool
	// special is the share of the axis that stands for special values, each of
	// which becomes a level of a feature of its own.
	special  float64
	specials []float64 // the upper edges of their bands
	// feature is the index of the value; the next one is which special value it
	// is, if there are any.
	feature int
	// low and high are the coordinates that become 0 and 1.
	low, high float64
}

// encoder turns points of a space's cube into features for a distance: numbers
// from 0 to 1 and codes of categories. Inactive parameters are in the middle, where
// Encode puts them, so that they add no distance.
type encoder struct {
	space    *space.Space
	dims     []dimension
	features int
	nominal  []bool // by feature
	// plain spaces have no dependencies: snapping each coordinate to its level
	// gives a valid configuration.
	plain bool
}

func newEncoder(s *space.Space) *encoder {
	e := &encoder{space: s, plain: len(s.Rules()) == 0}
	for i := range s.Dims() {
		dim := s.Dim(i)
		p, _ := s.Param(dim.Param)
		d := dimension{nominal: dim.Categorical, feature: e.features, high: 1}
		for _, v := range p.Special {
			d.special += v.Weight
			d.specials = append(d.specials, d.special)
		}
		if dim.Levels > 0 && dim.Levels <= maxLevels {
			d.levels = levelCoordinates(s, &p, i, dim)
			if ordinary := d.levels[len(p.Special):]; len(ordinary) > 1 {
				d.low, d.high = ordinary[0], ordinary[len(ordinary)-1]
			}
		} else if d.special > 0 {
			d.low = d.special
		}
		if p.Array != nil || len(p.Special) > 0 {
			e.plain = false
		}
		e.features++
		e.nominal = append(e.nominal, d.nominal)
		if len(p.Special) > 0 {
			e.features++
			e.nominal = append(e.nominal, true)
		}
		e.dims = append(e.dims, d)
	}
	return e
}

// levelCoordinates returns where Encode puts each value of dimension i, special
// values first.
func levelCoordinates(s *space.Space, p *space.Param, i int, dim space.Dim) []float64 {
	var out []float64
	at := func(v space.Value) { out = append(out, s.Encode(s.Default().With(p.ID, v))[i]) }
	number := func(x float64) {
		if p.Array == nil {
			at(space.Num(x))
			return
		}
		nums := make([]float64, p.Array.Max)
		for k := range nums {
			nums[k] = x
		}
		at(space.Nums(nums...))
	}
	switch {
	case p.Kind == space.KindBool:
		at(space.Bool(false))
		at(space.Bool(true))
		return out
	case len(p.Categories) > 0:
		for _, c := range p.Categories {
			at(space.Text(c))
		}
		return out
	}
	for _, v := range p.Special {
		number(v.Value)
	}
	step := p.Step
	if p.Kind == space.KindInt && step == 0 {
		step = 1
	}
	for k := range dim.Levels - len(p.Special) {
		number(p.Min + float64(k)*step)
	}
	return out
}

// encode writes the features of point x of the cube to dst.
func (e *encoder) encode(dst, x []float64) {
	for i := range e.dims {
		d := &e.dims[i]
		v := x[i]
		switch {
		case d.nominal:
			dst[d.feature] = float64(d.level(v))
		case d.special > 0:
			k := 0
			for k < len(d.specials) && v >= d.specials[k] {
				k++
			}
			if k < len(d.specials) {
				dst[d.feature], dst[d.feature+1] = 0.5, float64(1+k)
			} else {
				dst[d.feature], dst[d.feature+1] = (v-d.low)/(d.high-d.low), 0
			}
		default:
			dst[d.feature] = (v - d.low) / (d.high - d.low)
		}
	}
}

// level returns the index of the level nearest to x.
func (d *dimension) level(x float64) int {
	best, distance := 0, math.Inf(1)
	for k, v := range d.levels {
		if off := math.Abs(v - x); off < distance {
			best, distance = k, off
		}
	}
	return best
}

// settle replaces x by the point that Encode returns for the configuration there.
func (e *encoder) settle(x []float64) {
	if !e.plain {
		copy(x, e.space.Encode(e.space.Decode(x)))
		return
	}
	for i := range e.dims {
		if d := &e.dims[i]; d.levels != nil {
			x[i] = d.levels[d.level(x[i])]
		}
	}
}

// uniform writes a random point to x.
func (e *encoder) uniform(x []float64, rng *rand.Rand) {
	for i := range x {
		x[i] = rng.Float64()
	}
	e.settle(x)
}

// mutate changes some coordinates of x: each with probability rate and one at
// least, numbers by about sigma of their range, to another level at least.
func (e *encoder) mutate(x []float64, rate, sigma float64, rng *rand.Rand) {
	sure := rng.IntN(len(x))
	for i := range x {
		if i == sure || rng.Float64() < rate {
			x[i] = e.dims[i].move(x[i], sigma, rng)
		}
	}
	e.settle(x)
}

func (d *dimension) move(x, sigma float64, rng *rand.Rand) float64 {
	if len(d.levels) == 1 {
		return x
	}
	if d.special > 0 {
		// Sometimes to or from a special value.
		switch in := x < d.special; {
		case in && rng.Float64() < 0.7:
			return d.special + rng.Float64()*(1-d.special)
		case in || rng.Float64() < 0.2:
			return rng.Float64() * d.special
		}
	}
	step := rng.NormFloat64() * sigma
	if d.levels == nil {
		return min(max(x+step*(d.high-d.low), d.low), d.high)
	}
	n := len(d.levels)
	k := d.level(x)
	if d.nominal {
		return d.levels[(k+1+rng.IntN(n-1))%n]
	}
	jump := int(math.Round(step * float64(n-1)))
	if jump == 0 {
		jump = 1
		if step < 0 {
			jump = -1
		}
	}
	to := min(max(k+jump, len(d.specials)), n-1)
	if to == k {
		to = min(max(k-jump, len(d.specials)), n-1)
	}
	return d.levels[to]
}
