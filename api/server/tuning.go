package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// tuningController is the part of controller.Service that the service calls.
type tuningController interface {
	Delete(ctx context.Context, call controller.Call, id string,
		check func(*controller.Scheduler) error) (controller.Scheduler, error)
	Ingest(ctx context.Context, call controller.Call, id string,
		events []workload.Event) (controller.IngestResult, error)
	Modify(ctx context.Context, call controller.Call, id string,
		f func(*controller.Scheduler) error) (controller.Scheduler, error)
	Register(ctx context.Context, call controller.Call, reg controller.Registration) (controller.Scheduler, error)
	Registered(creator, id string) (all, own int, exists bool)
	Revisions(id string, below int64, limit int) ([]controller.SchedulerRevision, error)
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
	Schedulers(after string, limit int) []string
	Space(id string) (*space.Space, error)
	Undelete(ctx context.Context, call controller.Call, id string,
		check func(*controller.Scheduler) error) (controller.Scheduler, error)
}

// tuningConfig configures the service of schedulers.
type tuningConfig struct {
	Controller    tuningController
	Registrations *registration.Reader
	Reports       changes // nil if metrics are not reported
	Stamp         stamp
	Pages         pager
	Quota         *quota
	Streams       *streams
}

// tuningService serves schedulers and their events.
type tuningService struct {
	pb.UnimplementedTuningServiceServer

	o       tuningConfig
	latency prometheus.Histogram
	events  *prometheus.CounterVec // by scheduler and result
}

func newTuning(o tuningConfig) *tuningService {
	return &tuningService{o: o,
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "autosched_ingest_duration_seconds",
			Help:    "Latency of event batches, from receipt until they are durable.",
			Buckets: buckets,
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_events_total", Help: "Events received, by result: accepted, duplicate, late or rejected.",
		}, []string{"scheduler", "result"})}
}

// register adds the service to a server, and its metrics to a registry.
func (s *tuningService) register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	pb.RegisterTuningServiceServer(g, s)
	r.MustRegister(s.latency, s.events)
}

// forget drops the metrics of a purged scheduler.
func (s *tuningService) forget(id string) {
	s.events.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// CreateScheduler registers a scheduler.
func (s *tuningService) CreateScheduler(ctx context.Context, req *pb.CreateSchedulerRequest) (*pb.Scheduler, error) {
	reg, err := s.o.Registrations.Read(req)
	if err != nil {
		return nil, err
	}
	if err := checkWeight(access.FromContext(ctx), &reg); err != nil {
		return nil, err
	}
	reg.Creator = access.FromContext(ctx).Name
	var c controller.Scheduler
	err = s.o.Quota.register(s.o.Controller, &reg, func() (err error) {
		c, err = s.o.Controller.Register(ctx, callOf(ctx, req), reg)
		return err
	})
	if err != nil {
		return nil, err
	}
	if req.GetValidateOnly() {
		sp, err := space.New(c.Params, c.Rules)
		if err != nil {
			return nil, err
		}
		return s.stamped(c, schedulerToProto(c, controller.Status{}, sp)), nil
	}
	return s.scheduler(c.ID)
}

// GetScheduler returns one scheduler.
func (s *tuningService) GetScheduler(_ context.Context, req *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	out, err := s.scheduler(id)
	if err != nil {
		return nil, err
	}
	if c, _, err := s.o.Controller.Scheduler(id); err == nil {
		out.Status.ReportedMetrics, err = reported(s.o.Reports, id, c.OfferedRevision)
		return out, err
	}
	return out, nil
}

func (s *tuningService) scheduler(id string) (*pb.Scheduler, error) {
	c, st, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := s.o.Controller.Space(id)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, schedulerToProto(c, st, sp)), nil
}

// ListSchedulers lists schedulers in order of name.
func (s *tuningService) ListSchedulers(_ context.Context,
	req *pb.ListSchedulersRequest) (*pb.ListSchedulersResponse, error) {
	some := func(after token, n int) (out []*pb.Scheduler, err error) {
		for _, id := range s.o.Controller.Schedulers(after.After, math.MaxInt) {
			one, err := s.scheduler(id)
			if errors.Is(err, controller.ErrNotFound) {
				continue // purged meanwhile
			} else if err != nil {
				return nil, err
			}
			if one.GetState() != pb.Scheduler_DELETED || req.GetShowDeleted() {
				if out = append(out, one); len(out) == n {
					break
				}
			}
		}
		return out, nil
	}
	place := func(x *pb.Scheduler) token {
		return token{After: strings.TrimPrefix(x.GetName(), convert.SchedulersPrefix)}
	}
	page, next, err := list[*pb.Scheduler]{some: some, place: place}.page(s.o.Pages, req)
	return &pb.ListSchedulersResponse{Schedulers: page, NextPageToken: next}, err
}

// maxBatch bounds the events of one request.
const maxBatch = 10_000

// IngestEvents takes events in and answers each request when its events are on
// disk.
func (s *tuningService) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	return answerEach(s.o.Streams, stream, s.ingest)
}

// ingest takes one batch of a registered scheduler in.
func (s *tuningService) ingest(ctx context.Context, id string,
	req *pb.IngestEventsRequest) (*pb.IngestEventsResponse, error) {
	if n := len(req.GetEvents()); n > maxBatch {
		return nil, convert.Invalid("events", "%d are more than %d", n, maxBatch)
	}
	if err := s.o.Quota.events(ctx, id, len(req.GetEvents())); err != nil {
		return nil, err
	}
	out := &pb.IngestEventsResponse{Sequence: req.GetSequence()}
	reject := func(i int, f *convert.Fault) {
		out.RejectedEvents = append(out.RejectedEvents, &pb.RejectedEvent{
			Index: int32(i), EventId: req.GetEvents()[i].GetEventId(),
			Field: fmt.Sprintf("events[%d].%s", i, f.Field), Description: f.Why,
		})
	}
	events := make([]workload.Event, 0, len(req.GetEvents()))
	places := make([]int, 0, len(req.GetEvents()))
	for i, e := range req.GetEvents() {
		event, fault := convert.EventFromProto(e)
		if fault != nil {
			reject(i, fault)
		} else {
			events, places = append(events, event), append(places, i)
		}
	}
	start := time.Now()
	result, err := s.o.Controller.Ingest(ctx, callOf(ctx, req), id, events)
	if err != nil {
		return nil, err
	}
	s.latency.Observe(time.Since(start).Seconds())
	for _, r := range result.Rejected {
		reject(places[r.Index], convert.FaultOf(r.Err))
	}
	slices.SortFunc(out.RejectedEvents, func(a,
		b *pb.RejectedEvent) int {
		return cmp.Compare(a.GetIndex(), b.GetIndex())
	})
	for name, n := range map[string]int{
		"accepted": result.Accepted, "duplicate": result.Duplicates, "late": result.Late,
		"rejected": len(out.RejectedEvents),
	} {
		s.events.WithLabelValues(id, name).Add(float64(n))
	}
	out.AcceptedCount, out.DuplicateCount = int32(result.Accepted), int32(result.Duplicates)
	out.LateCount = int32(result.Late)
	return out, nil
}
