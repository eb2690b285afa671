package clitest

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

// SubmitNow submits jobs at the event time of a scheduler.
func SubmitNow(t *testing.T, address, id string) {
	t.Helper()
	f := cli.ClientFlags{ConnectFlags: cli.ConnectFlags{Server: address}, Timeout: time.Minute}
	if err := f.Call(t.Context(), true, func(ctx context.Context, c *cli.Client) error {
		s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/" + id})
		if err != nil {
			return err
		}
		stream, err := c.Tuning.IngestEvents(ctx)
		if err != nil {
			return err
		}
		req := &pb.IngestEventsRequest{Parent: "schedulers/" + id}
		for i := range 20 {
			job := fmt.Sprint("asked-", i)
			req.Events = append(req.Events, &pb.Event{EventId: job, Kind: pb.Event_SUBMITTED,
				SchedulerTime: s.GetStatus().GetEventTime(), Job: &pb.JobDetails{JobId: job, MilliGpus: 8000}})
		}
		if err := stream.Send(req); err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
