package apply

import (
	"slices"
	"strings"
	"testing"
)

// TestInspect: settings without effect are named with the reason, and changes by others of what the adapter set.
func TestInspect(t *testing.T) {
	t.Parallel()
	inspect := func(f *fixture, foreign string, marked int) (idle []string) {
		t.Helper()
		got, err := Inspect(t.Context(), f.o)
		if err != nil || got.Marked != marked || got.Foreign != foreign {
			t.Errorf("%+v %v, want %d marks, %q", got, err, marked, foreign)
		}
		for _, i := range got.Idle {
			idle = append(idle, i.String())
		}
		return idle
	}
	f := newFixture(t, "a.queueingStrategy")
	want := []string{"fairSharing.weight of a, b: the weight has no effect: Kueue's manager runs without fair sharing"}
	if got := inspect(f, "", 0); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	f.apply(f.open(), config(t, 1, "a.queueingStrategy=StrictFIFO"), "")
	inspect(f, "", 1)
	f.s.edit("a", strategy, "BestEffortFIFO", "person")
	f.s.edit("b", "/spec/cohortName", "other", "person")
	f.s.lacks = "lendingLimit"
	got := strings.Join(inspect(f, "clusterqueues.kueue.x-k8s.io/a spec.queueingStrategy by person", 1), "\n")
	for _, want := range []string{
		"preemption.reclaimWithinCohort of a: the queue is alone in cohort all: the setting has no effect",
		"borrowingLimit of b: the queue is alone in cohort other", "lendingLimit of a, b: the API server has no such field"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	f = newVolcano(t, "a.weight")
	const reclaims = "reclaimable of a, b: the setting has no effect: Volcano's actions have no reclaim"
	if got := inspect(f, "", 0); !slices.Contains(got, reclaims) {
		t.Errorf("%q", got)
	}
	f.s.edit("volcano-scheduler-configmap", textPath, "sprad: 1\n", "gitops")
	if got := inspect(f, "", 0); !strings.HasPrefix(got[0], "volcano-scheduler.conf: configmap volcano-scheduler-c") {
		t.Errorf("%q", got)
	}
}
