package rounds

import (
	"time"

	"github.com/autosched/autosched/simulator"
)

// Grid is the instants that are whole multiples of a span, counted from the
// workload's zero. It has no state, so that a run resumed or forked at any instant
// keeps the same grid.
type Grid time.Duration

// NewGrid returns the grid of a span in a run, rounded up to whole multiples of
// simulator.Options.Round.
func NewGrid(s *simulator.View, span time.Duration) Grid {
	span = max(span, 1)
	if r := s.Round(); r > 0 {
		span = (span + r - 1) / r * r
	}
	return Grid(span)
}

// On reports whether t is on the grid.
func (g Grid) On(t time.Duration) bool { return t%time.Duration(g) == 0 }

// After is the first instant of the grid after t.
func (g Grid) After(t time.Duration) time.Duration {
	past := t % time.Duration(g)
	if past < 0 {
		past += time.Duration(g)
	}
	return t - past + time.Duration(g)
}
