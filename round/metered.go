package round

import (
	"errors"
	"fmt"
	"slices"

	"github.com/autosched/autosched/simulator"
)

// EnergyObjectives are the metrics that need Options.Meter: the energy in kWh, its cost in $ and its CO2 in kg
// that the configuration decides (simulator.Sim.Drawn), of the whole run, and edp, the energy times the mean JCT
// in hours. That is what jobs draw above idle nodes or, where nodes sleep, all above sleeping ones.
var EnergyObjectives = []string{"energy", "cost", "co2", "edp"}

// ErrNoMeter is returned if a goal counts energy, and no power model is given.
var ErrNoMeter = errors.New("energy, cost, co2 and edp need a power model, which is not given here")

// drawn returns a metric of what a run drew.
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
	for _, t := range g.Terms {
		if Metered(t.Metric) {
			return t.Metric
		}
	}
	for _, r := range g.Then {
		if Metered(r.Metric) {
			return r.Metric
		}
	}
	for _, c := range g.Constraints {
		if Metered(c.Metric) {
			return c.Metric
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
