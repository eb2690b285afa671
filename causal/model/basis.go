package model

import (
	"math"

	"github.com/autosched/autosched/causal"
)

// rangeMargin is how far outside the range of the training rows, as a share of its
// width, values may lie before they are clamped: a quadratic does not extrapolate.
const rangeMargin = .1

// logRange is the ratio of largest to smallest value above which a positive target
// is fitted by its logarithm, and a positive input is log-transformed if that makes
// it less skewed: thresholds and times span orders of magnitude.
const logRange = 20

// scale maps a variable's values to regressors.
type scale struct {
	levels   int // number of categories; 0 for a numeric variable
	log      bool
	mean, sd float64
	low, top float64 // clamping range, after log
}

func newScale(c *causal.Column, useLog bool) scale {
	if c.Kind == causal.Categorical {
		return scale{levels: len(c.Levels)}
	}
	s := scale{log: useLog && spans(c.Values) && math.Abs(skewness(c.Values, math.Log)) < math.Abs(skewness(c.Values,
		func(v float64) float64 { return v })), low: math.Inf(1), top: math.Inf(-1)}
	n := float64(len(c.Values))
	sum := 0.0
	for _, v := range c.Values {
		x := s.to(v)
		sum += x
		s.low, s.top = min(s.low, x), max(s.top, x)
	}
	s.mean = sum / n
	squares := 0.0
	for _, v := range c.Values {
		d := s.to(v) - s.mean
		squares += d * d
	}
	s.sd = math.Sqrt(squares / n)
	if !(s.sd > 1e-12*max(1, math.Abs(s.mean))) {
		s.sd = 1 // a constant has z = 0
	}
	margin := rangeMargin * (s.top - s.low)
	s.low, s.top = s.low-margin, s.top+margin
	return s
}

func spans(values []float64) bool {
	low, top := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, top = min(low, v), max(top, v)
	}
	return low > 0 && top > logRange*low
}

// skewness returns the third standardised moment of the transformed values.
func skewness(values []float64, to func(float64) float64) float64 {
	n, mean := float64(len(values)), 0.0
	for _, v := range values {
		mean += to(v) / n
	}
	var second, third float64
	for _, v := range values {
		d := to(v) - mean
		second += d * d / n
		third += d * d * d / n
	}
	return third / math.Pow(max(second, math.SmallestNonzeroFloat64), 1.5)
}

func (s *scale) to(v float64) float64 {
	if s.log {
		return math.Log(max(v, math.SmallestNonzeroFloat64))
	}
	return v
}

func (s *scale) z(v float64) float64 { return (min(max(s.to(v), s.low), s.top) - s.mean) / s.sd }

// maxProducts is the largest number of parents for which a quadratic has pairwise
// products.
const maxProducts = 8

// basis expands a node's parents into regressors: 1, then the linear ones (z of a
// numeric parent; an indicator for each level but the first of a categorical one),
// then squares and products. A linear regression uses the first two parts.
type basis struct {
	parents []int
	scales  []scale // by column
	linear  int
	all     int
}

func newBasis(parents []int, scales []scale) basis {
	b := basis{parents: parents, scales: scales, linear: 1}
	numeric, products := 0, 0
	for k, p := range parents {
		w := b.width(p)
		b.linear += w
		if scales[p].levels == 0 {
			numeric++
		}
		for _, q := range parents[:k] {
			products += w * b.width(q)
		}
	}
	b.all = b.linear + numeric
	if len(parents) <= maxProducts {
		b.all += products
	}
	return b
}

func (b *basis) width(column int) int {
	if l := b.scales[column].levels; l > 0 {
		return l - 1
	}
	return 1
}

// size returns the number of regressors of a family.
func (b *basis) size(f Family) int {
	if f == Quadratic {
		return b.all
	}
	return b.linear
}

// expand writes the first len(out) regressors of a row to out; len(out) is b.linear
// or b.all.
func (b *basis) expand(row, out []float64) {
	out[0] = 1
	k := 1
	for _, p := range b.parents {
		s := &b.scales[p]
		if s.levels == 0 {
			out[k] = s.z(row[p])
			k++
			continue
		}
		for l := 1; l < s.levels; l++ {
			out[k] = 0
			if int(row[p]) == l {
				out[k] = 1
			}
			k++
		}
	}
	if len(out) == b.linear {
		return
	}
	at := 1
	for _, p := range b.parents {
		if b.scales[p].levels == 0 {
			out[k] = out[at] * out[at]
			k++
		}
		at += b.width(p)
	}
	if len(b.parents) > maxProducts {
		return
	}
	at = 1
	for i, p := range b.parents {
		before := 1
		for _, q := range b.parents[:i] {
			for u := range b.width(p) {
				for v := range b.width(q) {
					out[k] = out[at+u] * out[before+v]
					k++
				}
			}
			before += b.width(q)
		}
		at += b.width(p)
	}
}
