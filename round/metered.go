package round

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// EnergyObjectives are the metrics that need Options.Meter: the energy in kWh, its cost in $ and its CO2 in kg
// that the configuration decides (simulator.Sim.Drawn), of the whole run, and edp, the energy times the mean JCT
// in hours. That is the draw of jobs above idle nodes or, where nodes sleep, of all above sleeping ones.
var EnergyObjectives = []string{"energy", "cost", "co2", "edp"}

// ErrNoMeter is returned if a goal counts energy, and no power model is given.
var ErrNoMeter = errors.New("energy, cost, co2 and edp need a power model, which is not given here")

// drawn returns a metric of the energy of a run.
func drawn(unit string, of func(d simulator.Draw, meanJCT float64) float64) metric {
	return metric{unit: unit, whole: func(p *player) float64 {
		sum, n := 0.0, 0.0
		for i := range p.out {
			sum += p.out[i].JCT().Hours() * float64(p.out[i].Members)
			n += float64(p.out[i].Members)
		}
		return of(p.sim.Drawn(), sum/max(1, n))
	}}
}

// Metered reports whether a metric needs Options.Meter.
func Metered(metric string) bool { return metrics[metric].whole != nil }

// Metered names a metric of the goal that needs Options.Meter, "" if none does.
func (g *Goal) Metered() string {
	for _, name := range g.counted() {
		if Metered(name) {
			return name
		}
	}
	return ""
}

// positive refuses the values that gains, which are ratios, cannot compare.
func (v *metricValues) positive(name string) error {
	if len(v.all) > 0 && slices.Min(v.all) < 0 {
		return fmt.Errorf("%s: a run costs %.2f $, as prices are below 0, and gains are ratios: add the fixed fee per "+
			"MWh to all prices, or minimise energy or co2", name, slices.Min(v.all))
	}
	return nil
}

// EnergyChange is the energy of two configurations, before and after a change, means over futures, with the band of
// the constants: as EnergyObjectives count it.
type EnergyChange struct {
	Before energy.Amount `json:"before"`
	After  energy.Amount `json:"after"`
}

// String is the change in words. The ends of the band move together, so the change is better known than either.
func (c *EnergyChange) String() string {
	one := func(before, after energy.Band, unit string) string {
		return fmt.Sprintf("%s %s (%s to %s) -> %s (%s to %s)", unit, number3(before.Middle), number3(before.Low),
			number3(before.High), number3(after.Middle), number3(after.Low), number3(after.High))
	}
	return one(c.Before.Energy, c.After.Energy, "kWh") + ", " + one(c.Before.Cost, c.After.Cost, "$") + ", " +
		one(c.Before.CO2, c.After.CO2, "kg CO2")
}

// number3 has three significant digits, and no fewer than those before the point.
func number3(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// weighEnergy adds the change of energy by an adopted configuration to a decision and its reason.
func (r *Round) weighEnergy(ctx context.Context, d *Decision) error {
	before, err := r.amount(ctx, r.Scenarios, r.Incumbent)
	if err != nil {
		return err
	}
	after, err := r.amount(ctx, r.Scenarios, d.Config)
	if err == nil && before != nil && after != nil {
		d.Energy = &EnergyChange{*before, *after}
		d.Reason += " Energy, cost and CO2 in the futures, with the band of the constants: " + d.Energy.String() + "."
	}
	return err
}

// amount measures the energy of a configuration on scenarios with an energy.Meter; nil if the problem has none,
// or if a simulation exhausts its events.
func (p *Problem) amount(ctx context.Context, scenarios []Scenario, c space.Config) (*energy.Amount, error) {
	meter, ok := p.Options.Meter.(*energy.Meter)
	if !ok {
		return nil, nil
	}
	one := *p
	one.Goal = Minimise("energy")
	band := meter.Band()
	var draws [len(band)]simulator.Draw
	for k, m := range band {
		one.Options.Meter = m
		sc, err := NewScorer(&one, scenarios)
		if err == nil {
			draws[k], err = sc.drawn(ctx, c)
		}
		if errors.Is(err, simulator.ErrBudget) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	x := meter.Amount(draws)
	return &x, nil
}

// drawn is the mean draw of the runs of a configuration.
func (sc *Scorer) drawn(ctx context.Context, c space.Config) (sum simulator.Draw, err error) {
	p := sc.players.Get().(*player)
	defer sc.players.Put(p)
	n := float64(len(sc.scenarios))
	for i := range sc.scenarios {
		if err := sc.run(ctx, p, &sc.scenarios[i], sc.scheduler.New(c)); err != nil {
			return sum, err
		}
		d := p.sim.Drawn()
		sum.Energy, sum.Cost, sum.CO2 = sum.Energy+d.Energy/n, sum.Cost+d.Cost/n, sum.CO2+d.CO2/n
	}
	return sum, nil
}
