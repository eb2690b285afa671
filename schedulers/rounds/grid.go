package rounds

import (
	"time"

	"github.com/autosched/autosched/simulator"
)

// Grid is a rhythm: instants that are whole multiples of a span, counted from
// the workload's zero. It has no memory, so that a run resumed or forked at any
// instant falls into the same step.
type Grid time.Duration

// NewGrid is the rhythm of a span in a run: rounded up to whole rounds of the
// run's own decision grid.
func NewGrid(s *simulator.View, span time.Duration) Grid {
	span = max(span, 1)
	if r := s.Round(); r > 0 {
		span = (span + r - 1) / r * r
	}
	return Grid(span)
}

// On reports whether an instant is on the grid.
func (g Grid) On(t time.Duration) bool { return t%time.Duration(g) == 0 }

// After is the first instant of the grid after t.
func (g Grid) After(t time.Duration) time.Duration {
	past := t % time.Duration(g)
	if past < 0 {
		past += time.Duration(g)
	}
	return t - past + time.Duration(g)
}
