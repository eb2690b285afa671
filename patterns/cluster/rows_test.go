package cluster

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// TestRows: rows are passed on in order of steps once all workers are in, or too many rows wait for one.
func TestRows(t *testing.T) {
	type at struct{ worker, step int }
	for _, c := range []struct {
		name string
		sent []at
		want string // step:workers
		left int
	}{
		{"one worker", []at{{0, 1}, {0, 2}, {0, 3}}, "1:1 2:1", 1},
		{"two in turn", []at{{0, 1}, {1, 1}, {0, 2}, {1, 2}, {0, 3}}, "1:2 2:2", 1},
		{"one after the other", []at{{0, 1}, {1, 1}, {1, 2}, {1, 3}, {0, 2}, {0, 3}, {0, 4}}, "1:2 2:2 3:2", 1},
		{"a step is missing", []at{{0, 1}, {1, 1}, {0, 2}, {1, 3}, {0, 3}, {0, 4}}, "1:2", 3},
		{"begun again", []at{{0, 1}, {1, 1}, {0, 2}, {1, 2}, {0, 3}, {1, 3}, {0, 1}}, "1:2 2:2 3:2", 1},
		{"twice the same", []at{{0, 1}, {1, 1}, {0, 2}, {0, 2}}, "1:2", 1},
		{"out of order", []at{{0, 1}, {1, 1}, {0, 3}, {0, 2}, {1, 2}, {1, 3}, {0, 4}}, "1:2 2:2 3:2", 1},
	} {
		w := newWorld(t, Config{})
		for i, x := range c.sent {
			w.Iteration(&telemetry.Iteration{Job: "j", Worker: x.worker, Step: x.step, Took: time.Second},
				time.Duration(i)*time.Second)
		}
		var got []string
		for _, r := range w.rows {
			got = append(got, fmt.Sprintf("%d:%d", r.step, r.filled))
		}
		if text := strings.Join(got, " "); text != c.want || len(w.Jobs["j"].rows) != c.left {
			t.Errorf("%s: passed on %s, %d wait; want %s and %d", c.name, text, len(w.Jobs["j"].rows), c.want, c.left)
		}
	}
}

// TestRowLimit: at most 64 rows wait for a worker that sends none.
func TestRowLimit(t *testing.T) {
	w := newWorld(t, Config{})
	for k := range 100 {
		w.Iteration(&telemetry.Iteration{Job: "j", Step: k}, time.Duration(k))
		if k == 0 {
			w.Iteration(&telemetry.Iteration{Job: "j", Worker: 1, Step: k}, 0)
		}
	}
	if n := len(w.Jobs["j"].rows); n != rowLimit || len(w.rows) != 100-rowLimit {
		t.Errorf("%d rows wait, %d were passed on", n, len(w.rows))
	}
	if r := w.rows[1]; len(r.Took) != 2 || !math.IsNaN(r.Took[1]) {
		t.Errorf("a row without its second worker: %v", r.Took)
	}
	w.PassRows(w.Jobs["j"])
	if len(w.rows) != 100 {
		t.Errorf("%d rows of 100", len(w.rows))
	}
}

// TestRestart: steps that fall back behind rows that were passed on count again from there.
func TestRestart(t *testing.T) {
	w := newWorld(t, Config{})
	at := time.Duration(0)
	send := func(from, to int) {
		for k := from; k < to; k++ {
			for worker := range 2 {
				at += time.Second
				w.Iteration(&telemetry.Iteration{Job: "j", Worker: worker, Step: k}, at)
			}
		}
	}
	send(0, 10)
	send(5, 12)
	w.PassRows(w.Jobs["j"])
	var steps []int
	for _, r := range w.rows {
		steps = append(steps, r.step)
	}
	if got := fmt.Sprint(steps); got != "[0 1 2 3 4 5 6 7 8 9 5 6 7 8 9 10 11]" {
		t.Errorf("steps %s", got)
	}
}

func TestSlowest(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		took []float64
		want float64
	}{{[]float64{1, 3, 2}, 3}, {[]float64{nan, 2, nan}, 2}, {[]float64{nan}, nan}, {nil, nan}} {
		if got := (&Row{Took: c.took}).Slowest(); got != c.want && !math.IsNaN(got+c.want) {
			t.Errorf("%v: %g, want %g", c.took, got, c.want)
		}
	}
}

// TestWorkerNode: a worker for each node, or for each GPU, in order of the placement.
func TestWorkerNode(t *testing.T) {
	for _, c := range []struct {
		workers []int
		nodes   string
		want    string
	}{
		{[]int{0, 1}, "a:2 b:2", "a b"},
		{[]int{1, 0}, "a:2 b:2", "b a"},
		{[]int{0, 1, 2, 3}, "a:1 b:3", "a b b b"},
		{[]int{0, 1, 2}, "a:2 b:2", "- - -"}, // neither
		{[]int{0, 9}, "a:2 b:2", "a -"},
		{[]int{-1, 0}, "a:2 b:2", "- a"},
		{[]int{0}, "", "-"},
	} {
		j := &Job{gang: gang{Workers: c.workers}}
		for _, x := range strings.Fields(c.nodes) {
			var n workload.NodeShare
			fmt.Sscanf(strings.Replace(x, ":", " ", 1), "%s %d", &n.Node, &n.GPUs)
			j.placement = append(j.placement, n)
		}
		var got []string
		for i := range c.workers {
			node := j.WorkerNode(i)
			if node == "" {
				node = "-"
			}
			got = append(got, node)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("workers %v on %s: %s, want %s", c.workers, c.nodes, text, c.want)
		}
	}
}
