package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

const (
	longestText = 1024 // of a reason
	// pollStudy is when a client without a trial asks again: trials end all the time.
	pollStudy = 2 * time.Second
)

// studyController is the part of controller.Service that the service calls.
type studyController interface {
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
}

// studyConfig configures the service of studies.
type studyConfig struct {
	Controller studyController
	Studies    *studies.Service
	Workloads  *workloads.Keeper    // nil if no workloads are kept
	Evaluators map[string]Evaluator // of Studies, by id
	Stamp      stamp
	Pages      pager
}

// studyService serves studies and their trials.
type studyService struct {
	pb.UnimplementedStudyServiceServer
	o studyConfig
}

func newStudy(o studyConfig) *studyService { return &studyService{o: o} }

// register adds the service to a server.
func (s *studyService) register(g grpc.ServiceRegistrar) { pb.RegisterStudyServiceServer(g, s) }

// CreateStudy begins a study.
func (s *studyService) CreateStudy(ctx context.Context, req *pb.CreateStudyRequest) (*pb.Study, error) {
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
	state, err := s.o.Studies.Create(ctx, callOf(ctx, req), scheduler, r)
	if err != nil {
		return nil, err
	}
	return s.study(scheduler, &state), nil
}

// studySpec reads what a study is created with.
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
func (s *studyService) GetStudy(_ context.Context, req *pb.GetStudyRequest) (*pb.Study, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err != nil {
		return nil, err
	}
	state, err := s.o.Studies.Study(scheduler, id)
	if err != nil {
		return nil, err
	}
	best, err := s.o.Studies.Best(scheduler, id)
	if err != nil {
		return nil, err
	}
	out := s.study(scheduler, &state)
	if best != nil {
		out.BestTrial = trialToProto(scheduler, &state, best)
	}
	return out, nil
}

// ListStudies lists the studies of a scheduler.
func (s *studyService) ListStudies(_ context.Context, req *pb.ListStudiesRequest) (*pb.ListStudiesResponse, error) {
	scheduler, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after token, n int) ([]*pb.Study, error) {
		all, err := s.o.Studies.Studies(scheduler, after.After, n)
		return mapped(all, func(x *study.State) *pb.Study {
			one := s.study(scheduler, x)
			one.Spec.Parameters, one.Spec.Constraints = nil, nil
			return one
		}), err
	}
	of := convert.SchedulerName(scheduler) + "/studies"
	place := func(x *pb.Study) token { return token{After: strings.TrimPrefix(x.GetName(), of+"/")} }
	page, next, err := list[*pb.Study]{some: some, place: place, lacks: []string{"best_trial"}}.page(s.o.Pages, req)
	return &pb.ListStudiesResponse{Studies: page, NextPageToken: next}, err
}

// DeleteStudy removes a study.
func (s *studyService) DeleteStudy(ctx context.Context, req *pb.DeleteStudyRequest) (*emptypb.Empty, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err == nil {
		err = s.o.Studies.Delete(ctx, callOf(ctx, req), scheduler, id, s.o.Stamp.sameStudy(req.GetEtag()))
	}
	return &emptypb.Empty{}, err
}

// PauseStudy suggests nothing new.
func (s *studyService) PauseStudy(ctx context.Context, req *pb.PauseStudyRequest) (*pb.Study, error) {
	return s.operateStudy(ctx, req, study.Pause{})
}

// ResumeStudy ends a pause.
func (s *studyService) ResumeStudy(ctx context.Context, req *pb.ResumeStudyRequest) (*pb.Study, error) {
	return s.operateStudy(ctx, req, study.Resume{})
}

// CancelStudy ends a study.
func (s *studyService) CancelStudy(ctx context.Context, req *pb.CancelStudyRequest) (*pb.Study, error) {
	return s.operateStudy(ctx, req, study.Cancel{})
}

func (s *studyService) operateStudy(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, e study.Event) (*pb.Study, error) {
	scheduler, id, err := convert.ParseStudy("name", req.GetName())
	if err != nil {
		return nil, err
	}
	state, err := s.o.Studies.Operate(ctx, callOf(ctx, req), scheduler, id, e,
		s.o.Stamp.sameStudy(req.GetEtag()))
	if err != nil {
		return nil, err
	}
	return s.study(scheduler, &state), nil
}

var studyStates = map[study.Phase]pb.Study_State{
	study.Active: pb.Study_ACTIVE, study.Paused: pb.Study_PAUSED, study.Completed: pb.Study_COMPLETED,
	study.Cancelled: pb.Study_CANCELLED,
}

var causalModels = map[study.Causal]pb.StudySpec_CausalModel{
	study.CausalAuto: pb.StudySpec_AUTO, study.CausalOn: pb.StudySpec_ON, study.CausalOff: pb.StudySpec_OFF,
}

func (s *studyService) study(scheduler string, st *study.State) *pb.Study {
	return s.o.Stamp.study(scheduler, st, s.o.Studies)
}

// problems finds why evaluators do not measure a study.
type problems interface {
	// Problem returns why nothing is measured of a study that is run, "" if something is.
	Problem(scheduler string, st *study.State) string
}

func (e stamp) study(scheduler string, st *study.State, p problems) *pb.Study {
	goal := pb.StudySpec_MINIMIZE
	if st.Spec.Maximize {
		goal = pb.StudySpec_MAXIMIZE
	}
	out := &pb.Study{Name: convert.StudyName(scheduler, st.ID), Uid: st.UID, Etag: e.studyEtag(&st.Record),
		DisplayName: st.Display,
		State:       studyStates[st.Phase],
		CreateTime:  timestamppb.New(st.Created), UpdateTime: timestamppb.New(st.Updated), UsedBudget: int32(st.Used()),
		TrialCounts: map[string]int32{}, SamplerChoice: st.Choice, Run: runToProto(scheduler, st, p),
		Spec: &pb.StudySpec{Algorithm: st.Spec.Algorithm, TrialBudget: int32(st.Spec.Budget), Seed: st.Spec.Seed,
			MetricId: st.Spec.Metric, Goal: goal, LeaseDuration: durationpb.New(st.Spec.Lease),
			AllowRepeats: st.Spec.AllowRepeats, CausalModel: causalModels[st.Spec.Causal],
			SchedulerRevision: st.Spec.Revision,
			Parameters:        convert.Parameters(st.Space.Default()), Constraints: convert.Constraints(st.Space)}}
	for state, n := range st.Count() {
		out.TrialCounts[trialStates[state].String()] = int32(n)
	}
	return out
}

var trialStates = map[study.TrialState]pb.Trial_State{
	study.Requested: pb.Trial_REQUESTED, study.Running: pb.Trial_ACTIVE, study.Stopping: pb.Trial_STOPPING,
	study.Succeeded: pb.Trial_SUCCEEDED, study.Failed: pb.Trial_FAILED, study.Infeasible: pb.Trial_INFEASIBLE,
	study.Stale: pb.Trial_STALE, study.Skipped: pb.Trial_SKIPPED,
}

func trialToProto(scheduler string, s *study.State, t *study.Trial) *pb.Trial {
	name := func(id int64) string {
		if id == 0 {
			return ""
		}
		return convert.TrialName(scheduler, s.ID, id)
	}
	stamp := func(at time.Time) *timestamppb.Timestamp {
		if at.IsZero() {
			return nil
		}
		return timestamppb.New(at)
	}
	out := &pb.Trial{Name: name(t.ID), State: trialStates[t.State], Parameters: convert.ConfigToProto(t.Config),
		Origin: t.Origin, ClientId: t.Client, CreateTime: stamp(t.Created), StartTime: stamp(t.Started),
		EndTime: stamp(t.Ended), LeaseExpireTime: stamp(t.Expires), Reason: t.Reason, WasStale: t.WasStale,
		Deduplicated: t.SameAs != 0, SameAs: name(t.SameAs), RetriedBy: name(t.Retry), RetryOf: name(t.RetryOf),
		SuggestedParameters: convert.ValuesToProto(s.Space, t.Suggested), Narrowed: t.Narrowed}
	for i := range t.Measurements {
		out.Measurements = append(out.Measurements, measurementToProto(&t.Measurements[i]))
	}
	if t.Final != nil {
		out.FinalMeasurement = measurementToProto(t.Final)
	}
	if t.Prediction != nil {
		mean, sd := s.Spec.Predicted(t.Prediction)
		out.Prediction = &pb.Prediction{Mean: mean, StandardDeviation: sd}
	}
	return out
}

func measurementToProto(m *study.Measurement) *pb.Measurement {
	out := &pb.Measurement{StepCount: m.Step, Metrics: m.Metrics}
	if m.Elapsed > 0 {
		out.ElapsedDuration = durationpb.New(m.Elapsed)
	}
	return out
}

// measurement reads what a client measured; the last one has the metric of the study.
func measurement(field string, p *pb.Measurement, spec *study.Spec, last bool) (*study.Measurement, error) {
	m := &study.Measurement{Step: p.GetStepCount(), Metrics: p.GetMetrics()}
	if d := p.GetElapsedDuration(); d != nil {
		if err := d.CheckValid(); err != nil {
			return nil, convert.Invalid(field+".elapsed_duration", "%v", err)
		}
		m.Elapsed = d.AsDuration()
	}
	for name := range m.Metrics {
		var v convert.Violations
		if convert.CheckMetric(field+".metrics", name, &v); v != nil {
			return nil, v
		}
	}
	if why := spec.Check(m, last); why != "" {
		return nil, convert.Invalid(field+".metrics", "%s", why)
	}
	return m, nil
}

// userConfig reads the parameters of a trial that a user wants, those left out at their defaults.
func userConfig(field string, p *pb.Trial, sp *space.Space) (space.Config, error) {
	text, err := protojson.Marshal(&structpb.Struct{Fields: p.GetParameters()})
	if err != nil {
		return space.Config{}, convert.Invalid(field+".parameters", "%v", err)
	}
	c, changes, err := sp.LoadConfig(text)
	if err != nil {
		return c, convert.Invalid(field+".parameters", "%v", err)
	}
	for _, ch := range changes {
		if !ch.From.IsZero() && !ch.To.IsZero() {
			return c, convert.Invalid(field+".parameters."+ch.Param, "%s breaks %s, which would make it %s",
				ch.From, ch.Rule,
				ch.To)
		}
	}
	return c, nil
}
