package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Axis is one bounded number that BlueFin tunes.
type Axis struct {
	Low, High, Start float64
	// Step allows only Start plus multiples of it. 0 means 1 for integers and
	// any number for others.
	Step float64
	Int  bool
}

// BlueFinOptions are the settings of SelfTune's Python version 2; the zero
// value is its defaults, except for two-point feedback, which its authors recommend
// if the same environment can be measured twice.
type BlueFinOptions struct {
	OnePoint bool
	// Eta is the step size, 0 means 0.01. Delta is the radius of the first round, 0
	// means 0.1; every later round uses the square root of Eta, as the original does.
	Eta, Delta float64
	Decay      float64 // Eta is divided by 1 + Decay * round
	RMSProp    bool    // scale steps by recent gradients
	Raw        bool    // work in the parameters' own units, not in [0,1]
}

// rmsAlpha and rmsEpsilon are the original's RMSprop settings.
const (
	rmsAlpha   = 0.99
	rmsEpsilon = 1e-8
)

// BlueFinState is the state needed to continue exactly.
type BlueFinState struct {
	Seed   uint64    `json:"seed"`
	Center []float64 `json:"center"`
	// Direction is the unit vector of the current points, Draws the number of
	// directions drawn.
	Direction []float64 `json:"direction"`
	Draws     uint64    `json:"draws"`
	Round     int       `json:"round"`
	Eta       float64   `json:"eta"`
	Delta     float64   `json:"delta"`  // divides the next gradient
	Radius    float64   `json:"radius"` // of the current points
	Squares   []float64 `json:"squares,omitempty"`
}

// BlueFin maximises a reward by bandit gradient ascent: it measures the reward at
// its centre plus and minus a small random step, and moves the centre along that
// step.
type BlueFin struct {
	axes  []Axis // bounds and start in steps
	opts  BlueFinOptions
	state BlueFinState
}

// NewBlueFin starts at the axes' Start values.
func NewBlueFin(axes []Axis, opts BlueFinOptions, seed uint64) (*BlueFin, error) {
	if len(axes) == 0 {
		return nil, errors.New("search: bluefin needs at least one axis")
	}
	if opts.Eta == 0 {
		opts.Eta = 0.01
	}
	if opts.Delta == 0 {
		opts.Delta = 0.1
	}
	b := &BlueFin{axes: slices.Clone(axes), opts: opts}
	b.state = BlueFinState{Seed: seed, Eta: opts.Eta, Delta: opts.Delta, Radius: opts.Delta}
	for i := range b.axes {
		a := &b.axes[i]
		if !(a.Low <= a.Start && a.Start <= a.High) || math.IsInf(a.High-a.Low, 0) {
			return nil, fmt.Errorf("search: bluefin axis %d: start %v is not between %v and %v",
				i, a.Start, a.Low, a.High)
		}
		if a.Int && a.Step == 0 {
			a.Step = 1
		}
		if a.Step != 0 {
			a.Low, a.High, a.Start = a.Low/a.Step, a.High/a.Step, a.Start/a.Step
		}
		w := a.Start
		if !opts.Raw {
			w = 0
			if a.High > a.Low {
				w = (a.Start - a.Low) / (a.High - a.Low)
			}
		}
		b.state.Center = append(b.state.Center, b.inside(i, w))
	}
	b.draw()
	return b, nil
}

// inside keeps coordinate w a radius away from the bounds of axis i. If that is
// impossible, the upper bound applies, as in numpy.clip.
func (b *BlueFin) inside(i int, w float64) float64 {
	low, high := 0.0, 1.0
	if b.opts.Raw {
		low, high = b.axes[i].Low, b.axes[i].High
	}
	return min(max(w, low+b.state.Delta), high-b.state.Delta)
}

// draw draws the next direction, a function of the seed and the number of draws.
func (b *BlueFin) draw() {
	rng := rand.New(rand.NewPCG(b.state.Seed, b.state.Draws))
	b.state.Draws++
	u := make([]float64, len(b.axes))
	var norm float64
	for i := range u {
		u[i] = rng.NormFloat64()
		norm += u[i] * u[i]
	}
	if norm = math.Sqrt(norm); norm == 0 {
		u[0], norm = 1, 1
	}
	for i := range u {
		u[i] /= norm
	}
	b.state.Direction = u
}

// Plus and Minus return the two points to measure, in the parameters' units.
func (b *BlueFin) Plus() []float64 { return b.point(b.state.Radius) }

// Minus returns the second point; see Plus.
func (b *BlueFin) Minus() []float64 { return b.point(-b.state.Radius) }

// Center returns the centre in the parameters' units.
func (b *BlueFin) Center() []float64 { return b.point(0) }

func (b *BlueFin) point(radius float64) []float64 {
	out := make([]float64, len(b.axes))
	for i, a := range b.axes {
		v := b.state.Center[i] + radius*b.state.Direction[i]
		if !b.opts.Raw {
			v = a.Low + v*(a.High-a.Low)
		}
		v = min(max(a.Low, v), a.High)
		if a.Step != 0 {
			n := math.RoundToEven(v - a.Low + 1)
			v = (a.Low + (n - 1)) * a.Step
			if a.Int {
				v = math.RoundToEven(v)
			}
		}
		out[i] = v
	}
	return out
}

// Update moves the centre by the rewards at Plus and Minus (in one-point mode
// only the first counts) and draws the next direction. If a reward is not finite, the
// centre stays and only the direction changes.
func (b *BlueFin) Update(plus, minus float64) {
	if b.opts.OnePoint {
		minus = 0
	}
	if math.IsNaN(plus-minus) || math.IsInf(plus-minus, 0) {
		b.Discard()
		return
	}
	s := &b.state
	g, points := plus, 1.0
	if !b.opts.OnePoint {
		g, points = plus-minus, 2
		if scale := max(math.Abs(plus), math.Abs(minus)); scale != 0 {
			g /= scale
		}
	}
	if b.opts.RMSProp && s.Squares == nil {
		s.Squares = make([]float64, len(b.axes))
	}
	center := slices.Clone(s.Center)
	for i := range center {
		gradient := float64(len(b.axes)) * g * s.Direction[i] / (points * s.Delta)
		step := s.Eta * gradient
		if b.opts.RMSProp {
			s.Squares[i] = rmsAlpha*s.Squares[i] + (1-rmsAlpha)*gradient*gradient
			step = s.Eta * gradient / (math.Sqrt(s.Squares[i]) + rmsEpsilon)
		}
		center[i] = b.inside(i, center[i]+step)
		if math.IsNaN(center[i]) {
			b.Discard()
			return
		}
	}
	s.Center = center
	s.Radius = s.Delta // the next points keep this round's radius
	s.Round++
	s.Eta = b.opts.Eta / (1 + b.opts.Decay*float64(s.Round))
	s.Delta = math.Sqrt(s.Eta)
	b.draw()
}

// Discard drops the current points and draws another direction; the centre
// stays.
func (b *BlueFin) Discard() { b.draw() }

// State returns a copy of the state.
func (b *BlueFin) State() BlueFinState {
	s := b.state
	s.Center, s.Direction, s.Squares = slices.Clone(s.Center), slices.Clone(s.Direction), slices.Clone(s.Squares)
	return s
}

// Restore continues from a state of the same axes and options.
func (b *BlueFin) Restore(s BlueFinState) error {
	n := len(b.axes)
	if len(s.Center) != n || len(s.Direction) != n || s.Squares != nil && len(s.Squares) != n {
		return fmt.Errorf("search: bluefin state: %d, %d and %d numbers for %d axes", len(s.Center), len(s.Direction),
			len(s.Squares), n)
	}
	for _, v := range slices.Concat(s.Center, s.Direction, s.Squares, []float64{s.Eta, s.Delta, s.Radius}) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("search: bluefin state: %v is not a finite number", v)
		}
	}
	switch {
	case s.Eta <= 0:
		return fmt.Errorf("search: bluefin state: eta is %g, want a step above 0", s.Eta)
	case s.Delta <= 0:
		return fmt.Errorf("search: bluefin state: delta is %g, want a radius above 0", s.Delta)
	case s.Round < 0:
		return fmt.Errorf("search: bluefin state: round is %d, want 0 or more", s.Round)
	}
	b.state = s
	b.state = b.State() // a copy
	return nil
}
