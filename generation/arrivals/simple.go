package arrivals

import (
	"context"
	"math"
	"slices"
)

// lastHour repeats the last hour.
type lastHour struct{ perHour int }

func newLastHour(_ []string, perHour, _ int) (source, error) { return lastHour{perHour}, nil }

func (lastHour) learn(context.Context, *History) error { return nil }

func (s lastHour) draws(h *History) ([]draw, error) {
	if h.bins() < s.perHour {
		return nil, nil
	}
	return []draw{{edge: h.bins() - s.perHour, weight: 1, span: s.perHour}}, nil
}

// neighboursOf is how many places knn draws from: 10 to 50 forecast about
// equally well on the public traces.
const neighboursOf = 25

// neighbours draws from what followed the hours most like the last one, by the
// sum of absolute differences of the bins' counts. Places may overlap; of equals
// the later comes first.
type neighbours struct{ perHour, horizon int }

func newNeighbours(_ []string, perHour, horizon int) (source, error) {
	return neighbours{perHour, horizon}, nil
}

func (neighbours) learn(context.Context, *History) error { return nil }

type candidate struct {
	edge     int
	distance int
}

func (s neighbours) draws(h *History) ([]draw, error) {
	m := s.perHour
	bins := h.bins()
	counts := make([]int32, bins)
	for i := range counts {
		counts[i] = h.arrived[i+1] - h.arrived[i]
	}
	var best []candidate // nearest first
	for edge := bins - s.horizon; edge >= m; edge-- {
		limit := math.MaxInt
		if len(best) == neighboursOf {
			limit = best[neighboursOf-1].distance
		}
		d := 0
		place, last := counts[edge-m:edge], counts[bins-m:]
		for i, v := range last {
			d += distance(int(v), int(place[i]))
			if d >= limit {
				break
			}
		}
		if d >= limit {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, d+1, func(c candidate, d int) int { return c.distance - d })
		if len(best) == neighboursOf {
			best = best[:neighboursOf-1]
		}
		best = slices.Insert(best, at, candidate{edge, d})
	}
	draws := make([]draw, len(best))
	for i, c := range best {
		draws[i] = draw{edge: c.edge, weight: 1}
	}
	return draws, nil
}
