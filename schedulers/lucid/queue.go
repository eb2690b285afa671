package lucid

import (
	"math"
	"slices"
	"sort"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// queue is the waiting jobs in order of priority: a sorted list per kind of job,
// so that one that finds neither a place nor a partner hides its kind.
type queue struct {
	lanes []lane
	total int
}

// lane is the waiting jobs of a kind: of a width, and with the same load, or
// without one that is known.
type lane struct {
	width  int
	load   int32 // unknown for those that must not share
	list   lanes.List
	at     int // cursor of the walk
	closed bool
	// Jobs with keys from failed on have found no partner among those that were
	// there when the candidates of its width were in state seen.
	failed int64
	seen   state
}

const unknown = -1

func (q *queue) reset() {
	for i := range q.lanes {
		q.lanes[i].list.Reset()
		q.lanes[i].seen = state{}
	}
	q.total = 0
}

func (q *queue) lane(width int, load int32) *lane {
	for i := range q.lanes {
		if l := &q.lanes[i]; l.width == width && l.load == load {
			return l
		}
	}
	q.lanes = append(q.lanes, lane{width: width, load: load})
	return &q.lanes[len(q.lanes)-1]
}

func (q *queue) add(width int, load int32, e lanes.Entry) {
	q.lane(width, load).list.Insert(e)
	q.total++
}

func (q *queue) walk() {
	for i := range q.lanes {
		q.lanes[i].at, q.lanes[i].closed = 0, false
	}
}

// next is the first job that was not passed yet and is not hidden.
func (q *queue) next() (e lanes.Entry, in *lane, ok bool) {
	for i := range q.lanes {
		l := &q.lanes[i]
		if l.closed || l.at >= l.list.Len() {
			continue
		}
		if c := l.list.At(l.at); !ok || c.Before(e) {
			e, in, ok = c, l, true
		}
	}
	return
}

// skip passes the job that next returned.
func (q *queue) skip(in *lane) { in.at++ }

// take removes the job that next returned; the walk goes on behind it.
func (q *queue) take(in *lane) {
	in.list.Remove(in.list.At(in.at))
	q.total--
}

// partners are the running jobs of a width that have their GPUs for themselves
// and may share them, in order of their start.
type partners struct {
	width   int
	list    []partner
	version int32   // changes when somebody joins before who was there already
	top     partner // the last that ever joined
}

type partner struct {
	since int64
	job   simulator.ID
	load  int32
	key   float64
}

// state of a list of partners, to remember who was looked at: all up to last.
type state struct {
	valid   bool
	version int32
	last    partner
}

// first comes before all partners.
var first = partner{since: math.MinInt64, job: -1}

func (p *partner) before(o *partner) bool {
	return p.since < o.since || p.since == o.since && p.job < o.job
}

func (p *partners) reset() { p.list, p.version, p.top = p.list[:0], 0, first }

// find is where a partner is, or would be.
func (p *partners) find(x *partner) int {
	return sort.Search(len(p.list), func(i int) bool { return !p.list[i].before(x) })
}

func (p *partners) add(x partner) {
	if x.before(&p.top) {
		p.version++
	} else {
		p.top = x
	}
	p.list = slices.Insert(p.list, p.find(&x), x)
}

func (p *partners) remove(x partner) {
	i := p.find(&x)
	if i == len(p.list) || p.list[i].job != x.job {
		panic("lucid: removing a partner that is not there")
	}
	p.list = slices.Delete(p.list, i, i+1)
}

// unseen is where the partners begin that a job of a kind has yet to look at.
func (l *lane) unseen(p *partners, key int64) int {
	s := &l.seen
	if !s.valid || s.version != p.version || key < l.failed {
		return 0
	}
	return sort.Search(len(p.list), func(i int) bool { return s.last.before(&p.list[i]) })
}

// look notes that a job found no partner among those from an index on.
func (l *lane) look(p *partners, from int, key int64) {
	if l.seen.valid && from == len(p.list) && from > 0 {
		return // nothing new
	}
	l.failed = key
	l.seen = state{valid: true, version: p.version, last: first}
	if n := len(p.list); n > 0 {
		l.seen.last = p.list[n-1]
	}
}
