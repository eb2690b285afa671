package causal

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/autosched/autosched/internal/rng"
)

// bootstrap counts the bootstrap samples that have each edge.
type bootstrap struct {
	n       int
	samples int   // finished
	edge    []int // [i*n+j], i < j: samples with an edge
	same    []int // those with the marks of the graph at hand
}

// runBootstrap learns a graph from each of several draws of the rows, with
// replacement. It returns the counts of the draws that time allowed.
func runBootstrap(ctx context.Context, in *input, g *Graph, o LearnOptions) (*bootstrap, error) {
	n := in.table.Len()
	graphs := make([]*Graph, o.Bootstrap)
	errs := make([]error, o.Bootstrap)
	workers := o.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next, done atomic.Int64
	var group sync.WaitGroup
	for range min(max(workers, 1), o.Bootstrap) {
		group.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= o.Bootstrap || ctx.Err() != nil {
					return
				}
				graphs[k], errs[k] = bootstrapSample(ctx, in, uint64(k), o)
				if o.Progress != nil {
					o.Progress("bootstrap", int(done.Add(1)), o.Bootstrap)
				}
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	b := &bootstrap{n: n, edge: make([]int, n*n), same: make([]int, n*n)}
	for k, sample := range graphs {
		if errs[k] != nil {
			return nil, errs[k]
		}
		if sample == nil {
			continue
		}
		b.samples++
		for i := range n {
			for j := i + 1; j < n; j++ {
				if sample.Adjacent(i, j) {
					b.edge[i*n+j]++
				}
				if g.Adjacent(i, j) && sample.Is(i, j, g.At(j, i), g.At(i, j)) {
					b.same[i*n+j]++
				}
			}
		}
	}
	return b, nil
}

// bootstrapSample learns the graph of one draw, nil if time ran out.
func bootstrapSample(ctx context.Context, in *input, k uint64, o LearnOptions) (*Graph, error) {
	rows := drawRows(rng.Stream("causal bootstrap", o.Seed, k), in.table.Rows(), o.Groups)
	sample := in.table.Select(rows)
	// A rare value may be missing from a draw: such a column has no edges in it.
	var kept []int
	for i := range sample.Len() {
		if sample.Column(i).varies() {
			kept = append(kept, i)
		}
	}
	out := NewGraph(in.table.Len())
	if len(kept) < 2 {
		return out, nil
	}
	sample = sample.Columns(kept)
	var gone []string
	for i, name := range in.table.Names() {
		if !slices.Contains(kept, i) {
			gone = append(gone, name)
		}
	}
	know, err := in.spec.without(gone).Bind(sample.Names())
	if err != nil {
		return nil, err
	}
	test, _, err := NewTest(o.Test, sample, o.Bins)
	if err != nil {
		return nil, err
	}
	search := o.search()
	search.Workers, search.Progress = 1, nil
	found, err := Discover(ctx, sample.Len(), know, test, search)
	if err != nil || !found.Complete {
		return nil, err
	}
	for a, i := range kept {
		for b, j := range kept[:a] {
			if found.Graph.Adjacent(a, b) {
				out.Set(i, j, found.Graph.At(b, a), found.Graph.At(a, b))
			}
		}
	}
	return out, nil
}

// rate writes the frequencies of an edge into it and reports whether there are
// any.
func (b *bootstrap) rate(e *Edge, i, j int) bool {
	if b == nil || b.samples == 0 {
		return false
	}
	edge := shown(float64(b.edge[i*b.n+j]) / float64(b.samples))
	same := shown(float64(b.same[i*b.n+j]) / float64(b.samples))
	e.BootFreq, e.BootMarks = &edge, &same
	return true
}

// drawRows draws as many rows as there are, or as many groups as there are with
// all their rows, with replacement, and returns them ascending: any order does,
// this one reads memory in turn.
func drawRows(r *rand.Rand, n int, groups []int) []int {
	rows := make([]int, 0, n)
	if groups == nil {
		for range n {
			rows = append(rows, r.IntN(n))
		}
		slices.Sort(rows)
		return rows
	}
	members := map[int][]int{}
	var order []int
	for row, g := range groups {
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], row)
	}
	for range order {
		rows = append(rows, members[order[r.IntN(len(order))]]...)
	}
	slices.Sort(rows)
	return rows
}
