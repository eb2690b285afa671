package energy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Meter computes what the jobs of a simulation draw above the power of idle nodes, at the
// middle of the constants: what a configuration decides while all nodes are on. It is a
// simulator.Meter.
type Meter struct{ a *account }

// NewMeter makes the meter of a cluster. Prices, intensities and zero are those of Input.
func NewMeter(as *Assumptions, c workload.Cluster, zero time.Time, prices, intensities *Series) (*Meter, error) {
	a := &account{in: &Input{Assumptions: as, Cluster: c, Zero: zero, Prices: prices, Intensities: intensities}}
	for k := range bands {
		a.prices[k], a.carbon[k] = prices, intensities
	}
	if err := a.groups(); err != nil {
		return nil, err
	}
	return &Meter{a}, nil
}

// Draw is what a job draws in a spell.
func (m *Meter) Draw(s simulator.Spell) simulator.Draw {
	active := 0.0
	add := func(w *watts, gpus int) {
		if s.Shared {
			active += w.half[1] * float64(gpus)
		} else {
			active += w.alone[1] * float64(gpus)
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
	d.Energy, d.Cost, d.CO2 = m.a.used(1, active, s.From, s.To)
	return d
}

// Awake is what a node draws while it is awake above a sleeping one, waking until an instant. The GPUs of jobs
// add to it. The Meter is a simulator.NodeMeter.
func (m *Meter) Awake(node int, from, to, woken time.Duration) (d simulator.Draw) {
	group := 0
	if m.a.group != nil {
		group = m.a.group[node]
	}
	w, gpus := &m.a.watts[group], m.a.in.Cluster.Groups[group].GPUsPerNode
	d.Energy, d.Cost, d.CO2 = m.a.used(1, w.base[1]*float64(gpus)-w.asleep[1], from, to)
	if end := min(woken, to); end > from {
		e, cost, co2 := m.a.used(1, w.waking[1], from, end)
		d.Energy, d.Cost, d.CO2 = d.Energy+e, d.Cost+cost, d.CO2+co2
	}
	return d
}

// Digest identifies everything that Draw depends on.
func (m *Meter) Digest() string {
	h := sha256.New()
	in := m.a.in
	fmt.Fprintln(h, *in.Assumptions, in.Cluster.Groups, in.Zero.UnixNano())
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
			Spell{Job: int(s.Job), At: at, GPUs: s.GPUs, Shared: s.Shared, From: s.From, To: s.To})
	}
	return r.Meter.Draw(s)
}
