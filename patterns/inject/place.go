package inject

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// run is a job of the trace on its GPUs.
type run struct {
	job        workload.Job
	index      int
	start, end time.Duration
	ends       bool  // before the window does
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

// place runs the trace's jobs, and those of crash loops, on the cluster: in order of submission,
// smaller jobs passing those that find no place.
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
	w, err := workload.New(o.Trace.Name(), o.Trace.Zero(), jobs)
	if err != nil {
		return err
	}
	var sim simulator.Sim
	runs := make([]*run, w.Len())
	free := make([][]int, o.Nodes) // indices of free GPUs
	for n := range free {
		for g := range o.GPUsPerNode {
			free[n] = append(free[n], g)
		}
	}
	observe := func(e simulator.Event) {
		switch e.Kind {
		case workload.Started:
			r := &run{job: *sim.Spec(e.Job), start: e.Time, end: o.To}
			for _, p := range sim.Placement(nil, e.Job) {
				for range p.GPUs {
					g := free[p.Node][0]
					free[p.Node] = free[p.Node][1:]
					r.at = append(r.at, p.Node*o.GPUsPerNode+g)
				}
			}
			runs[e.Job] = r
		case workload.Finished:
			r := runs[e.Job]
			r.end, r.ends = e.Time, true
			for _, at := range r.at {
				free[at/o.GPUsPerNode] = append(free[at/o.GPUsPerNode], at%o.GPUsPerNode)
			}
		}
	}
	policy := &lanes.Line{Key: func(*simulator.View, simulator.ID) int64 { return 0 }, Backfill: true}
	err = sim.Start(workload.Uniform(o.Nodes, o.GPUsPerNode), w, policy, simulator.Options{Observer: observe})
	if err == nil {
		err = sim.RunUntil(context.Background(), o.To-1)
	}
	if err != nil {
		return err
	}
	for id, r := range runs {
		j := sim.Spec(simulator.ID(id))
		if r == nil {
			s.waits = append(s.waits, wait{j.Tenant, j.GPUs.Whole(), j.Submit, o.To})
			r = &run{job: *j, start: o.To, end: o.To}
		} else {
			s.waits = append(s.waits, wait{j.Tenant, j.GPUs.Whole(), j.Submit, r.start})
			s.Jobs++
		}
		r.job.Requested = workload.Request{Partition: main}.Shared()
		s.runs = append(s.runs, r)
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
		events = append(events, event(workload.Submitted, r.job.Submit, r.job, nil))
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
		events = append(events, event(workload.Started, r.start, r.job, at))
		if r.ends {
			events = append(events, event(workload.Finished, r.end, r.job, nil))
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
