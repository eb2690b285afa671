package energy_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestMeterSeesEverySpell: under schedulers that preempt, share GPUs and resize, the spells
// of a job hold its attained service, none is counted twice, and measuring changes nothing.
func TestMeterSeesEverySpell(t *testing.T) {
	w, _, err := trace.Open(t.Context(), "sample", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Span()
	w = w.Window(first, first+12*time.Hour)
	c := workload.Uniform(10, 8)
	for _, name := range []string{"tiresias", "lucid", "optimus", "pollux"} {
		s, err := schedulers.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		meter, err := energy.NewMeter(energy.Default(), c, w.Zero(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := &energy.Recorder{Meter: meter}
		run := func(o simulator.Options) *simulator.Sim {
			var sim simulator.Sim
			if err := sim.Start(c, w, s.New(s.Space.Default()), o); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			return &sim
		}
		sim := run(simulator.Options{Meter: rec})
		plain := run(simulator.Options{}).Outcomes(nil)
		held := make([]float64, sim.Len())
		last := make([]time.Duration, sim.Len())
		for _, x := range rec.Spells {
			if held[x.Job] += x.GPUs.Count() * (x.To - x.From).Seconds(); x.From < last[x.Job] || len(x.At) == 0 {
				t.Fatalf("%s: spell %+v", name, x)
			}
			last[x.Job] = x.To
		}
		in := &energy.Input{Assumptions: energy.Default(), Cluster: c, Zero: w.Zero(), From: first, To: sim.Now(),
			Spells: rec.Spells}
		shared := false
		for _, x := range rec.Spells {
			shared = shared || x.Shared
		}
		if shared != (name == "lucid") {
			t.Errorf("%s: shares GPUs: %v", name, shared)
		}
		for i, o := range sim.Outcomes(nil) {
			if math.Abs(held[o.ID]-o.Attained.Seconds()) > 1e-6*held[o.ID] || o.Draw.Energy <= 0 {
				t.Fatalf("%s: job %d holds %v GPU-s, attained %v, draws %+v", name, o.ID, held[o.ID], o.Attained,
					o.Draw)
			}
			if o.Draw = (simulator.Draw{}); o != plain[i] {
				t.Fatalf("%s: %+v with a meter, %+v without", name, o, plain[i])
			}
		}
		for id := range simulator.ID(sim.Len()) {
			j := sim.Spec(id)
			in.Jobs = append(in.Jobs, energy.Job{ID: j.ID, Tenant: j.Tenant})
		}
		r, err := energy.Account(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Notes) > 0 {
			t.Errorf("%s: %q", name, r.Notes)
		}
		// Jobs draw the idle power of their GPUs, too.
		drawn := 0.0
		for _, o := range sim.Outcomes(nil) {
			drawn += o.Draw.Energy
		}
		idle := r.Idle.Energy.Middle / (r.Capacity - r.GPUHours) * r.GPUHours
		if math.Abs(drawn+idle-r.Jobs.Energy.Middle) > 1e-6*drawn {
			t.Errorf("%s: %v kWh drawn above %v idle, of %v", name, drawn, idle, r.Jobs.Energy.Middle)
		}
	}
}
