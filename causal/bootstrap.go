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

// bootstrap counts, by edge, the bootstrap samples that contain it.
type bootstrap struct {
	n       int
	samples int   // finished
	edge    []int // [i*n+j], i < j: samples in which i and j are adjacent
	same    []int // samples whose edge has the same marks as the learned graph
}

// runBootstrap learns a graph from each of o.Bootstrap resamples of the rows and
// counts their edges. If the deadline passes, only finished samples count.
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

// bootstrapSample learns the graph of sample k; it returns nil if the deadline
// passes.
func bootstrapSample(ctx context.Context, in *input, k uint64, o LearnOptions) (*Graph, error) {
	rows := drawRows(rng.Stream("causal bootstrap", o.Seed, k), in.table.Rows(), o.Groups)
	sample := in.table.Select(rows)
	// A sample may lack a rare value. A column that is constant in it has no edges.
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
	test, _, err := NewTest(sample)
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

// setFrequencies sets the bootstrap frequencies of the edge between i and j, i < j.
// It reports whether there are any samples.
func (b *bootstrap) setFrequencies(e *Edge, i, j int) bool {
	if b == nil || b.samples == 0 {
		return false
	}
	edge := roundStored(float64(b.edge[i*b.n+j]) / float64(b.samples))
	same := roundStored(float64(b.same[i*b.n+j]) / float64(b.samples))
	e.BootFreq, e.BootMarks = &edge, &same
	return true
}

// drawRows samples n rows, or as many groups of rows as there are, with replacement.
// It returns the rows ascending, for sequential memory access.
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
