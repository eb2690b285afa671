package rounds

import (
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Queue is the waiting jobs between rounds, a sorted line for each kind: jobs of
// one width, class and, under strict quotas, tenant find a place or do not
// together.
type Queue struct {
	s     *simulator.Sim
	kinds []kind
	at    []place // by job
	heads []head  // of the walk
}

type kind struct {
	width, class, tenant int
	line                 lanes.List
}

// place is where a job waits, or would.
type place struct {
	kind int32 // -1 if it is not known yet
	key  int64
}

// head is the first job of a kind that a walk has not passed.
type head struct {
	lanes.Entry
	kind, width int32
}

// reset empties the queue.
func (q *Queue) reset(s *simulator.Sim) {
	q.s, q.at = s, q.at[:0]
	for i := range q.kinds {
		q.kinds[i].line.Reset()
	}
	q.kinds = q.kinds[:0]
}

// kindOf is the index of a job's kind.
func (q *Queue) kindOf(j simulator.ID) int32 {
	for int(j) >= len(q.at) {
		q.at = append(q.at, place{kind: -1})
	}
	if k := q.at[j].kind; k >= 0 {
		return k
	}
	q.at[j].kind = q.find(j)
	return q.at[j].kind
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

// add lets a job wait.
func (q *Queue) add(j simulator.ID, key int64) {
	k := q.kindOf(j)
	q.at[j].key = key
	q.kinds[k].line.Insert(lanes.Entry{Key: key, ID: j})
}

// remove takes a job out.
func (q *Queue) remove(j simulator.ID) {
	p := q.at[j]
	q.kinds[p.kind].line.Remove(lanes.Entry{Key: p.key, ID: j})
}

// Walk begins a walk over the jobs that ask for at most so many GPUs.
func (q *Queue) Walk(most int) {
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

// took goes on behind a job that was taken out.
func (q *Queue) took(in int) {
	if line := &q.kinds[q.heads[in].kind].line; line.Len() > 0 {
		q.heads[in].Entry = line.At(0)
		return
	}
	q.Close(in)
}
