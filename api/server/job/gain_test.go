package job

import (
	"context"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// tuned is a scheduler of which three replays are known.
type tuned struct{ Controller }

func (tuned) Gain(context.Context, string) (controller.Gain, error) {
	return controller.Gain{Zero: time.Unix(0, 0), Revision: 3, Gained: &round.Gained{From: time.Hour, To: 5 * time.Hour,
		Jobs: 7, JobTime: 40 * 3600, Delay: 10 * 3600, Replayed: []float64{8 * 3600, 8 * 3600, 8 * 3600},
		Instead: []float64{14 * 3600, 14 * 3600, 17 * 3600}}}, nil
}

// TestTuningGain: an error of the simulation widens the range of what was saved.
func TestTuningGain(t *testing.T) {
	s := New(Config{Controller: tuned{}})
	got, err := s.GetTuningGain(t.Context(), &pb.GetTuningGainRequest{Name: "schedulers/prod"})
	if err != nil {
		t.Fatal(err)
	}
	saved, other := got.GetSavedHours(), got.GetDefaultDelayHours()
	if saved.GetLow() != 4 || saved.GetMiddle() != 7 || saved.GetHigh() != 9 || other.GetLow() != 14 ||
		other.GetMiddle() != 15 || other.GetHigh() != 17 || got.GetReplayedDelayHours().GetMiddle() != 8 ||
		got.GetDelayHours() != 10 || got.GetJobHours() != 40 || got.GetJobCount() != 7 || got.GetRevision() != 3 ||
		got.GetEndTime().AsTime().Sub(got.GetStartTime().AsTime()) != 4*time.Hour {
		t.Error(got)
	}
	if _, err := s.GetTuningGain(t.Context(), &pb.GetTuningGainRequest{Name: "prod"}); err == nil {
		t.Error("a name of another form is accepted")
	}
}
