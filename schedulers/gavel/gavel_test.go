package gavel

import (
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/workload"
)

// Two jobs that each want the only GPU take turns, round by round; at 1200 s
// both have received all they were due and the first goes on.
func TestTurns(t *testing.T) {
	out, _ := tryout.Trial{Params: Space(), New: New, Set: []string{"round_length=600"}, GPUs: 1,
		Jobs: []workload.Job{tryout.Job("a", 0, 1200, 1), tryout.Job("b", 0, 1200, 1)}}.Run(t)
	tryout.Near(t, "b starts", out[1].Start, 600)
	tryout.Near(t, "a ends", out[0].End, 1800)
	tryout.Near(t, "b ends", out[1].End, 2400)
}

// By finish-time fairness the short job comes first: a wait of 600 s is more for
// it.
func TestShortJobSuffersMore(t *testing.T) {
	out, _ := tryout.Trial{Params: Space(), New: New, Set: []string{"round_length=600", "policy=finish_time_fairness"},
		GPUs: 1, Estimates: true,
		Jobs: []workload.Job{tryout.Job("a", 0, 6000, 1), tryout.Job("long", 1, 6000, 1),
			tryout.Job("short", 2, 1200, 1)}}.Run(t)
	tryout.Near(t, "short starts", out[2].Start, 600)
	if out[1].Start <= out[2].Start {
		t.Errorf("the long job starts at %v, the short one at %v", out[1].Start, out[2].Start)
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		widths []int
		gpus   int
		level  float64
	}{{[]int{1, 1, 8}, 4, 2}, {[]int{1, 1}, 4, 4}, {[]int{2, 2, 2}, 3, 1}, {[]int{1, 4, 4}, 8, 3.5}} {
		if got := fill(c.widths, c.gpus); got != c.level {
			t.Errorf("%v on %d GPUs: %g, want %g", c.widths, c.gpus, got, c.level)
		}
	}
}
