package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/client"
)

// TestJobs: a client reads the jobs, tenants, load and timeline of its scheduler, over all pages.
func TestJobs(t *testing.T) {
	s := newService(t, rpc.Limits{})
	c, _ := s.client(client.Options{})
	ctx := within(t)
	var events []*pb.Event
	for i := range 5 {
		events = append(events, &pb.Event{EventId: fmt.Sprint("s", i), Kind: pb.Event_SUBMITTED,
			SchedulerTime: timestamppb.New(zero.Add(time.Duration(i) * time.Minute)),
			Job:           &pb.JobDetails{JobId: fmt.Sprint("ns/", i), Tenant: fmt.Sprint("t", i%2), MilliGpus: 1000}})
	}
	if err := c.Send(ctx, events...); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for len(ids) < 5 { // a round may be decided meanwhile
		ids = nil
		for j, err := range c.Jobs(ctx, &pb.ListJobsRequest{PageSize: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, j.GetDetails().GetJobId())
		}
	}
	if got := strings.Join(ids, " "); got != "ns/4 ns/3 ns/2 ns/1 ns/0" {
		t.Errorf("jobs %s", got)
	}
	for j, err := range c.Jobs(ctx, nil) { // one that ends early asks no more
		if err != nil || j.GetDetails().GetJobId() != "ns/4" {
			t.Error(j, err)
		}
		break
	}
	if j, err := c.Job(ctx, "ns/3"); err != nil || j.GetDetails().GetTenant() != "t1" {
		t.Error(j, err)
	}
	if x, err := c.ExplainJob(ctx, "ns/3"); err != nil || x.GetJob().GetDetails().GetJobId() != "ns/3" {
		t.Error(x, err)
	}
	tenants := map[string]int32{}
	for x, err := range c.Tenants(ctx, &pb.ListTenantsRequest{PageSize: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		tenants[x.GetTenant()] = x.GetWaitingGpus()
	}
	if len(tenants) != 2 || tenants["t0"] != 3 || tenants["t1"] != 2 {
		t.Errorf("tenants %v", tenants)
	}
	if l, err := c.Load(ctx); err != nil || l.GetWaitingJobs() != 5 {
		t.Error(l, err)
	}
	if f, err := c.ForecastLoad(ctx); err != nil || (len(f.GetPoints()) == 0) == (f.GetNoFuturesReason() == "") {
		t.Error(f, err)
	}
	if x, err := c.Timeline(ctx, &pb.GetTimelineRequest{BucketCount: 7}); err != nil || x.GetJobCount() == 0 ||
		len(x.GetRows()[0].GetWaitingGpus()) != 7 {
		t.Error(x, err)
	}
	if _, err := c.Job(ctx, "none"); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	for _, err := range c.Jobs(ctx, &pb.ListJobsRequest{Filter: "nonsense = 1"}) {
		if status.Code(err) != codes.InvalidArgument {
			t.Error(err)
		}
	}
}
