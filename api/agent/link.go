package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// link is the agent's hold on the service: the stream of its events and the
// watch of its configuration, until one of them fails.
type link struct {
	stream grpc.BidiStreamingClient[pb.IngestEventsRequest, pb.IngestEventsResponse]
	acks   chan *pb.IngestEventsResponse
	offers chan *pb.Configuration // the newest one offered; slow readers miss older ones
	failed chan error             // has room for both
	cut    context.CancelFunc
}

func (a *agent) connect(ctx context.Context, how ...grpc.CallOption) (_ *link, err error) {
	ctx, cut := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cut()
		}
	}()
	l := &link{acks: make(chan *pb.IngestEventsResponse, inFlight+1), offers: make(chan *pb.Configuration, 1),
		failed: make(chan error, 2), cut: cut}
	if l.stream, err = a.tuning.IngestEvents(ctx, how...); err != nil {
		return nil, fmt.Errorf("emulate: event stream: %w", err)
	}
	go l.receive(ctx)
	if a.o.File != nil {
		return l, nil
	}
	watch, err := a.config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: a.name,
		SendInitialEvents: true, InstanceId: instance}, how...)
	if err != nil {
		return nil, fmt.Errorf("emulate: watch: %w", err)
	}
	go l.follow(watch)
	return l, nil
}

func (l *link) receive(ctx context.Context) {
	for {
		m, err := l.stream.Recv()
		if err != nil {
			l.failed <- fmt.Errorf("emulate: event stream: %w", err)
			return
		}
		select {
		case l.acks <- m:
		case <-ctx.Done():
			return
		}
	}
}

func (l *link) follow(watch grpc.ServerStreamingClient[pb.WatchConfigurationsResponse]) {
	for {
		m, err := watch.Recv()
		if err != nil {
			l.failed <- fmt.Errorf("emulate: watch: %w", err)
			return
		}
		if c := m.GetConfiguration(); c != nil {
			select {
			case <-l.offers:
			default:
			}
			l.offers <- c
		}
	}
}

// again is how long to wait before a service that went away is tried again.
const again = 200 * time.Millisecond

// gone reports whether an error means that the service went away or has no room, so that it is
// worth waiting for.
func gone(err error) bool {
	return status.Code(err) == codes.Unavailable || status.Code(err) == codes.ResourceExhausted
}

// reconnect waits until a service that went away is back, and sends again what
// it had not answered. Other failures are returned. The emulated cluster stands
// still meanwhile; a real one would go on under the configuration it has.
func (a *agent) reconnect(ctx context.Context, why error) error {
	if !gone(why) {
		return why
	}
	if a.o.Lost != nil {
		a.o.Lost(why)
	}
	a.link.cut()
	for {
		l, err := a.connect(ctx, grpc.WaitForReady(true))
		if err == nil {
			a.link = l
			err = a.resend()
		}
		if err == nil || !gone(err) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (a *agent) resend() error {
	for _, req := range a.unanswered {
		if err := a.link.stream.Send(req); err != nil {
			return errors.Join(<-a.link.failed, err) // the stream's end says why
		}
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(again):
		return nil
	}
}
