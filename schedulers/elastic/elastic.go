// Package elastic is the base of schedulers that choose the number of GPUs of each
// job. At every multiple of an interval the GPUs are divided anew: each running job
// gets one, then each waiting job in order of submission, and the rest goes one by
// one to the job with the largest gain.
//
// No job is preempted. A job keeps its number of GPUs for at least one interval of
// progress (a restart comes on top). It grows only where the restart costs less
// than the additional GPUs gain over a time as long as it has kept its number, and
// shrinks only where others take the GPUs. Between decisions free GPUs start
// waiting jobs, in order of submission, on at most the GPUs they ask for.
package elastic

import (
	"time"

	"github.com/autosched/autosched/internal/pq"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Chooser is the part of an elastic scheduler that differs from others.
type Chooser interface {
	// Begin starts a run. It precedes all other calls.
	Begin(s *simulator.View, received *rounds.Service)
	// Prepare precedes each decision; active holds all active jobs in order of ID.
	Prepare(active *lanes.List)
	// Gain returns the worth of one more GPU to a job with a number of GPUs. It must
	// not grow with that number; at 0 or below the job gets no more.
	Gain(j simulator.ID, gpus int) float64
	// Steady reports whether gains depend only on the set of active jobs, so that a
	// decision on the same set can be skipped.
	Steady() bool
}

// IntervalParam is the parameter of the time between decisions.
func IntervalParam(def, low float64) space.Param {
	return space.Param{ID: "interval", Module: "scheduling",
		Kind: space.KindDuration, Min: low, Max: 7200, Log: true, Unit: "s", Default: space.Num(def),
		Description: "time between decisions on how many GPUs each job runs on; a job keeps its number for as " +
			"much progress"}
}

// mostScale is the largest value of the parameter max_scale.
const mostScale = 16

// MaxScale is the name of MaxScaleParam.
const MaxScale = "max_scale"

// MaxScaleParam is the parameter that bounds growth.
func MaxScaleParam() space.Param {
	return space.Param{ID: MaxScale, Module: "scheduling",
		Kind: space.KindInt, Min: 1, Max: mostScale, Default: space.Int(2),
		Description: "most GPUs a job runs on, in multiples of what it asks for"}
}

// Policy implements simulator.Policy by a Chooser.
type Policy struct {
	interval time.Duration
	maxScale int
	chooser  Chooser

	s       *simulator.View
	plan    *simulator.Plan
	grid    rounds.Grid
	service rounds.Service
	active  lanes.List // by ID
	wait    lanes.List // by ID
	quiet   bool       // decisions are the same until jobs come or go
	target  []int32    // by job
	open    []bool     // by job: its target may grow
	offers  pq.Queue[offer]
	need    []int // by tenant; scratch of move
}

// offer is the gain of one more GPU to a job.
type offer struct {
	gain float64
	id   simulator.ID
}

// Before implements pq.Orderable: the largest gain comes first.
func (a offer) Before(b offer) bool { return a.gain > b.gain || a.gain == b.gain && a.id < b.id }

// New makes the policy of a configuration with the parameters above.
func New(c space.Config, chooser Chooser) *Policy {
	return &Policy{interval: c.Get("interval").Duration(), maxScale: c.Get(MaxScale).Int(), chooser: chooser}
}

// Reset implements simulator.Policy.
func (p *Policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan, p.grid = s, plan, rounds.NewGrid(s, p.interval)
	p.active.Reset()
	p.wait.Reset()
	p.target = p.target[:0]
	p.quiet = false
	p.service.Reset(s)
	p.chooser.Begin(s, &p.service)
}

// Admit implements simulator.Policy.
func (p *Policy) Admit(j simulator.ID, seen simulator.Seen) {
	p.service.Admit(j, seen)
	p.target, p.open = lanes.Grow(p.target, j), lanes.Grow(p.open, j)
	p.active.Insert(lanes.Entry{ID: j})
	if !p.s.JobRunning(j) {
		p.wait.Insert(lanes.Entry{ID: j})
	}
	p.quiet = false
	p.plan.WakeAt(p.grid.After(p.s.Now()))
}

// Finish implements simulator.Policy.
func (p *Policy) Finish(j simulator.ID) {
	p.active.Remove(lanes.Entry{ID: j})
	p.quiet = false
}

// Report implements simulator.Reporter.
func (p *Policy) Report(j simulator.ID) simulator.Seen { return p.service.Report(j) }

// MaxScale implements simulator.Elastic.
func (p *Policy) MaxScale() int { return mostScale }

// Plan implements simulator.Policy.
func (p *Policy) Plan(plan *simulator.Plan) {
	due := p.grid.On(p.s.Now())
	if due && !p.quiet && p.s.Active() > 0 {
		p.decide(plan)
	}
	for i := 0; i < p.wait.Len() && plan.Free() > 0; {
		j := p.wait.At(i).ID
		if !p.grant(plan, j, min(p.s.JobDemand(j), plan.Free())) {
			i++
		}
	}
	if !p.quiet && p.s.Active() > 0 && (!due || p.s.Waiting() < p.s.Active()) {
		plan.WakeAt(p.grid.After(p.s.Now()))
	}
}

// grant starts a waiting job on a number of GPUs, or half of it, and so on.
func (p *Policy) grant(plan *simulator.Plan, j simulator.ID, gpus int) bool {
	for ; gpus > 0; gpus /= 2 {
		if plan.Grant(j, gpus) {
			p.wait.Remove(lanes.Entry{ID: j})
			p.quiet = false
			return true
		}
	}
	return false
}

// held reports whether a running job must keep its number of GPUs for now.
func (p *Policy) held(j simulator.ID) bool {
	return p.s.Now() < p.s.JobSince(j)+time.Duration(p.grid)+p.s.JobRestart(j, p.s.JobHeld(j))
}

// decide sets the targets and moves towards them.
func (p *Policy) decide(plan *simulator.Plan) {
	p.quiet = true
	p.aim()
	if p.move(plan) {
		p.quiet = false
	}
}

// aim sets every job's target.
func (p *Policy) aim() {
	p.chooser.Prepare(&p.active)
	room := p.s.Room()
	for i := range p.active.Len() {
		j := p.active.At(i).ID
		p.open[j] = false
		switch {
		case !p.s.JobRunning(j):
			p.target[j] = 0
			continue
		case p.held(j):
			p.target[j] = int32(p.s.JobHeld(j))
			p.quiet = false
		default:
			p.target[j], p.open[j] = 1, true
		}
		room.Keep(j, int(p.target[j]))
	}
	refused := false
	for i := 0; i < p.wait.Len() && room.Left() > 0; i++ {
		if j := p.wait.At(i).ID; room.Give(j, 1) {
			p.target[j], p.open[j] = 1, true
		} else {
			refused = true
		}
	}
	p.offers = p.offers[:0]
	for i := 0; i < p.active.Len() && room.Left() > 0; i++ {
		if j := p.active.At(i).ID; p.open[j] {
			p.offer(j)
		}
	}
	for room.Left() > 0 && len(p.offers) > 0 {
		if j := p.offers.Pop().id; room.Give(j, 1) {
			p.target[j]++
			p.offer(j)
		} else {
			refused = true // by its tenant's quota: it gets no more
		}
	}
	if (room.Left() == 0 || refused) && !p.chooser.Steady() {
		p.quiet = false // otherwise every job has its most, whatever the gains
	}
}

// gain is the worth of a job's next GPU, 0 if it may have none.
func (p *Policy) gain(j simulator.ID) float64 {
	k := int(p.target[j])
	if k >= min(p.s.JobDemand(j)*p.maxScale, p.s.JobMost(j)) {
		return 0
	}
	return max(0, p.chooser.Gain(j, k))
}

// offer puts a job's next GPU up, if that is worth anything.
func (p *Policy) offer(j simulator.ID) {
	if gain := p.gain(j); gain > 0 {
		p.offers.Push(offer{gain, j})
	}
}

// pays reports whether a job gains more on its target than the restart costs. It
// is assumed to stay there for as long as it has kept its present number, so that
// few restarts are wasted and no job stays small forever.
func (p *Policy) pays(j simulator.ID) bool {
	now, then := p.Speed(j, p.s.JobHeld(j)), p.Speed(j, int(p.target[j]))
	kept := max(p.s.Now()-p.s.JobSince(j), time.Duration(p.grid))
	return (then-now)*kept.Seconds() > then*p.s.JobRestart(j, int(p.target[j])).Seconds()
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
	for i := range p.active.Len() {
		j := p.active.At(i).ID
		held := p.s.JobHeld(j)
		switch more := int(p.target[j]) - held; {
		case more <= 0:
		case held > 0 && !p.pays(j):
			p.target[j] = int32(held)
			p.quiet = false // it pays later
		default:
			need += more
			p.need[p.s.JobTenant(j)] += more
		}
	}
	moved := false
	for i := range p.active.Len() {
		j := p.active.At(i).ID
		held, own := p.s.JobHeld(j), &p.need[p.s.JobTenant(j)]
		give := max(need, *own)
		if to := int(p.target[j]); give > 0 && to < held && plan.Resize(j, max(to, held-give)) {
			given := held - p.s.JobHeld(j)
			need -= given
			*own -= given
			moved = true
		}
	}
	for i := 0; i < p.wait.Len() && plan.Free() > 0; {
		j := p.wait.At(i).ID
		if p.target[j] > 0 && p.grant(plan, j, min(int(p.target[j]), plan.Free())) {
			moved = true
		} else {
			i++
		}
	}
	for i := 0; i < p.active.Len() && plan.Free() > 0; i++ {
		j := p.active.At(i).ID
		held := p.s.JobHeld(j)
		if held == 0 || int(p.target[j]) <= held || p.held(j) {
			continue
		}
		to := p.target[j]
		p.target[j] = int32(min(int(to), held+plan.Free()))
		if !p.pays(j) {
			p.quiet = false
		} else if plan.Resize(j, int(p.target[j])) {
			moved = true
		}
	}
	return moved
}
