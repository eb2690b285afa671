package generation

import (
	"testing"
	"time"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/workload"
)

// TestRunTime: a predicted run time is between the run times of jobs alike, above what the job ran, within its limit,
// and the same again.
func TestRunTime(t *testing.T) {
	var past []durations.Record
	for i := range 100 {
		past = append(past, durations.Record{Job: &workload.Job{ID: "p", GPUs: workload.GPUs(1), Tenant: "a"},
			Ran: time.Duration(i+1) * time.Minute, Ended: true})
	}
	e := NewEngine(time.Unix(0, 0), Method{history: true})
	j := &workload.Job{ID: "j", GPUs: workload.GPUs(1), Tenant: "a"}
	_, err := e.Futures(t.Context(), Request{At: 48 * time.Hour, Records: past, Horizon: time.Hour, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := e.Predictor()
	r := p.RunTime(j, 0)
	if r.Modelled || r.Low < 3*time.Minute || r.Low > 20*time.Minute || r.Middle < 35*time.Minute ||
		r.Middle > 65*time.Minute || r.High < 80*time.Minute || r.High > 100*time.Minute {
		t.Errorf("%+v", r)
	}
	if p.RunTime(j, 0) != r {
		t.Error("it differs the second time")
	}
	if r := p.RunTime(j, 50*time.Minute); r.Low <= 50*time.Minute || r.High > 100*time.Minute {
		t.Errorf("after 50 minutes: %+v", r)
	}
	limited := *j
	limited.Requested = workload.Request{TimeLimit: 30 * time.Minute}.Shared()
	if r := p.RunTime(&limited, 0); r.High > 30*time.Minute {
		t.Errorf("with a limit of 30 minutes: %+v", r)
	}
}
