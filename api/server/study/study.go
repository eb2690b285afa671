// Package study serves studies: their trials, and the evaluators that measure them.
package study

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/study"
)

const (
	longestText = 1024 // of a reason
	// pollStudy is when a client without a trial asks again: trials end all the time.
	pollStudy = 2 * time.Second
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
}

// Config configures the service of studies.
type Config struct {
	Controller Controller
	Studies    *studies.Service
	Workloads  *workloads.Keeper    // nil if no workloads are kept
	Evaluators map[string]Evaluator // of Studies, by id
	Stamp      render.Stamp
	Pages      rpc.Pager
}

// Service serves studies and their trials.
type Service struct {
	pb.UnimplementedStudyServiceServer
	o Config
}

// New returns the service of studies.
func New(o Config) *Service { return &Service{o: o} }

// Register adds the service to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) { pb.RegisterStudyServiceServer(g, s) }

// CreateStudy begins a study.
func (s *Service) CreateStudy(ctx context.Context, req *pb.CreateStudyRequest) (*pb.Study, error) {
	scheduler, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(scheduler)
	if err != nil {
		return nil, err
	}
	var v convert.Violations
	r := study.Record{ID: req.GetStudyId(), Display: req.GetStudy().GetDisplayName()}
	if err := convert.CheckID(r.ID); err != nil {
		v.Add("study_id", "%v", err)
	}
	convert.CheckDisplayName("study.display_name", r.Display, &v)
	r.Spec = studySpec(req.GetStudy().GetSpec(), &c, &v)
	if err := v.Err(); err != nil {
		return nil, err
	}
	state, err := s.o.Studies.Create(ctx, rpc.CallOf(ctx, req), scheduler, r)
	if err != nil {
		return nil, err
	}
	return s.study(scheduler, &state), nil
}

// studySpec reads the specification of a new study.
func studySpec(p *pb.StudySpec, c *controller.Scheduler, v *convert.Violations) study.Spec {
	const at = "study.spec."
	out := study.Spec{Algorithm: p.GetAlgorithm(), Budget: int(p.GetTrialBudget()), Seed: p.GetSeed(),
		Metric: p.GetMetricId(), Maximize: p.GetGoal() == pb.StudySpec_MAXIMIZE, Lease: study.DefaultLease,
		AllowRepeats: p.GetAllowRepeats()}
	if out.Algorithm == "" {
		out.Algorithm = search.DefaultSampler
	}
	var names []string
	for _, e := range search.Samplers {
		names = append(names, e.Name)
	}
	if !slices.Contains(names, out.Algorithm) {
		v.Add(at+"algorithm", "%q is not known: want one of %s", out.Algorithm, strings.Join(names, ", "))
	}
	if out.Budget == 0 {
		out.Budget = study.DefaultBudget
	}
	if out.Budget < 0 || out.Budget > study.MaxBudget {
		v.Add(at+"trial_budget", "%d is not from 1 to %d", out.Budget, study.MaxBudget)
	}
	if out.Metric == "" && c.Type == controller.External {
		out.Metric = c.Objective
	}
	convert.CheckMetric(at+"metric_id", out.Metric, v)
	if _, ok := pb.StudySpec_Goal_name[int32(p.GetGoal())]; !ok {
		v.Add(at+"goal", "%d is not known", p.GetGoal())
	}
	if d := p.GetLeaseDuration(); d != nil {
		out.Lease = d.AsDuration()
		if d.CheckValid() != nil || out.Lease < study.MinLease || out.Lease > study.MaxLease {
			v.Add(at+"lease_duration", "%v is not from %v to %v", out.Lease, study.MinLease, study.MaxLease)
		}
	}
	switch p.GetCausalModel() {
	case pb.StudySpec_CAUSAL_MODEL_UNSPECIFIED, pb.StudySpec_AUTO:
	case pb.StudySpec_ON:
		out.Causal = study.CausalOn
	case pb.StudySpec_OFF:
		out.Causal = study.CausalOff
	default:
		v.Add(at+"causal_model", "%d is not known", p.GetCausalModel())
	}
	return out
}

// GetStudy returns a study with its best trial.
func (s *Service) GetStudy(_ context.Context, req *pb.GetStudyRequest) (*pb.Study, error) {
	scheduler, state, err := s.find("name", req.GetName())
	if err != nil {
		return nil, err
	}
	best, err := s.o.Studies.Best(scheduler, state.ID)
	if err != nil {
		return nil, err
	}
	out := s.study(scheduler, &state)
	if best != nil {
		out.BestTrial = render.TrialToProto(scheduler, &state, best)
	}
	return out, nil
}

// ListStudies lists the studies of a scheduler.
func (s *Service) ListStudies(_ context.Context, req *pb.ListStudiesRequest) (*pb.ListStudiesResponse, error) {
	scheduler, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) ([]*pb.Study, error) {
		all, err := s.o.Studies.Studies(scheduler, after.After, n)
		return rpc.Map(all, func(x *study.State) *pb.Study {
			one := s.study(scheduler, x)
			one.Spec.Parameters, one.Spec.Constraints = nil, nil
			return one
		}), err
	}
	of := convert.SchedulerName(scheduler) + "/studies"
	place := func(x *pb.Study) rpc.Token { return rpc.Token{After: strings.TrimPrefix(x.GetName(), of+"/")} }
	page, next, err := rpc.List[*pb.Study]{Some: some, Place: place, Lacks: []string{"best_trial"}}.Page(s.o.Pages, req)
	return &pb.ListStudiesResponse{Studies: page, NextPageToken: next}, err
}

// DeleteStudy removes a study.
func (s *Service) DeleteStudy(ctx context.Context, req *pb.DeleteStudyRequest) (*emptypb.Empty, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err == nil {
		err = s.o.Studies.Delete(ctx, rpc.CallOf(ctx, req), scheduler, id, s.o.Stamp.SameStudy(req.GetEtag()))
	}
	return &emptypb.Empty{}, err
}

// PauseStudy suggests nothing new.
func (s *Service) PauseStudy(ctx context.Context, req *pb.PauseStudyRequest) (*pb.Study, error) {
	return s.operateStudy(ctx, req, study.Pause{})
}

// ResumeStudy ends a pause.
func (s *Service) ResumeStudy(ctx context.Context, req *pb.ResumeStudyRequest) (*pb.Study, error) {
	return s.operateStudy(ctx, req, study.Resume{})
}

// CancelStudy ends a study.
func (s *Service) CancelStudy(ctx context.Context, req *pb.CancelStudyRequest) (*pb.Study, error) {
	return s.operateStudy(ctx, req, study.Cancel{})
}

func (s *Service) operateStudy(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, e study.Event) (*pb.Study, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err != nil {
		return nil, err
	}
	state, err := s.o.Studies.Operate(ctx, rpc.CallOf(ctx, req), scheduler, id, e,
		s.o.Stamp.SameStudy(req.GetEtag()))
	if err != nil {
		return nil, err
	}
	return s.study(scheduler, &state), nil
}

func (s *Service) study(scheduler string, st *study.State) *pb.Study {
	return s.o.Stamp.Study(scheduler, st, s.o.Studies)
}

// find finds the study that a field names.
func (s *Service) find(field, name string) (scheduler string, state study.State, err error) {
	scheduler, id, err := convert.ParseStudy(field, name)
	if err == nil {
		state, err = s.o.Studies.Study(scheduler, id)
	}
	return scheduler, state, err
}

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
