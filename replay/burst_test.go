package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// TestFlashCrowdIsAnswered: a crowd of 2,500 jobs of one GPU is decided on within 15
// minutes, and steady arrivals are never decided on between rounds.
func TestFlashCrowdIsAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("decides on thousands of jobs")
	}
	o := sample(t, "autosched")
	o.Settings = round.Settings{Budget: 6, Futures: 2, Horizon: 2 * time.Hour, Search: round.SearchPortfolio,
		Guard: -1, Ablation: round.Ablation{NoDaily: true}}
	var steady []workload.Job
	for i := range 300 {
		steady = append(steady, workload.Job{ID: fmt.Sprint(i), Key: fmt.Sprint(i % 7), GPUs: workload.GPUs(1 + i%4),
			Submit: time.Duration(i) * 10 * time.Minute, Duration: time.Duration(10+i%13*5) * time.Minute})
	}
	o.From, o.To = 44*time.Hour, 48*time.Hour
	begins := o.From + 80*time.Minute
	crowd := slices.Clone(steady)
	for i := range 2500 {
		crowd = append(crowd, workload.Job{ID: fmt.Sprint("crowd-", i), Key: "crowd", GPUs: workload.GPUs(1),
			Submit: begins + time.Duration(i)*time.Hour/2500, Duration: 3 * time.Minute})
	}
	for _, tt := range []struct {
		name string
		jobs []workload.Job
		want bool
	}{{"steady", steady, false}, {"crowd", crowd, true}} {
		var err error
		if o.Trace, err = workload.New(tt.name, time.Unix(0, 0).UTC(), tt.jobs); err != nil {
			t.Fatal(err)
		}
		m := evaluate(t, o).Methods[1]
		first := slices.IndexFunc(m.Decisions, func(d Decision) bool { return d.Urgent })
		switch {
		case !tt.want && (m.Urgent != 0 || first >= 0):
			t.Errorf("%s: %d urgent decisions, the first %+v", tt.name, m.Urgent, m.Decisions[first])
		case tt.want && first < 0:
			t.Errorf("%s: no urgent decision", tt.name)
		case tt.want:
			if d := m.Decisions[first]; d.AtS < begins.Seconds() || d.AtS > (begins+15*time.Minute).Seconds() ||
				d.Search != round.SearchPortfolio {
				t.Errorf("%s: the first urgent decision is %+v, %v after it begins", tt.name, d, d.AtS-begins.Seconds())
			}
			if m.Urgent > 8 {
				t.Errorf("%d urgent decisions on a crowd of an hour", m.Urgent)
			}
		}
	}
}
