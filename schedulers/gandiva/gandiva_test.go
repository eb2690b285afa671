package gandiva

import (
	"slices"
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/workload"
)

var two = []workload.Job{tryout.Job("a", 0, 1200, 1), tryout.Job("b", 0, 1200, 1)}

func TestSlices(t *testing.T) {
	out, sum := tryout.Trial{Params: Space(), New: New, Set: []string{"slice=600", "packing_limit=0"}, GPUs: 1,
		Jobs: two}.Run(t)
	tryout.Near(t, "a ends", out[0].End, 1800)
	tryout.Near(t, "b starts", out[1].Start, 600)
	tryout.Near(t, "b ends", out[1].End, 2400)
	if sum.Preemptions != 2 {
		t.Errorf("%d preemptions", sum.Preemptions)
	}
}

// Two small language models run at .622 of their speed together (Gavel's
// measurements), and keep a GPU busy for three quarters of the time each.
func TestPacking(t *testing.T) {
	two := slices.Clone(two)
	for i := range two {
		two[i].Model = "LM/5"
	}
	out, sum := tryout.Trial{Params: Space(), New: New, Set: []string{"slice=600", "packing_limit=1.5"}, GPUs: 1,
		Jobs: two}.Run(t)
	for _, o := range out {
		tryout.Near(t, "end", o.End, 1200/.622)
	}
	if sum.Preemptions != 0 {
		t.Errorf("%d preemptions of packed jobs", sum.Preemptions)
	}
	out, _ = tryout.Trial{Params: Space(), New: New, Set: []string{"slice=600", "packing_limit=1.49"}, GPUs: 1,
		Jobs: two}.Run(t)
	tryout.Near(t, "b starts, beyond the limit", out[1].Start, 600)
	wide := []workload.Job{tryout.Job("a", 0, 1200, 2), tryout.Job("b", 0, 1200, 1)}
	out, _ = tryout.Trial{Params: Space(), New: New, Set: []string{"slice=600", "packing_limit=2"}, GPUs: 2,
		Jobs: wide}.Run(t)
	tryout.Near(t, "b starts, of another width", out[1].Start, 600)
}
