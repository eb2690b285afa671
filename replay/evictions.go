package replay

import (
	"context"
	"fmt"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Evictions are those of the jobs that count in a simulation.
type Evictions struct {
	Number int `json:"number"`
	// GPUHours are held without progress: the work that is done again, and the restarts.
	GPUHours float64 `json:"lost_gpu_hours"`
}

// EvictionsChange compares the evictions under the configuration in force and under another.
type EvictionsChange struct {
	Before Evictions `json:"before"`
	After  Evictions `json:"after"`
}

// evictions simulates the jobs of a site once more under a configuration; sim has them under the one in force. It is
// nil where neither evicts.
func (o *AskOptions) evictions(ctx context.Context, sim *simulator.Sim, to space.Config) (*EvictionsChange, error) {
	if o.Site == "" {
		return nil, nil
	}
	var other simulator.Sim
	if err := o.start(&other, to); err != nil {
		return nil, err
	}
	of := func(s *simulator.Sim) (Evictions, error) {
		err := s.Run(ctx)
		sum := s.Summarize()
		return Evictions{sum.Preemptions, sum.RestartGPUHours}, err
	}
	before, err := of(sim)
	if err != nil {
		return nil, err
	}
	after, err := of(&other)
	if err != nil || before.Number+after.Number == 0 {
		return nil, err
	}
	return &EvictionsChange{before, after}, nil
}

// raised is the part of a sentence about a change that evicts more, or loses more by that; "" for others.
func (e *EvictionsChange) raised() string {
	if e == nil || e.After.Number <= e.Before.Number && e.After.GPUHours < e.Before.GPUHours+.1 {
		return ""
	}
	return ", which " + e.String()
}

// String says how many jobs are evicted after the change and before it, and what they lose.
func (e *EvictionsChange) String() string {
	return fmt.Sprintf("evicts jobs %s, before %d, and loses %.1f GPU-hours by that, before %.1f",
		units.Plural(e.After.Number, "time"), e.Before.Number, e.After.GPUHours, e.Before.GPUHours)
}
