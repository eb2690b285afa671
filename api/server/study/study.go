package study

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
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
