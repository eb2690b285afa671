package rounds

import (
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Queue is the waiting jobs between rounds, a sorted line for each kind: jobs of
// one width, class and, under strict quotas, tenant find a place or do not
// together. Most jobs that a round moves are moved back before anybody walks, so
// the lines are set right only then.
type Queue struct {
	s     *simulator.Sim
	kinds []kind
	at    []place // by job
	moved []simulator.ID
	heads []head // of the walk
}

type kind struct {
	width, class, tenant int
	line                 lanes.List
}

// place is where a job waits, or would.
type place struct {
	key   int64 // in the line
	next  int64 // as the job waits now
	kind  int32 // -1 if it is not known yet
	in    bool  // the line
	waits bool
	moved bool // is listed
}

// head is the first job of a kind that a walk has not passed.
type head struct {
	lanes.Entry
	kind, width int32
}

// reset empties the queue.
func (q *Queue) reset(s *simulator.Sim) {
	q.s, q.at, q.moved = s, q.at[:0], q.moved[:0]
	for i := range q.kinds {
		q.kinds[i].line.Reset()
	}
	q.kinds = q.kinds[:0]
}

// add lets a job wait.
func (q *Queue) add(j simulator.ID, key int64) {
	for int(j) >= len(q.at) {
		q.at = append(q.at, place{kind: -1})
	}
	x := &q.at[j]
	x.next, x.waits = key, true
	q.note(j, x)
}

// remove takes a job out.
func (q *Queue) remove(j simulator.ID) {
	x := &q.at[j]
	x.waits = false
	q.note(j, x)
}

func (q *Queue) note(j simulator.ID, x *place) {
	if !x.moved {
		x.moved = true
		q.moved = append(q.moved, j)
	}
}

// settle sets the lines right.
func (q *Queue) settle() {
	for _, j := range q.moved {
		x := &q.at[j]
		x.moved = false
		if x.in && x.waits && x.key == x.next {
			continue
		}
		if x.kind < 0 {
			x.kind = q.find(j)
		}
		line := &q.kinds[x.kind].line
		if x.in {
			line.Remove(lanes.Entry{Key: x.key, ID: j})
		}
		if x.in, x.key = x.waits, x.next; x.in {
			line.Insert(lanes.Entry{Key: x.key, ID: j})
		}
	}
	q.moved = q.moved[:0]
}

func (q *Queue) find(j simulator.ID) int32 {
	width, class, tenant := q.s.JobGPUs(j), q.s.JobClass(j), 0
	if q.s.Quota() == simulator.QuotaStrict {
		tenant = q.s.JobTenant(j)
	}
	for i := range q.kinds {
		if k := &q.kinds[i]; k.width == width && k.class == class && k.tenant == tenant {
			return int32(i)
		}
	}
	n := len(q.kinds)
	if n < cap(q.kinds) {
		q.kinds = q.kinds[:n+1] // with its memory
	} else {
		q.kinds = append(q.kinds, kind{})
	}
	q.kinds[n].width, q.kinds[n].class, q.kinds[n].tenant = width, class, tenant
	return int32(n)
}

// Walk begins a walk over the jobs that ask for at most so many GPUs.
func (q *Queue) Walk(most int) {
	q.settle()
	q.heads = q.heads[:0]
	for i := range q.kinds {
		if k := &q.kinds[i]; k.width <= most && k.line.Len() > 0 {
			q.heads = append(q.heads, head{k.line.At(0), int32(i), int32(k.width)})
		}
	}
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
	x := &q.at[h.ID]
	x.in, x.waits = false, false
	line := &q.kinds[h.kind].line
	line.Remove(h.Entry)
	if line.Len() > 0 {
		h.Entry = line.At(0)
		return
	}
	q.Close(in)
}
