package rounds

import (
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// Service is the GPU-time that jobs have attained, as their scheduler counts it.
// It is reported with the jobs' events, from which alone it does not follow whether
// restarts count.
type Service struct {
	s *simulator.View
	// less is a job's View.JobAttained less the GPU-time reported for it.
	less []time.Duration
}

// Reset starts a run.
func (v *Service) Reset(s *simulator.View) { v.s, v.less = s, v.less[:0] }

// Admit takes what was reported for a job.
func (v *Service) Admit(j simulator.ID, seen simulator.Seen) {
	v.less = lanes.Grow(v.less, j)
	v.less[j] = 0
	if seen.HasLevel {
		v.less[j] = v.s.JobAttained(j) - seen.LevelAttained
	}
}

// Attained is the GPU-time a job has attained.
func (v *Service) Attained(j simulator.ID) time.Duration { return v.s.JobAttained(j) - v.less[j] }

// Received is the time a job has run, on the GPUs it asks for: Attained over them.
func (v *Service) Received(j simulator.ID) time.Duration {
	return v.Attained(j) / time.Duration(v.s.JobGPUs(j))
}

// Report implements simulator.Reporter for the policies that embed a Service.
func (v *Service) Report(j simulator.ID) simulator.Seen {
	return simulator.Seen{LevelAttained: v.Attained(j), HasLevel: true}
}
