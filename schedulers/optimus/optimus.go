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
	return elastic.New(c, &chooser{least: time.Duration(c.Get("interval").Float() * float64(time.Second))})
}

type chooser struct {
	least   time.Duration
	s       *simulator.Sim
	service *rounds.Service
	jobs    []job
	round   int
	speeds  [][]float64 // by class, then GPUs
}

// job is what gains need of a job again and again.
type job struct {
	round       int // of work
	work        float64
	asked       float64 // speed on the GPUs asked for
	class, gpus int
}

// Begin implements elastic.Chooser.
func (c *chooser) Begin(s *simulator.Sim, received *rounds.Service) {
	c.s, c.service, c.jobs, c.round = s, received, c.jobs[:0], 0
	for i := range c.speeds {
		c.speeds[i] = c.speeds[i][:1] // the models may be others
	}
	for len(c.speeds) < len(s.Models().Classes) {
		c.speeds = append(c.speeds, []float64{0})
	}
}

// Prepare implements elastic.Chooser.
func (c *chooser) Prepare(int) { c.round++ }

// Kind implements elastic.Chooser.
func (c *chooser) Kind(simulator.ID) int { return -1 }

// Steady implements elastic.Chooser.
func (c *chooser) Steady() bool { return false }

// speed is a class's throughput on up to so many GPUs.
func (c *chooser) speed(class, gpus int) []float64 {
	for len(c.speeds[class]) <= gpus {
		c.speeds[class] = append(c.speeds[class], c.s.Models().Throughput(class, len(c.speeds[class])))
	}
	return c.speeds[class]
}

// job is a job with the work that it is expected to still have.
func (c *chooser) job(j simulator.ID) *job {
	for int(j) >= len(c.jobs) {
		c.jobs = append(c.jobs, job{})
	}
	x := &c.jobs[j]
	if x.gpus == 0 {
		x.class, x.gpus = c.s.JobClass(j), c.s.JobGPUs(j)
		x.asked = c.speed(x.class, x.gpus)[x.gpus]
	}
	if x.round != c.round {
		x.round = c.round
		x.work = float64(c.rest(j, x.gpus) * x.asked)
	}
	return x
}

// rest is the time on the GPUs asked for that the job is expected to still need,
// in whole seconds: no scheduler tells jobs apart that differ by less, and what
// was observed of them is not as exact.
func (c *chooser) rest(j simulator.ID, gpus int) float64 {
	done := c.service.Attained(j)
	if gpus > 1 {
		done /= time.Duration(gpus)
	}
	rest := done
	if told, ok := c.s.JobEstimate(j); ok {
		rest = told - done
	}
	return float64((max(rest, c.least) + time.Second/2) / time.Second)
}

// Gain is the time that one more GPU saves.
func (c *chooser) Gain(j simulator.ID, gpus int) float64 {
	x := c.job(j)
	speed := c.speed(x.class, gpus+1)
	return x.work/speed[gpus] - x.work/speed[gpus+1]
}
