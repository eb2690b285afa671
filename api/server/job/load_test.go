package job

import (
	"context"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// ended has one job, which ended.
type ended struct{ Controller }

func (ended) Job(context.Context, string, string) (h workload.JobHistory, zero time.Time, err error) {
	h.Ended = true
	return h, time.Unix(0, 0), nil
}

func (ended) Prediction(context.Context, string) (*controller.Prediction, error) { return nil, nil }

func (ended) Waits(context.Context, string, string) (w controller.Waits, err error) {
	w.By[workload.WaitQuota], w.By[workload.WaitBusy] = 400*time.Millisecond, 900*time.Millisecond
	w.By[workload.WaitOthers] = 1500 * time.Millisecond
	return w, nil
}

// external has one job, which waits, of a scheduler without futures, and counts how often it is read.
type external struct {
	ended
	reads *int
}

func (e external) Job(context.Context, string, string) (h workload.JobHistory, zero time.Time, err error) {
	*e.reads++
	return h, time.Unix(0, 0), nil
}

func (external) LookAhead(context.Context, string) (controller.Ahead, error) {
	return controller.Ahead{Reason: "none"}, nil
}

// TestExplainWithoutFutures: a job is read once.
func TestExplainWithoutFutures(t *testing.T) {
	reads := 0
	got, err := New(Config{Controller: external{reads: &reads}}).ExplainJob(t.Context(),
		&pb.ExplainJobRequest{Name: "schedulers/prod/jobs/a"})
	if err != nil || got.GetNoFuturesReason() != "none" || reads != 1 {
		t.Error(got, reads, err)
	}
}

// TestWaitsOfLessThanASecond: the longest wait comes first.
func TestWaitsOfLessThanASecond(t *testing.T) {
	got, err := New(Config{Controller: ended{}}).ExplainJob(t.Context(),
		&pb.ExplainJobRequest{Name: "schedulers/prod/jobs/a"})
	if err != nil {
		t.Fatal(err)
	}
	want := []pb.ExplainJobResponse_Cause{pb.ExplainJobResponse_BEHIND_OTHERS, pb.ExplainJobResponse_BUSY,
		pb.ExplainJobResponse_QUOTA}
	for i, w := range got.GetWaits() {
		if w.GetCause() != want[i] {
			t.Errorf("wait %d is %v, want %v", i, w.GetCause(), want[i])
		}
	}
}

// modelledWaits has one job with a wait of each answer of a simulated scheduler, the longest first.
type modelledWaits struct {
	ended
	all []controller.ModelledWait
}

func (m modelledWaits) Waits(context.Context, string, string) (w controller.Waits, err error) {
	for i := range m.all {
		m.all[i].Duration = time.Duration(len(m.all)-i) * time.Minute
	}
	w.Modelled, w.Asked = m.all, len(m.all)
	return w, nil
}

// TestModelledWaits: the causes of a simulated scheduler, with their details.
func TestModelledWaits(t *testing.T) {
	want := []pb.ExplainJobResponse_Cause{pb.ExplainJobResponse_CYCLE, pb.ExplainJobResponse_FRAGMENTED,
		pb.ExplainJobResponse_LIMIT, pb.ExplainJobResponse_QUOTA, pb.ExplainJobResponse_RESERVED,
		pb.ExplainJobResponse_SET_APART, pb.ExplainJobResponse_DEPTH, pb.ExplainJobResponse_BEHIND_OTHERS,
		pb.ExplainJobResponse_BEHIND_OTHERS, pb.ExplainJobResponse_UNKNOWN}
	all := []controller.ModelledWait{{Cycle: true}, {Split: true}, {Cause: simulator.Limited},
		{Cause: simulator.OverQuota}, {Cause: simulator.Reserved}, {Cause: simulator.Closed}, {Cause: simulator.Depth},
		{Cause: simulator.Behind}, {Cause: simulator.Taken}, {Cause: simulator.NoReason}}
	for i := range all {
		all[i].Detail = want[i].String()
	}
	got, err := New(Config{Controller: modelledWaits{all: all}}).ExplainJob(t.Context(),
		&pb.ExplainJobRequest{Name: "schedulers/prod/jobs/a"})
	if err != nil || len(got.GetWaits()) != len(want) || got.GetSimulatedInstantCount() != int32(len(all)) {
		t.Fatal(got, err)
	}
	for i, w := range got.GetWaits() {
		said := w.GetDetail() == want[i].String() || all[i].Cause == simulator.NoReason && w.GetDetail() != ""
		if w.GetCause() != want[i] || !w.GetSimulated() || !said {
			t.Errorf("%+v is %v, want %v", all[i], w, want[i])
		}
	}
}
