package samples

import (
	"time"

	"github.com/autosched/autosched/telemetry"
)

// means are the samples of each GPU in steps, at the begin of the step: the mean of each quantity over the samples that
// have it, the last reading of the energy counter and the last Xid error, every throttle reason that was in force, and
// the most processes. The job is that of the last sample that has one. A GPU is lost that never answered.
func means(all []telemetry.GPUSample, step time.Duration) (out []telemetry.GPUSample) {
	for i := 0; i < len(all); {
		at := all[i].Time / step * step
		k := i + 1
		for k < len(all) && all[k].GPU == all[i].GPU && all[k].Time/step*step == at {
			k++
		}
		m := mean(all[i:k])
		m.Time = at
		out = append(out, m)
		i = k
	}
	return out
}

func mean(part []telemetry.GPUSample) telemetry.GPUSample {
	m := telemetry.GPUSample{GPU: part[0].GPU, Lost: true}
	for i := range part {
		x := &part[i]
		m.Known |= x.Known
		m.Lost = m.Lost && x.Lost
		m.Throttle |= x.Throttle
		m.Processes = max(m.Processes, x.Processes)
		if x.Xid != 0 {
			m.Xid = x.Xid
		}
		if x.UUID != "" {
			m.UUID = x.UUID
		}
		if x.Job != "" {
			m.Job = x.Job
		}
	}
	for k := range telemetry.Quantities {
		q, sum, n := &telemetry.Quantities[k], 0.0, 0
		for i := range part {
			if !part[i].Has(q.Field) {
				continue
			}
			v := *q.At(&part[i])
			if q.Field == telemetry.Energy {
				sum, n = v, 1 // a counter
				continue
			}
			sum += v
			n++
		}
		if n > 0 {
			*q.At(&m) = sum / float64(n)
		}
	}
	return m
}
