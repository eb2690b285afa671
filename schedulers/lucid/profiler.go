package lucid

import (
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// pool is the nodes of the profiler.
const pool = 1

// profiler runs new jobs for a short time on nodes of its own, narrow jobs first. A
// job that finds no place blocks later ones, which are at least as wide.
//
// It takes nodes as they become empty (simulator.Plan.Partition). Until it has all, it
// profiles jobs that are narrow enough for the ones it has; others go to the main queue.
type profiler struct {
	want   int // nodes
	time   time.Duration
	factor int

	s     *simulator.View
	plan  *simulator.Plan
	nodes int // want, but fewer than the cluster's
	// GPUs of a node, and of all nodes beside it.
	perNode, beside int
	wide            int     // active jobs that need the profiler's nodes
	had             int     // nodes at the last decision
	queue           []line  // by width
	state           []stage // by job
	over            []simulator.ID
}

// line is the waiting jobs of a width, in order of submission.
type line struct {
	gpus int
	jobs lanes.List
}

type stage uint8

const (
	outside stage = iota
	queued
	profiled // is being profiled
)

func (p *profiler) reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan, p.wide, p.had = s, plan, 0, 0
	for i := range p.queue {
		p.queue[i].jobs.Reset()
	}
	p.state, p.over = p.state[:0], p.over[:0]
	p.nodes = 0
	if s.HasPools() {
		p.nodes = max(0, min(p.want, s.Cluster().Nodes()-1))
	}
	p.perNode = s.Cluster().GPUsPerNode()
	p.beside = (s.Cluster().Nodes() - p.nodes) * p.perNode
	plan.Partition(p.nodes)
}

// needs reports whether a job is wider than the nodes beside the profiler.
func (p *profiler) needs(j simulator.ID) bool {
	return p.s.JobDemand(j) > p.beside
}

// takes reports whether a number of nodes can profile a job.
func (p *profiler) takes(j simulator.ID, nodes int) bool {
	return p.s.JobGPUs(j) <= nodes*p.factor && p.s.JobDemand(j) <= nodes*p.perNode
}

// waits reports whether a waiting job is to be profiled: whether the profiler takes it,
// and took it when it was submitted. Jobs submitted before there was a profiler do not
// queue for it.
func (p *profiler) waits(j simulator.ID) bool {
	return p.wide == 0 && p.s.JobStarts(j) == 0 && p.s.JobFirstPool(j) != 0 &&
		p.takes(j, min(p.s.NodesApart(), p.nodes))
}

// admit adds a job that is to be profiled, or is being profiled.
func (p *profiler) admit(j simulator.ID) {
	p.state = lanes.Grow(p.state, j)
	p.state[j] = outside
	switch {
	case p.nodes == 0:
	case p.needs(j):
		if p.wide++; p.wide == 1 {
			p.plan.Partition(0)
		}
	case !p.s.JobRunning(j):
		if p.waits(j) {
			p.enter(j)
		}
	case p.s.JobPool(j) == pool && p.s.JobPartner(j) < 0:
		// Jobs do not share GPUs in the profiler: a pair found there stays a pair.
		p.state[j] = profiled
		if due := p.s.JobSince(j) + p.time; due > p.s.Now() {
			p.plan.SetQuantum(j, due)
		} else {
			p.over = append(p.over, j)
		}
	}
}

// enter adds a job to the profiler's queue.
func (p *profiler) enter(j simulator.ID) {
	p.state[j] = queued
	p.plan.SetPool(j, pool)
	p.line(p.s.JobDemand(j)).jobs.Insert(lanes.Entry{ID: j})
}

// line returns the queue of a width.
func (p *profiler) line(gpus int) *line {
	i, ok := slices.BinarySearchFunc(p.queue, gpus, func(l line, g int) int { return l.gpus - g })
	if !ok {
		p.queue = slices.Insert(p.queue, i, line{gpus: gpus})
	}
	return &p.queue[i]
}

// has reports whether a job waits for the profiler or is in it.
func (p *profiler) has(j simulator.ID) bool { return p.state[j] != outside }

// finish reports whether a job ended in the profiler.
func (p *profiler) finish(j simulator.ID) bool {
	if p.nodes > 0 && p.needs(j) {
		if p.wide--; p.wide == 0 {
			p.plan.Partition(p.nodes)
		}
	}
	was := p.state[j] == profiled
	p.state[j] = outside
	if i := slices.Index(p.over, j); i >= 0 {
		p.over = slices.Delete(p.over, i, i+1)
	}
	return was
}

// decide releases the jobs that have been profiled, and starts others.
func (p *profiler) decide(main *policy, plan *simulator.Plan) {
	if p.nodes == 0 {
		return
	}
	kept := p.over[:0]
	for _, j := range p.over {
		if !plan.Preempt(j) {
			kept = append(kept, j)
			continue
		}
		p.release(main, j)
	}
	p.over = kept
	has := p.s.NodesApart()
	if has > p.had {
		main.queue.drop(func(j simulator.ID) bool {
			back := p.waits(j)
			if back {
				p.enter(j)
			}
			return back
		})
	}
	p.had = has
	for k := range p.queue {
		l := &p.queue[k].jobs
		for i := 0; i < l.Len(); {
			e := l.At(i)
			switch {
			case p.wide > 0:
				p.release(main, e.ID)
			case has > p.nodes:
				return // the configuration before had more: they empty as jobs have been profiled
			case !p.s.QuotaAllows(e.ID):
				i++ // a tenant's quota does not block other tenants
				continue
			case !plan.Start(e.ID):
				return
			default:
				p.state[e.ID] = profiled
				plan.SetQuantum(e.ID, p.s.Now()+p.time)
			}
			l.Remove(e)
		}
	}
}

// release moves a job to the main queue.
func (p *profiler) release(main *policy, j simulator.ID) {
	p.state[j] = outside
	main.jobs[j].key = main.rank(j)
	main.wait(j)
}
