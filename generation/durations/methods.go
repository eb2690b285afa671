package durations

import (
	"context"
	"fmt"
	"strings"

	"github.com/autosched/autosched/internal/trees"
)

// Classifier gives the probabilities of the classes for a row of all Features.
// dst has Classes values. It is for one goroutine.
type Classifier interface {
	Probabilities(dst, row []float64)
}

// LearnOptions say how to learn.
type LearnOptions struct {
	// Columns of Features to learn from; default DefaultColumns. Rules have their
	// own.
	Columns []int
	Seed    uint64
	Workers int // default: all processors
	// Progress gets how much of the training is done.
	Progress func(done, of int)
}

// A Method learns to classify.
type Method struct {
	Name, About string
	Learn       func(ctx context.Context, e *Examples, o LearnOptions) (Classifier, error)
}

// DefaultMethod is the name of the one that predicts unless another is asked for.
const DefaultMethod = "boosted"

// Methods are the predictors of classes: the product's, and baselines of the paper's
// Table 3.
var Methods = []Method{
	{DefaultMethod, "gradient-boosted trees",
		func(ctx context.Context, e *Examples, o LearnOptions) (Classifier, error) {
			return boost(ctx, e, o)
		}},
	{"similar", "median of the latest similar jobs that ran longer", learnSimilar},
	{"elapsed", "the most frequent class of jobs that ran longer", learnElapsed},
	{"majority", "the most frequent class", learnMajority},
}

// MethodNamed finds a method.
func MethodNamed(name string) (*Method, error) {
	var names []string
	for i := range Methods {
		if Methods[i].Name == name {
			return &Methods[i], nil
		}
		names = append(names, Methods[i].Name)
	}
	return nil, fmt.Errorf("no method is called %q; there are %s", name, strings.Join(names, ", "))
}

// DefaultColumns are the features of models: all but the calendar and the paper's
// lists of everybody's latest jobs, which on Philly only make learning slower and
// worse (docs/notes/durations.md has the ablation).
var DefaultColumns = Columns(TheJob, TenantPast, BatchPast, Near, Recurrence, Survival)

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
	if err := enoughOf(e); err != nil {
		return nil, err
	}
	columns := o.columns()
	m, err := trees.Boost(ctx, pick(e.X, columns), e.Class, e.Weights, boostOptions(o))
	if err != nil {
		return nil, err
	}
	return &boosted{model: m, columns: columns, share: shareFor(columns)}, nil
}

func (o *LearnOptions) columns() []int {
	if o.Columns == nil {
		return DefaultColumns
	}
	return o.Columns
}

func enoughOf(e *Examples) error {
	if e.Len() == 0 {
		return fmt.Errorf("durations: there is no job to learn from: none has ended")
	}
	return nil
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
