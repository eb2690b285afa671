// Package fifo starts jobs in order of submission and never stops one. With
// backfill it looks past a job that finds no place; without, that job blocks
// those behind it (head of line).
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
