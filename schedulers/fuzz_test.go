package schedulers_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// FuzzSimulate reads a trace and a configuration as the command line does and
// simulates them: whatever they say, it ends or names the fault, and every
// GPU-second that was held is accounted for.
func FuzzSimulate(f *testing.F) {
	const head = "job_id,submit_time_s,duration_s,num_gpus,vc\n"
	f.Add(head+"a,0,10,1,x\nb,1,1e-9,2,y\nc,5,100,8,\n", "queues=4 queue_thresholds=100,200,300", byte(12), byte(0))
	f.Add(head+"a,0,315360000,1,x\nb,1,3600,8,y\n", "lease_term=60", byte(11), byte(3))
	f.Add(head+"a,3000000000,1,1,x\nb,-3000000000,1,8,y\n", "interval=60\nmax_scale: 16", byte(6), byte(2))
	f.Add(head+"a,0,100,0.25,x\na,0,100,1,x\nb,9e9,NaN,1000000000,y\n", `{"share_limit":4,"profiler_nodes":1}`,
		byte(5), byte(1))
	f.Add("job_id,submit_time,duration_s,gpus,tenant,deadline\na,2017-10-09T00:00:00Z,10,1,x,2017-10-09T00:00:05Z\n",
		"grace=0", byte(8), byte(4))
	f.Fuzz(func(t *testing.T, jobs, config string, which, options byte) {
		w, _, err := trace.Read(t.Context(), strings.NewReader(jobs), "fuzz", trace.Options{MaxRows: 100})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
			return
		}
		c := trial{scheduler: schedulers.All[int(which)%len(schedulers.All)], w: w, cluster: workload.Uniform(3, 4)}
		if c.config, err = decode(c.scheduler.Space, config); err != nil {
			if v := (space.Violations)(nil); !errors.As(err, &v) || len(v) == 0 {
				t.Fatalf("an error that names nothing: %v", err)
			}
			return
		}
		if err := c.scheduler.Space.Check(c.config); err != nil {
			t.Fatalf("%q became %v: %v", config, c.config, err)
		}
		c.opts = simulator.Options{EventBudget: 20_000, Placement: simulator.Placement(options % 4), PerTenant: true,
			Attribute: true,
			Round:     time.Duration(options>>2&3) * time.Minute,
			Protect: simulator.Protection{MaxPreemptions: int(options >> 4 & 3),
				MinRun: time.Duration(options>>6) * time.Hour}}
		var sim simulator.Sim
		r, err := c.run(&sim)
		if err != nil {
			if !strings.Contains(err.Error(), `job "`) && !errors.Is(err, simulator.ErrBudget) {
				t.Fatalf("the error names no job: %v", err)
			}
			return
		}
		if !sim.Done() || sim.Free() != c.cluster.TotalGPUs() || len(r.outcomes) != w.Len() {
			t.Fatalf("%d of %d jobs ended, %d GPUs are free", len(r.outcomes), w.Len(), sim.Free())
		}
		held, service := make([]time.Duration, w.Len()), make([]time.Duration, w.Len())
		for _, s := range r.spells {
			held[s.job] += s.to - s.from
			service[s.job] += (s.to - s.from) * time.Duration(s.held)
		}
		for _, o := range r.outcomes {
			if o.Attained != service[o.ID] || o.JCT() != o.Wait+held[o.ID] {
				t.Fatalf("%s: waited %v, held GPUs for %v, attained %v, but took %v and is said to have attained %v",
					c.job(o.ID).ID, o.Wait, held[o.ID], service[o.ID], o.JCT(), o.Attained)
			}
		}
	})
}

// decode reads a configuration as a file, if it looks like one, or as --set.
func decode(s *space.Space, text string) (space.Config, error) {
	if bytes.ContainsAny([]byte(text), "{:\n") {
		c, _, err := s.LoadConfig([]byte(text))
		return c, err
	}
	return s.Parse(s.Default(), strings.Fields(text))
}
