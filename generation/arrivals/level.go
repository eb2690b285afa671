package arrivals

import (
	"context"
	"math"

	"github.com/autosched/autosched/internal/trees"
)

// A levelModel forecasts the logarithm of a count. It gets origins in order
// of time as their outcomes become known, and refits once a day.
type levelModel interface {
	learn(x []float64, t int, y float64)
	refit(ctx context.Context) error
	// foresee forecasts at an origin, whose outcome learn gets later.
	foresee(x []float64, t int) float64
	// level forecasts anywhere.
	level(x []float64) float64
}

// ridgeLevel is the ridge as a levelModel.
type ridgeLevel struct{ *ridge }

func (r ridgeLevel) learn(x []float64, _ int, y float64) { r.ridge.learn(x, y) }
func (r ridgeLevel) refit(context.Context) error         { r.ridge.refit(); return nil }
func (r ridgeLevel) foresee(x []float64, _ int) float64  { return r.level(x) }

// Boosting's constants: few small trees on samples of rows and columns, because a
// history has thousands of origins that overlap, not millions, and its noise is
// large. Larger trees forecast worse on the public traces. The loss is absolute:
// bursts are outliers even in logarithms.
const (
	boostRounds  = 80
	boostLeaves  = 8
	boostMinLeaf = 60
	boostRate    = 0.07
	boostColumns = 0.5
	boostSample  = 0.7         // of the rows
	boostRows    = 60 * 24 * 4 // two months of origins
	boostFirst   = 96          // no trees from less than a day
	// A model is fitted again when there is so much more to learn from, or when
	// it has become a week old.
	boostGrowth = 1.15
	boostDays   = 7
)

// boosted is gradient boosting on the same features.
type boosted struct {
	features int
	rows     []float64
	y        []float64
	mean     float64
	fitted   int // rows at the last fit
	age      int // days since
	model    *trees.Model
	out      [1]float64
}

func (b *boosted) learn(x []float64, _ int, y float64) {
	b.rows = append(b.rows, x...)
	b.y = append(b.y, y)
}

func (b *boosted) refit(ctx context.Context) error {
	b.age++
	n := len(b.y)
	if n == 0 || b.model != nil && b.age < boostDays && float64(n) < boostGrowth*float64(b.fitted) {
		return nil
	}
	if over := n - boostRows; over > 0 { // forget old rows
		b.rows = append(b.rows[:0], b.rows[over*b.features:]...)
		b.y = append(b.y[:0], b.y[over:]...)
		n = boostRows
	}
	b.mean = 0
	for _, y := range b.y {
		b.mean += y / float64(n)
	}
	b.fitted, b.age = n, 0
	if n < boostFirst {
		return nil
	}
	m, err := trees.Boost(ctx, trees.Matrix{Rows: n, Cols: b.features, Data: b.rows}, b.y, nil, trees.BoostOptions{
		Objective: trees.L1, Rounds: boostRounds, Leaves: boostLeaves, LearningRate: boostRate,
		MinLeaf:      min(boostMinLeaf, n/4),
		ColumnSample: boostColumns, RowSample: boostSample, L2: 1, Workers: 1,
	})
	if err != nil {
		return err
	}
	b.model = m
	return nil
}

func (b *boosted) foresee(x []float64, _ int) float64 { return b.level(x) }

func (b *boosted) level(x []float64) float64 {
	if b.model == nil {
		return b.mean
	}
	b.model.Predict(x, b.out[:])
	return b.out[0]
}

// stacked is a weighted mean of two members. The weights are not negative, add up to
// one, and are the best of that kind on the members' forecasts before the
// outcomes were known.
type stacked struct {
	members [2]levelModel
	weights []float64
	// moments of the members' errors, row-major, fading as the ridge's.
	errors []float64
	// forecasts of origins whose outcome is not known yet, by origin.
	open map[int][]float64
}

func (s *stacked) learn(x []float64, t int, y float64) {
	if p, ok := s.open[t]; ok {
		delete(s.open, t)
		n := len(p)
		for i, a := range p {
			for j, b := range p {
				s.errors[i*n+j] += (a - y) * (b - y)
			}
		}
	}
	for _, m := range s.members {
		m.learn(x, t, y)
	}
}

func (s *stacked) refit(ctx context.Context) error {
	for _, m := range s.members {
		if err := m.refit(ctx); err != nil {
			return err
		}
	}
	s.weights = bestWeights(s.errors, s.weights)
	fade := math.Exp2(-1 / ridgeHalfLife)
	for i := range s.errors {
		s.errors[i] *= fade
	}
	return nil
}

func (s *stacked) foresee(x []float64, t int) float64 {
	p := make([]float64, len(s.members))
	var v float64
	for i, m := range s.members {
		p[i] = m.foresee(x, t)
		v += s.weights[i] * p[i]
	}
	s.open[t] = p
	return v
}

func (s *stacked) level(x []float64) float64 {
	var v float64
	for i, m := range s.members {
		v += s.weights[i] * m.level(x)
	}
	return v
}

// bestWeights minimises w' e w over the weights of two members that are not negative
// and add up to one: the optimum of a parabola, clipped. A small ridge keeps the
// weights of members that err alike apart from the edges. Where nothing is known it
// keeps old.
func bestWeights(e, old []float64) []float64 {
	if e[0]+e[3] == 0 {
		return old
	}
	ridge := func(v float64) float64 { return v + 1e-9 + 1e-6*v }
	a, b, c := ridge(e[0]), ridge(e[3]), e[1]
	w := max(0, min((b-c)/(a+b-2*c), 1))
	return []float64{w, 1 - w}
}
