package clitest

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

// SendEventID is waste.sendEvent with the id of the event.
func SendEventID(t *testing.T, address, id string, kind pb.Event_Kind, at time.Time, job *pb.JobDetails,
	places ...*pb.NodePlacement) {
	t.Helper()
	flags := cli.ConnectFlags{Server: address}
	conn, err := flags.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewTuningServiceClient(conn).IngestEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	event := &pb.Event{EventId: id, Kind: kind, SchedulerTime: timestamppb.New(at), Job: job, Placement: places}
	err = stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/prod", Events: []*pb.Event{event}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || got.GetAcceptedCount() != 1 {
		t.Fatalf("%v %v", got, err)
	}
	_ = stream.CloseSend()
	_, _ = stream.Recv()
}
