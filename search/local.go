package search

import (
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// localSampler searches around the best trial: numbers move by a step that grows
// with every success and shrinks with every failure, categories and levels change
// one or two at a time. It is cheap and refines the result of other samplers at the
// end of a large budget.
type localSampler struct {
	Setup
	enc *encoder
	all []space.Config
}

func newLocalSampler(s Setup) *localSampler {
	return &localSampler{Setup: s, enc: newEncoder(s.Space), all: s.enumerate()}
}

// The step starts at a fifth of the range; a success doubles it and failures
// make up for one success in five (Rechenberg's rule, 1973).
const (
	localStep  = 0.2
	localGrow  = 2
	localLeast = 1e-4
	localMost  = 0.5
)

var localShrink = math.Pow(localGrow, -0.25)

// replay returns the best trial and the step after a history.
func (s *localSampler) replay(history []Trial) (best int, step float64) {
	best, step = -1, localStep
	for i := range history {
		t := &history[i]
		better := t.OK() && (best < 0 || t.Measurement.Mean() < history[best].Measurement.Mean())
		switch {
		case better && t.Origin == localOrigin:
			step = min(step*localGrow, localMost)
		case t.Origin == localOrigin:
			step *= localShrink
		}
		if step < localLeast { // converged: restart with a larger step
			step = localStep
		}
		if better {
			best = i
		}
	}
	return best, step
}

const localOrigin = "local"

func (s *localSampler) Suggest(q Request) []Suggestion {
	p := newProposals(s.enc, s.all, q, rng.Stream("local", s.Seed, uint64(q.Step)))
	best, step := s.replay(q.History)
	if best < 0 {
		return p.design(s.Seed, q)
	}
	center := s.Space.Encode(q.History[best].Config)
	x := make([]float64, len(center))
	var out []Suggestion
	for range min(q.N, batch) {
		var c space.Config
		var at []float64
		ok := false
		for range 50 {
			copy(x, center)
			s.enc.mutate(x, 1.5/float64(len(x)), step, p.rng)
			if c, ok = p.fresh(x); ok {
				at = slices.Clone(x)
				break
			}
		}
		if !ok {
			if c, ok = p.anyNew(center); !ok {
				break
			}
		}
		p.take(c)
		out = append(out, Suggestion{Config: c, Origin: localOrigin, Point: at})
	}
	return out
}
