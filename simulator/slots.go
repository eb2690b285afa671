package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// Queries of policies that choose nodes themselves (Plan.StartAt).

// JobRequest returns the job's request besides GPUs.
func (v *View) JobRequest(id ID) workload.Request { return v.spec(id).Request() }

// JobUser is the user who submitted the job, empty if that is not known.
func (v *View) JobUser(id ID) string { return v.spec(id).User }

// JobLimitAt is the instant at which a running job reaches its time limit; ok is false if it has none.
func (v *View) JobLimitAt(id ID) (at time.Duration, ok bool) {
	j := &v.jobs[id]
	if j.limit == never || j.phase != running {
		return 0, false
	}
	return j.limit - v.overtime, true
}

// JobTimedOut reports whether the job ended at its time limit.
func (v *View) JobTimedOut(id ID) bool { return v.jobs[id].phase == done && v.jobs[id].cut == atLimit }

// JobCancelled reports whether the policy ended the job (Plan.Cancel).
func (v *View) JobCancelled(id ID) bool { return v.jobs[id].cut == cancelled }

// JobEligible is the instant from which a waiting job may start: its submission, or the end of its hold-off
// after a preemption.
func (v *View) JobEligible(id ID) time.Duration { return v.jobs[id].ready }

// HasNodes reports whether jobs are placed on nodes. Where GPUs are only counted, a policy starts jobs
// with Plan.Start.
func (v *View) HasNodes() bool { return v.place.mode != Count }

// NodeFree is the number of GPUs free on a node, 0 of one that takes no jobs.
func (v *View) NodeFree(node int) int {
	if v.place.status[node] != up {
		return 0
	}
	return int(v.place.free[node])
}

// NodeTotal is the number of nodes, including nodes that take no jobs.
func (v *View) NodeTotal() int { return len(v.place.free) }

// NodeOpen reports whether a node takes jobs.
func (v *View) NodeOpen(node int) bool { return v.place.status[node] == up }

// NodeGroup is the index of a node's group. The nodes of a group are consecutive.
func (v *View) NodeGroup(node int) int { return v.place.group(node) }

// NodeHolds is the number of GPUs of a node that the job could hold if nothing else ran there, 0 where it may
// not run.
func (v *View) NodeHolds(node int, id ID) int {
	where, group := v.where(&v.jobs[id]), v.place.group(node)
	if !v.place.grouped(group, where) {
		return 0
	}
	return v.place.sizes(where, group)
}

// FreeNodes is a bitmap, in the memory of dst, of the nodes that have a number of GPUs free for a job, with the
// CPUs and memory that go with them: node n is bit n%64 of word n/64.
func (v *View) FreeNodes(dst []uint64, id ID, gpus int) []uint64 {
	p, j := &v.place, &v.jobs[id]
	dst = resized(dst, (len(p.free)+63)/64)
	clear(dst)
	x := &p.constraints[v.where(j)]
	for _, g := range x.groups {
		if p.groups[g].holds(x.need) < gpus {
			continue
		}
		c := &p.cells[int(j.pool)*len(p.groups)+int(g)]
		for f := gpus; f <= c.perNode; f++ {
			for w, word := range c.level[f].words {
				setBits(dst, c.first+64*w, word)
			}
		}
	}
	if p.rationed() && x.need != (need{}) {
		for n := range p.free {
			if dst[n/64]&(1<<(n%64)) != 0 && p.room(n, x.need) < gpus {
				dst[n/64] &^= 1 << (n % 64)
			}
		}
	}
	return dst
}

// NodeSpare is the CPUs, in thousandths, and the memory in bytes that are free on a node; ok is false where neither
// is counted.
func (v *View) NodeSpare(node int) (milliCPUs, memory int64, ok bool) {
	if !v.place.rationed() {
		return 0, 0, false
	}
	return v.place.cpus[node], v.place.memory[node], true
}

// JobNeed is the part of NodeSpare that each GPU of a job takes on its node.
func (v *View) JobNeed(id ID) (milliCPUs, memory int64) {
	n := v.place.constraints[v.where(&v.jobs[id])].need
	return n.cpus, n.memory
}

// setBits sets the bits of a word from a bit on.
func setBits(dst []uint64, from int, word uint64) {
	if word == 0 {
		return
	}
	dst[from/64] |= word << (from % 64)
	if high := word >> 1 >> (63 - from%64); high != 0 {
		dst[from/64+1] |= high
	}
}
