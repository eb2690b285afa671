package simulator

import (
	"math/bits"
	"slices"

	"github.com/autosched/autosched/workload"
)

// Placement is how a gang's GPUs are found.
type Placement uint8

const (
	// ConsolidateFewest puts a gang on one node if it fits there (the fullest
	// that can hold it), and a larger one on as few nodes as its size needs,
	// emptiest first, in any split (TitanSched's consolidate). The default.
	ConsolidateFewest Placement = iota
	// ConsolidateWhole differs for gangs larger than a node: all but the last
	// node must be empty (Lucid's consolidate).
	ConsolidateWhole
	// Count only counts GPUs: no nodes, no fragmentation (the Tiresias
	// simulator's count scheme).
	Count
	// FirstFit puts a gang on the first node that can hold it, and a larger one
	// on the first empty nodes and the first other node with room for the rest
	// (the Tiresias simulator's yarn scheme, without its limits on CPUs and
	// memory, which the nodes it comes with do not reach).
	FirstFit
)

// placer keeps which node has how many free GPUs. Nodes are kept in one bitmap
// per pool and number of free GPUs, so that best fit is a look at a few words.
//
// Pools split the nodes: a gang is placed within one. There is one pool unless a
// policy asks for more (Plan.Partition).
type placer struct {
	mode    Placement
	perNode int
	free    []uint16 // by node
	pool    []uint8  // by node
	// next is the pool a node joins once it is empty. Until then it drains:
	// nothing more is placed on it.
	next  []uint8
	total []int    // by pool: free GPUs on nodes that do not drain
	idle  int      // free GPUs of all nodes
	level []bitmap // by pool, then free GPUs
	// full has bit g set if a gang of g GPUs found no consolidated place in the
	// pool since GPUs were last given back.
	full []uint64
	// could counts nodes by the GPUs that they would have free if the jobs offered
	// (by node) gave up theirs. It is empty where that is not kept: where GPUs are
	// only counted, or pools divide the nodes.
	could   []int32
	offered []uint16

	want []int // scratch of partition
}

// bitmap is a set of nodes with a summary word per 64 words.
type bitmap struct {
	words, sums []uint64
	n           int
}

func (b *bitmap) reset(size int) {
	b.words = resized(b.words, (size+63)/64)
	b.sums = resized(b.sums, (len(b.words)+63)/64)
	clear(b.words)
	clear(b.sums)
	b.n = 0
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// longer returns n elements that keep the memory of those there were.
func longer[T any](s []T, n int) []T {
	s = s[:min(cap(s), n)]
	for len(s) < n {
		var zero T
		s = append(s, zero)
	}
	return s
}

func (b *bitmap) add(i int) {
	b.words[i>>6] |= 1 << (i & 63)
	b.sums[i>>12] |= 1 << (i >> 6 & 63)
	b.n++
}

func (b *bitmap) remove(i int) {
	w := i >> 6
	if b.words[w] &^= 1 << (i & 63); b.words[w] == 0 {
		b.sums[w>>6] &^= 1 << (w & 63)
	}
	b.n--
}

// next returns the lowest member that is at least i, or -1.
func (b *bitmap) next(i int) int {
	w := i >> 6
	if w >= len(b.words) {
		return -1
	}
	if x := b.words[w] >> (i & 63); x != 0 {
		return i + bits.TrailingZeros64(x)
	}
	w++
	for s := w >> 6; s < len(b.sums); s++ {
		x := b.sums[s]
		if s == w>>6 {
			x = x >> (w & 63) << (w & 63)
		}
		if x != 0 {
			w = s<<6 + bits.TrailingZeros64(x)
			return w<<6 + bits.TrailingZeros64(b.words[w])
		}
	}
	return -1
}

func (p *placer) reset(mode Placement, c workload.Cluster) {
	p.mode, p.perNode, p.idle = mode, c.GPUsPerNode(), c.TotalGPUs()
	p.total, p.full = append(p.total[:0], p.idle), append(p.full[:0], 0)
	p.could = p.could[:0]
	if mode == Count {
		return
	}
	p.free, p.pool, p.next = resized(p.free, c.Nodes()), resized(p.pool, c.Nodes()), resized(p.next, c.Nodes())
	clear(p.pool)
	clear(p.next)
	p.grow(1)
	for n := range p.free {
		p.free[n] = uint16(c.GPUsPerNode())
		p.level[c.GPUsPerNode()].add(n)
	}
	p.offerNone()
}

// offerNone begins to keep what could be free, with nobody offered.
func (p *placer) offerNone() {
	p.could, p.offered = p.could[:0], resized(p.offered, len(p.free))
	clear(p.offered)
	for f := range p.perNode + 1 {
		p.could = append(p.could, int32(p.level[f].n))
	}
}

// offer changes how many GPUs of a node would be given up.
func (p *placer) offer(node, gpus int) {
	was := p.most(node)
	p.offered[node] += uint16(gpus)
	p.move(node, was)
}

// most is the number of GPUs that could be free on a node. GPUs that two jobs
// share may be offered twice.
func (p *placer) most(node int) int {
	if len(p.could) == 0 {
		return 0
	}
	return min(int(p.free[node])+int(p.offered[node]), p.perNode)
}

// move notes that most was another.
func (p *placer) move(node, was int) {
	if len(p.could) > 0 {
		p.could[was]--
		p.could[p.most(node)]++
	}
}

// grow makes the bitmaps of a number of pools, empty.
func (p *placer) grow(pools int) {
	size := pools * (p.perNode + 1)
	p.level = longer(p.level, size)
	for i := range p.level {
		p.level[i].reset(len(p.free))
	}
}

// partition makes the pools after the first have so many nodes each; the first
// takes what they leave. Nodes in use change pools when they become empty. Among
// equals the last nodes leave first.
func (p *placer) partition(rest []int) {
	p.could = p.could[:0]
	pools := 1 + len(rest)
	p.grow(pools)
	p.total, p.full = resized(p.total, pools), resized(p.full, pools)
	clear(p.total)
	clear(p.full)
	p.want = append(append(p.want[:0], 0), rest...)
	want := p.want
	for n := range p.pool {
		if int(p.pool[n]) >= pools {
			p.pool[n] = 0
		}
		p.next[n] = 0
	}
	// Members stay, then empty nodes of the first pool join, then any.
	for _, pass := range [...]func(n, to int) bool{
		func(n, to int) bool { return int(p.pool[n]) == to },
		func(n, to int) bool { return int(p.free[n]) == p.perNode },
		func(n, to int) bool { return true },
	} {
		for to := 1; to < pools; to++ {
			for n := len(p.free) - 1; n >= 0 && want[to] > 0; n-- {
				if p.next[n] == 0 && pass(n, to) {
					p.next[n] = uint8(to)
					want[to]--
				}
			}
		}
	}
	for n := range p.free {
		if int(p.free[n]) == p.perNode {
			p.pool[n] = p.next[n]
		}
		if p.pool[n] == p.next[n] {
			p.at(n).add(n)
			p.total[p.pool[n]] += int(p.free[n])
		}
	}
}

// at is the bitmap of a node that does not drain.
func (p *placer) at(n int) *bitmap {
	return &p.level[int(p.pool[n])*(p.perNode+1)+int(p.free[n])]
}

func (p *placer) levels(pool uint8) []bitmap {
	return p.level[int(pool)*(p.perNode+1) : (int(pool)+1)*(p.perNode+1)]
}

func (p *placer) copyFrom(src *placer) {
	level := p.level
	free, pool, next, total, full, could, offered, want := p.free, p.pool, p.next, p.total, p.full, p.could, p.offered, p.want
	*p = *src
	p.free, p.pool, p.next = append(free[:0], src.free...), append(pool[:0], src.pool...), append(next[:0], src.next...)
	p.total, p.full = append(total[:0], src.total...), append(full[:0], src.full...)
	p.could, p.offered, p.want = could[:0], offered, want
	p.level = longer(level, len(src.level))
	for i := range src.level {
		d, s := &p.level[i], &src.level[i]
		d.words = append(d.words[:0], s.words...)
		d.sums = append(d.sums[:0], s.sums...)
		d.n = s.n
	}
	if len(src.could) > 0 {
		p.offerNone()
	}
}

func (p *placer) take(node, gpus int) {
	p.idle -= gpus
	pool := p.pool[node]
	if p.next[node] != pool {
		p.free[node] -= uint16(gpus)
		return
	}
	was := p.most(node)
	p.at(node).remove(node)
	p.free[node] -= uint16(gpus)
	p.at(node).add(node)
	p.total[pool] -= gpus
	p.move(node, was)
}

func (p *placer) give(node, gpus int) {
	pool := p.pool[node]
	if p.next[node] == pool {
		was := p.most(node)
		p.at(node).remove(node)
		p.free[node] += uint16(gpus)
		p.idle += gpus
		p.at(node).add(node)
		p.total[pool] += gpus
		p.full[pool] = 0
		p.move(node, was)
		return
	}
	p.free[node] += uint16(gpus)
	p.idle += gpus
	if int(p.free[node]) == p.perNode {
		pool = p.next[node]
		p.pool[node] = pool
		p.at(node).add(node)
		p.total[pool] += p.perNode
		p.full[pool] = 0
	}
}

// count takes or gives back GPUs where only their number counts.
func (p *placer) count(gpus int) {
	p.idle -= gpus
	p.total[0] -= gpus
}

// fragmented is the number of free GPUs on partly used nodes.
func (p *placer) fragmented() int {
	if p.mode == Count {
		return 0
	}
	empty := 0
	for i := p.perNode; i < len(p.level); i += p.perNode + 1 {
		empty += p.level[i].n
	}
	return p.idle - empty*p.perNode
}

// bestFit is the node with the fewest free GPUs that has at least gpus, lowest
// index first, or -1.
func (p *placer) bestFit(gpus int, pool uint8) int {
	level := p.levels(pool)
	for f := gpus; f <= p.perNode; f++ {
		if level[f].n > 0 {
			return level[f].next(0)
		}
	}
	return -1
}

// firstFit is the lowest node with at least gpus free from node from on, or -1.
func (p *placer) firstFit(gpus, from int, pool uint8) int {
	first := -1
	for f, level := gpus, p.levels(pool); f <= p.perNode; f++ {
		if n := level[f].next(from); n >= 0 && (first < 0 || n < first) {
			first = n
		}
	}
	return first
}

// wholeFirst takes the first empty nodes for as many full nodes as a gang
// larger than one has, and the first other node that holds the rest.
func (p *placer) wholeFirst(dst []workload.NodeGPUs, gpus int, pool uint8) []workload.NodeGPUs {
	start := len(dst)
	empty := &p.levels(pool)[p.perNode]
	for n := -1; gpus >= p.perNode; gpus -= p.perNode {
		if n = empty.next(n + 1); n < 0 {
			return dst[:start]
		}
		dst = append(dst, workload.NodeGPUs{Node: n, GPUs: p.perNode})
	}
	if gpus == 0 {
		return dst
	}
	taken := dst[start:]
	n := p.firstFit(gpus, 0, pool)
	for n >= 0 && slices.ContainsFunc(taken, func(t workload.NodeGPUs) bool { return t.Node == n }) {
		n = p.firstFit(gpus, n+1, pool)
	}
	if n < 0 {
		return dst[:start]
	}
	return append(dst, workload.NodeGPUs{Node: n, GPUs: gpus})
}

// find appends to dst where a gang would go, without taking it. An empty dst
// means that it does not fit.
func (p *placer) find(dst []workload.NodeGPUs, gpus int, pool uint8, relaxed bool) []workload.NodeGPUs {
	if gpus > p.total[pool] {
		return dst
	}
	if gpus > 63 || p.full[pool]&(1<<gpus) == 0 {
		if gpus <= p.perNode {
			n := -1
			if p.mode == FirstFit {
				n = p.firstFit(gpus, 0, pool)
			} else {
				n = p.bestFit(gpus, pool)
			}
			if n >= 0 {
				return append(dst, workload.NodeGPUs{Node: n, GPUs: gpus})
			}
		} else if d := p.consolidate(dst, gpus, pool); len(d) > len(dst) {
			return d
		}
		if gpus <= 63 {
			p.full[pool] |= 1 << gpus
		}
	}
	if relaxed {
		return p.emptiest(dst, gpus, pool, len(p.free))
	}
	return dst
}

func (p *placer) consolidate(dst []workload.NodeGPUs, gpus int, pool uint8) []workload.NodeGPUs {
	if p.mode == FirstFit {
		return p.wholeFirst(dst, gpus, pool)
	}
	need := (gpus + p.perNode - 1) / p.perNode
	if p.mode == ConsolidateWhole && p.levels(pool)[p.perNode].n < gpus/p.perNode {
		return dst
	}
	return p.emptiest(dst, gpus, pool, need)
}

// emptiest fills nodes in order of most free GPUs, then index, and gives up if
// more than limit are needed.
func (p *placer) emptiest(dst []workload.NodeGPUs, gpus int, pool uint8, limit int) []workload.NodeGPUs {
	start := len(dst)
	level := p.levels(pool)
	for f := p.perNode; f > 0; f-- {
		for n := level[f].next(0); n >= 0; n = level[f].next(n + 1) {
			if len(dst)-start == limit {
				return dst[:start]
			}
			k := min(f, gpus)
			dst = append(dst, workload.NodeGPUs{Node: n, GPUs: k})
			if gpus -= k; gpus == 0 {
				return dst
			}
		}
	}
	return dst[:start]
}
