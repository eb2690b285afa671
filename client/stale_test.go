package client

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestMaxStaleness: calls by a connection say how old their answers may be, and polls of a client that they may not be.
func TestMaxStaleness(t *testing.T) {
	if err := (Endpoint{Address: "a:1", MaxStaleness: -1}).Check(); err == nil {
		t.Error("a negative age is accepted")
	}
	asked := make(chan string, 10)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, _ any, info *grpc.UnaryServerInfo,
		_ grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		asked <- strings.Join(md.Get(maxStalenessKey), ",")
		return &pb.GetCurrentConfigurationResponse{}, nil
	}))
	pb.RegisterConfigurationServiceServer(server, pb.UnimplementedConfigurationServiceServer{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	conn, err := Endpoint{Address: l.Addr().String(), MaxStaleness: 5 * time.Second}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := pb.NewConfigurationServiceClient(conn).GetCurrentConfiguration(t.Context(),
		&pb.GetCurrentConfigurationRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "5s" {
		t.Errorf("a call asks for %q", got)
	}
	c, err := New(Options{Conn: conn, Scheduler: "s", Poll: true,
		Apply: func(context.Context, *pb.Configuration) (map[string]*structpb.Value, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	if got := <-asked; got != "0s" {
		t.Errorf("a poll asks for %q", got)
	}
	cancel()
	<-ended
}
