package lucid

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
)

// NewSRTF is the preemptive shortest-remaining-time policy of the simulator
// published by Lucid's authors, to compare with its results: told true
// durations, it orders waiting and running jobs together, waiting ones first
// among equals, and asks again whenever the order of a running and a waiting
// job turns in a way that matters. It wants a Round of a second.
func NewSRTF() simulator.Policy { return &walk{turns: true} }

// NewTiresias is the two-queue Tiresias of the same simulator: jobs that have
// attained more than a threshold of GPU-time come after the others, both in
// order of submission, running ones first among equals. It wants the Round on
// which that simulator decides, a minute.
func NewTiresias(threshold time.Duration) simulator.Policy { return &walk{threshold: threshold} }

// walk is a policy that walks all active jobs in order with a quota of all
// GPUs, passes over who does not fit, stops the running ones of these first and
// then starts the waiting ones that did fit, in that order, if they find a
// place. Every plan costs time in proportion to the active jobs.
//
// Ties go to whoever entered the line of the waiting, or of the running, first.
// Resuming, it does not know who did.
type walk struct {
	turns     bool // by remaining time, and running jobs come closer to their end
	threshold time.Duration

	s           *simulator.Sim
	order       []place // as last sorted
	entered     int64
	stop, start []simulator.ID
}

// place is a job's place in the order: by key, then by entry into its line.
type place struct {
	key   int64
	entry int64
	id    simulator.ID
	runs  bool
}

// Clairvoyant implements simulator.Clairvoyant: the remaining time is read.
func (*walk) Clairvoyant() {}

func (p *walk) Reset(s *simulator.Sim) {
	p.s, p.order, p.entered = s, p.order[:0], 0
}

func (p *walk) Admit(j simulator.ID, _ simulator.Seen) {
	p.order = append(p.order, place{id: j})
	p.enter(&p.order[len(p.order)-1])
}

// enter puts a job at the end of the line of the waiting or the running.
func (p *walk) enter(a *place) {
	p.entered++
	a.entry, a.runs = p.entered, p.s.JobRunning(a.id)
	if a.runs && !p.turns {
		p.watch(a.id)
	}
}

// watch asks to be called once a running job has attained too much.
func (p *walk) watch(j simulator.ID) {
	if rest := p.threshold + 1 - p.s.JobAttained(j); rest > 0 {
		g := time.Duration(p.s.JobGPUs(j))
		p.s.SetQuantum(j, p.s.Now()+(rest+g-1)/g)
	}
}

// Quantum implements simulator.Quantumed. The next plan finds the job's key.
func (p *walk) Quantum(simulator.ID) {}

func (p *walk) Finish(j simulator.ID) {
	i := slices.IndexFunc(p.order, func(a place) bool { return a.id == j })
	p.order = slices.Delete(p.order, i, i+1)
}

func (p *walk) key(j simulator.ID) int64 {
	if p.turns {
		return int64(p.s.JobLeft(j))
	}
	k := int64(p.s.JobSubmit(j))
	if p.s.JobAttained(j) > p.threshold {
		k += math.MaxInt64 / 2 // after every submission
	}
	return k
}

func (p *walk) before(a, b *place) bool {
	switch {
	case a.key != b.key:
		return a.key < b.key
	case a.runs != b.runs:
		return a.runs != p.turns
	}
	return a.entry < b.entry
}

func (p *walk) sort() {
	for i := range p.order {
		p.order[i].key = p.key(p.order[i].id)
	}
	for i := 1; i < len(p.order); i++ {
		x := p.order[i]
		k := i
		for ; k > 0 && p.before(&x, &p.order[k-1]); k-- {
			p.order[k] = p.order[k-1]
		}
		p.order[k] = x
	}
}

func (p *walk) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	p.sort()
	p.stop, p.start = p.stop[:0], p.start[:0]
	quota := p.s.Cluster().TotalGPUs()
	for i := range p.order {
		a := &p.order[i]
		if g := p.s.JobGPUs(a.id); g <= quota {
			quota -= g
			if !a.runs {
				p.start = append(p.start, a.id)
			}
		} else if a.runs {
			p.stop = append(p.stop, a.id)
		}
	}
	if len(p.stop) == 0 && len(p.start) == 0 {
		return
	}
	plan.ExchangeInOrder(p.stop, p.start)
	p.change(p.stop, false)
	p.change(p.start, true)
	if p.turns {
		p.foresee()
	}
}

// change lets those of the jobs that now run, or no longer run, enter their
// line, in the order in which they did.
func (p *walk) change(jobs []simulator.ID, run bool) {
	for _, j := range jobs {
		if p.s.JobRunning(j) == run {
			p.enter(&p.order[slices.IndexFunc(p.order, func(a place) bool { return a.id == j })])
		}
	}
}

// foresee asks to be called when a running job passes one that was chosen and
// found no place. Passing one that did not fit the quota changes nothing.
func (p *walk) foresee() {
	for i := range p.order {
		if a := &p.order[i]; a.runs || !slices.Contains(p.start, a.id) {
			continue
		}
		for _, b := range p.order[i+1:] {
			if b.runs {
				p.s.WakeAt(p.s.Now() + time.Duration(b.key-p.order[i].key) + 1)
				break
			}
		}
	}
}
