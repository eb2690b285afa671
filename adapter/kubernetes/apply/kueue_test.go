package apply

import (
	"strings"
	"testing"

	pb "github.com/autosched/autosched/api/autosched/v1"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/space"
)

// TestKueueParameters: parameters of groups of queues set the fields of all queues of the group, and are in force as
// sent where a part of a quota is a whole number of GPUs that another part is, too.
func TestKueueParameters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "queueingStrategy", "a.lendingLimit", "borrowingLimit", "preemption.withinClusterQueue",
		"preemption.reclaimWithinCohort", "preemption.borrowWithinCohort.policy")
	f.o.Scheduler = NewKueue()
	_, err := Open(t.Context(), f.o)
	if err == nil || !strings.Contains(err.Error(), "borrowingLimit: ClusterQueues a and b differ") {
		t.Error(err)
	}
	f.s.edit("b", quotaPath("borrowingLimit"), "8", "gitops")
	d := f.open()
	parameters, err := adapter.ToProto(space.Values{"queueingStrategy": space.Text("StrictFIFO"),
		"a.lendingLimit": space.Num(.3), "borrowingLimit": space.Num(.2),
		"preemption.withinClusterQueue":  space.Text("LowerPriority"),
		"preemption.reclaimWithinCohort": space.Text("Never")})
	if err != nil {
		t.Fatal(err)
	}
	c := config(t, 1)
	c.Parameters = parameters
	// An adapter that ends halfway leaves queues that differ.
	f.s.fault = func(n int, after bool) error {
		if n > 1 {
			return errCut
		}
		return nil
	}
	f.apply(d, c, "could not be put back")
	f.s.fault = nil
	d = f.open()
	if ack := f.apply(d, c, ""); ack.GetState() != pb.Acknowledgement_APPLIED {
		t.Error(ack)
	}
	for _, q := range []string{"a", "b"} {
		f.has(q, strategy, "StrictFIFO", Manager)
		f.has(q, within, "LowerPriority", Manager)
		f.has(q, quotaPath("borrowingLimit"), "10", Manager) // of 48
	}
	f.has("a", quotaPath("lendingLimit"), "10")
	f.has("b", quotaPath("lendingLimit"), "")
	f.apply(f.open(), c, "")
	if req, news, _ := d.Look(t.Context()); req != nil {
		t.Error(news)
	}
	f.s.edit("b", quotaPath("borrowingLimit"), "16", "person")
	if req, news, _ := d.Look(t.Context()); req.GetAcknowledgement().GetState() != pb.Acknowledgement_FAILED {
		t.Error(req, news)
	}
}
