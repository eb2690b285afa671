package chronus

import (
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/workload"
)

// A runs first. When its term is over at 600 s, b (with a deadline) and c
// (without, but earlier) both wait.
func TestDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		deadline  float64
		estimates bool
		set       []string
		first     string
		misses    float64
	}{
		"in reach":                  {deadline: 2000, estimates: true, first: "b"},
		"out of reach":              {deadline: 1000, estimates: true, first: "c", misses: 1},
		"not known to be":           {deadline: 1000, first: "b", misses: 1},
		"no GPUs for deadlines":     {deadline: 2000, estimates: true, set: []string{"slo_gpus=0"}, first: "c"},
		"none":                      {estimates: true, first: "c"},
		"drawn, b's is earlier":     {estimates: true, set: []string{"slo_share=1", "slo_factor=3"}, first: "b"},
		"drawn only with estimates": {set: []string{"slo_share=1", "slo_factor=3"}, first: "c"},
		"drawn from no job":         {estimates: true, set: []string{"slo_share=0", "slo_factor=3"}, first: "c"},
	} {
		b := tryout.Job("b", 100, 600, 1)
		b.Deadline = tryout.Seconds(c.deadline)
		out, sum := tryout.Trial{Params: Space(), New: New, Set: append([]string{"lease_term=600"}, c.set...), GPUs: 1,
			Estimates: c.estimates,
			Jobs:      []workload.Job{tryout.Job("a", 0, 3000, 1), tryout.Job("c", 50, 900, 1), b}}.Run(t)
		first := "c"
		if out[2].Start < out[1].Start {
			first = "b"
		}
		if first != c.first || min(out[1].Start, out[2].Start) != tryout.Seconds(600) {
			t.Errorf("%s: b starts at %v, c at %v", name, out[2].Start, out[1].Start)
		}
		jobs := 0
		if c.deadline > 0 {
			jobs = 1
		}
		if sum.DeadlineJobs != jobs || sum.DeadlineMisses != c.misses {
			t.Errorf("%s: %g of %d deadlines missed, want %g of %d",
				name, sum.DeadlineMisses, sum.DeadlineJobs, c.misses, jobs)
		}
	}
}

// TestDraw: as many keys are below a share as it says, short ones too.
func TestDraw(t *testing.T) {
	below := 0
	for i := range 1000 {
		if draw("k"+string(rune('a'+i%26))+string(rune('a'+i/26))) < .3 {
			below++
		}
	}
	if below < 260 || below > 340 || draw("a") == draw("b") {
		t.Errorf("%d of 1000 keys are below .3", below)
	}
}
