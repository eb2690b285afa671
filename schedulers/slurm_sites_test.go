package schedulers_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/internal/recorded"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/workload"
)

// without takes a feature of a site away.
var without = map[string]func(*recorded.Run, *slurm.Settings){
	"limits":  func(r *recorded.Run, _ *slurm.Settings) { r.Cluster.Site.Limits = nil },
	"prio":    withoutTiers,
	"cancel":  withoutTiers,
	"resv":    func(r *recorded.Run, _ *slurm.Settings) { r.Cluster.Site.Reservations = nil },
	"types":   func(r *recorded.Run, _ *slurm.Settings) { asking(r, func(q *workload.Request) { q.GPUModel = "" }) },
	"weights": withoutWeights,
	"cores": func(r *recorded.Run, _ *slurm.Settings) {
		asking(r, func(q *workload.Request) { q.MilliCPUs, q.Memory = 0, 0 })
	},
	"excl": func(r *recorded.Run, _ *slurm.Settings) {
		for i := range r.Cluster.Site.Partitions {
			r.Cluster.Site.Partitions[i].Exclusive = false
		}
		r.Requested("whole")
		r.Requested("train") // with --exclusive
	},
	"topo": func(r *recorded.Run, _ *slurm.Settings) { r.Cluster.Site.Switches = nil },
}

// asking changes what jobs ask for.
func asking(r *recorded.Run, change func(*workload.Request)) {
	for i := range r.Jobs {
		q := r.Jobs[i].Request()
		change(&q)
		r.Jobs[i].Requested = q.Shared()
	}
}

func withoutWeights(r *recorded.Run, _ *slurm.Settings) {
	for i := range r.Cluster.Groups {
		r.Cluster.Groups[i].Weight = 0
	}
}

func withoutTiers(r *recorded.Run, of *slurm.Settings) {
	of.PreemptPartition = false
	for i := range r.Cluster.Site.Partitions {
		r.Cluster.Site.Partitions[i].PriorityTier = 0
	}
}

// TestSlurmSites: the model with a feature of a site has the mean wait of a recording with it, within 20 % or 2 s; it
// has the direction of the effect, and is farther from the recording without the feature. Of switches the effect is the
// number that jobs on several nodes are spread over.
func TestSlurmSites(t *testing.T) {
	files, err := filepath.Glob("testdata/slurm/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		workload, feature, _ := strings.Cut(name, ".")
		if without[feature] == nil {
			continue // of a site without any
		}
		t.Run(name, func(t *testing.T) {
			run, settings, err := recorded.ReadSite(file, filepath.Join("testdata/slurm", feature))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := recorded.Read(plainRun(t, workload, feature))
			if err != nil {
				t.Fatal(err)
			}
			site := run.Cluster
			mean := func() (wait, start, leaf float64) {
				var waits, errors, leaves []float64
				for _, of := range recorded.Ensemble(&settings) {
					m, err := run.Simulate(settings, slurm.NewPolicy, of, nil, site)
					if err != nil {
						t.Fatal(err)
					}
					waits, errors = append(waits, m.MeanWait), append(errors, m.MeanError)
					leaves = append(leaves, m.Leaves)
				}
				return recorded.Median(waits), recorded.Median(errors), recorded.Median(leaves)
			}
			with, errorWith, leaves := mean()
			if feature == "excl" { // as jobs wait, before AllocTRES has what they get
				run.Requested("whole")
				if asked, _, _ := mean(); math.Abs(asked-with) > 1 {
					t.Errorf("the mean wait of jobs as wide as they ask is %.1f s, of allocated ones %.1f s", asked,
						with)
				}
			}
			without[feature](run, &settings)
			bare, errorBare, scattered := mean()
			was, wasPlain := run.MeanWait(), plain.MeanWait()
			t.Logf("recorded %.1f s, and %.1f s without; simulated %.1f and %.1f s; mean error of a start %.1f and %.1f s",
				was, wasPlain, with, bare, errorWith, errorBare)
			if math.Abs(with-was) > max(2, .2*was) {
				t.Errorf("the mean wait is %.1f s, it was %.1f s", with, was)
			}
			if feature == "topo" { // which wide job comes first is by chance: placement is what it changes
				was, wasPlain := run.Leaves(&site), plain.Leaves(&site)
				t.Logf("leaf switches of a wide job recorded: %.2f, and %.2f without; simulated %.2f and %.2f", was,
					wasPlain, leaves, scattered)
				if math.Abs(leaves-was) > .2*was || math.Abs(scattered-wasPlain) > .2*wasPlain || leaves >= scattered {
					t.Errorf("wide jobs have %.2f and %.2f leaf switches, they had %.2f and %.2f", leaves, scattered,
						was, wasPlain)
				}
				return
			}
			if (with-bare)*(was-wasPlain) <= 0 {
				t.Errorf("the feature changes the mean wait by %.1f s, it did by %.1f s", with-bare, was-wasPlain)
			}
			if errorBare <= errorWith {
				t.Errorf("starts are %.1f s off with the feature, %.1f s without", errorWith, errorBare)
			}
		})
	}
}

// TestSlurm2411: runs of Slurm 24.11 are as the model has them, which follows 22.05.
func TestSlurm2411(t *testing.T) {
	for _, conf := range []string{"fifo", "small"} {
		run, settings, err := recorded.ReadSite("testdata/slurm/24.11/w1."+conf+".csv", "testdata/slurm/24.11/"+conf)
		if err != nil {
			t.Fatal(err)
		}
		before, err := recorded.Read(filepath.Join(testshared.Path(t, "golden", "slurm"), "runs", "w1."+conf+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		var waits, errors []float64
		for _, of := range recorded.Ensemble(&settings) {
			m, err := run.Simulate(settings, slurm.NewPolicy, of, nil)
			if err != nil {
				t.Fatal(err)
			}
			waits, errors = append(waits, m.MeanWait), append(errors, m.MedianError)
		}
		was, wait, median := run.MeanWait(), recorded.Median(waits), recorded.Median(errors)
		t.Logf("%s: recorded %.1f s, by 22.05 %.1f s; simulated %.1f s; median error of a start %.1f s", conf, was,
			before.MeanWait(), wait, median)
		if math.Abs(wait-was) > max(2, .2*was) || median > 4 {
			t.Errorf("%s: the mean wait is %.1f s, it was %.1f s; the median error of a start is %.1f s", conf, wait,
				was, median)
		}
	}
}

// plainRun is the recording of a workload on the same cluster without a feature.
func plainRun(t *testing.T, workload, feature string) string {
	if feature == "weights" {
		return filepath.Join("testdata/slurm", workload+".types.csv")
	}
	if workload == "w1" {
		return filepath.Join(testshared.Path(t, "golden", "slurm"), "runs", "w1.fifo.csv")
	}
	return filepath.Join("testdata/slurm", workload+".plain.csv")
}
