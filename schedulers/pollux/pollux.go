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

	"github.com/autosched/autosched/schedulers/elastic"
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
	kinds []kind
	kind  []int32 // by job, -1 if it is not known yet
}

// kind is the jobs of one class that ask for as many GPUs: their gains are the
// same.
type kind struct {
	class, asked int
	gains        [shares]gains
}

// shares is for how many equal shares gains are kept: as jobs come and go it goes
// up and down by little.
const shares = 8

// gains is what one GPU more than an index is worth at an equal share, NaN where
// it is not known yet.
type gains struct {
	equal int
	list  []float64
	most  int // up to which stop is known
	stop  int
	falls bool
}

// Begin implements elastic.Chooser.
func (c *chooser) Begin(s *simulator.Sim, _ *rounds.Service) {
	c.s, c.kind = s, c.kind[:0]
	c.kinds = c.kinds[:0] // the models may be others
}

// Steady implements elastic.Chooser.
func (c *chooser) Steady() bool { return true }

// Prepare implements elastic.Chooser.
func (c *chooser) Prepare(active int) {
	c.equal = max(1, c.s.Cluster().TotalGPUs()/active)
}

// Kind implements elastic.Chooser.
func (c *chooser) Kind(j simulator.ID) int {
	for int(j) >= len(c.kind) {
		c.kind = append(c.kind, -1)
	}
	if c.kind[j] < 0 {
		c.kind[j] = c.find(c.s.JobClass(j), c.s.JobGPUs(j))
	}
	return int(c.kind[j])
}

func (c *chooser) find(class, asked int) int32 {
	for i := range c.kinds {
		if k := &c.kinds[i]; k.class == class && k.asked == asked {
			return int32(i)
		}
	}
	n := len(c.kinds)
	if n < cap(c.kinds) {
		c.kinds = c.kinds[:n+1] // with its memory
	} else {
		c.kinds = append(c.kinds, kind{})
	}
	k := &c.kinds[n]
	k.class, k.asked = class, asked
	for i := range k.gains {
		k.gains[i].equal = 0
	}
	return int32(n)
}

func (k *kind) goodput(c *chooser, gpus int) float64 {
	v := c.s.Models().Throughput(k.class, gpus)
	if batch := float64(gpus) / float64(k.asked); batch > 1 {
		v *= (c.noise + 1) / (c.noise + batch)
	}
	return v
}

// gainsOf is where a job's gains are kept.
func (c *chooser) gainsOf(j simulator.ID) (*kind, *gains) {
	k := &c.kinds[c.Kind(j)]
	g := &k.gains[c.equal%shares]
	if g.equal != c.equal {
		g.equal, g.list, g.most = c.equal, g.list[:0], 0
	}
	return k, g
}

// Stop implements elastic.Chooser.
func (c *chooser) Stop(j simulator.ID, most int) (stop int, falls bool) {
	_, g := c.gainsOf(j)
	if g.most != most {
		g.stop, g.falls = elastic.Stop(c, j, most)
		g.most = most
	}
	return g.stop, g.falls
}

// Gain is the growth of the mean's sum: of s^p / p, or of log s where p is 0.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	k, g := c.gainsOf(j)
	for len(g.list) <= gpus {
		g.list = append(g.list, math.NaN())
	}
	if math.IsNaN(g.list[gpus]) {
		g.list[gpus] = k.gain(c, gpus)
	}
	return g.list[gpus]
}

func (k *kind) gain(c *chooser, gpus int) float64 {
	now, then := k.goodput(c, gpus), k.goodput(c, gpus+1)
	if then <= now {
		return 0
	}
	equal := k.goodput(c, c.equal)
	if c.p == 0 {
		return math.Log(then) - math.Log(now)
	}
	return (math.Pow(then/equal, c.p) - math.Pow(now/equal, c.p)) / c.p
}
