package lucid

import (
	"slices"
	"sort"

	"github.com/autosched/autosched/simulator"
)

// partners are the running jobs of a width that have their GPUs for themselves
// and may share them. Those who joined are logged; when somebody looks for a
// partner they are put in order of their start. Who looked before looks at the
// log of those who joined since.
type partners struct {
	list []partner // in order of start, with some who left
	dead int       // who left
	// log[i] joined as number base+i. Numbers from settled on are not in the list
	// yet, their loads are not known, and nobody has seen them.
	log           []partner
	base, settled int32
}

type partner struct {
	since int64
	job   simulator.ID
	load  int32
	key   float64 // left if it has none
}

// left is the key of a partner who left: less than any job wants.
const left = -1

// remembered is how many of those who joined are kept in the log, at least.
const remembered = 256

func (p *partner) before(o *partner) bool {
	return p.since < o.since || p.since == o.since && p.job < o.job
}

func (p *partners) reset() {
	p.list, p.log = p.list[:0], p.log[:0]
	p.dead, p.base, p.settled = 0, 0, 0
}

// joined is the number of the next to join.
func (p *partners) joined() int32 { return p.base + int32(len(p.log)) }

// unsettled are those who joined since somebody looked.
func (p *partners) unsettled() []partner { return p.log[p.settled-p.base:] }

// add lets a job join.
func (p *partners) add(x partner) { p.log = append(p.log, x) }

// find is where a partner is in the list, or would be.
func (p *partners) find(x *partner) int {
	if n := len(p.list); n == 0 || p.list[n-1].before(x) {
		return n
	}
	return sort.Search(len(p.list), func(i int) bool { return !p.list[i].before(x) })
}

// remove lets one go who joined with a number, and returns who has that number
// now, -1 if nobody: the last, if it was not settled.
func (p *partners) remove(x partner, number int32) simulator.ID {
	if number >= p.settled {
		last := len(p.log) - 1
		moved := p.log[last]
		p.log[number-p.base] = moved
		p.log = p.log[:last]
		return moved.job
	}
	i := p.find(&x)
	if i == len(p.list) || p.list[i].job != x.job || p.list[i].key == left {
		panic("lucid: removing a partner that is not there")
	}
	p.list[i].key = left
	p.dead++
	if number >= p.base {
		p.log[number-p.base].key = left
	}
	return -1
}

// settle puts those who joined into the list.
func (p *partners) settle() {
	joined := p.unsettled()
	if len(joined) > 8 || p.dead > len(p.list)/2 {
		p.list = slices.DeleteFunc(p.list, func(x partner) bool { return x.key == left })
		p.dead = 0
	}
	if len(joined) > 8 {
		p.list = append(p.list, joined...)
		slices.SortFunc(p.list, func(a, b partner) int {
			if a.before(&b) {
				return -1
			}
			return 1
		})
	} else {
		for i := range joined {
			x := &joined[i]
			k := p.find(x)
			if k < len(p.list) && p.list[k].job == x.job && p.list[k].since == x.since { // it is back
				p.list[k] = *x
				p.dead--
			} else {
				p.list = slices.Insert(p.list, k, *x)
			}
		}
	}
	p.settled = p.joined()
	if len(p.log) > 2*remembered {
		p.base += int32(len(p.log) - remembered)
		p.log = append(p.log[:0], p.log[len(p.log)-remembered:]...)
	}
}

// first is the first who is of one of some loads and has at least a key, among
// those who joined from a number on; -1 if there is none.
func (p *partners) first(loads set, least float64, from int32) simulator.ID {
	if from < p.base || len(p.log)-int(from-p.base) > len(p.list) {
		for i := range p.list {
			if x := &p.list[i]; x.key >= least && loads.has(int(x.load)) {
				return x.job
			}
		}
		return -1
	}
	best := &partner{job: -1}
	for i := int(from - p.base); i < len(p.log); i++ {
		if x := &p.log[i]; x.key >= least && loads.has(int(x.load)) && (best.job < 0 || x.before(best)) {
			best = x
		}
	}
	return best.job
}
