package lucid

import (
	"math/bits"

	"github.com/autosched/autosched/schedulers/lanes"
)

// queue is the waiting jobs in order of priority: for every width a sorted list
// per load, so that a job that finds neither a place nor a partner hides its
// kind, and so that a plan looks only at kinds for which something has changed.
type queue struct {
	kinds  int // loads, and one more for the jobs that must not share
	gpus   []int
	widths []width // of so many GPUs, in the order in which they came up
	busy   []int32 // those with waiting jobs
	total  int
	walk   []int32 // the busy widths that a walk has yet to pass
}

// width is the jobs of a width.
type width struct {
	partners
	gpus    int
	waiting int
	groups  int   // of the waiting, those of several members
	at      int32 // in queue.busy
	lanes   []lane
	heads   []lanes.Entry // by lane: its next job in a walk
	// Lanes with jobs, and of these the ones whose jobs may find a partner: for
	// the others it is known that there is none.
	busy, hot set
	open      set // lanes that the walk still looks at
	passed    bool
	front     int32 // the open lane with the next job, -1 if there is none
	// least is the lane with the first job of all, -1 if that is not known.
	least int32
	// full is the state of the cluster (policy.freed) in which a job that is no
	// group has found no place.
	full int
}

// lane is the waiting jobs of a kind: of a width, and with the same load, or
// without one that is known.
type lane struct {
	list lanes.List
	at   int // cursor of the walk
	// Once one has looked in vain, jobs with keys from failed on find no partner
	// among those who joined before number seen.
	looked bool
	failed int64
	seen   int32
}

func (q *queue) reset(loads int) {
	if q.kinds != loads+1 {
		*q = queue{kinds: loads + 1}
	}
	for i := range q.widths {
		w := &q.widths[i]
		w.partners.reset()
		for l := range w.lanes {
			w.lanes[l].list.Reset()
			w.lanes[l].looked = false
		}
		clear(w.busy)
		clear(w.hot)
		w.waiting, w.groups, w.full, w.least = 0, 0, 0, -1
	}
	q.busy, q.total = q.busy[:0], 0
}

// width is the index of a width.
func (q *queue) width(gpus int) int32 {
	for i, g := range q.gpus {
		if g == gpus {
			return int32(i)
		}
	}
	q.gpus = append(q.gpus, gpus)
	q.widths = append(q.widths, width{gpus: gpus, least: -1, lanes: make([]lane, q.kinds), heads: make([]lanes.Entry, q.kinds),
		busy: set(nil).sized(q.kinds), hot: set(nil).sized(q.kinds), open: set(nil).sized(q.kinds)})
	return int32(len(q.widths) - 1)
}

// add lets a job of a width and a load wait.
func (q *queue) add(at int32, load int32, group bool, e lanes.Entry) {
	w, l := &q.widths[at], &q.widths[at].lanes[load]
	if w.waiting == 0 {
		w.at, w.least = int32(len(q.busy)), load
		q.busy = append(q.busy, at)
	}
	w.waiting++
	q.total++
	if group {
		w.groups++
	}
	l.list.Insert(e)
	w.busy.add(int(load))
	w.heads[load] = l.list.At(0)
	if w.least >= 0 && w.least != load && e.Before(w.heads[w.least]) {
		w.least = load
	}
	if int(load) < q.kinds-1 && (!l.looked || e.Key < l.failed) {
		w.hot.add(int(load))
	}
}

// next is the width with the first job that a walk was not passed by yet, nil
// if there is none.
func (q *queue) next() (w *width, at int) {
	for i, k := range q.walk {
		if x := &q.widths[k]; w == nil || x.heads[x.front].Before(w.heads[w.front]) {
			w, at = x, i
		}
	}
	return
}

// hide ends the walk for a width.
func (q *queue) hide(at int) {
	last := len(q.walk) - 1
	q.walk[at] = q.walk[last]
	q.walk = q.walk[:last]
}

// take removes a width's next job.
func (q *queue) take(w *width, group bool) {
	i := w.front
	l := &w.lanes[i]
	l.list.Remove(w.heads[i])
	if w.least == i {
		w.least = -1
	}
	if l.list.Len() == 0 {
		w.busy.remove(int(i))
	}
	w.reach(int(i))
	if group {
		w.groups--
	}
	q.total--
	if w.waiting--; w.waiting == 0 {
		last := q.busy[len(q.busy)-1]
		q.busy[w.at], q.widths[last].at = last, w.at
		q.busy = q.busy[:len(q.busy)-1]
	}
}

// reach makes the job at a lane's cursor its next, or closes it behind its last.
func (w *width) reach(i int) {
	if l := &w.lanes[i]; l.at < l.list.Len() {
		w.heads[i] = l.list.At(l.at)
	} else {
		w.open.remove(i)
	}
}

// skip passes a width's next job.
func (w *width) skip() {
	w.lanes[w.front].at++
	w.passed = true
	w.reach(int(w.front))
}

// all begins a walk over all lanes.
func (w *width) all() {
	copy(w.open, w.busy)
	if w.least < 0 {
		w.look()
		w.least = w.front
	}
	w.front = w.least
}

// warm begins a walk over the lanes whose jobs may find a partner.
func (w *width) warm() {
	for i := range w.open {
		w.open[i] = w.busy[i] & w.hot[i]
	}
	w.look()
}

// cool leaves out the lanes whose jobs find no partner.
func (w *width) cool() {
	for i := range w.open {
		w.open[i] &= w.hot[i]
	}
}

// look finds the open lane with the first job.
func (w *width) look() {
	w.front = -1
	for k, x := range w.open {
		for ; x != 0; x &= x - 1 {
			i := int32(k<<6 + bits.TrailingZeros64(x))
			if w.front < 0 || w.heads[i].Before(w.heads[w.front]) {
				w.front = i
			}
		}
	}
}

// rewind lets the next walk begin with each lane's first job.
func (w *width) rewind() {
	if !w.passed {
		return
	}
	w.passed = false
	for i := range w.lanes {
		if l := &w.lanes[i]; l.at > 0 {
			l.at = 0
			w.heads[i] = l.list.At(0)
		}
	}
}

// failed notes that a lane's next job found no partner.
func (w *width) failed(i int32, key int64) {
	l := &w.lanes[i]
	l.looked, l.failed, l.seen = true, key, w.joined()
	if l.at == 0 {
		w.hot.remove(int(i))
	}
}
