package schedulers_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/internal/recorded"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// volcanoBeyond are the classes of runs in which the mean of the draws is too far from the one draw that was recorded.
var volcanoBeyond = map[string][]string{
	"volcano.pack.equal.b":   {"the mean wait of tenant-1"},
	"volcano.spread.equal.a": {"the mean wait of all", "the mean wait of tenant-0", "the mean wait of tenant-2"},
}

// beyondDeviations is how far recordings of volcanoBeyond are from the mean, in standard deviations of the draws.
const beyondDeviations = 2.1

// volcanoGolden is a recording, with the mean of the draws and their standard deviation by class.
type volcanoGolden struct {
	was, got recorded.Means
	spread   map[string]float64
}

// volcanoRun simulates a recording, runs/volcano.<text>.<queues>.<workload>[.<repeat>].csv, as the mean of draws.
func volcanoRun(t *testing.T, dir, name string) volcanoGolden {
	t.Helper()
	parts := strings.Split(name, ".")
	files := map[string][]byte{}
	for _, file := range []string{"conf/volcano." + parts[1] + ".conf", "queues/volcano." + parts[2] + ".json"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) { // texts that tests have of their own
			text, err = os.ReadFile(filepath.Join("volcano", "conf", "testdata", filepath.Base(file)))
		}
		if err != nil {
			t.Fatal(err)
		}
		files[file] = text
	}
	site, err := conf.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	site.Cluster.Groups = workload.Uniform(8, 8).Groups
	r, err := recorded.ReadKubernetes(filepath.Join(dir, "runs", name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Jobs {
		asks := r.Jobs[i].Request()
		asks.NodeCount = int32(r.Pods[i])
		asks.Priority = 0 // the PodGroups had no priority class
		r.Jobs[i].Requested = asks.Shared()
	}
	const n = 60
	var draws []recorded.Means
	for k := range n {
		u, overhead := volcano.Draw(k, n, site.Text.Settings.SchedulePeriod, 1)
		w, err := workload.New(name, time.Time{}, slices.Clone(r.Jobs))
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		if err := sim.Start(site.Cluster, w, volcano.NewPolicy(site.Text.Settings, u),
			simulator.Options{Epilog: overhead}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := r.Of(&sim)
		for class := range m.Wait {
			m.Wait[class] += overhead.Seconds()
		}
		draws = append(draws, m)
	}
	g := volcanoGolden{r.Means, recorded.MeanOf(draws), map[string]float64{}}
	for class, mean := range g.got.Wait {
		for _, d := range draws {
			g.spread[class] += (d.Wait[class] - mean) * (d.Wait[class] - mean) / n
		}
		g.spread[class] = math.Sqrt(g.spread[class])
	}
	return g
}

func goldenVolcano(t *testing.T) {
	dir := testshared.Path(t, "golden", "kubernetes")
	files, err := filepath.Glob(filepath.Join(dir, "runs", "volcano.*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	runs := map[string]volcanoGolden{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		t.Run(name, func(t *testing.T) {
			g := volcanoRun(t, dir, name)
			runs[name] = g
			t.Logf("recorded  %s", g.was)
			t.Logf("simulated %s", g.got)
			for _, line := range g.was.Beyond(g.got) {
				if !slices.ContainsFunc(volcanoBeyond[name], func(known string) bool {
					return strings.HasPrefix(line, known+" ")
				}) {
					t.Error(line)
				}
			}
			for _, known := range volcanoBeyond[name] {
				class := strings.TrimPrefix(known, "the mean wait of ")
				off := math.Abs(g.was.Wait[class]-g.got.Wait[class]) / g.spread[class]
				if t.Logf("%s: %.1f standard deviations off", known, off); !(off <= beyondDeviations) {
					t.Errorf("%s is no draw of the model", known)
				}
			}
		})
	}
	effects := 0
	for a, x := range runs {
		for b, y := range runs {
			p, q := strings.Split(a, "."), strings.Split(b, ".")
			if a >= b || p[3] != q[3] || p[1] != q[1] && p[2] != q[2] {
				continue // of other jobs, or other than in one setting
			}
			for class := range x.was.Wait {
				was, got := x.was.Wait[class]-y.was.Wait[class], x.got.Wait[class]-y.got.Wait[class]
				if math.Abs(was) < 2*math.Hypot(x.spread[class], y.spread[class]) {
					continue
				}
				effects++
				if was*got < 0 {
					t.Errorf("%s waits %.1f s longer in %s than in %s, simulated %.1f s", class, was, a, b, got)
				}
			}
		}
	}
	t.Logf("%d effects have the recorded sign", effects)
}
