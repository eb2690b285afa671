package fidelity

import (
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// pool is a part of the cluster that shares no job with the rest: the nodes that jobs of some partitions and GPU models
// run on. GPUs are in thousandths.
type pool struct {
	size int64
	free steps // as recorded
}

// pools are the parts of a cluster, and which of them a job runs in.
type pools struct {
	all []pool
	of  func(*workload.Job) int
}

// poolsOf divides the cluster: two groups of nodes are in one pool if a job may run on either.
func poolsOf(in *Input) *pools {
	groups := in.Cluster.Groups
	root := make([]int, len(groups))
	for i := range root {
		root[i] = i
	}
	type demand struct{ model, partition string }
	first := map[demand]int{}
	group := func(j *workload.Job) int {
		model, partition := in.Cluster.Constraint(j.Request())
		d := demand{model, partition}
		if at, known := first[d]; known {
			return at
		}
		at := -1
		for i := range groups {
			switch {
			case !groups[i].Satisfies(model, partition):
			case at < 0:
				at = i
			default:
				from, to := root[i], root[at]
				for k := range root {
					if root[k] == from {
						root[k] = to
					}
				}
			}
		}
		first[d] = max(0, at)
		return first[d]
	}
	jobs := in.Trace.Jobs()
	for i := range jobs {
		group(&jobs[i])
	}
	var roots []int
	place := func(group int) int {
		at := slices.Index(roots, root[group])
		if at < 0 {
			at, roots = len(roots), append(roots, root[group])
		}
		return at
	}
	for i := range groups {
		place(i)
	}
	p := &pools{all: make([]pool, max(1, len(roots)))}
	p.of = func(j *workload.Job) int {
		if len(groups) == 0 {
			return 0
		}
		return place(group(j))
	}
	free := make([][]delta, len(p.all))
	for k := range p.all {
		free[k] = capacity(in, func(group int) bool { return place(group) == k })
		p.all[k].size = free[k][0].by
	}
	for i := range jobs {
		if j := &jobs[i]; j.HasWait {
			start := j.Submit + j.Wait
			k := p.of(j)
			free[k] = append(free[k], delta{start, -int64(j.GPUs)}, delta{start + j.Duration, int64(j.GPUs)})
		}
	}
	for k := range p.all {
		p.all[k].free = stepsOf(free[k])
	}
	return p
}

// idle is how long each recorded job waited while the GPUs that it asks for were free in its pool, and how long of it a
// wider job of the pool that was submitted before it waited for more GPUs than were free: backfill, or a strict order,
// keeps room for it.
func (p *pools) idle(pairs []pair) (idle, reserved []time.Duration) {
	idle, reserved = make([]time.Duration, len(pairs)), make([]time.Duration, len(pairs))
	for k := range p.all {
		enough := p.all[k].free.byLevel()
		var ahead []*pair // of the pool, in order of submission, as long as they wait
		for i := range pairs {
			x := &pairs[i]
			if p.of(x.job) != k {
				continue
			}
			from, to := x.job.Submit, x.job.Submit+x.recorded
			own := enough(int64(x.job.GPUs))
			idle[i] = own(to) - own(from)
			ahead = slices.DeleteFunc(ahead, func(a *pair) bool { return a.job.Submit+a.recorded <= from })
			for _, a := range ahead {
				if a.job.GPUs <= x.job.GPUs || idle[i] == 0 {
					continue
				}
				wide, until := enough(int64(a.job.GPUs)), min(to, a.job.Submit+a.recorded)
				reserved[i] = max(reserved[i], own(until)-own(from)-(wide(until)-wide(from)))
			}
			ahead = append(ahead, x)
		}
	}
	return idle, reserved
}
