package tiresias

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
)

// GittinsQuantum is the GPU-time that the Gittins index looks ahead. The value
// is that of the original simulator, which takes the first queue's threshold.
const GittinsQuantum = 3250 * time.Second

// The index is learnt again when the number of jobs known to have ended has
// grown by a quarter since the last time, from the latest of them: often
// enough to follow a change of load, seldom enough to cost nothing. The first
// time is when a quantile means something.
const (
	firstSample = 16
	maxSample   = 10_000
)

// Of the past jobs that reached a step of the index, seven in ten reach the
// next, so that most jobs see few steps and the long ones, where the index
// matters, are distinguished. Beyond the last step fewer than eight are left to
// learn from. Steps at even quantiles cost three times as much and are worse.
const (
	stepReach = 0.7
	leastLeft = 8
)

// index is the Gittins index (Tiresias section 3.2.2) as a table over the
// service attained: the chance that a job ends within the next GittinsQuantum,
// over the service it is expected to take until its end or the quantum's. It is
// constant within a step.
type index struct {
	steps  []step
	sorted []time.Duration
	order  []int
}

type step struct {
	from  time.Duration
	key   int32 // smaller is to run first; equal indexes have equal keys
	value float64
}

// learn makes the table from a sample. Without one all jobs are equal.
func (x *index) learn(sample []time.Duration) {
	x.steps = append(x.steps[:0], step{})
	if len(sample) == 0 {
		return
	}
	x.sorted = append(x.sorted[:0], sample...)
	slices.Sort(x.sorted)
	n := len(x.sorted)
	for left := int(stepReach * float64(n)); left >= leastLeft; left = int(stepReach * float64(left)) {
		if v := x.sorted[n-left-1]; v > x.steps[len(x.steps)-1].from {
			x.steps = append(x.steps, step{from: v})
		}
	}
	for i := range x.steps {
		x.steps[i].value = x.value(x.steps[i].from)
	}
	x.rank()
}

// value is the index at a service attained, 0 where no past job took more.
func (x *index) value(attained time.Duration) float64 {
	alive := x.above(attained)
	ending := x.above(attained + GittinsQuantum)
	expected := float64(len(x.sorted)-ending) * GittinsQuantum.Seconds()
	for _, v := range x.sorted[alive:ending] {
		expected += (v - attained).Seconds()
	}
	if expected == 0 {
		return 0
	}
	return float64(ending-alive) / expected
}

// above is how many of the sample are at most v.
func (x *index) above(v time.Duration) int {
	i, _ := slices.BinarySearch(x.sorted, v+1)
	return i
}

// rank gives the steps their keys.
func (x *index) rank() {
	x.order = x.order[:0]
	for i := range x.steps {
		x.order = append(x.order, i)
	}
	slices.SortFunc(x.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(x.steps[b].value, x.steps[a].value), cmp.Compare(a, b))
	})
	for k, i := range x.order {
		x.steps[i].key = int32(k)
		if k > 0 && x.steps[x.order[k-1]].value == x.steps[i].value {
			x.steps[i].key = x.steps[x.order[k-1]].key
		}
	}
}

// at is the key of a job by its service attained, and the service at which that
// changes.
func (x *index) at(attained time.Duration) (key int32, until time.Duration) {
	low, high := 0, len(x.steps) // the step is in [low, high)
	for high-low > 1 {
		if mid := (low + high) / 2; x.steps[mid].from <= attained {
			low = mid
		} else {
			high = mid
		}
	}
	key = x.steps[low].key
	for _, s := range x.steps[low+1:] {
		if s.key != key {
			return key, s.from
		}
	}
	return key, math.MaxInt64
}

// history is the services of the jobs known to have ended, in order of their
// end, and how many of them the index was learnt from.
type history struct {
	services []time.Duration
	learnt   int
	next     int // number of services at which to learn
}

// begin takes the past before the run, and the ended jobs of the run.
func (h *history) begin(s *simulator.View, ended []simulator.ID) []simulator.ID {
	h.services = s.Past().Services(h.services[:0])
	for j := range s.Submitted() {
		if _, ok := s.JobEnded(j); ok {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b simulator.ID) int {
		x, _ := s.JobEnded(a)
		y, _ := s.JobEnded(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	})
	for _, j := range ended {
		h.add(s, j)
	}
	h.learnt, h.next = 0, firstSample
	return ended[:0]
}

// add notes the service of a job that has ended.
func (h *history) add(s *simulator.View, j simulator.ID) {
	for range s.JobMembers(j) {
		h.services = append(h.services, s.JobAttained(j))
	}
}

// due reports whether the index is to be learnt, from which part of the
// services. That depends on their number only, so that it is the same however
// a run began.
func (h *history) due() (sample []time.Duration, ok bool) {
	for len(h.services) >= h.next {
		h.learnt = h.next
		h.next += h.next / 4
		ok = true
	}
	return h.services[max(0, h.learnt-maxSample):h.learnt], ok
}
