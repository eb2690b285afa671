package study

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/study"
)

// Evaluator measures configurations for studies that the service runs.
type Evaluator interface {
	// Serves and Parallel are as of studies.Evaluator.
	Serves(scheduler string) bool
	Parallel() int
	// Describe returns its kind and the deadline of a trial.
	Describe() (kind string, deadline time.Duration)
	// Evaluate measures a configuration. Each step goes to step, the last one is the result.
	Evaluate(ctx context.Context, req *pb.EvaluateRequest, step func(*pb.EvaluateResponse) error) error
}

// measurer is an Evaluator in the words of package studies.
type measurer struct {
	Evaluator
	kept *workloads.Keeper
}

// Measurers are evaluators as studies.Options has them, for studies that are measured on kept workloads, too.
func Measurers(all map[string]Evaluator, kept *workloads.Keeper) map[string]studies.Evaluator {
	out := map[string]studies.Evaluator{}
	for id, e := range all {
		out[id] = measurer{e, kept}
	}
	return out
}

// jobs adds the jobs of a kept workload to a request.
func (m measurer) jobs(scheduler string, run *study.Run, req *pb.EvaluateRequest) error {
	_, id, err := convert.ParseWorkload("workload", run.Workload)
	if err != nil {
		return err
	}
	r, text, err := m.kept.Text(scheduler, id)
	if err == nil && r.SHA256 != run.SHA256 {
		err = fmt.Errorf("workload %q has other jobs than when the study was run: run it again, or on another one", id)
	}
	if err != nil {
		return err
	}
	req.WorkloadJobs, req.WorkloadSha256 = text, r.SHA256
	return nil
}

// Evaluate implements studies.Evaluator.
func (m measurer) Evaluate(ctx context.Context, scheduler string, s *study.State, t *study.Trial,
	report func(study.Measurement) error) (study.Complete, error) {
	req := &pb.EvaluateRequest{Trial: convert.TrialName(scheduler, s.ID, t.ID), MetricId: s.Spec.Metric,
		Seed: s.Spec.Seed, Parameters: convert.ConfigToProto(t.Config)}
	if s.Run != nil {
		req.Workload = s.Run.Workload
		if s.Run.SHA256 != "" {
			if err := m.jobs(scheduler, s.Run, req); err != nil {
				return study.Complete{}, err
			}
		}
	}
	var out study.Complete
	reason := func(field, text string) string {
		if text == "" {
			text = "the evaluator gives no reason in " + field
		}
		for utf8.RuneCountInString(text) > longestText {
			text = string([]rune(text)[:longestText])
		}
		return text
	}
	err := m.Evaluator.Evaluate(ctx, req, func(r *pb.EvaluateResponse) error {
		switch x := r.GetStep().(type) {
		case *pb.EvaluateResponse_Measurement:
			one, err := measurement("measurement", x.Measurement, &s.Spec, false)
			if err != nil {
				return err
			}
			return report(*one)
		case *pb.EvaluateResponse_FinalMeasurement:
			var err error
			if out.Final, err = measurement("final_measurement", x.FinalMeasurement, &s.Spec, true); err != nil {
				out.Failure = reason("failure", err.Error())
			}
		case *pb.EvaluateResponse_InfeasibleReason:
			out.Infeasible = reason("infeasible_reason", x.InfeasibleReason)
		case *pb.EvaluateResponse_Failure:
			out.Failure = reason("failure", x.Failure)
		}
		return nil
	})
	if bad := (convert.Violations)(nil); errors.As(err, &bad) || errors.Is(err, study.ErrState) ||
		errors.Is(err, study.ErrLimit) {
		return study.Complete{Failure: reason("failure", err.Error())}, nil
	}
	return out, err
}

var workloadID = regexp.MustCompile(`^[a-z0-9._-]{0,63}$`)

// RunStudy lets an evaluator measure the trials of a study.
func (s *Service) RunStudy(ctx context.Context, req *pb.RunStudyRequest) (*pb.Study, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err != nil {
		return nil, err
	}
	var v convert.Violations
	if err := convert.CheckID(req.GetEvaluator()); err != nil {
		v.Add("evaluator", "%v; ListEvaluators has the ids", err)
	}
	r := study.Run{Evaluator: req.GetEvaluator(), Workload: req.GetWorkload(), Parallel: int(req.GetParallelTrials())}
	if strings.Contains(r.Workload, "/") {
		of, workload, err := convert.ParseWorkload("workload", r.Workload)
		switch {
		case err != nil:
			return nil, err
		case of != scheduler:
			v.Add("workload", "%q is of another scheduler", r.Workload)
		case s.o.Workloads == nil:
			v.Add("workload", "the service keeps no workloads")
		default:
			kept, err := s.o.Workloads.Get(scheduler, workload)
			if err != nil {
				return nil, err
			}
			r.SHA256 = kept.SHA256
		}
	} else if !workloadID.MatchString(r.Workload) {
		v.Add("workload", "%.80q is neither %s nor at most 63 of a-z, 0-9, '-', '_' and '.'", r.Workload,
			convert.WorkloadForm)
	}
	if r.Parallel == 0 {
		r.Parallel = 1
	}
	if r.Parallel < 0 || r.Parallel > study.MaxCount {
		v.Add("parallel_trials", "%d is not from 1 to %d", r.Parallel, study.MaxCount)
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	state, err := s.o.Studies.RunStudy(ctx, rpc.CallOf(ctx, req), scheduler, id, r,
		s.o.Stamp.SameStudy(req.GetEtag()))
	if err != nil {
		return nil, err
	}
	return s.study(scheduler, &state), nil
}

// ListEvaluators lists the evaluators of the service.
func (s *Service) ListEvaluators(_ context.Context, req *pb.ListEvaluatorsRequest) (*pb.ListEvaluatorsResponse,
	error) {
	scheduler := ""
	if req.GetParent() != "" {
		var err error
		if scheduler, err = convert.ParseScheduler("parent", req.GetParent()); err != nil {
			return nil, err
		}
		if _, _, err := s.o.Controller.Scheduler(scheduler); err != nil {
			return nil, err
		}
	}
	out := &pb.ListEvaluatorsResponse{}
	for _, id := range s.o.Studies.Evaluators(scheduler) {
		e := s.o.Evaluators[id]
		kind, deadline := e.Describe()
		out.Evaluators = append(out.Evaluators, &pb.Evaluator{EvaluatorId: id, Kind: kind,
			Deadline: durationpb.New(deadline), ParallelTrials: int32(e.Parallel())})
	}
	return out, nil
}
