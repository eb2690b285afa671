// Package lanes is priority queues of jobs for policies that walk them with a quota
// of GPUs. Waiting jobs are in lanes, a sorted list per kind of job (width, whether
// it may spread, its request of nodes), so that a job that does not fit closes
// its whole kind; running jobs are in a Roster.
package lanes

import (
	"cmp"
	"sort"

	"github.com/autosched/autosched/simulator"
)

// Grow extends records by job so that job j has one. New ones are zero.
func Grow[T any](records []T, j simulator.ID) []T {
	if n := int(j) + 1 - len(records); n > 0 {
		records = append(records, make([]T, n)...)
	}
	return records
}

// Entry is a waiting job. The order is by Key, then ID.
type Entry struct {
	Key int64
	ID  simulator.ID
	// Width is the job's GPUs where a walk needs them, otherwise 0.
	Width int32
}

// Before reports whether e comes first.
func (e Entry) Before(o Entry) bool { return e.Key < o.Key || e.Key == o.Key && e.ID < o.ID }

// Compare orders entries like Before, for package slices.
func (e Entry) Compare(o Entry) int {
	return cmp.Or(cmp.Compare(e.Key, o.Key), cmp.Compare(e.ID, o.ID))
}

// List is a sorted list that is cheap to change at both ends.
type List struct {
	items []Entry
	head  int
}

// Len is the number of entries.
func (l *List) Len() int { return len(l.items) - l.head }

// At is the i-th entry.
func (l *List) At(i int) Entry { return l.items[l.head+i] }

func (l *List) find(e Entry) int {
	live := l.items[l.head:]
	if n := len(live); n == 0 || live[n-1].Before(e) {
		return n
	}
	return sort.Search(len(live), func(i int) bool { return !live[i].Before(e) })
}

// Insert adds an entry.
func (l *List) Insert(e Entry) {
	i := l.find(e)
	if l.head > 0 && i < l.Len()/2 {
		l.head--
		copy(l.items[l.head:], l.items[l.head+1:l.head+1+i])
		l.items[l.head+i] = e
		return
	}
	if len(l.items) == cap(l.items) && l.head > len(l.items)/2 { // make room instead of growing
		l.items = l.items[:copy(l.items, l.items[l.head:])]
		l.head = 0
	}
	l.items = append(l.items, Entry{})
	live := l.items[l.head:]
	copy(live[i+1:], live[i:])
	live[i] = e
}

// Remove removes an entry. It panics if the entry is not in the list.
func (l *List) Remove(e Entry) {
	i := l.find(e)
	live := l.items[l.head:]
	if i == len(live) || live[i] != e {
		panic("lanes: removing a job that is not in its lane")
	}
	if len(live) == 1 {
		l.Reset()
		return
	}
	if i < len(live)/2 {
		copy(live[1:], live[:i])
		l.head++
		return
	}
	copy(live[i:], live[i+1:])
	l.items = l.items[:len(l.items)-1]
}

// Reset empties the list.
func (l *List) Reset() { l.items, l.head = l.items[:0], 0 }

// Lanes are the waiting jobs of one queue.
type Lanes struct {
	s      *simulator.View // nil: lanes differ by width and spread only
	strict bool            // lanes differ by tenant

	lanes []lane
	busy  []int32 // the lanes with jobs
	walk  []head
	total int // jobs
	gpus  int // demand of all jobs
}

type lane struct {
	width      int
	relaxed    bool
	tenant     int
	constraint int
	list       List
	at         int   // cursor of the walk
	busy       int32 // index in Lanes.busy, if there are jobs
}

// head is the next job of a lane in a walk.
type head struct {
	Entry
	width int
	lane  int32
}

// Reset empties the lanes.
func (l *Lanes) Reset() {
	for _, i := range l.busy {
		l.lanes[i].list.Reset()
	}
	l.busy = l.busy[:0]
	l.total, l.gpus = 0, 0
}

// Len is the number of waiting jobs.
func (l *Lanes) Len() int { return l.total }

// GPUs is the demand of all waiting jobs.
func (l *Lanes) GPUs() int { return l.gpus }

func (l *Lanes) lane(width int, relaxed bool, j simulator.ID) int32 {
	tenant, constraint := 0, 0
	if l.s != nil {
		constraint = l.s.JobConstraint(j)
	}
	if l.strict {
		tenant = l.s.JobTenant(j)
	}
	for i := range l.lanes {
		if x := &l.lanes[i]; x.width == width && x.relaxed == relaxed && x.tenant == tenant &&
			x.constraint == constraint {
			return int32(i)
		}
	}
	l.lanes = append(l.lanes, lane{width: width, relaxed: relaxed, tenant: tenant, constraint: constraint})
	return int32(len(l.lanes) - 1)
}

// Add adds a waiting job and reports whether it comes first in its lane.
func (l *Lanes) Add(width int, relaxed bool, e Entry) (first bool) {
	i := l.lane(width, relaxed, e.ID)
	x := &l.lanes[i]
	if x.list.Len() == 0 {
		x.busy = int32(len(l.busy))
		l.busy = append(l.busy, i)
	}
	x.list.Insert(e)
	l.total++
	l.gpus += width
	return x.list.At(0) == e
}

// Remove removes a job.
func (l *Lanes) Remove(width int, relaxed bool, e Entry) {
	l.remove(l.lane(width, relaxed, e.ID), e)
}

func (l *Lanes) remove(i int32, e Entry) {
	x := &l.lanes[i]
	x.list.Remove(e)
	l.total--
	l.gpus -= x.width
	if x.list.Len() == 0 {
		last := l.busy[len(l.busy)-1]
		l.busy[x.busy], l.lanes[last].busy = last, x.busy
		l.busy = l.busy[:len(l.busy)-1]
	}
}

// Walk starts a new walk from the head. During a walk only Take may change the
// lanes.
func (l *Lanes) Walk() {
	l.walk = l.walk[:0]
	for _, i := range l.busy {
		x := &l.lanes[i]
		x.at = 0
		l.walk = append(l.walk, head{x.list.At(0), x.width, i})
	}
}

// Next returns the first job not passed yet whose width is at most limit. Skip,
// Take or Close must be called with in before the next call. ok is false if there
// is no such job.
func (l *Lanes) Next(limit int) (e Entry, width, in int, ok bool) {
	if in = l.first(limit); in < 0 {
		return
	}
	h := &l.walk[in]
	return h.Entry, h.width, in, true
}

func (l *Lanes) first(limit int) int {
	in := -1
	for i := range l.walk {
		if h := &l.walk[i]; h.width <= limit && (in < 0 || h.Before(l.walk[in].Entry)) {
			in = i
		}
	}
	return in
}

// advance goes on to the next job of a lane, or closes the lane after its last.
func (l *Lanes) advance(in int) {
	if x := &l.lanes[l.walk[in].lane]; x.at < x.list.Len() {
		l.walk[in].Entry = x.list.At(x.at)
		return
	}
	l.Close(in)
}

// Skip passes the job that Next returned; it keeps waiting.
func (l *Lanes) Skip(in int) {
	l.lanes[l.walk[in].lane].at++
	l.advance(in)
}

// Close ends the walk of a lane.
func (l *Lanes) Close(in int) {
	last := len(l.walk) - 1
	l.walk[in] = l.walk[last]
	l.walk = l.walk[:last]
}

// CloseTenant ends the walk of all lanes of a lane's tenant.
func (l *Lanes) CloseTenant(in int) {
	tenant := l.lanes[l.walk[in].lane].tenant
	for i := len(l.walk) - 1; i >= 0; i-- {
		if l.lanes[l.walk[i].lane].tenant == tenant {
			l.Close(i)
		}
	}
}

// Split makes lanes differ by the jobs' requests of nodes and, if the run's quotas
// are strict, by tenant. It is for Reset, before any job is added.
func (l *Lanes) Split(s *simulator.View) {
	l.s, l.strict = s, s.Quota() == simulator.QuotaStrict
}

// Take removes the job that Next returned; the walk goes on behind it.
func (l *Lanes) Take(in int) Entry {
	e := l.walk[in].Entry
	l.remove(l.walk[in].lane, e)
	l.advance(in)
	return e
}
