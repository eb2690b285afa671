package energy

import (
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// GPUEnergy is the measured energy of a job's GPUs in a part of the GPU-hours that it held.
type GPUEnergy struct {
	Hours float64
	KWh   float64
}

// GPUMeter integrates samples of GPUs by job: the difference of two readings of the energy counter, or the trapezoid of
// their power.
type GPUMeter struct {
	// Watts is the power of a sample that has none, false where it is not known; nil leaves such samples out. Modelled
	// are the GPU-hours that it counted for, of which ByUtilization had no SM activity.
	Watts         func(*telemetry.GPUSample) (watts float64, ok bool)
	Modelled      float64
	ByUtilization float64

	last map[telemetry.GPU]reading
	jobs map[string]GPUEnergy
}

// reading is a sample as the next one needs it.
type reading struct {
	at            time.Duration
	known         telemetry.Field
	joules, watts float64
	job           string
	modelled      bool
}

// longestReading is the longest time between two samples over which a GPU is taken to have been measured.
const longestReading = 10 * time.Minute

// Add takes a sample. Samples of a GPU must be in order of time; others are left out, as are samples of MIG instances,
// which have no power of their own.
func (m *GPUMeter) Add(s *telemetry.GPUSample) {
	if s.Instance >= 0 {
		return
	}
	if m.last == nil {
		m.last, m.jobs = map[telemetry.GPU]reading{}, map[string]GPUEnergy{}
	}
	a, seen := m.last[s.GPU]
	if seen && s.Time <= a.at {
		return
	}
	b := reading{s.Time, s.Known, s.Energy, s.Power, s.Job, false}
	if m.Watts != nil && !s.Lost && s.Known&(telemetry.Power|telemetry.Energy) == 0 {
		b.watts, b.modelled = m.Watts(s)
	}
	m.last[s.GPU] = b
	span := b.at - a.at
	if !seen || s.Lost || b.job == "" || a.job != b.job || span > longestReading {
		return
	}
	joules := (a.watts + b.watts) / 2 * span.Seconds()
	switch both := a.known & b.known; {
	case both&telemetry.Energy != 0 && b.joules >= a.joules:
		joules = b.joules - a.joules
	case both&telemetry.Energy != 0: // the counter was reset
		joules = b.joules
	case a.modelled && b.modelled:
		m.Modelled += span.Hours()
		if both&telemetry.SMActive == 0 {
			m.ByUtilization += span.Hours()
		}
	case both&telemetry.Power == 0:
		return
	}
	j := m.jobs[b.job]
	m.jobs[b.job] = GPUEnergy{j.Hours + span.Hours(), j.KWh + joules/3.6e6}
}

// Jobs returns the measured jobs, by id.
func (m *GPUMeter) Jobs() map[string]GPUEnergy { return m.jobs }

// gpuParts fills in the measured power of jobs' GPUs beyond the model, W of each GPU that a job does not share.
func (a *account) gpuParts(r *Report) {
	in := a.in
	if len(in.GPUs) == 0 {
		return
	}
	hours := make([]float64, len(in.Jobs))
	for i := range in.Spells {
		if s := &in.Spells[i]; !s.Shared {
			hours[s.Job] += s.GPUs.Count() * (s.To - s.From).Hours()
		}
	}
	a.gpus = make([]measuredGPU, len(in.Jobs))
	for i := range in.Jobs {
		if m := in.GPUs[in.Jobs[i].ID]; m.Hours > 0 && hours[i] > 0 {
			a.gpus[i] = measuredGPU{share: min(1, m.Hours/hours[i]), watts: 1000 * m.KWh / m.Hours}
			r.MeasuredGPUHours += a.gpus[i].share * hours[i]
		}
	}
}

// measuredGPU is the mean power of a job's GPUs, and the share of its GPU-hours in which it was measured.
type measuredGPU struct{ share, watts float64 }

// beyond is the measured power of a spell's GPUs above the modelled one, W.
func (a *account) beyond(s *Spell, group int, gpus workload.MilliGPU) (out [bands]float64) {
	if a.gpus == nil || s.Shared {
		return out
	}
	m := &a.gpus[s.Job]
	for k := range bands {
		out[k] = gpus.Count() * m.share * (m.watts - a.watts[group].gpu[k])
	}
	return out
}
