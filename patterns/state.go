package patterns

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// allJobs is the name of the queue and partition of all jobs and nodes.
const allJobs = "all"

// job is what is known of a job that has not ended.
type job struct {
	entity
	user, tenant, key, queue string
	gpus                     int
	share                    float64 // of GPUs: gpus, or the part of one
	limit                    time.Duration
	submit, start            time.Duration // start: of the present run
	hold                     time.Duration
	seq                      int // in order of submission
	submitted                bool
	running                  bool
	// inferred says that only samples name the job: its start and size are what they show.
	inferred  bool
	first     bool // has started before
	labels    []string
	placement []workload.NodeShare
	place     [2]int // in the sets of pending and running jobs
	units     []*gpu // that samples were joined to
	seen      time.Duration
	progress  time.Duration // the last iteration or message, 0 for none
	waits     [causes]time.Duration
	workers   []int
	last      []progress // of each of them
	rows      []row      // that wait for workers
	lastRow   int
	hasRows   bool
	stability string
	busySum   float64 // over the samples, for the class of its bottleneck
	memorySum float64
	samples   int
	used      int // samples in which the GPU was used
	uses      int // how often a GPU began to be used
	occupied  int // samples with memory
	dips      int
	below     bool
}

// work is the GPU-time that a job asks for: its limit, or what its key usually takes. Without
// either it is guessed: what the jobs that have ended took on average.
func (s *Scanner) work(j *job) (hours float64, guessed, known bool) {
	if j.limit > 0 {
		return j.share * j.limit.Hours(), false, true
	}
	if h := s.keys[j.key]; j.key != "" && h != nil && len(h.runs) > 0 {
		return j.share * quantile(h.runs, .5), false, true
	}
	if s.completed.n > 0 {
		return j.share * s.completed.sum / float64(s.completed.n), true, true
	}
	return 0, true, false
}

// gpu is a GPU that was sampled or assigned.
type gpu struct {
	entity
	node  *node
	index int
	idle  float64 // W: of its model, or the mean without a job
	// Samples without a job and the sum of their power.
	free      int
	freePower float64
	job       *job
	id        string // of job as samples name it
	// named says that job is what samples or an assignment name.
	named bool
	used  bool // in the last sample
}

type node struct {
	name      string
	numbered  bool // the name is its number in the cluster, until a record has its own
	gpus      int
	held      int
	up        bool
	partition []string
	idle      float64 // W of a GPU
	jobs      []*job
	units     []*gpu
}

func (n *node) free() int {
	if !n.up {
		return 0
	}
	return max(0, n.gpus-n.held)
}

// need is a kind of request; jobs of one kind wait for the same reasons.
type need struct {
	tenant string
	gpus   int
}

// pool is a queue or a partition: the jobs that ask for its nodes, and the nodes.
type pool struct {
	entity         // as a queue
	part    entity // as a partition
	nodes   []*node
	pending map[need]int
	waiting map[need]*[causes]time.Duration // so far, of all jobs of the kind
	jobs    int
	wanted  int // GPUs that pending jobs ask for
	held    int
	total   int
	started int // GPUs that jobs started on since the last tick
	// The last sample of the queue, which takes the place of what events say for two minutes.
	// Jobs that started, and the sums of their work from each on, as of an instant.
	overtakers          []overtaker
	overtakenWork       []float64
	overtakenAt         time.Duration
	attributed          time.Duration // until which waits have their causes
	sampled             time.Duration
	sampledPending      int
	sampledFree         int
	sampledTotal        int
	guessed             float64         // of arrivals
	arrivals, served    float64         // GPU-hours since the detector took them
	unknownWork         bool            // of an arrival
	waits               []time.Duration // of the jobs that started since then
	unplaced            int             // running jobs whose nodes are not known
	hasSample, everSeen bool
	everSampled         bool
}

// free is the number of GPUs that no job holds, where it is known.
func (p *pool) free() (int, bool) {
	if p.hasSample {
		return p.sampledFree, true
	}
	if p.total == 0 {
		return 0, false
	}
	return max(0, p.total-p.held), true
}

func (p *pool) capacity() int {
	if p.hasSample && p.sampledTotal > 0 {
		return p.sampledTotal
	}
	return p.total
}

func (p *pool) pendingGPUs() int {
	if p.hasSample {
		return p.sampledPending
	}
	return p.wanted
}

// tenantState is a tenant with its quota.
type tenantState struct {
	entity
	quota, held, pending int
}

// history is how long jobs ran, in hours.
type history struct {
	runs []float64
	next int
}

const maxHistory = 256 // runs of a key

func (h *history) add(hours float64) {
	if len(h.runs) < maxHistory {
		h.runs = append(h.runs, hours)
		return
	}
	h.runs[h.next] = hours
	h.next = (h.next + 1) % maxHistory
}

// waited is a wait that ended.
type waited struct{ at, wait time.Duration }

func widthClass(gpus int) int {
	c := 0
	for n := 1; n < gpus; n *= 2 {
		c++
	}
	return c
}

// setUp makes the nodes, pools and tenants of the cluster.
func (s *Scanner) setUp() {
	s.pools = map[string]*pool{}
	s.poolOf(allJobs)
	i := 0
	for g := range s.o.Cluster.Groups {
		group := &s.o.Cluster.Groups[g]
		for range group.Nodes {
			name := strconv.Itoa(i)
			if i < len(s.o.Nodes) {
				name = s.o.Nodes[i]
			}
			n := &node{name: name, numbered: i >= len(s.o.Nodes), partition: splitNames(group.Partition),
				idle: s.idlePower(group.GPUModel)}
			s.nodes[name] = n
			s.nodeUp(n, group.GPUsPerNode)
			if n.numbered {
				s.numbered = append(s.numbered, n)
			}
			i++
		}
	}
	for _, vc := range s.o.Cluster.VCs {
		s.tenants[vc.Tenant] = &tenantState{entity: entity{kind: "tenant", name: vc.Tenant}, quota: vc.GPUs}
	}
}

func splitNames(text string) (out []string) {
	for len(text) > 0 {
		i := 0
		for i < len(text) && text[i] != ',' {
			i++
		}
		if i > 0 {
			out = append(out, text[:i])
		}
		text = text[min(len(text), i+1):]
	}
	return out
}

// poolOf returns the pool of a name, and makes it.
func (s *Scanner) poolOf(name string) *pool {
	p := s.pools[name]
	if p == nil {
		p = &pool{entity: entity{kind: "queue", name: name}, part: entity{kind: "partition", name: name},
			pending: map[need]int{},
			waiting: map[need]*[causes]time.Duration{}}
		s.pools[name] = p
		s.poolNames = append(s.poolNames, name)
		slices.Sort(s.poolNames)
	}
	return p
}

// poolsOf yields the pools that a job counts in: its queue's, and that of all.
func (s *Scanner) poolsOf(j *job) iter.Seq[*pool] {
	return func(yield func(*pool) bool) {
		if yield(s.pools[allJobs]) && j.queue != "" && j.queue != allJobs {
			yield(s.poolOf(j.queue))
		}
	}
}

func (s *Scanner) nodeUp(n *node, gpus int) {
	add := func(p *pool) {
		if !slices.Contains(p.nodes, n) {
			p.nodes = append(p.nodes, n)
		}
		p.total += gpus
	}
	if n.up {
		s.nodeDown(n)
	}
	n.up, n.gpus = true, gpus
	add(s.pools[allJobs])
	for _, name := range n.partition {
		add(s.poolOf(name))
	}
}

func (s *Scanner) nodeDown(n *node) {
	if !n.up {
		return
	}
	n.up = false
	s.pools[allJobs].total -= n.gpus
	for _, name := range n.partition {
		s.poolOf(name).total -= n.gpus
	}
}

// nodeOf returns the node of a name, and makes it; its size is then unknown.
func (s *Scanner) nodeOf(name string) *node { return s.nodeSized(name, 0) }

// nodeSized is nodeOf for a node of a size, 0 if that is not known. A name that is new is that of a node of the cluster
// which has none, if one has that size, or all have one size.
func (s *Scanner) nodeSized(name string, gpus int) *node {
	n := s.nodes[name]
	switch {
	case n == nil:
		first := slices.IndexFunc(s.numbered, func(n *node) bool { return gpus == 0 || n.gpus == gpus })
		other := func(n *node) bool { return gpus == 0 && n.gpus != s.numbered[first].gpus }
		if first < 0 || slices.ContainsFunc(s.numbered, other) {
			n = &node{idle: s.idlePower("")}
		} else {
			n = s.numbered[first]
			delete(s.nodes, n.name)
		}
		n.name, s.nodes[name] = name, n
		fallthrough
	case n.numbered: // named by its number
		n.numbered = false
		s.numbered = slices.DeleteFunc(s.numbered, func(x *node) bool { return x == n })
	}
	return n
}

// submit notes a job that waits.
func (s *Scanner) submit(e *workload.Event) *job {
	j := s.jobs[e.Job.ID]
	if j == nil {
		if len(s.jobs) >= s.o.Cap*4 {
			s.countDropped("jobs")
			return nil
		}
		s.seq++
		j = &job{entity: entity{kind: "job", name: e.Job.ID}, submit: e.Time, seq: s.seq}
		s.jobs[j.name] = j
	} else if j.submitted {
		return j
	}
	r := e.Job.Request()
	j.user, j.tenant, j.key = e.Job.User, e.Job.Tenant, e.Job.Key
	if j.inferred && j.running {
		s.release(j)
	}
	if g := e.Job.GPUs.Whole(); g > 0 {
		j.gpus, j.share = g, e.Job.GPUs.Count()
	}
	j.limit, j.hold, j.submitted, j.inferred = r.TimeLimit, e.HoldUntil, true, false
	j.queue = r.Partition
	if s.o.Labels != nil {
		j.labels = s.o.Labels(&e.Job)
	}
	if e.Labels != "" {
		j.labels = append(strings.Split(e.Labels, ","), j.labels...)
	}
	return j
}

// enqueue adds a job to those that are pending.
func (s *Scanner) enqueue(j *job) {
	if s.pending.has(j) {
		return
	}
	s.pending.add(j)
	n := need{j.tenant, j.gpus}
	for p := range s.poolsOf(j) {
		p.pending[n]++
		p.jobs++
		p.wanted += j.gpus
		p.everSeen = true
	}
	if p := s.attributed(j); p != nil {
		if p.waiting[n] == nil {
			p.waiting[n] = &[causes]time.Duration{}
		}
		for i := range j.waits {
			j.waits[i] -= p.waiting[n][i]
		}
	}
	if t := s.tenants[j.tenant]; t != nil {
		t.pending++
	}
}

// attributed is the pool whose state says why a job waits.
func (s *Scanner) attributed(j *job) *pool {
	if j.queue != "" {
		return s.poolOf(j.queue)
	}
	return s.pools[allJobs]
}

// dequeue removes a job from those that are pending.
func (s *Scanner) dequeue(j *job) {
	if !s.pending.has(j) {
		return
	}
	s.pending.remove(j)
	n := need{j.tenant, j.gpus}
	for p := range s.poolsOf(j) {
		if p.pending[n]--; p.pending[n] <= 0 {
			delete(p.pending, n)
		}
		p.jobs--
		p.wanted -= j.gpus
	}
	if p := s.attributed(j); p.waiting[n] != nil {
		for i := range j.waits {
			j.waits[i] += p.waiting[n][i]
		}
	}
	if t := s.tenants[j.tenant]; t != nil {
		t.pending--
	}
}

// place starts a job on GPUs.
func (s *Scanner) place(j *job, at time.Duration, placement []workload.NodeShare) {
	if j.running {
		s.release(j)
	}
	j.running, j.start = true, at
	j.placement = placement
	for p := range s.poolsOf(j) {
		p.held += j.gpus
		p.started += j.gpus
		if len(placement) == 0 {
			p.unplaced++
			s.seen["unplaced"] = s.seen["unplaced"] || !j.inferred
		}
	}
	for _, share := range placement {
		n := s.nodeOf(share.Node)
		n.held += share.GPUs
		n.jobs = append(n.jobs, j)
		s.rejoin(n)
		numbers, _ := share.Numbers() // where they are wrong, they are not known
		for _, i := range numbers {
			if g := s.gpuOf(telemetry.GPU{Node: share.Node, Index: i, Instance: -1}); g != nil {
				g.named = true
				s.join(g, j)
			}
		}
	}
	if t := s.tenants[j.tenant]; t != nil {
		t.held += j.gpus
	}
	s.running.add(j)
}

// release takes a job's GPUs from it.
func (s *Scanner) release(j *job) {
	if !j.running {
		return
	}
	for p := range s.poolsOf(j) {
		p.held -= j.gpus
		if len(j.placement) == 0 {
			p.unplaced--
		}
	}
	for _, share := range j.placement {
		n := s.nodeOf(share.Node)
		n.held -= share.GPUs
		if i := slices.Index(n.jobs, j); i >= 0 {
			n.jobs = slices.Delete(n.jobs, i, i+1)
		}
		s.rejoin(n)
	}
	for _, g := range j.units {
		if g.job == j {
			s.join(g, nil)
		}
	}
	if t := s.tenants[j.tenant]; t != nil {
		t.held -= j.gpus
	}
	j.running, j.units, j.placement = false, nil, nil
	s.running.remove(j)
}

// rejoin joins a node's GPUs to a job that holds the whole node.
func (s *Scanner) rejoin(n *node) {
	for _, g := range n.units {
		if !g.named {
			s.join(g, soleJob(n))
		}
	}
}

// soleJob is the job that holds all of a node's GPUs, nil if there is none.
func soleJob(n *node) *job {
	if len(n.jobs) != 1 || n.gpus == 0 || n.held < n.gpus {
		return nil
	}
	return n.jobs[0]
}

// join says whose samples a GPU's are from now on.
func (s *Scanner) join(g *gpu, j *job) {
	if g.job == j {
		return
	}
	s.closeGPU(g)
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

// event changes the state, and sends the facts that rules match.
func (s *Scanner) event(e *workload.Event, at time.Duration) {
	switch e.Kind {
	case workload.Submitted:
		j := s.submit(e)
		if j == nil || j.running || s.pending.has(j) {
			return
		}
		s.enqueue(j)
		w, guessed, known := s.work(j)
		for p := range s.poolsOf(j) {
			p.arrivals += w
			if guessed {
				p.guessed += w
			}
			p.unknownWork = p.unknownWork || !known
		}
		s.fact(&fact{name: "job.submitted", at: at, job: j})
	case workload.Started, workload.Resumed:
		s.started(e, at)
	case workload.Preempted:
		j := s.jobs[e.Job.ID]
		if j == nil || !j.running {
			return
		}
		s.seen[inputStops] = true
		ran := at - j.start
		nodes := j.placement
		s.closeJob(j, at)
		s.release(j)
		j.hold = e.HoldUntil
		s.enqueue(j)
		s.fact(&fact{name: "job.preempted", at: at, job: j, ran: ran, nodes: nodes})
	case workload.Resized:
		j := s.jobs[e.Job.ID]
		if j == nil || e.Job.GPUs <= 0 {
			return
		}
		if j.running {
			start, units := j.start, j.units
			s.release(j)
			j.gpus, j.share = e.Job.GPUs.Whole(), e.Job.GPUs.Count()
			s.place(j, start, e.Placement)
			for _, g := range units {
				if len(j.units) < j.gpus && g.job == nil {
					s.join(g, j)
				}
			}
		} else if s.pending.has(j) {
			s.dequeue(j)
			j.gpus, j.share = e.Job.GPUs.Whole(), e.Job.GPUs.Count()
			s.enqueue(j)
		}
		s.fact(&fact{name: "job.resized", at: at, job: j})
	case workload.Finished:
		if j := s.jobs[e.Job.ID]; j != nil {
			s.ended(j, at, e.Job.Status)
		}
	case workload.NodeUp:
		n := s.nodeSized(e.Node, e.NodeGPUs)
		s.nodeUp(n, max(e.NodeGPUs, n.gpus))
		s.fact(&fact{name: "node.up", at: at, node: e.Node})
	case workload.NodeDown, workload.NodeDrained:
		s.nodeDown(s.nodeOf(e.Node))
		name := "node.down"
		if e.Kind == workload.NodeDrained {
			name = "node.drained"
		}
		s.fact(&fact{name: name, at: at, node: e.Node})
	case workload.ConfigApplied:
		s.fact(&fact{name: "config.applied", at: at, config: e.Revision})
	case workload.TakenSnapshot:
		s.snapshot(e, at)
	}
}

func (s *Scanner) started(e *workload.Event, at time.Duration) {
	j := s.jobs[e.Job.ID]
	if j == nil || !j.submitted {
		if j = s.submit(e); j == nil {
			return
		}
		j.submit = min(at, j.submit)
	}
	if j.running && !j.inferred {
		return
	}
	if held := heldBy(e.Placement); held > 0 {
		if s.pending.has(j) && held != j.gpus {
			s.dequeue(j)
		}
		if held != j.gpus { // else a share of one GPU is placed on a whole one
			j.gpus, j.share = held, float64(held)
		}
	}
	s.seen[inputStarts] = true
	waiting := s.pending.has(j)
	s.dequeue(j)
	j.inferred = false
	s.place(j, at, e.Placement)
	if waiting && !j.first {
		wait := at - max(j.submit, min(j.hold, at))
		for p := range s.poolsOf(j) {
			p.waits = append(p.waits, wait)
		}
		c := widthClass(j.gpus)
		s.widths[c] = append(s.widths[c], waited{at, wait})
		s.widthSorted[c] = nil
		if w, _, known := s.work(j); known {
			for p := range s.poolsOf(j) {
				p.overtakers = append(p.overtakers, overtaker{j.submit, w})
				p.overtakenWork = nil
			}
		}
	}
	j.first = true
	name := "job.started"
	if e.Kind == workload.Resumed {
		name = "job.resumed"
	}
	s.fact(&fact{name: name, at: at, job: j, nodes: e.Placement})
}

func heldBy(p []workload.NodeShare) (n int) {
	for i := range p {
		n += p[i].GPUs
	}
	return n
}

// ended forgets a job.
func (s *Scanner) ended(j *job, at time.Duration, status workload.Status) {
	f := &fact{name: "job.ended", at: at, job: j, status: status.String(), nodes: j.placement}
	if status == workload.Unknown {
		f.status = "unknown"
	}
	if j.running {
		f.ran, f.hasRun = at-j.start, true
		if status == workload.Completed || status == workload.Unknown {
			s.completed.n++
			s.completed.sum += f.ran.Hours()
			if j.key != "" {
				h := s.keys[j.key]
				if h == nil && len(s.keys) < s.o.Cap {
					h = &history{}
					s.keys[j.key] = h
				}
				if h != nil {
					h.add(f.ran.Hours())
				}
			}
		}
	}
	s.fact(f)
	s.closeJob(j, at)
	s.dequeue(j)
	if s.o.OnJob != nil {
		s.o.OnJob(s.report(j))
	}
	s.release(j)
	s.forget(j)
}

func (s *Scanner) forget(j *job) {
	s.workers -= len(j.workers)
	delete(s.jobs, j.name)
}

// snapshot brings the state to that of a snapshot: what it does not have is gone.
func (s *Scanner) snapshot(e *workload.Event, at time.Duration) {
	if len(e.Active) == 0 {
		return
	}
	active, nodes := make(map[string]bool, len(e.Active)), map[string]bool{}
	for i := range e.Active {
		one := e.Active[i]
		one.Time = e.Time
		if one.Kind.OfNode() {
			nodes[one.Node] = true
			s.event(&one, at)
			continue
		}
		active[one.Job.ID] = true
		first := one
		first.Kind, first.Time = workload.Submitted, one.Job.Submit
		s.event(&first, at)
		if one.Kind == workload.Started {
			s.event(&one, at)
		}
	}
	for name, n := range s.nodes {
		if len(nodes) > 0 && !nodes[name] {
			s.nodeDown(n)
		}
	}
	var gone []*job
	for _, j := range s.jobs {
		if !active[j.name] && !j.inferred {
			gone = append(gone, j)
		}
	}
	slices.SortFunc(gone, func(a, b *job) int { return a.seq - b.seq })
	for _, j := range gone {
		s.ended(j, at, workload.Unknown)
	}
}

// overtaker is a job that has started.
type overtaker struct {
	submit time.Duration
	work   float64 // GPU-hours
}

// dropOvertakers forgets the jobs of a pool that no pending job was submitted before.
func (s *Scanner) dropOvertakers(p *pool) {
	oldest := s.now
	for _, j := range s.pending.list {
		oldest = min(oldest, j.submit)
	}
	p.overtakers = slices.DeleteFunc(p.overtakers, func(o overtaker) bool { return o.submit <= oldest })
}

// overtaken is the work of jobs in the same queue that were submitted later than a job which
// waits, and started.
func (s *Scanner) overtaken(j *job) float64 {
	p := s.attributed(j)
	if p.overtakenAt != s.now || p.overtakenWork == nil {
		s.dropOvertakers(p)
		slices.SortStableFunc(p.overtakers, func(a, b overtaker) int { return cmp.Compare(a.submit, b.submit) })
		p.overtakenWork = append(p.overtakenWork[:0], make([]float64, len(p.overtakers)+1)...)
		for i := len(p.overtakers) - 1; i >= 0; i-- {
			p.overtakenWork[i] = p.overtakenWork[i+1] + p.overtakers[i].work
		}
		p.overtakenAt = s.now
	}
	i, _ := slices.BinarySearchFunc(p.overtakers[:len(p.overtakenWork)-1], j.submit+1,
		func(o overtaker, t time.Duration) int { return cmp.Compare(o.submit, t) })
	return p.overtakenWork[i]
}

// usualWait is the 95th percentile of the waits of a job's width over the last seven days.
func (s *Scanner) usualWait(j *job) (hours float64, known bool) {
	c := widthClass(j.gpus)
	list := s.widths[c]
	if s.widthSorted[c] == nil {
		i := 0
		for i < len(list) && list[i].at < s.now-7*24*time.Hour {
			i++
		}
		list = list[i:]
		s.widths[c] = list
		for k := range list {
			s.widthSorted[c] = append(s.widthSorted[c], list[k].wait.Hours())
		}
		slices.Sort(s.widthSorted[c])
	}
	sorted := s.widthSorted[c]
	if len(sorted) == 0 {
		return 0, false
	}
	return sorted[rank(.95, len(sorted))], true
}

// jobSet is a set of jobs in an order that depends on the records alone.
type jobSet struct {
	which int // index of job.place
	list  []*job
}

func (l *jobSet) has(j *job) bool { return j.place[l.which] > 0 }

func (l *jobSet) add(j *job) {
	if !l.has(j) {
		l.list = append(l.list, j)
		j.place[l.which] = len(l.list)
	}
}

func (l *jobSet) remove(j *job) {
	i, last := j.place[l.which]-1, len(l.list)-1
	if i < 0 {
		return
	}
	l.list[i] = l.list[last]
	l.list[i].place[l.which] = i + 1
	l.list[last] = nil
	l.list = l.list[:last]
	j.place[l.which] = 0
}
