package patterns

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// job is a job that has not ended.
type job struct {
	subject
	user, tenant, key, queue string
	gpus                     int
	share                    float64 // of GPUs: gpus, or the part of one
	limit                    time.Duration
	submit, start            time.Duration // start: of the present run
	hold                     time.Duration
	seq                      int // in order of submission
	submitted                bool
	running                  bool
	inferred                 bool // only samples name the job: its start and size are those of the samples
	started                  bool // has run before
	labels                   []string
	placement                []workload.NodeShare
	place                    [2]int        // in the sets of pending and running jobs
	units                    []*gpu        // that samples were joined to
	sampled                  time.Duration // the last sample
	progress                 time.Duration // the last iteration or message, 0 for none
	waits                    [causes]time.Duration
	use                      use
	stability                string // class of the spread of its iterations, empty if it is not known
	gang
}

// use is how samples show a job's GPUs: sums over the samples, for the class of its bottleneck.
type use struct {
	busy, memory float64
	samples      int
	used         int // samples in which the GPU was used
	spells       int // beginnings of a GPU's use
	occupied     int // samples with memory
	dips         int // beginnings of low use
	low          bool
}

// fact is something that happened, which the terms of rules match.
type fact struct {
	name   string // of an event, or derived:NAME
	at     time.Duration
	job    *job
	ran    time.Duration
	hasRun bool
	status string
	node   string
	gpu    string
	config string
	text   string
	source string
	nodes  []workload.NodeShare
	// subject is that of a derived condition.
	subject *subject
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

// addJob makes a job, nil beyond the cap.
func (s *state) addJob(name string, submit time.Duration) *job {
	if len(s.jobs) >= s.cap*4 {
		s.drop("jobs")
		return nil
	}
	s.seq++
	j := &job{subject: s.subject("job", name), submit: submit, seq: s.seq}
	j.job = j
	s.jobs[name] = j
	return j
}

// submit notes a job that waits.
func (s *state) submit(e *workload.Event) *job {
	j := s.jobs[e.Job.ID]
	if j == nil {
		if j = s.addJob(e.Job.ID, e.Time); j == nil {
			return nil
		}
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
	if s.labels != nil {
		j.labels = s.labels(&e.Job)
	}
	if e.Labels != "" {
		j.labels = append(strings.Split(e.Labels, ","), j.labels...)
	}
	return j
}

// enqueue adds a job to those that are pending.
func (s *state) enqueue(j *job) {
	if s.pending.has(j) {
		return
	}
	s.pending.add(j)
	n := need{j.tenant, j.gpus}
	for p := range s.poolsOf(j) {
		p.pending[n]++
		p.wanted += j.gpus
		p.used = true
	}
	p := s.attributed(j)
	if p.waiting[n] == nil {
		p.waiting[n] = &[causes]time.Duration{}
	}
	for i := range j.waits {
		j.waits[i] -= p.waiting[n][i]
	}
	if t := s.tenants[j.tenant]; t != nil {
		t.pending++
	}
}

// attributed returns the pool whose state explains a job's wait.
func (s *state) attributed(j *job) *pool {
	return s.poolOf(cmp.Or(j.queue, allJobs))
}

// dequeue removes a job from those that are pending.
func (s *state) dequeue(j *job) {
	if !s.pending.has(j) {
		return
	}
	s.pending.remove(j)
	n := need{j.tenant, j.gpus}
	for p := range s.poolsOf(j) {
		if p.pending[n]--; p.pending[n] <= 0 {
			delete(p.pending, n)
		}
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
func (s *state) place(j *job, at time.Duration, placement []workload.NodeShare) {
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
			s.seen.unplaced = s.seen.unplaced || !j.inferred
		}
	}
	for _, share := range placement {
		n := s.nodeOf(share.Node, 0)
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
func (s *state) release(j *job) {
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
		n := s.nodeOf(share.Node, 0)
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

// event changes the state, and sends the facts that rules match.
func (s *state) event(e *workload.Event, at time.Duration) {
	switch e.Kind {
	case workload.Submitted:
		j := s.submit(e)
		if j == nil || j.running || s.pending.has(j) {
			return
		}
		s.enqueue(j)
		w, guessed, known := s.work(j)
		for p := range s.poolsOf(j) {
			p.flow.arrived += w
			if guessed {
				p.flow.guessed += w
			}
			p.flow.unknown = p.flow.unknown || !known
		}
		s.onFact(&fact{name: "job.submitted", at: at, job: j})
	case workload.Started, workload.Resumed:
		s.started(e, at)
	case workload.Preempted:
		j := s.jobs[e.Job.ID]
		if j == nil || !j.running {
			return
		}
		s.seen.stops = true
		ran := at - j.start
		nodes := j.placement
		s.leave(j, at)
		s.release(j)
		j.hold = e.HoldUntil
		s.enqueue(j)
		s.onFact(&fact{name: "job.preempted", at: at, job: j, ran: ran, nodes: nodes})
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
		s.onFact(&fact{name: "job.resized", at: at, job: j})
	case workload.Finished:
		if j := s.jobs[e.Job.ID]; j != nil {
			s.ended(j, at, e.Job.Status)
		}
	case workload.NodeUp:
		n := s.nodeOf(e.Node, e.NodeGPUs)
		s.nodeUp(n, max(e.NodeGPUs, n.gpus))
		s.onFact(&fact{name: "node.up", at: at, node: e.Node})
	case workload.NodeDown, workload.NodeDrained:
		s.nodeDown(s.nodeOf(e.Node, 0))
		name := "node.down"
		if e.Kind == workload.NodeDrained {
			name = "node.drained"
		}
		s.onFact(&fact{name: name, at: at, node: e.Node})
	case workload.ConfigApplied:
		s.onFact(&fact{name: "config.applied", at: at, config: e.Revision})
	case workload.TakenSnapshot:
		s.snapshot(e, at)
	}
}

func (s *state) started(e *workload.Event, at time.Duration) {
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
	s.seen.starts = true
	waiting := s.pending.has(j)
	s.dequeue(j)
	j.inferred = false
	s.place(j, at, e.Placement)
	if waiting && !j.started {
		wait := at - max(j.submit, min(j.hold, at))
		w, _, known := s.work(j)
		for p := range s.poolsOf(j) {
			p.flow.waits = append(p.flow.waits, wait)
			if known {
				p.overtakers.add(j.submit, w)
			}
		}
		s.waits.add(j.gpus, at, wait)
	}
	j.started = true
	name := "job.started"
	if e.Kind == workload.Resumed {
		name = "job.resumed"
	}
	s.onFact(&fact{name: name, at: at, job: j, nodes: e.Placement})
}

func heldBy(p []workload.NodeShare) (n int) {
	for i := range p {
		n += p[i].GPUs
	}
	return n
}

// ended ends a job.
func (s *state) ended(j *job, at time.Duration, status workload.Status) {
	f := &fact{name: "job.ended", at: at, job: j, status: status.String(), nodes: j.placement}
	if status == workload.Unknown {
		f.status = "unknown"
	}
	if j.running {
		f.ran, f.hasRun = at-j.start, true
		if status == workload.Completed || status == workload.Unknown {
			s.runs.add(j.key, f.ran.Hours(), s.cap)
		}
	}
	s.onFact(f)
	s.remove(j, at)
}

// leave reports that a job stops, and forgets its samples.
func (s *state) leave(j *job, at time.Duration) {
	s.passRows(j)
	s.onJobLeft(j, at)
	j.clear()
}

// remove forgets a job.
func (s *state) remove(j *job, at time.Duration) {
	s.leave(j, at)
	s.dequeue(j)
	s.onJobEnded(j)
	s.release(j)
	s.workers -= len(j.workers)
	delete(s.jobs, j.name)
}

// snapshot brings the state to that of a snapshot: jobs and nodes that it lacks are gone.
func (s *state) snapshot(e *workload.Event, at time.Duration) {
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

// infer makes a job that only samples name.
func (s *state) infer(name string, at time.Duration) *job {
	j := s.addJob(name, at)
	if j != nil {
		j.inferred, j.gpus, j.share = true, 1, 1
		s.place(j, at, nil)
	}
	return j
}

// message notes a line of a job's log, and returns the job.
func (s *state) message(id string, at time.Duration) *job {
	j := s.jobs[id]
	if j != nil {
		j.progress = max(j.progress, at, 1)
	}
	return j
}
