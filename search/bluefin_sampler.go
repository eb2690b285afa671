package search

import (
	"encoding/json"
	"fmt"

	"github.com/autosched/autosched/space"
)

// BlueFinSampler runs [BlueFin] over a space, in pairs. Evenly spaced numbers,
// booleans and categories become integers counted from 0, everything else,
// including every element of an array, a number in [0,1]; the result is
// projected. Parameters on a log scale are tuned by their logarithm, and special values
// get a band of their own below the range; the original has neither.
type BlueFinSampler struct {
	core  *BlueFin
	space *space.Space
	dims  []blueFinDim
}

// blueFinDim maps one axis to a coordinate of the unit cube.
type blueFinDim struct {
	levels  int     // of an integer axis, 0 for a number in [0,1]
	special float64 // the share of the cube's coordinate that is special values
}

// specialBand is the least share of an axis for special values: the centre keeps a
// radius, 0.1, from the bounds, and must be able to stay on "off".
const specialBand = 0.25

// NewBlueFinSampler starts at setup.Start (none: the default), or continues
// from setup.State.
func NewBlueFinSampler(setup Setup) (*BlueFinSampler, error) {
	s := &BlueFinSampler{space: setup.Space}
	start := setup.Start
	if start.IsZero() {
		start = setup.Space.Default()
	}
	var axes []Axis
	for i, x := range setup.Space.Encode(start) {
		dim := setup.Space.Dim(i)
		p, _ := setup.Space.Param(dim.Param)
		var d blueFinDim
		for _, special := range p.Special {
			d.special += special.Weight
		}
		if dim.Levels > 0 && !p.Log && d.special == 0 {
			d.levels = dim.Levels
		}
		s.dims = append(s.dims, d)
		axes = append(axes, d.axis(x))
	}
	core, err := NewBlueFin(axes, setup.Seed)
	if err != nil {
		return nil, err
	}
	s.core = core
	if len(setup.State) > 0 {
		var state BlueFinState
		if err := json.Unmarshal(setup.State, &state); err != nil {
			return nil, fmt.Errorf("search: bluefin state: %w", err)
		}
		if err := core.Restore(state); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// axis returns the axis of d, started at coordinate x of the unit cube.
func (d blueFinDim) axis(x float64) Axis {
	if d.levels > 0 {
		return Axis{High: float64(d.levels - 1), Start: float64(min(int(x*float64(d.levels)), d.levels-1)), Int: true}
	}
	if band := max(d.special, specialBand); d.special > 0 && x < d.special {
		x *= band / d.special
	} else if d.special > 0 {
		x = band + (x-d.special)/(1-d.special)*(1-band)
	}
	return Axis{High: 1, Start: min(max(x, 0), 1)}
}

// coordinate is the inverse of axis.
func (d blueFinDim) coordinate(v float64) float64 {
	if d.levels > 0 {
		return (v + 0.5) / float64(d.levels)
	}
	if band := max(d.special, specialBand); d.special > 0 && v < band {
		v *= d.special / band
	} else if d.special > 0 {
		v = d.special + (v-band)/(1-band)*(1-d.special)
	}
	return v
}

func (s *BlueFinSampler) suggestion(v []float64) Suggestion {
	for i, d := range s.dims {
		v[i] = d.coordinate(v[i])
	}
	return Suggestion{Config: s.space.Decode(v), Point: v}
}

// Suggest returns the next pair.
func (s *BlueFinSampler) Suggest(q Request) []Suggestion {
	if q.N < 2 {
		return nil
	}
	return []Suggestion{s.suggestion(s.core.Plus()), s.suggestion(s.core.Minus())}
}

// Observe moves the centre by the rewards of the pair; a failed trial leaves it
// where it is.
func (s *BlueFinSampler) Observe(trials []Trial) {
	if len(trials) != 2 || trials[0].Err != "" || trials[1].Err != "" {
		s.core.Discard()
		return
	}
	s.core.Update(trials[0].Reward, trials[1].Reward)
}

// Discard drops the pair.
func (s *BlueFinSampler) Discard() { s.core.Discard() }

// State returns the state for Setup.State.
func (s *BlueFinSampler) State() json.RawMessage {
	b, err := json.Marshal(s.core.State())
	if err != nil {
		panic("search: bluefin state holds numbers that are not finite: " + err.Error())
	}
	return b
}

// Center returns the configuration at the centre, which SelfTune reports as best
// without measuring it.
func (s *BlueFinSampler) Center() space.Config { return s.suggestion(s.core.Center()).Config }
