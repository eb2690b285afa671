package capacity

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

const day = 24 * time.Hour

const (
	// manyJobs is how many jobs a node must have run before the most GPUs that they held
	// say how many it has.
	manyJobs = 20
	// leastDays is how long a node must have been in use before its idle days count, and
	// byChance the chance below which they are not taken for chance.
	leastDays = 7
	byChance  = 0.001
	// waited is the queueing delay from which on a job shows that its pool was full.
	waited = 10 * time.Minute
)

// node is the evidence of jobs about a node.
type node struct {
	name       string
	partition  int // index in lists.partitions, -1 if no job named one
	model      string
	models     int               // different ones
	share      workload.MilliGPU // the most that one job had
	held, peak workload.MilliGPU // by all jobs, now and at most
	jobs       int
	used       days
}

// days is a set of days since the history's first.
type days []uint64

func (d *days) add(first, last int) {
	for k := first; k <= last; k++ {
		for len(*d) <= k/64 {
			*d = append(*d, 0)
		}
		(*d)[k/64] |= 1 << (k % 64)
	}
}

func (d days) has(k int) bool { return k/64 < len(d) && d[k/64]>>(k%64)&1 == 1 }

// span is the first and the last day, and how many there are.
func (d days) span() (first, last, n int) {
	first = -1
	for i, w := range d {
		if w == 0 {
			continue
		}
		if first < 0 {
			first = 64*i + bits.TrailingZeros64(w)
		}
		last = 64*i + 63 - bits.LeadingZeros64(w)
		n += bits.OnesCount64(w)
	}
	return first, last, n
}

// lists is the evidence of a history's node lists.
type lists struct {
	w          *workload.Workload
	jobs       int // with a list
	nodes      []node
	byName     map[string]int
	byList     map[string][]int // nodes by host list
	partitions []string
	partition  map[string]int
	pool       []int  // by partition: one that shares nodes with it, or itself
	full       []days // by partition: when its jobs waited
	begin      time.Duration
}

// readLists reads the node lists of a history.
func readLists(w *workload.Workload) *lists {
	l := &lists{w: w, byName: map[string]int{}, byList: map[string][]int{}, partition: map[string]int{}}
	first, _ := w.Span()
	l.begin = w.Clock(first).Truncate(day).Sub(w.Zero())
	for i := range w.Jobs() {
		l.read(&w.Jobs()[i])
	}
	if l.jobs == 0 {
		return l
	}
	sweep(w.Jobs(), func(j *workload.Job, starts bool) {
		nodes := l.byList[j.Nodes]
		for _, k := range nodes {
			n := &l.nodes[k]
			if share := j.GPUs / workload.MilliGPU(len(nodes)); starts {
				n.held += share
				n.peak = max(n.peak, n.held)
			} else {
				n.held -= share
			}
		}
	})
	return l
}

// day is the number of a day of the history, which begins at midnight.
func (l *lists) day(at time.Duration) int { return max(0, int((at-l.begin)/day)) }

func (l *lists) read(j *workload.Job) {
	r := j.Request()
	p := l.indexOf(r.Partition)
	if j.HasWait && j.Wait >= waited {
		l.full[p].add(l.day(j.Submit), l.day(j.Submit+j.Wait))
	}
	nodes := l.list(j.Nodes)
	if len(nodes) == 0 {
		return
	}
	l.jobs++
	for _, k := range nodes {
		n := &l.nodes[k]
		n.jobs++
		n.share = max(n.share, j.GPUs/workload.MilliGPU(len(nodes)))
		if j.HasWait {
			n.used.add(l.day(j.Submit+j.Wait), l.day(j.Submit+j.Wait+j.Duration))
		}
		if r.GPUModel != "" && r.GPUModel != n.model {
			n.model = r.GPUModel
			n.models++
		}
		switch {
		case r.Partition == "":
		case n.partition < 0:
			n.partition = p
		default:
			l.pool[l.root(n.partition)] = l.root(p)
		}
	}
}

// indexOf is the index of a partition. Jobs that name none have one in common.
func (l *lists) indexOf(name string) int {
	k, ok := l.partition[name]
	if !ok {
		k = len(l.partitions)
		l.partition[name] = k
		l.partitions, l.pool, l.full = append(l.partitions, name), append(l.pool, k), append(l.full, nil)
	}
	return k
}

// root is the partition that stands for all that share nodes with it.
func (l *lists) root(p int) int {
	for p >= 0 && l.pool[p] != p {
		p = l.pool[p]
	}
	return p
}

// list is the nodes of a host list; none for one that cannot be read.
func (l *lists) list(text string) []int {
	nodes, ok := l.byList[text]
	if ok || text == "" {
		return nodes
	}
	names, err := slurmtext.HostList(text)
	if err != nil {
		names = nil
	}
	for _, name := range names {
		k, ok := l.byName[name]
		if !ok {
			k = len(l.nodes)
			l.byName[name] = k
			l.nodes = append(l.nodes, node{name: name, partition: -1})
		}
		nodes = append(nodes, k)
	}
	slices.Sort(nodes) // a list may name a node twice
	nodes = slices.Compact(nodes)
	l.byList[text] = nodes
	return nodes
}

// infer makes a cluster of the nodes. Nodes are equal if they are in one pool (partitions
// that share nodes), have as many GPUs (sizes) and the same model. Where jobs would not
// fit on nodes of one kind, on which they ran, pools are not told apart by size and model.
func (l *lists) infer(perNode int) Inferred {
	i := l.group(perNode, true)
	for k := range l.w.Jobs() {
		if j := &l.w.Jobs()[k]; j.Nodes != "" && !i.Cluster.Fits(j) {
			i = l.group(perNode, false)
			break
		}
	}
	i.Source, i.Jobs = NodeLists, l.jobs
	i.Changes = l.changes(i.Nodes)
	i.Unfilled = perNode == 0 && !slices.ContainsFunc(l.full, func(d days) bool { return len(d) > 0 })
	return i
}

type kind struct {
	pool  int
	model string
	gpus  int
}

// group makes groups of equal nodes; apart says whether nodes of a pool may differ.
func (l *lists) group(perNode int, apart bool) Inferred {
	kinds := make([]kind, len(l.nodes))
	pools := map[int][]int{}
	for k := range l.nodes {
		kinds[k].pool = l.root(l.nodes[k].partition)
		pools[kinds[k].pool] = append(pools[kinds[k].pool], k)
	}
	for _, nodes := range pools {
		l.sizes(nodes, kinds, perNode, apart)
		l.models(nodes, kinds, apart)
	}
	order := make([]int, len(l.nodes))
	for k := range order {
		order[k] = k
	}
	title := map[int]string{}
	for pool := range pools {
		title[pool] = l.title(pool)
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y, m, n := kinds[a], kinds[b], l.nodes[a].name, l.nodes[b].name
		return cmp.Or(strings.Compare(title[x.pool], title[y.pool]), -cmp.Compare(x.gpus, y.gpus),
			strings.Compare(x.model, y.model), cmp.Compare(len(m), len(n)), strings.Compare(m, n))
	})
	var i Inferred
	for at, k := range order {
		if at == 0 || kinds[k] != kinds[order[at-1]] {
			g := workload.NodeGroup{GPUsPerNode: kinds[k].gpus, GPUModel: kinds[k].model}
			if len(pools) > 1 {
				g.Partition = title[kinds[k].pool]
			}
			i.Cluster.Groups = append(i.Cluster.Groups, g)
		}
		i.Cluster.Groups[len(i.Cluster.Groups)-1].Nodes++
		i.Nodes = append(i.Nodes, l.nodes[k].name)
	}
	l.forget(&i.Cluster)
	return i
}

// title lists the partitions of a pool.
func (l *lists) title(pool int) string {
	var names []string
	for p := range l.partitions {
		if l.root(p) == pool && l.partitions[p] != "" {
			names = append(names, l.partitions[p])
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// forget leaves out partitions and models if jobs ask for one that no known node has.
func (l *lists) forget(c *workload.Cluster) {
	has := func(model, partition string) bool {
		return slices.ContainsFunc(c.Groups, func(g workload.NodeGroup) bool { return g.Satisfies(model, partition) })
	}
	partition, model, seen := false, false, map[string]bool{}
	for _, name := range l.partitions {
		partition = partition || !has("", name)
	}
	for i := range l.w.Jobs() {
		if name := l.w.Jobs()[i].Request().GPUModel; !seen[name] {
			seen[name] = true
			model = model || !has(name, "")
		}
	}
	for k := range c.Groups {
		if g := &c.Groups[k]; partition {
			g.Partition = ""
		}
		if g := &c.Groups[k]; model {
			g.GPUModel = ""
		}
	}
}

// sizes sets how many GPUs the nodes of a pool have: as many as one job had on a node, or
// as jobs held together on the median node, if that is more. A node that ran many jobs,
// which never held more than half of that, has as many as they held.
func (l *lists) sizes(pool []int, kinds []kind, perNode int, apart bool) {
	size, peaks := max(1, perNode), []int{}
	for _, k := range pool {
		n := &l.nodes[k]
		if perNode == 0 {
			size = max(size, n.share.Whole())
		}
		peaks = append(peaks, n.peak.Cover())
	}
	slices.Sort(peaks)
	if perNode == 0 {
		size = max(size, peaks[len(peaks)/2])
	}
	for _, k := range pool {
		n := &l.nodes[k]
		kinds[k].gpus = size
		most := max(n.share, n.peak).Cover()
		if apart && perNode == 0 && n.jobs >= manyJobs && 2*most <= size {
			kinds[k].gpus = max(1, most)
		}
	}
}

// models sets the GPU models of a pool: that of its nodes on which jobs named one, if
// they agree, else that of each such node.
func (l *lists) models(pool []int, kinds []kind, apart bool) {
	common, agree := "", true
	for _, k := range pool {
		n := &l.nodes[k]
		if n.models == 0 {
			continue
		}
		agree = agree && n.models == 1 && (common == "" || common == n.model)
		common = n.model
	}
	for _, k := range pool {
		switch n := &l.nodes[k]; {
		case agree:
			kinds[k].model = common
		case apart && n.models == 1:
			kinds[k].model = n.model
		}
	}
}

// changes are the nodes that come and go. A node that runs no job is idle or absent, and
// only jobs that wait tell the two apart: while they do, a node is idle rarely. It is
// absent before its first day in use, or after its last, if that many days on which
// jobs of its pool waited would be idle by chance at odds below byChance. The chance of an
// idle day is that between the first day and the last, at least leastDays apart; days idle
// among them are no absence. A node comes at the begin of its first day, and takes no jobs
// from the end of its last day on.
func (l *lists) changes(names []string) []workload.NodeEvent {
	last := 0
	for k := range l.nodes {
		_, n, _ := l.nodes[k].used.span()
		last = max(last, n)
	}
	var out []workload.NodeEvent
	for number, name := range names {
		n := &l.nodes[l.byName[name]]
		from, to, used := n.used.span()
		if n := to - from + 1; from < 0 || n < leastDays {
			continue
		}
		idle := float64(to-from+1-used+1) / float64(to-from+1+2) // the rule of succession
		absent := func(from, to int) bool {
			full := 0
			for d := from; d <= to; d++ {
				if l.waited(n.partition, d) {
					full++
				}
			}
			return math.Pow(idle, float64(full)) < byChance
		}
		at := func(d int) time.Duration { return l.begin + time.Duration(d)*day }
		if absent(0, from-1) {
			out = append(out, workload.NodeEvent{At: -workload.MaxSubmit, Node: number, Kind: workload.NodeDown},
				workload.NodeEvent{At: at(from), Node: number, Kind: workload.NodeUp})
		}
		if absent(to+1, last) {
			out = append(out, workload.NodeEvent{At: at(to + 1), Node: number, Kind: workload.NodeDrained})
		}
	}
	slices.SortStableFunc(out, func(a, b workload.NodeEvent) int { return cmp.Compare(a.At, b.At) })
	return out
}

// waited reports whether jobs of a partition's pool waited on a day.
func (l *lists) waited(partition, day int) bool {
	for p := range l.partitions {
		if (partition < 0 || l.root(p) == l.root(partition)) && l.full[p].has(day) {
			return true
		}
	}
	return false
}

// overlap is by how much a job may seem to end after the next one on its GPUs starts, for a
// tenth of its run time at most: traces round times, and clocks of nodes differ.
const overlap = time.Minute

// sweep visits the recorded starts of jobs and their ends, less overlap, in order of time; at
// one instant, ends come first.
func sweep(jobs []workload.Job, visit func(j *workload.Job, starts bool)) {
	start := func(i int32) time.Duration { return jobs[i].Submit + jobs[i].Wait }
	end := func(i int32) time.Duration {
		return start(i) + jobs[i].Duration - min(overlap, jobs[i].Duration/10)
	}
	var starts, ends []int32
	for i := range jobs {
		if jobs[i].HasWait {
			starts = append(starts, int32(i))
		}
	}
	ends = slices.Clone(starts)
	slices.SortStableFunc(starts, func(a, b int32) int { return cmp.Compare(start(a), start(b)) })
	slices.SortStableFunc(ends, func(a, b int32) int { return cmp.Compare(end(a), end(b)) })
	for len(starts) > 0 {
		if end(ends[0]) <= start(starts[0]) {
			visit(&jobs[ends[0]], false)
			ends = ends[1:]
			continue
		}
		visit(&jobs[starts[0]], true)
		starts = starts[1:]
	}
}
