package pollux

import (
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/workload"
)

// The third GPU goes to the job that scales better, whatever the exponent.
func TestScalesBetter(t *testing.T) {
	heavy := tryout.Job("heavy", 0, 4000, 2)
	heavy.Model = "vgg16"
	for _, p := range []string{"1", "0", "-1", "-10"} {
		out, _ := tryout.Trial{Params: Space(), New: New, Set: []string{"interval=60", "fairness=" + p, "max_scale=1"},
			GPUs: 3,
			Jobs: []workload.Job{heavy, tryout.Job("light", 0, 4000, 2)}}.Run(t)
		tryout.Near(t, "light, on both its GPUs, p="+p, out[1].End, 4000)
		if out[0].End <= out[1].End {
			t.Errorf("p=%s: heavy ends at %v", p, out[0].End)
		}
	}
}

// A job whose gradients have little noise gains nothing from larger batches.
func TestNoiseBoundsGrowth(t *testing.T) {
	for noise, gpus := range map[string]float64{"100": 3.63, "0.1": 1} {
		out, _ := tryout.Trial{Params: Space(), New: New,
			Set: []string{"interval=60", "noise_scale=" + noise, "max_scale=4"}, GPUs: 4,
			Jobs: []workload.Job{tryout.Job("a", 0, 4000, 1)}}.Run(t)
		tryout.Near(t, "noise "+noise, out[0].End, 4000/gpus)
	}
}
