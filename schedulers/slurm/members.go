package slurm

import (
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// phaseShares are how far into their intervals the clocks of a policy strike, as shares: of backfill, of the full main
// cycle, and of the calculation of priorities.
type phaseShares struct{ backfill, full, tick float64 }

// Members makes policies of a configuration that differ in when Slurm's clocks strike, and simulations that differ in
// whether GPUs are free at the end of a job or a second later, neither of which accounting says: each clock strikes in
// each twelfth of its interval in one of them. Delays that are many times the scale do not depend on it.
func Members(c space.Config) (members []simulator.Member, scale time.Duration) {
	const n = 12
	for i := range n {
		at := func(k int) float64 { return (float64(k%n) + .5) / n }
		members = append(members, simulator.Member{Epilog: time.Duration(1-i%2) * time.Second,
			Policy: &policy{config: &c, shares: &phaseShares{at(i), at(5*i + 7), at(7*i + 3)}}})
	}
	s := Of(c)
	return members, max(s.BFInterval, s.SchedInterval)
}

// phases returns the phases under settings, in whole seconds.
func (p *phaseShares) phases(s *Settings) Phases {
	at := func(share float64, interval time.Duration) time.Duration {
		return max(time.Second, time.Duration(share*float64(interval)).Round(time.Second))
	}
	return Phases{Backfill: at(p.backfill, s.BFInterval), Full: at(p.full, s.SchedInterval),
		Tick: at(p.tick, s.PriorityCalcPeriod)}
}
