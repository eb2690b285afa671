// Package fifo is first in, first out without preemption: jobs start in order of
// submission. With backfill, jobs behind one that finds no place may start; without,
// it blocks them (head-of-line blocking).
package fifo

import (
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is FIFO's parameters.
func Space() []space.Param {
	return []space.Param{lanes.BackfillParam()}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	return &lanes.Line{Key: func(*simulator.View, simulator.ID) int64 { return 0 }, Backfill: c.Get("backfill").Bool()}
}
