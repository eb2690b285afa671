package search

import (
	"math"
	"slices"
)

// warp is a monotone transform of the objective that makes it easier to model.
type warp uint8

const (
	warpNone  warp = iota
	warpLog        // makes noise in proportion to the value uniform
	warpTail       // logarithm from a little below the best: compresses bad values
	warpKinds      // how many there are
)

// warping is a warp fitted to values, with a standardisation after it.
type warping struct {
	warp         warp
	low, knee    float64 // of warpTail
	center, unit float64
}

// fitWarp fits a warp to values in the order of time; ok is false if it cannot be
// used on them.
func fitWarp(w warp, values []float64) (out warping, ok bool) {
	out = warping{warp: w, unit: 1}
	if len(values) == 0 {
		return out, w == warpNone
	}
	low, high := slices.Min(values), slices.Max(values)
	switch w {
	case warpLog:
		// Beyond, the logarithm magnifies small differences near a best of zero.
		if !(low > 0) || high < 1.5*low || high > 1000*low {
			return out, false
		}
	case warpTail:
		// Early trials are spread out; later ones lie around the best.
		early := slices.Sorted(slices.Values(values[:min(len(values), 24)]))
		out.low = low
		out.knee = early[len(early)/4] - low
		if !(out.knee > 1e-9*low) || high-low < 4*out.knee || high-low > 1e12*out.knee {
			return out, false
		}
	}
	var sum, squares float64
	for _, v := range values {
		sum += out.raw(v)
	}
	out.center = sum / float64(len(values))
	for _, v := range values {
		d := out.raw(v) - out.center
		squares += d * d
	}
	if unit := math.Sqrt(squares / float64(len(values))); unit > 1e-12*max(math.Abs(out.center), 1e-300) {
		out.unit = unit
	}
	return out, true
}

func (w *warping) raw(v float64) float64 {
	switch w.warp {
	case warpLog:
		return math.Log(max(v, 1e-300))
	case warpTail:
		return math.Log1p(max(v-w.low, -0.5*w.knee) / w.knee)
	}
	return v
}

// forward maps a value, back undoes it.
func (w *warping) forward(v float64) float64 { return (w.raw(v) - w.center) / w.unit }

func (w *warping) back(y float64) float64 {
	v := y*w.unit + w.center
	switch w.warp {
	case warpLog:
		return math.Exp(v)
	case warpTail:
		return w.low + w.knee*math.Expm1(v)
	}
	return v
}

// jacobian returns the log derivative of forward at v, by which evidences of different
// warps are comparable.
func (w *warping) jacobian(v float64) float64 {
	switch w.warp {
	case warpLog:
		return -math.Log(max(v, 1e-300)) - math.Log(w.unit)
	case warpTail:
		return -math.Log(w.knee+max(v-w.low, -0.5*w.knee)) - math.Log(w.unit)
	}
	return -math.Log(w.unit)
}
