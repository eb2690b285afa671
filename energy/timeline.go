package energy

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

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
