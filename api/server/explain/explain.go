// Package explain serves explanations of configurations, and the rounds that decided on them.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	CausalModel(ctx context.Context, id string) (*controller.CausalModel, error)
	Explain(ctx context.Context, id string, revision, sequence int64,
		base controller.Base) (out controller.Explanation, err error)
	Round(id string, sequence int64) (*controller.RoundRecord, error)
	Rounds(id string, before int64, limit int) (out []*controller.RoundRecord, err error)
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
	Space(id string) (*space.Space, error)
	WhatIf(ctx context.Context, id string, config func(sp *space.Space, incumbent space.Config) (space.Config,
		error), on ...func(context.Context) (*workload.Workload, error)) (out controller.WhatIf, err error)
}

// Config configures the service of explanations and rounds.
type Config struct {
	Controller Controller
	Workloads  Workloads // nil if no workloads are kept
	Pages      rpc.Pager
}

// Service serves explanations of configurations, and rounds.
type Service struct {
	pb.UnimplementedExplanationServiceServer
	pb.UnimplementedRoundServiceServer
	o Config
}

// New returns the service of rounds and explanations.
func New(o Config) *Service { return &Service{o: o} }

// Register adds the services to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	pb.RegisterExplanationServiceServer(g, s)
	pb.RegisterRoundServiceServer(g, s)
}

// ValidateParameters projects values into the space of a scheduler.
func (s *Service) ValidateParameters(_ context.Context,
	req *pb.ValidateParametersRequest) (*pb.ValidateParametersResponse, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := s.o.Controller.Space(id)
	if err != nil {
		return nil, err
	}
	values, err := convert.ValuesFromProto(sp, req.GetParameters())
	if err != nil {
		return nil, err
	}
	config, changes := convert.Overlay(sp, sp.Default(), values)
	return &pb.ValidateParametersResponse{Parameters: convert.ConfigToProto(config),
		Changes:           convert.ChangesToProto(sp, changes),
		SchedulerRevision: max(1, c.Revision)}, nil
}

// WhatIf simulates values instead of those that run.
func (s *Service) WhatIf(ctx context.Context, req *pb.WhatIfRequest) (*pb.WhatIfResponse, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	if sp, err := s.o.Controller.Space(id); err != nil {
		return nil, err
	} else if _, err := convert.ValuesFromProto(sp, req.GetParameters()); err != nil {
		return nil, err
	}
	on, err := s.jobsOf(id, req.GetWorkloads())
	if err != nil {
		return nil, err
	}
	w, err := s.o.Controller.WhatIf(ctx, id, func(sp *space.Space, incumbent space.Config) (space.Config, error) {
		return convert.Choose(sp, incumbent, req.GetParameters())
	}, on...)
	if err != nil {
		return nil, err
	}
	out := &pb.WhatIfResponse{Incumbent: outlookToProto(&w.Incumbent), Candidate: outlookToProto(&w.Candidate),
		ControllableRatio: w.Candidate.Ratio, RatioLow: w.Candidate.Interval.Low,
		RatioHigh: w.Candidate.Interval.High, Limits: w.Candidate.Limits, Futures: int32(w.Futures),
		IncumbentRevision: w.Running, SchedulerRevision: w.SchedulerRevision,
		CausalPrediction: predictionToProto(&w.Model), Workloads: req.GetWorkloads(),
		Groups: groupsToProto(w.Candidate.Groups, len(w.Candidate.Objective))}
	if !w.At.IsZero() {
		out.SchedulerTime = timestamppb.New(w.At)
	}
	return out, nil
}

func outlookToProto(o *round.Outlook) *pb.Outlook {
	out := &pb.Outlook{Parameters: convert.ConfigToProto(o.Config), Objectives: o.Objective, Objective: o.Mean(),
		Metrics: o.Metrics, Energy: render.EnergyUse(o.Energy)}
	for name, values := range o.InFutures {
		if out.MetricsInFutures == nil {
			out.MetricsInFutures = map[string]*pb.MetricValues{}
		}
		out.MetricsInFutures[name] = &pb.MetricValues{Values: values}
	}
	return out
}

// groupsToProto has the jobs of a number of futures as means.
func groupsToProto(groups []round.Group, futures int) (out []*pb.GroupChange) {
	n := float64(max(1, futures))
	for i := range groups {
		g := &groups[i]
		out = append(out, &pb.GroupChange{Kind: g.By, Group: g.Name, JobCount: float64(g.Jobs) / n,
			MeanWaitBefore: g.Before.Mean, MeanWaitAfter: g.After.Mean, P95WaitBefore: g.Before.P95,
			P95WaitAfter: g.After.P95, SlowerJobCount: float64(g.Slower) / n, Loses: g.Loses()})
	}
	return out
}

// ExplainConfiguration says why a configuration was adopted or not.
func (s *Service) ExplainConfiguration(ctx context.Context,
	req *pb.ExplainConfigurationRequest) (*pb.ExplainConfigurationResponse, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	sequence := int64(0)
	if err != nil {
		if id, sequence, err = convert.ParseRound("name", req.GetName()); err != nil {
			return nil, convert.Invalid("name",
				"%q is neither of the form schedulers/{scheduler}/configurations/{revision} "+
					"nor schedulers/{scheduler}/rounds/{round}", req.GetName())
		}
	}
	base := controller.Base{Revision: req.GetCompareToRevision()}
	switch to := req.GetCompareTo(); {
	case base.Revision < 0:
		err = convert.Invalid("compare_to_revision", "%d is negative", base.Revision)
	case base.Revision > 0 && to != pb.ExplainConfigurationRequest_COMPARE_TO_UNSPECIFIED:
		err = convert.Invalid("compare_to", "is not for compare_to_revision: set one of them")
	case to == pb.ExplainConfigurationRequest_DEFAULT:
		base.Default = true
	case to == pb.ExplainConfigurationRequest_CURRENT:
		base.Current = true
	case to != pb.ExplainConfigurationRequest_COMPARE_TO_UNSPECIFIED:
		err = convert.Invalid("compare_to", "%d is not known: want DEFAULT or CURRENT", to)
	}
	if err != nil {
		return nil, err
	}
	e, err := s.o.Controller.Explain(ctx, id, revision, sequence, base)
	if err != nil {
		return nil, err
	}
	out, err := explanationToProto(id, &e)
	return out, err
}

// sentence ends a reason with one full stop.
func sentence(reason string) string { return strings.TrimSuffix(reason, ".") + "." }

func explanationToProto(id string, e *controller.Explanation) (*pb.ExplainConfigurationResponse, error) {
	out := &pb.ExplainConfigurationResponse{}
	if c := e.Configuration; c != nil {
		out.Summary = fmt.Sprintf("Revision %d is %s: %s", c.Revision, c.State, sentence(c.Reason))
	}
	if e.Round == nil {
		return out, nil
	}
	r, err := render.RoundToProto(id, e.Round, true)
	if err != nil {
		return nil, err
	}
	out.Round, out.Adopt, out.Reason = r.GetName(), r.GetAdopt(), r.GetReason()
	if out.Summary == "" {
		out.Summary = fmt.Sprintf("Round %d: %s", e.Round.Sequence,
			sentence(cmp.Or(r.GetOutcome(), r.GetError(), r.GetReason())))
	}
	for _, c := range r.GetCandidates() {
		if !maps.EqualFunc(c.GetParameters(), r.GetParameters(), func(a,
			b *structpb.Value) bool {
			return proto.Equal(a, b)
		}) {
			out.RejectedAlternatives = append(out.RejectedAlternatives, c)
		}
	}
	if e.Model != nil {
		out.CausalReliability = reliabilityToProto(e.Model)
	}
	for i := range e.Steps {
		step := &e.Steps[i]
		outlook := outlookToProto(&step.Outlook)
		if out.To = outlook; i == 0 {
			out.From = outlook
		} else {
			before := &e.Steps[i-1]
			p, _ := step.Config.Space().Param(step.Param)
			one := &pb.ParameterContribution{ParameterId: step.Param, DeltaObjective: step.Mean() - before.Mean(),
				DeltaMetrics: map[string]float64{}}
			if x := before.Config.Get(step.Param); !x.IsZero() {
				one.From = convert.ValueToProto(&p, x)
			}
			if x := step.Config.Get(step.Param); !x.IsZero() {
				one.To = convert.ValueToProto(&p, x)
			}
			for name, x := range step.Metrics {
				one.DeltaMetrics[name] = x - before.Metrics[name]
			}
			one.Adapted = convert.ChangesToProto(step.Config.Space(), step.Adapted)
			if effect := e.Model.Effect(step.Param); effect != nil {
				one.CausalPaths = pathsToProto(effect.Paths)
			}
			out.ParameterContributions = append(out.ParameterContributions, one)
		}
		out.ControllableRatio, out.Limits = step.Ratio, step.Limits
		out.RatioLow, out.RatioHigh = step.Interval.Low, step.Interval.High
		out.Groups = groupsToProto(step.Groups, len(step.Objective))
	}
	return out, nil
}

// Workloads are workloads that questions are asked on.
type Workloads interface {
	Get(scheduler, id string) (workloads.Record, error)
	Jobs(ctx context.Context, scheduler, id string) (workloads.Record, *workload.Workload, error)
}

// maxAsked bounds the workloads of a question.
const maxAsked = 16

// jobsOf checks the names of workloads of a scheduler, and returns a reader of each.
func (s *Service) jobsOf(scheduler string, names []string) (all []func(context.Context) (*workload.Workload,
	error),
	err error) {
	if len(names) > maxAsked {
		return nil, convert.Invalid("workloads", "are %d, more than %d", len(names), maxAsked)
	}
	for i, name := range names {
		field := fmt.Sprintf("workloads[%d]", i)
		of, id, err := convert.ParseWorkload(field, name)
		switch {
		case err != nil:
			return nil, err
		case of != scheduler:
			return nil, convert.Invalid(field, "%q is of another scheduler", name)
		case s.o.Workloads == nil:
			return nil, convert.Invalid(field, "the service keeps no workloads")
		}
		if _, err := s.o.Workloads.Get(scheduler, id); err != nil {
			return nil, err
		}
		all = append(all, func(ctx context.Context) (*workload.Workload, error) {
			_, w, err := s.o.Workloads.Jobs(ctx, scheduler, id)
			return w, err
		})
	}
	return all, nil
}

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

// GetRound returns a stored round.
func (s *Service) GetRound(_ context.Context, req *pb.GetRoundRequest) (*pb.Round, error) {
	id, sequence, err := convert.ParseRound("name", req.GetName())
	if err != nil {
		return nil, err
	}
	r, err := s.o.Controller.Round(id, sequence)
	if err != nil {
		return nil, err
	}
	out, err := render.RoundToProto(id, r, true)
	return out, err
}

// ListRounds lists the stored rounds of a scheduler, newest first.
func (s *Service) ListRounds(_ context.Context, req *pb.ListRoundsRequest) (*pb.ListRoundsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) (out []*pb.Round, err error) {
		if after.Revision == 1 {
			return nil, nil
		}
		all, err := s.o.Controller.Rounds(id, after.Revision, n)
		for _, r := range all {
			one, bad := render.RoundToProto(id, r, false)
			out, err = append(out, one), errors.Join(err, bad)
		}
		return out, err
	}
	place := func(x *pb.Round) rpc.Token {
		_, sequence, _ := convert.ParseRound("name", x.GetName()) // of RoundName
		return rpc.Token{Revision: sequence}
	}
	page, next, err := rpc.List[*pb.Round]{Some: some, Place: place,
		Lacks: []string{"candidates", "settings"}}.Page(s.o.Pages, req)
	return &pb.ListRoundsResponse{Rounds: page, NextPageToken: next}, err
}
