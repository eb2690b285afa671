// Package sjf is shortest job first without preemption. It knows true durations
// (simulator.Clairvoyant), so it is a baseline, not a scheduler to deploy.
package sjf

import (
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is SJF's parameters.
func Space() []space.Param {
	return []space.Param{lanes.BackfillParam()}
}

type policy struct {
	lanes.Line
	oracle *simulator.Oracle
}

// Foresee implements simulator.Clairvoyant.
func (p *policy) Foresee(o *simulator.Oracle) { p.oracle = o }

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	p := &policy{Line: lanes.Line{Backfill: c.Get("backfill").Bool()}}
	// The key is the same for as long as a job has not started.
	p.Key = func(_ *simulator.View, j simulator.ID) int64 { return int64(p.oracle.JobLeft(j)) }
	return p
}
