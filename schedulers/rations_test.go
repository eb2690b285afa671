package schedulers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

const gib = 1 << 30

// ration gives the nodes of a trial CPUs and memory, and its jobs requests that fit.
func ration(t *rapid.T, c *trial) {
	for i := range c.cluster.Groups {
		g := &c.cluster.Groups[i]
		g.CPUs = uniform(0, 10).Draw(t, "CPUs per GPU") * g.GPUsPerNode
		g.Memory = int64(uniform(0, 4).Draw(t, "GiB per GPU")*g.GPUsPerNode) * gib
	}
	jobs := append([]workload.Job(nil), c.w.Jobs()...)
	for i := range jobs {
		j := jobs[i]
		r := j.Request()
		r.MilliCPUs = int64(uniform(0, 12000).Draw(t, "thousandths of CPUs per GPU") * j.GPUs.Whole())
		r.Memory = int64(uniform(0, 5).Draw(t, "GiB per GPU")*j.GPUs.Whole()) * gib
		j.Requested = r.Shared()
		if c.cluster.Fits(&j) {
			jobs[i] = j
		}
	}
	var err error
	if c.w, err = workload.New("rationed", c.w.Zero(), jobs); err != nil {
		t.Fatal(err)
	}
}

// TestRations: no node gives more CPUs or memory than it has, whatever the scheduler, and
// every job ends.
func TestRations(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, used *simulator.Sim) {
		ration(t, &c)
		sim := new(simulator.Sim)
		r, err := c.run(sim)
		sameBytes(t, c, r, err, used)
		if err != nil {
			if !errors.Is(err, simulator.ErrBudget) {
				t.Fatal(err)
			}
			t.Skip("the run failed")
		}
		everyJobEnds(t, c, r, sim)
		gpusNeverOversubscribed(t, c, r)
		gangsWhole(t, c, r)
		if c.opts.Placement == simulator.Count {
			return
		}
		cpus, memory := make([]int64, c.cluster.Nodes()), make([]int64, c.cluster.Nodes())
		r.replay(func(at time.Duration) {
			for n := range cpus {
				g := c.groupOf(n)
				if g.CPUs > 0 && cpus[n] > 1000*int64(g.CPUs) || g.Memory > 0 && memory[n] > g.Memory {
					t.Fatalf("at %v: node %d gives %d thousandths of %d CPUs and %d of %d bytes", at, n, cpus[n],
						g.CPUs, memory[n], g.Memory)
				}
			}
		}, func(s spell, sign int) {
			for _, p := range s.seats {
				each, bytes := c.job(s.job).PerGPU()
				cpus[p.Node] += int64(sign*p.GPUs) * each
				memory[p.Node] += int64(sign*p.GPUs) * bytes
			}
		})
	})
}

// TestRequestsWithoutRations: requests change nothing where the nodes' CPUs and memory are
// unknown, and nodes' CPUs and memory nothing where no job asks for some.
func TestRequestsWithoutRations(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, _ *simulator.Sim) {
		plain, plainErr := c.run(new(simulator.Sim))
		same := func(c trial) {
			r, err := c.run(new(simulator.Sim))
			if (err == nil) != (plainErr == nil) || len(r.outcomes) != len(plain.outcomes) {
				t.Fatalf("%v, %d outcomes; without %v, %d", err, len(r.outcomes), plainErr, len(plain.outcomes))
			}
			for i := range r.outcomes {
				if r.outcomes[i] != plain.outcomes[i] {
					t.Fatalf("%+v, without %+v", r.outcomes[i], plain.outcomes[i])
				}
			}
		}
		groups := append([]workload.NodeGroup(nil), c.cluster.Groups...)
		asking, jobs := c, append([]workload.Job(nil), c.w.Jobs()...)
		for i := range jobs {
			r := jobs[i].Request()
			r.MilliCPUs, r.Memory = 1000, gib
			jobs[i].Requested = r.Shared()
		}
		var err error
		if asking.w, err = workload.New("asking", c.w.Zero(), jobs); err != nil {
			t.Fatal(err)
		}
		same(asking)
		for i := range groups {
			groups[i].CPUs, groups[i].Memory = 1, 1
		}
		having := c
		having.cluster.Groups = groups
		same(having)
	})
}

// TestResumeContinuesWithRations is TestResumeContinues for jobs that ask for CPUs and
// memory.
func TestResumeContinuesWithRations(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, used *simulator.Sim) {
		ration(t, &c)
		c = interruptible(t, c, evenModels())
		whole := startLive(t, c)
		if err := whole.sim.Run(context.Background()); err != nil {
			t.Skip("the run failed")
		}
		resumeContinues(t, c, whole, drawInstant(t, whole.log), used)
	})
}
