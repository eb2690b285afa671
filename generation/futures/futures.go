// Package futures draws futures of a trace at an instant, as a tuning round does, and
// compares them with the true one.
package futures

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/workload"
)

// Options configure Draw.
type Options struct {
	At      time.Duration
	Memory  time.Duration // the oldest submission that arrivals are learned from
	Horizon time.Duration // jobs arrive until At + Horizon
	Method  generation.Method
	Count   int
	Seed    uint64
}

// Futures are sampled futures of a trace at an instant, with the true one.
type Futures struct {
	Active int      `json:"active_jobs"`
	Drawn  []Future `json:"futures"`
	Truth  Future   `json:"truth"`

	trace   *workload.Workload
	request generation.Request
	futures []generation.Future
}

// Future summarises a future.
type Future struct {
	// LeftGPUHours is the remaining work of the active jobs; the other fields are of
	// the arrivals.
	LeftGPUHours float64 `json:"left_gpu_hours"`
	Arrivals     int     `json:"arrivals"`
	Batches      int     `json:"batches"`
	GPUHours     float64 `json:"gpu_hours"`
	MedianS      float64 `json:"median_duration_s"`
}

// ErrNoPast is returned if no job was submitted before the instant.
var ErrNoPast = errors.New("futures: no job was submitted before the instant")

// Draw samples futures from the part of a trace known at an instant, as if jobs
// never queued.
func Draw(ctx context.Context, w *workload.Workload, o Options) (*Futures, error) {
	past := w.Window(o.At-o.Memory, o.At).Jobs()
	if len(past) == 0 {
		return nil, ErrNoPast
	}
	f := &Futures{trace: w, request: generation.Request{
		At: o.At, Submitted: past, Records: durations.Known(durations.Unqueued(past), o.At),
		Horizon: o.Horizon, Count: o.Count, Seed: o.Seed,
	}}
	r := &f.request
	for _, j := range r.Records {
		if !j.Ended {
			r.Active = append(r.Active, j)
		}
	}
	f.Active = len(r.Active)
	var err error
	if f.futures, err = generation.NewEngine(w.Zero(), o.Method).Futures(ctx, *r); err != nil {
		return nil, err
	}
	for _, d := range f.futures {
		f.Drawn = append(f.Drawn, summarise(r.Active, d.Left, d.Arrivals.Jobs()))
	}
	f.Truth = summarise(r.Active, f.left(), w.Window(o.At, o.At+o.Horizon).Jobs())
	return f, nil
}

// left returns the true remaining work of each active job.
func (f *Futures) left() []time.Duration {
	total := map[string]time.Duration{}
	for _, j := range f.trace.Jobs() {
		total[j.ID] = j.Duration
	}
	left := make([]time.Duration, len(f.request.Active))
	for i, a := range f.request.Active {
		left[i] = max(0, total[a.ID]-a.Ran)
	}
	return left
}

func summarise(active []durations.Record, left []time.Duration, arrivals []workload.Job) Future {
	s := Future{Arrivals: len(arrivals)}
	for i := range left {
		s.LeftGPUHours += left[i].Hours() * active[i].GPUs.Count()
	}
	last := map[string]time.Duration{}
	var seconds []float64
	for _, j := range arrivals {
		if t, ok := last[j.Tenant]; !ok || j.Submit-t > workload.BatchGap {
			s.Batches++
		}
		last[j.Tenant] = j.Submit
		s.GPUHours += j.Duration.Hours() * j.GPUs.Count()
		seconds = append(seconds, j.Duration.Seconds())
	}
	if sort.Float64s(seconds); len(seconds) > 0 {
		s.MedianS = seconds[len(seconds)/2]
	}
	return s
}

// Trace returns future k as a trace: the active jobs with their remaining work,
// submitted at the instant, then the arrivals.
func (f *Futures) Trace(k int) (*workload.Workload, error) {
	var jobs []workload.Job
	for i, a := range f.request.Active {
		j := *a.Job
		j.Submit, j.Duration = f.request.At, max(time.Second, f.futures[k].Left[i])
		jobs = append(jobs, j)
	}
	jobs = append(jobs, f.futures[k].Arrivals.Jobs()...)
	w, err := workload.New(fmt.Sprintf("%s, future %d", f.trace.Name(), k), f.trace.Zero(), jobs)
	if err != nil {
		return nil, err
	}
	return w.AsSynthetic(), nil
}
