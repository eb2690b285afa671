package slurm

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// table holds the reservations of a backfill cycle: for each stretch of time the nodes without one.
// node_space in src/plugins/sched/backfill/backfill.c.
type table struct {
	words      int
	begin, end []time.Duration
	after      []int32 // the next row in order of time, -1 for none
	open       nodeSet // by row
	resolution time.Duration
}

func (t *table) row(i int32) nodeSet { return t.open[int(i)*t.words : (int(i)+1)*t.words] }

// reset makes one row, up to the end of the window, without reservations.
func (t *table) reset(now, window, resolution time.Duration, all nodeSet) {
	t.words, t.resolution = len(all), resolution
	t.begin, t.end = append(t.begin[:0], t.round(now)), append(t.end[:0], t.round(now+window))
	t.after = append(t.after[:0], -1)
	t.open = append(t.open[:0], all...)
}

// round rounds down to the resolution.
func (t *table) round(at time.Duration) time.Duration {
	return clock{0, t.resolution, longAgo}.last(at)
}

// from is the first row, not before row i, that ends behind an instant, -1 for none.
func (t *table) from(i int32, at time.Duration) int32 {
	for i >= 0 && t.end[i] <= at {
		i = t.after[i]
	}
	return i
}

// usable removes the nodes that are reserved at some time from row i, the first one that counts, to an instant.
// later is the end of the first row after which other nodes are open, 0 for none. It may stop once fewer than the
// least number of nodes are left.
func (t *table) usable(nodes nodeSet, least int, i int32, to time.Duration) (later time.Duration, ok bool) {
	for ; i >= 0; i = t.after[i] {
		if n := t.after[i]; !ok && n >= 0 && !t.row(n).within(t.row(i)) {
			later, ok = t.end[i], true
		}
		if t.begin[i] > to {
			break
		}
		if nodes.and(t.row(i)); ok && nodes.count() < least {
			break
		}
	}
	return later, ok
}

// reserved reports whether some of the nodes are reserved in a stretch of time, from row i on.
// _test_resv_overlap.
func (t *table) reserved(nodes nodeSet, i int32, from, to time.Duration) bool {
	for ; i >= 0 && t.begin[i] < to; i = t.after[i] {
		if t.end[i] > from && !nodes.within(t.row(i)) {
			return true
		}
	}
	return false
}

// reserve takes whole nodes for a stretch of time, in steps of the resolution and at least one.
// _add_reservation.
func (t *table) reserve(nodes nodeSet, from, to time.Duration) {
	from, to = t.round(from), t.round(to)
	to = max(to, from+t.resolution)
	for i := int32(0); i >= 0; i = t.after[i] {
		if t.end[i] <= from {
			continue
		}
		if t.begin[i] >= to {
			return
		}
		if t.begin[i] < from {
			t.split(i, from)
			continue
		}
		if t.end[i] > to {
			t.split(i, to)
		}
		t.row(i).minus(nodes)
	}
}

// split cuts a row in two at an instant.
func (t *table) split(i int32, at time.Duration) {
	n := int32(len(t.begin))
	t.begin, t.end, t.after = append(t.begin, at), append(t.end, t.end[i]), append(t.after, t.after[i])
	t.open = append(t.open, t.row(i)...)
	t.end[i], t.after[i] = at, n
}

// busy is a running job and when it ends by its time limit.
type busy struct {
	id           simulator.ID
	ends         time.Duration
	at           []workload.NodeGPUs
	cpus, memory int64 // for each GPU
	whole        bool  // it has its nodes whole
}

// need is the part of a node that a job takes.
type need struct {
	gpus         int32 // or wholeNode
	cpus, memory int64 // in thousandths, and in bytes
}

const wholeNode = -1

// soon is an order of running jobs: by the end of their limits.
func soon(a, b busy) int { return cmp.Or(cmp.Compare(a.ends, b.ends), int(a.id-b.id)) }

const (
	free   = -1      // a node has enough GPUs now
	closed = 1 << 30 // it never has
)

// future is which nodes get free when the running jobs reach their limits.
type future struct {
	running []busy
	gpus    []int32          // by node: all of its GPUs
	free    []int32          // by node: GPUs
	cpus    []int64          // by node: free ones, in thousandths; empty if they are not counted
	memory  []int64          // likewise
	nodes   nodeSet          // by running job: its nodes, as many words each as a set has
	onNode  [][]place        // by node: the running jobs on it, in order of their end
	columns map[need][]int32 // by the need on a node
	spare   [][]int32
	known   bool // nodes, onNode and columns match running
}

// place is the GPUs of a job on a node, and how many get free when it ends.
type place struct{ job, gpus, freed int32 }

// freed is the number of GPUs that get free on one of the nodes of a job when it ends.
func (f *future) freed(b *busy, a workload.NodeGPUs) int32 {
	if b.whole {
		return f.gpus[a.Node]
	}
	return int32(a.GPUs)
}

func (f *future) changed() { f.known = false }

func (f *future) index() {
	if f.known {
		return
	}
	f.known = true
	if f.columns == nil {
		f.columns = map[need][]int32{}
	}
	for _, c := range f.columns {
		f.spare = append(f.spare, c)
	}
	clear(f.columns)
	for len(f.onNode) < len(f.free) {
		f.onNode = append(f.onNode, nil)
	}
	for n := range f.onNode {
		f.onNode[n] = f.onNode[n][:0]
	}
	words := (len(f.free) + 63) / 64
	f.nodes = longer(f.nodes[:0], len(f.running)*words)
	for i := range f.running {
		on := f.nodes[i*words : (i+1)*words]
		for _, a := range f.running[i].at {
			f.onNode[a.Node] = append(f.onNode[a.Node], place{int32(i), int32(a.GPUs), f.freed(&f.running[i], a)})
			on.add(a.Node)
		}
	}
}

// column is, by node, the last of the running jobs whose end it takes until a need is free: free or closed if none
// does.
func (f *future) column(of need) []int32 {
	f.index()
	if len(f.cpus) == 0 {
		of.cpus, of.memory = 0, 0
	}
	if c, ok := f.columns[of]; ok {
		return c
	}
	var c []int32
	if n := len(f.spare); n > 0 {
		c, f.spare = f.spare[n-1][:0], f.spare[:n-1]
	}
	for n, gpus := range f.free {
		last, each := int32(closed), of.gpus
		if each == wholeNode {
			each = f.gpus[n]
		}
		var cpus, memory int64
		if len(f.cpus) > 0 {
			cpus, memory = f.cpus[n], f.memory[n]
		}
		if gpus >= each && cpus >= of.cpus && memory >= of.memory {
			last = free
		}
		for _, p := range f.onNode[n] {
			if last != closed {
				break
			}
			b := &f.running[p.job]
			cpus, memory = cpus+b.cpus*int64(p.gpus), memory+b.memory*int64(p.gpus)
			if gpus += p.freed; gpus >= each && cpus >= of.cpus && memory >= of.memory {
				last = p.job
			}
		}
		c = append(c, last)
	}
	f.columns[of] = c
	return c
}

// when returns the running job after whose end a number of nodes have a need free on each: the last of
// a group of jobs that end close in time and that are removed together. Jobs that have none of
// the nodes do not count. ok is false if the nodes are never free.
// _will_run_test in src/plugins/select/cons_tres/job_test.c.
func (f *future) when(nodes nodeSet, count int32, each need) (last int32, ok bool) {
	column := f.column(each)
	need := nth(nodes, column, count)
	if need == closed {
		return 0, false
	}
	k := f.nextOn(nodes, 0)
	if k < 0 {
		return 0, false
	}
	const step = 30 * time.Second
	base, window := clock{0, step, longAgo}.last(f.running[k].ends)+step, step
	for {
		limit := base + window
		// The group ends with the first job, behind which comes one that ends after the limit.
		behind := sort.Search(len(f.running), func(i int) bool { return f.running[i].ends > limit })
		end := f.nextOn(nodes, max(k, behind-1))
		if end < 0 || end == len(f.running)-1 {
			break
		}
		if int32(end) >= need {
			return int32(end), true
		}
		if k = f.nextOn(nodes, end+1); k < 0 {
			break
		}
		for window *= 2; base+window < f.running[k].ends; {
			window *= 2
		}
	}
	for i := len(f.running) - 1; ; i-- {
		if f.on(i, nodes) {
			return int32(i), true
		}
	}
}

// nextOn is the first running job from one on that has one of the nodes, or -1.
func (f *future) nextOn(nodes nodeSet, from int) int {
	for i := from; i < len(f.running); i++ {
		if f.on(i, nodes) {
			return i
		}
	}
	return -1
}

func (f *future) on(i int, nodes nodeSet) bool {
	return f.nodes[i*len(nodes) : (i+1)*len(nodes)].overlaps(nodes)
}

// nth is the count-th least value of a column among nodes, closed if there are fewer.
func nth(nodes nodeSet, column []int32, count int32) int32 {
	least := make([]int32, 0, 8) // sorted
	for n := nodes.next(0); n >= 0; n = nodes.next(n + 1) {
		v := column[n]
		if int32(len(least)) == count {
			if v >= least[count-1] {
				continue
			}
			least = least[:count-1]
		}
		i, _ := slices.BinarySearch(least, v)
		least = slices.Insert(least, i, v)
	}
	if int32(len(least)) < count {
		return closed
	}
	return least[count-1]
}

// until keeps the nodes that are free once running jobs up to one have ended.
func (f *future) until(nodes nodeSet, last int32, each need) {
	column := f.column(each)
	for n := nodes.next(0); n >= 0; n = nodes.next(n + 1) {
		if column[n] > last {
			nodes.remove(n)
		}
	}
}
