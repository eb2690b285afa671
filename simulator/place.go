package simulator

import (
	"math"
	"slices"

	"github.com/autosched/autosched/workload"
)

// Placement is how a gang's GPUs are found. A gang is placed on nodes of one group.
// Of several groups that it may run on, it gets the one where it needs the fewest
// nodes, then the one that leaves the fewest GPUs free on its node, then the first.
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
	// simulator's count scheme). It takes a cluster of one group.
	Count
	// FirstFit puts a gang on the first node that can hold it, and a larger one
	// on the first empty nodes and the first other node with room for the rest
	// (the Tiresias simulator's yarn scheme, without its limits on CPUs and
	// memory, which the nodes it comes with do not reach). Of several groups, the
	// first that has a place is taken.
	FirstFit
)

// placer keeps the free GPUs of nodes. Nodes of one group in one pool are a cell.
// A cell has a bitmap of nodes per number of free GPUs, so that best fit looks at a
// few words.
//
// A policy may set nodes apart (Plan.Partition): they are pool 1, the others pool 0. A
// gang is placed within one pool.
type placer struct {
	mode    Placement
	perNode int // GPUs of a node of the largest group
	groups  []group
	groupOf []uint16 // by node; empty if there is one group
	free    []uint16 // by node
	pool    []uint8  // by node
	apart   int      // nodes that are to be in pool 1
	members int      // nodes in pool 1, without closed ones
	// status of nodes; no job starts on a closed one, which is draining or down. Closed
	// nodes are in no cell.
	status []status
	closed int    // nodes
	idle   int    // free GPUs of nodes that are not closed
	usable int    // idle and used GPUs
	cells  []cell // by pool, then group
	// full has bit g set if a gang of g GPUs found no consolidated place in the
	// cell since GPUs were last given back.
	full  []uint64
	level []bitmap // of the cells
	// constraints are the jobs' requirements on nodes; the first asks for nothing.
	constraints []constraint
	indexOf     map[asked]uint16 // of constraints
	// cpus (in thousandths) and memory are free, by node; empty if no group names its own, or
	// no job asks for any.
	cpus, memory []int64
	found        []workload.NodeGPUs // scratch of rationedIn

	// could counts nodes by the GPUs that they would have free if the offered jobs
	// (by node) gave up theirs. It is empty where that is not kept: where GPUs are
	// only counted, or there are several cells.
	could   []int32
	offered []uint16
}

type status uint8

const (
	up status = iota
	draining
	down
)

// group is a number of equal nodes, of which open are not closed.
type group struct {
	first, nodes, perNode, open int
	cpus, memory                int64 // of a node, CPUs in thousandths; 0 is unknown
}

// cell is the nodes of a group that are in a pool.
type cell struct {
	first   int // node of the group
	perNode int
	total   int      // free GPUs
	level   []bitmap // by free GPUs: nodes, counted from the first
}

// constraint is a job's requirement on its nodes.
type constraint struct {
	asked
	groups []uint16 // that satisfy it
}

func (p *placer) reset(mode Placement, c workload.Cluster) {
	p.mode, p.perNode, p.closed = mode, c.GPUsPerNode(), 0
	p.idle, p.usable = c.TotalGPUs(), c.TotalGPUs()
	p.groups, p.groupOf = p.groups[:0], p.groupOf[:0]
	nodes := 0
	for i := range c.Groups {
		g := &c.Groups[i]
		p.groups = append(p.groups, group{nodes, g.Nodes, g.GPUsPerNode, g.Nodes, 1000 * int64(g.CPUs), g.Memory})
		nodes += g.Nodes
	}
	p.cpus, p.memory = p.cpus[:0], p.memory[:0]
	p.constraints = p.constraints[:0]
	clear(p.indexOf)
	p.constraint(&c, &workload.Job{})
	p.could, p.apart, p.members = p.could[:0], 0, 0
	p.layout(1)
	if mode == Count {
		for i := range p.cells {
			p.cells[i].total = p.groups[i].nodes * p.groups[i].perNode
		}
		return
	}
	p.free, p.pool, p.status = resized(p.free, nodes), resized(p.pool, nodes), resized(p.status, nodes)
	clear(p.pool)
	clear(p.status)
	for i, g := range p.groups {
		for n := g.first; n < g.first+g.nodes; n++ {
			p.free[n] = uint16(g.perNode)
			if len(p.groups) > 1 {
				p.groupOf = append(p.groupOf, uint16(i))
			}
		}
		c := &p.cells[i]
		c.total = g.nodes * g.perNode
		for n := range g.nodes {
			c.level[g.perNode].add(n)
		}
	}
	p.offerNone()
}

// asked is the key of a constraint.
type asked struct {
	model, partition string
	need             need
	nodes, each      int32 // the node count asked for, and the GPUs on each; 0 for any
}

// constraint is the index of a job's constraint. CPUs and memory that no group names are
// left out; so are all beyond the bound on kinds.
func (p *placer) constraint(c *workload.Cluster, j *workload.Job) uint16 {
	var a asked
	a.model, a.partition = c.Constraint(j.Request())
	if p.rationed() && len(p.constraints) < math.MaxUint16/2 {
		a.need.cpus, a.need.memory = j.PerGPU()
	}
	if a.nodes = j.Request().NodeCount; a.nodes > 0 {
		a.each = int32(j.GPUs.Whole()) / a.nodes
	}
	if i, ok := p.indexOf[a]; ok {
		return i
	}
	n := len(p.constraints)
	if p.indexOf == nil {
		p.indexOf = map[asked]uint16{}
	}
	p.indexOf[a] = uint16(n)
	p.constraints = longer(p.constraints, n+1)
	x := &p.constraints[n]
	x.asked, x.groups = a, x.groups[:0]
	for i := range c.Groups {
		if c.Groups[i].Satisfies(a.model, a.partition) {
			x.groups = append(x.groups, uint16(i))
		}
	}
	return uint16(n)
}

// nowhere is the index of the constraint that no node satisfies.
func (p *placer) nowhere() uint16 {
	a := asked{nodes: -1}
	i, ok := p.indexOf[a]
	if !ok {
		i = uint16(len(p.constraints))
		p.indexOf[a] = i
		p.constraints = longer(p.constraints, len(p.constraints)+1)
		x := &p.constraints[i]
		x.asked, x.groups = a, x.groups[:0]
	}
	return i
}

// capacity is the number of GPUs that a job with a constraint can hold at most on
// an empty cluster, with or without its closed nodes. Members of a job may run on
// different groups.
func (p *placer) capacity(where uint16, members int, open bool) int {
	most, some := 0, 0
	x := &p.constraints[where]
	for _, i := range x.groups {
		nodes := p.groups[i].nodes
		if open {
			nodes = p.groups[i].open
		}
		if int(x.each) > p.sizes(where, int(i)) {
			continue
		}
		if some += nodes; x.nodes > int32(nodes) {
			continue
		}
		if g := nodes * p.sizes(where, int(i)); members > 1 {
			most += g
		} else {
			most = max(most, g)
		}
	}
	if most == 0 && x.nodes > 0 && some >= int(x.nodes) {
		return some * int(x.each)
	}
	return most
}

// satisfies reports whether a node satisfies a constraint.
func (p *placer) satisfies(node int, where uint16) bool {
	return where == 0 || p.grouped(p.group(node), where)
}

// grouped reports whether a group's nodes satisfy a constraint.
func (p *placer) grouped(group int, where uint16) bool {
	return slices.Contains(p.constraints[where].groups, uint16(group))
}

func (p *placer) group(node int) int {
	if len(p.groups) == 1 {
		return 0
	}
	return int(p.groupOf[node])
}

// layout makes the cells of a number of pools, empty.
func (p *placer) layout(pools int) {
	p.cells, p.full = resized(p.cells, pools*len(p.groups)), resized(p.full, pools*len(p.groups))
	clear(p.full)
	levels := 0
	for _, g := range p.groups {
		levels += g.perNode + 1
	}
	if p.mode == Count {
		levels = 0
	}
	p.level = longer(p.level, pools*levels)
	at := 0
	for i := range p.cells {
		g := &p.groups[i%len(p.groups)]
		p.cells[i] = cell{first: g.first, perNode: g.perNode}
		if p.mode == Count {
			continue
		}
		p.cells[i].level = p.level[at : at+g.perNode+1]
		at += g.perNode + 1
		for f := range p.cells[i].level {
			p.cells[i].level[f].reset(g.nodes)
		}
	}
}

// offerNone begins to track the GPUs that could be free, with no job offered, if there is one
// cell.
func (p *placer) offerNone() {
	p.could, p.offered = p.could[:0], resized(p.offered, len(p.free))
	clear(p.offered)
	if len(p.cells) > 1 {
		return
	}
	for _, l := range p.cells[0].level {
		p.could = append(p.could, int32(l.n))
	}
}

// offer changes how many GPUs of a node would be given up. GPUs of a closed node let no
// job start.
func (p *placer) offer(node, gpus int) {
	if p.closed > 0 && p.status[node] != up {
		return
	}
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

// partition makes pool 1 of the nodes in use that are in it already and of the last
// empty ones, as many as it lacks.
func (p *placer) partition(apart int) {
	p.apart, p.members = apart, 0
	p.layout(min(apart, 1) + 1)
	for n := range p.pool {
		if apart == 0 || int(p.free[n]) == p.gpus(n) {
			p.pool[n] = 0
		}
		if p.status[n] != up {
			continue
		}
		p.members += int(p.pool[n])
		c := &p.cells[p.cell(n)]
		c.level[p.free[n]].add(n - c.first)
		c.total += int(p.free[n])
	}
	p.share()
	p.offerNone()
}

// share divides the empty nodes between the pools, after a change by one node.
func (p *placer) share() {
	if p.apart == 0 {
		return
	}
	rest, apart := &p.cells[0].level[p.perNode], &p.cells[1].level[p.perNode]
	for p.members < p.apart && rest.n > 0 {
		p.rejoin(rest.last(), 1)
	}
	for p.members > p.apart && apart.n > 0 {
		p.rejoin(apart.next(0), 0)
	}
	if last, first := rest.last(), apart.next(0); first >= 0 && last > first {
		p.rejoin(last, 1)
		p.rejoin(first, 0)
	}
}

// rejoin moves an empty node to another pool.
func (p *placer) rejoin(node int, pool uint8) {
	from, to := &p.cells[1-pool], &p.cells[pool]
	from.level[p.perNode].remove(node)
	from.total -= p.perNode
	to.level[p.perNode].add(node)
	to.total += p.perNode
	p.full[pool] = 0
	p.members += 2*int(pool) - 1
	p.pool[node] = pool
}

// cell is the index of a node's cell.
func (p *placer) cell(node int) int {
	if len(p.groups) == 1 {
		return int(p.pool[node])
	}
	return int(p.pool[node])*len(p.groups) + int(p.groupOf[node])
}

// gpus is the number of GPUs of a node, free or not.
func (p *placer) gpus(node int) int { return p.groups[p.group(node)].perNode }

func (p *placer) copyFrom(src *placer) {
	mine := *p
	*p = *src
	p.groups, p.groupOf = append(mine.groups[:0], src.groups...), append(mine.groupOf[:0], src.groupOf...)
	p.free = append(mine.free[:0], src.free...)
	p.pool, p.status = append(mine.pool[:0], src.pool...), append(mine.status[:0], src.status...)
	p.full = append(mine.full[:0], src.full...)
	p.could, p.offered = mine.could[:0], mine.offered
	p.constraints = longer(mine.constraints, len(src.constraints))
	for i := range src.constraints {
		d, s := &p.constraints[i], &src.constraints[i]
		d.asked, d.groups = s.asked, append(d.groups[:0], s.groups...)
	}
	if p.indexOf = mine.indexOf; p.indexOf == nil {
		p.indexOf = map[asked]uint16{}
	}
	clear(p.indexOf)
	for i := range p.constraints {
		p.indexOf[p.constraints[i].asked] = uint16(i)
	}
	p.cpus, p.memory = append(mine.cpus[:0], src.cpus...), append(mine.memory[:0], src.memory...)
	p.found = mine.found
	p.level = longer(mine.level, len(src.level))
	for i := range src.level {
		d, s := &p.level[i], &src.level[i]
		d.words = append(d.words[:0], s.words...)
		d.n = s.n
	}
	p.cells = append(mine.cells[:0], src.cells...)
	at := 0
	for i := range p.cells {
		n := len(p.cells[i].level)
		p.cells[i].level = p.level[at : at+n]
		at += n
	}
	if len(src.could) > 0 {
		p.offerNone()
	}
}

func (p *placer) take(node, gpus int) {
	if p.closed > 0 && p.status[node] != up {
		p.usable += gpus
		p.free[node] -= uint16(gpus)
		return
	}
	p.idle -= gpus
	was := p.most(node)
	c, f := &p.cells[p.cell(node)], int(p.free[node])
	c.level[f].remove(node - c.first)
	c.level[f-gpus].add(node - c.first)
	c.total -= gpus
	p.free[node] = uint16(f - gpus)
	p.move(node, was)
}

func (p *placer) give(node, gpus int) {
	f := int(p.free[node]) + gpus
	if p.closed > 0 && p.status[node] != up {
		p.usable -= gpus
		p.free[node] = uint16(f)
		return
	}
	p.idle += gpus
	was := p.most(node)
	i := p.cell(node)
	c := &p.cells[i]
	c.level[f-gpus].remove(node - c.first)
	c.level[f].add(node - c.first)
	c.total += gpus
	p.full[i] = 0
	p.free[node] = uint16(f)
	p.move(node, was)
	if f == c.perNode {
		p.share()
	}
}

// count takes or gives back GPUs where only their number counts.
func (p *placer) count(gpus int) {
	p.idle -= gpus
	p.cells[0].total -= gpus
}

// counts reports whether a number of GPUs is free, where only that counts, for a job
// with a constraint.
func (p *placer) counts(gpus int, where uint16) bool {
	return gpus <= p.idle && (where == 0 || p.grouped(0, where))
}

// total is the number of free GPUs in a pool, on nodes that satisfy a constraint.
func (p *placer) total(pool uint8, where uint16) int {
	if len(p.groups) == 1 && where == 0 {
		return p.cells[pool].total
	}
	n := 0
	for _, g := range p.constraints[where].groups {
		n += p.cells[int(pool)*len(p.groups)+int(g)].total
	}
	return n
}

// places is the number of gangs of a number of GPUs, each on one node, that could
// start in a pool on nodes that satisfy a constraint.
func (p *placer) places(gpus int, pool uint8, where uint16) int {
	n := 0
	for _, g := range p.constraints[where].groups {
		for f, level := range p.cells[int(pool)*len(p.groups)+int(g)].level {
			n += level.n * (f / gpus)
		}
	}
	return n
}

// close stops an open node from taking jobs, or changes the status of a closed one. Its
// free GPUs leave at once, the others as they are given back.
func (p *placer) close(node int, as status) {
	was := p.status[node]
	if p.status[node] = as; was != up {
		return
	}
	f, c := int(p.free[node]), &p.cells[p.cell(node)]
	c.level[f].remove(node - c.first)
	c.total -= f
	p.countOpen(node, -1)
}

// open lets a closed node take jobs.
func (p *placer) open(node int) {
	if p.status[node] == up {
		return
	}
	p.status[node] = up
	i, f := p.cell(node), int(p.free[node])
	c := &p.cells[i]
	c.level[f].add(node - c.first)
	c.total += f
	p.full[i] = 0
	p.countOpen(node, 1)
}

// countOpen adds a node to the open ones (by 1), or removes it (by -1).
func (p *placer) countOpen(node, by int) {
	f := by * int(p.free[node])
	p.idle, p.usable = p.idle+f, p.usable+f
	p.members += by * int(p.pool[node])
	p.groups[p.group(node)].open += by
	p.closed -= by
}

// fragmented is the number of free GPUs on partly used nodes.
func (p *placer) fragmented() int {
	if p.mode == Count {
		return 0
	}
	n := p.idle
	for i := range p.cells {
		if c := &p.cells[i]; c.perNode > 0 {
			n -= c.level[c.perNode].n * c.perNode
		}
	}
	return n
}

// find appends to dst where a gang would go, without taking it. An empty dst
// means that it does not fit.
func (p *placer) find(dst []workload.NodeGPUs, gpus int, pool uint8, relaxed bool, where uint16) []workload.NodeGPUs {
	if len(p.groups) == 1 && where == 0 {
		if d := p.consolidated(dst, gpus, int(pool)); len(d) > len(dst) || !relaxed {
			return d
		}
		return p.cells[pool].emptiest(dst, gpus, len(p.free))
	}
	if p.shaped(gpus, where) {
		x := &p.constraints[where]
		if !slices.ContainsFunc(x.groups, func(g uint16) bool { return p.groups[g].nodes >= int(x.nodes) }) {
			return p.shapedAcross(dst, pool, where)
		}
		return p.findAmong(dst, gpus, pool, where, func(dst []workload.NodeGPUs, _, i int) []workload.NodeGPUs {
			return p.shapedIn(dst, i, where, int(x.nodes))
		})
	}
	if p.constraints[where].need != (need{}) {
		return p.findRationed(dst, gpus, pool, relaxed, where)
	}
	d := p.findAmong(dst, gpus, pool, where, p.consolidated)
	if len(d) == len(dst) && relaxed {
		d = p.findAmong(dst, gpus, pool, where, func(dst []workload.NodeGPUs, gpus, i int) []workload.NodeGPUs {
			return p.cells[i].emptiest(dst, gpus, len(p.free))
		})
	}
	return d
}

// shaped reports whether a gang of a number of GPUs runs on the node count that its constraint asks for: one
// that is granted other GPUs than it asks for does not.
func (p *placer) shaped(gpus int, where uint16) bool {
	x := &p.constraints[where]
	return x.nodes > 0 && gpus == int(x.nodes*x.each)
}

// shapedAcross appends where a gang with a node count that is more than any group has would go: on nodes of the first
// groups that have some.
func (p *placer) shapedAcross(dst []workload.NodeGPUs, pool uint8, where uint16) []workload.NodeGPUs {
	start, nodes := len(dst), int(p.constraints[where].nodes)
	for _, g := range p.constraints[where].groups {
		for left := nodes - (len(dst) - start); left > 0; left-- {
			before := len(dst)
			if dst = p.shapedIn(dst, int(pool)*len(p.groups)+int(g), where, left); len(dst) > before {
				break
			}
		}
	}
	if len(dst)-start < nodes {
		return dst[:start]
	}
	return dst
}

// shapedIn appends where a number of nodes of a gang with a node count would go in a cell: on the nodes with the fewest
// GPUs that are enough, by first fit on the first ones.
func (p *placer) shapedIn(dst []workload.NodeGPUs, i int, where uint16, nodes int) []workload.NodeGPUs {
	c, x := &p.cells[i], &p.constraints[where]
	each, start := int(x.each), len(dst)
	for f := each; f <= c.perNode; f++ {
		for n := c.level[f].next(0); n >= 0; n = c.level[f].next(n + 1) {
			if !p.rationed() || p.room(c.first+n, x.need) >= each {
				dst = c.one(dst, n, each)
			}
			if p.mode != FirstFit && len(dst)-start == nodes {
				return dst
			}
		}
	}
	if len(dst)-start < nodes {
		return dst[:start]
	}
	slices.SortFunc(dst[start:], func(a, b workload.NodeGPUs) int { return a.Node - b.Node })
	return dst[:start+nodes]
}

// findAmong appends the best of the places that a way to find them finds in the
// groups that satisfy a constraint.
func (p *placer) findAmong(dst []workload.NodeGPUs, gpus int, pool uint8, where uint16,
	in func(dst []workload.NodeGPUs, gpus, cell int) []workload.NodeGPUs) []workload.NodeGPUs {
	start, nodes, left := len(dst), 0, 0
	for _, g := range p.constraints[where].groups {
		from := len(dst)
		dst = in(dst, gpus, int(pool)*len(p.groups)+int(g))
		n := len(dst) - from
		if n == 0 {
			continue
		}
		rest := int(p.free[dst[from].Node]) - dst[from].GPUs
		if nodes == 0 || n < nodes || n == nodes && n == 1 && rest < left {
			nodes, left = n, rest
			dst = append(dst[:start], dst[from:]...)
		} else {
			dst = dst[:from]
		}
		if p.mode == FirstFit {
			break
		}
	}
	return dst
}

// consolidated appends where a gang would go in a cell on as few nodes as it needs.
func (p *placer) consolidated(dst []workload.NodeGPUs, gpus, i int) []workload.NodeGPUs {
	c := &p.cells[i]
	if gpus > c.total || gpus <= 63 && p.full[i]&(1<<gpus) != 0 {
		return dst
	}
	d := dst
	switch {
	case gpus > c.perNode:
		d = c.consolidate(dst, gpus, p.mode)
	case p.mode == FirstFit:
		d = c.one(dst, c.firstFit(gpus, 0), gpus)
	default:
		d = c.one(dst, c.bestFit(gpus), gpus)
	}
	if len(d) == len(dst) && gpus <= 63 {
		p.full[i] |= 1 << gpus
	}
	return d
}

// one appends a place on one node of the cell, unless that is negative.
func (c *cell) one(dst []workload.NodeGPUs, node, gpus int) []workload.NodeGPUs {
	if node < 0 {
		return dst
	}
	return append(dst, workload.NodeGPUs{Node: c.first + node, GPUs: gpus})
}

// bestFit is the node with the fewest free GPUs that has at least gpus, lowest
// index first, or -1.
func (c *cell) bestFit(gpus int) int {
	for f := gpus; f <= c.perNode; f++ {
		if c.level[f].n > 0 {
			return c.level[f].next(0)
		}
	}
	return -1
}

// firstFit is the lowest node with at least gpus free from node from on, or -1.
func (c *cell) firstFit(gpus, from int) int {
	first := -1
	for f := gpus; f <= c.perNode; f++ {
		if n := c.level[f].next(from); n >= 0 && (first < 0 || n < first) {
			first = n
		}
	}
	return first
}

// consolidate places a gang larger than a node on as few nodes as its size needs.
func (c *cell) consolidate(dst []workload.NodeGPUs, gpus int, mode Placement) []workload.NodeGPUs {
	switch {
	case mode == FirstFit:
		return c.wholeFirst(dst, gpus)
	case mode == ConsolidateWhole && c.level[c.perNode].n < gpus/c.perNode:
		return dst
	}
	return c.emptiest(dst, gpus, (gpus+c.perNode-1)/c.perNode)
}

// wholeFirst takes the first empty nodes for as many full nodes as a gang
// larger than one has, and the first other node that holds the rest.
func (c *cell) wholeFirst(dst []workload.NodeGPUs, gpus int) []workload.NodeGPUs {
	start := len(dst)
	empty := &c.level[c.perNode]
	for n := -1; gpus >= c.perNode; gpus -= c.perNode {
		if n = empty.next(n + 1); n < 0 {
			return dst[:start]
		}
		dst = c.one(dst, n, c.perNode)
	}
	if gpus == 0 {
		return dst
	}
	taken := dst[start:]
	n := c.firstFit(gpus, 0)
	for n >= 0 && slices.ContainsFunc(taken, func(t workload.NodeGPUs) bool { return t.Node == c.first+n }) {
		n = c.firstFit(gpus, n+1)
	}
	if n < 0 {
		return dst[:start]
	}
	return c.one(dst, n, gpus)
}

// emptiest fills nodes in order of most free GPUs, then index, and gives up if
// more than limit are needed.
func (c *cell) emptiest(dst []workload.NodeGPUs, gpus, limit int) []workload.NodeGPUs {
	if gpus > c.total {
		return dst
	}
	start := len(dst)
	for f := c.perNode; f > 0; f-- {
		for n := c.level[f].next(0); n >= 0; n = c.level[f].next(n + 1) {
			if len(dst)-start == limit {
				return dst[:start]
			}
			k := min(f, gpus)
			dst = c.one(dst, n, k)
			if gpus -= k; gpus == 0 {
				return dst
			}
		}
	}
	return dst[:start]
}
