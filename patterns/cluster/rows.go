package cluster

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// gang is the workers of a job, with the rows of iterations that are not complete.
type gang struct {
	Workers []int
	last    []progress // of each of them
	rows    []Row
	lastRow int
	HasRows bool // lastRow was passed on
}

// Row is the times of one iteration, by worker of a job.
type Row struct {
	step   int
	at     time.Duration
	Took   []float64 // ms, NaN where the worker has none; in order of job.workers
	filled int
}

// Progress is the last step of a worker. One that falls back behind rows that were passed on began again, from a
// checkpoint or the start, or had sent wrong numbers: the steps of its job count from there on.
type progress struct {
	step int
	at   time.Duration
}

// rowLimit bounds the rows that wait for a late worker.
const rowLimit = 64

// maxWorkers bounds the workers of a job that are examined.
const maxWorkers = 4096

// Iteration adds an iteration to its row, and passes complete rows on.
func (s *State) Iteration(it *telemetry.Iteration, at time.Duration) {
	j := s.Jobs[it.Job]
	if j == nil {
		if j = s.infer(it.Job, at); j == nil {
			return
		}
	}
	j.Progress = max(j.Progress, at, 1)
	w := slices.Index(j.Workers, it.Worker)
	if w < 0 {
		if len(j.Workers) == maxWorkers || s.workers >= 4*s.Cap {
			s.Drop("workers")
			return
		}
		s.workers++
		w = len(j.Workers)
		j.Workers, j.last = append(j.Workers, it.Worker), append(j.last, progress{})
	}
	if p := j.last[w]; j.HasRows && it.Step <= j.lastRow && it.Step < p.step && at > p.at {
		s.PassRows(j)
		clear(j.last)
		j.HasRows = false
	}
	if p := &j.last[w]; at >= p.at {
		*p = progress{it.Step, at}
	}
	if j.HasRows && it.Step <= j.lastRow {
		return
	}
	i := len(j.rows) // most are of the last row
	for i > 0 && j.rows[i-1].step >= it.Step {
		i--
	}
	if i == len(j.rows) || j.rows[i].step != it.Step {
		j.rows = slices.Insert(j.rows, i, Row{step: it.Step})
	}
	x := &j.rows[i]
	for len(x.Took) < len(j.Workers) {
		x.Took = append(x.Took, math.NaN())
	}
	if math.IsNaN(x.Took[w]) {
		x.filled++
	}
	x.Took[w], x.at = it.Took.Seconds()*1000, at
	for len(j.rows) > 1 && (j.rows[0].filled == len(j.Workers) || len(j.rows) > rowLimit) {
		s.passRow(j)
	}
}

func (s *State) passRow(j *Job) {
	x := j.rows[0]
	j.rows = slices.Delete(j.rows, 0, 1)
	j.lastRow, j.HasRows, s.Seen.Iterations = x.step, true, true
	s.OnRow(j, &x)
}

// PassRows passes on the rows that wait for a worker.
func (s *State) PassRows(j *Job) {
	for len(j.rows) > 0 {
		s.passRow(j)
	}
}

// Slowest is the largest time of a row.
func (x *Row) Slowest() float64 {
	most := math.NaN()
	for _, v := range x.Took {
		if math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

// WorkerNode returns the node of the i-th worker where the placement shows it: there is a worker for each node, or for
// each GPU, in order. Else it is empty.
func (j *Job) WorkerNode(i int) string {
	w := j.Workers[i]
	if w < 0 || len(j.placement) == 0 {
		return ""
	}
	switch len(j.Workers) {
	case len(j.placement):
		if w < len(j.placement) {
			return j.placement[w].Node
		}
	case heldBy(j.placement):
		for _, p := range j.placement {
			if w -= p.GPUs; w < 0 {
				return p.Node
			}
		}
	}
	return ""
}
