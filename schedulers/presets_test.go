package schedulers_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// baselines are schedulers to compare with, for which no search is worth it.
var baselines = []string{"fifo", "sjf", "srtf"}

// TestPresets: every scheduler that is tuned has presets. They are
// configurations of its space, each other than the default and than the others,
// and jobs end under them.
func TestPresets(t *testing.T) {
	var jobs []workload.Job
	for i := range 40 {
		jobs = append(jobs, workload.Job{ID: string(rune('A' + i)), Submit: time.Duration(i) * time.Minute,
			Duration: time.Duration(1+i*7%60) * time.Minute,
			GPUs:     workload.GPUs([]int{1, 2, 4, 16}[i%4]), Tenant: string(rune('x' + i%3))})
	}
	w, err := workload.New("presets", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range schedulers.All {
		if has, tuned := len(s.Presets) > 0, !slices.Contains(baselines, s.Name); has != tuned {
			t.Errorf("%s has %d presets", s.Name, len(s.Presets))
		}
		seen := []string{s.Space.Default().String()}
		var names []string
		for _, p := range s.Presets {
			if err := s.Space.Check(p.Config); err != nil {
				t.Errorf("%s: %s: %v", s.Name, p.Name, err)
			}
			if c := p.Config.String(); p.Name == "" || slices.Contains(names, p.Name) || slices.Contains(seen, c) {
				t.Errorf("%s: %q (%s) is there twice, or the default", s.Name, p.Name, c)
			} else {
				seen, names = append(seen, c), append(names, p.Name)
			}
			var sim simulator.Sim
			err := sim.Start(workload.Uniform(2, 8), w, s.New(p.Config), simulator.Options{})
			if err == nil {
				err = sim.Run(context.Background())
			}
			if err != nil || !sim.Done() {
				t.Errorf("%s: %s: %v", s.Name, p.Name, err)
			}
		}
	}
}
