// Package pollux is Pollux (Qiao et al., OSDI 2021): GPUs are allocated to maximise
// the power mean of all jobs' speedups. A job's speedup is its goodput (throughput
// times statistical efficiency) over that on an equal share of the cluster; the
// exponent p trades the sum of speedups (1) for fairness (below 0).
//
// Instead of a genetic search over placements, GPUs go one by one to the job whose
// next GPU adds most to the mean, which for concave goodputs is the optimum of the
// relaxed problem. Batch sizes grow with the GPUs beyond those asked for. The
// gradient noise scale, which Pollux measures while a job trains, is a parameter
// and the same for all jobs. Jobs progress by throughput, so statistical efficiency
// only limits their growth. The restart penalty is the rule of package elastic.
package pollux

import (
	"math"

	"github.com/autosched/autosched/schedulers/elastic"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Pollux's parameters. Interval and p are the paper's.
func Space() []space.Param {
	return []space.Param{
		elastic.IntervalParam(60, 30),
		{ID: "fairness", Module: "scheduling", Kind: space.KindFloat, Min: -10, Max: 1, Default: space.Num(-1),
			Description: "exponent p of the mean of speedups that is made largest: 1 is their sum, lower is fairer"},
		{ID: "noise_scale", Module: "scheduling",
			Kind: space.KindFloat, Min: 0.1, Max: 100, Log: true, Default: space.Num(4),
			Description: "gradient noise scale in multiples of the batch size asked for: how well jobs are " +
				"expected to use larger batches"},
		elastic.MaxScaleParam(),
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return elastic.New(c, &chooser{p: c.Get("fairness").Float(), noise: c.Get("noise_scale").Float()})
}

type chooser struct {
	p, noise float64

	s     *simulator.View
	equal int // GPUs of an equal share
}

func (c *chooser) Begin(s *simulator.View, _ *rounds.Service) { c.s = s }
func (c *chooser) Steady() bool                               { return true }

func (c *chooser) Prepare(active *lanes.List) {
	c.equal = max(1, c.s.TotalGPUs()/active.Len())
}

func (c *chooser) goodput(j simulator.ID, gpus int) float64 {
	v := c.s.Models().Throughput(c.s.JobClass(j), gpus)
	if batch := float64(gpus) / float64(c.s.JobDemand(j)); batch > 1 {
		v *= (c.noise + 1) / (c.noise + batch)
	}
	return v
}

// Gain returns the growth of the sum behind the mean: of s^p / p, or of log s where
// p is 0.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	now, then := c.goodput(j, gpus), c.goodput(j, gpus+1)
	if then <= now {
		return 0
	}
	equal := c.goodput(j, c.equal)
	if c.p == 0 {
		return math.Log(then) - math.Log(now)
	}
	return (math.Pow(then/equal, c.p) - math.Pow(now/equal, c.p)) / c.p
}
