package fidelity

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Calibration is settings that were chosen on the first half of the window, and what they are
// worth on the second.
type Calibration struct {
	// Nodes of the cluster, and factors on the cost of restarts and on what spreading a job costs
	// beyond its run time.
	Nodes   int     `json:"nodes"`
	Restart float64 `json:"restart_cost_factor"`
	Spread  float64 `json:"spread_slowdown_factor"`
	// Changed says that any of them is another than was given.
	Changed bool `json:"changed"`
	// Before and After are of the jobs submitted in the second half, by what was given and
	// by the calibration.
	Before Agreement `json:"queueing_delay_before"`
	After  Agreement `json:"queueing_delay_after"`
	Graded           // of After
}

// String says what is to be changed.
func (c *Calibration) String() string {
	return fmt.Sprintf("%d nodes, %g x the restart cost, %g x the spread slowdown", c.Nodes, c.Restart, c.Spread)
}

// worth is the share of the error's logarithm that a calibration must remove on the first half.
const worth = .05

// calibrate chooses settings one after the other on the first half of the window. It is nil where
// a half has too few jobs, and where another scheduler ran the history: its order would be
// calibrated away.
func (in *Input) calibrate(ctx context.Context, r *Report, own *run) (*Calibration, error) {
	if in.Recorded != in.Scheduler.Name {
		return nil, nil
	}
	mid := in.From + (in.To-in.From)/2
	first := *in
	first.To = mid
	first.Trace = in.Trace.Window(-workload.MaxSubmit, mid)
	second := own.after(mid)
	base, err := first.run(ctx, in.Scheduler, in.Config)
	if err != nil {
		return nil, err
	}
	if len(base.pairs) < minJobs || len(second.pairs) < minJobs {
		return nil, nil
	}
	best := Calibration{Nodes: in.Cluster.Nodes(), Restart: 1, Spread: 1}
	least := base.off()
	for _, try := range first.candidates(base) {
		next := best
		try(&next)
		changed, ok := first.with(&next)
		if next == best || !ok {
			continue
		}
		got, err := changed.run(ctx, in.Scheduler, in.Config)
		if err != nil {
			return nil, err
		}
		if off := got.off(); off < (1-worth)*least {
			best, least = next, off
		}
	}
	out := best
	out.Changed = best != Calibration{Nodes: in.Cluster.Nodes(), Restart: 1, Spread: 1}
	out.Before, out.After = second.delay(), second.delay()
	test := *r
	test.Graded = Graded{}
	test.JCT, test.Queue = second.jct(), second.queue()
	if changed, ok := in.with(&best); ok && out.Changed {
		got, err := changed.run(ctx, in.Scheduler, in.Config)
		if err != nil {
			return nil, err
		}
		got = got.after(mid)
		out.After, test.JCT, test.Queue = got.delay(), got.jct(), got.queue()
	}
	test.Delay = out.After
	test.grade()
	out.Graded = test.Graded
	return &out, nil
}

// off is the error of a run: the sum of the logarithms of the factors of delay and JCT.
func (r *run) off() float64 { return math.Log(r.delay().Factor) + math.Log(r.jct().Factor) }

// after is the jobs submitted from an instant on.
func (r *run) after(at time.Duration) *run {
	i, _ := slices.BinarySearchFunc(r.pairs, at, func(p pair, at time.Duration) int { return int(p.job.Submit - at) })
	return &run{pairs: r.pairs[i:], free: r.free}
}

// candidates are the settings to try: numbers of nodes that the record suggests, and costs of
// what the simulation does.
func (in *Input) candidates(base *run) []func(*Calibration) {
	var out []func(*Calibration)
	if len(in.Cluster.Groups) == 1 && len(in.Simulate.Nodes) == 0 {
		rec := recordOf(in)
		per := 1000 * float64(in.Cluster.GPUsPerNode())
		excess := make([]float64, len(base.pairs))
		for i, d := range idle(base.pairs, &rec.free, recordedDelay) {
			excess[i] = d.Seconds()
		}
		for _, gpus := range []float64{float64(rec.peak()), 1000 * usedWhile(base.pairs, excess, rec)} {
			if n := int(math.Ceil(gpus / per)); n > 0 {
				out = append(out, func(c *Calibration) { c.Nodes = n })
			}
		}
	}
	if base.preempted {
		for _, f := range []float64{0, .5, 2, 4} {
			out = append(out, func(c *Calibration) { c.Restart = f })
		}
	}
	if base.spread {
		for _, f := range []float64{0, .5, 2} {
			out = append(out, func(c *Calibration) { c.Spread = f })
		}
	}
	return out
}

// with is the input under a calibration; not ok where a job does not fit it.
func (in *Input) with(c *Calibration) (*Input, bool) {
	out := *in
	if c.Nodes != in.Cluster.Nodes() {
		out.Cluster.Groups = slices.Clone(in.Cluster.Groups)
		out.Cluster.Groups[0].Nodes = c.Nodes
		for i := range in.Trace.Jobs() {
			if j := &in.Trace.Jobs()[i]; j.Submit >= in.From && j.Submit < in.To && !out.Cluster.Fits(j) {
				return nil, false
			}
		}
	}
	out.Simulate.Models = c.Models(in.Models).Models()
	return &out, true
}

// Models are performance models under the calibration; nil are the built-in ones.
func (c *Calibration) Models(spec *simulator.ModelSpec) *simulator.ModelSpec {
	if spec == nil {
		spec = simulator.DefaultModelSpec()
	}
	out := *spec.Complete()
	restart, classes := *out.Restart, *out.Classes
	restart.Steps, classes.List = slices.Clone(restart.Steps), slices.Clone(classes.List)
	if c.Restart != 1 {
		restart.Source = fmt.Sprintf("%g times: %s", c.Restart, restart.Source)
		for i := range restart.Steps {
			restart.Steps[i].Seconds *= c.Restart
		}
	}
	if c.Spread != 1 {
		classes.Source = fmt.Sprintf("slowdowns beyond 1 %g times: %s", c.Spread, classes.Source)
		for i := range classes.List {
			m := &classes.List[i]
			m.Slowdown, m.On = 1+c.Spread*(m.Slowdown-1), maps.Clone(m.On)
			for name, x := range m.On {
				m.On[name] = 1 + c.Spread*(x-1)
			}
		}
	}
	out.Restart, out.Classes = &restart, &classes
	return &out
}
