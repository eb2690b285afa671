package arrivals

import "context"

// lastHour repeats the last hour.
type lastHour struct {
	perHour int
	// part: of less than an hour since the first job it repeats that, but for a quarter of an hour at least, so
	// that a burst at the begin does not go on and on.
	part bool
}

func newLastHour(_ []string, perHour, _ int) (source, error) { return lastHour{perHour, false}, nil }

func newRepeat(_ []string, perHour, _ int) (source, error) { return lastHour{perHour, true}, nil }

func (lastHour) learn(context.Context, *History) error { return nil }

func (s lastHour) draws(h *History) ([]draw, error) {
	if h.bins() < s.perHour && !(s.part && h.HasJobs()) {
		return nil, nil
	}
	span := s.perHour
	if s.part && len(h.jobs) > 0 {
		first := int((h.jobs[0].Submit - h.start) / h.bin)
		span = min(max(h.bins()-first, s.perHour/4), s.perHour)
	}
	return []draw{{edge: h.bins() - span, weight: 1, span: span}}, nil
}

// neighboursOf is how many places knn draws from: 10 to 50 forecast about
// equally well on the public traces.
const neighboursOf = 25

// neighbours draws from the hours after the hours most like the last one, by the
// sum of absolute differences of the bins' counts. Places may overlap; of equals
// the later comes first.
type neighbours struct{ perHour, horizon int }

func newNeighbours(_ []string, perHour, horizon int) (source, error) {
	return neighbours{perHour, horizon}, nil
}

func (neighbours) learn(context.Context, *History) error { return nil }

func (s neighbours) draws(h *History) ([]draw, error) {
	m := s.perHour
	bins := h.bins()
	counts := make([]int32, bins)
	for i := range counts {
		counts[i] = h.arrived[i+1] - h.arrived[i]
	}
	best := nearest{k: neighboursOf}
	last := counts[bins-min(m, bins):]
	for edge := bins - s.horizon; edge >= m; edge-- {
		place := counts[edge-m : edge]
		limit := best.limit()
		d := 0
		for i, v := range last {
			if d += distance(int(v), int(place[i])); float64(d) >= limit {
				break
			}
		}
		best.offer(edge, float64(d))
	}
	draws := make([]draw, len(best.found))
	for i, c := range best.found {
		draws[i] = draw{edge: c.at, weight: 1}
	}
	return draws, nil
}
