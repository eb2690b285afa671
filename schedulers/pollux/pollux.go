// Package pollux is Pollux (Qiao et al., OSDI 2021): GPUs are shared out so
// that the power mean of all jobs' speedups is largest. A job's speedup is its
// goodput (throughput times statistical efficiency) over that on an equal share
// of the cluster; the exponent p trades the sum of speedups (1) for fairness
// (below 0).
//
// Instead of a genetic search over placements, GPUs go one by one to the job
// for which the next adds most to the mean, which for these concave goodputs is
// the optimum of the relaxed problem. Batch sizes grow with the GPUs beyond
// those asked for; the gradient noise scale, which Pollux measures while a job
// trains, is a parameter and the same for all. Jobs progress by throughput, so
// statistical efficiency only makes the scheduler careful. The restart penalty
// is the rule of package elastic.
package pollux

import (
	"math"
	"slices"

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
		{ID: "noise_scale", Module: "scheduling", Kind: space.KindFloat, Min: 0.1, Max: 100, Log: true, Default: space.Num(4),
			Description: "gradient noise scale in multiples of the batch size asked for: how well jobs are expected to use larger batches"},
		elastic.MaxScaleParam(),
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return elastic.New(c, &chooser{p: c.Get("fairness").Float(), noise: c.Get("noise_scale").Float()})
}

type chooser struct {
	p, noise float64

	s     *simulator.Sim
	equal int // share of GPUs
	// gains are those worked out at this share, by class: jobs of one class that ask
	// for as many GPUs have the same.
	gains [][]gains
}

// gains is what one GPU more than an index is worth, NaN where it is not known
// yet.
type gains struct {
	asked, equal int
	list         []float64
}

func (c *chooser) Begin(s *simulator.Sim, _ *rounds.Service) {
	c.s = s
	for i := range c.gains {
		c.gains[i] = c.gains[i][:0] // the models may be others
	}
	for len(c.gains) < len(s.Models().Classes) {
		c.gains = append(c.gains, nil)
	}
}
func (c *chooser) Steady() bool { return true }

func (c *chooser) Prepare(active *lanes.List) {
	c.equal = max(1, c.s.Cluster().TotalGPUs()/active.Len())
}

func (c *chooser) goodput(j simulator.ID, gpus int) float64 {
	v := c.s.Models().Throughput(c.s.JobClass(j), gpus)
	if batch := float64(gpus) / float64(c.s.JobGPUs(j)); batch > 1 {
		v *= (c.noise + 1) / (c.noise + batch)
	}
	return v
}

// Gain is the growth of the mean's sum: of s^p / p, or of log s where p is 0.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	g := c.gainsOf(j)
	for len(g.list) <= gpus {
		g.list = append(g.list, math.NaN())
	}
	if v := g.list[gpus]; !math.IsNaN(v) {
		return v
	}
	v := c.gain(j, gpus)
	g.list[gpus] = v
	return v
}

// gainsOf is where a job's gains are kept.
func (c *chooser) gainsOf(j simulator.ID) *gains {
	class, asked := c.s.JobClass(j), c.s.JobGPUs(j)
	all := c.gains[class]
	i := slices.IndexFunc(all, func(g gains) bool { return g.asked == asked })
	if i < 0 {
		i = len(all)
		if i < cap(all) {
			all = all[:i+1] // with its memory
		} else {
			all = append(all, gains{})
		}
		all[i].asked, all[i].equal = asked, 0
		c.gains[class] = all
	}
	g := &all[i]
	if g.equal != c.equal {
		g.equal, g.list = c.equal, g.list[:0]
	}
	return g
}

func (c *chooser) gain(j simulator.ID, gpus int) float64 {
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
