package model

import "math"

// gram holds the sufficient statistics of a least-squares fit: sums of products of
// the regressors with each other and with the target, and of the target's squares.
// Statistics can be added, subtracted and decayed, which makes updates,
// cross-validation and the bootstrap cheap.
type gram struct {
	n  float64
	xx []float64 // lower triangle, row by row
	xy []float64
	yy float64
}

func newGram(q int) gram { return gram{xx: make([]float64, q*(q+1)/2), xy: make([]float64, q)} }

func (g *gram) reset() {
	g.n, g.yy = 0, 0
	clear(g.xx)
	clear(g.xy)
}

func (g *gram) row(x []float64, y float64) {
	g.n++
	k := 0
	for i, v := range x {
		if v != 0 {
			into := g.xx[k : k+i+1]
			for j, w := range x[:i+1] {
				into[j] += v * w
			}
			g.xy[i] += v * y
		}
		k += i + 1
	}
	g.yy += y * y
}

// add adds w times o.
func (g *gram) add(o *gram, w float64) {
	into := g.xx[:len(o.xx)]
	for i, v := range o.xx {
		into[i] += w * v
	}
	g.n += w * o.n
	g.yy += w * o.yy
	for i, v := range o.xy {
		g.xy[i] += w * v
	}
}

func (g *gram) fade(by float64) {
	g.n *= by
	g.yy *= by
	for i := range g.xx {
		g.xx[i] *= by
	}
	for i := range g.xy {
		g.xy[i] *= by
	}
}

// solver is the workspace of a ridge regression.
type solver struct{ l, x []float64 }

// solve writes the ridge regression on the first q regressors to coef. The penalty
// is lambda per row on all coefficients but the constant's. Regressors that are
// linear combinations of earlier ones get coefficient 0.
func (s *solver) solve(g *gram, q int, lambda float64, coef []float64) {
	n := q * (q + 1) / 2
	s.l = append(s.l[:0], g.xx[:n]...)
	penalty := lambda * g.n
	for i := range q {
		row := i * (i + 1) / 2
		diagonal := s.l[row+i]
		if i > 0 {
			s.l[row+i] += penalty
		}
		for j := range i {
			other := j * (j + 1) / 2
			v := s.l[row+j]
			a, b := s.l[row:row+j], s.l[other:other+j]
			for k, w := range a {
				v -= w * b[k]
			}
			if d := s.l[other+j]; d > 0 {
				s.l[row+j] = v / d
			} else {
				s.l[row+j] = 0
			}
		}
		v := s.l[row+i]
		for k := range i {
			v -= s.l[row+k] * s.l[row+k]
		}
		if v > 1e-10*diagonal && v > 0 {
			s.l[row+i] = math.Sqrt(v)
		} else {
			s.l[row+i] = 0 // a linear combination of earlier regressors
		}
	}
	s.x = append(s.x[:0], g.xy[:q]...)
	for i := range q {
		row := i * (i + 1) / 2
		if s.l[row+i] == 0 {
			s.x[i] = 0
			continue
		}
		v := s.x[i]
		for k := range i {
			v -= s.l[row+k] * s.x[k]
		}
		s.x[i] = v / s.l[row+i]
	}
	for i := q - 1; i >= 0; i-- {
		d := s.l[i*(i+1)/2+i]
		if d == 0 {
			s.x[i] = 0
			continue
		}
		v := s.x[i]
		for k := i + 1; k < q; k++ {
			v -= s.l[k*(k+1)/2+i] * s.x[k]
		}
		s.x[i] = v / d
	}
	copy(coef, s.x)
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
