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
	lanes []*lane
	open  []head // of the lanes that the walk has yet to pass
	total int
}

// lane is the waiting jobs of a kind: of a width, with the same load, or without
// one that is known, that ask the same of their nodes.
type lane struct {
	partners   *partners // of the width
	load       int32     // unknown for jobs that must not share
	constraint int
	list       lanes.List
	at         int // cursor of the walk
	// Jobs with keys from failed on fit none of the partners that were there when they were in state seen,
	// wherever these run.
	failed int64
	seen   state
}

const unknown = -1

// head is the next job of a lane in a walk.
type head struct {
	lanes.Entry
	lane *lane
}

func (q *queue) reset() {
	for _, l := range q.lanes {
		l.list.Reset()
		l.seen = state{}
	}
	q.total = 0
}

func (q *queue) lane(c *partners, load int32, constraint int) *lane {
	for _, l := range q.lanes {
		if l.partners == c && l.load == load && l.constraint == constraint {
			return l
		}
	}
	l := &lane{partners: c, load: load, constraint: constraint}
	q.lanes = append(q.lanes, l)
	return l
}

// walk begins a walk over the lanes for which keep holds.
func (q *queue) walk(keep func(*lane) bool) {
	q.open = q.open[:0]
	for _, l := range q.lanes {
		if l.list.Len() > 0 && keep(l) {
			l.at = 0
			q.open = append(q.open, head{l.list.At(0), l})
		}
	}
}

// next is the index in open of the first job, -1 if there is none.
func (q *queue) next() int {
	in := -1
	for i := range q.open {
		if in < 0 || q.open[i].Before(q.open[in].Entry) {
			in = i
		}
	}
	return in
}

// skip passes the job that next returned.
func (q *queue) skip(in int) {
	q.open[in].lane.at++
	q.advance(in)
}

// take removes the job that next returned.
func (q *queue) take(in int) {
	q.open[in].lane.list.Remove(q.open[in].Entry)
	q.total--
	q.advance(in)
}

// drop removes the jobs for which a function holds.
func (q *queue) drop(gone func(simulator.ID) bool) {
	for _, l := range q.lanes {
		for i := l.list.Len() - 1; i >= 0; i-- {
			if e := l.list.At(i); gone(e.ID) {
				l.list.Remove(e)
				q.total--
			}
		}
	}
}

func (q *queue) advance(in int) {
	if l := q.open[in].lane; l.at < l.list.Len() {
		q.open[in].Entry = l.list.At(l.at)
	} else {
		q.close(in)
	}
}

// close ends the walk of a lane.
func (q *queue) close(in int) {
	last := len(q.open) - 1
	q.open[in] = q.open[last]
	q.open = q.open[:last]
}

// partners are the running jobs of a width that have their GPUs for themselves
// and may share them, in order of their start.
type partners struct {
	width   int
	list    []partner
	version int32   // changes when a partner joins ahead of an earlier one
	top     partner // the last that ever joined
}

type partner struct {
	since int64
	job   simulator.ID
	load  int32
	key   float64
}

// state of a list of partners, to remember which were looked at: all up to last.
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

// unseen is the index of the first partner that no job of the lane with at most
// this key has looked at.
func (l *lane) unseen(key int64) int {
	s, c := &l.seen, l.partners
	if !s.valid || s.version != c.version || key < l.failed {
		return 0
	}
	return sort.Search(len(c.list), func(i int) bool { return s.last.before(&c.list[i]) })
}

// look notes that a job found no partner from an index on.
func (l *lane) look(from int, key int64) {
	c := l.partners
	if l.seen.valid && from == len(c.list) && from > 0 {
		return // nothing new
	}
	l.failed = key
	l.seen = state{valid: true, version: c.version, last: first}
	if n := len(c.list); n > 0 {
		l.seen.last = c.list[n-1]
	}
}
