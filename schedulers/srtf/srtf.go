// Package srtf is preemptive shortest remaining time, or GPU-time, first. It knows
// true durations (simulator.Clairvoyant), so it is a baseline, not a scheduler to
// deploy.
package srtf

import (
	"math"
	"slices"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is SRTF's parameters.
func Space() []space.Param {
	return []space.Param{{ID: "by", Module: "scheduling",
		Kind: space.KindCategorical, Categories: []string{"time", "gpu_time"}, Default: space.Text("time"),
		Description: "what counts as short: the remaining run time, or that multiplied by the GPUs"}}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return &policy{byGPUTime: c.Get("by").Text() == "gpu_time"}
}

type policy struct {
	byGPUTime bool

	s      *simulator.View
	oracle *simulator.Oracle
	keys   []int64     // by job: its key while it waits or is steady
	wait   lanes.Lanes // by remaining time, or GPU-time
	// steady are the running jobs at full speed, by the instant of their end, so that
	// their order does not change. others (jobs that restart or are slowed down, or all
	// running jobs, by GPU-time) are ranked anew in every plan.
	steady lanes.Roster
	others []lanes.Entry
	chosen lanes.Shares
}

// Foresee implements simulator.Clairvoyant.
func (p *policy) Foresee(o *simulator.Oracle) { p.oracle = o }

func (p *policy) Reset(s *simulator.View, _ *simulator.Plan) {
	p.s = s
	p.keys = p.keys[:0]
	p.wait.Reset()
	p.wait.Split(s)
	p.steady.Reset()
	p.others = p.others[:0]
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	p.keys = lanes.Grow(p.keys, j)
	if p.s.JobRunning(j) {
		p.runs(j)
	} else {
		p.waits(j)
	}
}

func (p *policy) Finish(j simulator.ID) { p.leaves(j) }

// left is the remaining time, or GPU-time.
func (p *policy) left(j simulator.ID) int64 {
	left := int64(p.oracle.JobLeft(j))
	if p.byGPUTime {
		g := int64(p.s.JobGPUs(j))
		if left > math.MaxInt64/g {
			return math.MaxInt64
		}
		left *= g
	}
	return left
}

func (p *policy) entry(j simulator.ID) lanes.Entry {
	return lanes.Entry{Key: p.keys[j], ID: j, Width: int32(p.s.JobDemand(j))}
}

func (p *policy) waits(j simulator.ID) {
	p.keys[j] = p.left(j)
	p.wait.Add(p.s.JobDemand(j), false, p.entry(j))
}

// unsteady is the key of the jobs in others.
const unsteady = math.MinInt64

func (p *policy) runs(j simulator.ID) {
	if p.isSteady(j) {
		p.keys[j] = int64(p.s.Now() + p.oracle.JobLeft(j))
		p.steady.Insert(p.entry(j))
		return
	}
	p.keys[j] = unsteady
	p.others = append(p.others, p.entry(j))
}

func (p *policy) isSteady(j simulator.ID) bool {
	return !p.byGPUTime && p.s.JobRate(j) == 1 && p.s.JobReady(j) <= p.s.Now() && !p.s.Clocked()
}

// leaves removes a running job.
func (p *policy) leaves(j simulator.ID) {
	if p.keys[j] != unsteady {
		p.steady.Remove(p.entry(j))
		return
	}
	p.others = slices.DeleteFunc(p.others, func(e lanes.Entry) bool { return e.ID == j })
}

// rank sorts others, after moving the jobs that have become steady.
func (p *policy) rank() {
	n := 0
	for _, e := range p.others {
		if p.isSteady(e.ID) {
			p.runs(e.ID)
			continue
		}
		e.Key = p.left(e.ID)
		// By insertion: few jobs change places from plan to plan.
		i := n
		for ; i > 0 && e.Before(p.others[i-1]); i-- {
			p.others[i] = p.others[i-1]
		}
		p.others[i] = e
		n++
	}
	p.others = p.others[:n]
}

func (p *policy) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	p.rank()
	p.choose()
	if plan.Exchange(p.chosen.Stop, p.chosen.Start) {
		for _, j := range p.chosen.Stop {
			if !p.s.JobRunning(j) {
				p.leaves(j)
				p.waits(j)
			}
		}
		for _, j := range p.chosen.Start {
			if p.s.JobRunning(j) {
				p.wait.Remove(p.s.JobDemand(j), false, p.entry(j))
				p.runs(j)
			}
		}
	}
	if plan.AllowsBackfill() {
		p.backfill(plan)
	}
}

// choose walks all jobs in order with a quota of all GPUs (lanes.Shares).
func (p *policy) choose() {
	p.chosen.Reset(p.s)
	quota := p.s.TotalGPUs()
	var at lanes.Cursor
	// keep passes the steady jobs before an entry.
	keep := func(before lanes.Entry) {
		before.Key += int64(p.s.Now())
		quota = p.chosen.Keep(&p.steady, &at, before, quota)
	}
	others := p.others
	p.wait.Walk()
	for {
		w, g, lane, ok := p.wait.Next(quota)
		if len(others) > 0 && (!ok || others[0].Before(w)) {
			o := others[0]
			others = others[1:]
			keep(o)
			if g := int(o.Width); g <= quota && p.chosen.May(o.ID) {
				quota -= g
			} else {
				p.chosen.Stop = append(p.chosen.Stop, o.ID)
			}
			continue
		}
		if !ok {
			break
		}
		if keep(w); g > quota {
			continue
		}
		if !p.chosen.May(w.ID) {
			p.wait.Close(lane)
			continue
		}
		p.wait.Skip(lane)
		p.chosen.Start = append(p.chosen.Start, w.ID)
		quota -= g
	}
	p.chosen.Keep(&p.steady, &at, lanes.Last, quota)
}

// backfill starts waiting jobs on the GPUs that the chosen jobs could not use.
func (p *policy) backfill(plan *simulator.Plan) {
	if plan.Free() == 0 || p.s.Waiting() == 0 {
		return
	}
	p.wait.Walk()
	for plan.Free() > 0 {
		e, _, lane, ok := p.wait.Next(plan.Free())
		if !ok {
			return
		}
		if !plan.Start(e.ID) {
			p.wait.Close(lane)
			continue
		}
		p.wait.Take(lane)
		p.runs(e.ID)
	}
}
