package tiresias_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

var update = flag.Bool("update", false, "write the results into testdata")

// TestExamples simulates the worked examples in testdata. Each states its purpose.
func TestExamples(t *testing.T) {
	s, err := space.New(tiresias.Space(), tiresias.Rules())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			tryout.Check(t, file, s, tiresias.New, *update)
		})
	}
}

// a, promoted at 800 s while c runs, is first at 900 s; where the starve limit is switched
// off before, d is.
func TestStarveLimitInForceDecides(t *testing.T) {
	s, err := space.New(tiresias.Space(), tiresias.Rules())
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("small", time.Unix(0, 0), []workload.Job{
		tryout.Job("a", 0, 1000, 1), tryout.Job("b", 300, 300, 1), tryout.Job("c", 600, 300, 1),
		tryout.Job("d", 605, 300, 1)})
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]float64{"500": 1200, "off": 900} {
		config := func(limit string) space.Config {
			c, err := s.Parse(s.Default(), []string{"queues=2", "queue_thresholds=300", "order=running_first",
				"starve_limit=" + limit})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		var sim simulator.Sim
		o := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}
		if err := sim.Start(workload.Uniform(1, 1), w, tiresias.New(config("500")), o); err != nil {
			t.Fatal(err)
		}
		if err := sim.RunUntil(t.Context(), 850*time.Second); err != nil {
			t.Fatal(err)
		}
		sim.Reconfigure(tiresias.New(config(limit)))
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		tryout.Near(t, "start of d, starve_limit "+limit, sim.Outcomes(nil)[3].Start, want)
	}
}
