package schedulers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// drawNodeEvents draws a trial's node events, some of it at once or on a
// coarse grid. In the end all are up.
func drawNodeEvents(t *rapid.T, c *trial) {
	if c.opts.Placement == simulator.Count {
		c.opts.Placement = simulator.ConsolidateFewest
	}
	c.opts.Peer.QuotaOnly = false // a job wider than the rest would keep GPUs idle that others fit
	first, last := c.w.Span()
	span := int((last-first)/time.Second) + 40_000
	var events []workload.NodeEvent
	end := first
	for range uniform(1, 20).Draw(t, "node events") {
		e := workload.NodeEvent{Node: uniform(0, c.cluster.Nodes()-1).Draw(t, "node"),
			At: first + time.Duration(uniform(-1000, span).Draw(t, "seconds"))*time.Second,
			Kind: []workload.EventKind{workload.NodeDown, workload.NodeDrained, workload.NodeUp}[uniform(0, 2).Draw(t,
				"node event")]}
		if rapid.Bool().Draw(t, "coarse") {
			e.At = e.At.Round(20 * time.Minute)
		}
		events, end = append(events, e), max(end, e.At)
	}
	slices.SortStableFunc(events, func(a, b workload.NodeEvent) int { return int(a.At - b.At) })
	for n := range c.cluster.Nodes() {
		events = append(events, workload.NodeEvent{At: end + time.Hour, Node: n, Kind: workload.NodeUp})
	}
	c.opts.Nodes = events
}

// TestNodesGoAndCome: under every scheduler, no job is on a node that is down, none
// starts on one that drains, and the other properties hold.
func TestNodesGoAndCome(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, used *simulator.Sim) {
		drawNodeEvents(t, &c)
		sim := new(simulator.Sim)
		status := make([]workload.EventKind, c.cluster.Nodes())
		c.watch = func(e simulator.Event) { checkNodes(t, sim, e, status) }
		r, err := c.run(sim)
		c.watch = nil
		sameBytes(t, c, r, err, used)
		observerSeesLives(t, c, r)
		if err != nil {
			namesUnfinishedJob(t, c, r, err)
			t.Skip("the run failed")
		}
		everyJobEnds(t, c, r, sim)
		gpusNeverOversubscribed(t, c, r)
		gangsWhole(t, c, r)
		workConserved(t, c, r)
	})
}

// checkNodes notes the last event of each node, and compares which jobs run where with it
// and with the free GPUs.
func checkNodes(t *rapid.T, s *simulator.Sim, e simulator.Event, status []workload.EventKind) {
	switch {
	case e.Kind.OfNode():
		if e.Kind != workload.NodeDrained || status[e.Node] != workload.NodeDown {
			status[e.Node] = e.Kind
		}
		if s.Submitted() == 0 {
			return // the state at the begin
		}
	case e.Kind == workload.Started || e.Kind == workload.Resumed || e.Kind == workload.Resized:
		for _, n := range s.Placement(nil, e.Job) {
			if k := status[n.Node]; k == workload.NodeDown || k == workload.NodeDrained {
				t.Fatalf("at %v: %s starts on node %d, of which the last event is %v",
					e.Time, s.JobName(e.Job), n.Node, k)
			}
		}
	}
	held := make([]int, len(status)) // GPUs by node
	for id := range s.Submitted() {
		if !s.JobRunning(id) {
			continue
		}
		for _, n := range s.Placement(nil, id) {
			if status[n.Node] == workload.NodeDown && e.Kind.OfNode() {
				t.Fatalf("at %v: %s runs on node %d, which is down", e.Time, s.JobName(id), n.Node)
			}
			if partner := s.JobPartner(id); partner < 0 || partner > id {
				held[n.Node] += n.GPUs
			}
		}
	}
	if !e.Kind.OfNode() {
		return // a start may be reported before the stop that makes room for it
	}
	usable, used := 0, 0
	for n, k := range status {
		used += held[n]
		if k == workload.NodeDown || k == workload.NodeDrained {
			usable += held[n]
		} else {
			usable += s.NodeGPUs(n)
		}
	}
	if s.TotalGPUs() != usable || s.Free() != usable-used {
		t.Fatalf("at %v: %d GPUs free of %d, want %d of %d", e.Time, s.Free(), s.TotalGPUs(), usable-used, usable)
	}
}

// TestResumeWithNodeEvents: a run resumed from an observation, with the node events
// after it, goes on as the cluster.
func TestResumeWithNodeEvents(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, used *simulator.Sim) {
		c = interruptible(t, c, evenModels())
		drawNodeEvents(t, &c)
		if c.scheduler.Name == "slurm" { // when the spells of a job that a node stopped were is not reported
			var err error
			if c.config, err = c.scheduler.Space.Parse(c.config, []string{"PriorityWeightFairshare=0"}); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "ties") {
			c.w = tie(t, c.w)
		}
		whole := startLive(t, c)
		if err := whole.sim.Run(context.Background()); err != nil {
			t.Skip("the run failed")
		}
		resumeContinues(t, c, whole, drawInstant(t, whole.log), used)
	})
}

// resumeContinues: the State at an instant with the true remainders goes on as the cluster
// itself and as a fork of it.
func resumeContinues(t *rapid.T, c trial, whole *live, at time.Duration, _ *simulator.Sim) {
	if forgetful[c.scheduler.Name] != "" {
		return
	}
	if c.stalls != nil && *c.stalls > 0 {
		t.Skip("the run stalled")
	}
	want := whole.log.after(at)
	wantOut := outcomesByName(&whole.sim, c, want)

	part := startLive(t, c)
	part.runTo(t, at)
	state, left := part.observe(t, c)

	fork := new(simulator.Sim)
	part.sim.Fork(fork, c.scheduler.New(c.config))
	if err := fork.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if diff := c.diff(wantOut, outcomesByName(fork, c, want)); diff != "" {
		t.Fatalf("a fork at %v goes another way (-cluster +fork):\n%s", at, diff)
	}

	c.opts.Past = part.past(c)
	resumed := new(simulator.Sim)
	got, err := c.resume(resumed, state, left)
	if errors.Is(err, simulator.ErrBudget) {
		t.Skip("the budget counts from the begin of a run")
	}
	if err != nil {
		t.Fatal(err)
	}
	c.undecided(t, want, got)
	if diff := c.diff(want, got); diff != "" {
		t.Fatalf("resumed at %v, it goes another way (-cluster +resumed):\n%s", at, diff)
	}
	if diff := c.diff(wantOut, outcomesByName(resumed, c, want)); diff != "" {
		t.Fatalf("resumed at %v (-cluster +resumed):\n%s", at, diff)
	}
}
