package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

// called is an instance that the service calls, through its lives.
type called struct {
	pb.UnimplementedSchedulerAgentServer
	i *instance

	applying sync.Mutex // one configuration at a time
	mu       sync.Mutex // guards the following
	life     context.Context
	inForce  *pb.Configuration // that it says it runs; nil at the start of a life
	values   map[string]*structpb.Value
	epoch    int64 // counter of the last one applied, which it remembers after a crash
}

// lastSend bounds the events sent to the service once the emulation ends.
const lastSend = 5 * time.Second

// serve is a life of an instance that is called: it answers until the life ends, which is a crash if the context
// does not.
func (c *called) serve(ctx, life context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(life, "tcp", address)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.life, c.inForce, c.values = life, nil, nil
	c.mu.Unlock()
	s := grpc.NewServer(grpc.WaitForHandlers(true))
	pb.RegisterSchedulerAgentServer(s, c)
	stopped := make(chan struct{})
	context.AfterFunc(life, func() {
		defer close(stopped)
		if ctx.Err() == nil {
			s.Stop()
			return
		}
		defer time.AfterFunc(lastSend, s.Stop).Stop()
		s.GracefulStop()
	})
	if err := s.Serve(l); err != nil && life.Err() == nil {
		return err
	}
	<-stopped
	return life.Err()
}

// ApplyConfiguration implements SchedulerAgent.
func (c *called) ApplyConfiguration(ctx context.Context, req *pb.ApplyConfigurationRequest) (
	*pb.ApplyConfigurationResponse, error) {
	offer := req.GetConfiguration()
	if offer == nil {
		return nil, status.Error(codes.InvalidArgument, "configuration: is missing")
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	c.mu.Lock()
	life, now, epoch := c.life, c.inForce, c.epoch
	values := c.values
	c.mu.Unlock()
	answer := func(state pb.Acknowledgement_State, why error) (*pb.ApplyConfigurationResponse, error) {
		ack := &pb.Acknowledgement{State: state}
		if why != nil {
			ack.Error = why.Error()
		} else if ack.EffectiveParameters = client.Differing(offer, values); len(ack.EffectiveParameters) > 0 {
			ack.State = pb.Acknowledgement_PARTIALLY_APPLIED
		}
		return &pb.ApplyConfigurationResponse{Acknowledgement: ack}, nil
	}
	switch {
	case offer.GetEpoch().GetCounter() < epoch:
		return answer(pb.Acknowledgement_FAILED, fmt.Errorf("%s is of epoch %d of the store, before %d: an old copy of "+
			"the store is served", offer.GetName(), offer.GetEpoch().GetCounter(), epoch))
	case now != nil && now.GetRevision() == offer.GetRevision() && proto.Equal(now.GetEpoch(), offer.GetEpoch()):
		return answer(pb.Acknowledgement_APPLIED, nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	effective, err := c.i.apply(ctx, offer)
	switch {
	case life.Err() != nil:
		return nil, status.Error(codes.Unavailable, "the scheduler crashed")
	case errors.Is(err, client.ErrRefused):
		return answer(pb.Acknowledgement_REJECTED, err)
	case err != nil && ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return answer(pb.Acknowledgement_FAILED, err)
	}
	if values = effective; values == nil {
		values = offer.GetParameters()
	}
	c.mu.Lock()
	c.inForce, c.values, c.epoch = offer, values, offer.GetEpoch().GetCounter()
	c.mu.Unlock()
	return answer(pb.Acknowledgement_APPLIED, nil)
}

// DescribeParameters implements SchedulerAgent.
func (c *called) DescribeParameters(context.Context, *pb.DescribeParametersRequest) (
	*pb.DescribeParametersResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inForce == nil {
		return nil, status.Error(codes.FailedPrecondition, "nothing was applied since the start")
	}
	return &pb.DescribeParametersResponse{Parameters: c.values, Revision: c.inForce.GetRevision()}, nil
}

// StreamEvents implements SchedulerAgent. The first instance has the events.
func (c *called) StreamEvents(req *pb.StreamEventsRequest, stream pb.SchedulerAgent_StreamEventsServer) error {
	if !c.i.first {
		return status.Error(codes.Unimplemented, "another instance has the events")
	}
	c.mu.Lock()
	life := c.life
	c.mu.Unlock()
	a, next := c.i.agent, 0
	if token := req.GetResumeToken(); token != "" {
		var err error
		if next, err = strconv.Atoi(token); err != nil || next < 0 {
			return status.Errorf(codes.InvalidArgument, "resume_token: %.64q is not one of this scheduler", token)
		}
	}
	for {
		events, to, more := a.eventsFrom(next)
		if len(events) > 0 {
			if err := stream.Send(&pb.StreamEventsResponse{Events: events, ResumeToken: strconv.Itoa(to)}); err != nil {
				return err
			}
			next = to
			a.feed.sentTo(to)
			continue
		}
		select {
		case <-life.Done():
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-more:
		}
	}
}

const (
	maxKept  = 80_000
	maxBatch = 2000
)

// feed is the events of a scheduler that is called. The latest are kept, as a stream may resume.
type feed struct {
	mu     sync.Mutex
	events []*pb.Event
	from   int           // number of the first one kept
	sent   int           // number up to which a stream had them
	more   chan struct{} // closed and replaced when there are more
}

func (f *feed) add(events []*pb.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, events...)
	if drop := len(f.events) - maxKept; drop > maxKept/4 {
		f.events = slices.Clone(f.events[drop:])
		f.from += drop
	}
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) sentTo(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = max(f.sent, n)
}

// counts are how many events a stream had, and how many wait for one.
func (f *feed) counts() (sent, waiting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent, f.from + len(f.events) - f.sent
}

// eventsFrom is the events from a number on, at most a response's, the number after them, and a channel that is closed
// when there are more. A snapshot stands for all where some are no longer kept, or the number is one of a former run.
func (a *agent) eventsFrom(next int) (events []*pb.Event, to int, more <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &a.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if end := f.from + len(f.events); next < f.from || next > end {
		e := a.taken()
		e.EventId = fmt.Sprint("snapshot-", a.at.Nanoseconds(), "-", end)
		return []*pb.Event{e}, end, f.more
	}
	events = f.events[next-f.from:]
	n := min(len(events), maxBatch)
	return events[:n:n], next + n, f.more
}
