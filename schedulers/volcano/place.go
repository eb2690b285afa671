package volcano

import (
	"math"
	"slices"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// place finds the seats of a job and takes them: for one pod after another, the node of the highest score.
// allocateResourcesForTasks and prioritizeNodes in pkg/scheduler/actions/allocate/allocate.go.
func (p *policy) place(j simulator.ID) bool {
	x := &p.jobs[j]
	r := request{p.v.JobConstraint(j), x.pods, x.each}
	if x.pods == 0 || slices.Contains(p.failed, r) {
		return false
	}
	if p.eachGroup(x, func(group int) bool {
		return p.seat(j, func(n, gpus int) bool { return p.fits(j, n, gpus) }, func(int, int) {}, group)
	}) {
		return true
	}
	p.failed = append(p.failed, r)
	return false
}

// eachGroup tries groups of nodes until one will do: one at a time if the pods of a job must be together, else all
// groups at once, which is -1.
func (p *policy) eachGroup(x *job, try func(group int) bool) bool {
	if !x.together || x.pods == 1 {
		return try(-1)
	}
	for g := range p.v.Cluster().Groups {
		if try(g) {
			return true
		}
	}
	return false
}

// seat gives each pod of a job the best of the nodes with room, makes the room, and takes the GPUs there; without room
// for all pods it takes none.
func (p *policy) seat(j simulator.ID, room func(node, gpus int) bool, make func(node, gpus int), group int) bool {
	x := &p.jobs[j]
	p.seats = p.seats[:0]
	member := x.gpus / int32(p.v.JobMembers(j))
	left := member
	for range x.pods {
		gpus := int(min(x.each, left))
		if left -= int32(gpus); left == 0 {
			left = member
		}
		n := p.choose(j, gpus, room, group)
		if n < 0 {
			p.unseat(j)
			p.seats = p.seats[:0]
			return false
		}
		make(n, gpus)
		p.take(j, n, gpus)
		if i := slices.IndexFunc(p.seats, func(s workload.NodeGPUs) bool { return s.Node == n }); i >= 0 {
			p.seats[i].GPUs += gpus
		} else {
			p.seats = append(p.seats, workload.NodeGPUs{Node: n, GPUs: gpus})
		}
	}
	return true
}

// take takes GPUs of a node with the CPUs and the memory that go with them, or gives them back.
func (p *policy) take(j simulator.ID, node, gpus int) {
	n := &p.nodes[node]
	cpus, memory := p.v.JobNeed(j)
	n.free -= gpus
	n.cpus.used += float64(cpus) * float64(gpus)
	n.memory.used += float64(memory) * float64(gpus)
}

// unseat gives the seats of a job back.
func (p *policy) unseat(j simulator.ID) {
	for _, s := range p.seats {
		p.take(j, s.Node, -s.GPUs)
	}
}

// choose returns the node of the highest score with room for a pod; -1 if there is none.
func (p *policy) choose(j simulator.ID, gpus int, room func(node, gpus int) bool, group int) int {
	best, score, tie := -1, math.Inf(-1), uint64(0)
	cpus, memory := p.v.JobNeed(j)
	pod := pod{float64(gpus), float64(gpus) * float64(cpus), float64(gpus) * float64(memory)}
	for i := range p.nodes {
		n := &p.nodes[i]
		if group >= 0 && n.group != group || !room(i, gpus) || !p.mayRun(j, i, gpus) {
			continue
		}
		s := 0.
		if !p.stops.reclaims {
			s = p.settings.score(n, pod)
		}
		if t := p.unknowns.tie(p.clock, i); s > score || s == score && t > tie {
			best, score, tie = i, s, t
		}
	}
	return best
}

// fits reports whether a node has room for a pod now.
func (p *policy) fits(j simulator.ID, node, gpus int) bool {
	n := &p.nodes[node]
	cpus, memory := p.v.JobNeed(j)
	return n.free-n.promised >= gpus && n.cpus.allows(float64(cpus)*float64(gpus)) &&
		n.memory.allows(float64(memory)*float64(gpus))
}

// mayRun reports whether a pod may run on a node, were it empty.
func (p *policy) mayRun(j simulator.ID, node, gpus int) bool {
	return !p.v.HasNodes() || p.v.NodeOpen(node) && p.v.NodeHolds(node, j) >= gpus
}

func (s share) allows(more float64) bool { return s.total == 0 || more == 0 || s.used+more <= s.total }

// pod is a pod's requests: CPUs in thousandths, memory in bytes.
type pod struct{ gpus, cpus, memory float64 }

// What counts for a pod that asks for no CPUs or memory. GetNonzeroRequests in
// k8s.io/kubernetes/pkg/scheduler/util/pod_resources.go.
const (
	leastCPUs   = 100
	leastMemory = 200 << 20
)

// score is the score of a node for a pod, the sum of the plugins binpack and nodeorder. Where the CPUs or the memory of
// a node are not known they are in proportion to its GPUs.
func (s *Settings) score(n *node, of pod) float64 {
	gpus := share{float64(n.gpus-n.free) + of.gpus, float64(n.gpus)}.part()
	cpus, memory := gpus, gpus
	if n.cpus.total > 0 {
		cpus = share{n.cpus.used + of.cpus, n.cpus.total}.part()
	}
	if n.memory.total > 0 {
		memory = share{n.memory.used + of.memory, n.memory.total}.part()
	}
	sum := s.packed(gpus, cpus, memory, of)
	if n.cpus.total > 0 && of.cpus == 0 {
		cpus = share{n.cpus.used + leastCPUs, n.cpus.total}.part()
	}
	if n.memory.total > 0 && of.memory == 0 {
		memory = share{n.memory.used + leastMemory, n.memory.total}.part()
	}
	sum += float64(s.MostRequested-s.LeastRequested) * 50 * (cpus + memory)
	return sum - 100*float64(s.BalancedResource)*deviation(gpus, cpus, memory)
}

func (s share) part() float64 { return min(1, s.used/s.total) }

// packed is the score of binpack: the used parts of the resources that the pod asks for, by their weights.
// BinPackingScore in pkg/scheduler/plugins/binpack/binpack.go.
func (s *Settings) packed(gpus, cpus, memory float64, of pod) float64 {
	sum, weights := float64(s.BinpackGPU)*gpus, s.BinpackGPU
	if of.cpus > 0 {
		sum, weights = sum+float64(s.BinpackCPU)*cpus, weights+s.BinpackCPU
	}
	if of.memory > 0 {
		sum, weights = sum+float64(s.BinpackMemory)*memory, weights+s.BinpackMemory
	}
	if weights == 0 {
		return 0
	}
	return 100 * float64(s.BinpackWeight) * sum / float64(weights)
}

// deviation is the standard deviation of three parts. balancedResourceScorer in
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
func deviation(a, b, c float64) float64 {
	mean := (a + b + c) / 3
	return math.Sqrt(((a-mean)*(a-mean) + (b-mean)*(b-mean) + (c-mean)*(c-mean)) / 3)
}
