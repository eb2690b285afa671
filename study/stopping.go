package study

import (
	"cmp"
	"slices"
)

// fewest is the number of ended trials that the median rule needs.
const fewest = 5

// Hopeless is the median rule of Vizier: the best value of a trial so far is worse than the median, over the
// trials that ended, of their mean value up to the same step.
func (s *State) Hopeless(one *Trial) bool {
	best, step, ok := s.bestSoFar(one)
	if !ok {
		return false
	}
	var means []float64
	for _, t := range s.Trials {
		sum, n := 0.0, 0.0
		if t.State != Succeeded {
			continue
		}
		for i := range t.Measurements {
			m := &t.Measurements[i]
			if v, ok := m.Metrics[s.Spec.Metric]; ok && m.Step <= step {
				sum += v
				n++
			}
		}
		if n > 0 {
			means = append(means, sum/n)
		}
	}
	if len(means) < fewest {
		return false
	}
	slices.SortFunc(means, func(a, b float64) int { return cmp.Compare(s.Spec.Cost(a), s.Spec.Cost(b)) })
	return s.Spec.Better(means[len(means)/2], best)
}

// bestSoFar is the best value of a trial up to its last measured step.
func (s *State) bestSoFar(one *Trial) (best float64, step int64, ok bool) {
	for i := range one.Measurements {
		m := &one.Measurements[i]
		v, has := m.Metrics[s.Spec.Metric]
		if !has {
			continue
		}
		if !ok || s.Spec.Better(v, best) {
			best = v
		}
		step, ok = m.Step, true
	}
	return best, step, ok
}
