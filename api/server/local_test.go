package server

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// A part of the process connects without certificates, as the scheduler that it names and no other.
func TestConnectWithinTheProcess(t *testing.T) {
	s := newSecured(t)
	if _, err := pb.NewTuningServiceClient(s.as("admin")).CreateScheduler(background(t), &pb.CreateSchedulerRequest{
		SchedulerId: "prod", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
			Cluster: &pb.Cluster{Nodes: 2, GpusPerNode: 8}}}}); err != nil {
		t.Fatal(err)
	}
	conn := must[*grpc.ClientConn](t)(s.server.Connect("push", "prod"))
	defer conn.Close()
	config := pb.NewConfigurationServiceClient(conn)
	get := func(name string) error {
		_, err := config.GetCurrentConfiguration(background(t), &pb.GetCurrentConfigurationRequest{Name: name})
		return err
	}
	if err := get("schedulers/prod"); err != nil {
		t.Error(err)
	}
	if err := get("schedulers/other"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another scheduler: %v", err)
	}
	if _, err := config.ApproveConfiguration(background(t), &pb.ApproveConfigurationRequest{
		Name: "schedulers/prod/configurations/1"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("what operators do: %v", err)
	}
	// Its streams outlive a change of the roles.
	s.watching(conn, "")
	s.server.guard.review()
	s.server.guard.mu.Lock()
	defer s.server.guard.mu.Unlock()
	for stream := range s.server.guard.open {
		if err := context.Cause(stream.ctx); err != nil {
			t.Errorf("a review ended its watch: %v", err)
		}
	}
	if n := len(s.server.guard.open); n != 1 {
		t.Errorf("%d streams are open", n)
	}
}
