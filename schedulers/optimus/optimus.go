// Package optimus is Optimus (Peng et al., EuroSys 2018): at every interval each
// job gets one worker, and then one more goes, again and again, to the job whose
// expected completion time it shortens the most.
//
// Optimus fits each job's convergence and speed while it trains. Here the speed
// on a number of GPUs is the model of the run, and the rest of the work follows
// from what the scheduler was told of the run time; told nothing, it expects as
// much again as the job has received, one interval at least. The service
// received counts as work at the speed per GPU that the job asked for. A worker
// is one GPU; parameter servers and their placement are left out.
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
func (c *chooser) Kind(simulator.ID) int                             { return -1 }
func (c *chooser) Steady() bool                                      { return false }

// rest is the work that the job is expected to still have, in whole seconds:
// no scheduler tells jobs apart that differ by less, and what was observed of
// them is not as exact.
func (c *chooser) rest(j simulator.ID) time.Duration {
	done := c.service.Received(j)
	if told, ok := c.s.JobEstimate(j); ok {
		return max(told-done, c.least).Round(time.Second)
	}
	return max(done, c.least).Round(time.Second)
}

// Gain is the time that one more GPU saves.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	m, class := c.s.Models(), c.s.JobClass(j)
	asked := m.Throughput(class, c.s.JobDemand(j))
	rest := c.rest(j).Seconds() * asked
	return rest/m.Throughput(class, gpus) - rest/m.Throughput(class, gpus+1)
}
