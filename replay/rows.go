package replay

import (
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// JobRow is the result of a job.
type JobRow struct {
	ID string `json:"id"`
	round.JobResult
}

// JobRows are the rows of all jobs that count, in order of submission.
type JobRows []JobRow

// rowsOf are the rows of the jobs of a simulation that are submitted from an instant on.
func rowsOf(sim *simulator.Sim, jobs []workload.Job, from time.Duration) (out JobRows) {
	ended := sim.Outcomes(nil)
	for i := range jobs {
		id := simulator.ID(i)
		for len(ended) > 0 && ended[0].ID < id {
			ended = ended[1:]
		}
		if jobs[i].Submit < from {
			continue
		}
		row := JobRow{ID: jobs[i].ID, JobResult: round.JobResult{Wait: sim.JobWaited(id).Seconds()}}
		if len(ended) > 0 && ended[0].ID == id {
			row.JCT, row.Ended = ended[0].JCT().Seconds(), true
		}
		out = append(out, row)
	}
	return out
}

// JCTs of the jobs that ended, in order of submission.
func (r JobRows) JCTs() []float64 { return r.of(func(x *JobRow) float64 { return x.JCT }) }

// Waits of the jobs that ended, in order of submission.
func (r JobRows) Waits() []float64 { return r.of(func(x *JobRow) float64 { return x.Wait }) }

func (r JobRows) of(value func(*JobRow) float64) (out []float64) {
	for i := range r {
		if r[i].Ended {
			out = append(out, value(&r[i]))
		}
	}
	return out
}

// byID are the results of jobs by their names.
func (r JobRows) byID() map[string]*round.JobResult {
	out := make(map[string]*round.JobResult, len(r))
	for i := range r {
		out[r[i].ID] = &r[i].JobResult
	}
	return out
}

// Table has a row for each job of the first of several simulations and a column for each of them: the JCT in
// seconds, nil of a job that did not end.
func Table(of []JobRows, each func(id string, jcts []*float64) error) error {
	if len(of) == 0 {
		return nil
	}
	results := make([]map[string]*round.JobResult, len(of))
	for k := range of {
		results[k] = of[k].byID()
	}
	jcts := make([]*float64, len(of))
	for i := range of[0] {
		for k := range of {
			jcts[k] = nil
			if x := results[k][of[0][i].ID]; x != nil && x.Ended {
				jcts[k] = &x.JCT
			}
		}
		if err := each(of[0][i].ID, jcts); err != nil {
			return err
		}
	}
	return nil
}

// Changes joins the rows of jobs before a change and after it.
func Changes(jobs []workload.Job, before, after JobRows) (out []round.JobChange) {
	was, is := before.byID(), after.byID()
	for i := range jobs {
		if b, a := was[jobs[i].ID], is[jobs[i].ID]; b != nil && a != nil {
			out = append(out, round.JobChange{Job: &jobs[i], Before: *b, After: *a})
		}
	}
	return out
}

// meanRows are the means of several simulations of the same jobs. A job ended if it ended in all.
func meanRows(n int, of func(i int) JobRows) JobRows {
	if n == 1 {
		return of(0)
	}
	out := slices.Clone(of(0))
	all := make([]map[string]*round.JobResult, n)
	for i := range all {
		all[i] = of(i).byID()
	}
	for j := range out {
		row := &out[j]
		waits, jcts := make([]float64, n), make([]float64, n)
		for i := range all {
			x := all[i][row.ID]
			waits[i], jcts[i], row.Ended = x.Wait, x.JCT, row.Ended && x.Ended
		}
		row.Wait, row.JCT = stats.Mean(waits), stats.Mean(jcts)
		if !row.Ended {
			row.JCT = 0
		}
	}
	return out
}
