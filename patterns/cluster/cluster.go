// Package cluster is the live state of a cluster, derived from its events and samples: active jobs, nodes, queues,
// tenants, their recent series, and statistics of the past. Package patterns matches rules over it.
package cluster

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

// AllJobs names the queue and partition of all jobs and nodes.
const AllJobs = "all"

// Tick is the time between two examinations of the state.
const Tick = time.Minute

// Config of a State. OnX functions are called as the state changes, and must not be nil.
type Config struct {
	Cluster workload.Cluster
	Nodes   []string      // names, by number
	Period  time.Duration // of samples
	Late    time.Duration // how late samples may be
	Cap     int           // of keys; four times as many jobs, GPUs and workers
	Labels  func(*workload.Job) []string

	OnFact func(*Fact)
	OnRow  func(*Job, *Row)
	// OnJobLeft is called before a job that stops gives its GPUs back, OnGPULeft before a GPU goes to another job, and
	// OnJobEnded before an ended job is forgotten.
	OnJobLeft  func(*Job, time.Duration)
	OnGPULeft  func(*GPU)
	OnJobEnded func(*Job)
}

// State is the live state of a cluster: its active jobs, nodes, queues and tenants, their recent samples, and
// statistics of the past that they are compared with. It is for one goroutine.
type State struct {
	Config
	Now     time.Duration // of the last record or tick
	Sampled time.Duration // the last sample of a GPU
	Seen    Seen

	Jobs             map[string]*Job
	Pending, Running JobSet
	seq              int // of the last job
	workers          int // of all jobs
	gpuByID          map[telemetry.GPU]*GPU
	GPUs             []*GPU // in order of appearance
	nodes            map[string]*node
	unnamed          []*node // nodes of the cluster whose names are not known yet
	idle             float64 // W of a GPU of an unknown model
	poolByName       map[string]*Pool
	Pools            []*Pool // by name
	Tenants          map[string]*Tenant
	Runs             Runs
	Waits            Waits
	Series           map[string]*Series // by kind of subject
	Joins            telemetry.JoinCounts
	Dropped          map[string]int // records and subjects beyond a cap, by kind
}

// Seen has the inputs that have come.
type Seen struct {
	GPUs, Starts, Stops, Iterations bool
	Unplaced                        bool // a job that started on unknown nodes
}

// New returns the state of a cluster on which nothing runs.
func New(c Config) *State {
	s := &State{Config: c, Jobs: map[string]*Job{}, gpuByID: map[telemetry.GPU]*GPU{}, nodes: map[string]*node{},
		poolByName: map[string]*Pool{}, Tenants: map[string]*Tenant{}, Runs: Runs{byKey: map[string]*history{}},
		Series: NewSeries(c.Period), Dropped: map[string]int{}}
	s.Running.which = 1
	s.PoolOf(AllJobs)
	power := energy.Default()
	s.idle = idlePower(power, "")
	i := 0
	for _, group := range c.Cluster.Groups {
		partitions := strings.FieldsFunc(group.Partition, func(r rune) bool { return r == ',' })
		for range group.Nodes {
			n := &node{name: strconv.Itoa(i), unnamed: i >= len(c.Nodes), partitions: partitions,
				idle: idlePower(power, group.GPUModel)}
			if n.unnamed {
				s.unnamed = append(s.unnamed, n)
			} else {
				n.name = c.Nodes[i]
			}
			s.nodes[n.name] = n
			s.nodeUp(n, group.GPUsPerNode)
			i++
		}
	}
	for _, vc := range c.Cluster.VCs {
		s.Tenants[vc.Tenant] = &Tenant{Subject: s.subject("tenant", vc.Tenant), Quota: vc.GPUs}
	}
	return s
}

// Drop counts a record or subject of a kind that a cap leaves out.
func (s *State) Drop(kind string) { s.Dropped[kind]++ }

// GPU is a GPU that was sampled or assigned.
type GPU struct {
	Subject
	node *node
	idle float64 // W: of its model, or the mean without a job
	// Samples without a job and the sum of their power.
	free      int
	freePower float64
	id        string // of its job as samples name it
	named     bool   // samples or an assignment name job
	used      bool   // in the last sample
	started   int    // samples of use while its job starts up, which go on
}

type node struct {
	name       string
	unnamed    bool // the name is its number in the cluster, until a record has its own
	gpus       int
	held       int
	up         bool
	partitions []string
	idle       float64 // W of a GPU
	jobs       []*Job
	units      []*GPU
}

func (n *node) free() int {
	if !n.up {
		return 0
	}
	return max(0, n.gpus-n.held)
}

// Pool is a queue or a partition: the jobs that ask for its nodes, and the nodes.
type Pool struct {
	Subject          // as a queue
	Part     Subject // as a partition
	nodes    []*node
	Pending  map[need]int
	waiting  map[need]*[Causes]time.Duration // so far, of all jobs of the kind
	wanted   int                             // GPUs that pending jobs ask for
	held     int
	Total    int
	started  int  // GPUs that jobs started on since the last tick
	Unplaced int  // running jobs whose nodes are not known
	Used     bool // by a job or a sample
	// The last sample of the queue, which replaces the numbers of events for two minutes.
	sample     telemetry.QueueSample
	sampledAt  time.Duration
	sampled    bool // recently
	EverSample bool
	Flow       Flow
	overtakers
	attributed time.Duration // until which waits have their causes
}

// Flow is the work in and out of a pool since it was reset.
type Flow struct {
	Arrived, Served float64 // GPU-hours
	Guessed         float64 // of arrived
	Unknown         bool    // an arrival's work is not known
	Waits           []time.Duration
}

// Free returns the number of GPUs that no job holds, where it is known.
func (p *Pool) Free() (int, bool) {
	if p.sampled {
		return p.sample.FreeGPUs, true
	}
	return max(0, p.Total-p.held), p.Total > 0
}

// Capacity returns the number of GPUs, 0 if it is not known.
func (p *Pool) Capacity() int {
	if p.sampled && p.sample.TotalGPUs > 0 {
		return p.sample.TotalGPUs
	}
	return p.Total
}

// PendingGPUs returns the GPUs that pending jobs ask for.
func (p *Pool) PendingGPUs() int {
	if p.sampled {
		return p.sample.PendingGPUs
	}
	return p.wanted
}

// Tenant is a tenant with its quota.
type Tenant struct {
	Subject
	Quota, Held, pending int
}

// PoolOf returns the pool of a name, and makes it.
func (s *State) PoolOf(name string) *Pool {
	p := s.poolByName[name]
	if p == nil {
		p = &Pool{Subject: s.subject("queue", name), Part: s.subject("partition", name), Pending: map[need]int{},
			waiting: map[need]*[Causes]time.Duration{}}
		s.poolByName[name] = p
		i, _ := slices.BinarySearchFunc(s.Pools, name, func(p *Pool, name string) int {
			return cmp.Compare(p.Name, name)
		})
		s.Pools = slices.Insert(s.Pools, i, p)
	}
	return p
}

// poolsOf yields the pools that a job counts in: its queue's, and that of all.
func (s *State) poolsOf(j *Job) iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		if yield(s.PoolOf(AllJobs)) && j.Queue != "" && j.Queue != AllJobs {
			yield(s.PoolOf(j.Queue))
		}
	}
}

// Split reports whether jobs are in queues of known size: a fault of one of them is not reported again of all.
func (s *State) Split() bool {
	return slices.ContainsFunc(s.Pools, func(p *Pool) bool { return p.Name != AllJobs && p.Used && p.Capacity() > 0 })
}

// Share reports whether jobs of two queues may ask for the same nodes. A queue without nodes of its own has all nodes
// of the cluster.
func (s *State) Share(a, b string) bool {
	for _, name := range []string{a, b} {
		if p := s.poolByName[name]; name == AllJobs || p == nil || len(p.nodes) == 0 {
			return true
		}
	}
	with := func(n *node) bool { return slices.Contains(n.partitions, b) }
	return a == b || slices.ContainsFunc(s.poolByName[a].nodes, with)
}

// nodePools yields the pools that a node is in.
func (s *State) nodePools(n *node) iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		for _, name := range append([]string{AllJobs}, n.partitions...) {
			if !yield(s.PoolOf(name)) {
				return
			}
		}
	}
}

func (s *State) nodeUp(n *node, gpus int) {
	s.nodeDown(n)
	n.up, n.gpus = true, gpus
	for p := range s.nodePools(n) {
		if !slices.Contains(p.nodes, n) {
			p.nodes = append(p.nodes, n)
		}
		p.Total += gpus
	}
}

func (s *State) nodeDown(n *node) {
	if !n.up {
		return
	}
	n.up = false
	for p := range s.nodePools(n) {
		p.Total -= n.gpus
	}
}

// nodeOf returns the node of a name, and makes it. Its size is gpus, 0 if that is not known. A new name is given to an
// unnamed node of the cluster, if one has that size, or all have one size.
func (s *State) nodeOf(name string, gpus int) *node {
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
func (s *State) gpuOf(id telemetry.GPU) *GPU {
	g := s.gpuByID[id]
	if g == nil {
		if len(s.gpuByID) >= 4*s.Cap {
			s.Drop("GPUs")
			return nil
		}
		name := id.Node + ":" + strconv.Itoa(id.Index)
		if id.Instance >= 0 {
			name += "." + strconv.Itoa(id.Instance)
		}
		n := s.nodeOf(id.Node, 0)
		g = &GPU{Subject: s.subject("gpu", name), node: n, idle: n.idle}
		s.gpuByID[id] = g
		s.GPUs = append(s.GPUs, g)
		n.units = append(n.units, g)
		if j := soleJob(n); j != nil {
			s.join(g, j)
		}
	}
	return g
}

// soleJob returns the job that holds all of a node's GPUs, nil if there is none.
func soleJob(n *node) *Job {
	if len(n.jobs) != 1 || n.gpus == 0 || n.held < n.gpus {
		return nil
	}
	return n.jobs[0]
}

// join assigns the coming samples of a GPU to a job, nil for none.
func (s *State) join(g *GPU, j *Job) {
	if g.Job == j {
		return
	}
	s.OnGPULeft(g)
	g.clear()
	g.Job, g.id, g.used, g.started, g.named = j, "", false, 0, g.named && j != nil
	if j != nil {
		g.id = j.Name
		if !slices.Contains(j.Units, g) {
			j.Units = append(j.Units, g)
		}
		if j.inferred && len(j.Units) > j.GPUs {
			more := len(j.Units) - j.GPUs
			for p := range s.poolsOf(j) {
				p.held += more
			}
			j.GPUs, j.Share = j.GPUs+more, j.Share+float64(more)
		}
	}
}

// rejoin joins a node's GPUs to a job that holds the whole node.
func (s *State) rejoin(n *node) {
	for _, g := range n.units {
		if !g.named {
			s.join(g, soleJob(n))
		}
	}
}

// QueueSample takes in a sample of a queue.
func (s *State) QueueSample(q *telemetry.QueueSample, at time.Duration) {
	p := s.PoolOf(cmp.Or(q.Queue, AllJobs))
	p.sample, p.sampledAt, p.sampled, p.Used, p.EverSample = *q, at, true, true, true
}
