package energy_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestSleepAddsUp: under several schedulers no node sleeps while a job has it, the saving and the rest
// are the cluster that is always on, the meter of a search agrees with the account, and a delay
// that never comes changes nothing.
func TestSleepAddsUp(t *testing.T) {
	w, _, err := trace.Open(t.Context(), "sample", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Span()
	w = w.Window(first, first+8*time.Hour)
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 20, GPUsPerNode: 8},
		{Nodes: 10, GPUsPerNode: 4, GPUModel: "V100"}}}
	as := energy.Default()
	for i, name := range []string{"fifo", "tiresias", "lucid", "pollux", "slurm"} {
		c := c
		if i == 0 { // one group, whose nodes need not be known
			c = workload.Uniform(30, 8)
		}
		s, err := schedulers.Find(name + schedulers.SleepSuffix)
		if err != nil {
			t.Fatal(err)
		}
		config, _ := s.Space.Project(space.Values{"sleep_after": space.Num(600)})
		meter, err := energy.NewMeter(as, c, w.Zero(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := &energy.Recorder{Meter: meter}
		run := func(p simulator.Policy, o simulator.Options) *simulator.Sim {
			var sim simulator.Sim
			if err := sim.Start(c, w, p, o); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			return &sim
		}
		sim := run(s.New(config), simulator.Options{Meter: rec})
		naps := sim.Naps()
		if len(naps) < 20 || sim.Sleep().Delayed == 0 {
			t.Errorf("%s: %d naps, %+v", name, len(naps), sim.Sleep())
		}
		for _, x := range rec.Spells {
			for _, n := range naps {
				for _, at := range x.At {
					if at.Node == n.Node && x.From < n.To && n.From < x.To {
						t.Fatalf("%s: spell %+v in nap %+v", name, x, n)
					}
				}
			}
		}
		in := &energy.Input{Assumptions: as, Cluster: c, Zero: w.Zero(), From: first, To: sim.Now() + time.Hour,
			Spells: rec.Spells, Naps: naps}
		for id := range simulator.ID(sim.Len()) {
			in.Jobs = append(in.Jobs, energy.Job{ID: sim.Spec(id).ID})
		}
		r, err := energy.Account(in)
		if err != nil {
			t.Fatal(err)
		}
		always := *in
		always.Naps = nil
		on, err := energy.Account(&always)
		if err != nil {
			t.Fatal(err)
		}
		for what, d := range map[string]float64{
			"low":    r.Cluster.Energy.Low + r.Slept.Saved.Energy.Low - on.Cluster.Energy.Low,
			"middle": r.Cluster.Energy.Middle + r.Slept.Saved.Energy.Middle - on.Cluster.Energy.Middle,
			"high":   r.Cluster.CO2.High + r.Slept.Saved.CO2.High - on.Cluster.CO2.High,
			"jobs":   r.Jobs.Energy.Middle - on.Jobs.Energy.Middle,
			"GPUs":   r.Capacity - on.Capacity,
		} {
			if math.Abs(d) > 1e-6 {
				t.Errorf("%s: %s: %v apart", name, what, d)
			}
		}
		if r.Slept.Saved.Energy.Middle >= r.Slept.NodeHours*(8*(88+464./8)-10.4)*1.58/1000 {
			t.Errorf("%s: %v kWh saved in %v node-hours", name, r.Slept.Saved.Energy, r.Slept.NodeHours)
		}
		asleep := 30 * 10.4 / 1000 * 1.58 * (in.To - in.From).Hours()
		if d := sim.Drawn().Energy; math.Abs(d+asleep-r.Cluster.Energy.Middle) > 1e-6*d {
			t.Errorf("%s: %v kWh above %v of sleeping nodes, the account has %v", name, d, asleep, r.Cluster.Energy)
		}
		never := run(&simulator.Sleeper{Policy: s.New(config).(*simulator.Sleeper).Policy, After: 1e4 * time.Hour},
			simulator.Options{})
		plain, err := schedulers.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		want := run(plain.New(plain.Space.Default()), simulator.Options{}).Outcomes(nil)
		for i, o := range never.Outcomes(nil) {
			if o != want[i] {
				t.Fatalf("%s: %+v with nodes that never sleep, %+v without", name, o, want[i])
			}
		}
	}
}
