package study

import (
	"math"
	"slices"
	"time"
)

// Objective is a metric of final measurements.
type Objective struct {
	Metric   string
	Maximize bool
}

// Optimal returns the trials that succeeded and to which no other is better in one objective and no worse
// in the rest, in order. Trials without all metrics, or with the measurement of another, are left out.
func (s *State) Optimal(objectives []Objective) (out []*Trial) {
	var all []*Trial
	for _, t := range s.Trials {
		if t.State == Succeeded && t.SameAs == 0 && !slices.ContainsFunc(objectives, func(o Objective) bool {
			_, ok := t.Final.Metrics[o.Metric]
			return !ok
		}) {
			all = append(all, t)
		}
	}
	for _, t := range all {
		if !slices.ContainsFunc(all, func(other *Trial) bool { return dominates(other, t, objectives) }) {
			out = append(out, t)
		}
	}
	return out
}

func dominates(a, b *Trial, objectives []Objective) bool {
	better := false
	for _, o := range objectives {
		x, y := a.Final.Metrics[o.Metric], b.Final.Metrics[o.Metric]
		if o.Maximize {
			x, y = y, x
		}
		if x > y {
			return false
		}
		better = better || x < y
	}
	return better
}

// Estimate is the remainder of a study, if no lease expires.
type Estimate struct {
	Trials int // to measure, including those under way
	// Each is how long a trial takes, 0 if that is not known, and Measured the trials that it is the mean of.
	Each     time.Duration
	Measured int
	// Total is the time of all, Wall that until the last ends.
	Total, Wall time.Duration
}

// Estimate estimates the remainder, with a number of trials at a time that take as long as each, or as the ones
// before if it is 0. Durations end at the longest there is.
func (s *State) Estimate(each time.Duration, parallel int) Estimate {
	e := Estimate{Each: each}
	seen := map[string]bool{}
	for _, t := range s.Trials {
		if t.State.Open() {
			e.Trials++
		}
		if t.Origin != Lost {
			seen[t.Config.Hash()] = true
		}
		if each == 0 && t.State == Succeeded && !t.Started.IsZero() {
			e.Measured++
			e.Each += (t.Ended.Sub(t.Started) - e.Each) / time.Duration(e.Measured)
		}
	}
	if s.Stopped == "" && (s.Phase == Active || s.Phase == Paused) {
		fresh := max(0, s.Space.Size()-float64(len(seen)))
		e.Trials += int(min(float64(s.Spec.Budget-s.Used()), fresh))
	}
	times := func(n int) time.Duration {
		return time.Duration(min(float64(n)*float64(e.Each), math.MaxInt64/2))
	}
	e.Total, e.Wall = times(e.Trials), times((e.Trials+parallel-1)/parallel)
	return e
}
