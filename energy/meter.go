package energy

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
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
	for k := range band {
		out.set(k, band[k])
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
	return m.a.used(m.k, active, s.From, s.To)
}

// Awake is the power of an awake node above a sleeping one, waking until an instant. The GPUs of jobs
// add to it. The Meter is a simulator.NodeMeter.
func (m *Meter) Awake(node int, from, to, woken time.Duration) simulator.Draw {
	group := 0
	if m.a.group != nil {
		group = m.a.group[node]
	}
	w, gpus := &m.a.watts[group], m.a.in.Cluster.Groups[group].GPUsPerNode
	d := m.a.used(m.k, w.base[m.k]*float64(gpus)-w.asleep[m.k], from, to)
	if end := min(woken, to); end > from {
		x := m.a.used(m.k, w.waking[m.k], from, end)
		d.Energy, d.Cost, d.CO2 = d.Energy+x.Energy, d.Cost+x.Cost, d.CO2+x.CO2
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

// Measured is the measured power of a cluster over time.
type Measured struct {
	// Facility says that the meter is the facility's: PUE does not count again.
	Facility bool
	*Series
	watts []float64 // between an instant and the next, by the trapezoid rule
}

// maxWatts bounds a cluster's power.
const maxWatts = 1e10

// ReadMeasured reads a CSV of ts,watts: the power of all nodes at an instant. Between two
// rows it changes linearly; where rows are more than three times as far apart as usual,
// nothing was measured.
func ReadMeasured(r io.Reader, name string, zone *time.Location) (*Measured, error) {
	s, err := readSeries(r, name, zone, "watts", "", 0, maxWatts)
	if err == nil && len(s.at) < 2 {
		err = fmt.Errorf("%s: want two rows or more below the header", name)
	}
	if err != nil {
		return nil, err
	}
	m := &Measured{Series: s}
	for i := 1; i < len(s.at); i++ {
		m.watts = append(m.watts, (s.values[i-1]+s.values[i])/2)
	}
	return m, nil
}

// missing reports whether nothing was measured from instant i to the next.
func (m *Measured) missing(i int) bool { return m.at[i+1].Sub(m.at[i]) > 3*m.step }

// measure sets the weights that make the modelled power of each interval the measured one.
func (a *account) measure(levels []level, r *Report) {
	m := a.in.Measured
	a.metered = false
	from, to := a.clock(a.in.From), a.clock(a.in.To)
	pue := func(k int) float64 {
		if m.Facility {
			return a.in.Assumptions.constant("pue", k)
		}
		return 1
	}
	measured := 0.0
	for k := range bands {
		at, power := make([]time.Time, len(levels)), make([]float64, len(levels))
		for i := range levels {
			at[i], power[i] = a.clock(levels[i].from), levels[i].free[k]+levels[i].held[k]
		}
		modelled := newSeries("", at, power)
		instants := []time.Time{from.Add(-time.Nanosecond)}
		weights := []float64{1}
		add := func(t time.Time, w float64) {
			if t.After(instants[len(instants)-1]) {
				instants, weights = append(instants, t), append(weights, w)
			}
		}
		for i, w := range m.watts {
			x, y := m.at[i], m.at[i+1]
			if !y.After(from) || !x.Before(to) {
				continue
			}
			if x.Before(from) {
				x = from
			}
			if y.After(to) {
				y = to
			}
			hours := y.Sub(x).Hours()
			switch p := modelled.Over(x, y); {
			case m.missing(i) || p <= 0:
				add(x, 1)
			default:
				add(x, w/pue(k)*hours/p)
				if k == 0 {
					measured += hours
				}
			}
		}
		if last := m.at[len(m.at)-1]; last.Before(to) {
			add(last, 1)
		}
		a.weights[k] = newSeries(m.Name, instants, weights)
	}
	r.MeasuredShare = measured / to.Sub(from).Hours()
	for i := range m.watts {
		if m.missing(i) {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: no power measured from %s to %s: the model holds", m.Name,
				m.at[i].Format(time.RFC3339), m.at[i+1].Format(time.RFC3339)))
		}
	}
}

// Account computes the report of a timeline at the tariff, which replaces that of in.
func (t *Tariff) Account(in *Input) (*Report, error) {
	in.Assumptions, in.Prices, in.Intensities = t.Assumptions, t.Prices, t.Intensities
	return Account(in)
}

// Operate sets the options of a simulation in which nodes sleep and the marked jobs are
// deferred: by "carbon", by "price", or, if by is empty, by price where the tariff has a
// series of prices. constant reports that the series is missing, so that no job is deferred.
func (t *Tariff) Operate(o *simulator.Options, marks Marks, by string, zero time.Time) (constant bool, err error) {
	o.Wake = t.Assumptions.WakeTime()
	if len(marks) == 0 {
		return false, nil
	}
	series := t.Prices
	if by == "carbon" || series == nil && by == "" {
		series = t.Intensities
	}
	o.Deferral, err = NewDeferral(marks, series, zero)
	return series == nil, err
}

// Simulate runs a workload on the cluster of the timeline and fills its jobs, spells and naps in.
// The timeline ends with the simulation unless To is later. The meter of o is replaced.
func (in *Input) Simulate(ctx context.Context, t *Tariff, w *workload.Workload, p simulator.Policy,
	o simulator.Options) (*simulator.Sim, error) {
	meter, err := t.Meter(in.Cluster, in.Zero)
	if err != nil {
		return nil, err
	}
	rec := &Recorder{Meter: meter}
	o.Meter = rec
	var sim simulator.Sim
	if err := sim.Start(in.Cluster, w, p, o); err != nil {
		return nil, err
	}
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	in.Fill(&sim, rec)
	in.To = max(in.To, sim.Now())
	return &sim, nil
}

// Fill sets the jobs, spells and naps from a simulation that rec recorded.
func (in *Input) Fill(sim *simulator.Sim, rec *Recorder) {
	in.Jobs, in.Spells, in.Naps = nil, rec.Spells, sim.Naps()
	for id := range simulator.ID(sim.Len()) {
		j := sim.Spec(id)
		end, ended := sim.JobEnded(id)
		in.Jobs = append(in.Jobs, Job{ID: j.ID, Tenant: j.Tenant, Submit: j.Submit, End: end,
			Ended: ended && j.Status.Ended()})
	}
}

// Cover extends the timeline to all of its spells.
func (in *Input) Cover() {
	for _, s := range in.Spells {
		in.From, in.To = min(in.From, s.From), max(in.To, s.To)
	}
}

// WriteJobs writes the jobs as CSV, in order of submission.
func (r *Report) WriteJobs(out io.Writer) error {
	w := csv.NewWriter(out)
	w.Write([]string{"job_id", "tenant", "gpu_hours", "energy_kwh_low", "energy_kwh", "energy_kwh_high", "cost_usd_low",
		"cost_usd", "cost_usd_high", "co2_kg_low", "co2_kg", "co2_kg_high"})
	for i := range r.ByJob {
		x := &r.ByJob[i]
		row := []string{x.ID, x.Tenant, strconv.FormatFloat(x.GPUHours, 'g', 8, 64)}
		for _, b := range []Band{x.Energy, x.Cost, x.CO2} {
			for _, v := range []float64{b.Low, b.Middle, b.High} {
				row = append(row, strconv.FormatFloat(v, 'g', 8, 64))
			}
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
}
