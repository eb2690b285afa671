package durations

import (
	"context"
	"math"

	"github.com/autosched/autosched/internal/trees"
)

// Examples are questions with the rows that a Tracker gave for them.
type Examples struct {
	Questions []Question
	// X has all Features.
	X trees.Matrix
	// Class of each job's whole duration. It is the answer: of a job that still
	// runs, only the time so far is known.
	Class []float64
	// Ran and Total are seconds: work done at the question, and at the history's
	// end.
	Ran, Total []float64
	// Weights are 1 unless weigh was called.
	Weights []float64
	// batch is the size of each job's batch.
	batch []int
}

// Len is the number of examples.
func (e *Examples) Len() int { return len(e.Questions) }

// Extract answers questions in order of time in one pass over a history.
func Extract(ctx context.Context, history []Record, questions []Question) (*Examples, error) {
	t, err := NewTracker(history)
	if err != nil {
		return nil, err
	}
	n := len(questions)
	e := &Examples{Questions: questions, X: trees.NewMatrix(n, len(Features)), Class: make([]float64, n),
		Ran: make([]float64, n), Total: make([]float64, n),
		Weights: make([]float64, n), batch: make([]int, n)}
	for i, q := range questions {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.Advance(q.At)
		t.Row(e.X.Row(i), q.Job)
		r := &history[q.Job]
		e.Class[i] = float64(ClassOf(r.Ran))
		e.Ran[i] = t.ran(int32(q.Job)).Seconds()
		e.Total[i] = r.Ran.Seconds()
		e.Weights[i] = 1
	}
	for i, q := range questions {
		e.batch[i] = int(t.batches[t.jobs[q.Job].batch].size)
	}
	return e, nil
}

// weigh divides a job's weight by the square root of its batch's size, so that a
// sweep of a thousand jobs says more than one job but not a thousand times as
// much, and gives the examples a mean weight of 1.
func (e *Examples) weigh() {
	sum := 0.
	for i, n := range e.batch {
		e.Weights[i] = 1 / math.Sqrt(float64(n))
		sum += e.Weights[i]
	}
	for i := range e.Weights {
		e.Weights[i] *= float64(len(e.Weights)) / sum
	}
}

// trainingKinds are the kinds of questions a model learns from, each counting the
// same, because it will be asked all of them.
var trainingKinds = []string{"arrival", "uniform", "hourly-4h"}

// Lessons are the examples that can be learnt from a history: those about jobs
// whose class is known at its end, because they ended or have run for longer than
// the last bound.
func Lessons(ctx context.Context, history []Record, seed uint64) (*Examples, error) {
	all := &Examples{}
	var parts []*Examples
	most := 0
	for _, name := range trainingKinds {
		var asked []Question
		for _, q := range kindNamed(name).Ask(history, seed) {
			if decided(&history[q.Job]) {
				asked = append(asked, q)
			}
		}
		inTime(asked)
		e, err := Extract(ctx, history, asked)
		if err != nil {
			return nil, err
		}
		e.weigh()
		most = max(most, e.Len())
		parts = append(parts, e)
	}
	for _, e := range parts {
		for i := range e.Weights {
			e.Weights[i] *= float64(most) / float64(e.Len())
		}
		all.Questions = append(all.Questions, e.Questions...)
		all.X.Data = append(all.X.Data, e.X.Data...)
		all.Class = append(all.Class, e.Class...)
		all.Ran = append(all.Ran, e.Ran...)
		all.Total = append(all.Total, e.Total...)
		all.Weights = append(all.Weights, e.Weights...)
		all.batch = append(all.batch, e.batch...)
	}
	all.X.Rows, all.X.Cols = len(all.Questions), len(Features)
	return all, nil
}

// decided says that a job's class is known.
func decided(r *Record) bool { return r.Ended || r.Ran >= Bounds[len(Bounds)-1] }

// pick is the matrix of some columns.
func pick(x trees.Matrix, columns []int) trees.Matrix {
	out := trees.NewMatrix(x.Rows, len(columns))
	for i := range x.Rows {
		from, to := x.Row(i), out.Row(i)
		for k, c := range columns {
			to[k] = from[c]
		}
	}
	return out
}
