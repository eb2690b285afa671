package job

import (
	"context"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
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
