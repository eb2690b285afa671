package search

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/autosched/autosched/space"
)

// proposals generates suggestions, all different and none in the history.
type proposals struct {
	enc  *encoder
	seen map[string]bool // hashes of configurations not to propose
	rng  *rand.Rand
	all  []space.Config // all configurations of a small space
}

func newProposals(e *encoder, all []space.Config, q Request, rng *rand.Rand) *proposals {
	p := &proposals{enc: e, all: all, rng: rng,
		seen: make(map[string]bool, len(q.History)+len(q.Rejected)+batch)}
	for i := range q.History {
		p.take(q.History[i].Config)
	}
	for i := range q.Rejected {
		p.take(q.Rejected[i].Config)
	}
	return p
}

// take excludes a configuration from further proposals.
func (p *proposals) take(c space.Config) { p.seen[c.Hash()] = true }

// fresh returns the configuration at x; ok is false if it is known.
func (p *proposals) fresh(x []float64) (c space.Config, ok bool) {
	c = p.enc.space.Decode(x)
	return c, !p.seen[c.Hash()]
}

// enumerable is the size up to which a space is listed rather than sampled. For
// a larger budget it is four times that, up to mostEnumerable: drawing at random
// would miss the last ones.
const (
	enumerable     = 2048
	mostEnumerable = 16384
)

// enumerate lists the configurations of a small space, nil if there are too many, or
// if the rules leave so few of many that finding them takes long.
func (s *Setup) enumerate() []space.Config {
	limit := min(max(enumerable, 4*s.Budget), mostEnumerable)
	if !(s.Space.Size() <= float64(limit)) {
		if !s.Space.Finite() || len(s.Space.Rules()) == 0 {
			return nil
		}
		limit = enumerable
	}
	all, complete := s.Space.Enumerate(limit)
	if !complete {
		return nil
	}
	return all
}

// anyNew returns a new configuration: near x if that is given, otherwise anywhere; ok is
// false if none was found.
func (p *proposals) anyNew(x []float64) (c space.Config, ok bool) {
	if p.all != nil {
		start := p.rng.IntN(len(p.all))
		for k := range p.all {
			if c = p.all[(start+k)%len(p.all)]; !p.seen[c.Hash()] {
				return c, true
			}
		}
		return c, false
	}
	y := make([]float64, len(p.enc.dims))
	for try := range 500 {
		if x != nil && try < 100 {
			copy(y, x)
			p.enc.mutate(y, 0.1, 0.02+0.003*float64(try), p.rng)
		} else {
			p.enc.uniform(y, p.rng)
		}
		if c, ok = p.fresh(y); ok {
			return c, true
		}
	}
	return c, false
}

// climb improves x in place by steps random changes and returns its value.
func (p *proposals) climb(f func(x []float64) float64, x []float64, value float64, steps int) float64 {
	y := make([]float64, len(x))
	sigma := 0.1
	for range steps {
		copy(y, x)
		p.enc.mutate(y, 1/float64(len(x)), sigma, p.rng)
		if v := f(y); v > value {
			value = v
			copy(x, y)
			sigma = min(sigma*1.5, 0.3)
		} else {
			sigma = max(sigma*0.85, 0.002)
		}
	}
	return value
}

// design returns an initial design: a Sobol sequence whose coordinates are replaced
// by their ranks, so that every level of a small integer and every category occurs.
// It takes at most half of the budget left, but at least the eight trials that a
// model needs. Presets do not replace it: they lie close together, and a model of
// them alone does not explore.
func (p *proposals) design(seed uint64, q Request) []Suggestion {
	dims := len(p.enc.dims)
	n := min(max(dims+3, 7), 12)
	n = min(n, max(q.N/2, fewest-len(q.History), 1), q.N)
	seq := newSobol(dims, seed)
	seq.seek(uint32(q.Step) * spread)
	points := make([][]float64, n)
	for i := range points {
		points[i] = make([]float64, dims)
		seq.next(points[i])
	}
	spreadRanks(points)
	var out []Suggestion
	for _, x := range points {
		at := x
		c, ok := p.fresh(x)
		if !ok {
			if c, ok = p.anyNew(x); !ok {
				break
			}
			at = nil
		}
		p.take(c)
		out = append(out, Suggestion{Config: c, Origin: "sobol", Point: at})
	}
	return out
}

// spreadRanks replaces every coordinate by the middle of the interval of its
// rank: a Latin hypercube that keeps the points' order in each dimension.
func spreadRanks(points [][]float64) {
	if len(points) == 0 {
		return
	}
	order := make([]int, len(points))
	for d := range points[0] {
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(points[a][d], points[b][d]) })
		for rank, i := range order {
			points[i][d] = (float64(rank) + 0.5) / float64(len(points))
		}
	}
}

// coverBy is the evaluation by which every level of a dimension with up to
// coverLevels has been tried, as far as the space's rules allow.
const (
	coverBy     = 15
	coverLevels = 5
)

// missing returns the dimension and coordinate of a level that no trial has.
func (e *encoder) missing(history []Trial) (dim int, at float64, ok bool) {
	seen := make([]uint, len(e.dims))
	for i := range history {
		for k, x := range e.space.Encode(history[i].Config) {
			if d := &e.dims[k]; d.levels != nil {
				seen[k] |= 1 << d.level(x)
			}
		}
	}
	for k := range e.dims {
		d := &e.dims[k]
		if len(d.levels) > coverLevels {
			continue
		}
		for l, at := range d.levels {
			if seen[k]>>l&1 == 0 {
				return k, at, true
			}
		}
	}
	return 0, 0, false
}
