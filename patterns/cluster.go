package patterns

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// allJobs names the queue and partition of all jobs and nodes.
const allJobs = "all"

// tick is the time between two examinations of the state.
const tick = time.Minute

// config of a State. OnX functions are called as the state changes, and must not be nil.
type config struct {
	cluster workload.Cluster
	nodes   []string      // names, by number
	period  time.Duration // of samples
	late    time.Duration // how late samples may be
	cap     int           // of keys; four times as many jobs, GPUs and workers
	labels  func(*workload.Job) []string

	onFact func(*fact)
	onRow  func(*job, *row)
	// onJobLeft is called before a job that stops gives its GPUs back, onGPULeft before a GPU goes to another job, and
	// onJobEnded before an ended job is forgotten.
	onJobLeft  func(*job, time.Duration)
	onGPULeft  func(*gpu)
	onJobEnded func(*job)
}

// state is the live state of a cluster: its active jobs, nodes, queues and tenants, their recent samples, and
// statistics of the past that they are compared with. It is for one goroutine.
type state struct {
	config
	now     time.Duration // of the last record or tick
	sampled time.Duration // the last sample of a GPU
	seen    seen

	jobs             map[string]*job
	pending, running jobSet
	seq              int // of the last job
	workers          int // of all jobs
	gpuByID          map[telemetry.GPU]*gpu
	gpus             []*gpu // in order of appearance
	nodes            map[string]*node
	unnamed          []*node // nodes of the cluster whose names are not known yet
	idle             float64 // W of a GPU of an unknown model
	poolByName       map[string]*pool
	pools            []*pool // by name
	tenants          map[string]*tenant
	runs             runs
	waits            waits
	series           map[string]*series // by kind of subject
	unjoined         int                // samples of GPUs
	dropped          map[string]int     // records and subjects beyond a cap, by kind
}

// seen has the inputs that have come.
type seen struct {
	gpus, starts, stops, iterations bool
	unplaced                        bool // a job that started on unknown nodes
}

// newState returns the state of a cluster on which nothing runs.
func newState(c config) *state {
	s := &state{config: c, jobs: map[string]*job{}, gpuByID: map[telemetry.GPU]*gpu{}, nodes: map[string]*node{},
		poolByName: map[string]*pool{}, tenants: map[string]*tenant{}, runs: runs{byKey: map[string]*history{}},
		series: newSeries(c.period), dropped: map[string]int{}}
	s.running.which = 1
	s.poolOf(allJobs)
	power := energy.Default()
	s.idle = idlePower(power, "")
	i := 0
	for _, group := range c.cluster.Groups {
		partitions := strings.FieldsFunc(group.Partition, func(r rune) bool { return r == ',' })
		for range group.Nodes {
			n := &node{name: strconv.Itoa(i), unnamed: i >= len(c.nodes), partitions: partitions,
				idle: idlePower(power, group.GPUModel)}
			if n.unnamed {
				s.unnamed = append(s.unnamed, n)
			} else {
				n.name = c.nodes[i]
			}
			s.nodes[n.name] = n
			s.nodeUp(n, group.GPUsPerNode)
			i++
		}
	}
	for _, vc := range c.cluster.VCs {
		s.tenants[vc.Tenant] = &tenant{subject: s.subject("tenant", vc.Tenant), quota: vc.GPUs}
	}
	return s
}

// drop counts a record or subject of a kind that a cap leaves out.
func (s *state) drop(kind string) { s.dropped[kind]++ }

// gpu is a GPU that was sampled or assigned.
type gpu struct {
	subject
	node *node
	idle float64 // W: of its model, or the mean without a job
	// Samples without a job and the sum of their power.
	free      int
	freePower float64
	id        string // of its job as samples name it
	named     bool   // samples or an assignment name job
	used      bool   // in the last sample
}

type node struct {
	name       string
	unnamed    bool // the name is its number in the cluster, until a record has its own
	gpus       int
	held       int
	up         bool
	partitions []string
	idle       float64 // W of a GPU
	jobs       []*job
	units      []*gpu
}

func (n *node) free() int {
	if !n.up {
		return 0
	}
	return max(0, n.gpus-n.held)
}

// pool is a queue or a partition: the jobs that ask for its nodes, and the nodes.
type pool struct {
	subject          // as a queue
	part     subject // as a partition
	nodes    []*node
	pending  map[need]int
	waiting  map[need]*[causes]time.Duration // so far, of all jobs of the kind
	wanted   int                             // GPUs that pending jobs ask for
	held     int
	total    int
	started  int  // GPUs that jobs started on since the last tick
	unplaced int  // running jobs whose nodes are not known
	used     bool // by a job or a sample
	// The last sample of the queue, which replaces the numbers of events for two minutes.
	sample     telemetry.QueueSample
	sampledAt  time.Duration
	sampled    bool // recently
	everSample bool
	flow       flow
	overtakers
	attributed time.Duration // until which waits have their causes
}

// flow is the work in and out of a pool since it was reset.
type flow struct {
	arrived, served float64 // GPU-hours
	guessed         float64 // of arrived
	unknown         bool    // an arrival's work is not known
	waits           []time.Duration
}

// free returns the number of GPUs that no job holds, where it is known.
func (p *pool) free() (int, bool) {
	if p.sampled {
		return p.sample.FreeGPUs, true
	}
	return max(0, p.total-p.held), p.total > 0
}

func (p *pool) capacity() int {
	if p.sampled && p.sample.TotalGPUs > 0 {
		return p.sample.TotalGPUs
	}
	return p.total
}

func (p *pool) pendingGPUs() int {
	if p.sampled {
		return p.sample.PendingGPUs
	}
	return p.wanted
}

// tenant is a tenant with its quota.
type tenant struct {
	subject
	quota, held, pending int
}

// poolOf returns the pool of a name, and makes it.
func (s *state) poolOf(name string) *pool {
	p := s.poolByName[name]
	if p == nil {
		p = &pool{subject: s.subject("queue", name), part: s.subject("partition", name), pending: map[need]int{},
			waiting: map[need]*[causes]time.Duration{}}
		s.poolByName[name] = p
		i, _ := slices.BinarySearchFunc(s.pools, name, func(p *pool, name string) int {
			return cmp.Compare(p.name, name)
		})
		s.pools = slices.Insert(s.pools, i, p)
	}
	return p
}

// poolsOf yields the pools that a job counts in: its queue's, and that of all.
func (s *state) poolsOf(j *job) iter.Seq[*pool] {
	return func(yield func(*pool) bool) {
		if yield(s.poolOf(allJobs)) && j.queue != "" && j.queue != allJobs {
			yield(s.poolOf(j.queue))
		}
	}
}

// split reports whether jobs are in queues of known size: a fault of one of them is not reported again of all.
func (s *state) split() bool {
	for _, p := range s.pools {
		if p.name != allJobs && p.used && p.capacity() > 0 {
			return true
		}
	}
	return false
}

// share reports whether jobs of two queues may ask for the same nodes. A queue without nodes of its own has all nodes
// of the cluster.
func (s *state) share(a, b string) bool {
	for _, name := range []string{a, b} {
		if p := s.poolByName[name]; name == allJobs || p == nil || len(p.nodes) == 0 {
			return true
		}
	}
	with := func(n *node) bool { return slices.Contains(n.partitions, b) }
	return a == b || slices.ContainsFunc(s.poolByName[a].nodes, with)
}

// nodePools yields the pools that a node is in.
func (s *state) nodePools(n *node) iter.Seq[*pool] {
	return func(yield func(*pool) bool) {
		for _, name := range append([]string{allJobs}, n.partitions...) {
			if !yield(s.poolOf(name)) {
				return
			}
		}
	}
}

func (s *state) nodeUp(n *node, gpus int) {
	s.nodeDown(n)
	n.up, n.gpus = true, gpus
	for p := range s.nodePools(n) {
		if !slices.Contains(p.nodes, n) {
			p.nodes = append(p.nodes, n)
		}
		p.total += gpus
	}
}

func (s *state) nodeDown(n *node) {
	if !n.up {
		return
	}
	n.up = false
	for p := range s.nodePools(n) {
		p.total -= n.gpus
	}
}

// nodeOf returns the node of a name, and makes it. Its size is gpus, 0 if that is not known. A new name is given to an
// unnamed node of the cluster, if one has that size, or all have one size.
func (s *state) nodeOf(name string, gpus int) *node {
	n := s.nodes[name]
	switch {
	case n == nil:
		first := slices.IndexFunc(s.unnamed, func(n *node) bool { return gpus == 0 || n.gpus == gpus })
		other := func(n *node) bool { return gpus == 0 && n.gpus != s.unnamed[first].gpus }
		if first < 0 || slices.ContainsFunc(s.unnamed, other) {
			n = &node{idle: s.idle}
		} else {
			n = s.unnamed[first]
			delete(s.nodes, n.name)
		}
		n.name, s.nodes[name] = name, n
		fallthrough
	case n.unnamed: // named by its number
		n.unnamed = false
		s.unnamed = slices.DeleteFunc(s.unnamed, func(x *node) bool { return x == n })
	}
	return n
}

// idlePower returns the power of a GPU model without a context, in W.
func idlePower(power *energy.Assumptions, model string) float64 {
	name := strings.ToLower(model)
	best := ""
	for _, key := range slices.Sorted(maps.Keys(power.GPUs)) {
		if strings.Contains(name, key) && len(key) > len(best) {
			best = key
		}
	}
	return power.GPUs[cmp.Or(best, power.GPU)].Idle
}

// gpuOf returns the state of a GPU, and makes it.
func (s *state) gpuOf(id telemetry.GPU) *gpu {
	g := s.gpuByID[id]
	if g == nil {
		if len(s.gpuByID) >= 4*s.cap {
			s.drop("GPUs")
			return nil
		}
		name := id.Node + ":" + strconv.Itoa(id.Index)
		if id.Instance >= 0 {
			name += "." + strconv.Itoa(id.Instance)
		}
		n := s.nodeOf(id.Node, 0)
		g = &gpu{subject: s.subject("gpu", name), node: n, idle: n.idle}
		s.gpuByID[id] = g
		s.gpus = append(s.gpus, g)
		n.units = append(n.units, g)
		if j := soleJob(n); j != nil {
			s.join(g, j)
		}
	}
	return g
}

// soleJob returns the job that holds all of a node's GPUs, nil if there is none.
func soleJob(n *node) *job {
	if len(n.jobs) != 1 || n.gpus == 0 || n.held < n.gpus {
		return nil
	}
	return n.jobs[0]
}

// join assigns the coming samples of a GPU to a job, nil for none.
func (s *state) join(g *gpu, j *job) {
	if g.job == j {
		return
	}
	s.onGPULeft(g)
	g.clear()
	g.job, g.id, g.used, g.named = j, "", false, g.named && j != nil
	if j != nil {
		g.id = j.name
		if !slices.Contains(j.units, g) {
			j.units = append(j.units, g)
		}
		if j.inferred && len(j.units) > j.gpus {
			more := len(j.units) - j.gpus
			for p := range s.poolsOf(j) {
				p.held += more
			}
			j.gpus, j.share = j.gpus+more, j.share+float64(more)
		}
	}
}

// rejoin joins a node's GPUs to a job that holds the whole node.
func (s *state) rejoin(n *node) {
	for _, g := range n.units {
		if !g.named {
			s.join(g, soleJob(n))
		}
	}
}

// queueSample takes in a sample of a queue.
func (s *state) queueSample(q *telemetry.QueueSample, at time.Duration) {
	p := s.poolOf(cmp.Or(q.Queue, allJobs))
	p.sample, p.sampledAt, p.sampled, p.used, p.everSample = *q, at, true, true, true
}
