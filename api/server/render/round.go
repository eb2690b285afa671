package render

import (
	"cmp"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// RoundToProto has candidates and settings only if the whole is asked for.
func RoundToProto(id string, r *controller.RoundRecord, whole bool) (out *pb.Round, err error) {
	fields := func(text json.RawMessage) map[string]*structpb.Value {
		s := &structpb.Struct{}
		if bad := s.UnmarshalJSON(text); bad != nil && err == nil {
			err = fmt.Errorf("server: round %d: %w", r.Sequence, bad)
		}
		return s.GetFields()
	}
	out = &pb.Round{Name: convert.RoundName(id, r.Sequence)}
	if r.Damage != nil {
		out.Error = r.Damage.Error()
		return out, nil
	}
	x := &r.Input
	out.SchedulerTime, out.CreateTime = timestamppb.New(x.Zero.Add(x.At)), timestamppb.New(r.Decided)
	out.Duration, out.Urgent, out.Outcome, out.Revision = durationpb.New(r.Took), x.Urgent, r.Outcome, r.Revision
	out.Error, out.IncumbentRevision = r.Error, x.Running
	out.InputDigest, out.EventCount, out.EventCursor = r.Digest, r.Events, r.Cursor
	out.SimulatorVersion, out.SchedulerRevision = r.Simulator, max(1, x.SchedulerRevision)
	if d := r.Decision; d != nil {
		out.Adopt, out.Reason, out.ControllableRatio = d.Adopt, d.Reason, d.Ratio
		out.Parameters, out.PredictedObjectives, out.IncumbentObjectives = fields(d.Config), d.Predicted, d.Before
		out.Search, out.SearchReason = string(d.Search), d.Why
		out.Energy, out.IncumbentEnergy = energyToProto(d.Energy)
	}
	if !whole {
		return out, err
	}
	if r.Decision != nil {
		names := round.Origins(x.History, x.Zero)
		for _, c := range r.Decision.Candidates {
			one := &pb.Round_Candidate{Origin: cmp.Or(names[c.Origin], c.Origin),
				ControllableRatio: c.Ratio, Objectives: c.Objective,
				Error: c.Error, Outcome: c.Outcome}
			if len(c.Config) > 0 {
				one.Parameters = fields(c.Config)
			}
			out.Candidates = append(out.Candidates, one)
		}
	}
	settings, bad := json.Marshal(struct {
		Objective  string                `json:"objective"`
		Type       string                `json:"scheduler"`
		Settings   any                   `json:"settings"`
		Simulation controller.Simulation `json:"simulation"`
	}{x.Objective, x.Type, x.Settings, x.Simulation})
	if bad != nil {
		return nil, fmt.Errorf("server: round %d: %w", r.Sequence, bad)
	}
	out.Settings = &structpb.Struct{Fields: fields(settings)}
	return out, err
}
