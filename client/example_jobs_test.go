package client_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

// The jobs of a scheduler, with a filter, and the load of its cluster.
func ExampleClient_Jobs() {
	ctx, c, stop := exampleJobs()
	defer stop()
	for j, err := range c.Jobs(ctx, &pb.ListJobsRequest{Filter: "state = WAITING"}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(j.GetDetails().GetJobId(), "waited", j.GetWaitDuration().AsDuration())
	}
	load, err := c.Load(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d of %d GPUs are held\n", load.GetBusyGpus(), load.GetTotalGpus())
	// Output:
	// wide waited 30m0s
	// 8 of 32 GPUs are held
}

// Why a job waits, the longest cause first.
func ExampleClient_ExplainJob() {
	ctx, c, stop := exampleJobs()
	defer stop()
	x, err := c.ExplainJob(ctx, "wide")
	if err != nil {
		panic(err)
	}
	for _, w := range x.GetWaits() {
		fmt.Println(w.GetCause(), w.GetDuration().AsDuration())
	}
	// Output:
	// BUSY 30m0s
}

// The tenants that held GPUs in the week before the latest event.
func ExampleClient_Tenants() {
	ctx, c, stop := exampleJobs()
	defer stop()
	for tenant, err := range c.Tenants(ctx, nil) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %d job, %.1f GPU-hours\n", tenant.GetTenant(), tenant.GetJobCount(), tenant.GetGpuHours())
	}
	// Output:
	// vision: 1 job, 4.0 GPU-hours
	// speech: 1 job, 0.0 GPU-hours
}

// exampleJobs is a client of a scheduler with a job that runs, and one that waits for it.
func exampleJobs() (ctx context.Context, c *client.Client, stop func()) {
	address, stopService := exampleService()
	conn, err := client.Endpoint{Address: address}.Dial()
	if err != nil {
		panic(err)
	}
	if c, err = client.New(client.Options{Conn: conn, Scheduler: "prod"}); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	if _, _, err = c.Register(ctx, &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
		Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8}}}); err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	at := func(minute int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 1, 5, 12, minute, 0, 0, time.UTC))
	}
	small := &pb.JobDetails{JobId: "small", Tenant: "vision", MilliGpus: 8000}
	wide := &pb.JobDetails{JobId: "wide", Tenant: "speech", MilliGpus: 32000}
	err = c.Send(ctx,
		&pb.Event{EventId: "1", Kind: pb.Event_SUBMITTED, SchedulerTime: at(0), Job: small},
		&pb.Event{EventId: "2", Kind: pb.Event_STARTED, SchedulerTime: at(0), Job: small,
			Placement: []*pb.NodePlacement{{NodeId: "n1", Gpus: 8}}},
		&pb.Event{EventId: "3", Kind: pb.Event_SUBMITTED, SchedulerTime: at(0), Job: wide},
		&pb.Event{EventId: "4", Kind: pb.Event_HEARTBEAT, SchedulerTime: at(30)})
	if err == nil {
		err = c.Flush(ctx)
	}
	if err != nil {
		panic(err)
	}
	return ctx, c, func() {
		cancel()
		<-ended
		_ = conn.Close()
		stopService()
	}
}
