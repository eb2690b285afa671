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
	"slices"
	"time"

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
	// Kind returns a small number that jobs with equal gains share, -1 for a job
	// whose gains are its own.
	Kind(j simulator.ID) int
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
	kinds   []kind     // of the open jobs
	kindOf  []int      // by Chooser.Kind: one more than its index in kinds, or 0
	heap    []offer
	need    []int // by tenant; scratch of move
}

// kind is the open jobs with equal gains, in order of ID. The next GPU is worth low
// to the jobs before index at, which had theirs already, and high to the others.
type kind struct {
	number    int // Chooser.Kind
	jobs      []simulator.ID
	at        int
	high, low float64
}

// offer is the gain of one more GPU to the next job of a kind.
type offer struct {
	gain float64
	id   simulator.ID
	kind int
}

func (a offer) before(b offer) bool { return a.gain > b.gain || a.gain == b.gain && a.id < b.id }

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
	if room.Left() > 0 {
		p.offer()
	}
	for room.Left() > 0 && len(p.heap) > 0 {
		if !p.give(room) {
			refused = true // by its tenant's quota
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

// offer groups the open jobs by kind and puts each kind's next GPU up.
func (p *Policy) offer() {
	for i := range p.kinds {
		if n := p.kinds[i].number; n >= 0 {
			p.kindOf[n] = 0
		}
	}
	p.kinds, p.heap = p.kinds[:0], p.heap[:0]
	for i := range p.active.Len() {
		if j := p.active.At(i).ID; p.open[j] {
			k := p.kind(j)
			k.jobs = append(k.jobs, j)
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		j := k.jobs[0]
		if k.high = p.gain(j); k.high > 0 {
			p.heap = append(p.heap, offer{k.high, j, i})
			p.up()
		}
	}
}

// kind is the record of a job's kind.
func (p *Policy) kind(j simulator.ID) *kind {
	n := p.chooser.Kind(j)
	if p.s.JobConstraint(j) > 0 {
		n = -1 // it may have fewer GPUs (JobMost)
	}
	if n >= 0 {
		p.kindOf = lanes.Grow(p.kindOf, simulator.ID(n))
		if i := p.kindOf[n]; i > 0 {
			return &p.kinds[i-1]
		}
	}
	p.kinds = slices.Grow(p.kinds, 1)[:len(p.kinds)+1]
	k := &p.kinds[len(p.kinds)-1]
	*k = kind{number: n, jobs: k.jobs[:0]}
	if n >= 0 {
		p.kindOf[n] = len(p.kinds)
	}
	return k
}

// give offers a GPU to the job with the largest gain and reports whether its
// tenant's quota allows it. If not, the job gets no more.
func (p *Policy) give(room *simulator.Room) bool {
	top := &p.heap[0]
	k, j := &p.kinds[top.kind], top.id
	given := room.Give(j, 1)
	if given {
		p.target[j]++
		if k.at == 0 || p.target[j] != p.target[k.jobs[0]] { // otherwise the gain is low, as it was for that one
			gain := p.gain(j)
			if gain >= k.high {
				top.gain = gain
				return true
			}
			k.low = gain
		}
		k.at++
	} else {
		k.jobs = slices.Delete(k.jobs, k.at, k.at+1)
	}
	if k.at == len(k.jobs) {
		k.at, k.high, k.low = 0, k.low, 0
	}
	if k.high > 0 {
		top.gain, top.id = k.high, k.jobs[k.at]
	} else {
		last := len(p.heap) - 1
		p.heap[0] = p.heap[last]
		p.heap = p.heap[:last]
	}
	p.down()
	return given
}

// up restores the heap above its last element. The heap is not a pq.Queue, as calls of
// a type parameter's method for each comparison slow Pollux.
func (p *Policy) up() {
	for i := len(p.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !p.heap[i].before(p.heap[up]) {
			return
		}
		p.heap[i], p.heap[up] = p.heap[up], p.heap[i]
		i = up
	}
}

// down restores the heap below its top.
func (p *Policy) down() {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(p.heap) {
			return
		}
		if c+1 < len(p.heap) && p.heap[c+1].before(p.heap[c]) {
			c++
		}
		if !p.heap[c].before(p.heap[i]) {
			return
		}
		p.heap[i], p.heap[c] = p.heap[c], p.heap[i]
		i = c
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
