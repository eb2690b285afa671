package patterns

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// gang is the workers of a job, with the rows of iterations that are not complete.
type gang struct {
	workers []int
	last    []progress // of each of them
	rows    []row
	lastRow int
	hasRows bool // lastRow was passed on
}

// row is the times of one iteration, by worker of a job.
type row struct {
	step   int
	at     time.Duration
	took   []float64 // ms, NaN where the worker has none; in order of job.workers
	filled int
}

// progress is the last step of a worker. One that falls back behind rows that were passed on began again, from a
// checkpoint or the start, or had sent wrong numbers: the steps of its job count from there on.
type progress struct {
	step int
	at   time.Duration
}

// rowLimit bounds the rows that wait for a late worker.
const rowLimit = 64

// maxWorkers bounds the workers of a job that are examined.
const maxWorkers = 4096

// iteration adds an iteration to its row, and passes complete rows on.
func (s *state) iteration(it *telemetry.Iteration, at time.Duration) {
	j := s.jobs[it.Job]
	if j == nil {
		if j = s.infer(it.Job, at); j == nil {
			return
		}
	}
	j.progress = max(j.progress, at, 1)
	w := slices.Index(j.workers, it.Worker)
	if w < 0 {
		if len(j.workers) == maxWorkers || s.workers >= 4*s.cap {
			s.drop("workers")
			return
		}
		s.workers++
		w = len(j.workers)
		j.workers, j.last = append(j.workers, it.Worker), append(j.last, progress{})
	}
	if p := j.last[w]; j.hasRows && it.Step <= j.lastRow && it.Step < p.step && at > p.at {
		s.passRows(j)
		clear(j.last)
		j.hasRows = false
	}
	if p := &j.last[w]; at >= p.at {
		*p = progress{it.Step, at}
	}
	if j.hasRows && it.Step <= j.lastRow {
		return
	}
	i := len(j.rows) // most are of the last row
	for i > 0 && j.rows[i-1].step >= it.Step {
		i--
	}
	if i == len(j.rows) || j.rows[i].step != it.Step {
		j.rows = slices.Insert(j.rows, i, row{step: it.Step})
	}
	x := &j.rows[i]
	for len(x.took) < len(j.workers) {
		x.took = append(x.took, math.NaN())
	}
	if math.IsNaN(x.took[w]) {
		x.filled++
	}
	x.took[w], x.at = it.Took.Seconds()*1000, at
	for len(j.rows) > 1 && (j.rows[0].filled == len(j.workers) || len(j.rows) > rowLimit) {
		s.passRow(j)
	}
}

func (s *state) passRow(j *job) {
	x := j.rows[0]
	j.rows = slices.Delete(j.rows, 0, 1)
	j.lastRow, j.hasRows, s.seen.iterations = x.step, true, true
	s.onRow(j, &x)
}

// passRows passes on the rows that wait for a worker.
func (s *state) passRows(j *job) {
	for len(j.rows) > 0 {
		s.passRow(j)
	}
}

// slowest is the largest time of a row.
func (x *row) slowest() float64 {
	most := math.NaN()
	for _, v := range x.took {
		if math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

// workerNode returns the node of the i-th worker where the placement shows it: there is a worker for each node, or for
// each GPU, in order. Else it is empty.
func (j *job) workerNode(i int) string {
	w := j.workers[i]
	if w < 0 || len(j.placement) == 0 {
		return ""
	}
	switch len(j.workers) {
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
