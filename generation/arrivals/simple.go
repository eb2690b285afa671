package arrivals

import "context"

// repeat repeats the last hour. Of less than an hour since the first job it repeats that,
// but for a quarter of an hour at least, so that a burst at the begin does not go on and on.
type repeat struct{ perHour int }

func newRepeat(perHour, _ int) source { return repeat{perHour} }

func (repeat) learn(context.Context, *History) error { return nil }

func (s repeat) draws(h *History) ([]draw, error) {
	span := s.perHour
	if len(h.jobs) > 0 {
		first := int((h.jobs[0].Submit - h.start) / h.bin)
		span = min(max(h.bins()-first, s.perHour/4), s.perHour)
	}
	return []draw{{edge: h.bins() - span, weight: 1, span: span}}, nil
}
