// Package aggregate has the trace aggregator, which makes groups of similar jobs, and
// measures how well groups keep the ranks of configurations (Measure). Rounds do
// not use it.
package aggregate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// The trace aggregator (AutoSched section 3.3.2) makes groups of similar jobs,
// so that a simulation has fewer events. A group is one job that stands for
// several (Job.Members): it asks for all their GPUs, and its members start, stop
// and end together, each on its own share. Policies compare the service and the
// width of one member with their settings, and objectives count a group as often
// as it has members.
//
// Similar are jobs that ask for the same number of GPUs, of the same GPU model,
// partition and quality of service, and are of the same model (and tenant, if the cluster has quotas),
// of durations within a factor of 1 + tolerance, submitted within tolerance times their duration and
// arrivalGrace of each other. Active jobs are compared by the time they have
// left, and by the service a member has received, within the same factor; running
// ones only run with running ones, of one node each.
//
// GPU-time is kept to the nanosecond, per group and over all: the remainder of a
// division goes to the next group of the same width. Times (submission, run, wait)
// are the members' means, services and GPUs their sums, so that the mean of the
// floors of the completion times is kept too.
const (
	// tolerance matters less than the size of groups: between 0.3 and 3 the ranks
	// of configurations hardly change.
	tolerance = 0.5
	// arrivalGrace is how far apart jobs of no duration may come, times tolerance:
	// the span of one batch of submissions.
	arrivalGrace = 10 * time.Minute
	// shortestAlike is the duration below which all are.
	shortestAlike = 30 * time.Second
	// clusterShare is the least number of largest groups that fit the cluster (or
	// the tenant's quota), so that a group can be placed.
	clusterShare = 8
)

// DefaultGroup is the size of groups that keeps the ranks of configurations
// (docs/notes/aggregator.md has the measurements). Members start together, so a group
// waits for more GPUs than a job would; with larger groups that blurs the ranks
// of configurations faster than it saves time.
const DefaultGroup = 4

// Group returns a workload of fewer jobs that loads the cluster like w. Its
// only knob is the size of a group, in GPUs: 1 or less groups nothing and
// returns w. A group has the id, user and key of its first member; jobs with
// deadlines, a node count, parts of GPUs or more than half as many GPUs stay as they are.
func Group(c workload.Cluster, w *workload.Workload, size int) *workload.Workload {
	if size < 2 {
		return w
	}
	jobs := w.Jobs()
	g := newGrouping(c, size, len(jobs))
	for i := range jobs {
		g.add(i, &jobs[i], likeness{length: steps(jobs[i].Duration), service: -1}, jobs[i].Submit, jobs[i].Duration)
	}
	out := make([]workload.Job, 0, len(g.members))
	for _, m := range g.members {
		j := jobs[m[0]]
		if len(m) > 1 {
			j = g.merge(jobs, m)
		}
		out = append(out, j)
	}
	slices.SortStableFunc(out, func(a, b workload.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return workload.NewSorted(w.Name(), w.Zero(), out, w.Synthetic())
}

// GroupState groups active jobs likewise: left[i] is the time that
// s.Jobs[i] still runs, as the caller predicts it. Neither argument is changed.
func GroupState(s *workload.State, left []time.Duration, size int) (*workload.State, []time.Duration) {
	if size < 2 {
		return s, left
	}
	g := newGrouping(s.Cluster, size, len(s.Jobs))
	hosts := map[string]bool{}
	for i := range s.Jobs {
		if with := s.Jobs[i].SharesWith; with != "" {
			hosts[with] = true
		}
	}
	for i := range s.Jobs {
		a := &s.Jobs[i]
		if a.HoldUntil != 0 || a.LostStarts > 0 ||
			a.Running && (a.SharesWith != "" || hosts[a.ID] || len(a.Placement) != 1 ||
				a.Held != 0 && a.Held != a.GPUs.Whole()) {
			g.alone(i)
			continue
		}
		like := likeness{length: steps(left[i]), service: -1, running: a.Running, pool: a.Pool,
			leased: a.LeaseUntil != 0}
		if a.Attained > 0 {
			like.service = steps(a.Attained / time.Duration(max(1, a.GPUs.Whole())))
		}
		g.add(i, &a.Job, like, 0, left[i])
	}
	type active struct {
		job  workload.ActiveJob
		left time.Duration
	}
	all := make([]active, 0, len(g.members))
	for _, m := range g.members {
		x := active{s.Jobs[m[0]], left[m[0]]}
		if len(m) > 1 {
			x.job, x.left = g.mergeActive(s.Jobs, left, m)
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b active) int { return cmp.Compare(a.job.Submit, b.job.Submit) })
	out := *s
	out.Jobs = make([]workload.ActiveJob, len(all))
	times := make([]time.Duration, len(all))
	for i := range all {
		out.Jobs[i], times[i] = all[i].job, all[i].left
	}
	return &out, times
}

// likeness is the common key of a group's members.
type likeness struct {
	gpus            workload.MilliGPU
	model, tenant   string
	asks            [3]string // GPU model, partition and quality of service
	length, service int32     // in steps; service is -1 for none
	running, leased bool
	pool            int
}

// steps is a span in steps of a factor of 1 + tolerance.
func steps(d time.Duration) int32 {
	return int32(math.Log(float64(max(d, shortestAlike)/time.Second)) / math.Log1p(tolerance))
}

// grouping assigns jobs to groups, in one pass.
type grouping struct {
	size    int // GPUs
	perNode int
	quota   map[string]int         // by tenant, nil without quotas
	members [][]int                // by group
	open    map[likeness]openGroup // the last of its kind
	rest    map[workload.MilliGPU]time.Duration
}

type openGroup struct {
	index int
	first time.Duration
}

func newGrouping(c workload.Cluster, size, jobs int) *grouping {
	g := &grouping{size: min(size, c.TotalGPUs()/clusterShare), perNode: c.GPUsPerNode(),
		members: make([][]int, 0, jobs), open: map[likeness]openGroup{}, rest: map[workload.MilliGPU]time.Duration{}}
	if len(c.VCs) > 0 {
		g.quota = map[string]int{}
		for _, v := range c.VCs {
			g.quota[v.Tenant] = v.GPUs
		}
	}
	return g
}

func (g *grouping) alone(i int) { g.members = append(g.members, []int{i}) }

// add puts job i into the open group of its kind, or into a new one.
func (g *grouping) add(i int, j *workload.Job, like likeness, at, length time.Duration) {
	width, r := j.GPUs.Whole(), j.Request()
	if j.Members > 1 || j.Deadline != 0 || j.GPUs%1000 != 0 || r.NodeCount > 0 ||
		width > min(g.size/2, g.perNode) {
		g.alone(i)
		return
	}
	like.gpus, like.model, like.asks = j.GPUs, j.Model, [...]string{r.GPUModel, r.Partition, r.QOS}
	size := g.size
	if g.quota != nil {
		like.tenant = j.Tenant
		size = min(size, g.quota[j.Tenant]/clusterShare)
	}
	within := time.Duration(tolerance * float64(length+arrivalGrace))
	if o, ok := g.open[like]; ok && at-o.first <= within && (len(g.members[o.index])+1)*width <= size {
		g.members[o.index] = append(g.members[o.index], i)
		return
	}
	g.open[like] = openGroup{len(g.members), at}
	g.alone(i)
}

// share divides a span of work among the members of a group of a width. The
// remainder goes to the next group.
func (g *grouping) share(width workload.MilliGPU, work time.Duration, members int) time.Duration {
	work += g.rest[width]
	n := time.Duration(members)
	g.rest[width] = work % n
	return work / n
}

// merge is the job of a group.
func (g *grouping) merge(jobs []workload.Job, members []int) workload.Job {
	j := jobs[members[0]]
	r := j.Request()
	var after, work time.Duration
	for _, i := range members {
		after += jobs[i].Submit - jobs[members[0]].Submit
		work += jobs[i].Duration
		if i != members[0] {
			addRequest(&r, jobs[i].Request())
		}
		if jobs[i].Status != j.Status {
			j.Status = workload.Unknown
		}
	}
	j.Requested = r.Shared()
	j.Submit += after / time.Duration(len(members))
	j.Duration = g.share(j.GPUs, work, len(members))
	grow(&j, len(members))
	return j
}

// addRequest adds the request of another member.
func addRequest(r *workload.Request, o workload.Request) {
	r.MilliCPUs += o.MilliCPUs
	r.Memory += o.Memory
	r.TimeLimit = max(r.TimeLimit, o.TimeLimit)
}

// grow makes a job stand for several like it.
func grow(j *workload.Job, members int) {
	j.GPUs *= workload.MilliGPU(members)
	j.Members = int32(members)
	j.HasWait, j.Wait = false, 0
}

// mergeActive is the active job of a group, and the time it has left.
func (g *grouping) mergeActive(jobs []workload.ActiveJob, left []time.Duration,
	members []int) (workload.ActiveJob, time.Duration) {
	first := &jobs[members[0]]
	a := *first
	a.RunTime, a.WaitTime, a.Attained, a.LevelAttained, a.Placement, a.Held = 0, 0, 0, 0, nil, 0
	r := a.Request()
	var submit, since, lease, work time.Duration
	for _, i := range members {
		b := &jobs[i]
		submit += b.Submit - first.Submit
		since += b.Since - first.Since
		lease += b.LeaseUntil - first.LeaseUntil
		a.RunTime += b.RunTime
		a.WaitTime += b.WaitTime
		a.Attained += b.Attained
		if b.HasLevel {
			a.HasLevel = true
			a.LevelAttained += b.LevelAttained
		} else {
			a.LevelAttained += b.Attained
		}
		a.Starts, a.Preemptions, a.Resizes = max(a.Starts, b.Starts), max(a.Preemptions, b.Preemptions),
			max(a.Resizes, b.Resizes)
		work += left[i]
		if b != first {
			addRequest(&r, b.Request())
		}
		if b.Running {
			a.Held += b.GPUs.Whole()
			a.Placement = addNode(a.Placement, b.Placement[0])
		}
	}
	n := time.Duration(len(members))
	a.Requested = r.Shared()
	a.Submit += submit / n
	a.Since += since / n
	a.LeaseUntil += lease / n
	a.RunTime, a.WaitTime = a.RunTime/n, a.WaitTime/n
	rest := g.share(a.GPUs, work, len(members))
	grow(&a.Job, len(members))
	return a, rest
}

func addNode(at []workload.NodeGPUs, n workload.NodeGPUs) []workload.NodeGPUs {
	for k := range at {
		if at[k].Node == n.Node {
			at[k].GPUs += n.GPUs
			return at
		}
	}
	return append(at, n)
}
