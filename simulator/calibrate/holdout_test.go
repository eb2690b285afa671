package calibrate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
)

// TestHalves: restarts that cost 300 s and spreading that takes 1.5 times as long are learnt from
// the first half, and describe the second.
func TestHalves(t *testing.T) {
	var runs []Run
	for i := range 4 * minRuns {
		at := time.Duration(i) * time.Hour
		run := Run{Key: "k", Model: "vgg19", GPUs: 2, Held: 1000 * time.Second, End: at}
		stopped, spread := run, run
		stopped.Stops, stopped.Held = 1, 1300*time.Second
		spread.Spread, spread.Held = true, 1500*time.Second
		runs = append(runs, spread, run, stopped)
	}
	spec, h, err := Halves(runs, simulator.DefaultModelSpec())
	if err != nil {
		t.Fatal(err)
	}
	if h.After != 0 || h.Runs != 4*minRuns || h.Given < .2 || len(h.Learned) != 2 {
		t.Errorf("%+v", h)
	}
	m := spec.Models()
	if m.Restart(2, 0) != 300*time.Second || m.Classes[0].Slowdown != 1.5 || spec.Validate() != nil {
		t.Errorf("a restart costs %v", m.Restart(2, 0))
	}
	if _, _, err := Halves(runs[:6], simulator.DefaultModelSpec()); err == nil ||
		!strings.Contains(err.Error(), "ended first") {
		t.Error(err)
	}
	for i := range runs[len(runs)/2:] {
		runs[len(runs)/2+i].Stops, runs[len(runs)/2+i].Spread = 0, false
	}
	if _, _, err := Halves(runs, simulator.DefaultModelSpec()); err == nil || !strings.Contains(err.Error(), "ended last") {
		t.Error(err)
	}
	if e, n := medianError(nil, nil, spec.Models()); n != 0 || !math.IsNaN(e) {
		t.Errorf("%v of %d", e, n)
	}
}
