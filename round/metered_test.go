package round

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
)

// tariff draws 1 kW for each GPU, at a price that falls to another after an instant.
type tariff struct {
	before, after float64
	at            time.Duration
}

func (x tariff) Draw(s simulator.Spell) simulator.Draw {
	early := max(0, min(s.To, x.at)-s.From).Hours() * float64(s.GPUs)
	all := (s.To - s.From).Hours() * float64(s.GPUs)
	return simulator.Draw{Energy: all, Cost: early*x.before + (all-early)*x.after, CO2: 2 * all}
}

func (x tariff) Digest() string { return x.at.String() + number(1e4+x.before) + number(1e4+x.after) }

// TestEnergyObjectives: they are the draw of the run, the same for any number of workers, and another
// tariff is another problem to the cache.
func TestEnergyObjectives(t *testing.T) {
	x := observe(t, 12*time.Hour, simulator.Options{})
	seen := x.snapshot()
	scenarios, err := seen.LastHour(context.Background(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	scorer := func(objective string, m simulator.Meter) *Scorer {
		p := x.problem("avg_jct")
		p.Goal, p.Options.Meter = goal(t, objective), m
		sc, err := NewScorer(&p, scenarios)
		if err != nil {
			t.Fatal(err)
		}
		if err := sc.CompareWith(context.Background(), x.scheduler.Space.Default()); err != nil {
			t.Fatal(err)
		}
		return sc
	}
	day := tariff{100, 50, 20 * time.Hour}
	mean := func(objective string, m simulator.Meter) float64 {
		got, err := scorer(objective, m).Measure(context.Background(), x.scheduler.Space.Default())
		if err != nil {
			t.Fatal(err)
		}
		return got.Mean()
	}
	e, delay := mean("energy", day), mean("avg_jct", day)/3600
	if co2, edp := mean("co2", day), mean("edp", day); e <= 0 || math.Abs(co2-2*e) > 1e-9*e ||
		math.Abs(edp-e*delay) > .1*edp {
		t.Errorf("%v kWh, %v kg, %v kWh h at %v h", e, co2, edp, delay)
	}
	once, twice := mean("cost", day), mean("cost", tariff{200, 100, day.at})
	if math.Abs(twice-2*once) > 1e-9*once || once < 50*e || once > 100*e {
		t.Errorf("costs %v and, at twice the price, %v of %v kWh", once, twice, e)
	}
	if a, b := scorer("cost", day).Digest(), scorer("cost", tariff{100, 51, day.at}).Digest(); a == b {
		t.Error("another tariff has the same digest")
	}
	if a, b := scorer("avg_jct", nil).Digest(), scorer("avg_jct", day).Digest(); a == b {
		t.Error("with a meter it has the same digest")
	}
	sc := scorer("cost subject to avg_jct<=1.05*incumbent, energy<=incumbent", day)
	m, err := sc.Measure(context.Background(), x.scheduler.Space.Default())
	if err != nil || len(m.Limits) != 2 || m.Limits[1].Excess() > 0 {
		t.Errorf("%v: %+v", err, m.Limits)
	}
	var results []Result
	for _, workers := range []int{1, 3} {
		r := &Round{Problem: x.problem("avg_jct"), Settings: DefaultSettings(), Scenarios: scenarios}
		r.Goal, r.Options.Meter = goal(t, "cost subject to p99_jct<=1.1*incumbent"), day
		r.Budget, r.Workers = 12, workers
		r.Incumbent = x.scheduler.Space.Default()
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, got)
	}
	if d := cmp.Diff(record(t, results[0]), record(t, results[1])); d != "" {
		t.Error(d)
	}
}

// TestEnergyNeedsAMeter: without one there is nothing to count, and gains of negative costs
// have no ratio.
func TestEnergyNeedsAMeter(t *testing.T) {
	x := observe(t, 12*time.Hour, simulator.Options{})
	seen := x.snapshot()
	scenarios, err := seen.LastHour(context.Background(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"energy", "0.5*avg_jct + 0.5*cost", "avg_jct then co2", "avg_jct subject to edp<=5"} {
		p := x.problem("avg_jct")
		p.Goal = goal(t, text)
		if _, err := NewScorer(&p, scenarios); !errors.Is(err, ErrNoMeter) {
			t.Errorf("%s: %v", text, err)
		}
	}
	p := x.problem("avg_jct")
	sc, err := NewScorer(&p, scenarios)
	if err != nil {
		t.Fatal(err)
	}
	if err := sc.Add("energy"); !errors.Is(err, ErrNoMeter) {
		t.Error(err)
	}
	p.Goal, p.Options.Meter = goal(t, "cost"), tariff{before: -1, after: -1}
	if sc, err = NewScorer(&p, scenarios); err != nil {
		t.Fatal(err)
	}
	if _, err := sc.Measure(context.Background(), x.scheduler.Space.Default()); err == nil ||
		!strings.Contains(err.Error(), "prices are below 0") {
		t.Error(err)
	}
}

// TestEnergyOfDecisions: a decision that adopts says the energy before and after, which at the middle of the
// constants is the objective; an outlook has the same.
func TestEnergyOfDecisions(t *testing.T) {
	testshared.Full(t)
	in := portfolioAt(t, 9, "2")
	in.Goal = goal(t, "edp")
	tariff := energy.Tariff{Assumptions: energy.Default()}
	meter, err := tariff.Meter(in.State.Cluster, in.Zero)
	if err != nil {
		t.Fatal(err)
	}
	in.Simulator.Meter = meter
	in.Always = true
	d, err := DecideOnline(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Adopt || d.Energy == nil || !strings.Contains(d.Reason, d.Energy.String()) {
		t.Fatalf("adopted %v, %s: %+v", d.Adopt, d.Reason, d.Energy)
	}
	in.Goal = goal(t, "energy")
	in.Search = d.Search
	found, err := Foresee(context.Background(), in, in.Incumbent, d.Config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []energy.Amount{d.Energy.Before, d.Energy.After} {
		got := found[i].Energy
		if got == nil || *got != want {
			t.Errorf("configuration %d: the outlook has %+v, the decision %+v", i, got, want)
			continue
		}
		testshared.Near(t, "energy", got.Energy.Middle, found[i].Mean(), 1e-9*found[i].Mean())
		for _, b := range []energy.Band{got.Energy, got.Cost, got.CO2} {
			if !(0 < b.Low && b.Low < b.Middle && b.Middle < b.High) {
				t.Errorf("the band %+v is not in order", b)
			}
		}
	}
	in.Simulator.Meter = nil
	in.Goal = goal(t, "avg_jct")
	if found, err = Foresee(context.Background(), in, in.Incumbent); err != nil || found[0].Energy != nil {
		t.Errorf("without a meter: %+v, %v", found, err)
	}
}
