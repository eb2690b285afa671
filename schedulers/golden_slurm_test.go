package schedulers_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/internal/recorded"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/workload"
)

func goldenSlurm(t *testing.T) {
	dir := testshared.Path(t, "golden", "slurm")
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		t.Run(name, func(t *testing.T) {
			parts := strings.Split(name, ".")
			s, not, err := recorded.Settings(filepath.Join(dir, "conf", parts[1]+".conf"))
			if err != nil {
				t.Fatal(err)
			}
			t.Log("not simulated:", not)
			run, err := recorded.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []workload.NodeEvent
			if name == "g.preempt" { // two older jobs held nodes
				for node, until := range map[int]time.Duration{0: 103 * time.Second, 3: 91 * time.Second} {
					nodes = append(nodes, workload.NodeEvent{At: 0, Kind: workload.NodeDrained, Node: node},
						workload.NodeEvent{At: until, Kind: workload.NodeUp, Node: node})
				}
				slices.SortFunc(nodes, func(a, b workload.NodeEvent) int { return int(a.At - b.At) })
			}
			var errors, waits, means []float64
			recordedWait := run.MeanWait()
			for i, of := range recorded.Ensemble(&s) {
				m, err := run.Simulate(s, slurm.NewPolicy, of, nodes)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					t.Logf("member 0: wait %.1f, median error %g, mean error %.1f", m.MeanWait, m.MedianError,
						m.MeanError)
				}
				errors, waits = append(errors, m.MedianError), append(waits, m.MeanWait)
				means = append(means, m.MeanError)
			}
			most := 4.0
			if name == "w1.default" || name == "w2.default" {
				most = 6
			}
			t.Logf("recorded %.1f, wait %.1f in %.1f..%.1f, median error %g, mean error %.1f", recordedWait,
				recorded.Median(waits), slices.Min(waits), slices.Max(waits), recorded.Median(errors),
				recorded.Median(means))
			if e := recorded.Median(errors); e > most {
				t.Errorf("the median error of a start is %g s, want at most %g", e, most)
			}
			if name == "g.preempt" {
				if low, high := slices.Min(waits)-1, slices.Max(waits); recordedWait < low || recordedWait > high {
					t.Errorf("the mean wait was %.1f s, in the ensemble %.1f to %.1f", recordedWait, low, high)
				}
			} else if d := math.Abs(recorded.Median(waits) - recordedWait); d > max(2, .2*recordedWait) {
				t.Errorf("the mean wait is %.1f s, it was %.1f", recorded.Median(waits), recordedWait)
			}
		})
	}
}
