package optimus

import (
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/workload"
)

// On four GPUs this class runs at 3.63 times the speed of one, on two at 1.89.
func TestGrants(t *testing.T) {
	trial := tryout.Trial{Params: Space(), New: New, Set: []string{"interval=600", "max_scale=4"}, GPUs: 4,
		Jobs: []workload.Job{tryout.Job("a", 0, 4000, 1)}}
	out, _ := trial.Run(t)
	tryout.Near(t, "alone", out[0].End, 4000/3.63)

	trial.Jobs = append(trial.Jobs, tryout.Job("b", 0, 4000, 1))
	out, _ = trial.Run(t)
	tryout.Near(t, "one of two", out[0].End, 4000/1.89)

	trial.Set[1] = "max_scale=1"
	out, _ = trial.Run(t)
	tryout.Near(t, "not elastic", out[1].End, 4000)
}

// A job that has all GPUs gives up one to a job that comes later, when its own
// interval is over: the decision at 600 s is too early by the restart. It has
// received 4,800 s of work by 1,200 s and is expected to need as much again, so
// its third GPU saves more (4800/1.89 - 4800/2.7 = 762 s) than a second one saves the newcomer,
// which is expected to need
// one interval (600 - 600/1.89 = 283 s).
func TestShrinks(t *testing.T) {
	out, _ := tryout.Trial{Params: Space(), New: New, Set: []string{"interval=600", "max_scale=4"}, GPUs: 4,
		Jobs: []workload.Job{tryout.Job("a", 0, 40000, 1), tryout.Job("b", 100, 1890, 1)}}.Run(t)
	tryout.Near(t, "b starts", out[1].Start, 1200)
	tryout.Near(t, "b ends, on one GPU", out[1].End, 1200+1890)
	if out[0].Preemptions != 0 {
		t.Errorf("a was stopped")
	}
}
