package simulator

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

func TestBySizeJSON(t *testing.T) {
	text, err := json.Marshal(BySize{1.5, 0, 0.25, 3})
	if want := `{"1":1.5,"2-4":0,"5-8":0.25,"9+":3}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// TestWaitingBySize: one node of ten GPUs, one wide job after another; jobs of
// one GPU start at once.
func TestWaitingBySize(t *testing.T) {
	w := jobsOf(t, tenantJob("", 0, 100, 9), tenantJob("", 0, 100, 10), tenantJob("", 50, 100, 6),
		tenantJob("", 60, 100, 4), tenantJob("", 100, 100, 2))
	s := ran(t, workload.Uniform(1, 10), w, &inOrder{}, Options{})
	sum := s.Summarize()
	all := 0.0
	for _, v := range sum.WaitingBySize {
		all += v
	}
	if math.Abs(all-sum.AvgWaiting) > 1e-12 || all == 0 {
		t.Errorf("%v are not %v in all", sum.WaitingBySize, sum.AvgWaiting)
	}
	wait := BySize{}
	for _, o := range s.Outcomes(nil) {
		wait[SizeClass(o.GPUs)] += o.Wait.Seconds()
	}
	for k := range wait {
		if got := sum.WaitingBySize[k] * sum.Makespan; math.Abs(got-wait[k]) > 1e-9 {
			t.Errorf("%s GPUs waited %g s, want %g", SizeNames[k], got, wait[k])
		}
	}
}

// TestRunningWhenTraceEnded: a job whose run time is not known holds its GPUs, and
// counts in no mean.
func TestRunningWhenTraceEnded(t *testing.T) {
	jobs := []workload.Job{tenantJob("", 0, 100, 8), tenantJob("", 1, 50, 8)}
	jobs[0].Status = workload.Running
	s := ran(t, workload.Uniform(1, 8), jobsOf(t, jobs...), &inOrder{}, Options{PerTenant: true})
	out, sum := s.Outcomes(nil), s.Summarize()
	if len(out) != 1 || out[0].Wait != 99*time.Second || sum.Jobs != 1 || sum.AvgJCT != 149 {
		t.Errorf("%+v, %+v", out, sum)
	}
	if reports, _ := s.TenantReports(); reports[0].Jobs != 1 || reports[0].GPUHours != 8*150./3600 {
		t.Errorf("%+v", reports)
	}
}

// TestSlowdown: a job that is spread runs at half its speed, one that is stopped
// and pays a restart at its own.
func TestSlowdown(t *testing.T) {
	m := DefaultModels()
	m.Classes = []Class{{Name: "even", Slowdown: 2, Weight: 1}}
	s := ran(t, workload.Uniform(2, 3), jobsOf(t, tenantJob("", 0, 500, 2), tenantJob("", 0, 500, 2),
		tenantJob("", 1, 100, 2)), &scattered{}, Options{Models: m})
	for i, want := range []float64{1, 1, 2} {
		if got := s.Outcomes(nil)[i].Slowdown; math.Abs(got-want) > 1e-9 {
			t.Errorf("job %d: slowdown %g, want %g", i, got, want)
		}
	}
	s = ran(t, workload.Uniform(1, 1), jobsOf(t, tenantJob("", 0, 500, 1)), &stops{at: 100e9}, Options{})
	if o := s.Outcomes(nil)[0]; o.Restart == 0 || o.Slowdown != 1 {
		t.Errorf("restarted for %v: slowdown %g", o.Restart, o.Slowdown)
	}
}

// scattered lets jobs spread where they find no place.
type scattered struct{ inOrder }

func (p *scattered) Admit(id ID, seen Seen) {
	p.plan.AllowSpread(id, true)
	p.inOrder.Admit(id, seen)
}

// TestSummaryReusesMemory: the allocations of a summary do not depend on their number.
func TestSummaryReusesMemory(t *testing.T) {
	var jobs []workload.Job
	for i := range 500 {
		jobs = append(jobs, tenantJob("a", i, 10, 1))
	}
	s := ran(t, workload.Uniform(1, 8), jobsOf(t, jobs...), &inOrder{}, Options{PerTenant: true})
	if n := testing.AllocsPerRun(10, func() { s.Summarize() }); n > 20 {
		t.Errorf("%g allocations", n)
	}
}
