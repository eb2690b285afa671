package round

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/workload"
)

// Futures samples the futures that a round on the input searches on.
func Futures(ctx context.Context, in Input) ([]Scenario, error) {
	in.Settings = in.Settings.WithDefaults()
	in.chooseSearch()
	return in.draw(ctx, in.seed())
}

// chooseSearch sets the scope of a round's search, with the reason in a sentence, and returns the history and the
// situation that say so.
func (in *Input) chooseSearch() (before *history, now situation, why string) {
	at := in.State.At
	before, now = loadHistory(in.History, in.Space), in.describe()
	before.observe(at)
	before.pursue(in.Goal.String())
	in.Search, why = before.search(in.Search, &now, at, in.Incumbent.Equal(in.Space.Default()))
	if in.Urgent {
		in.Search, why = SearchPortfolio, "more arrived since the last decision than it expected"
	}
	return before, now, why
}

// draw samples futures for the settings, which have their defaults.
func (in *Input) draw(ctx context.Context, seed uint64) ([]Scenario, error) {
	in.startEngine()
	return in.Forecast(ctx, in.Engine, in.Horizon, in.Settings.Futures, seed)
}

// startEngine makes the engine of the rule where there is none yet.
func (in *Input) startEngine() {
	if in.Engine == nil {
		in.Engine = generation.NewEngine(in.Zero, in.Rule.Generator())
	}
}

// Workload is a scenario of the snapshot as jobs from an empty cluster on: those that are active with their
// submission and the run time that they have in it from their start, then those that arrive.
func (s *Snapshot) Workload(x *Scenario) (*workload.Workload, error) {
	var jobs []workload.Job
	if x.State != nil {
		for i, r := range index(s.records()).active(x.State) {
			j := x.State.Jobs[i].Job
			j.Duration, j.Status, j.HasWait, j.Wait = r.Ran+x.Left[i], workload.Unknown, false, 0
			jobs = append(jobs, j)
		}
	}
	if x.Arrivals != nil {
		jobs = append(jobs, x.Arrivals.Jobs()...)
	}
	return s.workload(jobs, true)
}

// EndedJobs are the jobs submitted in [from, to) that ended, with the run time in which they made progress, restarts
// left out. Jobs that never ran are no part of it.
func (s *Snapshot) EndedJobs(from, to time.Duration) (*workload.Workload, error) {
	work := s.work()
	var jobs []workload.Job
	for _, f := range s.Ledger.Finishes(from, s.State.At+1) {
		j := f.Job
		if j.Submit < from || j.Submit >= to {
			continue
		}
		if j.Duration = work(f.RunTime, f.Starts-f.LostStarts, &f.Job); j.Duration <= 0 {
			continue
		}
		if f.Starts == 1 {
			j.HasWait, j.Wait = true, max(0, f.End-f.RunTime-j.Submit)
		}
		jobs = append(jobs, j)
	}
	return s.workload(jobs, false)
}

func (s *Snapshot) workload(jobs []workload.Job, synthetic bool) (*workload.Workload, error) {
	w, err := workload.New("", s.Zero, jobs)
	if err != nil {
		return nil, fmt.Errorf("round: %w", err)
	}
	return workload.NewSorted("", s.Zero, w.Jobs(), synthetic), nil
}

// fittingJobs are the jobs of a workload that fit a cluster.
func fittingJobs(w *workload.Workload, c workload.Cluster) *workload.Workload {
	var jobs []workload.Job
	for i := range w.Jobs() {
		if j := &w.Jobs()[i]; c.Fits(j) {
			jobs = append(jobs, *j)
		}
	}
	if len(jobs) == w.Len() {
		return w
	}
	return workload.NewSorted(w.Name(), w.Zero(), jobs, w.Synthetic())
}
