package schedulers_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/internal/recorded"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/schedulers/kueue/conf"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// goldenKueue compares recordings, kueue.<queues>.<workload>[.<repeat>].csv, with the mean over ties. Nothing places
// the jobs of a recording.
func goldenKueue(t *testing.T) {
	dir := testshared.Path(t, "golden", "kubernetes")
	files, err := filepath.Glob(filepath.Join(dir, "runs", "kueue.*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	was, is := map[string][]recorded.Means{}, map[string]recorded.Means{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		t.Run(name, func(t *testing.T) {
			parts := strings.Split(name, ".")
			queues := "kueue." + parts[1] + ".json"
			text, err := os.ReadFile(filepath.Join(dir, "queues", queues))
			if err != nil {
				t.Fatal(err)
			}
			site, err := conf.Read(map[string][]byte{queues: text})
			if err != nil {
				t.Fatal(err)
			}
			run, err := recorded.ReadKubernetes(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ensemble(t, site.Cluster, run)
			t.Logf("recorded  %s", run.Means)
			t.Logf("simulated %s", got)
			for _, beyond := range run.Beyond(got) {
				t.Error(beyond)
			}
			of := parts[1] + "." + parts[2]
			was[of], is[of] = append(was[of], run.Means), got
		})
	}
	for _, x := range []struct{ of, than, workload string }{
		{"strict", "besteffort", "a"}, {"strict", "besteffort", "b"},
		{"limits", "besteffort", "a"}, {"noborrow", "besteffort", "a"}, {"preempt", "besteffort", "b"},
		{"reclaim", "besteffort", "b"}, {"preempt", "reclaim", "b"}, {"preempt", "reclaim", "c"}} {
		effect(t, was, is, x.of+"."+x.workload, x.than+"."+x.workload)
	}
}

// ensemble is the mean over the unknowns of a run.
func ensemble(t *testing.T, c workload.Cluster, run *recorded.KubernetesRun) recorded.Means {
	t.Helper()
	var draws []recorded.Means
	members, _ := kueue.Members(space.Config{})
	for _, m := range members {
		w, err := workload.New("recording", time.Time{}, run.Jobs)
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		err = sim.Start(c, w, m.Policy, simulator.Options{})
		if err == nil {
			err = sim.Run(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		draws = append(draws, run.Of(&sim))
	}
	return recorded.MeanOf(draws)
}

// effect requires the sign of the recorded difference between settings in the mean wait of each class in which it is
// more than repeats differ by: a tenth, or half a second.
func effect(t *testing.T, was map[string][]recorded.Means, is map[string]recorded.Means, of, than string) {
	t.Helper()
	if len(was[of]) == 0 || len(was[than]) == 0 {
		return
	}
	a, b := recorded.MeanOf(was[of]), recorded.MeanOf(was[than])
	for _, class := range []string{"all", "<8", ">=8"} {
		d := a.Wait[class] - b.Wait[class]
		if math.Abs(d) <= max(.5, .1*max(a.Wait[class], b.Wait[class])) {
			continue
		}
		if got := is[of].Wait[class] - is[than].Wait[class]; got*d <= 0 {
			t.Errorf("%s against %s: the mean wait of %s differs by %.1f s, it did by %.1f", of, than, class, got, d)
		}
	}
}
