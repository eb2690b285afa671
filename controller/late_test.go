package controller_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/workload"
)

// A round waits for the events of other streams; later ones count in the next one, and
// are counted.
func TestRoundsWaitForLateEvents(t *testing.T) {
	h := start(t, keep)
	h.registerLate("s", controller.Auto, time.Minute)
	h.submit("s", 30*time.Minute)
	h.submit("s", time.Hour+30*time.Second)
	if _, st, _ := h.service.Scheduler("s"); st.Rounds != 0 || !h.service.Idle("s") {
		t.Errorf("a round did not wait: %+v", st)
	}
	h.submit("s", 59*time.Minute) // late, and in time
	h.submit("s", time.Hour+time.Minute+1)
	if st := h.rounds("s", 1); !strings.Contains(st.LastDecision, "round 1 of 2 jobs") || st.LateEvents != 0 {
		t.Errorf("%+v", st)
	}
	h.submit("s", 58*time.Minute) // too late
	h.submit("s", 2*time.Hour+2*time.Minute)
	if st := h.rounds("s", 2); !strings.Contains(st.LastDecision, "round 2 of 5 jobs") || st.LateEvents != 1 {
		t.Errorf("%+v", st)
	}
}

// An event that is sent again must be the same: another event under its id is not lost in silence.
func TestRepeatedIDWithOtherContent(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Recommend)
	first, other := submission("a", time.Minute), submission("a", time.Minute)
	other.Job.GPUs = workload.GPUs(2)
	same := first
	for range 2 {
		r, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{first, other, same})
		if err != nil || r.Accepted+r.Duplicates != 2 || len(r.Rejected) != 1 || r.Rejected[0].Index != 1 ||
			!strings.HasPrefix(r.Rejected[0].Err.Error(), "event_id: ") {
			t.Errorf("%+v, %v", r, err)
		}
		h.close()
		h.open()
	}
}
