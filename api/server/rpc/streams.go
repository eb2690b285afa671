package rpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/space"
)

// Streams answers the requests of streams that a client keeps open.
type Streams struct {
	Draining <-chan struct{} // closed when the server shuts down
	Quota    *Quota
	Space    func(scheduler string) (*space.Space, error) // fails for a scheduler that takes in nothing
}

// AnswerEach answers each request of a stream, the first of which names the scheduler, until it ends.
func AnswerEach[Q, A any, P interface {
	*Q
	GetParent() string
}](s *Streams, stream grpc.BidiStreamingServer[Q, A],
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
		case <-s.Draining:
			return ErrDraining
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
				if leave, err = s.Quota.Stream(ctx, id); err != nil {
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

// settle finds the scheduler of a stream, which its first request names.
func (s *Streams) settle(id *string, name string) error {
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
	if _, err := s.Space(parent); err != nil {
		return err
	}
	*id = parent
	return nil
}
