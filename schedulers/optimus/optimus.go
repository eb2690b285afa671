// Package optimus is Optimus (Peng et al., EuroSys 2018): at every interval each
// job gets one worker, and each further worker goes to the job whose expected
// completion time it reduces most.
//
// Optimus fits each job's convergence and speed while it trains. Here the speed on
// a number of GPUs is that of the simulator's models, and the remaining work
// follows from the estimated run time (simulator.Options.Estimate); without one it
// equals the work done, at least one interval. Attained service counts as work at
// the speed on the GPUs the job asks for. A worker is one GPU; parameter servers
// and their placement are left out.
package optimus

import (
	"time"

	"github.com/autosched/autosched/schedulers/elastic"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Optimus's parameters. The default interval is the paper's.
func Space() []space.Param {
	return []space.Param{elastic.IntervalParam(600, 60), elastic.MaxScaleParam()}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return elastic.New(c, &chooser{least: c.Get("interval").Duration()})
}

type chooser struct {
	least   time.Duration
	s       *simulator.View
	service *rounds.Service
}

func (c *chooser) Begin(s *simulator.View, received *rounds.Service) { c.s, c.service = s, received }
func (c *chooser) Prepare(*lanes.List)                               {}
func (c *chooser) Steady() bool                                      { return false }

// rest is the expected remaining work in whole seconds. Observed service is no more
// exact than that.
func (c *chooser) rest(j simulator.ID) time.Duration {
	done := c.service.Received(j)
	if estimate, ok := c.s.JobEstimate(j); ok {
		return max(estimate-done, c.least).Round(time.Second)
	}
	return max(done, c.least).Round(time.Second)
}

// Gain returns the completion time that one more GPU saves, in seconds.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	m, class := c.s.Models(), c.s.JobClass(j)
	asked := m.Throughput(class, c.s.JobDemand(j))
	rest := c.rest(j).Seconds() * asked
	return rest/m.Throughput(class, gpus) - rest/m.Throughput(class, gpus+1)
}
