// Package explain serves explanations of configurations, and the rounds that decided on them.
package explain

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/search/effects"
)

// GetCausalModel returns the causal model of the measured configurations.
func (s *Service) GetCausalModel(ctx context.Context, req *pb.GetCausalModelRequest) (*pb.CausalModel, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	m, err := s.o.Controller.CausalModel(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &pb.CausalModel{Name: req.GetName() + "/causalModel", SchedulerRevision: m.Revision,
		Reliability: reliabilityToProto(m)}
	layers := map[effects.Layer]pb.CausalModel_Node_Layer{effects.Parameter: pb.CausalModel_Node_PARAMETER,
		effects.Metric: pb.CausalModel_Node_METRIC, effects.Objective: pb.CausalModel_Node_OBJECTIVE}
	for _, n := range m.Nodes {
		out.Nodes = append(out.Nodes, &pb.CausalModel_Node{Id: n.ID, Layer: layers[n.Layer]})
	}
	for _, e := range m.Edges {
		out.Edges = append(out.Edges, &pb.CausalModel_Edge{From: e.From, To: e.To, Effect: e.Effect,
			Sign: int32(e.Sign), Reliability: e.Reliability, PossiblyConfounded: e.Confounded})
	}
	for _, e := range m.Effects {
		out.ParameterEffects = append(out.ParameterEffects, &pb.ParameterEffect{ParameterId: e.Param, Effect: e.Share,
			EffectLow: e.Low, EffectHigh: e.High, BestLevel: e.Best, Inert: e.Inert, Constant: e.Constant,
			Paths: pathsToProto(e.Paths)})
	}
	return out, nil
}

func pathsToProto(paths []effects.Path) (out []*pb.CausalPath) {
	for _, p := range paths {
		out = append(out, &pb.CausalPath{MetricIds: p.Metrics, Effect: p.Effect})
	}
	return out
}

func reliabilityToProto(m *controller.CausalModel) *pb.CausalReliability {
	out := &pb.CausalReliability{Reliable: m.Fault == "", Reason: m.Fault, TrialCount: int32(m.Trials),
		GroupCount: int32(m.Groups), RankCorrelation: m.Rank, RankedGroupCount: int32(m.Ranked),
		MeanError: m.Error, BaselineError: m.MeanError}
	if !m.Until.IsZero() {
		out.SchedulerTime = timestamppb.New(m.Until)
	}
	return out
}

func predictionToProto(f *controller.Foretold) *pb.CausalPrediction {
	return &pb.CausalPrediction{Reliability: reliabilityToProto(f.CausalModel), Ratio: f.Ratio, RatioLow: f.Low,
		RatioHigh: f.High, Extrapolation: f.Extrapolation != "", ExtrapolationReason: f.Extrapolation}
}
