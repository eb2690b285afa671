package themis

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// checked compares the rho of each waiting job with that of its outlook.
type checked struct {
	*policy
	t        *testing.T
	compared int
}

func (c *checked) Plan(plan *simulator.Plan) {
	for i := range c.wait {
		for _, w := range c.wait[i].jobs {
			if got, want := w.rho(c.s.Now(), c.contention(c.wait[i].gpus)),
				c.rho(w.id, c.contention(c.s.JobGPUs(w.id))); got != want {
				c.t.Fatalf("rho of job %d is %v, want %v", w.id, got, want)
			}
			c.compared++
		}
	}
	c.policy.Plan(plan)
}

func TestRhoOfWaiting(t *testing.T) {
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC).Sub(w.Zero())
	w = w.Window(from, from+2*24*time.Hour)
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	half := func(j *workload.Job) time.Duration { return j.Duration / 2 }
	for _, o := range []simulator.Options{{}, {Estimate: half}} {
		p := &checked{policy: New(s.Default()).(*policy), t: t}
		var sim simulator.Sim
		if err := sim.Start(workload.Uniform(40, 8), w, p, o); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if p.compared == 0 {
			t.Error("no job waits")
		}
	}
}
