package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// ErrNoTariff is the error of goals that count energy where the service has no tariff.
var ErrNoTariff = errors.New(noTariff + ", or name another objective")

const noTariff = "the service has no power model: start it with 'autosched serve --energy-file FILE'"

// tariffAhead is how far beyond its instant a round knows a tariff, more than its futures take; later
// the last value holds.
const tariffAhead = 28 * 24 * time.Hour

// CheckEnergy refuses an objective that counts energy if the service cannot do that for a cluster.
func (s *Service) CheckEnergy(objective string, c workload.Cluster) error {
	g, err := round.ParseGoal(objective)
	if err != nil || g.Metered() == "" {
		return nil // objectives that an older version stored pass
	}
	if s.o.Energy == nil {
		return fmt.Errorf("%s: %w", g.Metered(), ErrNoTariff)
	}
	if _, err = s.o.Energy().Meter(c, time.Time{}); err != nil {
		return fmt.Errorf("%s: %w", g.Metered(), err)
	}
	return nil
}

// sees returns the snapshot of a round or look at an instant, with its part of the tariff: nil if its goal
// counts no energy.
func (s *Service) sees(v *snapshot, ledger *workload.Ledger, at time.Duration) (round.Snapshot, *energy.Tariff, error) {
	seen := v.at(ledger, at)
	if v.goal.Metered() == "" {
		return seen, nil, nil
	}
	if s.o.Energy == nil {
		return seen, nil, fmt.Errorf("%s: %w", v.goal.Metered(), ErrNoTariff)
	}
	now := v.Zero.Add(at)
	t := s.o.Energy().Between(now.Add(-round.Retention), now.Add(tariffAhead))
	return seen, t, measure(&seen, t)
}

// measure makes the simulations of a snapshot count the energy of jobs; a nil tariff leaves them as they are.
func measure(seen *round.Snapshot, t *energy.Tariff) error {
	if t == nil {
		return nil
	}
	meter, err := t.Meter(seen.State.Cluster, seen.Zero)
	if err != nil {
		return err
	}
	seen.Simulator.Meter = meter
	return nil
}
