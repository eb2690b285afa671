package fidelity

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/workload"
)

// steps is a quantity over time that changes at instants, in order: level[i] holds from
// at[i] on, and 0 before the first.
type steps struct {
	at    []time.Duration
	level []int64
}

// set changes the quantity from an instant on, which no instant before it may follow.
func (s *steps) set(at time.Duration, level int64) {
	n := len(s.at)
	switch {
	case n > 0 && s.at[n-1] == at:
		s.level[n-1] = level
	case n > 0 && s.level[n-1] == level:
	default:
		s.at, s.level = append(s.at, at), append(s.level, level)
	}
}

// value is the quantity at an instant.
func (s *steps) value(at time.Duration) int64 {
	i := sort.Search(len(s.at), func(i int) bool { return s.at[i] > at })
	if i == 0 {
		return 0
	}
	return s.level[i-1]
}

// atLeast returns the time up to an instant during which the quantity was at least a level.
func (s *steps) atLeast(level int64) func(time.Duration) time.Duration {
	sum := make([]time.Duration, len(s.at))
	for i := 1; i < len(s.at); i++ {
		sum[i] = sum[i-1]
		if s.level[i-1] >= level {
			sum[i] += s.at[i] - s.at[i-1]
		}
	}
	return func(at time.Duration) time.Duration {
		i := sort.Search(len(s.at), func(i int) bool { return s.at[i] > at }) - 1
		if i < 0 {
			return 0
		}
		if s.level[i] >= level {
			return sum[i] + at - s.at[i]
		}
		return sum[i]
	}
}

// byLevel is atLeast, computed once for each level.
func (s *steps) byLevel() func(level int64) func(time.Duration) time.Duration {
	known := map[int64]func(time.Duration) time.Duration{}
	return func(level int64) func(time.Duration) time.Duration {
		if known[level] == nil {
			known[level] = s.atLeast(level)
		}
		return known[level]
	}
}

// most is the largest value in [from, to).
func (s *steps) most(from, to time.Duration) int64 {
	most := s.value(from)
	for i := sort.Search(len(s.at), func(i int) bool { return s.at[i] > from }); i < len(s.at) && s.at[i] < to; i++ {
		most = max(most, s.level[i])
	}
	return most
}

// mean is the mean over [from, to).
func (s *steps) mean(from, to time.Duration) float64 {
	sum := 0.0
	for i, level := range s.level {
		until := to
		if i+1 < len(s.at) {
			until = min(to, s.at[i+1])
		}
		sum += float64(level) * float64(max(0, until-max(from, s.at[i])))
	}
	return sum / float64(to-from)
}

// delta is a change of a quantity.
type delta struct {
	at time.Duration
	by int64
}

// occupied are the GPUs that a recorded job takes and gives back, in thousandths.
func occupied(j *workload.Job) []delta {
	start := j.Submit + j.Wait
	return []delta{{start, int64(j.GPUs)}, {start + j.Duration, -int64(j.GPUs)}}
}

func stepsOf(deltas []delta) (s steps) {
	slices.SortStableFunc(deltas, func(a, b delta) int { return cmp.Compare(a.at, b.at) })
	level := int64(0)
	for _, d := range deltas {
		level += d.by
		s.set(d.at, level)
	}
	return s
}

// record is the history's account of its cluster. GPUs are in thousandths.
type record struct {
	used steps
	// free is the assumed cluster's GPUs, without nodes that are down or drain, less
	// used. It is negative where more are recorded than assumed.
	free steps
}

// recordOf sums the jobs of the trace whose start is recorded.
func recordOf(in *Input) *record {
	var used []delta
	for i := range in.Trace.Jobs() {
		j := &in.Trace.Jobs()[i]
		if start := j.Submit + j.Wait; j.HasWait && start < in.To && start+j.Duration > in.From {
			used = append(used, occupied(j)...)
		}
	}
	free := capacity(in, func(int) bool { return true })
	for _, d := range used {
		free = append(free, delta{d.at, -d.by})
	}
	return &record{stepsOf(used), stepsOf(free)}
}

// capacity is how some groups of the assumed cluster change: all of their nodes first.
func capacity(in *Input, has func(group int) bool) []delta {
	gpus, all := make([]int64, 0, in.Cluster.Nodes()), int64(0)
	for i, g := range in.Cluster.Groups {
		of := int64(0)
		if has(i) {
			of = 1000 * int64(g.GPUsPerNode)
		}
		all += of * int64(g.Nodes)
		for range g.Nodes {
			gpus = append(gpus, of)
		}
	}
	out := []delta{{-workload.MaxSubmit, all}}
	closed := make([]bool, len(gpus))
	for _, e := range in.Simulate.Nodes {
		shut := e.Kind != workload.NodeUp
		if e.Node >= len(gpus) || shut == closed[e.Node] {
			continue
		}
		closed[e.Node] = shut
		by := gpus[e.Node]
		if shut {
			by = -by
		}
		out = append(out, delta{e.At, by})
	}
	return out
}

// peak is the most GPUs that recorded jobs held at once.
func (r *record) peak() int64 {
	if len(r.used.level) == 0 {
		return 0
	}
	return slices.Max(r.used.level)
}
