package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// run is a job of the trace on its GPUs, from a start until it ends or is stopped.
type run struct {
	job        workload.Job
	index      int
	start, end time.Duration
	ends       bool  // before the window does
	stopped    bool  // at its end, to go on later
	before     *run  // that was stopped
	at         []int // its GPUs, node x GPUs per node + index
	prof       profile
	effects    []effect
	steps      *steps // its iterations, nil for none
}

func (r *run) gpus() int           { return len(r.at) }
func (r *run) span() time.Duration { return r.end - r.start }

// wait is the time that a job waited.
type wait struct {
	tenant   string
	gpus     int
	from, to time.Duration
}

// place runs the trace's jobs, and the jobs of crash loops, on the cluster: in order of submission,
// smaller jobs passing jobs without a place.
func (s *Stream) place(o *Options, loops []*loop) error {
	jobs := s.thin(o)
	if len(jobs) == 0 {
		return fmt.Errorf("%s: no job was submitted from %v to %v", o.Trace.Name(), o.From, o.To)
	}
	for _, l := range loops {
		l.tenant = jobs[s.stream("loop tenant").IntN(len(jobs))].Tenant
		for i := range l.jobs {
			l.jobs[i].Tenant = l.tenant
		}
		jobs = append(jobs, l.jobs...)
	}
	return s.runUnder(o, jobs, &lanes.Line{Key: func(*simulator.View, simulator.ID) int64 { return 0 }, Backfill: true})
}

// runUnder runs jobs on the cluster under a policy that gives whole GPUs to one job at a time.
func (s *Stream) runUnder(o *Options, jobs []workload.Job, policy simulator.Policy) error {
	w, err := workload.New(o.Trace.Name(), o.Trace.Zero(), jobs)
	if err != nil {
		return err
	}
	var sim simulator.Sim
	runs := make([]*run, w.Len()) // the last of each job
	where := map[*run][]workload.NodeGPUs{}
	var begun, over []*run
	resized := false
	observe := func(e simulator.Event) {
		switch r := runs[e.Job]; e.Kind {
		case workload.Started, workload.Resumed:
			r = &run{job: *sim.Spec(e.Job), start: e.Time, end: o.To, before: r}
			where[r] = sim.Placement(nil, e.Job)
			runs[e.Job], begun = r, append(begun, r)
		case workload.Preempted, workload.Finished:
			r.end, r.ends, r.stopped = e.Time, e.Kind == workload.Finished, e.Kind == workload.Preempted
			if over = append(over, r); r.start == r.end {
				runs[e.Job] = r.before
			}
		case workload.Resized:
			resized = true
		}
	}
	err = sim.Start(workload.Uniform(o.Nodes, o.GPUsPerNode), w, policy, simulator.Options{Observer: observe})
	if err == nil {
		err = sim.RunUntil(context.Background(), o.To-1)
	}
	if err != nil {
		return err
	}
	free := make([][]int, o.Nodes) // indices of free GPUs
	for n := range free {
		for g := range o.GPUsPerNode {
			free[n] = append(free[n], g)
		}
	}
	for _, r := range begun {
		if r.start == r.end {
			continue
		}
		for ; len(over) > 0 && over[0].end <= r.start; over = over[1:] {
			for _, at := range over[0].at {
				free[at/o.GPUsPerNode] = append(free[at/o.GPUsPerNode], at%o.GPUsPerNode)
			}
		}
		for _, p := range where[r] {
			if resized || len(free[p.Node]) < p.GPUs {
				return errors.New("jobs share GPUs or change their size, which samples do not show")
			}
			for range p.GPUs {
				g := free[p.Node][0]
				free[p.Node] = free[p.Node][1:]
				r.at = append(r.at, p.Node*o.GPUsPerNode+g)
			}
		}
	}
	for id, r := range runs {
		j := sim.Spec(simulator.ID(id))
		if r == nil {
			r = &run{job: *j, start: o.To, end: o.To}
		} else {
			s.Jobs++
		}
		first := len(s.runs)
		for ; r != nil; r = r.before {
			since := j.Submit
			if r.before != nil {
				since = r.before.end
			}
			s.waits = append(s.waits, wait{j.Tenant, j.GPUs.Whole(), since, r.start})
			r.job.Requested = workload.Request{Partition: main}.Shared()
			s.runs = append(s.runs, r)
		}
		slices.Reverse(s.runs[first:])
	}
	slices.SortStableFunc(s.runs, func(a, b *run) int { return cmp.Compare(a.start, b.start) })
	for i, r := range s.runs {
		r.index = i
	}
	return nil
}

// thin are the jobs of the window, as many as the load allows.
func (s *Stream) thin(o *Options) []workload.Job {
	capacity := float64(o.Nodes*o.GPUsPerNode) * (o.To - o.From).Seconds()
	var out []workload.Job
	asked := 0.
	for _, j := range o.Trace.Window(o.From, o.To).Jobs() {
		gpus := j.GPUs.Whole()
		if gpus < 1 || j.Duration <= 0 {
			continue
		}
		if 2*gpus > o.Nodes*o.GPUsPerNode || o.Nodes == 1 && gpus > o.GPUsPerNode {
			s.Wide++
			continue
		}
		j.GPUs, j.Members, j.Requested, j.Nodes = workload.GPUs(gpus), 0, workload.Requested{}, ""
		j.HasWait, j.Wait, j.Deadline = false, 0, 0
		asked += float64(gpus) * min(j.Duration, o.To-j.Submit).Seconds()
		out = append(out, j)
	}
	r := s.stream("thin")
	keep := o.Load * capacity / max(asked, 1)
	return slices.DeleteFunc(out, func(workload.Job) bool { return r.Float64() >= keep })
}

// contended reports whether a job of another tenant waited for at most a number of GPUs for
// a part of a span that is long enough.
func (s *Stream) contended(tenant string, gpus int, from, to, enough time.Duration) bool {
	return slices.ContainsFunc(s.waits, func(w wait) bool {
		return w.tenant != tenant && w.gpus <= gpus && min(w.to, to)-max(w.from, from) >= enough
	})
}

// jobEvents are the events of the trace's jobs, and the readings of their queue.
func (s *Stream) jobEvents() {
	var events []workload.Event
	for _, r := range s.runs {
		begins := workload.Resumed
		if r.before == nil {
			begins = workload.Started
			events = append(events, event(workload.Submitted, r.job.Submit, r.job, nil))
		}
		if len(r.at) == 0 {
			continue
		}
		var at []workload.NodeShare
		for _, g := range r.at {
			name := s.Nodes[g/s.perNode]
			if n := len(at); n > 0 && at[n-1].Node == name {
				at[n-1].GPUs++
			} else {
				at = append(at, workload.NodeShare{Node: name, GPUs: 1})
			}
		}
		events = append(events, event(begins, r.start, r.job, at))
		switch {
		case r.ends:
			events = append(events, event(workload.Finished, r.end, r.job, nil))
		case r.stopped:
			events = append(events, event(workload.Preempted, r.end, r.job, nil))
		}
	}
	s.addEvents(main, s.Cluster.Groups[0].Nodes*s.perNode, events)
}

func event(kind workload.EventKind, at time.Duration, j workload.Job, where []workload.NodeShare) workload.Event {
	return workload.Event{ID: j.ID + "/" + kind.String() + "/" + strconv.FormatInt(int64(at), 36), Kind: kind, Time: at,
		Job: j, Placement: where}
}

// addEvents adds the events of a partition, and a reading of its queue every minute.
func (s *Stream) addEvents(queue string, gpus int, events []workload.Event) {
	slices.SortStableFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	s.events = append(s.events, events...)
	now := telemetry.QueueSample{Queue: queue, FreeGPUs: gpus, TotalGPUs: gpus}
	running := map[string]bool{}
	next := 0
	for t := s.From; t < s.To; t += time.Minute {
		for ; next < len(events) && events[next].Time <= t; next++ {
			e := &events[next]
			n := e.Job.GPUs.Whole()
			switch e.Kind {
			case workload.Submitted:
				now.Pending, now.PendingGPUs = now.Pending+1, now.PendingGPUs+n
			case workload.Started, workload.Resumed:
				now.Pending, now.PendingGPUs, now.FreeGPUs = now.Pending-1, now.PendingGPUs-n, now.FreeGPUs-n
				running[e.Job.ID] = true
			case workload.Preempted:
				now.Pending, now.PendingGPUs, now.FreeGPUs = now.Pending+1, now.PendingGPUs+n, now.FreeGPUs+n
				delete(running, e.Job.ID)
			case workload.Finished:
				if running[e.Job.ID] {
					now.FreeGPUs += n
					delete(running, e.Job.ID)
				} else {
					now.Pending, now.PendingGPUs = now.Pending-1, now.PendingGPUs-n
				}
			}
		}
		q := now
		q.Time = s.epoch(t)
		s.discrete = append(s.discrete, Record{At: t, Queue: &q})
	}
}
