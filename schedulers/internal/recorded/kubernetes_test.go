package recorded

import (
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

func TestReadKubernetes(t *testing.T) {
	file := testshared.Path(t, "golden", "kubernetes", "runs", "kueue.preempt.b.2.csv")
	r, err := ReadKubernetes(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "all 10.5, <8 4.3, >=8 25.6, tenant-0 11.7, tenant-1 8.9, tenant-2 5.5, evictions 21.0"
	if len(r.Jobs) != 100 || r.Means.String() != want {
		t.Errorf("%d jobs, %s", len(r.Jobs), r.Means)
	}
	if beyond := r.Means.Beyond(r.Means); len(beyond) > 0 {
		t.Errorf("a run is beyond itself: %s", beyond)
	}
	far := MeanOf([]Means{{Wait: map[string]float64{"all": 1}, Evictions: 1}, r.Means})
	if beyond := r.Means.Beyond(far); len(beyond) != 7 {
		t.Errorf("beyond in %d of 7: %s", len(beyond), beyond)
	}
}
