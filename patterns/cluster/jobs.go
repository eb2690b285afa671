package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Job is a job that has not ended.
type Job struct {
	Subject
	User, Tenant, Key, Queue string
	GPUs                     int
	Share                    float64 // of GPUs: GPUs, or the part of one
	Limit                    time.Duration
	Submit, Start            time.Duration // start: of the present run
	Hold                     time.Duration
	Seq                      int // in order of submission
	submitted                bool
	Running                  bool
	inferred                 bool // only samples name the job: its start and size are those of the samples
	started                  bool // has run before
	Labels                   []string
	placement                []workload.NodeShare
	place                    [2]int        // in the sets of pending and running jobs
	Units                    []*GPU        // that samples were joined to
	Sampled                  time.Duration // the last sample
	Progress                 time.Duration // the last iteration or message, 0 for none
	Waits                    [Causes]time.Duration
	Use                      Use
	Stability                string // class of the spread of its iterations, empty if it is not known
	gang
}

// Use is how samples show a job's GPUs: sums over the samples, for the class of its bottleneck.
type Use struct {
	Busy, Memory float64
	Kernels      float64 // share of the time in which a kernel ran
	Samples      int
	Active       int // samples with SM activity, which Busy is then
	Used         int // samples in which the GPU was used
	Spells       int // beginnings of a GPU's use
	Occupied     int // samples with memory
	Dips         int // beginnings of low use
	low          bool
}

// Fact is something that happened, which the terms of rules match.
type Fact struct {
	Name   string // of an event, or derived:NAME
	At     time.Duration
	Job    *Job
	Ran    time.Duration
	HasRun bool
	Status string
	Node   string
	GPU    string
	Config string
	Text   string
	Source string
	Nodes  []workload.NodeShare
	// subject is that of a derived condition.
	Subject *Subject
}

// Group returns the value of a name to group by; empty if the fact has none.
func (f *Fact) Group(group string) string {
	switch group {
	case "node":
		return f.Node
	case "gpu":
		return f.GPU
	case "config_version":
		return f.Config
	case "cluster":
		return AllJobs
	}
	if f.Job == nil {
		return ""
	}
	switch group {
	case "job":
		return f.Job.Name
	case "tenant":
		return f.Job.Tenant
	case "user":
		return f.Job.User
	case "key":
		return f.Job.Key
	case "queue", "partition":
		if f.Job.Queue == "" {
			return AllJobs
		}
		return f.Job.Queue
	}
	return ""
}

// JobSet is a set of jobs in an order that depends on the records alone.
type JobSet struct {
	which int // index of job.place
	List  []*Job
}

// Has reports whether a job is in the set.
func (l *JobSet) Has(j *Job) bool { return j.place[l.which] > 0 }

func (l *JobSet) add(j *Job) {
	if !l.Has(j) {
		l.List = append(l.List, j)
		j.place[l.which] = len(l.List)
	}
}

func (l *JobSet) remove(j *Job) {
	i, last := j.place[l.which]-1, len(l.List)-1
	if i < 0 {
		return
	}
	l.List[i] = l.List[last]
	l.List[i].place[l.which] = i + 1
	l.List[last] = nil
	l.List = l.List[:last]
	j.place[l.which] = 0
}

// addJob makes a job, nil beyond the cap.
func (s *State) addJob(name string, submit time.Duration) *Job {
	if len(s.Jobs) >= s.Cap*4 {
		s.Drop("jobs")
		return nil
	}
	s.seq++
	j := &Job{Subject: s.subject("job", name), Submit: submit, Seq: s.seq}
	j.Job = j
	s.Jobs[name] = j
	return j
}

// Submit notes a job that waits.
func (s *State) submit(e *workload.Event) *Job {
	j := s.Jobs[e.Job.ID]
	if j == nil {
		if j = s.addJob(e.Job.ID, e.Time); j == nil {
			return nil
		}
	} else if j.submitted {
		return j
	}
	r := e.Job.Request()
	j.User, j.Tenant, j.Key = e.Job.User, e.Job.Tenant, e.Job.Key
	if j.inferred && j.Running {
		s.release(j)
	}
	if g := e.Job.GPUs.Whole(); g > 0 {
		j.GPUs, j.Share = g, e.Job.GPUs.Count()
	}
	j.Limit, j.Hold, j.submitted, j.inferred = r.TimeLimit, e.HoldUntil, true, false
	j.Queue = r.Partition
	if s.Labels != nil {
		j.Labels = s.Labels(&e.Job)
	}
	if e.Labels != "" {
		j.Labels = append(strings.Split(e.Labels, ","), j.Labels...)
	}
	return j
}

// enqueue adds a job to those that are pending.
func (s *State) enqueue(j *Job) {
	if s.Pending.Has(j) {
		return
	}
	s.Pending.add(j)
	n := need{j.Tenant, j.GPUs}
	for p := range s.poolsOf(j) {
		p.Pending[n]++
		p.wanted += j.GPUs
		p.Used = true
	}
	p := s.Attributed(j)
	if p.waiting[n] == nil {
		p.waiting[n] = &[Causes]time.Duration{}
	}
	for i := range j.Waits {
		j.Waits[i] -= p.waiting[n][i]
	}
	if t := s.Tenants[j.Tenant]; t != nil {
		t.pending++
	}
}

// Attributed returns the pool whose state explains a job's wait.
func (s *State) Attributed(j *Job) *Pool {
	return s.PoolOf(cmp.Or(j.Queue, AllJobs))
}

// dequeue removes a job from those that are pending.
func (s *State) dequeue(j *Job) {
	if !s.Pending.Has(j) {
		return
	}
	s.Pending.remove(j)
	n := need{j.Tenant, j.GPUs}
	for p := range s.poolsOf(j) {
		if p.Pending[n]--; p.Pending[n] <= 0 {
			delete(p.Pending, n)
		}
		p.wanted -= j.GPUs
	}
	if p := s.Attributed(j); p.waiting[n] != nil {
		for i := range j.Waits {
			j.Waits[i] += p.waiting[n][i]
		}
	}
	if t := s.Tenants[j.Tenant]; t != nil {
		t.pending--
	}
}

// place starts a job on GPUs.
func (s *State) place(j *Job, at time.Duration, placement []workload.NodeShare) {
	if j.Running {
		s.release(j)
	}
	j.Running, j.Start = true, at
	j.placement = placement
	for p := range s.poolsOf(j) {
		p.held += j.GPUs
		p.started += j.GPUs
		if len(placement) == 0 {
			p.Unplaced++
			s.Seen.Unplaced = s.Seen.Unplaced || !j.inferred
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
	if t := s.Tenants[j.Tenant]; t != nil {
		t.Held += j.GPUs
	}
	s.Running.add(j)
}

// release takes a job's GPUs from it.
func (s *State) release(j *Job) {
	if !j.Running {
		return
	}
	for p := range s.poolsOf(j) {
		p.held -= j.GPUs
		if len(j.placement) == 0 {
			p.Unplaced--
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
	for _, g := range j.Units {
		if g.Job == j {
			s.join(g, nil)
		}
	}
	if t := s.Tenants[j.Tenant]; t != nil {
		t.Held -= j.GPUs
	}
	j.Running, j.Units, j.placement = false, nil, nil
	s.Running.remove(j)
}

// Event changes the state, and sends the facts that rules match.
func (s *State) Event(e *workload.Event, at time.Duration) {
	switch e.Kind {
	case workload.Submitted:
		j := s.submit(e)
		if j == nil || j.Running || s.Pending.Has(j) {
			return
		}
		s.enqueue(j)
		w, guessed, known := s.Work(j)
		for p := range s.poolsOf(j) {
			p.Flow.Arrived += w
			if guessed {
				p.Flow.Guessed += w
			}
			p.Flow.Unknown = p.Flow.Unknown || !known
		}
		s.OnFact(&Fact{Name: "job.submitted", At: at, Job: j})
	case workload.Started, workload.Resumed:
		s.started(e, at)
	case workload.Preempted:
		j := s.Jobs[e.Job.ID]
		if j == nil || !j.Running {
			return
		}
		s.Seen.Stops = true
		ran := at - j.Start
		nodes := j.placement
		s.leave(j, at)
		s.release(j)
		j.Hold = e.HoldUntil
		s.enqueue(j)
		s.OnFact(&Fact{Name: "job.preempted", At: at, Job: j, Ran: ran, Nodes: nodes})
	case workload.Resized:
		j := s.Jobs[e.Job.ID]
		if j == nil || e.Job.GPUs <= 0 {
			return
		}
		if j.Running {
			start, units := j.Start, j.Units
			s.release(j)
			j.GPUs, j.Share = e.Job.GPUs.Whole(), e.Job.GPUs.Count()
			s.place(j, start, e.Placement)
			for _, g := range units {
				if len(j.Units) < j.GPUs && g.Job == nil {
					s.join(g, j)
				}
			}
		} else if s.Pending.Has(j) {
			s.dequeue(j)
			j.GPUs, j.Share = e.Job.GPUs.Whole(), e.Job.GPUs.Count()
			s.enqueue(j)
		}
		s.OnFact(&Fact{Name: "job.resized", At: at, Job: j})
	case workload.Finished:
		if j := s.Jobs[e.Job.ID]; j != nil {
			s.ended(j, at, e.Job.Status)
		}
	case workload.NodeUp:
		n := s.nodeOf(e.Node, e.NodeGPUs)
		s.nodeUp(n, max(e.NodeGPUs, n.gpus))
		s.OnFact(&Fact{Name: "node.up", At: at, Node: e.Node})
	case workload.NodeDown, workload.NodeDrained:
		s.nodeDown(s.nodeOf(e.Node, 0))
		name := "node.down"
		if e.Kind == workload.NodeDrained {
			name = "node.drained"
		}
		s.OnFact(&Fact{Name: name, At: at, Node: e.Node})
	case workload.ConfigApplied:
		s.OnFact(&Fact{Name: "config.applied", At: at, Config: e.Revision})
	case workload.TakenSnapshot:
		s.snapshot(e, at)
	}
}

func (s *State) started(e *workload.Event, at time.Duration) {
	j := s.Jobs[e.Job.ID]
	if j == nil || !j.submitted {
		if j = s.submit(e); j == nil {
			return
		}
		j.Submit = min(at, j.Submit)
	}
	if j.Running && !j.inferred {
		return
	}
	if held := heldBy(e.Placement); held > 0 {
		if s.Pending.Has(j) && held != j.GPUs {
			s.dequeue(j)
		}
		if held != j.GPUs { // else a share of one GPU is placed on a whole one
			j.GPUs, j.Share = held, float64(held)
		}
	}
	s.Seen.Starts = true
	waiting := s.Pending.Has(j)
	s.dequeue(j)
	j.inferred = false
	s.place(j, at, e.Placement)
	if waiting && !j.started {
		wait := at - max(j.Submit, min(j.Hold, at))
		w, _, known := s.Work(j)
		for p := range s.poolsOf(j) {
			p.Flow.Waits = append(p.Flow.Waits, wait)
			if known {
				p.overtakers.add(j.Submit, w)
			}
		}
		s.Waits.add(j.GPUs, at, wait)
	}
	j.started = true
	name := "job.started"
	if e.Kind == workload.Resumed {
		name = "job.resumed"
	}
	s.OnFact(&Fact{Name: name, At: at, Job: j, Nodes: e.Placement})
}

func heldBy(p []workload.NodeShare) (n int) {
	for i := range p {
		n += p[i].GPUs
	}
	return n
}

// ended ends a job.
func (s *State) ended(j *Job, at time.Duration, status workload.Status) {
	f := &Fact{Name: "job.ended", At: at, Job: j, Status: status.String(), Nodes: j.placement}
	if status == workload.Unknown {
		f.Status = "unknown"
	}
	if j.Running {
		f.Ran, f.HasRun = at-j.Start, true
		if status == workload.Completed || status == workload.Unknown {
			s.Runs.add(j.Key, f.Ran.Hours(), s.Cap)
		}
	}
	s.OnFact(f)
	s.remove(j, at)
}

// leave reports that a job stops, and forgets its samples.
func (s *State) leave(j *Job, at time.Duration) {
	s.PassRows(j)
	s.OnJobLeft(j, at)
	j.clear()
}

// remove forgets a job.
func (s *State) remove(j *Job, at time.Duration) {
	s.leave(j, at)
	s.dequeue(j)
	s.OnJobEnded(j)
	s.release(j)
	s.workers -= len(j.Workers)
	delete(s.Jobs, j.Name)
}

// snapshot brings the state to that of a snapshot: jobs and nodes that it lacks are gone.
func (s *State) snapshot(e *workload.Event, at time.Duration) {
	if len(e.Active) == 0 {
		return
	}
	active, nodes := make(map[string]bool, len(e.Active)), map[string]bool{}
	for i := range e.Active {
		one := e.Active[i]
		one.Time = e.Time
		if one.Kind.OfNode() {
			nodes[one.Node] = true
			s.Event(&one, at)
			continue
		}
		active[one.Job.ID] = true
		first := one
		first.Kind, first.Time = workload.Submitted, one.Job.Submit
		s.Event(&first, at)
		if one.Kind == workload.Started {
			s.Event(&one, at)
		}
	}
	for name, n := range s.nodes {
		if len(nodes) > 0 && !nodes[name] {
			s.nodeDown(n)
		}
	}
	var gone []*Job
	for _, j := range s.Jobs {
		if !active[j.Name] && !j.inferred {
			gone = append(gone, j)
		}
	}
	slices.SortFunc(gone, func(a, b *Job) int { return a.Seq - b.Seq })
	for _, j := range gone {
		s.ended(j, at, workload.Unknown)
	}
}

// infer makes a job that only samples name.
func (s *State) infer(name string, at time.Duration) *Job {
	j := s.addJob(name, at)
	if j != nil {
		j.inferred, j.GPUs, j.Share = true, 1, 1
		s.place(j, at, nil)
	}
	return j
}

// Message notes a line of a job's log, and returns the job.
func (s *State) Message(id string, at time.Duration) *Job {
	j := s.Jobs[id]
	if j != nil {
		j.Progress = max(j.Progress, at, 1)
	}
	return j
}
