// Package sjf starts the job with the shortest duration first and never stops
// one. It is told the true durations (simulator.Clairvoyant), so it is a
// baseline, not a scheduler to deploy.
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

type policy struct{ lanes.Line }

func (*policy) Clairvoyant() {}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return &policy{lanes.Line{Key: left, Backfill: c.Get("backfill").Bool()}}
}

// left is the same for as long as a job has not started.
func left(s *simulator.Sim, j simulator.ID) int64 { return int64(s.JobLeft(j)) }
