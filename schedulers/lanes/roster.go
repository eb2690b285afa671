package lanes

import (
	"iter"
	"math"
	"math/bits"
)

// A Roster is a sorted list cut into blocks of at most blockSize entries.
//
// Invariants: block k holds blocks[k].n > 0 entries in order, last[k] is its last
// entry and gpus[k] the sum of its entries' widths; all entries of a block come
// before those of the next; held and total are the sums over all blocks. sums is
// either empty or a Fenwick tree over gpus: sums[i-1] is the sum of gpus over the
// i&-i blocks up to block i-1. Opening or closing a block empties it, and before
// makes it anew when it is next asked for.
//
// So Divide passes blocks whose jobs all fit the quota without looking at them:
// plans of a million jobs take time in proportion to the logarithm of the running
// jobs (docs/notes/speed.md).

// blockSize bounds the entries of a block: large enough that a walk passes most
// running jobs in a few steps, small enough that an insertion moves little.
const blockSize = 32

// Roster is a sorted list of running jobs in blocks with sums of their GPUs, so that
// a walk with a quota passes many blocks at once.
type Roster struct {
	blocks []*block
	last   []Entry // by block
	gpus   []int   // by block
	sums   []int   // of gpus, as a Fenwick tree; empty until asked for if blocks came or went
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
	r.blocks, r.last, r.gpus, r.sums = r.blocks[:0], r.last[:0], r.gpus[:0], r.sums[:0]
	r.total, r.held = 0, 0
}

// find returns the first block whose last entry is not before e, or len(blocks).
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

// seek is find by galloping from a block that is not behind it.
func (r *Roster) seek(from int, e Entry) int {
	low, high := from, from
	for step := 1; high < len(r.blocks) && r.last[high].Before(e); step *= 2 {
		low = high + 1
		high += step
	}
	high = min(high, len(r.blocks))
	for low < high {
		if mid := (low + high) / 2; r.last[mid].Before(e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// in returns the index of e in a block, or that at which it belongs.
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
	if i := b.n; i == 0 || b.items[i-1].Before(e) {
		b.items[i] = e // often the latest
	} else {
		i = b.in(e)
		copy(b.items[i+1:b.n+1], b.items[i:b.n])
		b.items[i] = e
	}
	b.n++
	r.last[k] = b.items[b.n-1]
	r.add(k, int(e.Width))
	r.total++
}

// add changes the GPUs of a block.
func (r *Roster) add(k, gpus int) {
	r.held += gpus
	r.gpus[k] += gpus
	for i := k + 1; i <= len(r.sums); i += i & -i {
		r.sums[i-1] += gpus
	}
}

// sum makes sums if it is empty.
func (r *Roster) sum() {
	if len(r.sums) == len(r.blocks) {
		return
	}
	r.sums = append(r.sums[:0], r.gpus...)
	for i := 1; i <= len(r.sums); i++ {
		if up := i + i&-i; up <= len(r.sums) {
			r.sums[up-1] += r.sums[i-1]
		}
	}
}

// before returns the GPUs of the first k blocks.
func (r *Roster) before(k int) int {
	r.sum()
	gpus := 0
	for ; k > 0; k &= k - 1 {
		gpus += r.sums[k-1]
	}
	return gpus
}

// pass advances from block from to at most block to while the passed blocks hold at
// most gpus together, and returns where it ends and the GPUs passed. before is the
// GPUs of the blocks before from.
func (r *Roster) pass(from, to, before, gpus int) (k, held int) {
	if to-from <= 4 {
		for k = from; k < to && held+r.gpus[k] <= gpus; k++ {
			held += r.gpus[k]
		}
		return k, held
	}
	if r.gpus[from] > gpus {
		return from, 0
	}
	if held = r.before(to) - before; held <= gpus { // there are sums now
		return to, held
	}
	sum := 0 // of the first k blocks
	for step := 1 << (bits.Len(uint(len(r.sums))) - 1); step > 0; step /= 2 {
		if next := k + step; next <= to && (next <= from || sum+r.sums[next-1] <= before+gpus) {
			k = next
			sum += r.sums[next-1]
		}
	}
	return k, sum - before
}

// open inserts block k with the upper n entries of the block before it.
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
	r.sums = r.sums[:0]
}

// Remove removes a job. It panics if the job is not in the roster.
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
	r.add(k, -int(e.Width))
	r.total--
	if b.n > 0 {
		r.last[k] = b.items[b.n-1]
		return
	}
	r.spare = append(r.spare, b)
	r.blocks = append(r.blocks[:k], r.blocks[k+1:]...)
	r.last = append(r.last[:k], r.last[k+1:]...)
	r.gpus = append(r.gpus[:k], r.gpus[k+1:]...)
	r.sums = r.sums[:0]
}

// Last comes after all jobs.
var Last = Entry{Key: math.MaxInt64, ID: math.MaxInt32}

// All iterates over the jobs in order. The roster must not change meanwhile.
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
