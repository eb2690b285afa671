package space

import "math"

// maxDigits is the number of significant digits of numbers from the unit cube: more
// digits of a threshold have no effect and are hard to read and type.
const maxDigits = 6

// Dim is a dimension of the unit cube.
type Dim struct {
	Param string // parameter of the dimension
	Index int    // index of an array's element, otherwise 0
	// Levels is the number of distinct values, special values included; 0 means a
	// continuous dimension.
	Levels int
	// Categorical is true if the levels are unordered.
	Categorical bool
}

// Dims returns the number of dimensions of the unit cube: one per parameter, and for
// an array one per possible element.
func (s *Space) Dims() int { return len(s.dims) }

// Dim returns dimension i.
func (s *Space) Dim(i int) Dim { return s.dims[i] }

func (s *Space) listDims() []Dim {
	var dims []Dim
	for i := range s.params {
		p := &s.params[i]
		d := Dim{Param: p.ID}
		switch {
		case p.Kind == KindBool:
			d.Levels = 2
		case p.Kind.named():
			d.Levels, d.Categorical = len(p.Categories), p.Kind == KindCategorical
		case p.grid() != 0:
			d.Levels = p.levels() + len(p.Special)
		case p.Min == p.Max:
			d.Levels = 1 + len(p.Special)
		}
		dims = append(dims, d)
		for p.Array != nil && d.Index+1 < p.Array.Max {
			d.Index++
			dims = append(dims, d)
		}
	}
	return dims
}

// Size returns the product of the levels of all dimensions: an upper bound on the
// number of distinct configurations, infinite with a continuous dimension.
func (s *Space) Size() float64 {
	n := 1.0
	for _, d := range s.dims {
		if d.Levels == 0 {
			return math.Inf(1)
		}
		n *= float64(d.Levels)
	}
	return n
}

// Decode returns the projected configuration at a point of the unit cube. Discrete
// values have bins of equal width (on a log scale, of equal width in the logarithm),
// special values have bins of their weight, and continuous values are rounded to six
// significant digits. Coordinates are clamped to [0, 1]; NaN counts as 0.5. Decode
// panics if x has the wrong length.
func (s *Space) Decode(x []float64) Config {
	if len(x) != len(s.dims) {
		panic("space: Decode wants one coordinate per dimension")
	}
	values, _ := s.project(s.raw(x))
	return Config{space: s, values: values}
}

// Values returns the values at a point of the unit cube before projection; Decode
// projects them. It panics if x has the wrong length.
func (s *Space) Values(x []float64) Values {
	if len(x) != len(s.dims) {
		panic("space: Values wants one coordinate per dimension")
	}
	out := make(Values, len(s.params))
	for i, v := range s.raw(x) {
		out[s.params[i].ID] = v
	}
	return out
}

// raw returns the values at a point of the unit cube before projection.
func (s *Space) raw(x []float64) []Value {
	raw := make([]Value, len(s.params))
	for i := range s.params {
		p := &s.params[i]
		if p.Array == nil {
			raw[i] = p.decode(unit01(x[0]))
			x = x[1:]
			continue
		}
		nums := make([]float64, p.Array.Max)
		for k := range nums {
			nums[k] = p.decodeNumber(unit01(x[k]))
		}
		raw[i] = Value{kind: listValue, nums: nums}
		x = x[len(nums):]
	}
	return raw
}

// Encode returns a point of the unit cube that Decode maps to c, for every
// configuration from Decode (unless rules leave a number less room than six digits
// resolve) and every valid one whose numbers have at most six significant digits;
// other numbers come back rounded. Coordinates without effect are 0.5.
func (s *Space) Encode(c Config) []float64 {
	x := make([]float64, 0, len(s.dims))
	for i := range s.params {
		p, v := &s.params[i], c.Get(s.params[i].ID)
		if p.Array == nil {
			if v.kind == p.want() {
				x = append(x, p.encode(v))
			} else {
				x = append(x, 0.5)
			}
			continue
		}
		for k := range p.Array.Max {
			if k < len(v.nums) {
				x = append(x, p.encodeNumber(v.nums[k]))
			} else {
				x = append(x, 0.5)
			}
		}
	}
	return x
}

func unit01(x float64) float64 {
	if math.IsNaN(x) {
		return 0.5
	}
	return min(max(x, 0), 1)
}

// bin returns the index of the bin that holds x, of n equal bins of [0, 1].
func bin(x float64, n int) int { return min(int(x*float64(n)), n-1) }

// middle returns the middle of bin k of n.
func middle(k, n int) float64 { return (float64(k) + 0.5) / float64(n) }

func (p *Param) decode(x float64) Value {
	switch p.Kind {
	case KindBool:
		return Bool(bin(x, 2) == 1)
	case KindCategorical, KindOrdinal:
		return Text(p.Categories[bin(x, len(p.Categories))])
	}
	for _, s := range p.Special {
		if x < s.Weight {
			return Num(s.Value)
		}
		x -= s.Weight
	}
	return Num(p.decodeNumber(unit01(x / (1 - p.specialWeight()))))
}

func (p *Param) encode(v Value) float64 {
	switch p.Kind {
	case KindBool:
		return 0.25 + v.num/2
	case KindCategorical, KindOrdinal:
		for k, c := range p.Categories {
			if c == v.text {
				return middle(k, len(p.Categories))
			}
		}
		return 0.5
	}
	below := 0.0
	for _, s := range p.Special {
		if s.Value == v.num {
			return below + s.Weight/2
		}
		below += s.Weight
	}
	return unit01(below + p.encodeNumber(v.num)*(1-below))
}

func (p *Param) specialWeight() (sum float64) {
	for _, s := range p.Special {
		sum += s.Weight
	}
	return sum
}

// decodeNumber maps [0,1] onto the range of p.
func (p *Param) decodeNumber(x float64) float64 {
	switch step := p.grid(); {
	case p.Min == p.Max || x <= 0:
		return p.Min
	case x >= 1:
		return p.Max
	case step != 0 && p.Log:
		v := logBetween(p.Min, p.Max+step, x)
		return p.level(int((v - p.Min) / step))
	case step != 0:
		return p.level(bin(x, p.levels()))
	case p.Log:
		v := logBetween(p.Min, p.Max, x)
		return min(max(roundDigits(v, maxDigits), p.Min), p.Max)
	}
	width := p.Max - p.Min
	v := p.Min + x*width
	if math.Abs(v) < width*1e-9 {
		v = 0 // rounding error of a cancellation
	}
	return min(max(roundDigits(v, maxDigits), p.Min), p.Max)
}

// encodeNumber maps the range of p onto [0,1].
func (p *Param) encodeNumber(v float64) float64 {
	v = min(max(v, p.Min), p.Max)
	switch step := p.grid(); {
	case p.Min == p.Max || math.IsNaN(v):
		return 0.5
	case step != 0 && p.Log:
		return logShare(p.Min, p.Max+step, v+step/2)
	case step != 0:
		return middle(int(math.Round((v-p.Min)/step)), p.levels())
	case p.Log:
		return logShare(p.Min, p.Max, v)
	}
	return (v - p.Min) / (p.Max - p.Min)
}

// logBetween returns the number at share x between low and high on a log scale;
// logShare is its inverse.
func logBetween(low, high, x float64) float64 {
	a, b := math.Log(low), math.Log(high)
	return math.Exp(a + x*(b-a))
}

func logShare(low, high, v float64) float64 {
	a, b := math.Log(low), math.Log(high)
	return unit01((math.Log(v) - a) / (b - a))
}

// LogMiddle returns the middle of a range on a log scale.
func LogMiddle(low, high float64) float64 { return logBetween(low, high, 0.5) }
