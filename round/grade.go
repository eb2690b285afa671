package round

import (
	"context"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
)

// Grade grades the forecasts of past hours as rounds with a Grader's method made them. Arrivals are
// known since kept.
func (s *Snapshot) Grade(ctx context.Context, g *generation.Grader, from, to, kept time.Duration,
	seed uint64) (*generation.Grades, error) {
	return g.Grade(ctx, generation.GradeRequest{From: from, To: to,
		Records:   durations.Observed(s.Ledger, s.State.At, s.State.At-from+Memory, s.work()),
		Known:     s.known,
		Submitted: s.Ledger.Arrivals(max(from-ArrivalMemory, kept), to), Seed: seed})
}
