package energy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestSimulate: the timeline of a simulation has its jobs and spells, and ends no earlier than asked.
func TestSimulate(t *testing.T) {
	zero := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w, err := workload.New("w", zero, []workload.Job{
		{ID: "a", Tenant: "x", Duration: time.Hour, GPUs: workload.GPUs(8)},
		{ID: "b", Tenant: "y", Submit: time.Minute, Duration: time.Hour, GPUs: workload.GPUs(8)},
	})
	if err != nil {
		t.Fatal(err)
	}
	fifo, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	tariff := &energy.Tariff{Assumptions: energy.Default()}
	for _, until := range []time.Duration{0, 5 * time.Hour} {
		in := &energy.Input{Cluster: workload.Uniform(1, 8), Zero: zero, To: until}
		sim, err := in.Simulate(t.Context(), tariff, w, fifo.New(fifo.Space.Default()), simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want := max(until, 2*time.Hour); sim.Now() != 2*time.Hour || in.To != want {
			t.Errorf("the simulation ends at %v, the timeline at %v, want %v", sim.Now(), in.To, want)
		}
		if len(in.Jobs) != 2 || !in.Jobs[1].Ended || in.Jobs[1].End != 2*time.Hour || len(in.Spells) != 2 {
			t.Fatalf("jobs %+v, spells %+v", in.Jobs, in.Spells)
		}
		r, err := tariff.Account(in)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := r.WriteJobs(&b); err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(rows) != 3 || !strings.HasPrefix(rows[1], "a,x,8,") || !strings.HasPrefix(rows[2], "b,y,8,") {
			t.Errorf("rows %q", rows)
		}
		if a, b := r.ByJob[0].Energy.Middle, r.ByJob[1].Energy.Middle; a <= 0 || math.Abs(a-b) > 1e-9*a {
			t.Errorf("equal jobs draw %g and %g kWh", a, b)
		}
	}
}

// TestOperate: without a series of prices or intensities no job is deferred.
func TestOperate(t *testing.T) {
	mark, err := energy.ParseMark("tenant=x")
	if err != nil {
		t.Fatal(err)
	}
	tariff := &energy.Tariff{Assumptions: energy.Default()}
	var o simulator.Options
	constant, err := tariff.Operate(&o, nil, "", time.Time{})
	if constant || err != nil || o.Deferral != nil || o.Wake == 0 {
		t.Errorf("no marks: %v, %v, %+v", constant, err, o)
	}
	constant, err = tariff.Operate(&o, energy.Marks{mark}, "", time.Time{})
	if !constant || err != nil || o.Deferral == nil {
		t.Errorf("a constant tariff: %v, %v", constant, err)
	}
	const carbon = "ts,zone,g_per_kwh\n2026-01-05T00:00:00Z,DE,300\n"
	tariff.Intensities, err = energy.ReadIntensities(strings.NewReader(carbon), "carbon.csv", "", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"", "carbon"} {
		if constant, err := tariff.Operate(&o, energy.Marks{mark}, by, time.Time{}); constant || err != nil {
			t.Errorf("by %q: %v, %v", by, constant, err)
		}
	}
}
