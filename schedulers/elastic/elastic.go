// Package elastic is the base of schedulers that choose how many GPUs each job
// runs on. At every multiple of an interval all jobs that run get one GPU, then
// the waiting ones in order of submission while there are any, and then the
// rest goes one by one to the job with the largest gain.
//
// Nobody is stopped for another. A job keeps its number of GPUs for one
// interval of progress at least (a restart comes on top); it grows only where the
// restart loses less than more GPUs gain over as long again as it has kept its
// number, and shrinks only where others take what it gives up. Between decisions
// free GPUs start waiting jobs, in order of submission, on up to as many as they
// ask for.
package elastic

import (
	"math"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Chooser is what one scheduler has of its own.
type Chooser interface {
	// Begin is told of the simulation and of the service received in it before
	// any job.
	Begin(s *simulator.Sim, received *rounds.Service)
	// Prepare comes before each decision on so many active jobs.
	Prepare(active int)
	// Kind is a small number, the same for jobs that ask for as many GPUs and always
	// have the same gains; -1 where gains are each job's own.
	Kind(j simulator.ID) int
	// Gain is the worth of one GPU more for a job that has some. It must not grow
	// with that number; at 0 or below the job gets no more.
	Gain(j simulator.ID, gpus int) float64
	// Stop is the first number of GPUs at which one more is worth nothing, or most if
	// that is less, and whether gains fall from each GPU to the next up to there.
	Stop(j simulator.ID, most int) (stop int, falls bool)
	// Steady says that gains depend on which jobs are active alone, so that
	// decisions in which nothing else changed can be left out.
	Steady() bool
}

// Rough is a Chooser of which gains are known roughly at little cost.
type Rough interface {
	// Falls reports whether a job's gains fall from each GPU to the next, up to so
	// many, by more than a part in 1e8, and are above 0.
	Falls(j simulator.ID, most int) bool
	// Rough is Gain where gains fall, to within a part in 1e9.
	Rough(j simulator.ID, gpus int) float64
}

// IntervalParam is the time between decisions.
func IntervalParam(def, low float64) space.Param {
	return space.Param{ID: "interval", Module: "scheduling", Kind: space.KindDuration, Min: low, Max: 7200, Log: true, Unit: "s", Default: space.Num(def),
		Description: "time between decisions on how many GPUs each job runs on; a job keeps its number for as much progress"}
}

// MaxScaleParam bounds growth.
func MaxScaleParam() space.Param {
	return space.Param{ID: "max_scale", Module: "scheduling", Kind: space.KindInt, Min: 1, Max: 16, Default: space.Int(2),
		Description: "most GPUs a job runs on, in multiples of what it asks for"}
}

// Policy implements simulator.Policy by a Chooser.
type Policy struct {
	interval time.Duration
	maxScale int
	chooser  Chooser
	rough    Rough // the chooser, if it is one

	s       *simulator.Sim
	grid    rounds.Grid
	service rounds.Service
	run     lanes.List // by ID
	wait    lanes.List // by ID
	jobs    []job      // by ID
	quiet   bool       // the last decision, and all before the next change, are the same
	given   int        // the first jobs of wait that may have a target
	need    []int      // scratch of move
	sharing
}

// job is what decisions need of a job again and again.
type job struct {
	until  time.Duration // the instant before which a running job's number of GPUs stays
	target int32         // GPUs; 0 for a waiting job that is not to start
	held   int32         // GPUs, 0 for a waiting job
	shared int32         // GPUs, the last time they were shared out to it
	most   int32         // GPUs
	kind   int32         // of the Chooser
	bargain
}

// bargain is what a move from a number of GPUs to another brings: more speed, and
// the work that is lost.
type bargain struct {
	from, to   int32
	more, loss float64
}

// Stop is Chooser.Stop of any gains.
func Stop(c Chooser, j simulator.ID, most int) (stop int, falls bool) {
	stop, falls = 1, true
	for before := math.Inf(1); stop < most; stop++ {
		gain := c.Gain(j, stop)
		if !(gain > 0) {
			break
		}
		falls = falls && gain < before
		before = gain
	}
	return stop, falls
}

// New makes the policy of a configuration with the parameters above.
func New(c space.Config, chooser Chooser) *Policy {
	p := &Policy{interval: time.Duration(c.Get("interval").Float() * float64(time.Second)), maxScale: c.Get("max_scale").Int(), chooser: chooser}
	p.rough, _ = chooser.(Rough)
	return p
}

// Reset implements simulator.Policy.
func (p *Policy) Reset(s *simulator.Sim) {
	p.s, p.grid = s, rounds.NewGrid(s, p.interval)
	p.run.Reset()
	p.wait.Reset()
	p.jobs = p.jobs[:0]
	p.quiet, p.given = false, 0
	p.sharing.reset()
	p.service.Reset(s)
	p.chooser.Begin(s, &p.service)
}

// Admit implements simulator.Policy.
func (p *Policy) Admit(j simulator.ID, seen simulator.Seen) {
	p.service.Admit(j, seen)
	for int(j) >= len(p.jobs) {
		p.jobs = append(p.jobs, job{})
	}
	p.jobs[j] = job{most: int32(min(p.s.JobGPUs(j)*p.maxScale, p.s.Cluster().TotalGPUs())), kind: int32(p.chooser.Kind(j))}
	if p.s.JobRunning(j) {
		p.runs(j)
	} else {
		p.wait.Insert(lanes.Entry{ID: j})
	}
	p.quiet = false
	p.s.WakeAt(p.grid.After(p.s.Now()))
}

// Finish implements simulator.Policy.
func (p *Policy) Finish(j simulator.ID) {
	p.run.Remove(lanes.Entry{ID: j})
	p.quiet = false
}

// runs puts a job among the running ones.
func (p *Policy) runs(j simulator.ID) {
	p.run.Insert(lanes.Entry{ID: j})
	p.has(j)
}

// has notes that a running job's number of GPUs is another.
func (p *Policy) has(j simulator.ID) {
	x := &p.jobs[j]
	x.held = int32(p.s.JobHeld(j))
	x.until = p.s.JobSince(j) + time.Duration(p.grid) + p.s.Models().Restart(int(x.held))
}

// Report implements simulator.Reporter.
func (p *Policy) Report(j simulator.ID) simulator.Seen { return p.service.Report(j) }

// Plan implements simulator.Policy.
func (p *Policy) Plan(plan *simulator.Plan) {
	due := p.grid.On(p.s.Now())
	if due && !p.quiet && p.s.Active() > 0 {
		p.decide(plan)
	}
	for i := 0; i < p.wait.Len() && plan.Free() > 0; {
		j := p.wait.At(i).ID
		if !p.grant(plan, j, min(p.s.JobGPUs(j), plan.Free())) {
			i++
		}
	}
	if !p.quiet && p.s.Active() > 0 && (!due || p.s.Waiting() < p.s.Active()) {
		p.s.WakeAt(p.grid.After(p.s.Now()))
	}
}

// grant starts a waiting job on so many GPUs, or half of that and so on.
func (p *Policy) grant(plan *simulator.Plan, j simulator.ID, gpus int) bool {
	for ; gpus > 0; gpus /= 2 {
		if plan.Grant(j, gpus) {
			p.wait.Remove(lanes.Entry{ID: j})
			p.runs(j)
			p.quiet = false
			return true
		}
	}
	return false
}

// resize moves a running job to another number of GPUs, if there is a place.
func (p *Policy) resize(plan *simulator.Plan, j simulator.ID, gpus int) bool {
	if !plan.Resize(j, gpus) {
		return false
	}
	p.has(j)
	return true
}

// decide sets the targets and moves towards them.
func (p *Policy) decide(plan *simulator.Plan) {
	p.quiet = true
	p.chooser.Prepare(p.run.Len() + p.wait.Len())
	p.aim()
	if p.move(plan) {
		p.quiet = false
	}
}

// pays reports whether a job gains more on its target than the restart there
// loses. How long it will be left there is not known: as long again, it is
// assumed, as it has been left where it is. So no job is moved in vain often, and
// none stays small for good.
func (p *Policy) pays(j simulator.ID) bool {
	x := &p.jobs[j]
	if b := &x.bargain; b.from != x.held || b.to != x.target {
		now, then := p.Speed(j, int(x.held)), p.Speed(j, int(x.target))
		*b = bargain{x.held, x.target, then - now, float64(then * p.s.Models().Restart(int(x.target)).Seconds())}
	}
	kept := max(p.s.Now()-p.s.JobSince(j), time.Duration(p.grid))
	return float64(x.bargain.more*kept.Seconds()) > x.bargain.loss
}

// Speed is a job's throughput on a number of GPUs.
func (p *Policy) Speed(j simulator.ID, gpus int) float64 {
	return p.s.Models().Throughput(p.s.JobClass(j), gpus)
}

// move shrinks, starts and grows jobs, and reports whether it did any.
func (p *Policy) move(plan *simulator.Plan) bool {
	need := -plan.Free()
	p.need = p.need[:0] // of each tenant's GPUs
	for t := range p.s.Tenants() {
		p.need = append(p.need, -p.s.TenantRoom(t))
	}
	wanted := false
	for i := range p.run.Len() {
		j := p.run.At(i).ID
		x := &p.jobs[j]
		switch more := int(x.target - x.held); {
		case more <= 0:
		case !p.pays(j):
			x.target = x.held
			p.quiet = false // it will in time
		default:
			wanted = true
			need += more
			p.need[p.s.JobTenant(j)] += more
		}
	}
	for i := range p.given {
		j := p.wait.At(i).ID
		more := int(p.jobs[j].target)
		wanted = wanted || more > 0
		need += more
		p.need[p.s.JobTenant(j)] += more
	}
	if !wanted {
		return false // nobody gives up anything
	}
	moved := false
	for i := range p.run.Len() {
		j := p.run.At(i).ID
		x := &p.jobs[j]
		if x.target >= x.held {
			continue
		}
		held, own := int(x.held), &p.need[p.s.JobTenant(j)]
		give := max(need, *own)
		if give > 0 && p.resize(plan, j, max(int(x.target), held-give)) {
			given := held - int(x.held)
			need -= given
			*own -= given
			moved = true
		}
	}
	for i := 0; i < p.given && plan.Free() > 0; {
		j := p.wait.At(i).ID
		if to := int(p.jobs[j].target); to > 0 && p.grant(plan, j, min(to, plan.Free())) {
			p.given--
			moved = true
		} else {
			i++
		}
	}
	for i := 0; i < p.run.Len() && plan.Free() > 0; i++ {
		j := p.run.At(i).ID
		x := &p.jobs[j]
		if x.target <= x.held || p.s.Now() < x.until {
			continue
		}
		x.target = int32(min(int(x.target), int(x.held)+plan.Free()))
		if !p.pays(j) {
			p.quiet = false
		} else if p.resize(plan, j, int(x.target)) {
			moved = true
		}
	}
	return moved
}
