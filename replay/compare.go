package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Row is a configuration of a scheduler, held, in a comparison.
type Row struct {
	Name      string
	Scheduler *schedulers.Scheduler
	Config    space.Config
}

// Window bounds the submissions of the jobs that count.
type Window struct {
	Name     string
	From, To time.Duration
}

// CompareOptions configure Compare.
type CompareOptions struct {
	Trace   *workload.Workload
	Cluster workload.Cluster
	Windows []Window
	// Warmup is how long before each window the cluster starts empty; the jobs of that time run and do not count.
	Warmup time.Duration
	Rows   []Row // the first is the baseline
	// Estimate returns simulator.Options.Estimate for a window's jobs; nil gives none. It
	// alone draws: once for each of Seeds, from Seed on.
	Estimate func(jobs []workload.Job, seed uint64) func(*workload.Job) time.Duration
	Seed     uint64
	Seeds    int
	Simulate simulator.Options
	// Jobs is the number of simulations at a time; 0 is one per processor.
	Jobs     int
	Keep     Keep
	Progress func(name string, p cells.Progress)
}

// Comparison is the result of Compare.
type Comparison struct {
	Trace     string           `json:"trace"`
	Digest    string           `json:"digest"`
	Synthetic bool             `json:"synthetic"`
	Cluster   workload.Cluster `json:"cluster"`
	Seeds     []uint64         `json:"seeds,omitempty"` // of run-time estimates
	Simulator string           `json:"simulator"`
	Rows      []ComparedRow    `json:"rows"`
	Windows   []ComparedWindow `json:"windows"`
	// All has the results over the jobs of all windows, if there are several.
	All []Result `json:"all,omitempty"`
	// Verdict is on the settings of the first row's scheduler, absent where rows of other schedulers are compared.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Change is from the first row to the best, of a site whose settings are described, absent if none is better.
	Change *SettingsChange `json:"settings_change,omitempty"`
}

// ComparedRow is the contents of a row.
type ComparedRow struct {
	Name          string       `json:"name"`
	Scheduler     string       `json:"scheduler"`
	Configuration space.Config `json:"configuration"`
}

// ComparedWindow has the results of a window in the order of the rows.
type ComparedWindow struct {
	Name    string   `json:"name"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Results []Result `json:"results"`
	// Fidelity of the simulation under the baseline, absent where a synthetic trace has no delays.
	Fidelity *fidelity.Graded `json:"fidelity,omitempty"`
	// Jobs are those of the window.
	Jobs []workload.Job `json:"-"`
	// FromS and ToS are seconds since the trace's zero.
	FromS, ToS float64 `json:"-"`
}

// Metrics of a simulation, as of simulate. Of several seeds they are means.
type Metrics struct {
	Jobs          int     `json:"jobs"`
	AvgJCT        float64 `json:"avg_jct_s"`
	P50JCT        float64 `json:"p50_jct_s"`
	P95JCT        float64 `json:"p95_jct_s"`
	P99JCT        float64 `json:"p99_jct_s"`
	AvgQueue      float64 `json:"avg_queue_s"`
	P95Queue      float64 `json:"p95_queue_s"`
	Utilization   float64 `json:"utilization"`
	Fragmentation float64 `json:"fragmentation"`
	FTFLe1        float64 `json:"ftf_le_1"`
	P95Rho        float64 `json:"p95_rho"`
	Preemptions   float64 `json:"preemptions"`
}

// Result of a row.
type Result struct {
	Row string `json:"row"`
	Metrics
	// Ratio is the baseline's average JCT over the row's, Low and High its 95 % interval
	// (stats.RatioInterval): 0 for the baseline and for few jobs. Above 1 is better.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"ratio_low,omitempty"`
	High  float64 `json:"ratio_high,omitempty"`
	// Faster and Slower are the shares of jobs whose JCT is more than 1 % shorter or
	// longer than under the baseline.
	Faster float64 `json:"faster"`
	Slower float64 `json:"slower"`
	// Spread is the largest average JCT of a seed over the least, minus 1.
	Spread float64 `json:"spread"`
	// Rows of the jobs: means over seeds.
	Rows JobRows `json:"-"`
	// Series are GPUs over time, of the first seed, until half the window after its end.
	Series []GPUs `json:"-"`
	seeds  [][]float64
}

// GPUs in use and asked for by waiting jobs: means over the time from AtS to the next.
type GPUs struct {
	AtS    float64 `json:"at_s"` // since the trace's zero
	Used   float64 `json:"used"`
	Queued float64 `json:"queued"`
}

// simulated is a simulation as it is kept.
type simulated struct {
	Metrics
	Rows   JobRows `json:"rows"`
	Series []GPUs  `json:"series"`
}

// Compare simulates every row on every window, and for every seed if run times are
// estimated, and compares the rows job by job with the first.
func Compare(ctx context.Context, o CompareOptions) (*Comparison, error) {
	if len(o.Rows) == 0 || len(o.Windows) == 0 {
		return nil, errors.New("compare: no configuration or no window")
	}
	out := &Comparison{Trace: o.Trace.Name(), Digest: o.Trace.Digest(), Synthetic: o.Trace.Synthetic(),
		Cluster: o.Cluster, Simulator: simulator.Version}
	for _, r := range o.Rows {
		out.Rows = append(out.Rows, ComparedRow{r.Name, r.Scheduler.Name, r.Config})
	}
	seeds := 1
	if o.Estimate != nil {
		seeds = max(1, o.Seeds)
		for i := range seeds {
			out.Seeds = append(out.Seeds, o.Seed+uint64(i))
		}
	}
	list, parts, err := o.simulations(seeds)
	if err != nil {
		return nil, err
	}
	progress := func(p cells.Progress) {
		if o.Progress != nil {
			o.Progress(parts[p.Cell].name, p)
		}
	}
	got, err := compute(ctx, o.Keep, o.Jobs, parts, nil, progress,
		func(ctx context.Context, i int, _ *simulated, _ func(float64)) (*simulated, error) {
			v, err := list[i].run(ctx, o.Cluster)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", parts[i].name, err)
			}
			return v, nil
		})
	if err != nil {
		return nil, err
	}
	clock := func(at time.Duration) string { return o.Trace.Zero().Add(at).Format(time.RFC3339) }
	for k, w := range o.Windows {
		x := ComparedWindow{Name: w.Name, From: clock(w.From), To: clock(w.To), FromS: w.From.Seconds(),
			ToS: w.To.Seconds(), Jobs: list[k*seeds*len(o.Rows)].jobs.Jobs()}
		for j, r := range o.Rows {
			var of []*simulated
			for i := range seeds {
				of = append(of, got[(k*seeds+i)*len(o.Rows)+j])
			}
			x.Results = append(x.Results, *resultOf(r.Name, of))
		}
		pair(x.Results, o.Seed)
		out.Windows = append(out.Windows, x)
	}
	if len(out.Windows) > 1 {
		for j := range o.Rows {
			out.All = append(out.All, *over(out.Windows, j))
		}
		pair(out.All, o.Seed)
	}
	return out, nil
}

// simulation is a row on a window, for a seed.
type simulation struct {
	row     Row
	window  Window
	jobs    *workload.Workload
	options simulator.Options
}

// simulations are the simulations of a comparison: by window, seed and row.
func (o *CompareOptions) simulations(seeds int) (list []simulation, parts []part, err error) {
	for _, w := range o.Windows {
		jobs := o.Trace.Window(w.From-o.Warmup, w.To)
		if o.Trace.Window(w.From, w.To).Ended() == 0 {
			return nil, nil, fmt.Errorf("compare: no job of %s that ended is submitted in the window %s",
				o.Trace.Name(), w.Name)
		}
		warmed := Warmed(o.Simulate, o.Trace, o.Cluster, w.From, o.Warmup)
		for i := range seeds {
			options := warmed
			if o.Estimate != nil {
				options.Estimate = o.Estimate(jobs.Jobs(), o.Seed+uint64(i))
			}
			digest := options.Digest(o.Cluster.TotalGPUs(), each(jobs.Jobs()))
			for _, r := range o.Rows {
				list = append(list, simulation{r, w, jobs, options})
				parts = append(parts, part{name: fmt.Sprintf("%s, %s", r.Name, w.Name),
					cost: cells.Cost{Units: float64(jobs.Len()), Kinds: []string{r.Scheduler.Name, "simulation"}},
					inputs: []any{"comparison", simulator.Version, jobs.Digest(), w.From, w.To, o.Cluster,
						r.Scheduler.Name, r.Config, digest}})
			}
		}
	}
	return list, parts, nil
}

// run runs the jobs of the window to their end.
func (x *simulation) run(ctx context.Context, c workload.Cluster) (*simulated, error) {
	out := &simulated{}
	const samples = 160
	w, o := x.window, x.options
	until := w.To + (w.To-w.From)/2
	step := max(time.Minute, ((until - w.From) / samples).Truncate(time.Minute))
	o.Series = &simulator.Series{Interval: step, Emit: func(s simulator.Sample) {
		if s.At < until {
			out.Series = append(out.Series, GPUs{s.At.Seconds(), s.GPUs, s.Queued})
		}
	}}
	var sim simulator.Sim
	if err := sim.Start(c, x.jobs, x.row.Scheduler.New(x.row.Config), o); err != nil {
		return nil, err
	}
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	s := sim.Summarize()
	out.Metrics = Metrics{s.Jobs, s.AvgJCT, s.P50JCT, s.P95JCT, s.P99JCT, s.AvgQueue, s.P95Queue, s.Utilization,
		s.Fragmentation, s.FTFLe1, s.P95Rho, float64(s.Preemptions)}
	out.Rows = rowsOf(&sim, x.jobs.Jobs(), w.From)
	return out, nil
}

// resultOf condenses the simulations of a row's seeds.
func resultOf(row string, seeds []*simulated) *Result {
	out := &Result{Row: row, Series: seeds[0].Series}
	out.Jobs = seeds[0].Jobs
	var averages []float64
	for _, s := range seeds {
		out.add(&s.Metrics, 1/float64(len(seeds)))
		out.seeds, averages = append(out.seeds, s.Rows.JCTs()), append(averages, s.AvgJCT)
	}
	out.Spread = spreadOf(averages)
	out.Rows = meanRows(len(seeds), func(i int) JobRows { return seeds[i].Rows })
	return out
}

// add adds metrics times a weight, all but the number of jobs.
func (m *Metrics) add(x *Metrics, weight float64) {
	to, of := m.values(), x.values()
	for i := range to {
		*to[i] += weight * *of[i]
	}
}

func (m *Metrics) values() []*float64 {
	return []*float64{&m.AvgJCT, &m.P50JCT, &m.P95JCT, &m.P99JCT, &m.AvgQueue, &m.P95Queue, &m.Utilization,
		&m.Fragmentation, &m.FTFLe1, &m.P95Rho, &m.Preemptions}
}

// spreadOf is the largest of the seeds' averages over the least, minus 1.
func spreadOf(averages []float64) float64 { return slices.Max(averages)/slices.Min(averages) - 1 }

// over is a row's result over the jobs of all windows. Utilisation, fragmentation and
// fairness are means over the windows by their numbers of jobs, and preemptions the sum.
func over(windows []ComparedWindow, row int) *Result {
	out := &Result{Row: windows[0].Results[row].Row}
	n, preemptions := 0, 0.
	for i := range windows {
		n += windows[i].Results[row].Jobs
	}
	for i := range windows {
		r := &windows[i].Results[row]
		out.add(&r.Metrics, float64(r.Jobs)/float64(n))
		preemptions += r.Preemptions
		out.Rows = append(out.Rows, r.Rows...)
		for k, s := range r.seeds {
			if k == len(out.seeds) {
				out.seeds = append(out.seeds, nil)
			}
			out.seeds[k] = append(out.seeds[k], s...)
		}
	}
	var averages []float64
	for _, s := range out.seeds {
		averages = append(averages, stats.Mean(s))
	}
	out.Jobs, out.Preemptions, out.Spread = n, preemptions, spreadOf(averages)
	jcts, waits := slices.Sorted(slices.Values(out.Rows.JCTs())), slices.Sorted(slices.Values(out.Rows.Waits()))
	out.P50JCT, out.P95JCT, out.P99JCT = stats.Quantile(jcts, .5), stats.Quantile(jcts, .95), stats.Quantile(jcts, .99)
	out.P95Queue = stats.Quantile(waits, .95)
	return out
}

// pair compares the results with the first, job by job.
func pair(results []Result, seed uint64) {
	base := &results[0]
	for i := range results {
		r := &results[i]
		if r.Ratio = base.AvgJCT / r.AvgJCT; i == 0 {
			continue
		}
		r.Low, r.High, _ = stats.RatioInterval(r.seeds, base.seeds, 1, seed)
		const same = 1.01
		ended := 0
		for j := range r.Rows {
			is, was := &r.Rows[j], &base.Rows[j]
			if !is.Ended || !was.Ended {
				continue
			}
			switch ended++; {
			case was.JCT > same*is.JCT:
				r.Faster++
			case is.JCT > same*was.JCT:
				r.Slower++
			}
		}
		n := float64(max(1, ended))
		r.Faster, r.Slower = r.Faster/n, r.Slower/n
	}
}
