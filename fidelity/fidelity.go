// Package fidelity compares a simulation of a recorded history with the record: whether
// jobs wait in the simulated cluster as they did in the real one, the causes of the
// difference, and whether conclusions may be drawn about the real one.
package fidelity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Input is a history and the settings to simulate it under.
type Input struct {
	Trace *workload.Workload
	// From and To bound the submissions that are compared. The simulated cluster starts empty Warmup earlier.
	From, To  time.Duration
	Warmup    time.Duration
	Cluster   workload.Cluster
	Scheduler *schedulers.Scheduler
	Config    space.Config
	Simulate  simulator.Options
	// Recorded is the name of the scheduler that ran the history, Unknown or Scheduler's.
	Recorded string
	// closest is the member of the ensemble that is compared, nil before.
	closest simulator.Policy
}

// policy is the simulated scheduler.
func (in *Input) policy() simulator.Policy {
	if in.closest != nil {
		return in.closest
	}
	return in.Scheduler.New(in.Config)
}

// Unknown is Input.Recorded where the history does not say, Other that of a scheduler
// that is not in the table.
const (
	Unknown = "unknown"
	Other   = "other"
)

// CheckRecorded checks a name for Input.Recorded.
func CheckRecorded(name string) error {
	if name == Unknown || name == Other {
		return nil
	}
	if _, err := schedulers.Find(name); err != nil {
		return fmt.Errorf("%w, and %s and %s", err, Other, Unknown)
	}
	return nil
}

// Report is a comparison. Times are in seconds.
type Report struct {
	Graded
	Scheduler string `json:"scheduler"`
	Recorded  string `json:"recorded_scheduler"`
	// Configuration that was simulated.
	Configuration space.Config     `json:"configuration"`
	Cluster       workload.Cluster `json:"cluster"`
	// Jobs were simulated. Of them Unended had not ended when the trace was written,
	// Unrecorded have no recorded queueing delay, and WarmUp were submitted while the
	// simulated cluster filled; Compared is the rest.
	Jobs       int `json:"jobs"`
	Unended    int `json:"not_ended"`
	Unrecorded int `json:"without_recorded_delay"`
	WarmUp     int `json:"warm_up"`
	Compared   int `json:"compared"`
	// PeakGPUs is the most that recorded jobs held at once, MeanGPUs the mean over the window.
	PeakGPUs float64 `json:"recorded_peak_gpus"`
	MeanGPUs float64 `json:"recorded_mean_gpus"`
	// Delay is that until the first start, Queue the simulated mean with the time after preemptions.
	Delay  Agreement `json:"queueing_delay"`
	Queue  float64   `json:"simulated_queue_s"`
	JCT    Agreement `json:"jct"`
	Groups []Group   `json:"groups"`
	// Ensemble is absent where unknowns of the recorded scheduler do not matter.
	Ensemble *Ensemble `json:"ensemble,omitempty"`
	Causes   []Cause   `json:"causes"`
	// Orders are simulated schedulers, the one that describes the recorded delays best
	// first. Empty of Quick where the grade does not call for it.
	Orders      []Order      `json:"orders,omitempty"`
	Calibration *Calibration `json:"calibration,omitempty"`
	Outages     *Outages     `json:"outages,omitempty"`
}

// minJobs is the number of jobs below which distributions are not compared: the
// distance of two samples of 30 from one distribution is above .25 in a quarter of cases.
const minJobs = 30

// Quick compares by one simulation, and simulates other schedulers only where the
// grade has to be explained.
func Quick(ctx context.Context, in Input) (*Report, error) { return check(ctx, &in, false) }

// Full also compares with other schedulers and calibrates.
func Full(ctx context.Context, in Input) (*Report, error) { return check(ctx, &in, true) }

func check(ctx context.Context, in *Input, full bool) (*Report, error) {
	in.Recorded = cmp.Or(in.Recorded, Unknown)
	w := in.Trace.Window(in.From, in.To)
	if w.Len() == 0 {
		return nil, fmt.Errorf("fidelity: no job of %s is submitted in the window", in.Trace.Name())
	}
	r := &Report{Scheduler: in.Scheduler.Name, Recorded: in.Recorded, Configuration: in.Config, Cluster: in.Cluster,
		Jobs: w.Len(), Groups: []Group{}, Causes: []Cause{}}
	for i := range w.Jobs() {
		switch j := &w.Jobs()[i]; {
		case !j.Status.Ended():
			r.Unended++
		case !j.HasWait:
			r.Unrecorded++
		case j.Submit < in.From+in.warmUp():
			r.WarmUp++
		default:
			r.Compared++
		}
	}
	if r.few() {
		return r, nil
	}
	own, err := in.run(ctx, in.policy())
	if err != nil {
		return nil, err
	}
	rec := recordOf(in)
	r.PeakGPUs, r.MeanGPUs = float64(rec.peak())/1000, rec.used.mean(in.From, in.To)/1000
	r.compare(in, own)
	if r.Grade != Describes && r.Recorded == r.Scheduler {
		if own, err = in.ensemble(ctx, r, own); err != nil {
			return nil, err
		}
	}
	best := own
	if full || r.Refused || r.outOfProportion(r.Queue) {
		if r.Orders, best, err = in.orders(ctx, own); err != nil {
			return nil, err
		}
		r.doubt()
	}
	r.Causes = causes(in, r, rec, own, best)
	if !full {
		return r, nil
	}
	if r.Calibration, err = in.calibrate(ctx, r, own); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.Name == LessCapacity }) {
		if r.Outages, err = in.outages(ctx, rec, own, best); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// compare sets the agreement of a run, and grades it.
func (r *Report) compare(in *Input, own *run) {
	r.Groups = own.groups(in.Trace)
	r.agree(own)
}

// agree is compare but for groups.
func (r *Report) agree(own *run) {
	r.Delay, r.JCT, r.Queue = own.delay(), own.jct(), own.queue()
	r.grade()
}

// warmUp is the part of the window after From that is not compared, as far as no jobs before it warm up the simulated
// cluster, which starts empty where the recorded one did not.
func (in *Input) warmUp() time.Duration {
	first, _ := in.Trace.Span()
	return max(0, min((in.To-in.From)/10, 24*time.Hour)-min(in.Warmup, max(0, in.From-first)))
}

// jobs are the submissions that are simulated.
func (in *Input) jobs() *workload.Workload { return in.Trace.Window(in.From-in.Warmup, in.To) }

// pair is a job with its recorded and its simulated outcome.
type pair struct {
	job                       *workload.Job
	recorded, simulated       time.Duration // queueing delay until the first start
	recordedJCT, simulatedJCT time.Duration // delay and time on GPUs: records lack the time after preemptions
	queue                     time.Duration // simulated, also after preemptions
}

// run is a simulation of the window.
type run struct {
	pairs []pair // the jobs that are compared, in order of submission
	free  steps  // GPUs of the simulated cluster, in thousandths
}

// run simulates the window under a policy.
func (in *Input) run(ctx context.Context, p simulator.Policy) (*run, error) {
	var sim simulator.Sim
	out := &run{}
	o := in.Simulate
	o.Observer = func(e simulator.Event) { out.free.set(e.Time, 1000*int64(sim.Free())) }
	if err := sim.Start(in.Cluster, in.jobs(), p, o); err != nil {
		return nil, err
	}
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	after := in.From + in.warmUp()
	for _, x := range sim.Outcomes(nil) {
		if j := sim.Spec(x.ID); j.HasWait && j.Submit >= after {
			delay := x.Start - j.Submit
			out.pairs = append(out.pairs, pair{j, j.Wait, delay, j.Wait + j.Duration, delay + x.JCT() - x.Wait, x.Wait})
		}
	}
	return out, nil
}

// Refusal is the error of a command that would conclude about the recorded cluster from
// a simulation that does not describe it; nil if it may. It has the first cause and the
// scheduler that is closer. override is the flag that lets it.
func (r *Report) Refusal(override string) error {
	if !r.Refused {
		return nil
	}
	text := "the simulation does not describe the recorded cluster: " + r.Why
	for i, c := range r.Causes {
		if i == 0 || c.Name == OtherScheduler {
			text += "; " + c.Evidence
		}
	}
	return fmt.Errorf("%s. Correct the cluster and the settings until 'autosched fidelity' describes the history, "+
		"or conclude about the simulated cluster alone with %s", text, override)
}
