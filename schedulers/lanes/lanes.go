// Package lanes keeps the waiting jobs of a queue so that walking them with a
// quota is cheap: one sorted list per kind of job (width, and whether it may be
// spread), so that a job that does not fit hides all of its kind at once.
package lanes

import (
	"sort"

	"github.com/autosched/autosched/simulator"
)

// Entry is a waiting job. The order is by Key, then ID.
type Entry struct {
	Key int64
	ID  simulator.ID
	// Width may carry the job's GPUs along, for walks that want them at hand.
	Width int32
}

// Before reports whether e comes first.
func (e Entry) Before(o Entry) bool { return e.Key < o.Key || e.Key == o.Key && e.ID < o.ID }

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
	l.items = append(l.items, Entry{})
	live := l.items[l.head:]
	copy(live[i+1:], live[i:])
	live[i] = e
}

// Remove takes an entry out. It panics if it is not there.
func (l *List) Remove(e Entry) {
	i := l.find(e)
	live := l.items[l.head:]
	if i == len(live) || live[i] != e {
		panic("lanes: removing a job that is not in its lane")
	}
	if i < len(live)/2 {
		copy(live[1:], live[:i])
		l.head++
		if l.head == len(l.items) {
			l.items, l.head = l.items[:0], 0
		}
		return
	}
	copy(live[i:], live[i+1:])
	l.items = l.items[:len(l.items)-1]
}

// Reset empties the list.
func (l *List) Reset() { l.items, l.head = l.items[:0], 0 }

// Lanes are the waiting jobs of one queue.
type Lanes struct {
	// Tenant tells a job's tenant where what holds for one tenant's job does not
	// hold for another's, as under strict quotas; nil where it does not matter.
	Tenant func(simulator.ID) int

	lanes []lane
	total int // jobs
	gpus  int // they ask for
}

type lane struct {
	width   int
	relaxed bool
	tenant  int
	list    List
	at      int // cursor of the walk
	closed  bool
}

// Reset empties the lanes.
func (l *Lanes) Reset() {
	for i := range l.lanes {
		l.lanes[i].list.Reset()
	}
	l.total, l.gpus = 0, 0
}

// Len is the number of waiting jobs.
func (l *Lanes) Len() int { return l.total }

// GPUs is the number of GPUs that the waiting jobs ask for.
func (l *Lanes) GPUs() int { return l.gpus }

func (l *Lanes) lane(width int, relaxed bool, j simulator.ID) *lane {
	tenant := 0
	if l.Tenant != nil {
		tenant = l.Tenant(j)
	}
	for i := range l.lanes {
		if x := &l.lanes[i]; x.width == width && x.relaxed == relaxed && x.tenant == tenant {
			return x
		}
	}
	l.lanes = append(l.lanes, lane{width: width, relaxed: relaxed, tenant: tenant})
	return &l.lanes[len(l.lanes)-1]
}

// Add lets a job wait.
func (l *Lanes) Add(width int, relaxed bool, e Entry) {
	l.lane(width, relaxed, e.ID).list.Insert(e)
	l.total++
	l.gpus += width
}

// Remove takes a job out.
func (l *Lanes) Remove(width int, relaxed bool, e Entry) {
	l.lane(width, relaxed, e.ID).list.Remove(e)
	l.total--
	l.gpus -= width
}

// Walk begins a new walk from the head. A walk must not be mixed with changes
// other than Take.
func (l *Lanes) Walk() {
	for i := range l.lanes {
		l.lanes[i].at, l.lanes[i].closed = 0, false
	}
}

// Next is the first job not passed yet that asks for at most limit GPUs; lane
// is to be handed to Skip or Close. ok is false if there is none.
func (l *Lanes) Next(limit int) (e Entry, width, in int, ok bool) {
	for i := range l.lanes {
		x := &l.lanes[i]
		if x.width > limit || x.closed || x.at >= x.list.Len() {
			continue
		}
		if c := x.list.At(x.at); !ok || c.Before(e) {
			e, width, in, ok = c, x.width, i, true
		}
	}
	return
}

// Skip passes the job that Next returned.
func (l *Lanes) Skip(in int) { l.lanes[in].at++ }

// Close hides a lane for the rest of the walk.
func (l *Lanes) Close(in int) { l.lanes[in].closed = true }

// CloseTenant hides all lanes of a lane's tenant for the rest of the walk.
func (l *Lanes) CloseTenant(in int) {
	for i := range l.lanes {
		if l.lanes[i].tenant == l.lanes[in].tenant {
			l.lanes[i].closed = true
		}
	}
}

// Split makes lanes differ by tenant if the run's quotas are strict. It is for
// Reset, before any job is added.
func (l *Lanes) Split(s *simulator.Sim) {
	l.Tenant = nil
	if s.Quota() == simulator.QuotaStrict {
		l.Tenant = s.JobTenant
	}
}

// Take removes the job that Next returned; the walk goes on behind it.
func (l *Lanes) Take(in int) Entry {
	x := &l.lanes[in]
	e := x.list.At(x.at)
	x.list.Remove(e)
	l.total--
	l.gpus -= x.width
	return e
}
