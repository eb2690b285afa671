package durations

import (
	"context"
	"fmt"

	"github.com/autosched/autosched/internal/trees"
)

// Classifier gives the probabilities of the classes for a row of all Features.
// dst has Classes values. It is for one goroutine.
type Classifier interface {
	Probabilities(dst, row []float64)
}

// LearnOptions say how to learn.
type LearnOptions struct {
	Seed    uint64
	Workers int // default: all processors
	// Progress gets how much of the training is done.
	Progress func(done, of int)

	columns []int // of Features to learn from; default all
}

// boosting was chosen on five two-week windows of Philly together, by mean
// log-loss: slow and regular wins, because a sweep of a thousand jobs is one
// observation.
var boosting = trees.BoostOptions{Objective: trees.Softmax, Classes: Classes, Rounds: 80, Leaves: 15, MinLeaf: 50,
	LearningRate: .05, L2: 10, RowSample: .5, ColumnSample: .3}

func boostOptions(o LearnOptions) trees.BoostOptions {
	b := boosting
	b.Seed, b.Workers = o.Seed, o.Workers
	if o.Progress != nil {
		b.Progress = func(round int) { o.Progress(round, b.Rounds) }
	}
	return b
}

func boost(ctx context.Context, e *Examples, o LearnOptions) (*boosted, error) {
	if e.Len() == 0 {
		return nil, fmt.Errorf("durations: %w: none had when the later ones were submitted", ErrTooFew)
	}
	columns := o.columns
	if columns == nil {
		columns = make([]int, len(Features))
		for c := range columns {
			columns[c] = c
		}
	}
	m, err := trees.Boost(ctx, pick(e.X, columns), e.Class, e.Weights, boostOptions(o))
	if err != nil {
		return nil, err
	}
	return &boosted{model: m, columns: columns, share: shareFor(columns)}, nil
}

// boosted serves a model that was just trained.
type boosted struct {
	model   *trees.Model
	columns []int
	share   float64 // of the key's estimate
	row     []float64
}

func (b *boosted) Probabilities(dst, row []float64) {
	b.row = chosen(b.row, row, b.columns)
	b.model.Predict(b.row, dst)
	hedge(dst, row, b.share)
	mask(dst, row[ranColumn])
}

func chosen(dst, row []float64, columns []int) []float64 {
	dst = dst[:0]
	for _, c := range columns {
		dst = append(dst, row[c])
	}
	return dst
}
