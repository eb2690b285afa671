package searches

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/lab/internal/window"
	"github.com/autosched/autosched/workload"
)

func compared(t *testing.T, workers int) *Comparison {
	t.Helper()
	o := window.Sample(t)
	o.Cluster = workload.Uniform(10, 8) // jobs wait
	o.Workers = workers
	r, err := Compare(context.Background(), o,
		Options{Searches: []string{"autosched", "random", "portfolio", "random+causal"}, Hours: 3, Seeds: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Searches {
		if r.Searches[i].Plain.Seconds <= 0 || r.Searches[i].Plain.Seconds > r.Searches[i].Seconds {
			t.Errorf("%+v", r.Searches[i])
		}
		r.Searches[i].Seconds, r.Searches[i].Plain.Seconds = 0, 0 // wall time
	}
	return r
}

func TestCompare(t *testing.T) {
	testshared.Full(t)
	r := compared(t, 1)
	if len(r.Hours) != 3 || r.Reference != "autosched" || len(r.Searches) != 4 {
		t.Fatalf("%d hours, reference %s, %d searches", len(r.Hours), r.Reference, len(r.Searches))
	}
	for _, s := range r.Searches {
		// The incumbent is among the candidates, so nothing is worse on the futures.
		if s.OnFutures < 1 || s.OnTruth <= 0 || s.Evaluations < 2 || s.Evaluations > 10 {
			t.Errorf("%+v", s)
		}
		if p := s.Plain; p.Evaluations < 1 || p.Evaluations > 10 || p.Matched > 1 ||
			!strings.HasSuffix(s.Search, Causal) && p.Matched < 1 {
			t.Errorf("to match what it finds without a model: %+v", s)
		}
		if s.P < 0 || s.P > 1 || s.PTruth < 0 || s.PTruth > 1 {
			t.Errorf("%s: p %v and %v", s.Search, s.P, s.PTruth)
		}
	}
	first, portfolio := r.Searches[0], r.Searches[2]
	if first.AgainstReference != 1 || first.P != 1 {
		t.Errorf("the reference against itself: %v, p %v", first.AgainstReference, first.P)
	}
	// The portfolio is a part of the product's search.
	if portfolio.AgainstReference < 1 || portfolio.OnFutures > first.OnFutures {
		t.Errorf("the portfolio (%+v) beats the search that begins with it (%+v)", portfolio, first)
	}
}

func TestCompareDoesNotDependOnWorkers(t *testing.T) {
	if diff := cmp.Diff(compared(t, 1), compared(t, 3)); diff != "" {
		t.Errorf("(-1 worker +3 workers)\n%s", diff)
	}
}

func TestCompareRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no search":      {Options{Hours: 2, Seeds: 1}, "no search named"},
		"unknown search": {Options{Searches: []string{"magic"}, Hours: 2, Seeds: 1}, `no search "magic"`},
		"unknown causal": {Options{Searches: []string{"magic+causal"}, Hours: 2, Seeds: 1},
			`no search "magic+causal"`},
		"one hour":       {Options{Searches: []string{"random"}, Hours: 1, Seeds: 1}, "at least 2"},
		"too many hours": {Options{Searches: []string{"random"}, Hours: 1000, Seeds: 1}, "jobs wait at"},
	} {
		if _, err := Compare(context.Background(), window.Sample(t), c.o); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestComparisonIsJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("compares methods over several windows")
	}
	b, err := json.Marshal(compared(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"ratio_on_futures", "ratio_on_truth", "against_reference", `"p"`} {
		if !strings.Contains(string(b), field) {
			t.Errorf("no %s in %s", field, b)
		}
	}
}
