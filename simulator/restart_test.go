package simulator

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestRestartByState: the built-in set of the H100 gives the restarts that it was measured by, the table by width those
// of jobs without memory.
func TestRestartByState(t *testing.T) {
	spec, _ := ModelSet("h100")
	m, v100 := spec.Models(), DefaultModels()
	s := spec.Restart.State
	for bytes, seconds := range map[float64]float64{402656469: 11, 4227879641: 20, 12079664581: 46.5} {
		if got := m.Restart(1, int64(bytes/s.Share)).Seconds(); math.Abs(got/seconds-1) > .2 {
			t.Errorf("%.1f GB: %.1f s, measured %.1f", bytes/1e9, got, seconds)
		}
	}
	for gpus := 1; gpus < 200; gpus *= 3 {
		if a, b := m.Restart(gpus, 0), v100.Restart(gpus, 1<<40); a != b {
			t.Errorf("without memory on %d GPUs: %v, by width %v", gpus, a, b)
		}
		if a, b := m.Restart(gpus, 8<<30)-m.Restart(1, 8<<30), v100.Restart(gpus, 0)-v100.Restart(1, 0); a != b {
			t.Errorf("%d GPUs cost %v more than one, by width %v", gpus, a, b)
		}
	}
	if a, b := m.Restart(1, 1<<45), m.Restart(1, 1<<44); a != b {
		t.Errorf("a state of more than the GPU's memory: %v, %v", a, b)
	}
}

// TestJobRestartsByState: two jobs that are stopped once take turns, and the one with more memory takes longer by what
// its state costs.
func TestJobRestartsByState(t *testing.T) {
	spec := DefaultModelSpec()
	spec.Restart.State = &RestartState{Seconds: 10, PerGB: 3, Share: .5}
	for gib, want := range map[int64]time.Duration{0: 18 * time.Second, 10: 10*time.Second + 3*5*1<<30} {
		job := workload.Job{GPUs: workload.GPUs(1), Requested: workload.Request{Memory: gib << 30}.Shared()}
		if got := spec.Models().JobRestart(&job, 1); got != want {
			t.Errorf("%d GiB: %v, want %v", gib, got, want)
		}
		spell := workload.Spell{Job: job, To: time.Minute, Held: 1, Resumed: true}
		work := (&Options{Models: spec.Models()}).Work([]workload.Spell{spell}, 0, time.Hour, false)
		if got := work[""]; got != time.Minute-want {
			t.Errorf("%d GiB: %v of work in a minute", gib, got)
		}
	}
}

func TestReadRestarts(t *testing.T) {
	const head = "checkpoint_bytes,first_step_s,save_s\n"
	got, err := ReadRestarts(strings.NewReader(head + "1e9,11,2\n1e9,11,\n3e9,13,6\n3e9,13,\n"))
	if want := (RestartState{Seconds: 10, PerGB: 3, Share: stateShare}); err != nil || fmt.Sprintf("%.6f", *got) !=
		fmt.Sprintf("%.6f", want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"a\n":                        "lacks checkpoint_bytes",
		head + "1e9,11,2\n1e9,11,\n": "two sizes",
		head + ",11,2\n":             "line 2: checkpoint_bytes",
		head + "1e9,,\n":             "line 2: first_step_s",
		head + "1e9,1,-1\n":          "line 2: save_s",
	} {
		if _, err := ReadRestarts(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
