package arrivals

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Metrics are the similarity measures of the paper's Table 5, the default first:
// section 5 of the paper settles on it. Relative is that of its section 3.2.1.
var Metrics = []string{"manhattan", "euclidean", "pearson", "cosine", Relative}

// Relative is the metric that the figures of the paper's Figure 8 come out with.
const Relative = "relative"

// The paper's series: periodic keeps the periods of two hours and longer, original
// keeps all. The paper is silent on the cut; of 1, 2 and 6 hours and the largest 5
// to 100 frequencies, two hours forecast real arrivals best.
const (
	periodic   = "periodic"
	original   = "original"
	cutInHours = 2
)

var paperVariants = append([]string{periodic, original}, Metrics...)

// paper copies the place most like the last hour.
type paper struct {
	perHour, horizon int
	metric           string
	original         bool
	filter           lowPass
}

func newPaper(variants []string, perHour, horizon int) (source, error) {
	p := &paper{perHour: perHour, horizon: horizon, metric: Metrics[0]}
	seen := 0
	for _, v := range variants {
		switch v {
		case periodic:
		case original:
			p.original = true
		default:
			p.metric = v
			seen++
		}
	}
	if seen > 1 || p.original && slices.Contains(variants, periodic) {
		return nil, fmt.Errorf("arrivals: method paper takes one similarity and one series, not %q", variants)
	}
	return p, nil
}

func (*paper) learn(context.Context, *History) error { return nil }

func (p *paper) draws(h *History) ([]draw, error) {
	values, from := p.series(h)
	edge, ok := match(values, p.perHour, p.horizon, p.metric)
	if !ok {
		return nil, nil
	}
	return []draw{{edge: from + edge, weight: 1}}, nil
}

// series is the matched series, and the bin it begins at: the counts, or their
// periodic part over as many whole days as there are before the end.
func (p *paper) series(h *History) (values []float64, from int) {
	bins := h.bins()
	if !p.original {
		from = bins % (24 * p.perHour)
	}
	values = make([]float64, bins-from)
	for i := range values {
		values[i] = float64(h.arrived[from+i+1] - h.arrived[from+i])
	}
	if !p.original {
		p.filter.apply(values, cutInHours*p.perHour)
	}
	return values, from
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

// match finds the place before which the series was most like it is at its end:
// the bins [edge-m, edge) resemble the last m ones. The part after it, as many bins as
// the horizon has, is known. Of equals the latest wins.
func match(values []float64, m, horizon int, metric string) (edge int, ok bool) {
	n := len(values)
	if n < m+horizon {
		return 0, false
	}
	last := values[n-m:]
	unlike := dissimilarity(metric, last)
	best := math.Inf(1)
	for e := n - horizon; e >= m; e-- {
		if d := unlike(values[e-m:e], best); d < best {
			best, edge = d, e
		}
	}
	return edge, edge > 0
}

// dissimilarity measures how far segments are from a reference, the smaller the
// more alike. It may stop short of the result when that is not below a limit.
func dissimilarity(metric string, ref []float64) func(seg []float64, limit float64) float64 {
	switch metric {
	case "manhattan":
		return func(seg []float64, limit float64) float64 {
			var d float64
			for i, r := range ref {
				if d += math.Abs(seg[i] - r); d >= limit {
					return d
				}
			}
			return d
		}
	case "euclidean": // squared: the order is the same
		return func(seg []float64, limit float64) float64 {
			var d float64
			for i, r := range ref {
				v := seg[i] - r
				if d += v * v; d >= limit {
					return d
				}
			}
			return d
		}
	case "cosine", "pearson":
		mean := func(x []float64) float64 {
			if metric == "cosine" {
				return 0
			}
			var s float64
			for _, v := range x {
				s += v
			}
			return s / float64(len(x))
		}
		refMean := mean(ref)
		var refNorm float64
		for _, r := range ref {
			refNorm += (r - refMean) * (r - refMean)
		}
		return func(seg []float64, _ float64) float64 {
			segMean := mean(seg)
			var dot, norm float64
			for i, r := range ref {
				v := seg[i] - segMean
				dot += v * (r - refMean)
				norm += v * v
			}
			if norm <= 0 || refNorm <= 0 { // a constant is like a constant only
				if norm <= 0 && refNorm <= 0 {
					return 0
				}
				return 1
			}
			return 1 - dot/math.Sqrt(norm*refNorm)
		}
	}
	// The relative error, in requests of at least one. Where counts are small many
	// places are equally far, so that rounding decides: the first eight terms are
	// added in pairs, which is nearer to the truth than one after the other, and
	// the method of the reference figures.
	return func(seg []float64, limit float64) float64 {
		term := func(i int) float64 { return math.Abs(seg[i]-ref[i]) / max(ref[i], 1) }
		var d float64
		i := 0
		if len(ref) >= 8 {
			d = ((term(0) + term(1)) + (term(2) + term(3))) + ((term(4) + term(5)) + (term(6) + term(7)))
			i = 8
		}
		for ; i < len(ref) && d < limit; i++ {
			d += term(i)
		}
		return d
	}
}
