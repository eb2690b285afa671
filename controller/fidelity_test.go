package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestFidelityOfObservedDelays: the service compares the delays that it observed with simulated ones,
// and says so in the status and in the evidence of a revision.
func TestFidelityOfObservedDelays(t *testing.T) {
	for want, waited := range map[string]time.Duration{
		"The simulation describes the history: jobs wait 0 s":      0,
		"The simulation does not describe the history: jobs wait ": 20 * time.Hour,
	} {
		h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
			return round.Decision{Config: in.Incumbent.With("backfill", space.Bool(true)),
				Adopt: in.State.At > 20*time.Hour, Reason: "test", Ratio: 1.2}, nil
		})
		_, err := h.service.Register(context.Background(), controller.Call{}, controller.Registration{
			ID: "s", Type: "fifo", Objective: "avg_jct", Cluster: workload.Uniform(4, 8),
			Policy: promptly(), Mode: controller.Auto,
			Params: []space.Param{{ID: "backfill", Kind: space.KindBool, Default: space.Bool(false)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var events []workload.Event
		for i := range 40 {
			e := submission(fmt.Sprintf("s%02d", i), 24*time.Hour+time.Duration(i)*time.Minute)
			begun, ended := e, e
			begun.ID, begun.Kind, begun.Time = fmt.Sprintf("b%02d", i), workload.Started, e.Time+waited
			ended.ID, ended.Kind, ended.Time = fmt.Sprintf("e%02d", i), workload.Finished, begun.Time+time.Minute
			events = append(events, e, begun, ended)
		}
		if _, err := h.service.Ingest(context.Background(), controller.Call{}, "s", events); err != nil {
			t.Fatal(err)
		}
		h.submit("s", 48*time.Hour+time.Second)
		if st := h.rounds("s", 2); !strings.HasPrefix(st.Fidelity, want) {
			t.Errorf("status %q (%s), want %s", st.Fidelity, st.LastError, want)
		}
		c, err := h.service.Configuration("s", 2)
		if err != nil || c.Evidence == nil || !strings.HasPrefix(c.Evidence.Fidelity, want) {
			t.Errorf("revision 2: %+v, %v", c, err)
		}
	}
}
