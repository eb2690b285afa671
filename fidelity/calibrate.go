package fidelity

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// Calibration is a number of nodes chosen on the first half of the window, and its accuracy on
// the second. Costs of restarts and spreading are not calibrated on delays: recorded run
// times contain them, so that none at all would be the closest (see simulator/calibrate).
type Calibration struct {
	Nodes   int  `json:"nodes"`
	Changed bool `json:"changed"` // Nodes differs from the given one
	// Before and After are of the jobs submitted in the second half, by the given one and
	// by the calibration.
	Before Agreement `json:"queueing_delay_before"`
	After  Agreement `json:"queueing_delay_after"`
	Graded           // of After
}

// worth is the share of the error's logarithm that a calibration must remove on the first half.
const worth = .05

// calibrate chooses the nodes. It is nil where a half has too few jobs, where another scheduler ran
// the history (its order would be calibrated away), and where nodes are given by group or
// over time.
func (in *Input) calibrate(ctx context.Context, r *Report, own *run) (*Calibration, error) {
	if in.Recorded != in.Scheduler.Name || len(in.Cluster.Groups) != 1 || len(in.Simulate.Nodes) > 0 {
		return nil, nil
	}
	mid := in.From + (in.To-in.From)/2
	first := *in
	first.To = mid
	first.Trace = in.Trace.Window(-workload.MaxSubmit, mid)
	if first.Trace.Window(in.From, mid).Len() < minJobs {
		return nil, nil
	}
	second := own.after(mid)
	base, err := first.run(ctx, in.policy())
	if err != nil {
		return nil, err
	}
	if len(base.pairs) < minJobs || len(second.pairs) < minJobs {
		return nil, nil
	}
	out := &Calibration{Nodes: in.Cluster.Nodes()}
	least := base.off()
	for _, n := range first.likelyNodes(base) {
		changed, ok := first.withNodes(n)
		if n == out.Nodes || !ok {
			continue
		}
		got, err := changed.run(ctx, in.policy())
		if err != nil {
			return nil, err
		}
		if off := got.off(); off < (1-worth)*least {
			out.Nodes, out.Changed, least = n, true, off
		}
	}
	test := *r
	out.Before = second.delay()
	if changed, ok := in.withNodes(out.Nodes); ok && out.Changed {
		got, err := changed.run(ctx, in.policy())
		if err != nil {
			return nil, err
		}
		second = got.after(mid)
	}
	test.Graded = Graded{}
	test.agree(second)
	out.After, out.Graded = test.Delay, test.Graded
	return out, nil
}

// off is the error of a run: the logarithm of the delays' factor.
func (r *run) off() float64 { return math.Log(r.delay().Factor) }

// after is the jobs submitted from an instant on.
func (r *run) after(at time.Duration) *run {
	i, _ := slices.BinarySearchFunc(r.pairs, at, func(p pair, at time.Duration) int { return int(p.job.Submit - at) })
	return &run{pairs: r.pairs[i:], free: r.free}
}

// likelyNodes are the nodes that hold the recorded peak, and the nodes in use while jobs waited
// beside free GPUs.
func (in *Input) likelyNodes(base *run) []int {
	rec := recordOf(in)
	excess := make([]float64, len(base.pairs))
	for i, d := range idle(base.pairs, &rec.free, recordedDelay) {
		excess[i] = d.Seconds()
	}
	var out []int
	for _, gpus := range []float64{float64(rec.peak()) / 1000, usedWhile(base.pairs, excess, rec)} {
		if n := int(math.Ceil(gpus / float64(in.Cluster.GPUsPerNode()))); n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// withNodes is the input with a number of nodes; not ok where a job does not fit them.
func (in *Input) withNodes(n int) (*Input, bool) {
	out := *in
	out.Cluster.Groups = slices.Clone(in.Cluster.Groups)
	out.Cluster.Groups[0].Nodes = n
	for _, j := range in.jobs().Jobs() {
		if !out.Cluster.Fits(&j) {
			return nil, false
		}
	}
	return &out, true
}
