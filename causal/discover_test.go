package causal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a random true graph: observed variables first, then hidden common causes.
type world struct {
	observed, hidden int
	parents          [][]int
	tier             []int // of the observed; nil without
}

// drawWorld generates a graph. With tiers, variables of tier 0 have no cause and those
// of tier 2 no effect.
func drawWorld(t *rapid.T, layers bool) world {
	w := world{observed: rapid.IntRange(3, 7).Draw(t, "observed"), hidden: rapid.IntRange(0, 2).Draw(t, "hidden")}
	density := rapid.SampledFrom([]int{3, 4, 6}).Draw(t, "density") // of tenths
	w.parents = make([][]int, w.observed+w.hidden)
	edge := func(from, to int) bool {
		return rapid.IntRange(0, 9).Draw(t, fmt.Sprintf("%d-%d", from, to)) < density
	}
	// A random causal order, so that indices carry no information.
	order := rapid.Permutation(upTo(w.observed)).Draw(t, "order")
	if layers {
		w.tier = make([]int, w.observed)
		for k, v := range order {
			w.tier[v] = k * 3 / w.observed
		}
	}
	for k, to := range order {
		for _, from := range order[:k] {
			if layers && w.tier[from] == w.tier[to] && w.tier[to] != 1 {
				continue
			}
			if edge(from, to) {
				w.parents[to] = append(w.parents[to], from)
			}
		}
	}
	for h := w.observed; h < w.observed+w.hidden; h++ {
		for v := range w.observed {
			if (w.tier == nil || w.tier[v] > 0) && edge(h, v) {
				w.parents[v] = append(w.parents[v], h)
			}
		}
	}
	return w
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// oracle returns the oracle of the observed variables.
func (w *world) oracle(t fataler) *Oracle {
	o, err := NewOracle(w.parents)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

type fataler interface{ Fatal(...any) }

func (w *world) knowledge() *Knowledge {
	if w.tier == nil {
		return nil
	}
	k := &Knowledge{Tier: w.tier, WithinForbidden: map[int]bool{0: true, 2: true}, Exogenous: make([]bool, w.observed)}
	for v, tier := range w.tier {
		k.Exogenous[v] = tier == 0
	}
	return k
}

// TestSound checks learned graphs against the true ones: two variables are adjacent if
// no set separates them, an arrow is at a variable that is not a cause, and a tail at
// one that is.
func TestSound(t *testing.T) {
	for _, kind := range []string{"plain", "tiers", "limited"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := drawWorld(t, kind == "tiers")
				oracle := w.oracle(t)
				var o SearchOptions
				if kind == "limited" { // marks hold whatever is left out
					o.MaxCond = rapid.IntRange(1, 2).Draw(t, "max_cond")
					o.noPDS = rapid.Bool().Draw(t, "no_pds")
				}
				r, err := Discover(context.Background(), w.observed, w.knowledge(), oracle, o)
				if err != nil {
					t.Fatal(err)
				}
				if !r.Complete || r.PathsCut || r.Untestable > 0 {
					t.Fatal("the search was cut short")
				}
				run := oracle.Worker()
				for i := range w.observed {
					for j := range w.observed {
						if i == j {
							continue
						}
						separable := w.separable(run, i, j)
						// A forbidden edge whose pair no set separates is a conflict.
						if !r.Graph.Adjacent(i, j) && !separable && r.Evidence(i, j).Conflict {
							continue
						}
						if r.Graph.Adjacent(i, j) == separable && (kind != "limited" || !separable) {
							t.Fatalf("%d and %d: edge %v, but separable %v\n%s",
								i, j, !separable, separable, r.Graph.Format(numbers(w.observed)))
						}
						cause := oracle.Ancestor(i, j)
						switch m := r.Graph.At(j, i); {
						case m == Arrow && cause, m == Tail && !cause:
							t.Fatalf("%v at %d of %d and %d, but cause %v\n%s",
								m, i, i, j, cause, r.Graph.Format(numbers(w.observed)))
						}
						if w.tier != nil && r.Graph.At(j, i) == Tail && w.tier[i] > w.tier[j] {
							t.Fatalf("%d causes %d of a lower tier", i, j)
						}
					}
				}
			})
		})
	}
}

// separable reports whether any set separates i and j.
func (w *world) separable(run func(x, y int, given []int) Outcome, i, j int) bool {
	for s := set(0); s < 1<<w.observed; s++ {
		if !s.has(i) && !s.has(j) && run(i, j, s.list()).P == 1 {
			return true
		}
	}
	return false
}

// TestOrderFree checks that with an oracle the graph does not depend on the order of
// the variables.
func TestOrderFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		as := rapid.Permutation(upTo(w.observed)).Draw(t, "as")
		other := world{observed: w.observed, hidden: w.hidden, parents: make([][]int, len(w.parents))}
		name := func(v int) int {
			if v < w.observed {
				return as[v]
			}
			return v
		}
		for v, parents := range w.parents {
			for _, p := range parents {
				other.parents[name(v)] = append(other.parents[name(v)], name(p))
			}
		}
		a, err := Discover(context.Background(), w.observed, nil, w.oracle(t), SearchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Discover(context.Background(), w.observed, nil, other.oracle(t), SearchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.observed {
			for j := range w.observed {
				if a.Graph.At(i, j) != b.Graph.At(as[i], as[j]) {
					t.Fatalf("edge %d-%d differs\n%s\n%s",
						i, j, a.Graph.Format(numbers(w.observed)), b.Graph.Format(numbers(w.observed)))
				}
			}
		}
	})
}

// TestColumnOrder shuffles the columns of data. The skeleton without the
// possible-d-sep stage does not depend on their order.
func TestColumnOrder(t *testing.T) {
	for seed := range uint64(3) {
		table, spec := layered(seed, 4, 4, 2, 400)
		learn := func(table *Table) *Result {
			t.Helper()
			know, err := spec.Bind(table.Names())
			if err != nil {
				t.Fatal(err)
			}
			test, _, err := NewTest(table)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Discover(context.Background(), table.Len(), know, test,
				SearchOptions{MaxCond: 3, PDSMax: 2, noPDS: true})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		as := []int{7, 2, 9, 0, 4, 1, 8, 3, 6, 5}
		shuffled := table.Columns(as)
		a, b := learn(table), learn(shuffled)
		for i := range as {
			for j := range as {
				if x, y := a.Graph.At(as[i], as[j]), b.Graph.At(i, j); (x == None) != (y == None) {
					t.Errorf("seed %d: edge %s-%s is %v or %v",
						seed, shuffled.Column(i).Name, shuffled.Column(j).Name, x, y)
				}
			}
		}
	}
}

// TestWorkers checks that the result does not depend on the number of workers.
func TestWorkers(t *testing.T) {
	table, spec := layered(5, 5, 4, 2, 300)
	know, err := spec.Bind(table.Names())
	if err != nil {
		t.Fatal(err)
	}
	var first *Result
	for _, workers := range []int{1, 2, 7, runtime.GOMAXPROCS(0)} {
		test, _, err := NewTest(table)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Discover(context.Background(), table.Len(), know, test, SearchOptions{Workers: workers, MaxCond: 3})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r
		}
		if r.Tests != first.Tests || !r.Graph.Equal(first.Graph) {
			t.Errorf("%d workers: another graph", workers)
		}
		for i := range table.Len() {
			for j := i + 1; j < table.Len(); j++ {
				a, b := r.Evidence(i, j), first.Evidence(i, j)
				if a.P != b.P || !slices.Equal(a.Set, b.Set) || a.Strength != b.Strength {
					t.Fatalf("%d workers: evidence for %d-%d is %+v, with one %+v", workers, i, j, a, b)
				}
			}
		}
	}
}

// slowOracle lets the deadline pass after a number of tests.
type slowOracle struct {
	*Oracle
	after int
	end   func()
}

func (o *slowOracle) Worker() func(x, y int, given []int) Outcome {
	run := o.Oracle.Worker()
	return func(x, y int, given []int) Outcome {
		if o.after--; o.after == 0 {
			o.end()
		}
		return run(x, y, given)
	}
}

// expired is a context whose deadline the test controls.
type expired struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *expired) Done() <-chan struct{} { return c.done }

func (c *expired) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// TestAnytime checks results at a deadline: their marks hold, and every missing edge
// has a separating set.
func TestAnytime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, rapid.Bool().Draw(t, "layers"))
		oracle := w.oracle(t)
		ctx := &expired{context.Background(), make(chan struct{}), context.DeadlineExceeded}
		slow := &slowOracle{Oracle: oracle, after: rapid.IntRange(1, 60).Draw(t, "after"), end: func() {
			close(ctx.done)
		}}
		r, err := Discover(ctx, w.observed, w.knowledge(), slow, SearchOptions{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if ended := slow.after <= 0; ended == r.Complete || ended == (r.Stopped == "") {
			t.Fatalf("time ended %v, but complete %v (%s)", ended, r.Complete, r.Stopped)
		}
		for i := range w.observed {
			for j := range w.observed {
				if i == j {
					continue
				}
				// A superfluous edge of an exogenous variable has a tail there.
				exogenous := w.tier != nil && w.tier[i] == 0
				if m := r.Graph.At(j, i); m == Arrow && oracle.Ancestor(i, j) ||
					m == Tail && !oracle.Ancestor(i, j) && !exogenous {
					t.Fatalf("%v at %d of %d and %d is wrong\n%s", m, i, i, j, r.Graph.Format(numbers(w.observed)))
				}
				if e := r.Evidence(i, j); e.Separated && (r.Graph.Adjacent(i, j) || !oracle.Separated(i, j, e.Set)) {
					t.Fatalf("%d and %d are said to be separated by %v", i, j, e.Set)
				}
			}
		}
	})
}

func TestDiscoverStops(t *testing.T) {
	w := world{observed: 4, parents: [][]int{nil, {0}, {1}, {2}}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Discover(ctx, 4, nil, w.oracle(t), SearchOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	r, err := Discover(ctx, 4, nil, w.oracle(t), SearchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Complete || !strings.Contains(r.Stopped, "skeleton") || r.Graph.Edges() != 6 {
		t.Errorf("without time: complete %v, %q, %d edges", r.Complete, r.Stopped, r.Graph.Edges())
	}
}

func TestDiscoverErrors(t *testing.T) {
	w := world{observed: 2, parents: [][]int{nil, {0}}}
	tests := []struct {
		n    int
		o    SearchOptions
		want string
	}{
		{0, SearchOptions{}, "0 variables"},
		{65, SearchOptions{}, "65 variables: there must be 1 to 64"},
		{2, SearchOptions{Alpha: 1}, "alpha 1"},
		{2, SearchOptions{Alpha: -1}, "alpha -1"},
		{2, SearchOptions{MaxCond: -1}, "negative"},
	}
	for _, tt := range tests {
		if _, err := Discover(context.Background(), tt.n, nil, w.oracle(t), tt.o); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d, %+v: got %v, want %q", tt.n, tt.o, err, tt.want)
		}
	}
	for _, parents := range [][][]int{{{1}, {0}}, {{5}}, {{0}}} {
		if _, err := NewOracle(parents); err == nil {
			t.Errorf("%v was taken for a graph", parents)
		}
	}
}
