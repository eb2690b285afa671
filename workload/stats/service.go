package stats

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/pq"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// Service is how the GPU-time (service) is distributed over jobs. Most of a
// deep-learning cluster's goes to few jobs.
type Service struct {
	// Top1, Top5 and Top10 are the shares of GPU-time of the 1, 5 and 10 % of jobs
	// that take most.
	Top1  float64 `json:"top_1_percent"`
	Top5  float64 `json:"top_5_percent"`
	Top10 float64 `json:"top_10_percent"`
	// GPUHours of a job.
	GPUHours Quantiles `json:"gpu_hours"`
}

// Waits are the queueing delays that the trace's own cluster had.
type Waits struct {
	Known float64 `json:"known"` // share of jobs whose delay is known
	Quantiles
}

// Status is the jobs that ended in one way; "unknown" for jobs of which
// the trace has no status.
type Status struct {
	Status       string  `json:"status"`
	Jobs         int     `json:"jobs"`
	JobShare     float64 `json:"job_share"`
	GPUTimeShare float64 `json:"gpu_time_share"`
}

// Users is how unequal users are.
type Users struct {
	Users int `json:"users"`
	// Top5Jobs and Top5GPUTime are the shares of the 5 % of users (at least one)
	// that have most of each.
	Top5Jobs    float64 `json:"top_5_percent_jobs"`
	Top5GPUTime float64 `json:"top_5_percent_gpu_time"`
}

// Model is the jobs of one model class, most GPU-time first.
type Model struct {
	Model        string  `json:"model"` // empty for jobs without
	Jobs         int     `json:"jobs"`
	JobShare     float64 `json:"job_share"`
	GPUTimeShare float64 `json:"gpu_time_share"`
	P50S         float64 `json:"p50_duration_s"`
}

// sizeBands are the upper ends of bands of sizes, in GPUs; 0 is no end.
var sizeBands = []float64{.5, .999, 1, 2, 4, 8, 16, 32, 64, 0}

// columns are values of jobs where they are known; of groups, one after the other.
type columns struct{ durations, waits []float64 }

// jobGroup gathers jobs that have something in common.
type jobGroup struct {
	jobs int
	columns
	gpus, gpuHours float64
}

func (g *jobGroup) add(j *workload.Job) {
	g.jobs++
	if j.Status.Ended() {
		g.durations = append(g.durations, j.Duration.Seconds())
	}
	if j.HasWait {
		g.waits = append(g.waits, j.Wait.Seconds())
	}
	g.gpus += float64(j.GPUs) / 1000
	g.gpuHours += gpuHours(j)
}

func (g *jobGroup) duration(q float64) float64 {
	if len(g.durations) == 0 {
		return 0
	}
	slices.Sort(g.durations)
	return stats.Quantile(g.durations, q)
}

func (g *jobGroup) wait(q float64) float64 {
	if len(g.waits) == 0 {
		return 0
	}
	slices.Sort(g.waits)
	return stats.Quantile(g.waits, q)
}

// groups gathers jobs by key, in order of first appearance. It counts them first, so
// that the values of millions are held once, in memory for all of them that the next
// grouping may take.
func groups[K comparable](all columns, jobs []workload.Job, key func(*workload.Job) K) (keys []K, of []*jobGroup) {
	at := map[K]int{}
	var ended, waited []int
	for i := range jobs {
		j := &jobs[i]
		k := key(j)
		n, ok := at[k]
		if !ok {
			n = len(keys)
			at[k] = n
			keys, ended, waited = append(keys, k), append(ended, 0), append(waited, 0)
		}
		if j.Status.Ended() {
			ended[n]++
		}
		if j.HasWait {
			waited[n]++
		}
	}
	of = make([]*jobGroup, len(keys))
	for n := range of {
		of[n] = &jobGroup{columns: columns{all.durations[:0:ended[n]], all.waits[:0:waited[n]]}}
		all.durations, all.waits = all.durations[ended[n]:], all.waits[waited[n]:]
	}
	for i := range jobs {
		of[at[key(&jobs[i])]].add(&jobs[i])
	}
	return keys, of
}

// describeService fills in where GPU-time went: by size, status, user, model
// and tenant. durations has as many values as jobs that ended.
func (s *Description) describeService(jobs []workload.Job, durations []float64) {
	var waits []float64
	for i := range jobs {
		if jobs[i].HasWait {
			waits = append(waits, jobs[i].Wait.Seconds())
		}
	}
	if len(waits) > 0 {
		s.Waits = &Waits{Known: float64(len(waits)) / float64(len(jobs)), Quantiles: quantilesOf(waits)}
	}
	all := columns{durations, waits}
	n := float64(len(jobs))
	share := func(g *jobGroup) (jobs, gpuTime float64) { return float64(g.jobs) / n, g.gpuHours / s.GPUHours }

	sized := func(gpus float64, g *jobGroup) Size {
		z := Size{GPUs: gpus, Jobs: g.jobs, P50S: g.duration(.5), P90S: g.duration(.9), WaitP50S: g.wait(.5)}
		z.JobShare, z.GPUTimeShare = share(g)
		return z
	}
	sizes, ofSize := groups(all, jobs, func(j *workload.Job) workload.MilliGPU { return j.GPUs })
	for i, gpus := range sizes {
		s.Sizes = append(s.Sizes, sized(float64(gpus)/1000, ofSize[i]))
	}
	slices.SortFunc(s.Sizes, func(a, b Size) int { return cmp.Compare(a.GPUs, b.GPUs) })
	band := func(j *workload.Job) int {
		for i, end := range sizeBands {
			if end == 0 || float64(j.GPUs) <= 1000*end {
				return i
			}
		}
		return len(sizeBands) - 1
	}
	bands, ofBand := groups(all, jobs, band)
	for i := range sizeBands {
		if k := slices.Index(bands, i); k >= 0 {
			s.SizeBands = append(s.SizeBands, sized(sizeBands[i], ofBand[k]))
		}
	}

	statuses, ofStatus := groups(all, jobs, func(j *workload.Job) workload.Status { return j.Status })
	for _, status := range []workload.Status{workload.Completed, workload.Cancelled, workload.Failed,
		workload.OutOfMemory, workload.TimedOut, workload.Running, workload.Pending, workload.Unknown} {
		if k := slices.Index(statuses, status); k >= 0 {
			x := Status{Status: status.String(), Jobs: ofStatus[k].jobs}
			if status == workload.Unknown {
				x.Status = "unknown"
			}
			x.JobShare, x.GPUTimeShare = share(ofStatus[k])
			s.Statuses = append(s.Statuses, x)
		}
	}

	if models, ofModel := groups(all, jobs, func(j *workload.Job) string {
		return j.Model
	}); len(models) > 1 || models[0] != "" {
		for i, model := range models {
			x := Model{Model: model, Jobs: ofModel[i].jobs, P50S: ofModel[i].duration(.5)}
			x.JobShare, x.GPUTimeShare = share(ofModel[i])
			s.Models = append(s.Models, x)
		}
		slices.SortFunc(s.Models, func(a, b Model) int {
			return cmp.Or(cmp.Compare(b.GPUTimeShare, a.GPUTimeShare), cmp.Compare(a.Model, b.Model))
		})
	}

	tenants, ofTenant := groups(all, jobs, func(j *workload.Job) string { return j.Tenant })
	for i, name := range tenants {
		g := ofTenant[i]
		x := Tenant{Tenant: name, Jobs: g.jobs, GPUHours: g.gpuHours, MeanGPUs: g.gpus / float64(g.jobs),
			P50S: g.duration(.5), WaitP50S: g.wait(.5)}
		x.JobShare, x.GPUTimeShare = share(g)
		s.Tenants = append(s.Tenants, x)
	}
	slices.SortFunc(s.Tenants, func(a, b Tenant) int {
		return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Tenant, b.Tenant))
	})

	s.Users = usersOf(all, jobs, s.GPUHours)
	service := slices.Grow(durations[:0], len(jobs))[:len(jobs)]
	for i := range jobs {
		service[i] = gpuHours(&jobs[i])
	}
	s.Service.GPUHours = quantilesOf(service) // sorts them
	s.Service.Top1, s.Service.Top5, s.Service.Top10 = topShare(service, .01), topShare(service, .05),
		topShare(service, .1)
}

func usersOf(memory columns, jobs []workload.Job, all float64) *Users {
	users, of := groups(memory, jobs, func(j *workload.Job) string { return j.User })
	var count, hours []float64
	for i, name := range users {
		if name != "" {
			count = append(count, float64(of[i].jobs))
			hours = append(hours, of[i].gpuHours)
		}
	}
	if len(count) == 0 {
		return nil
	}
	slices.Sort(count)
	slices.Sort(hours)
	return &Users{Users: len(count), Top5Jobs: topShare(count, .05), Top5GPUTime: topShare(hours, .05)}
}

// topShare is the share of the sum that the largest have of sorted values: a
// part of them, rounded to whole ones, at least one.
func topShare(v []float64, part float64) float64 {
	k := max(1, int(part*float64(len(v))+.5))
	top, all := 0.0, 0.0
	for i := len(v) - 1; i >= 0; i-- {
		if len(v)-i <= k {
			top += v[i]
		}
		all += v[i]
	}
	if all == 0 {
		return 0
	}
	return top / all
}

func loadOf(w *workload.Workload, c *workload.Cluster) *Load {
	gpus := c.TotalGPUs()
	l := &Load{Nodes: c.Nodes(), GPUsPerNode: c.GPUsPerNode(), GPUs: gpus}
	for i := range c.Groups {
		if c.Groups[i].GPUsPerNode != l.GPUsPerNode {
			l.GPUsPerNode = 0
			break
		}
	}
	first, last := w.Span()
	gpuTime := 0.0
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		gpuTime += j.Duration.Seconds() * float64(j.GPUs) / 1000
		if j.GPUs > workload.GPUs(gpus) {
			l.Wider++
		}
	}
	l.Offered = workload.OfferedLoad(gpuTime, last-first, gpus)
	l.MeanInUse, l.MaxInUse, l.Over = withoutQueue(w, gpus)
	return l
}

// DemandStep is the GPUs in use from an instant on.
type DemandStep struct {
	At   time.Duration
	GPUs workload.MilliGPU
}

// Before orders steps by instant.
func (a DemandStep) Before(b DemandStep) bool { return a.At < b.At }

// Demand is the GPUs in use over time if no job ever waited, from an empty
// cluster at the first submission: steps, the last of them to zero GPUs.
func Demand(w *workload.Workload) iter.Seq[DemandStep] {
	return func(yield func(DemandStep) bool) {
		var ends pq.Queue[DemandStep] // of the jobs in use
		used := workload.MilliGPU(0)
		for jobs := w.Jobs(); len(jobs) > 0 || len(ends) > 0; {
			var at time.Duration
			if len(jobs) > 0 && (len(ends) == 0 || jobs[0].Submit <= ends[0].At) {
				at = jobs[0].Submit
			} else {
				at = ends[0].At
			}
			for ; len(jobs) > 0 && jobs[0].Submit == at; jobs = jobs[1:] {
				used += jobs[0].GPUs
				ends.Push(DemandStep{at + jobs[0].Duration, jobs[0].GPUs})
			}
			for len(ends) > 0 && ends[0].At == at {
				used -= ends.Pop().GPUs
			}
			if !yield(DemandStep{at, used}) {
				return
			}
		}
	}
}

// withoutQueue sums up Demand between the first and the last submission.
func withoutQueue(w *workload.Workload, gpus int) (mean, most, over float64) {
	first, last := w.Span()
	area, above := 0.0, 0.0
	before := DemandStep{At: first}
	for step := range Demand(w) {
		span := (min(last, step.At) - before.At).Seconds()
		area += float64(before.GPUs) / 1000 * span
		if before.GPUs > workload.GPUs(gpus) {
			above += span
		}
		if step.At > last {
			break
		}
		most = max(most, float64(step.GPUs)/1000)
		before = step
	}
	if span := (last - first).Seconds(); span > 0 {
		mean, over = area/span, above/span
	}
	return mean, most, over
}
