package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// Joined says how a sample was joined to a job, or why it was not.
type Joined int

// The ways in which samples are joined, and the reasons why they are not.
const (
	ByName      Joined = iota // the sample names a job of the trace
	ByPlacement               // a job holds all GPUs of the node by the trace and the cluster's size
	ByOnlyJob                 // the only job of the node holds as many GPUs as samples show there
	OtherJob                  // the sample names a job that the trace does not have
	OtherNode                 // no job of the trace ran on the node
	IdleNode                  // no job of the trace ran on the node then
	SharedNode                // several jobs, or a job of some of the GPUs, ran on the node
	EndedJob                  // the sample names a job that does not run
	joinedKinds
)

var joinedTexts = [joinedKinds]string{"named by the sample", "by placement", "by the only job of the node",
	"name a job that the trace does not have", "are of nodes that no job of the trace ran on",
	"are of a time when no job ran on the node", "are of nodes that jobs shared or held in part",
	"name a job that does not run then"}

// String is a name of one word.
func (j Joined) String() string {
	return [joinedKinds]string{"named", "placement", "only_job", "other_job", "other_node", "idle_node", "shared_node",
		"ended_job"}[j]
}

// JoinCounts is the number of samples by how they were joined.
type JoinCounts [joinedKinds]int

// Joiner joins samples to the jobs of a trace, by the names of jobs, and of nodes and the time. Names of nodes match
// whether they are short or full.
type Joiner struct {
	jobs        []workload.Job
	zero        time.Duration
	gpusPerNode int
	ids         map[string]bool
	nodes       map[string]*jobNode // by name in lower case
	hosts       *slurmtext.Hosts[*jobNode]
	counts      JoinCounts
	other       map[string]bool // nodes of samples that no job ran on
}

// jobNode is a node that jobs ran on.
type jobNode struct {
	name    string
	spells  []jobSpell // in order of start
	longest time.Duration
	seen    map[int]bool // GPUs with samples
}

type jobSpell struct {
	from, to time.Duration
	job      int
	gpus     workload.MilliGPU
}

// NewJoiner joins samples to the jobs of a trace that ran on a cluster, without groups if it is not known.
func NewJoiner(w *workload.Workload, c workload.Cluster) *Joiner {
	jobs := w.Jobs()
	j := &Joiner{jobs: jobs, ids: map[string]bool{}, nodes: map[string]*jobNode{},
		other: map[string]bool{}}
	if zero := w.Zero(); !zero.IsZero() {
		j.zero = time.Duration(zero.UnixNano())
	}
	for i := range c.Groups {
		if j.gpusPerNode = c.Groups[i].GPUsPerNode; j.gpusPerNode != c.Groups[0].GPUsPerNode {
			j.gpusPerNode = 0 // it depends on the node
			break
		}
	}
	for i := range jobs {
		job := &jobs[i]
		j.ids[job.ID] = true
		if job.Nodes == "" || !job.HasWait {
			continue
		}
		names, err := slurmtext.HostList(job.Nodes)
		if err != nil {
			continue
		}
		for _, name := range names {
			n := j.nodes[strings.ToLower(name)]
			if n == nil {
				n = &jobNode{name: name, seen: map[int]bool{}}
				j.nodes[strings.ToLower(name)] = n
			}
			from := job.Submit + job.Wait
			to := from + job.Duration
			if job.Status == workload.Running {
				to = workload.MaxSubmit
			}
			n.spells = append(n.spells, jobSpell{from, to, i, job.GPUs / workload.MilliGPU(len(names))})
		}
	}
	for _, n := range j.nodes {
		slices.SortStableFunc(n.spells, func(a, b jobSpell) int { return cmp.Compare(a.from, b.from) })
		for i := range n.spells {
			n.longest = max(n.longest, n.spells[i].to-n.spells[i].from)
		}
	}
	j.hosts = slurmtext.NewHosts(j.nodes)
	return j
}

// Join returns the job of a sample, empty if it is not known, and how it was found. It gives the sample the name that
// the trace has for its node.
func (j *Joiner) Join(s *GPUSample) (job string, how Joined) {
	n, known := j.hosts.Find(s.Node)
	if known {
		s.Node = n.name
		n.seen[s.Index] = true
	}
	job, how = j.find(s, n)
	j.counts[how]++
	return job, how
}

func (j *Joiner) find(s *GPUSample, n *jobNode) (string, Joined) {
	switch {
	case j.ids[s.Job]:
		return s.Job, ByName
	case s.Job != "":
		return "", OtherJob
	case n == nil:
		if len(j.other) < maxTargets {
			j.other[s.Node] = true
		}
		return "", OtherNode
	}
	at := s.Time - j.zero
	first, _ := slices.BinarySearchFunc(n.spells, at, func(x jobSpell, at time.Duration) int {
		if x.from <= at {
			return -1
		}
		return 1
	})
	var only *jobSpell
	for i := first - 1; i >= 0 && n.spells[i].from+n.longest > at; i-- {
		if x := &n.spells[i]; x.to > at {
			if only != nil {
				return "", SharedNode
			}
			only = x
		}
	}
	if only == nil {
		return "", IdleNode
	}
	gpus, how := j.gpusPerNode, ByPlacement
	if gpus == 0 {
		gpus, how = len(n.seen), ByOnlyJob
	}
	if only.gpus < workload.GPUs(gpus) || s.Instance >= 0 {
		return "", SharedNode
	}
	return j.jobs[only.job].ID, how
}

// JoinReport counts samples by how they were joined to jobs.
type JoinReport struct {
	Samples int `json:"samples"`
	Joined  int `json:"joined"`
	// By counts the joined ones by how, Not the others by why.
	By  map[string]int `json:"by,omitempty"`
	Not map[string]int `json:"not,omitempty"`
	// Lines say how, and Left why not.
	Lines []string `json:"-"`
	Left  []string `json:"-"`
}

// Report counts the samples so far.
func (j *Joiner) Report() *JoinReport { return j.counts.Report() }

// Report describes counts.
func (c *JoinCounts) Report() *JoinReport {
	r := &JoinReport{By: map[string]int{}, Not: map[string]int{}}
	for _, n := range c {
		r.Samples += n
	}
	for i, n := range c {
		switch how := joinedTexts[i]; {
		case n == 0:
		case Joined(i) < OtherJob:
			r.Joined, r.By[how] = r.Joined+n, n
			r.Lines = append(r.Lines, fmt.Sprintf("%d of %d samples of GPUs are joined to jobs: %s", n, r.Samples, how))
		default:
			r.Not[how] = n
			r.Left = append(r.Left,
				fmt.Sprintf("%d of %d samples of GPUs are joined to no job: they %s", n, r.Samples, how))
		}
	}
	return r
}

// Nothing is an error if there are samples and none is of a job or of a node that jobs ran on.
func (j *Joiner) Nothing() error {
	n := 0
	for _, x := range j.counts {
		n += x
	}
	if n == 0 || n != j.counts[OtherJob]+j.counts[OtherNode] {
		return nil
	}
	example := ""
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range j.other {
			if !yield(name) {
				return
			}
		}
	}) {
		example = fmt.Sprintf(", such as %q; jobs ran on nodes such as %q", name, j.anyNode())
		break
	}
	return fmt.Errorf("%w: none of %d samples is of a job or a node of the trace%s", ErrNothing, n, example)
}

// anyNode is the first node that jobs ran on, in order of names.
func (j *Joiner) anyNode() (name string) {
	for _, n := range j.nodes {
		if name == "" || n.name < name {
			name = n.name
		}
	}
	return name
}

// How lists the numbers of joined samples by how, in words for parentheses, empty if none was joined.
func (r *JoinReport) How() string {
	var out []string
	for _, how := range joinedTexts[:OtherJob] {
		if n := r.By[how]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, how))
		}
	}
	if out == nil {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}
