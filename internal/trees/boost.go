package trees

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"github.com/autosched/autosched/internal/rng"
)

// BoostOptions configures [Boost]. A zero field means its default.
type BoostOptions struct {
	Objective Objective // default L2
	Classes   int       // number of classes for Softmax, at least 2
	Rounds    int       // trees per output; default 100
	Leaves    int       // largest number of leaves of a tree; default 31
	MinLeaf   int       // smallest number of rows of a leaf, regardless of weights; default 20
	Bins      int       // largest number of bins of a column; default and maximum 255

	LearningRate float64 // default 0.1
	L2           float64 // L2 regularisation, added to a leaf's hessian; default 0
	RowSample    float64 // share of rows sampled for each round; default 1
	ColumnSample float64 // share of columns sampled for each tree; default 1

	Seed    uint64
	Workers int // default GOMAXPROCS; the result does not depend on it
	// Progress, if set, is called after each round with its number, from 1.
	Progress func(round int)
}

// withDefaults sets LightGBM's defaults.
func (o BoostOptions) withDefaults() BoostOptions {
	def := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	share := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	def(&o.Rounds, 100)
	def(&o.Leaves, 31)
	def(&o.MinLeaf, 20)
	def(&o.Bins, maxBins)
	share(&o.LearningRate, 0.1)
	share(&o.RowSample, 1)
	share(&o.ColumnSample, 1)
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o
}

func (o BoostOptions) outputs() int {
	if o.Objective == Softmax {
		return o.Classes
	}
	return 1
}

// maxLeaves and maxClasses bound the memory that options can request.
const (
	maxLeaves  = 4096
	maxClasses = 1000
	maxRounds  = 100_000
)

func (o BoostOptions) check() error {
	bad := func(name string, v any, want string) error {
		return fmt.Errorf("trees: %s %v: want %s", name, v, want)
	}
	switch {
	case o.Objective < L2 || o.Objective > Softmax:
		return bad("objective", int(o.Objective), "one of the objectives")
	case o.Objective == Softmax && (o.Classes < 2 || o.Classes > maxClasses):
		return bad("classes", o.Classes, fmt.Sprintf("2 to %d", maxClasses))
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return bad("rounds", o.Rounds, fmt.Sprintf("1 to %d", maxRounds))
	case o.Leaves < 1 || o.Leaves > maxLeaves:
		return bad("leaves", o.Leaves, fmt.Sprintf("1 to %d", maxLeaves))
	case o.MinLeaf < 1:
		return bad("rows per leaf", o.MinLeaf, "at least 1")
	case o.Bins < 2 || o.Bins > maxBins:
		return bad("bins", o.Bins, fmt.Sprintf("2 to %d", maxBins))
	case !(o.LearningRate > 0 && o.LearningRate <= 1):
		return bad("learning rate", o.LearningRate, "above 0, at most 1")
	case !(o.L2 >= 0) || math.IsInf(o.L2, 0):
		return bad("L2", o.L2, "0 or more")
	case !(o.RowSample > 0 && o.RowSample <= 1):
		return bad("row sample", o.RowSample, "a share above 0, at most 1")
	case !(o.ColumnSample > 0 && o.ColumnSample <= 1):
		return bad("column sample", o.ColumnSample, "a share above 0, at most 1")
	}
	return nil
}

// Boost trains gradient-boosted trees. weights may be nil, for equal weights. If ctx
// ends, Boost returns its error.
//
// The order of the rows matters only for RowSample, which samples by index. A row of
// weight 2 counts as two equal rows, except for MinLeaf and the bounds of bins.
func Boost(ctx context.Context, x Matrix, y, weights []float64, o BoostOptions) (*Model, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := check(x, y, weights); err != nil {
		return nil, err
	}
	t := newTarget(o, y, weights)
	if err := t.check(); err != nil {
		return nil, err
	}
	b := &booster{m: &Model{options: o, features: x.Cols, outputs: o.outputs()}, t: t, x: x}
	b.start()
	return b.m, b.run(ctx)
}

// booster is the state of a training run.
type booster struct {
	m *Model
	t *target
	x Matrix

	b       *bins
	growers []*grower // one per concurrently trained class
	initial []float64 // constants added to the first round's leaves
	scores  []float64
	state   []float64 // scores, or probabilities for Softmax
	top     []float64 // largest gradient of the first round, by output
}

func (b *booster) start() {
	m, o, k := b.m, &b.m.options, b.m.outputs
	b.b = binned(b.x, b.t.rows, o.Bins, o.Workers)
	for j := range b.b.cols {
		m.lo, m.hi = append(m.lo, b.b.cols[j].lo), append(m.hi, b.b.cols[j].hi)
	}
	b.scores = make([]float64, b.x.Rows*k)
	b.state, b.top = b.scores, make([]float64, k)
	if o.Objective == Softmax {
		b.state = make([]float64, len(b.scores))
	}
	b.initial = b.t.initial()
	for i := range b.scores {
		b.scores[i] = b.initial[i%k]
	}
	// Train classes concurrently, and columns with the remaining workers.
	classes := min(k, o.Workers)
	for range classes {
		b.growers = append(b.growers, newGrower(b.b, o, max(1, o.Workers/classes)))
	}
}

func (b *booster) run(ctx context.Context) error {
	m, o := b.m, &b.m.options
	for r := range o.Rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		grew := b.round(ctx, r)
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(r + 1)
		}
		if !grew && o.RowSample == 1 && o.ColumnSample == 1 {
			break // every further tree would be the same constant
		}
	}
	for i := range b.initial {
		m.trees[i].raise(b.initial[i])
	}
	return nil
}

// raise adds a constant to a tree's output.
func (t *tree) raise(by float64) {
	for i := range t.leaves {
		t.leaves[i] += by
	}
	for i := range t.info {
		t.info[i].value += by
	}
}

// round grows one tree per output and reports whether any has a split.
func (b *booster) round(ctx context.Context, r int) bool {
	o, k := &b.m.options, b.m.outputs
	if o.Objective == Softmax {
		parallelRows(o.Workers, b.x.Rows, func(_, from, to int) {
			for i := from; i < to; i++ {
				softmax(b.state[i*k:(i+1)*k], b.scores[i*k:(i+1)*k])
			}
		})
	}
	rows := b.drawRows(r)
	grown := make([]tree, k)
	parallel(len(b.growers), k, func(w, class int) {
		if ctx.Err() != nil {
			return
		}
		g := b.growers[w]
		parallelRows(g.workers, b.x.Rows, func(_, from, to int) {
			b.t.gradients(g.g, g.h, b.state, class, from, to)
		})
		g.rows = append(g.rows[:0], rows...)
		g.cols = b.drawColumns(g.cols[:0], r, class)
		g.grow(b.t.total/float64(len(b.t.rows)), &b.top[class])
		if b.t.kind == L1 { // the loss has no second derivative: leaves take the median of their residuals
			b.refitLeaves(g)
		}
		b.advance(g, class)
		grown[class] = g.tree
	})
	if ctx.Err() != nil {
		return false
	}
	b.m.trees = append(b.m.trees, grown...)
	grew := false
	for i := range grown {
		grew = grew || len(grown[i].nodes) > 0
	}
	return grew
}

// drawRows samples the rows of a round without replacement.
func (b *booster) drawRows(round int) []uint32 {
	all := b.t.rows
	n := share(b.m.options.RowSample, len(all))
	if n == len(all) {
		return all
	}
	src := rng.Stream("trees rows", b.m.options.Seed, uint64(round))
	out := make([]uint32, 0, n)
	for i, r := range all {
		// Selection sampling preserves the order (Knuth, 3.4.2 S).
		if src.IntN(len(all)-i) < n-len(out) {
			out = append(out, r)
		}
	}
	return out
}

func (b *booster) drawColumns(dst []int, round, class int) []int {
	for j := range b.b.cols {
		if b.b.cols[j].quad >= 0 {
			dst = append(dst, j) // others cannot be split
		}
	}
	n := share(b.m.options.ColumnSample, len(dst))
	if n == len(dst) {
		return dst
	}
	src := rng.Stream("trees columns", b.m.options.Seed, uint64(round), uint64(class))
	return choose(src, dst, n)
}

// choose samples n of the values and preserves their order.
func choose(src *rand.Rand, values []int, n int) []int {
	kept := values[:0]
	for i, v := range values {
		if src.IntN(len(values)-i) < n-len(kept) {
			kept = append(kept, v)
		}
	}
	return kept
}

// share returns s*n, rounded, but at least 1 unless n is 0.
func share(s float64, n int) int {
	if n == 0 {
		return 0
	}
	return max(1, int(math.Round(s*float64(n))))
}

// refitLeaves sets the leaves to the medians of their rows' residuals.
func (b *booster) refitLeaves(g *grower) {
	scratch := make([][]residual, g.workers)
	parallel(g.workers, len(g.leaves), func(w, i int) {
		l := &g.leaves[i]
		v := b.t.median(g.rows[l.from:l.to], func(r uint32) float64 {
			return b.t.y[r] - b.scores[r]
		}, &scratch[w])
		g.tree.leaves[i] = v * b.m.options.LearningRate
	})
}

// advance adds the new tree to the training rows' scores.
func (b *booster) advance(g *grower, class int) {
	k := b.m.outputs
	if len(g.rows) == len(b.t.rows) { // rows of weight 0 need no score
		for i := range g.leaves {
			v := g.tree.leaves[i]
			for _, r := range g.rows[g.leaves[i].from:g.leaves[i].to] {
				b.scores[int(r)*k+class] += v
			}
		}
		return
	}
	parallelRows(g.workers, b.x.Rows, func(_, from, to int) {
		for i := from; i < to; i++ {
			b.scores[i*k+class] += g.tree.leaves[g.leafOf(i)]
		}
	})
}
