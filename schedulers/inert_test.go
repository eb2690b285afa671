package schedulers_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestInertSettingsAreInert: whatever their values, nothing changes, and where
// something does change they are not named.
func TestInertSettingsAreInert(t *testing.T) {
	testshared.Full(t)
	for _, s := range schedulers.All {
		if s.Inert == nil {
			continue
		}
		for _, tt := range []struct{ deadlines, estimates bool }{{false, false}, {true, false}, {false, true},
			{true, true}} {
			inert := s.Inert(tt.deadlines, tt.estimates)
			r := rand.New(rand.NewPCG(1, 2))
			changed := false
			for range 10 {
				var all [2][]byte
				base := make([]float64, s.Space.Dims())
				for d := range base {
					base[d] = r.Float64()
				}
				for k := range all {
					for d := range base {
						if p, _ := s.Space.Param(s.Space.Dim(d).Param); slices.Contains(inert, p.ID) {
							if p.Array != nil || p.Max <= p.Min {
								t.Fatalf("%s: %s is no number", s.Name, p.ID)
							}
							base[d] = r.Float64()
						} else if len(inert) == 0 && p.Module != "scheduling" {
							base[d] = r.Float64()
						}
					}
					all[k] = inertRun(t, s, base, tt.deadlines, tt.estimates)
				}
				changed = changed || !bytes.Equal(all[0], all[1])
			}
			if changed == (len(inert) > 0) {
				t.Errorf("%s, deadlines %v, estimates %v: %v named, and changing them changes something: %v",
					s.Name, tt.deadlines, tt.estimates, inert, changed)
			}
		}
	}
}

// inertRun simulates 80 jobs under the configuration at a place in the cube.
func inertRun(t *testing.T, s *schedulers.Scheduler, at []float64, deadlines, estimates bool) []byte {
	t.Helper()
	var jobs []workload.Job
	for i := range 80 {
		j := workload.Job{ID: string(rune('A'+i/26)) + string(rune('a'+i%26)),
			Submit:   time.Duration(i*200) * time.Second,
			Duration: time.Duration(60+i*i*37%9000) * time.Second, GPUs: workload.GPUs([]int{1, 1, 2, 4, 1, 8}[i%6])}
		if deadlines && i%2 == 0 {
			j.Deadline = j.Submit + 2*j.Duration
		}
		jobs = append(jobs, j)
	}
	w, err := workload.New("inert", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	c := trial{scheduler: s, config: s.Space.Decode(at), w: w, cluster: workload.Uniform(2, 8)}
	if estimates {
		c.opts = simulator.Options{Estimate: func(j *workload.Job) time.Duration { return j.Duration }}
	}
	r, err := c.run(new(simulator.Sim))
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Name, c.config, err)
	}
	return r.bytes()
}
