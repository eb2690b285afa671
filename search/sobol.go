package search

import (
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// sobolBits is the number of binary digits of a coordinate; a sequence has
// 2^sobolBits points.
const sobolBits = 32

// maxSobolDims is how many dimensions have direction numbers.
const maxSobolDims = 64

// sobol generates a randomised Sobol sequence: each dimension's binary digits
// are mixed by a random lower triangular matrix and shifted (Matousek's linear
// scrambling), which keeps every equidistribution property of the sequence.
// Dimensions beyond maxSobolDims are independent uniform numbers.
type sobol struct {
	directions [][sobolBits]uint32 // by dimension
	shift      []uint32            // by dimension: point 0
	x          []uint32            // the current point, shift included
	n          uint32              // how many points were drawn
	sought     bool                // x is point n already
	seed       uint64
	extra      int // dimensions without direction numbers
}

func newSobol(dims int, seed uint64) *sobol {
	rng := rand.New(rand.NewPCG(seed, 0x736f626f6c))
	s := &sobol{seed: seed, extra: max(dims-maxSobolDims, 0)}
	for d := range dims - s.extra {
		v := sobolVectors(d)
		scramble(&v, rng)
		s.directions = append(s.directions, v)
		s.shift = append(s.shift, rng.Uint32())
	}
	s.x = slices.Clone(s.shift)
	return s
}

// sobolVectors returns the direction vectors of a dimension, highest digit
// first, by the recurrence of Joe and Kuo's notes.
func sobolVectors(dim int) (v [sobolBits]uint32) {
	if dim == 0 {
		for i := range v {
			v[i] = 1 << (sobolBits - 1 - i)
		}
		return v
	}
	d := sobolDirections[dim-1]
	degree := len(d.init)
	for i := range v {
		if i < degree {
			v[i] = d.init[i] << (sobolBits - 1 - i)
			continue
		}
		v[i] = v[i-degree] ^ v[i-degree]>>degree
		for k := 1; k < degree; k++ {
			if d.poly>>(degree-1-k)&1 == 1 {
				v[i] ^= v[i-k]
			}
		}
	}
	return v
}

// scramble multiplies the vectors by a random lower triangular binary matrix
// with ones on its diagonal.
func scramble(v *[sobolBits]uint32, rng *rand.Rand) {
	var rows [sobolBits]uint32 // rows[r] has the digits that make digit r
	for r := range rows {
		one := uint32(1) << (sobolBits - 1 - r)
		rows[r] = one | rng.Uint32()&^(one|(one-1))
	}
	for i, x := range v {
		var y uint32
		for _, row := range rows {
			y = y<<1 | uint32(bits.OnesCount32(row&x)&1)
		}
		v[i] = y
	}
}

// next writes the next point to dst; every coordinate is inside (0,1).
func (s *sobol) next(dst []float64) {
	if s.n > 0 && !s.sought { // Gray code order: one digit changes at a time
		digit := bits.TrailingZeros32(s.n)
		for d := range s.x {
			s.x[d] ^= s.directions[d][digit]
		}
	}
	for d, x := range s.x {
		dst[d] = (float64(x) + 0.5) / (1 << sobolBits)
	}
	if s.extra > 0 {
		rest := rand.New(rand.NewPCG(s.seed, uint64(s.n)<<32|0x7265))
		for d := range s.extra {
			dst[len(s.x)+d] = rest.Float64()
		}
	}
	s.n++
	s.sought = false
}

// seek makes n the next point.
func (s *sobol) seek(n uint32) {
	for d := range s.x {
		x := s.shift[d]
		for digit, gray := 0, n^n>>1; gray != 0; digit, gray = digit+1, gray>>1 {
			if gray&1 == 1 {
				x ^= s.directions[d][digit]
			}
		}
		s.x[d] = x
	}
	s.n, s.sought = n, true
}

// sobolSampler decodes the points of one sequence, a slice of it at each step.
type sobolSampler struct {
	Setup
	enc *encoder
	all []space.Config
	seq *sobol
}

func newSobolSampler(s Setup) *sobolSampler {
	return &sobolSampler{s, newEncoder(s.Space), s.enumerate(), newSobol(s.Space.Dims(), s.Seed)}
}

func (s *sobolSampler) Suggest(q Request) []Suggestion {
	p := newProposals(s.enc, s.all, q, rng.Stream("sobol", s.Seed, uint64(q.Step)))
	k := 0
	return p.points(min(q.N, s.spread()), func(x []float64) {
		// The points of a slice lie in different places, the first ones of all
		// slices close together: each slice begins elsewhere.
		s.seq.seek(uint32(q.Step)*spread + uint32(q.Step+k)%spread)
		s.seq.next(x)
		k++
	})
}

// Spread returns n configurations spread evenly over a space: the first points of
// a scrambled Sobol sequence, repeated ones included.
func Spread(s *space.Space, seed uint64, n int) []space.Config {
	seq := newSobol(s.Dims(), seed)
	out := make([]space.Config, n)
	x := make([]float64, s.Dims())
	for i := range out {
		seq.next(x)
		out[i] = s.Decode(x)
	}
	return out
}
