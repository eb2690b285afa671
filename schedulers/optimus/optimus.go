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
	classes []class
}

// class is what is known of a model class, by numbers of GPUs.
type class struct {
	speed []float64
	saves []float64 // time saved by one GPU more, per work
	falls int       // the number up to which that falls
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
	for i := range c.classes {
		x := &c.classes[i] // the models may be others
		x.speed, x.saves, x.falls = x.speed[:0], x.saves[:0], 0
	}
	for len(c.classes) < len(s.Models().Classes) {
		c.classes = append(c.classes, class{})
	}
}

// Prepare implements elastic.Chooser.
func (c *chooser) Prepare(int) { c.round++ }

// Kind implements elastic.Chooser.
func (c *chooser) Kind(simulator.ID) int { return -1 }

// Steady implements elastic.Chooser.
func (c *chooser) Steady() bool { return false }

// class is a class of which speeds on up to so many GPUs are known.
func (c *chooser) class(i, gpus int) *class {
	x := &c.classes[i]
	for n := len(x.speed); n <= gpus; n++ {
		if n == 0 {
			x.speed, x.saves = append(x.speed, 0), append(x.saves, 0)
			continue
		}
		x.speed = append(x.speed, c.s.Models().Throughput(i, n))
		if n == 1 {
			continue
		}
		before, now := x.speed[n-1], x.speed[n]
		x.saves = append(x.saves, 1/before-1/now)
		// A part in 1e5 keeps what rounding does to Gain below what Rough may be off.
		if grows := now-before > now*1e-5; grows && x.falls == n-2 && (n == 2 || x.saves[n-1] < x.saves[n-2]*(1-1e-7)) {
			x.falls = n - 1
		}
	}
	return x
}

// Stop implements elastic.Chooser.
func (c *chooser) Stop(j simulator.ID, most int) (int, bool) { return elastic.Stop(c, j, most) }

// Falls implements elastic.Rough.
func (c *chooser) Falls(j simulator.ID, most int) bool {
	return most == 1 || c.class(c.job(j).class, most).falls >= most-1
}

// Rough implements elastic.Rough.
func (c *chooser) Rough(j simulator.ID, gpus int) float64 {
	x := &c.jobs[j]
	return x.work * c.classes[x.class].saves[gpus]
}

// job is a job with the work that it is expected to still have.
func (c *chooser) job(j simulator.ID) *job {
	for int(j) >= len(c.jobs) {
		c.jobs = append(c.jobs, job{})
	}
	x := &c.jobs[j]
	if x.gpus == 0 {
		x.class, x.gpus = c.s.JobClass(j), c.s.JobGPUs(j)
		x.asked = c.class(x.class, x.gpus).speed[x.gpus]
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
	speed := c.class(x.class, gpus+1).speed
	return x.work/speed[gpus] - x.work/speed[gpus+1]
}
