package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// applied ingests one CONFIG_APPLIED event, and returns why it is rejected, "" if it is not.
func (h *harness) applied(e workload.Event) string {
	h.t.Helper()
	e.Kind, e.Time = workload.ConfigApplied, time.Duration(origin.UnixNano())+e.Time
	r, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{e})
	if err != nil || r.Accepted+len(r.Rejected) != 1 {
		h.t.Fatal(r, err)
	}
	if len(r.Rejected) > 0 {
		return r.Rejected[0].Err.Error()
	}
	return ""
}

// An event of another epoch, or with other values than those of the revision, is rejected: it is
// about another revision of the same number.
func TestEventsOfOtherRevisionsAreRejected(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	h.submit("s", 0)
	epoch, hash := h.service.Epoch(), h.current("s").Hash
	former, foreign := epoch, epoch
	former.Counter--
	foreign.ID = "x"
	for field, e := range map[string]workload.Event{
		"epoch: ":                  {ID: "1", Epoch: former, Revision: "1"},
		"epoch: belongs":           {ID: "2", Epoch: foreign, Hash: hash, Revision: "1"},
		"content_hash: ":           {ID: "3", Epoch: epoch, Hash: "x", Revision: "1"},
		"configuration_revision: ": {ID: "4", Epoch: epoch, Hash: hash, Revision: "2"},
	} {
		if why := h.applied(e); !strings.HasPrefix(why, field) {
			t.Errorf("%+v: %q, want %s", e, why, field)
		}
	}
	acked := func() int64 {
		s, _, err := h.service.Scheduler("s")
		if err != nil {
			t.Fatal(err)
		}
		return s.AcknowledgedRevision
	}
	if acked() != 0 {
		t.Error("a rejected event acknowledges")
	}
	if why := h.applied(workload.Event{ID: "5", Epoch: epoch, Hash: hash, Revision: "1"}); why != "" || acked() != 1 {
		t.Errorf("%q, revision %d", why, acked())
	}
}

// An event acknowledges for the instance that it names, so that events alone take a rollout from wave
// to wave. Without a name it does for the only instance, and for none of several.
func TestEventsAcknowledgeForTheirInstance(t *testing.T) {
	known := make(chan struct{}) // closed once both instances are known
	decide := adopt(func(round.Input) int { return 5 })
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		select {
		case <-known:
		case <-ctx.Done():
		}
		return decide(ctx, in)
	})
	h.register("s", controller.Auto)
	h.modify("s", func(s *controller.Scheduler) error { s.Policy.Waves.Canary = true; return nil })
	h.submit("s", 0)
	say := func(revision, instance string, at time.Duration) {
		t.Helper()
		h.events++
		if why := h.applied(workload.Event{ID: fmt.Sprint("c", h.events), Revision: revision, Instance: instance,
			Time: at}); why != "" {
			t.Error(why)
		}
	}
	check := func(want string) {
		t.Helper()
		_, st, err := h.service.Scheduler("s")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, i := range st.Instances {
			got += fmt.Sprintf("%s runs %d of %d; ", i.ID, i.Revision, i.Desired)
		}
		if got != want {
			t.Errorf("%swant %s", got, want)
		}
	}
	say("1", "", 1)
	check(" runs 1 of 1; ")
	zero := time.Duration(origin.UnixNano())
	both := []workload.Event{ // in one batch
		{ID: "a", Kind: workload.ConfigApplied, Revision: "1", Instance: "a", Time: zero + 2},
		{ID: "b", Kind: workload.ConfigApplied, Revision: "1", Instance: "b", Time: zero + 2}}
	if _, err := h.service.Ingest(context.Background(), controller.Call{}, "s", both); err != nil {
		t.Fatal(err)
	}
	check("a runs 1 of 1; b runs 1 of 1; ")
	close(known)
	h.submit("s", time.Hour+time.Minute)
	h.rounds("s", 1)
	say("2", "", time.Hour+2*time.Minute)
	check("a runs 1 of 2; b runs 1 of 1; ")
	say("2", "a", time.Hour+2*time.Minute)
	say("1", "a", time.Hour) // late
	check("a runs 2 of 2; b runs 1 of 1; ")
	h.submit("s", 2*time.Hour+2*time.Minute)
	check("a runs 2 of 2; b runs 1 of 2; ")
}
