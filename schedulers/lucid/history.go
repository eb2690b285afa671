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
	ended []ended // of jobs that ended before the policy took over
	next  int
	byKey map[string]mean
	like  map[likeness]mean
	wide  map[int]mean
}

type ended struct {
	at  time.Duration
	job simulator.ID
}

// likeness is a tenant and a width.
type likeness struct {
	tenant string
	gpus   int
}

// mean is of whole seconds, which add up without rounding.
type mean struct{ sum, n int64 }

// typical is the run time assumed while nothing is known.
const typical = time.Hour

func (h *history) reset(s *simulator.View) {
	h.s, h.next, h.ended = s, 0, h.ended[:0]
	if h.byKey == nil {
		h.byKey, h.like, h.wide = map[string]mean{}, map[likeness]mean{}, map[int]mean{}
	}
	clear(h.byKey)
	clear(h.like)
	clear(h.wide)
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
// knows at each submission what it would have known without.
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
		h.byKey[key] = h.byKey[key].with(ran)
	}
	like := likeness{h.s.JobTenantName(j), g}
	h.like[like] = h.like[like].with(ran)
	h.wide[g] = h.wide[g].with(ran)
}

func (m mean) with(v int64) mean { return mean{m.sum + v, m.n + 1} }

// estimate is the expected run time of a job.
func (h *history) estimate(j simulator.ID) time.Duration {
	g := h.s.JobGPUs(j)
	m, ok := h.byKey[h.s.JobKey(j)]
	if !ok {
		m, ok = h.like[likeness{h.s.JobTenantName(j), g}]
	}
	if !ok {
		m, ok = h.wide[g]
	}
	if !ok {
		return typical
	}
	return time.Duration(m.sum/m.n) * time.Second
}
