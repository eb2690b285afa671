// Package kueue is Kueue's admission: jobs wait in ClusterQueues, in order of priority, then of the second in which
// they were created, then of their UIDs, and the heads of all queues are considered together in cycles until nothing
// changes. A job is admitted if its queue has quota for it, its own or borrowed of the cohort. It follows Kueue
// 0.19.2; each rule names the source that it is from.
//
// Queues are the cluster's virtual clusters, of the cohorts that they name. A virtual cluster without a cohort is
// alone, but under simulator.QuotaBorrow and QuotaStrict, where such ones and the GPUs in no quota are a cohort;
// strict ones lend nothing. Without virtual clusters there is one queue for all.
//
// Kueue counts and does not place: an admitted job starts on any free GPUs, however spread (Plan.AllowSpread), at
// the speed of its recorded run, and holds its quota while there are none, as pods wait for a node. Where jobs that
// their queues may never hold wait and nothing runs or arrives any more, the first one starts, so that the run ends.
// Evictions take no time, and lose the work of jobs that do not say otherwise. A run that resumes considers all jobs at
// once, as a manager does that starts.
//
// Left out are several flavors, resources other than GPUs, cohorts of cohorts, topology-aware scheduling, admission
// checks, admission fair sharing and partial admission.
package kueue

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// New makes the policy of a configuration of Space and SiteParam. Where it has no value, a queue's recorded setting is
// in force (workload.Site.Settings).
func New(c space.Config) simulator.Policy { return &policy{config: c} }

// Scatters marks a simulator.Scattered.
func (p *policy) Scatters() {}

const never = time.Duration(math.MaxInt64)

// requeueAfter is the time from the first release of quota until jobs that did not fit are considered again.
// requeueBatchPeriod in pkg/cache/queue/inadmissible_workloads.go.
const requeueAfter = time.Second

type policy struct {
	config space.Config
	draw   draw

	v        *simulator.View
	plan     *simulator.Plan
	why      *simulator.Why // nil unless asked for
	observed simulator.ID   // jobs below it were active when the run or the policy began
	fair     bool
	queues   []queue
	cohorts  []cohort
	byName   map[string]int32
	jobs     []job
	idle     []simulator.ID // admitted jobs without GPUs, in order of admission

	entries  []entry
	reserved []reservation
	victims
}

// job is the policy's record of an active job.
type job struct {
	queue    int32
	kind     int32 // index of the queue's kinds
	at       int32 // index of the queue's admitted jobs, -1 while it waits
	gpus     int32
	priority int64
	order    int64 // older is less: seconds, then the UID
	uid      uint64
	evicted  time.Duration // the last instant
}

// queue is a ClusterQueue.
type queue struct {
	Queue
	cohort   int32
	local    int // quota that it never lends
	used     int
	kinds    []kind
	waiting  int
	admitted []simulator.ID
	// preemptor is a job that preempts: while it waits it is the head of a BestEffortFIFO queue; -1 for none.
	// preemptorWorkload in pkg/cache/queue/cluster_queue.go.
	preemptor simulator.ID
}

// kind is the waiting jobs of one size and priority. They are set aside together when one of them does not fit in a
// BestEffortFIFO queue, with the ones that come later. SchedulingEquivalenceHashing.
type kind struct {
	gpus     int32
	priority int64
	jobs     lanes.List
	aside    bool
}

// cohort is queues that lend each other quota, or a queue alone.
type cohort struct {
	lent    int // the quota that its queues lend, and its own
	used    int // of it
	queues  []int32
	alone   bool
	changed bool          // since its last cycle
	requeue time.Duration // when jobs set aside are considered again, or never
}

func (p *policy) Reset(v *simulator.View, plan *simulator.Plan) {
	p.v, p.plan, p.observed = v, plan, v.Submitted()
	c := v.Cluster()
	p.fair = c.Site.Settings[FairSharing] == "true"
	p.jobs, p.idle, p.queues, p.cohorts = p.jobs[:0], p.idle[:0], p.queues[:0], p.cohorts[:0]
	p.byName = map[string]int32{}
	if len(c.VCs) == 0 {
		q := Defaults("")
		q.Nominal = v.TotalGPUs()
		q.configure(p.config, q.Nominal)
		p.add(q, p.group(true))
		return
	}
	rest := c.TotalGPUs()
	c.VCs = slices.Clone(c.VCs)
	for i := range c.VCs {
		if rest -= c.VCs[i].GPUs; c.VCs[i].Cohort == "" && v.Quota() != simulator.QuotaOff {
			c.VCs[i].Cohort = shared
		}
	}
	cohorts := map[string]int32{}
	if v.Quota() != simulator.QuotaOff {
		cohorts[shared] = p.group(false)
		p.cohorts[cohorts[shared]].lent = max(0, rest)
	}
	for _, q := range Queues(c, p.config) {
		to, known := cohorts[q.Cohort]
		if !known {
			to = p.group(q.Cohort == "")
			if q.Cohort != "" {
				cohorts[q.Cohort] = to
			}
		}
		if q.Cohort == shared && v.Quota() == simulator.QuotaStrict {
			q.LendingLimit = workload.BoundOf(0)
		}
		p.add(q, to)
	}
}

// shared is the cohort of the virtual clusters that name none. It is no name in Kubernetes.
const shared = "/"

// group adds a cohort.
func (p *policy) group(alone bool) int32 {
	n := len(p.cohorts)
	if n < cap(p.cohorts) {
		p.cohorts = p.cohorts[:n+1]
	} else {
		p.cohorts = append(p.cohorts, cohort{})
	}
	p.cohorts[n] = cohort{queues: p.cohorts[n].queues[:0], alone: alone, requeue: never}
	return int32(n)
}

// add adds a queue to a cohort.
func (p *policy) add(of Queue, to int32) int32 {
	n := int32(len(p.queues))
	q := queue{Queue: of, cohort: to, preemptor: -1}
	if of.LendingLimit.Set {
		q.local = max(0, of.Nominal-of.LendingLimit.GPUs)
	}
	p.queues = append(p.queues, q)
	c := &p.cohorts[to]
	c.queues = append(c.queues, n)
	c.lent += of.Nominal - q.local
	p.byName[of.Name] = n
	return n
}

// queueOf is the queue of a job's tenant. A tenant without a virtual cluster has a queue without quota.
func (p *policy) queueOf(j simulator.ID) int32 {
	name := p.v.JobTenantName(j)
	if len(p.v.Cluster().VCs) == 0 {
		name = ""
	}
	if i, ok := p.byName[name]; ok {
		return i
	}
	if p.v.Quota() == simulator.QuotaOff {
		return p.add(Defaults(name), p.group(true))
	}
	q := Defaults(name)
	q.Cohort = shared
	q.configure(p.config, 0)
	return p.add(q, 0)
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	p.jobs = lanes.Grow(p.jobs, j)
	x := &p.jobs[j]
	uid := p.draw.uid(p.v.JobName(j))
	created := p.v.JobSubmit(j) + p.draw.phase
	*x = job{queue: p.queueOf(j), at: -1, gpus: int32(p.v.JobDemand(j)), uid: uid,
		priority: p.v.JobRequest(j).Priority, order: seconds(created)<<30 | int64(uid>>34), evicted: -never}
	q := &p.queues[x.queue]
	x.kind = q.kindOf(x)
	p.cohorts[q.cohort].changed = true
	if p.v.JobRunning(j) {
		p.take(j)
		return
	}
	p.wait(j)
	p.plan.AllowSpread(j, true)
	if j < p.observed {
		p.plan.WakeAt(p.v.Now() + 1)
	}
}

// seconds are the whole ones of an instant.
func seconds(t time.Duration) int64 {
	s := int64(t / time.Second)
	if t%time.Second < 0 {
		s--
	}
	return s
}

// kindOf is the kind of a job, added if it is new.
func (q *queue) kindOf(x *job) int32 {
	for i := range q.kinds {
		if k := &q.kinds[i]; k.gpus == x.gpus && k.priority == x.priority {
			return int32(i)
		}
	}
	q.kinds = append(q.kinds, kind{gpus: x.gpus, priority: x.priority})
	return int32(len(q.kinds) - 1)
}

// wait puts a job into its queue.
func (p *policy) wait(j simulator.ID) {
	x := &p.jobs[j]
	q := &p.queues[x.queue]
	q.kinds[x.kind].jobs.Insert(lanes.Entry{Key: x.order, ID: j})
	q.waiting++
}

// leave takes a job out of its queue.
func (p *policy) leave(j simulator.ID) {
	x := &p.jobs[j]
	q := &p.queues[x.queue]
	q.kinds[x.kind].jobs.Remove(lanes.Entry{Key: x.order, ID: j})
	q.waiting--
}

// take gives a job quota of its queue.
func (p *policy) take(j simulator.ID) {
	x := &p.jobs[j]
	q := &p.queues[x.queue]
	x.at = int32(len(q.admitted))
	q.admitted = append(q.admitted, j)
	p.use(q, int(x.gpus))
	if q.preemptor == j {
		q.preemptor = -1
	}
}

// release takes a job's quota back, and sets the time at which jobs set aside are considered again.
// NotifyRetryInadmissible in pkg/cache/queue/inadmissible_workloads.go.
func (p *policy) release(j simulator.ID) {
	x := &p.jobs[j]
	q := &p.queues[x.queue]
	last := len(q.admitted) - 1
	moved := q.admitted[last]
	q.admitted[x.at], p.jobs[moved].at = moved, x.at
	q.admitted, x.at = q.admitted[:last], -1
	p.use(q, -int(x.gpus))
	c := &p.cohorts[q.cohort]
	c.changed = true
	if c.requeue == never {
		c.requeue = p.v.Now() + requeueAfter
	}
}

func (p *policy) Finish(j simulator.ID) { p.release(j) }

// Plan runs cycles until nothing changes.
func (p *policy) Plan(plan *simulator.Plan) {
	p.place(plan)
	for i := range p.cohorts {
		c := &p.cohorts[i]
		if c.requeue <= p.v.Now() {
			c.requeue, c.changed = never, true
			for _, q := range c.queues {
				kinds := p.queues[q].kinds
				for k := range kinds {
					kinds[k].aside = false
				}
			}
		}
		for c.changed {
			c.changed = false
			p.cycle(plan, c)
		}
		if c.requeue != never {
			plan.WakeAt(c.requeue)
		}
	}
	p.place(plan)
	p.note()
}

// place starts admitted jobs that have no GPUs yet.
func (p *policy) place(plan *simulator.Plan) {
	p.idle = slices.DeleteFunc(p.idle, plan.Start)
}

// admit gives a waiting job its quota, and GPUs if there are some.
func (p *policy) admit(plan *simulator.Plan, j simulator.ID) {
	p.leave(j)
	p.take(j)
	if !plan.Start(j) {
		p.idle = append(p.idle, j)
	}
}

// Stalled implements simulator.Stallable: the first of all jobs that wait is admitted.
func (p *policy) Stalled() {
	var first simulator.ID = -1
	for i := range p.queues {
		if j := p.queues[i].first(true); j >= 0 && (first < 0 || p.before(j, first)) {
			first = j
		}
	}
	if first >= 0 {
		p.leave(first)
		p.take(first)
		p.idle = append(p.idle, first)
		p.cohorts[p.queues[p.jobs[first].queue].cohort].changed = true
	}
}

// first is the job of a queue to consider next, also of the ones set aside if all is set; -1 if there is none.
func (q *queue) first(all bool) simulator.ID {
	var best *kind
	for i := range q.kinds {
		k := &q.kinds[i]
		if k.jobs.Len() == 0 || k.aside && !all {
			continue
		}
		if best == nil || k.priority > best.priority ||
			k.priority == best.priority && k.jobs.At(0).Before(best.jobs.At(0)) {
			best = k
		}
	}
	if best == nil {
		return -1
	}
	return best.jobs.At(0).ID
}

// head is the first job of a queue, or a preemptor that waits for the quota of its victims.
func (p *policy) head(q *queue) simulator.ID {
	if j := q.preemptor; j >= 0 && q.Strategy == BestEffortFIFO && p.jobs[j].at < 0 && !q.kinds[p.jobs[j].kind].aside {
		return j
	}
	return q.first(false)
}

// before is the order of heads of equal needs: higher priority, then older.
func (p *policy) before(a, b simulator.ID) bool {
	x, y := &p.jobs[a], &p.jobs[b]
	return cmp.Or(cmp.Compare(y.priority, x.priority), cmp.Compare(x.order, y.order), cmp.Compare(a, b)) < 0
}
