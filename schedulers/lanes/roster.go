package lanes

import (
	"iter"
	"math"

	"github.com/autosched/autosched/simulator"
)

// blockSize is the most entries of a block of a Roster: enough to pass most of a
// cluster's jobs in a few steps, few enough that an insertion moves little.
const blockSize = 32

// Roster is a sorted list of running jobs in blocks that know how many GPUs
// their jobs hold, so that a walk with a quota passes a block at once.
type Roster struct {
	blocks []*block
	last   []Entry // by block
	gpus   []int   // by block
	spare  []*block
	total  int // jobs
	held   int // GPUs
}

type block struct {
	n     int
	items [blockSize]Entry
}

// Len is the number of jobs.
func (r *Roster) Len() int { return r.total }

// Held is the number of GPUs of all jobs.
func (r *Roster) Held() int { return r.held }

// Reset empties the roster.
func (r *Roster) Reset() {
	r.spare = append(r.spare, r.blocks...)
	r.blocks, r.last, r.gpus = r.blocks[:0], r.last[:0], r.gpus[:0]
	r.total, r.held = 0, 0
}

// find is the first block whose last entry is not before e; there may be none.
func (r *Roster) find(e Entry) int {
	n := len(r.blocks)
	if n == 0 || r.last[n-1].Before(e) {
		return n
	}
	low, high := 0, n-1
	for low < high {
		if mid := (low + high) / 2; r.last[mid].Before(e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// in is where e is, or belongs, in a block.
func (b *block) in(e Entry) int {
	low, high := 0, b.n
	for low < high {
		if mid := (low + high) / 2; b.items[mid].Before(e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// Insert adds a job, whose GPUs are the entry's width.
func (r *Roster) Insert(e Entry) {
	k := r.find(e)
	if k == len(r.blocks) {
		if k == 0 || r.blocks[k-1].n == blockSize {
			r.open(k, 0)
		} else {
			k-- // at the end of the last
		}
	}
	if r.blocks[k].n == blockSize {
		r.open(k+1, blockSize/2)
		if r.last[k].Before(e) {
			k++
		}
	}
	b := r.blocks[k]
	i := b.in(e)
	copy(b.items[i+1:b.n+1], b.items[i:b.n])
	b.items[i] = e
	b.n++
	r.last[k] = b.items[b.n-1]
	r.gpus[k] += int(e.Width)
	r.total++
	r.held += int(e.Width)
}

// open makes a new block of the upper entries of the one before it.
func (r *Roster) open(k, n int) {
	var b *block
	if s := len(r.spare); s > 0 {
		b, r.spare = r.spare[s-1], r.spare[:s-1]
	} else {
		b = new(block)
	}
	b.n = n
	gpus := 0
	if n > 0 {
		from := r.blocks[k-1]
		from.n -= n
		copy(b.items[:n], from.items[from.n:])
		for _, e := range b.items[:n] {
			gpus += int(e.Width)
		}
	}
	r.blocks, r.last, r.gpus = append(r.blocks, nil), append(r.last, Entry{}), append(r.gpus, 0)
	copy(r.blocks[k+1:], r.blocks[k:])
	copy(r.last[k+1:], r.last[k:])
	copy(r.gpus[k+1:], r.gpus[k:])
	r.blocks[k], r.gpus[k] = b, gpus
	if n > 0 {
		r.last[k] = b.items[n-1]
		from := r.blocks[k-1]
		r.last[k-1] = from.items[from.n-1]
		r.gpus[k-1] -= gpus
	}
}

// Remove takes a job out. It panics if it is not there.
func (r *Roster) Remove(e Entry) {
	k := r.find(e)
	i := 0
	if k < len(r.blocks) {
		i = r.blocks[k].in(e)
	}
	if k == len(r.blocks) || r.blocks[k].items[i] != e {
		panic("lanes: removing a job that is not in the roster")
	}
	b := r.blocks[k]
	copy(b.items[i:], b.items[i+1:b.n])
	b.n--
	r.gpus[k] -= int(e.Width)
	r.total--
	r.held -= int(e.Width)
	if b.n > 0 {
		r.last[k] = b.items[b.n-1]
		return
	}
	r.spare = append(r.spare, b)
	r.blocks = append(r.blocks[:k], r.blocks[k+1:]...)
	r.last = append(r.last[:k], r.last[k+1:]...)
	r.gpus = append(r.gpus[:k], r.gpus[k+1:]...)
}

// Shares is who gets GPUs in a walk with a quota: Start are waiting jobs that
// get some, Stop running ones that do not.
type Shares struct {
	Stop, Start []simulator.ID
	// Room is asked too where it is not nil: of tenants that have quotas of their
	// own. Lanes must be split by tenant then (Lanes.Split).
	Room *simulator.Room
}

// Reset begins a new walk over all queues in a run.
func (d *Shares) Reset(s *simulator.Sim) {
	d.Stop, d.Start, d.Room = d.Stop[:0], d.Start[:0], nil
	if s.Quota() == simulator.QuotaStrict {
		d.Room = s.Room()
	}
}

// may takes a job's GPUs from its tenant's quota, if that is strict.
func (d *Shares) may(j simulator.ID) bool { return d.Room == nil || d.Room.Take(j) }

// Divide gives a quota of GPUs to the jobs of a queue and returns what is left
// of it. Whoever asks for more than is left is passed over. Running and waiting
// jobs are in one order, or all running ones come first.
func (d *Shares) Divide(quota int, run *Roster, wait *Lanes, runningFirst bool) int {
	at := place{rest: run.held}
	if runningFirst {
		quota = d.keep(run, &at, last, quota)
	}
	if wait.total > 0 && quota > 0 {
		wait.Walk()
		for {
			in := wait.first(quota)
			if in < 0 {
				break
			}
			h := &wait.walk[in]
			if at.rest > 0 {
				if quota = d.keep(run, &at, h.Entry, quota); h.width > quota {
					continue
				}
			}
			if !d.may(h.ID) {
				wait.Close(in)
				continue
			}
			d.Start = append(d.Start, h.ID)
			quota -= h.width
			wait.Skip(in)
		}
	}
	if at.rest > 0 {
		quota = d.keep(run, &at, last, quota)
	}
	return quota
}

// last comes after all jobs.
var last = Entry{Key: math.MaxInt64, ID: math.MaxInt32}

// place is a place in a walk over a roster.
type place struct {
	block, item int
	rest        int // GPUs that are held from there on
}

// keep goes on to an entry.
func (d *Shares) keep(r *Roster, at *place, before Entry, quota int) int {
	if before == last && at.rest <= quota && d.Room == nil {
		quota -= at.rest
		at.rest = 0
		return quota
	}
	block, item, rest := at.block, at.item, at.rest
	for block < len(r.blocks) {
		whole := r.last[block].Before(before)
		if g := r.gpus[block]; whole && item == 0 && g <= quota && d.Room == nil {
			quota -= g
			rest -= g
			block++
			continue
		}
		b := r.blocks[block]
		for ; item < b.n; item++ {
			e := &b.items[item]
			if !whole && !e.Before(before) {
				at.block, at.item, at.rest = block, item, rest
				return quota
			}
			g := int(e.Width)
			rest -= g
			if g <= quota && d.may(e.ID) {
				quota -= g
			} else {
				d.Stop = append(d.Stop, e.ID)
			}
		}
		block, item = block+1, 0
	}
	at.block, at.item, at.rest = block, item, rest
	return quota
}

// All are the jobs in order. The roster must not change meanwhile.
func (r *Roster) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, b := range r.blocks {
			for _, e := range b.items[:b.n] {
				if !yield(e) {
					return
				}
			}
		}
	}
}
