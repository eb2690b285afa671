package tuning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// checkWeight refuses a scheduler that gives its rounds more weight than others have.
func checkWeight(c access.Caller, r *controller.Registration) error {
	if c.Role == access.Scheduler && r.Policy.Weight > 1 {
		return fmt.Errorf("%w: spec.rollout.weight: %v is above 1, which only an admin sets", access.ErrRole,
			r.Policy.Weight)
	}
	return nil
}

// Controller is the part of controller.Service that the service calls.
type Controller interface {
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

// Config configures the service of schedulers.
type Config struct {
	Controller    Controller
	Registrations *registration.Reader
	Reports       render.Changes // nil if metrics are not reported
	Stamp         render.Stamp
	Pages         rpc.Pager
	Quota         *rpc.Quota
	Streams       *rpc.Streams
}

// Service serves schedulers and their events.
type Service struct {
	pb.UnimplementedTuningServiceServer

	o       Config
	latency prometheus.Histogram
	events  *prometheus.CounterVec // by scheduler and result
}

// New returns the service of schedulers.
func New(o Config) *Service {
	return &Service{o: o,
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "autosched_ingest_duration_seconds",
			Help:    "Latency of event batches, from receipt until they are durable.",
			Buckets: rpc.Buckets,
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_events_total", Help: "Events received, by result: accepted, duplicate, late or rejected.",
		}, []string{"scheduler", "result"})}
}

// Register adds the service to a server, and its metrics to a registry.
func (s *Service) Register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	pb.RegisterTuningServiceServer(g, s)
	r.MustRegister(s.latency, s.events)
}

// Forget drops the metrics of a purged scheduler.
func (s *Service) Forget(id string) {
	s.events.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// CreateScheduler registers a scheduler.
func (s *Service) CreateScheduler(ctx context.Context, req *pb.CreateSchedulerRequest) (*pb.Scheduler, error) {
	reg, err := s.o.Registrations.Read(req)
	if err != nil {
		return nil, err
	}
	if err := checkWeight(access.FromContext(ctx), &reg); err != nil {
		return nil, err
	}
	reg.Creator = access.FromContext(ctx).Name
	var c controller.Scheduler
	err = s.o.Quota.Register(s.o.Controller, &reg, func() (err error) {
		c, err = s.o.Controller.Register(ctx, rpc.CallOf(ctx, req), reg)
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
		return s.stamped(c, SchedulerToProto(c, controller.Status{}, sp)), nil
	}
	return s.scheduler(c.ID)
}

// GetScheduler returns one scheduler.
func (s *Service) GetScheduler(_ context.Context, req *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	out, err := s.scheduler(id)
	if err != nil {
		return nil, err
	}
	if c, _, err := s.o.Controller.Scheduler(id); err == nil {
		out.Status.ReportedMetrics, err = render.Reported(s.o.Reports, id, c.OfferedRevision)
		return out, err
	}
	return out, nil
}

func (s *Service) scheduler(id string) (*pb.Scheduler, error) {
	c, st, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := s.o.Controller.Space(id)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, SchedulerToProto(c, st, sp)), nil
}

// ListSchedulers lists schedulers in order of name.
func (s *Service) ListSchedulers(_ context.Context,
	req *pb.ListSchedulersRequest) (*pb.ListSchedulersResponse, error) {
	some := func(after rpc.Token, n int) (out []*pb.Scheduler, err error) {
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
	place := func(x *pb.Scheduler) rpc.Token {
		return rpc.Token{After: strings.TrimPrefix(x.GetName(), convert.SchedulersPrefix)}
	}
	page, next, err := rpc.List[*pb.Scheduler]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListSchedulersResponse{Schedulers: page, NextPageToken: next}, err
}

// maxBatch bounds the events of one request.
const maxBatch = 10_000

// IngestEvents takes events in and answers each request when its events are on
// disk.
func (s *Service) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	return rpc.AnswerEach(s.o.Streams, stream, s.ingest)
}

// ingest takes one batch of a registered scheduler in.
func (s *Service) ingest(ctx context.Context, id string,
	req *pb.IngestEventsRequest) (*pb.IngestEventsResponse, error) {
	if n := len(req.GetEvents()); n > maxBatch {
		return nil, convert.Invalid("events", "%d are more than %d", n, maxBatch)
	}
	if err := s.o.Quota.TakeEvents(ctx, id, len(req.GetEvents())); err != nil {
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
	result, err := s.o.Controller.Ingest(ctx, rpc.CallOf(ctx, req), id, events)
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
