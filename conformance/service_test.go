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

// oneRequest is the stream of a client that sends a request and has no more to send.
type oneRequest struct {
	grpc.ServerStream
	sent bool
}

func (*oneRequest) Context() context.Context            { return context.Background() }
func (*oneRequest) Send(*pb.IngestEventsResponse) error { return nil }
func (o *oneRequest) Recv() (*pb.IngestEventsRequest, error) {
	if o.sent {
		return nil, io.EOF
	}
	o.sent = true
	return &pb.IngestEventsRequest{}, nil
}

// TestHeldEvents: a stream whose events are not answered never ends as if they were.
func TestHeldEvents(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, err := newService(&Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.holdEvents = held
			ended := make(chan error, 1)
			go func() { ended <- s.IngestEvents(&oneRequest{}) }()
			synctest.Wait()
			if !held {
				if err := <-ended; err != nil {
					t.Error(err)
				}
				return
			}
			if len(ended) > 0 {
				t.Errorf("it ended: %v", <-ended)
				return
			}
			s.cut()
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
		})
	}
}
