package rounds

import (
	"math"
	"math/bits"
	"slices"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Queue is the waiting jobs between rounds, a sorted line for each kind: jobs of
// one width, class and, under strict quotas, tenant find a place or do not
// together. Most jobs that a round moves are moved back before anybody walks, so
// a line is set right only then.
type Queue struct {
	s      *simulator.Sim
	kinds  []kind
	of     []kindKey // the kinds'
	jobs   []int     // by kind: that wait
	busy   []uint64  // a bit by kind: some do
	widths []width
	at     []place // by job
	heads  []head  // of the walk
}

type kindKey struct{ width, class, tenant int32 }

type kind struct {
	line  lanes.List
	moved []simulator.ID // to or from the line, some of them both
}

// width is how many jobs of a width wait.
type width struct{ gpus, jobs int }

// place is where a job waits, or would.
type place struct {
	key         int64 // in the line
	next        int64 // as the job waits now
	kind, width int32 // indices, -1 if they are not known yet
	in          bool  // the line
	waits       bool
	moved       bool // is listed
}

// head is the first job of a kind that a walk has not passed.
type head struct {
	lanes.Entry
	kind, width int32
}

// reset empties the queue.
func (q *Queue) reset(s *simulator.Sim) {
	q.s, q.at, q.widths = s, q.at[:0], q.widths[:0]
	for i := range q.kinds {
		q.kinds[i].line.Reset()
		q.kinds[i].moved = q.kinds[i].moved[:0]
	}
	q.kinds, q.of, q.jobs, q.busy = q.kinds[:0], q.of[:0], q.jobs[:0], q.busy[:0]
}

// add lets a job wait.
func (q *Queue) add(j simulator.ID, key int64) {
	for int(j) >= len(q.at) {
		q.at = append(q.at, place{kind: -1})
	}
	x := &q.at[j]
	if x.kind < 0 {
		q.find(j, x)
	}
	x.next = key
	q.move(j, x, true)
}

// remove takes a job out.
func (q *Queue) remove(j simulator.ID) { q.move(j, &q.at[j], false) }

func (q *Queue) move(j simulator.ID, x *place, waits bool) {
	by := -1
	if waits {
		by = 1
	}
	x.waits = waits
	q.jobs[x.kind] += by
	if bit := uint64(1) << (x.kind & 63); q.jobs[x.kind] > 0 {
		q.busy[x.kind>>6] |= bit
	} else {
		q.busy[x.kind>>6] &^= bit
	}
	q.widths[x.width].jobs += by
	if !x.moved {
		x.moved = true
		k := &q.kinds[x.kind]
		k.moved = append(k.moved, j)
	}
}

// narrowest is the least width of a waiting job.
func (q *Queue) narrowest() int {
	least := math.MaxInt
	for _, w := range q.widths {
		if w.jobs > 0 && w.gpus < least {
			least = w.gpus
		}
	}
	return least
}

// settle sets a line right.
func (q *Queue) settle(k *kind) {
	for _, j := range k.moved {
		x := &q.at[j]
		x.moved = false
		if x.in && x.waits && x.key == x.next {
			continue
		}
		if x.in {
			k.line.Remove(lanes.Entry{Key: x.key, ID: j})
		}
		if x.in, x.key = x.waits, x.next; x.in {
			k.line.Insert(lanes.Entry{Key: x.key, ID: j})
		}
	}
	k.moved = k.moved[:0]
}

// find sets a job's kind and width.
func (q *Queue) find(j simulator.ID, x *place) {
	gpus := q.s.JobGPUs(j)
	key := kindKey{width: int32(gpus), class: int32(q.s.JobClass(j))}
	if q.s.Quota() == simulator.QuotaStrict {
		key.tenant = int32(q.s.JobTenant(j))
	}
	x.kind = int32(slices.Index(q.of, key))
	if x.kind < 0 {
		n := len(q.kinds)
		x.kind = int32(n)
		if n < cap(q.kinds) {
			q.kinds = q.kinds[:n+1] // with its memory
		} else {
			q.kinds = append(q.kinds, kind{})
		}
		q.of, q.jobs = append(q.of, key), append(q.jobs, 0)
		if n&63 == 0 {
			q.busy = append(q.busy, 0)
		}
	}
	x.width = int32(slices.IndexFunc(q.widths, func(w width) bool { return w.gpus == gpus }))
	if x.width < 0 {
		x.width = int32(len(q.widths))
		q.widths = append(q.widths, width{gpus: gpus})
	}
}

// Walk begins a walk over the jobs that ask for at most so many GPUs.
func (q *Queue) Walk(most int) {
	q.heads = q.heads[:0]
	for w, busy := range q.busy {
		for ; busy != 0; busy &= busy - 1 {
			i := w<<6 + bits.TrailingZeros64(busy)
			if int(q.of[i].width) <= most {
				q.heads = append(q.heads, head{q.first(&q.kinds[i]), int32(i), q.of[i].width})
			}
		}
	}
}

// first is the first job of a kind of which some wait.
func (q *Queue) first(k *kind) lanes.Entry {
	if len(k.moved) == 1 && k.line.Len() == 0 { // the only one, which may be gone at once
		return lanes.Entry{Key: q.at[k.moved[0]].next, ID: k.moved[0]}
	}
	q.settle(k)
	return k.line.At(0)
}

// Next is the first job not passed yet that asks for at most so many GPUs; in is
// for Took or Close, one of which comes before the next call. ok is false if there
// is none.
func (q *Queue) Next(most int) (j simulator.ID, in int, ok bool) {
	in = -1
	for i := range q.heads {
		if h := &q.heads[i]; int(h.width) <= most && (in < 0 || h.Before(q.heads[in].Entry)) {
			in = i
		}
	}
	if in < 0 {
		return 0, 0, false
	}
	return q.heads[in].ID, in, true
}

// Close passes all of a kind.
func (q *Queue) Close(in int) {
	last := len(q.heads) - 1
	q.heads[in] = q.heads[last]
	q.heads = q.heads[:last]
}

// took takes out the job that Next returned, and goes on behind it.
func (q *Queue) took(in int) {
	h := &q.heads[in]
	k := &q.kinds[h.kind]
	q.remove(h.ID)
	if q.jobs[h.kind] > 0 {
		h.Entry = q.first(k)
		return
	}
	q.Close(in)
}
