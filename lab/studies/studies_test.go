package studies

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/autosched/autosched/lab/internal/window"
	"github.com/autosched/autosched/workload"
)

// TestCompareStudies: studies are repeated but for their CPU time; each is measured until it is within 1 % of the
// reference and no further than its budget; only studies with the causal model skip trials.
func TestCompareStudies(t *testing.T) {
	o := window.Sample(t)
	o.Cluster, o.To = workload.Uniform(14, 8), o.From+2*time.Hour
	done := 0
	c := Options{Trials: 12, Reference: 30, Seeds: 2, Algorithms: []string{"sobol"}, Took: time.Second,
		Progress: func(n, of int) { done = n*10 + of }}
	r, err := Compare(context.Background(), o, c)
	if err != nil {
		t.Fatal(err)
	}
	if done != 44 || len(r.Studies) != 4 || r.ReferenceJCT <= 0 || r.ReferenceJCT > r.DefaultJCT {
		t.Errorf("%d, %+v", done, r)
	}
	for i, x := range r.Studies {
		spent := x.Trials
		if x.Trials == 0 {
			spent = x.Measured
		}
		if x.Causal != (i >= 2) || x.Measured != 12 || (x.Trials > 0) != (x.Best <= Within) ||
			!x.Causal && x.Skipped+x.Narrowed > 0 ||
			x.Seconds < float64(spent) || x.Seconds > float64(spent)+x.Tuner+1e-9 {
			t.Errorf("%+v", x)
		}
	}
	again, err := Compare(context.Background(), o, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Studies {
		for _, x := range []*Run{&r.Studies[i], &again.Studies[i]} {
			x.Seconds, x.Tuner = 0, 0
		}
	}
	if !reflect.DeepEqual(r, again) {
		t.Errorf("%+v is not repeated: %+v", r, again)
	}
	if _, err := Compare(context.Background(), o, Options{}); err == nil {
		t.Error("nothing to compare is no error")
	}
}
