// Package job serves the jobs of schedulers.
package job

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	Energy(ctx context.Context, id string, q controller.EnergyQuery) (controller.Energy, error)
	ForecastQuality(ctx context.Context, id string, from, to time.Time) (controller.ForecastQuality, error)
	Gain(ctx context.Context, id string) (controller.Gain, error)
	Job(ctx context.Context, id, job string) (h workload.JobHistory, zero time.Time, err error)
	Jobs(ctx context.Context, id string, q controller.JobQuery, before workload.Place, n int) (
		out []workload.JobHistory, zero time.Time, err error)
	Load(ctx context.Context, id string) (controller.Load, error)
	LookAhead(ctx context.Context, id string) (controller.Ahead, error)
	Prediction(ctx context.Context, id string) (*controller.Prediction, error)
	Tenants(ctx context.Context, id string, from, to time.Time, further bool) ([]*controller.Tenant, error)
	Timeline(ctx context.Context, id string, q controller.TimelineQuery) (controller.Timeline, error)
	Waits(ctx context.Context, id, job string) (controller.Waits, error)
}

// Samples keeps the telemetry of schedulers.
type Samples interface {
	Latest(scheduler string) (time.Duration, error)
	Read(ctx context.Context, scheduler string, q samples.Query, f func(*telemetry.GPUSample) error) error
}

// Findings keeps findings.
type Findings interface {
	List(id string, q findings.Query) (out []*findings.Finding, rules []findings.Rule, more bool)
}

// Config configures the service of jobs.
type Config struct {
	Controller Controller
	Samples    Samples  // nil if none are kept
	Findings   Findings // likewise
	Pages      rpc.Pager
}

// Service serves the jobs of schedulers.
type Service struct {
	pb.UnimplementedJobServiceServer
	o Config
}

// New returns the service of jobs.
func New(o Config) *Service { return &Service{o: o} }

// Register adds the service to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) { pb.RegisterJobServiceServer(g, s) }

// placed is a job with its place in the list.
type placed struct {
	*pb.Job
	at rpc.Token
	h  *workload.JobHistory
}

// maxOrdered bounds the jobs that are put into another order.
const maxOrdered = 100_000

// ListJobs lists jobs. Its tokens are the place of the last one.
func (s *Service) ListJobs(ctx context.Context, req *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	from, to, err := window(req.GetStartTime(), req.GetEndTime())
	if err != nil {
		return nil, err
	}
	q := controller.JobQuery{From: from, To: to, Tenant: req.GetTenant(), User: req.GetUser(), Node: req.GetNodeId()}
	read := 0
	list := rpc.List[placed]{
		Some: func(after rpc.Token, n int) (out []placed, err error) {
			place := workload.Place{Submit: time.Duration(after.Revision), Event: after.Event, ID: after.After}
			some, zero, err := s.o.Controller.Jobs(ctx, id, q, place, n)
			if read += len(some); err == nil && req.GetOrderBy() != "" && read > maxOrdered {
				err = convert.Invalid("order_by", "is of more than %d jobs: bound them by start_time and end_time, "+
					"tenant, user or node_id", maxOrdered)
			}
			for i := range some {
				p := some[i].Place()
				out = append(out, placed{jobToProto(id, &some[i], zero),
					rpc.Token{After: p.ID, Event: p.Event, Revision: int64(p.Submit)}, &some[i]})
			}
			return out, err
		},
		Place: func(j placed) rpc.Token { return j.at },
		Lacks: []string{"spells", "predicted_run"}}
	page, next, err := list.Page(s.o.Pages, req)
	if err != nil {
		return nil, err
	}
	predicted, err := s.o.Controller.Prediction(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range page {
		addPrediction(page[i].Job, page[i].h, predicted)
	}
	return &pb.ListJobsResponse{Jobs: rpc.Map(page, func(j *placed) *pb.Job { return j.Job }), NextPageToken: next}, nil
}

// window reads the bounds of a time; the zero time is none.
func window(start, end *timestamppb.Timestamp) (from, to time.Time, err error) {
	var c convert.Checker
	if start != nil {
		from = time.Unix(0, int64(c.Time("start_time", start))).UTC()
	}
	if end != nil {
		to = time.Unix(0, int64(c.Time("end_time", end))).UTC()
	}
	if start != nil && end != nil && to.Before(from) {
		c.Add("end_time", "is before start_time")
	}
	return from, to, c.Err()
}

// GetJob returns a job with its spells.
func (s *Service) GetJob(ctx context.Context, req *pb.GetJobRequest) (*pb.Job, error) {
	id, job, err := convert.ParseJob("name", req.GetName())
	if err != nil {
		return nil, err
	}
	h, zero, err := s.o.Controller.Job(ctx, id, job)
	if err != nil {
		return nil, err
	}
	predicted, err := s.o.Controller.Prediction(ctx, id)
	if err != nil {
		return nil, err
	}
	out := jobToProto(id, &h, zero)
	addPrediction(out, &h, predicted)
	for i := range h.Spells {
		one := &h.Spells[i]
		p := &pb.Job_Spell{StartTime: timestamppb.New(zero.Add(one.From)), Gpus: int32(one.Held),
			Placement: convert.PlacementToProto(one.Placement()), LostDuration: unlessZero(one.Lost)}
		if i < len(h.Spells)-1 || !h.Running {
			p.EndTime = timestamppb.New(zero.Add(one.To))
		}
		out.Spells = append(out.Spells, p)
	}
	return out, nil
}

// addPrediction adds how long a job that waits or runs will have run, where that is predicted.
func addPrediction(out *pb.Job, h *workload.JobHistory, predicted *controller.Prediction) {
	if predicted == nil || h.Ended || h.Missing {
		return
	}
	r := predicted.RunTime(h)
	out.PredictedRun = &pb.Job_Prediction{LowDuration: durationpb.New(r.Low), MiddleDuration: durationpb.New(r.Middle),
		HighDuration: durationpb.New(r.High), Source: pb.Job_Prediction_HISTORY,
		SchedulerTime: timestamppb.New(predicted.At)}
	if r.Modelled {
		out.PredictedRun.Source = pb.Job_Prediction_MODEL
	}
}

func unlessZero(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func jobToProto(scheduler string, h *workload.JobHistory, zero time.Time) *pb.Job {
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(zero.Add(d)) }
	out := &pb.Job{Name: convert.JobName(scheduler, h.ID), Details: convert.JobToProto(&h.Job, zero),
		State: pb.Job_WAITING, SubmitTime: at(h.Submit), WaitDuration: durationpb.New(h.WaitTime),
		RunDuration: durationpb.New(h.RunTime), LostDuration: unlessZero(h.Lost),
		AttainedService: durationpb.New(h.Attained), StartCount: int32(h.Starts),
		PreemptionCount: int32(h.Preemptions), ResizeCount: int32(h.Resizes),
		Placement: convert.PlacementToProto(h.On), Pool: int32(h.Pool), SharesGpusWith: h.SharesWith}
	if h.Starts > 0 {
		out.StartTime = at(h.FirstStart)
	}
	switch {
	case h.Running:
		out.State, out.HeldGpus = pb.Job_RUNNING, int32(h.Held)
	case h.Ended:
		out.State, out.EndTime = pb.Job_ENDED, at(h.End)
	case h.Missing:
		out.State, out.EndTime = pb.Job_MISSING, at(h.End)
	case h.HoldUntil != 0:
		out.HoldUntilTime = at(h.HoldUntil)
	}
	return out
}
