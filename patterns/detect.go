package patterns

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// detector is a rule that is code. Its methods are called in order of time.
type detector interface {
	fact(*Scanner, *fact)
	row(*Scanner, *job, *row)
	guardrail(*Scanner, *Guardrail, time.Duration)
	tick(*Scanner)
	jobEnded(*Scanner, *job, time.Duration)
}

// passive is a detector that nothing concerns.
type passive struct{}

func (passive) fact(*Scanner, *fact)                          {}
func (passive) row(*Scanner, *job, *row)                      {}
func (passive) guardrail(*Scanner, *Guardrail, time.Duration) {}
func (passive) tick(*Scanner)                                 {}
func (passive) jobEnded(*Scanner, *job, time.Duration)        {}

// detectorKind says what a detector's rule has.
type detectorKind struct {
	groupBy, params []string
	actions         []string // that it proposes in place of the rule's
	make            func(*compiled) detector
}

var detectors map[string]detectorKind

func init() {
	detectors = map[string]detectorKind{
		"straggler": {[]string{"job", "worker"}, []string{"rows", "slow", "factor", "leave", "same_node_hours"},
			[]string{"drain_node"}, newStraggler},
		"iteration_outlier": {[]string{"job"}, []string{"history", "recent", "count", "sigmas", "mads", "ratio", "regular"},
			[]string{"note_checkpoint"}, newOutlier},
		"cv_class": {[]string{"job"}, []string{"skip", "iterations", "stable", "unstable"}, nil, newSpread},
		"queue_spiral": {[]string{"queue"}, []string{"interval_minutes", "times", "wait_growth", "least_wait_minutes",
			"arrival_growth", "arrival_step", "usual", "free_share", "least_starts", "trend_intervals", "p", "least_pending_share",
			"clear_intervals"}, nil, newSpiral},
		"preemption_thrash": {[]string{"cluster"}, []string{"window_minutes", "stops", "mutual_minutes", "ratio",
			"least_gpu_hours", "rollback_hours"}, []string{"roll_back"}, newThrash},
		"config_regression": {[]string{"config_version"}, []string{"within_hours", "windows", "outside"},
			nil, newRegression},
	}
}

// optionalParams may be left out of a rule: what they ask for is then not asked.
var optionalParams = []string{"arrival_step", "usual"}

// found opens a finding of a detector about waste that began at an instant, or updates the open one's confidence and
// rate.
func (s *Scanner) found(r *compiled, began time.Duration, f Finding, gpus float64) *open {
	if o := r.open[f.Entity]; o != nil {
		o.matched, o.rate = s.now, gpus
		o.Confidence = max(o.Confidence, f.Confidence)
		return o
	}
	f.Rule = r.rule.ID
	if f.Action == "" {
		f.Action = r.rule.Action
	}
	if f.Words == "" {
		f.Words = r.rule.Words
	}
	f.Confidence = math.Round(1000*f.Confidence) / 1000
	o := &open{Finding: f, began: began, opened: s.now, counted: s.now, matched: s.now, rate: gpus}
	o.WastedGPUHours = gpus * (o.opened - o.began).Hours()
	s.affected(r, o, nil)
	o.Words = s.say(o.Words, o)
	s.begin(r, o)
	return o
}

// row has the times of one iteration, by worker of a job.
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

// rowLimit is how many rows wait for a worker that is late.
const rowLimit = 64

// maxWorkers is how many workers of a job are examined.
const maxWorkers = 4096

// iterate adds an iteration to its row, and passes complete rows on.
func (s *Scanner) iterate(j *job, it *telemetry.Iteration, at time.Duration) {
	w := slices.Index(j.workers, it.Worker)
	if w < 0 {
		if len(j.workers) == maxWorkers || s.workers >= 4*s.o.Cap {
			s.countDropped("workers")
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

func (s *Scanner) passRow(j *job) {
	x := j.rows[0]
	j.rows = slices.Delete(j.rows, 0, 1)
	j.lastRow, j.hasRows, s.seen[inputIterations] = x.step, true, true
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.row(s, j, &x)
		}
	}
}

// passRows passes the rows on that wait for a worker.
func (s *Scanner) passRows(j *job) {
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
