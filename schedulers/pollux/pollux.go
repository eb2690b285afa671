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

	s      *simulator.View
	equal  int // GPUs of an equal share
	kinds  []kind
	kindOf []int // by job: one more than its kind, or 0
}

// kind is the jobs of one class and one width, which have equal gains.
type kind struct {
	class, asked int
	equal        int       // the equal share at which gains were computed
	gains        []float64 // of the next GPU, by number of GPUs; NaN where not computed
}

func (c *chooser) Begin(s *simulator.View, _ *rounds.Service) {
	c.s, c.kinds, c.kindOf = s, c.kinds[:0], c.kindOf[:0]
}

func (c *chooser) Steady() bool { return true }

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

// Kind implements elastic.Chooser.
func (c *chooser) Kind(j simulator.ID) int {
	c.kindOf = lanes.Grow(c.kindOf, j)
	if c.kindOf[j] == 0 {
		c.kindOf[j] = 1 + c.find(c.s.JobClass(j), c.s.JobDemand(j))
	}
	return c.kindOf[j] - 1
}

func (c *chooser) find(class, asked int) int {
	i := slices.IndexFunc(c.kinds, func(k kind) bool { return k.class == class && k.asked == asked })
	if i < 0 {
		i = len(c.kinds)
		c.kinds = slices.Grow(c.kinds, 1)[:i+1]
		c.kinds[i] = kind{class: class, asked: asked, gains: c.kinds[i].gains[:0]}
	}
	return i
}

// Gain returns the growth of the sum behind the mean: of s^p / p, or of log s where
// p is 0.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	k := &c.kinds[c.Kind(j)]
	if k.equal != c.equal {
		k.equal, k.gains = c.equal, k.gains[:0]
	}
	for len(k.gains) <= gpus {
		k.gains = append(k.gains, math.NaN())
	}
	if math.IsNaN(k.gains[gpus]) {
		k.gains[gpus] = c.gain(j, gpus)
	}
	return k.gains[gpus]
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
