package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// CreateScheduler registers a scheduler.
func (s *Server) CreateScheduler(ctx context.Context, req *pb.CreateSchedulerRequest) (*pb.Scheduler, error) {
	reg, err := s.registrar.Read(req)
	if err != nil {
		return nil, err
	}
	if err := checkWeight(access.FromContext(ctx), &reg); err != nil {
		return nil, err
	}
	reg.Creator = access.FromContext(ctx).Name
	var c controller.Scheduler
	err = s.quota.register(s.service, &reg, func() (err error) {
		c, err = s.service.Register(ctx, callOf(ctx, req), reg)
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
func (s *Server) GetScheduler(_ context.Context, req *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	out, err := s.scheduler(id)
	if err != nil {
		return nil, err
	}
	if c, _, err := s.service.Scheduler(id); err == nil {
		out.Status.ReportedMetrics, err = s.reported(id, c.OfferedRevision)
		return out, err
	}
	return out, nil
}

func (s *Server) scheduler(id string) (*pb.Scheduler, error) {
	c, st, err := s.service.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := s.service.Space(id)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, schedulerToProto(c, st, sp)), nil
}

// ListSchedulers lists schedulers in order of name.
func (s *Server) ListSchedulers(_ context.Context, req *pb.ListSchedulersRequest) (*pb.ListSchedulersResponse, error) {
	some := func(after token, n int) (out []*pb.Scheduler, err error) {
		for _, id := range s.service.Schedulers(after.After, math.MaxInt) {
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
	page, next, err := list[*pb.Scheduler]{some: some, place: place}.page(s.pages, req)
	return &pb.ListSchedulersResponse{Schedulers: page, NextPageToken: next}, err
}

// maxBatch bounds the events of one request.
const maxBatch = 10_000

// IngestEvents takes events in and answers each request when its events are on
// disk.
func (s *Server) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	return answerEach(s, stream, s.ingest)
}

// answerEach answers each request of a stream, the first of which names the scheduler, until it ends.
func answerEach[Q, A any, P interface {
	*Q
	GetParent() string
}](s *Server, stream grpc.BidiStreamingServer[Q, A],
	one func(ctx context.Context, id string, req P) (*A, error)) error {
	requests := make(chan P)
	ended := make(chan error, 1)
	ctx := stream.Context() // ends when this handler returns, and with it the receiver
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	id := ""
	leave := func() {}
	defer func() { leave() }()
	for {
		select {
		case <-s.draining:
			return errDraining
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case req := <-requests:
			first := id == ""
			if err := s.settle(&id, req.GetParent()); err != nil {
				return err
			}
			if first {
				var err error
				if leave, err = s.quota.stream(ctx, id); err != nil {
					leave = func() {}
					return err
				}
			}
			out, err := one(ctx, id, req)
			if err != nil {
				return err
			}
			if err := stream.Send(out); err != nil {
				return err
			}
		}
	}
}

var errDraining = status.Error(codes.Unavailable, "the service is shutting down; connect again")

// settle finds the scheduler of a stream, which its first request names.
func (s *Server) settle(id *string, name string) error {
	if name == "" && *id != "" {
		return nil
	}
	parent, err := convert.ParseScheduler("parent", name)
	if err != nil {
		return err
	}
	if *id != "" && parent != *id {
		return convert.Invalid("parent", "differs from that of the stream, %s", convert.SchedulerName(*id))
	}
	if _, err := s.service.Space(parent); err != nil {
		return err
	}
	*id = parent
	return nil
}

// ingest takes one batch of a registered scheduler in.
func (s *Server) ingest(ctx context.Context, id string,
	req *pb.IngestEventsRequest) (*pb.IngestEventsResponse, error) {
	if n := len(req.GetEvents()); n > maxBatch {
		return nil, convert.Invalid("events", "%d are more than %d", n, maxBatch)
	}
	if err := s.quota.events(ctx, id, len(req.GetEvents())); err != nil {
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
	result, err := s.service.Ingest(ctx, callOf(ctx, req), id, events)
	if err != nil {
		return nil, err
	}
	s.metrics.ingest.Observe(time.Since(start).Seconds())
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
		s.metrics.events.WithLabelValues(id, name).Add(float64(n))
	}
	out.AcceptedCount, out.DuplicateCount = int32(result.Accepted), int32(result.Duplicates)
	out.LateCount = int32(result.Late)
	return out, nil
}
