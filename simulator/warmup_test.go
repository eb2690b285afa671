package simulator

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestWarmUp: jobs of the warm-up run as they would without one, and have no outcome; delays and means over time are of
// the time and the jobs after it.
func TestWarmUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 50 {
		var jobs []workload.Job
		for range 40 {
			jobs = append(jobs, tenantJob([]string{"a", "b"}[r.IntN(2)], r.IntN(400), 1+r.IntN(200), 1+r.IntN(4)))
		}
		w := jobsOf(t, jobs...)
		c := workload.Uniform(1, 4)
		from := time.Duration(100+r.IntN(200)) * time.Second
		all := ran(t, c, w, &inOrder{}, Options{Attribute: true, PerTenant: true})
		s := ran(t, c, w, &inOrder{}, Options{Attribute: true, PerTenant: true, CountFrom: from})
		want := slices.DeleteFunc(all.Outcomes(nil), func(o Outcome) bool { return o.Submit < from })
		got := s.Outcomes(nil)
		if !slices.Equal(got, want) {
			t.Fatalf("counted from %v:\n%+v\nwant\n%+v", from, got, want)
		}
		sum, delay := s.Summarize(), 0.
		for _, d := range s.Delays() {
			delay += d.Seconds
		}
		if sum.Objectives != Describe(want) || math.Abs(delay-sum.AvgQueue) > 1e-9 {
			t.Errorf("counted from %v: %+v, want %+v; delays %g, want %g", from, sum.Objectives, Describe(want), delay,
				sum.AvgQueue)
		}
		held := 0.
		for _, o := range all.Outcomes(nil) {
			held += max(0, (o.End-max(o.Start, from)).Hours()) * float64(o.GPUs)
		}
		reports, _ := s.TenantReports()
		for _, x := range reports {
			held -= x.GPUHours
		}
		if math.Abs(held) > 1e-9 {
			t.Errorf("counted from %v: tenants hold %g GPU-hours too little", from, held)
		}
		if m := s.metrics; math.Abs(m.seconds-(s.Now()-from).Seconds()) > 1e-9 {
			t.Errorf("means over %g s of %v", m.seconds, s.Now()-from)
		}
	}
}
