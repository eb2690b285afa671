package lanes

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// blockSize bounds the entries of a block: large enough that a walk passes most
// running jobs in a few steps, small enough that an insertion moves little.
const blockSize = 32

// Roster is a sorted list of running jobs, cut into blocks with the sums of their GPUs, so that
// a walk with a quota passes blocks whose jobs all fit it without looking at them (docs/notes/speed.md).
type Roster struct {
	blocks []block
	gpus   []int     // by block: of all its jobs
	spare  [][]Entry // memory of former blocks
	total  int       // jobs
	held   int       // GPUs
}

// block is entries in order, at least one, that come before those of the next block.
type block struct {
	jobs []Entry
	last Entry // of jobs
}

// Len is the number of jobs.
func (r *Roster) Len() int { return r.total }

// Held is the number of GPUs of all jobs.
func (r *Roster) Held() int { return r.held }

// Reset empties the roster.
func (r *Roster) Reset() {
	for i := range r.blocks {
		r.spare = append(r.spare, r.blocks[i].jobs[:0])
	}
	r.blocks, r.gpus, r.total, r.held = r.blocks[:0], r.gpus[:0], 0, 0
}

// find returns the first block from one on whose last entry is not before e, or len(blocks).
func (r *Roster) find(from int, e Entry) int {
	return from + sort.Search(len(r.blocks)-from, func(k int) bool { return !r.blocks[from+k].last.Before(e) })
}

// in returns the index of e in a block, or that at which it belongs.
func (b *block) in(e Entry) int {
	return sort.Search(len(b.jobs), func(i int) bool { return !b.jobs[i].Before(e) })
}

// Insert adds a job, whose GPUs are the entry's width.
func (r *Roster) Insert(e Entry) {
	k := r.find(0, e)
	if k == len(r.blocks) && (k == 0 || len(r.blocks[k-1].jobs) == blockSize) {
		r.open(k, nil)
	}
	k = min(k, len(r.blocks)-1)
	if b := &r.blocks[k]; len(b.jobs) == blockSize {
		upper := b.jobs[blockSize/2:]
		b.jobs = b.jobs[:blockSize/2]
		r.changed(k)
		r.open(k+1, upper)
		if r.blocks[k].last.Before(e) {
			k++
		}
	}
	b := &r.blocks[k]
	b.jobs = slices.Insert(b.jobs, b.in(e), e)
	r.changed(k)
	r.total++
	r.held += int(e.Width)
}

// open inserts block k with some entries.
func (r *Roster) open(k int, jobs []Entry) {
	var b block
	if n := len(r.spare); n > 0 {
		b.jobs, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		b.jobs = make([]Entry, 0, blockSize)
	}
	b.jobs = append(b.jobs, jobs...)
	r.blocks, r.gpus = slices.Insert(r.blocks, k, b), slices.Insert(r.gpus, k, 0)
	r.changed(k)
}

// changed follows a change of a block's jobs.
func (r *Roster) changed(k int) {
	b, gpus := &r.blocks[k], 0
	for _, b.last = range b.jobs {
		gpus += int(b.last.Width)
	}
	r.gpus[k] = gpus
}

// Remove removes a job. It panics if the job is not in the roster.
func (r *Roster) Remove(e Entry) {
	k, i := r.find(0, e), 0
	if k < len(r.blocks) {
		i = r.blocks[k].in(e)
	}
	if k == len(r.blocks) || r.blocks[k].jobs[i] != e {
		panic("lanes: removing a job that is not in the roster")
	}
	b := &r.blocks[k]
	b.jobs = slices.Delete(b.jobs, i, i+1)
	r.changed(k)
	r.total--
	r.held -= int(e.Width)
	if len(b.jobs) == 0 {
		r.spare = append(r.spare, b.jobs)
		r.blocks, r.gpus = slices.Delete(r.blocks, k, k+1), slices.Delete(r.gpus, k, k+1)
	}
}

// Last comes after all jobs.
var Last = Entry{Key: math.MaxInt64, ID: math.MaxInt32}

// All iterates over the jobs in order. The roster must not change meanwhile.
func (r *Roster) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range r.blocks {
			for _, e := range r.blocks[i].jobs {
				if !yield(e) {
					return
				}
			}
		}
	}
}
