package peers

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
)

// LucidSRTF is the preemptive shortest remaining time first of the simulator that
// Lucid's authors published. It knows true durations, orders waiting and running
// jobs together, waiting ones first among equals, and decides again whenever a
// running job overtakes a waiting one in a way that matters. It wants an
// Options.Round of a second.
func LucidSRTF() simulator.Policy { return &lucidWalk{remaining: true} }

// LucidTiresias is the two-queue Tiresias of the same simulator: jobs that have
// attained more than a threshold of GPU-time come after the others, both in order
// of submission, running ones first among equals. It wants an Options.Round of a
// minute, on which that simulator decides.
func LucidTiresias(threshold time.Duration) simulator.Policy {
	return &lucidWalk{threshold: threshold}
}

// lucidWalk walks all active jobs in order with a quota of all GPUs, passes over
// jobs that do not fit, stops the running ones among these and then starts the
// waiting ones that did fit, in order, if they find a place. Every plan costs time
// in proportion to the active jobs. Ties go to the job that began to wait, or to
// run, first.
type lucidWalk struct {
	remaining bool // the order is by remaining time, not by threshold and submission
	threshold time.Duration

	s           *simulator.View
	plan        *simulator.Plan
	oracle      *simulator.Oracle
	order       []place // as last sorted
	entered     int64
	stop, start []simulator.ID
}

// place is a job's place in the order: by key, running or waiting, then entry.
type place struct {
	key    int64
	entry  int64 // counts the beginnings of waits and runs
	id     simulator.ID
	gpus   int32
	runs   bool
	chosen bool // waits and fits the quota
}

// Foresee implements simulator.Clairvoyant.
func (p *lucidWalk) Foresee(o *simulator.Oracle) { p.oracle = o }

func (p *lucidWalk) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan, p.order, p.entered = s, plan, p.order[:0], 0
}

func (p *lucidWalk) Admit(j simulator.ID, _ simulator.Seen) {
	p.order = append(p.order, place{id: j, gpus: int32(p.s.JobGPUs(j))})
	p.enter(&p.order[len(p.order)-1])
}

// enter puts a job behind all that wait, or run, with the same key.
func (p *lucidWalk) enter(a *place) {
	p.entered++
	a.key, a.entry, a.runs = p.key(a.id), p.entered, p.s.JobRunning(a.id)
	if a.runs && !p.remaining {
		p.watch(a.id)
	}
}

// watch asks to be called once a running job has attained too much.
func (p *lucidWalk) watch(j simulator.ID) {
	if rest := p.threshold + 1 - p.s.JobAttained(j); rest > 0 {
		g := time.Duration(p.s.JobGPUs(j))
		p.plan.SetQuantum(j, p.s.Now()+(rest+g-1)/g)
	}
}

// Quantum implements simulator.Quantumed. The next plan finds the job's key.
func (p *lucidWalk) Quantum(simulator.ID) {}

func (p *lucidWalk) Finish(j simulator.ID) {
	i := p.find(j)
	p.order = slices.Delete(p.order, i, i+1)
}

func (p *lucidWalk) find(j simulator.ID) int {
	return slices.IndexFunc(p.order, func(a place) bool { return a.id == j })
}

func (p *lucidWalk) key(j simulator.ID) int64 {
	if p.remaining {
		return int64(p.oracle.JobLeft(j))
	}
	k := int64(p.s.JobSubmit(j))
	if p.s.JobAttained(j) > p.threshold {
		k += math.MaxInt64 / 2 // after every submission
	}
	return k
}

func (p *lucidWalk) before(a, b *place) bool {
	switch {
	case a.key != b.key:
		return a.key < b.key
	case a.runs != b.runs:
		return a.runs != p.remaining
	}
	return a.entry < b.entry
}

// sort is by insertion: from plan to plan few jobs change places.
func (p *lucidWalk) sort() {
	for i := range p.order {
		if a := &p.order[i]; a.runs { // the keys of waiting jobs do not change
			a.key = p.key(a.id)
		}
	}
	for i := 1; i < len(p.order); i++ {
		if !p.before(&p.order[i], &p.order[i-1]) {
			continue
		}
		x, k := p.order[i], i
		for ; k > 0 && p.before(&x, &p.order[k-1]); k-- {
			p.order[k] = p.order[k-1]
		}
		p.order[k] = x
	}
}

func (p *lucidWalk) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	p.sort()
	p.stop, p.start = p.stop[:0], p.start[:0]
	quota := p.s.TotalGPUs()
	for i := range p.order {
		a := &p.order[i]
		g := int(a.gpus)
		fits := g <= quota
		a.chosen = fits && !a.runs
		if fits {
			quota -= g
		}
		if a.chosen {
			p.start = append(p.start, a.id)
		} else if !fits && a.runs {
			p.stop = append(p.stop, a.id)
		}
	}
	if len(p.stop) == 0 && len(p.start) == 0 {
		return
	}
	plan.ExchangeInOrder(p.stop, p.start)
	p.change(p.stop, false)
	if !p.change(p.start, true) && p.remaining {
		p.foresee()
	}
}

// change enters the jobs that now run, or now wait, in the order of the
// exchange, and reports whether all do.
func (p *lucidWalk) change(jobs []simulator.ID, run bool) bool {
	all := true
	for _, j := range jobs {
		if p.s.JobRunning(j) == run {
			p.enter(&p.order[p.find(j)])
		} else {
			all = false
		}
	}
	return all
}

// foresee asks for a plan when a running job overtakes one that was chosen and
// found no place. Overtaking one that did not fit the quota changes nothing.
func (p *lucidWalk) foresee() {
	behind := int64(math.MaxInt64) // key of the next running job
	for _, a := range slices.Backward(p.order) {
		if a.runs {
			behind = a.key
		} else if a.chosen && behind < math.MaxInt64 {
			p.plan.WakeAt(p.s.Now() + time.Duration(behind-a.key) + 1)
		}
	}
}
