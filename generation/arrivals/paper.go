package arrivals

import (
	"context"
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// cutInHours is the shortest period that the paper's periodic part keeps. The paper is
// silent on the cut.
const cutInHours = 2

// paper copies the place most like the last hour.
type paper struct {
	perHour, horizon int
	filter           lowPass
	unlike           func(a, b []float64) float64 // nil is the sum of absolute differences
}

func newPaper(perHour, horizon int) source { return &paper{perHour: perHour, horizon: horizon} }

// PaperBy is the method paper with another measure of how unlike two segments of counts are.
func PaperBy(unlike func(a, b []float64) float64) Choice {
	c, _ := Parse("paper")
	m := *c.method
	m.new = func(perHour, horizon int) source {
		return &paper{perHour: perHour, horizon: horizon, unlike: unlike}
	}
	return Choice{&m}
}

func (*paper) learn(context.Context, *History) error { return nil }

// draws matches the periodic part of the counts over as many whole days as there are before the end.
func (p *paper) draws(h *History) ([]draw, error) {
	from := h.bins() % (24 * p.perHour)
	values := h.counts(from)
	p.filter.apply(values, cutInHours*p.perHour)
	return placeOf(values, from, p.perHour, p.horizon, p.unlike), nil
}

// counts are the arrivals of each bin from one on.
func (h *History) counts(from int) []float64 {
	values := make([]float64, h.bins()-from)
	for i := range values {
		values[i] = float64(h.arrived[from+i+1] - h.arrived[from+i])
	}
	return values
}

// placeOf is the match of a series that begins at a bin.
func placeOf(values []float64, from, perHour, horizon int, unlike func(a, b []float64) float64) []draw {
	edge, ok := match(values, perHour, horizon, unlike)
	if !ok {
		return nil
	}
	return []draw{{edge: from + edge, weight: 1}}
}

// lowPass keeps the periodic part of a series: the Fourier components whose
// period is at least a limit. Counts are not negative, and neither is the result.
type lowPass struct {
	fft  *fourier.FFT
	coef []complex128
}

func (l *lowPass) apply(values []float64, period int) {
	n := len(values)
	if n == 0 {
		return
	}
	if l.fft == nil || l.fft.Len() != n {
		l.fft = fourier.NewFFT(n)
		l.coef = make([]complex128, n/2+1)
	}
	l.fft.Coefficients(l.coef, values)
	// The i-th component has period n/i.
	clear(l.coef[min(n/period+1, len(l.coef)):])
	l.fft.Sequence(values, l.coef)
	for i, v := range values {
		values[i] = max(v/float64(n), 0)
	}
}

// match finds the place before which the series was most like it is at its end, by a measure of how unlike two
// segments are, or by the sum of absolute differences, on which section 5 of the paper settles: the bins
// [edge-m, edge) resemble the last m ones. The part after it, as many bins as the horizon has, is known. Of
// equals the latest wins.
func match(values []float64, m, horizon int, unlike func(a, b []float64) float64) (edge int, ok bool) {
	n := len(values)
	if n < m+horizon {
		return 0, false
	}
	last := values[n-m:]
	best := math.Inf(1)
	for e := n - horizon; e >= m; e-- {
		if unlike != nil {
			if d := unlike(values[e-m:e], last); d < best {
				best, edge = d, e
			}
			continue
		}
		var d float64
		for i, v := range values[e-m : e] {
			if d += math.Abs(v - last[i]); d >= best {
				break
			}
		}
		if d < best {
			best, edge = d, e
		}
	}
	return edge, edge > 0
}
