package lucid

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
)

// history is the run times of ended jobs, learnt in order of their end.
type history struct {
	s     *simulator.View
	ended []ended // in this run
	next  int
	ran   map[simulator.Likeness]mean
}

type ended struct {
	at  time.Duration
	job simulator.ID
}

// mean is of whole seconds, which add up without rounding.
type mean struct{ sum, n int64 }

// typical is the run time assumed while nothing is known.
const typical = time.Hour

func (h *history) reset(s *simulator.View) {
	h.s, h.next, h.ended = s, 0, h.ended[:0]
	if h.ran == nil {
		h.ran = map[simulator.Likeness]mean{}
	}
	clear(h.ran)
	for j := range s.Submitted() {
		if at, ok := s.JobEnded(j); ok {
			h.ended = append(h.ended, ended{at, j})
		}
	}
	slices.SortFunc(h.ended, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job))
	})
}

// learn adds the jobs that ended up to an instant, so that after a fork the policy
// knows at each submission the same as without one.
func (h *history) learn(until time.Duration) {
	for ; h.next < len(h.ended) && h.ended[h.next].at <= until; h.next++ {
		h.add(h.ended[h.next].job)
	}
}

// end notes the end of a job.
func (h *history) end(j simulator.ID, now time.Duration) {
	h.ended = append(h.ended, ended{now, j})
}

func (h *history) add(j simulator.ID) {
	g := h.s.JobGPUs(j)
	ran := int64(h.s.JobAttained(j) / time.Duration(g) / time.Second)
	if key := h.s.JobKey(j); key != "" {
		h.note(simulator.LikeKey(key), ran)
	}
	h.note(simulator.LikeTenant(h.s.JobTenantName(j), g), ran)
	h.note(simulator.LikeWidth(g), ran)
}

func (h *history) note(x simulator.Likeness, ran int64) { h.ran[x] = h.ran[x].with(ran) }

func (m mean) with(v int64) mean { return mean{m.sum + v, m.n + 1} }

// estimate is the expected run time of a job, from the knowledge at its submission.
func (h *history) estimate(j simulator.ID) time.Duration {
	submit, g := h.s.JobSubmit(j), h.s.JobGPUs(j)
	h.learn(submit)
	for _, x := range [...]simulator.Likeness{
		simulator.LikeKey(h.s.JobKey(j)), simulator.LikeTenant(h.s.JobTenantName(j), g), simulator.LikeWidth(g),
	} {
		m := h.ran[x]
		sum, n := h.s.Past().RunTimes(x, submit)
		if sum, n = sum+m.sum, n+m.n; n > 0 {
			return time.Duration(sum/n) * time.Second
		}
	}
	return typical
}
