package cells

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Grid is a list of cells to compute. No result depends on Jobs.
type Grid[K comparable, V any] struct {
	Keys []K
	// Known are cells computed before.
	Known map[K]*V
	// Jobs is the number of cells computed at a time; 0 is one per processor.
	Jobs int
	// Compute returns a cell. It may call at with the share of the cell that is done.
	Compute func(ctx context.Context, i int, at func(share float64)) (*V, error)
	// Keep is called with each cell once it is computed; nil keeps none.
	Keep func(i int, v *V) error
	// Cost of a cell, for the time left; nil takes all for equal. The cheapest cells are
	// computed first, but the first cell of the grid before all others: an interruption
	// then leaves many, and the time left is soon known.
	Cost func(i int) Cost
	// Unit has the seconds of a unit of kinds of which nothing was computed, as far as it is known.
	Unit map[string]float64
	// Seconds that a known cell took; nil if unknown.
	Seconds  func(*V) float64
	Progress func(Progress)
}

// Run computes the cells that are not known. After an error, or when the context ends, it
// returns the finished ones; the others are nil.
func (g *Grid[K, V]) Run(ctx context.Context) ([]*V, error) {
	out := make([]*V, len(g.Keys))
	m := g.meter()
	var left []int
	for i, k := range g.Keys {
		if out[i] = g.Known[k]; out[i] == nil {
			left = append(left, i)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	compute := func(i int) {
		m.begin(i)
		v, err := g.Compute(ctx, i, func(share float64) { m.at(i, min(share, almost)) })
		if err == nil {
			if out[i] = v; g.Keep != nil {
				err = g.Keep(i, v)
			}
		}
		if err != nil {
			cancel(err)
			return
		}
		m.at(i, 1)
	}
	if len(left) > 0 && left[0] == 0 {
		compute(0)
		left = left[1:]
	}
	slices.SortStableFunc(left, func(i, j int) int { return cmp.Compare(m.cells[i].Units, m.cells[j].Units) })
	queue := make(chan int, len(left))
	for _, i := range left {
		queue <- i
	}
	close(queue)
	var done sync.WaitGroup
	for range Jobs(g.Jobs, len(left)) {
		done.Go(func() {
			for i := range queue {
				if ctx.Err() != nil {
					return
				}
				compute(i)
			}
		})
	}
	done.Wait()
	return out, context.Cause(ctx)
}

// Left estimates the time that Run takes: 0 if nothing is known to estimate it from.
func (g *Grid[K, V]) Left() time.Duration {
	left, _ := g.meter().left()
	return left
}

// almost all of a cell is done: it is done once it is kept.
const almost = 1 - 1e-9

// Jobs is the number of cells of a grid of n that are computed at a time.
func Jobs(jobs, n int) int { return max(1, min(cmp.Or(jobs, runtime.GOMAXPROCS(0)), n)) }
