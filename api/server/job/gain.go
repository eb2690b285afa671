package job

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/round"
)

// GetTuningGain compares the delay of jobs with that under the registered defaults.
func (s *Service) GetTuningGain(ctx context.Context, req *pb.GetTuningGainRequest) (*pb.TuningGain, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	g, err := s.o.Controller.Gain(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &pb.TuningGain{NoGainReason: g.Reason, Revision: g.Revision}
	if g.Gained == nil {
		return out, nil
	}
	const hour = float64(time.Hour / time.Second)
	band := func(seconds []float64) *pb.TuningGain_Band {
		low, middle, high := round.Range(seconds)
		return &pb.TuningGain_Band{Low: low / hour, Middle: middle / hour, High: high / hour}
	}
	out.StartTime, out.EndTime = timestamppb.New(g.Zero.Add(g.From)), timestamppb.New(g.Zero.Add(g.To))
	out.JobCount, out.JobHours, out.DelayHours = int32(g.Jobs), g.JobTime/hour, g.Delay/hour
	out.ReplayedDelayHours, out.DefaultDelayHours = band(g.Replayed), band(g.Instead)
	low, middle, high := g.Saved()
	out.SavedHours = &pb.TuningGain_Band{Low: low / hour, Middle: middle / hour, High: high / hour}
	return out, nil
}
