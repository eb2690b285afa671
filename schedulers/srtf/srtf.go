// Package srtf runs the jobs with the least remaining time, or GPU-time, and
// stops others for them. It is told the true durations
// (simulator.Clairvoyant), so it is a baseline, not a scheduler to deploy.
package srtf

import (
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is SRTF's parameters.
func Space() []space.Param {
	return []space.Param{{ID: "by", Module: "scheduling", Kind: space.KindCategorical, Categories: []string{"time", "gpu_time"}, Default: space.Text("time"),
		Description: "what counts as short: the remaining run time, or that multiplied by the GPUs"}}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return &policy{byGPUTime: c.Get("by").Text() == "gpu_time"}
}

type policy struct {
	byGPUTime bool

	s *simulator.Sim
	// order is all active jobs as last ranked. It is kept, so that ranking again
	// is cheap (few change places) and ties stay as they were.
	order       []ranked
	stop, start []simulator.ID
}

type ranked struct {
	key int64
	id  simulator.ID
}

func (*policy) Clairvoyant() {}

func (p *policy) Reset(s *simulator.Sim) {
	p.s = s
	p.order = p.order[:0]
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	p.order = append(p.order, ranked{id: j})
}

func (p *policy) Finish(j simulator.ID) {
	for i := range p.order {
		if p.order[i].id == j {
			p.order = append(p.order[:i], p.order[i+1:]...)
			return
		}
	}
}

func (p *policy) rank() {
	for i := range p.order {
		o := &p.order[i]
		o.key = int64(p.s.JobLeft(o.id))
		if p.byGPUTime {
			o.key *= int64(p.s.JobGPUs(o.id))
		}
	}
	for i := 1; i < len(p.order); i++ {
		x := p.order[i]
		k := i
		for ; k > 0 && (x.key < p.order[k-1].key || x.key == p.order[k-1].key && x.id < p.order[k-1].id); k-- {
			p.order[k] = p.order[k-1]
		}
		p.order[k] = x
	}
}

func (p *policy) Plan(plan *simulator.Plan) {
	p.rank()
	if p.s.Waiting() == 0 {
		return
	}
	p.stop, p.start = p.stop[:0], p.start[:0]
	room := p.s.Room()
	for _, o := range p.order {
		runs := p.s.JobRunning(o.id)
		if room.Take(o.id) {
			if !runs {
				p.start = append(p.start, o.id)
			}
		} else if runs {
			p.stop = append(p.stop, o.id)
		}
	}
	plan.Exchange(p.stop, p.start)
	if !plan.Backfills() {
		return
	}
	for _, o := range p.order {
		if plan.Free() == 0 || p.s.Waiting() == 0 {
			return
		}
		if !p.s.JobRunning(o.id) && p.s.JobGPUs(o.id) <= plan.Free() {
			plan.Start(o.id)
		}
	}
}
