package rounds

import (
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Service is the GPU-time that jobs have received, as their scheduler counts
// it. It is reported with the jobs' events: whether restarts count cannot be
// told from these alone.
type Service struct {
	s *simulator.View
	// less is by how much a job's GPU-time held exceeds what was reported of it.
	less []time.Duration
}

// Reset begins a run.
func (v *Service) Reset(s *simulator.View) { v.s, v.less = s, v.less[:0] }

// Admit takes in what is reported of a job.
func (v *Service) Admit(j simulator.ID, seen simulator.Seen) {
	v.less = lanes.Grow(v.less, j)
	v.less[j] = 0
	if seen.HasLevel {
		v.less[j] = v.s.JobAttained(j) - seen.LevelAttained
	}
}

// Attained is the GPU-time a job has received.
func (v *Service) Attained(j simulator.ID) time.Duration { return v.s.JobAttained(j) - v.less[j] }

// Received is the time a job has run, on the GPUs it asks for.
func (v *Service) Received(j simulator.ID) time.Duration {
	return v.Attained(j) / time.Duration(v.s.JobGPUs(j))
}

// Report is what is reported of a job.
func (v *Service) Report(j simulator.ID) simulator.Seen {
	return simulator.Seen{LevelAttained: v.Attained(j), HasLevel: true}
}
