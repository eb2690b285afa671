package feed

import (
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// Gaps finds the sampling period of GPUs from the times between two samples of one. The zero value is ready for use.
type Gaps struct {
	last map[telemetry.GPU]time.Duration
	all  []time.Duration
}

// Add takes in the time of a sample.
func (g *Gaps) Add(s *telemetry.GPUSample) {
	if g.last == nil {
		g.last = map[telemetry.GPU]time.Duration{}
	}
	if was, ok := g.last[s.GPU]; ok && s.Time > was {
		g.all = append(g.all, s.Time-was)
	}
	g.last[s.GPU] = s.Time
}

// Len returns the number of gaps.
func (g *Gaps) Len() int { return len(g.all) }

// Period returns the median gap in whole multiples of 15 s, as the times of samples jitter, from 15 s to 1 h; 0 without
// a gap.
func (g *Gaps) Period() time.Duration {
	if len(g.all) == 0 {
		return 0
	}
	slices.Sort(g.all)
	const grid = 15 * time.Second
	return min(time.Hour, max(grid, (g.all[len(g.all)/2]+grid-time.Second)/grid*grid))
}
