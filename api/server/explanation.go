package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// ValidateParameters projects values into the space of a scheduler.
func (s *Server) ValidateParameters(_ context.Context,
	req *pb.ValidateParametersRequest) (*pb.ValidateParametersResponse, error) {
	id, err := parseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, _, err := s.service.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := s.service.Space(id)
	if err != nil {
		return nil, err
	}
	values, err := valuesFromProto(sp, req.GetParameters())
	if err != nil {
		return nil, err
	}
	config, changes := overlaid(sp, sp.Default(), values)
	return &pb.ValidateParametersResponse{Parameters: configToProto(config), Changes: changesToProto(sp, changes),
		SchedulerRevision: max(1, c.Revision)}, nil
}

// valuesFromProto reads values by parameter id.
func valuesFromProto(sp *space.Space, in map[string]*structpb.Value) (map[string]space.Value, error) {
	var v violations
	out := map[string]space.Value{}
	for _, id := range slices.Sorted(maps.Keys(in)) {
		field := fmt.Sprintf("parameters[%.80q]", id)
		x, why := valueFromProto(in[id])
		switch p, ok := sp.Param(id); {
		case !ok:
			v.add(field, "there is no such parameter")
		case why != "":
			v.add(field, "%s", why)
		case !sameShape(&p, in[id]):
			v.add(field, "%s is not a value of it: want %s", x, p.Range())
		default:
			out[id] = x
		}
	}
	return out, v.err()
}

// overlaid is a configuration with other values, projected. Changes are those of the values given.
func overlaid(sp *space.Space, base space.Config, values map[string]space.Value) (space.Config, []space.Change) {
	raw := space.Values{}
	for _, p := range sp.Params() {
		if x, given := values[p.ID]; given {
			raw[p.ID] = x
		} else if base.Has(p.ID) {
			raw[p.ID] = base.Get(p.ID)
		}
	}
	config, changes := sp.Project(raw)
	return config, slices.DeleteFunc(changes, func(c space.Change) bool {
		_, given := values[c.Param]
		return !given
	})
}

// chosen is a configuration with other values, which must be valid as they are.
func chosen(sp *space.Space, base space.Config, in map[string]*structpb.Value) (space.Config, error) {
	if len(in) == 0 {
		return base, invalid("parameters", "are required: values by parameter id")
	}
	values, err := valuesFromProto(sp, in)
	if err != nil {
		return base, err
	}
	config, changes := overlaid(sp, base, values)
	var v violations
	for _, c := range changes {
		p, _ := sp.Param(c.Param)
		to := "nothing"
		if !c.To.IsZero() {
			to = p.Format(c.To)
		}
		v.add(fmt.Sprintf("parameters[%q]", c.Param), "%s is not valid (%s): %s is the nearest that is", c.From,
			c.Rule, to)
	}
	return config, v.err()
}

func configToProto(c space.Config) map[string]*structpb.Value {
	out := map[string]*structpb.Value{}
	for _, id := range c.IDs() {
		p, _ := c.Space().Param(id)
		out[id] = valueToProto(&p, c.Get(id))
	}
	return out
}

// WhatIf simulates values instead of those that run.
func (s *Server) WhatIf(ctx context.Context, req *pb.WhatIfRequest) (*pb.WhatIfResponse, error) {
	id, err := parseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	if sp, err := s.service.Space(id); err != nil {
		return nil, err
	} else if _, err := valuesFromProto(sp, req.GetParameters()); err != nil {
		return nil, err
	}
	on, err := s.jobsOf(id, req.GetWorkloads())
	if err != nil {
		return nil, err
	}
	w, err := s.service.WhatIf(ctx, id, func(sp *space.Space, incumbent space.Config) (space.Config, error) {
		return chosen(sp, incumbent, req.GetParameters())
	}, on...)
	if err != nil {
		return nil, err
	}
	out := &pb.WhatIfResponse{Incumbent: outlookToProto(&w.Incumbent), Candidate: outlookToProto(&w.Candidate),
		ControllableRatio: w.Candidate.Ratio, RatioLow: w.Candidate.Interval.Low,
		RatioHigh: w.Candidate.Interval.High, Limits: w.Candidate.Limits, Futures: int32(w.Futures),
		IncumbentRevision: w.Running, SchedulerRevision: w.SchedulerRevision,
		CausalPrediction: predictionToProto(&w.Model), Workloads: req.GetWorkloads()}
	if !w.At.IsZero() {
		out.SchedulerTime = timestamppb.New(w.At)
	}
	return out, nil
}

func outlookToProto(o *round.Outlook) *pb.Outlook {
	return &pb.Outlook{Parameters: configToProto(o.Config), Objectives: o.Objective, Objective: o.Mean(),
		Metrics: o.Metrics, Energy: energyUse(o.Energy)}
}

// SpaceOf is the space that a scheduler's specification describes, as the service answered it.
func SpaceOf(spec *pb.SchedulerSpec) (*space.Space, error) {
	var v violations
	var params []space.Param
	var rules []space.Rule
	for i, p := range spec.GetParameters() {
		params = append(params, paramFromProto(p, fmt.Sprintf("%s[%d]", parametersField, i), &v))
	}
	for i, c := range spec.GetConstraints() {
		rules = append(rules, ruleFromProto(c, fmt.Sprintf("%s[%d]", constraintsField, i), &v))
	}
	if err := v.err(); err != nil {
		return nil, err
	}
	return space.New(params, rules)
}

// ExplainConfiguration says why a configuration was adopted or not.
func (s *Server) ExplainConfiguration(ctx context.Context,
	req *pb.ExplainConfigurationRequest) (*pb.ExplainConfigurationResponse, error) {
	id, revision, err := parseConfiguration("name", req.GetName())
	sequence := int64(0)
	if err != nil {
		if id, sequence, err = parseRound("name", req.GetName()); err != nil {
			return nil, invalid("name", "%q is neither of the form schedulers/{scheduler}/configurations/{revision} "+
				"nor schedulers/{scheduler}/rounds/{round}", req.GetName())
		}
	}
	base := controller.Base{Revision: req.GetCompareToRevision()}
	switch to := req.GetCompareTo(); {
	case base.Revision < 0:
		err = invalid("compare_to_revision", "%d is negative", base.Revision)
	case base.Revision > 0 && to != pb.ExplainConfigurationRequest_COMPARE_TO_UNSPECIFIED:
		err = invalid("compare_to", "is not for compare_to_revision: set one of them")
	case to == pb.ExplainConfigurationRequest_DEFAULT:
		base.Default = true
	case to == pb.ExplainConfigurationRequest_CURRENT:
		base.Current = true
	case to != pb.ExplainConfigurationRequest_COMPARE_TO_UNSPECIFIED:
		err = invalid("compare_to", "%d is not known: want DEFAULT or CURRENT", to)
	}
	if err != nil {
		return nil, err
	}
	e, err := s.service.Explain(ctx, id, revision, sequence, base)
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
	r, err := roundToProto(id, e.Round, true)
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
				one.From = valueToProto(&p, x)
			}
			if x := step.Config.Get(step.Param); !x.IsZero() {
				one.To = valueToProto(&p, x)
			}
			for name, x := range step.Metrics {
				one.DeltaMetrics[name] = x - before.Metrics[name]
			}
			one.Adapted = changesToProto(step.Config.Space(), step.Adapted)
			if effect := e.Model.Effect(step.Param); effect != nil {
				one.CausalPaths = pathsToProto(effect.Paths)
			}
			out.ParameterContributions = append(out.ParameterContributions, one)
		}
		out.ControllableRatio, out.Limits = step.Ratio, step.Limits
		out.RatioLow, out.RatioHigh = step.Interval.Low, step.Interval.High
	}
	return out, nil
}

func changesToProto(sp *space.Space, changes []space.Change) (out []*pb.ParameterChange) {
	for _, change := range changes {
		p, _ := sp.Param(change.Param)
		one := &pb.ParameterChange{ParameterId: change.Param, ConstraintId: change.Rule}
		if !change.From.IsZero() {
			one.From = valueToProto(&p, change.From)
		}
		if !change.To.IsZero() {
			one.To = valueToProto(&p, change.To)
		}
		out = append(out, one)
	}
	return out
}
