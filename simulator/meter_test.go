package simulator

import "time"

// counter is a Meter of GPU-hours.
type counter struct{}

func (counter) Draw(s Spell) Draw {
	return Draw{Energy: float64(s.GPUs) * (s.To - s.From).Hours(), CO2: (s.To - s.From).Round(time.Second).Seconds()}
}
func (counter) Digest() string { return "GPU-hours" }
