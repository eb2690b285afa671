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

// Settings of SelfTune's Python version 2: its defaults with two-point feedback, which its
// authors recommend if the same environment can be measured twice. The radius of the points
// is the square root of the step size, as the original has it.
const (
	blueFinEta    = 0.01
	blueFinRadius = 0.1
)

// BlueFinState is the state needed to continue exactly.
type BlueFinState struct {
	Seed   uint64    `json:"seed"`
	Center []float64 `json:"center"` // in [0,1]
	// Direction is the unit vector of the current points, Draws the number of
	// directions drawn.
	Direction []float64 `json:"direction"`
	Draws     uint64    `json:"draws"`
}

// BlueFin maximises a reward by bandit gradient ascent: it measures the reward at
// its centre plus and minus a small random step, and moves the centre along that
// step.
type BlueFin struct {
	axes  []Axis // bounds and start in steps
	state BlueFinState
}

// NewBlueFin starts at the axes' Start values.
func NewBlueFin(axes []Axis, seed uint64) (*BlueFin, error) {
	if len(axes) == 0 {
		return nil, errors.New("search: bluefin needs at least one axis")
	}
	b := &BlueFin{axes: slices.Clone(axes), state: BlueFinState{Seed: seed}}
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
		w := 0.0
		if a.High > a.Low {
			w = (a.Start - a.Low) / (a.High - a.Low)
		}
		b.state.Center = append(b.state.Center, inside(w))
	}
	b.draw()
	return b, nil
}

// inside keeps a coordinate a radius away from the bounds.
func inside(w float64) float64 { return min(max(w, blueFinRadius), 1-blueFinRadius) }

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
func (b *BlueFin) Plus() []float64 { return b.point(blueFinRadius) }

// Minus returns the second point; see Plus.
func (b *BlueFin) Minus() []float64 { return b.point(-blueFinRadius) }

// Center returns the centre in the parameters' units.
func (b *BlueFin) Center() []float64 { return b.point(0) }

func (b *BlueFin) point(radius float64) []float64 {
	out := make([]float64, len(b.axes))
	for i, a := range b.axes {
		v := b.state.Center[i] + radius*b.state.Direction[i]
		v = a.Low + v*(a.High-a.Low)
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

// Update moves the centre by the rewards at Plus and Minus and draws the next direction.
// If a reward is not finite, the centre stays and only the direction changes.
func (b *BlueFin) Update(plus, minus float64) {
	g := plus - minus
	if scale := max(math.Abs(plus), math.Abs(minus)); scale != 0 {
		g /= scale
	}
	center := slices.Clone(b.state.Center)
	for i := range center {
		gradient := float64(len(b.axes)) * g * b.state.Direction[i] / (2 * blueFinRadius)
		center[i] = inside(center[i] + blueFinEta*gradient)
		if math.IsNaN(center[i]) || math.IsInf(plus-minus, 0) {
			b.Discard()
			return
		}
	}
	b.state.Center = center
	b.draw()
}

// Discard drops the current points and draws another direction; the centre
// stays.
func (b *BlueFin) Discard() { b.draw() }

// State returns a copy of the state.
func (b *BlueFin) State() BlueFinState {
	s := b.state
	s.Center, s.Direction = slices.Clone(s.Center), slices.Clone(s.Direction)
	return s
}

// Restore continues from a state of the same axes.
func (b *BlueFin) Restore(s BlueFinState) error {
	n := len(b.axes)
	if len(s.Center) != n || len(s.Direction) != n {
		return fmt.Errorf("search: bluefin state: %d and %d numbers for %d axes", len(s.Center), len(s.Direction), n)
	}
	for _, v := range slices.Concat(s.Center, s.Direction) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("search: bluefin state: %v is not a finite number", v)
		}
	}
	b.state = s
	b.state = b.State() // a copy
	return nil
}
