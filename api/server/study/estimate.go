// Package study serves studies: their trials, and the evaluators that measure them.
package study

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/study"
)

// ListOptimalTrials returns the trials that no other beats.
func (s *Service) ListOptimalTrials(_ context.Context,
	req *pb.ListOptimalTrialsRequest) (*pb.ListOptimalTrialsResponse,
	error) {
	scheduler, state, err := s.find("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	var v convert.Violations
	if n := len(req.GetObjectives()); n > study.MaxMetrics {
		v.Add("objectives", "has %d, more than %d", n, study.MaxMetrics)
		return nil, v.Err()
	}
	var objectives []study.Objective
	for i, o := range req.GetObjectives() {
		at := fmt.Sprintf("objectives[%d].", i)
		convert.CheckMetric(at+"metric_id", o.GetMetricId(), &v)
		if _, ok := pb.StudySpec_Goal_name[int32(o.GetGoal())]; !ok {
			v.Add(at+"goal", "%d is not known", o.GetGoal())
		}
		objectives = append(objectives, study.Objective{Metric: o.GetMetricId(),
			Maximize: o.GetGoal() == pb.StudySpec_MAXIMIZE})
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	if objectives == nil {
		objectives = []study.Objective{{Metric: state.Spec.Metric, Maximize: state.Spec.Maximize}}
	}
	out := &pb.ListOptimalTrialsResponse{}
	for _, t := range state.Optimal(objectives) {
		out.OptimalTrials = append(out.OptimalTrials, render.TrialToProto(scheduler, &state, t))
	}
	return out, nil
}

// EstimateStudy estimates the rest of a study.
func (s *Service) EstimateStudy(_ context.Context, req *pb.EstimateStudyRequest) (*pb.StudyEstimate, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err != nil {
		return nil, err
	}
	var v convert.Violations
	each, parallel := time.Duration(0), int(req.GetParallelTrials())
	if d := req.GetTrialDuration(); d != nil {
		if each = d.AsDuration(); d.CheckValid() != nil || each <= 0 {
			v.Add("trial_duration", "%v is not above 0", each)
		}
	}
	if parallel == 0 {
		parallel = 1
	}
	if parallel < 0 || parallel > study.MaxActive {
		v.Add("parallel_trials", "%d is not from 1 to %d", parallel, study.MaxActive)
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	state, err := s.o.Studies.Study(scheduler, id)
	if err != nil {
		return nil, err
	}
	e := state.Estimate(each, parallel)
	out := &pb.StudyEstimate{RemainingTrials: int32(e.Trials), MeasuredTrials: int32(e.Measured)}
	if e.Each > 0 {
		out.TrialDuration, out.TotalTrialDuration = durationpb.New(e.Each), durationpb.New(e.Total)
		out.RemainingDuration = durationpb.New(e.Wall)
	}
	return out, nil
}
