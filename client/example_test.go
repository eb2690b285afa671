package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/store"
)

// A scheduler registers, sends an event, and applies its configuration.
func Example() {
	address, stop := exampleService()
	defer stop()

	conn, err := client.Endpoint{Address: address}.Dial()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	applied := make(chan int64, 1)
	c, err := client.New(client.Options{Conn: conn, Scheduler: "prod",
		Apply: func(_ context.Context, c *pb.Configuration) (map[string]*structpb.Value, error) {
			applied <- c.GetRevision() // a scheduler takes c.GetParameters() over here
			return nil, nil
		}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, created, err := c.Register(ctx, &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
		Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8}}})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

	err = c.Send(ctx, &pb.Event{EventId: "1", Kind: pb.Event_SUBMITTED, SchedulerTime: timestamppb.Now(),
		Job: &pb.JobDetails{JobId: "a", MilliGpus: 8000}})
	if err == nil {
		err = c.Flush(ctx)
	}
	fmt.Println("registered:", created)
	fmt.Println("events stored:", c.Counts().Stored, err)
	fmt.Println("revision in force:", <-applied)
	cancel()
	<-ended
	// Output:
	// registered: true
	// events stored: 1 <nil>
	// revision in force: 1
}

// exampleService stands for 'autosched serve'.
func exampleService() (address string, stop func()) {
	dir, err := os.MkdirTemp("", "autosched")
	if err != nil {
		panic(err)
	}
	repo, err := store.Open(dir, store.Options{})
	if err != nil {
		panic(err)
	}
	service, err := controller.NewService(controller.Options{Store: repo, Decide: adopt})
	if err != nil {
		panic(err)
	}
	go func() { _ = service.Run(context.Background(), controller.Hooks{}) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := server.New(server.Options{Service: service, Store: repo, Builtins: []controller.Builtin{builtin}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		<-served
		service.Close()
		_ = repo.Close()
		_ = os.RemoveAll(dir)
	}
}
