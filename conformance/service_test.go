package conformance

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// cut ends all streams.
func (s *service) cut() { s.set(func() { s.streams++ }) }

// oneRequest is the stream of a client that sends a request and has no more to send.
type oneRequest struct {
	grpc.ServerStream
	sent    bool
	answers int
}

func (*oneRequest) Context() context.Context { return context.Background() }

func (o *oneRequest) Send(*pb.IngestEventsResponse) error {
	o.answers++
	return nil
}

func (o *oneRequest) Recv() (*pb.IngestEventsRequest, error) {
	if o.sent {
		return nil, io.EOF
	}
	o.sent = true
	return &pb.IngestEventsRequest{}, nil
}

// TestHeldEvents: a stream whose events are not answered never ends as if they were, and ends when they are.
func TestHeldEvents(t *testing.T) {
	for _, c := range []struct{ held, cut bool }{{false, false}, {true, false}, {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			s, err := newService(&Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.holdEvents = c.held
			ended := make(chan error, 1)
			client := &oneRequest{}
			go func() { ended <- s.IngestEvents(client) }()
			synctest.Wait()
			if c.held && (len(ended) > 0 || client.answers > 0) {
				t.Errorf("%+v: it ended with %d answers", c, client.answers)
			}
			if c.cut {
				s.cut()
				if err := <-ended; status.Code(err) != codes.Unavailable || client.answers != 0 {
					t.Errorf("%+v: %v, %d answers", c, err, client.answers)
				}
				return
			}
			s.set(func() { s.holdEvents = false })
			if err := <-ended; err != nil || client.answers != 1 {
				t.Errorf("%+v: %v, %d answers", c, err, client.answers)
			}
		})
	}
}
