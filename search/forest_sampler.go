package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/trees"
	"github.com/autosched/autosched/space"
)

// forestSampler models the objective by extremely randomised trees and proposes the
// points of the highest expected improvement, with a random point in every batch (Hutter,
// Hoos and Leyton-Brown, Sequential model-based optimization for general
// algorithm configuration, LION 2011).
type forestSampler struct {
	Setup
	enc    *encoder
	all    []space.Config
	first  []int // by feature: its first column
	widths []int // by feature: its columns, one per category
	cols   int
}

// Trees of a forest, the fewest trials in a leaf and the most trials that it is
// grown from. More of either do not rank candidates better.
const (
	forestTrees = 24
	forestLeaf  = 1
	forestSize  = 96
)

func newForestSampler(s Setup) *forestSampler {
	f := &forestSampler{Setup: s, enc: newEncoder(s.Space), all: s.enumerate()}
	for _, d := range f.enc.dims {
		widths := []int{1}
		if d.nominal {
			widths[0] = max(len(d.levels), 1)
		}
		if d.special > 0 {
			widths = append(widths, 1+len(d.specials))
		}
		for _, w := range widths {
			f.first, f.widths = append(f.first, f.cols), append(f.widths, w)
			f.cols += w
		}
	}
	return f
}

// columns writes features as a forest reads them: categories one-hot.
func (s *forestSampler) columns(dst, features []float64) {
	clear(dst)
	for i, v := range features {
		if s.enc.nominal[i] {
			dst[s.first[i]+int(v)] = 1
		} else {
			dst[s.first[i]] = v
		}
	}
}

func (s *forestSampler) Suggest(q Request) []Suggestion {
	p := newProposals(s.enc, s.all, q, rng.Stream("forest", s.Seed, uint64(q.Step)))
	d := s.enc.gather(q.History)
	valid := d.validCosts()
	if q.Step == 0 || len(valid) < 2 {
		return p.design(s.Seed, q)
	}
	warping, ok := fitWarp(warpTail, valid)
	if !ok {
		warping, _ = fitWarp(warpNone, valid)
	}
	d = d.thin(forestSize, s.enc.nominal)
	b := &forestBatch{forestSampler: s, p: p, q: q, d: d, warping: warping, features: make([]float64, s.enc.features),
		row: make([]float64, s.cols)}
	n := min(q.N, batch)
	b.x = make([]float64, 0, (d.n+n)*s.cols)
	for i := range d.n {
		s.columns(b.row, d.row(i))
		b.x = append(b.x, b.row...)
		b.y = append(b.y, warping.forward(d.cost[i]))
	}
	b.best = slices.Min(b.y)
	var out []Suggestion
	for len(out) < n {
		if len(out)%2 == 0 {
			b.grow()
		}
		var c space.Config
		var x []float64
		if len(out) == n-1 && n > 1 || n == 1 && q.Step%4 == 0 {
			if c, ok = p.anyNew(nil); ok {
				x = s.Space.Encode(c)
			}
		} else {
			c, x, ok = b.next()
		}
		if !ok {
			break
		}
		p.take(c)
		mean, variance := b.predict(x)
		out = append(out, Suggestion{Config: c, Prediction: warping.prediction(mean, variance), Point: slices.Clone(x)})
		b.x, b.y = append(b.x, b.row...), append(b.y, mean) // as if measured, so that the next point differs
	}
	return out
}

// forestBatch is the state of one request.
type forestBatch struct {
	*forestSampler
	p       *proposals
	q       Request
	d       *data
	warping warping
	x, y    []float64 // rows of columns, and targets
	best    float64
	forest  *trees.ForestModel
	pool    [][]float64

	features, row []float64
}

// grow fits the forest to measured and believed points.
func (b *forestBatch) grow() {
	var err error
	b.forest, err = trees.Forest(trees.Matrix{Rows: len(b.y), Cols: b.cols, Data: b.x}, b.y,
		trees.ForestOptions{Trees: forestTrees, MinLeaf: forestLeaf, MaxFeatures: (b.cols + 1) / 2,
			Seed: b.p.rng.Uint64()})
	if err != nil {
		panic("search: a forest of finite features: " + err.Error())
	}
}

// predict leaves the columns of x in b.row.
func (b *forestBatch) predict(x []float64) (mean, variance float64) {
	b.enc.encode(b.features, x)
	b.columns(b.row, b.features)
	mean, variance = b.forest.Predict(b.row)
	return mean, max(variance, 1e-6)
}

func (b *forestBatch) improvement(x []float64) float64 {
	mean, variance := b.predict(x)
	return logEI(mean, variance, b.best)
}

// fill draws points: half uniformly, half around the best trials.
func (b *forestBatch) fill() {
	order := make([]int, b.d.n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(b.d.cost[i], b.d.cost[j]) })
	for k := range 240 {
		x := make([]float64, len(b.enc.dims))
		if k%2 == 0 {
			b.enc.uniform(x, b.p.rng)
		} else {
			copy(x, b.Space.Encode(b.q.History[b.d.at[order[k/2%min(5, len(order))]]].Config))
			b.enc.mutate(x, 1.5/float64(len(x)), math.Pow(10, -2*b.p.rng.Float64()), b.p.rng)
		}
		b.pool = append(b.pool, x)
	}
}

// next returns the new point with the highest expected improvement found.
func (b *forestBatch) next() (c space.Config, x []float64, ok bool) {
	if b.pool == nil {
		b.fill()
	}
	type scored struct {
		x     []float64
		score float64
	}
	var list []scored
	for _, x := range b.pool {
		list = append(list, scored{x, b.improvement(x)})
	}
	better := func(a, b scored) int { return cmp.Compare(b.score, a.score) }
	slices.SortStableFunc(list, better)
	for k := range min(4, len(list)) {
		x := slices.Clone(list[k].x)
		list = append(list, scored{x, b.p.climb(b.improvement, x, list[k].score, 40)})
	}
	slices.SortStableFunc(list, better)
	for _, at := range list {
		if c, ok = b.p.fresh(at.x); ok {
			return c, at.x, true
		}
	}
	c, ok = b.p.anyNew(nil)
	if ok {
		x = b.Space.Encode(c)
	}
	return c, x, ok
}
