package energy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Meter computes the power of a simulation's jobs above that of idle nodes: the part that a
// configuration decides while all nodes are on. It is a simulator.Meter.
type Meter struct {
	a *account
	k int // the place in the band of the constants
}

// NewMeter makes the meter of a cluster, at the middle of the constants. Prices, intensities and zero
// are as in Input.
func NewMeter(as *Assumptions, c workload.Cluster, zero time.Time, prices, intensities *Series) (*Meter, error) {
	a := &account{in: &Input{Assumptions: as, Cluster: c, Zero: zero, Prices: prices, Intensities: intensities}}
	for k := range bands {
		a.prices[k], a.carbon[k] = prices, intensities
	}
	if err := a.groups(); err != nil {
		return nil, err
	}
	return &Meter{a, 1}, nil
}

// Band are the meters at the low end, the middle and the high end of the constants.
func (m *Meter) Band() (out [bands]*Meter) {
	for k := range out {
		out[k] = &Meter{m.a, k}
	}
	return out
}

// Amount is the measure of Band.
func (m *Meter) Amount(band [bands]simulator.Draw) (out Amount) {
	for k, d := range band {
		*out.Energy.at(k), *out.Cost.at(k), *out.CO2.at(k) = d.Energy, d.Cost, d.CO2
	}
	return out
}

// Draw is the energy of a job in a spell.
func (m *Meter) Draw(s simulator.Spell) simulator.Draw {
	active := 0.0
	add := func(w *watts, gpus int) {
		if s.Shared {
			active += w.half[m.k] * float64(gpus)
		} else {
			active += w.alone[m.k] * float64(gpus)
		}
	}
	switch {
	case len(m.a.watts) == 1:
		add(&m.a.watts[0], s.GPUs)
	default:
		for _, n := range s.At {
			if n.Node < len(m.a.group) {
				add(&m.a.watts[m.a.group[n.Node]], n.GPUs)
			}
		}
	}
	var d simulator.Draw
	d.Energy, d.Cost, d.CO2 = m.a.used(m.k, active, s.From, s.To)
	return d
}

// Awake is the power of an awake node above a sleeping one, waking until an instant. The GPUs of jobs
// add to it. The Meter is a simulator.NodeMeter.
func (m *Meter) Awake(node int, from, to, woken time.Duration) (d simulator.Draw) {
	group := 0
	if m.a.group != nil {
		group = m.a.group[node]
	}
	w, gpus := &m.a.watts[group], m.a.in.Cluster.Groups[group].GPUsPerNode
	d.Energy, d.Cost, d.CO2 = m.a.used(m.k, w.base[m.k]*float64(gpus)-w.asleep[m.k], from, to)
	if end := min(woken, to); end > from {
		e, cost, co2 := m.a.used(m.k, w.waking[m.k], from, end)
		d.Energy, d.Cost, d.CO2 = d.Energy+e, d.Cost+cost, d.CO2+co2
	}
	return d
}

// Digest identifies everything that Draw depends on.
func (m *Meter) Digest() string {
	h := sha256.New()
	in := m.a.in
	fmt.Fprintln(h, *in.Assumptions, in.Cluster.Groups, in.Zero.UnixNano(), m.k)
	for _, s := range []*Series{in.Prices, in.Intensities} {
		if s == nil {
			continue
		}
		s.digest(h)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Recorder is a Meter that keeps the spells of a simulation, for Account.
type Recorder struct {
	*Meter
	Spells []Spell
}

// Draw records a spell.
func (r *Recorder) Draw(s simulator.Spell) simulator.Draw {
	if s.To > s.From {
		at := append([]workload.NodeGPUs(nil), s.At...)
		r.Spells = append(r.Spells,
			Spell{Job: int(s.Job), At: at, GPUs: workload.GPUs(s.GPUs), Shared: s.Shared, From: s.From, To: s.To})
	}
	return r.Meter.Draw(s)
}
