package client

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// one is a node of a service: its answers, and the number of calls.
type one struct {
	pb.UnimplementedTuningServiceServer
	pb.UnimplementedConfigurationServiceServer
	name   string
	reason atomic.Value // of its errors; "" for none
	calls  atomic.Int64
}

func (o *one) err() error {
	o.calls.Add(1)
	reason := o.reason.Load().(string)
	if reason == "" {
		return nil
	}
	st, err := status.New(codes.Unavailable, reason).WithDetails(&errdetails.ErrorInfo{Reason: reason})
	if err != nil {
		return err
	}
	return st.Err()
}

func (o *one) GetScheduler(context.Context, *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	return &pb.Scheduler{Name: o.name}, o.err()
}

func (o *one) WatchConfigurations(_ *pb.WatchConfigurationsRequest,
	stream grpc.ServerStreamingServer[pb.WatchConfigurationsResponse]) error {
	if err := o.err(); err != nil {
		return err
	}
	return stream.Send(&pb.WatchConfigurationsResponse{ResumeToken: o.name})
}

// TestSeveralAddresses: a call that no node leads for is made at the next node, and one whose outcome is not known is
// not made twice; a stream goes to the next node when it is opened again; a node that is gone is passed over.
func TestSeveralAddresses(t *testing.T) {
	var all []*one
	var servers []*grpc.Server
	var list []string
	for _, name := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o := &one{name: name}
		o.reason.Store("")
		s := grpc.NewServer()
		pb.RegisterTuningServiceServer(s, o)
		pb.RegisterConfigurationServiceServer(s, o)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		all, servers, list = append(all, o), append(servers, s), append(list, l.Addr().String())
	}
	conn, err := Endpoint{Address: strings.Join(list, ",")}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from := func() string {
		t.Helper()
		s, err := pb.NewTuningServiceClient(conn).GetScheduler(ctx, &pb.GetSchedulerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return s.GetName()
	}
	if got := from(); got != "a" {
		t.Errorf("the first call went to %s", got)
	}
	all[0].reason.Store(reasonNoLeader)
	if got := from(); got != "b" {
		t.Errorf("with a without a leader, a call went to %s", got)
	}
	all[1].reason.Store("LEADER_LOST")
	before := all[2].calls.Load()
	_, err = pb.NewTuningServiceClient(conn).GetScheduler(ctx, &pb.GetSchedulerRequest{})
	if Reason(err) != "LEADER_LOST" || all[2].calls.Load() != before {
		t.Errorf("a call with an unknown outcome: %v, made %d times more", err, all[2].calls.Load()-before)
	}
	if got := from(); got != "c" {
		t.Errorf("after b lost the leader, a call went to %s", got)
	}
	all[2].reason.Store(reasonNoLeader)
	all[0].reason.Store("")
	watch := func() (string, error) {
		s, err := pb.NewConfigurationServiceClient(conn).WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{})
		if err != nil {
			return "", err
		}
		m, err := s.Recv()
		return m.GetResumeToken(), err
	}
	if _, err := watch(); Reason(err) != reasonNoLeader {
		t.Errorf("a watch at c: %v", err)
	}
	if got, err := watch(); got != "a" {
		t.Errorf("the next watch: %s, %v", got, err)
	}
	servers[0].Stop()
	all[1].reason.Store("")
	for {
		s, err := pb.NewTuningServiceClient(conn).GetScheduler(ctx, &pb.GetSchedulerRequest{})
		if err == nil {
			if s.GetName() != "b" {
				t.Errorf("without a, a call went to %s", s.GetName())
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	for _, o := range all {
		o.reason.Store(reasonNoLeader)
	}
	_, err = pb.NewTuningServiceClient(conn).GetScheduler(ctx, &pb.GetSchedulerRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without any leader: %v", err)
	}
	_, err = Endpoint{Address: "a:1,b"}.Dial()
	if err == nil || !strings.Contains(err.Error(), `"b" is not host:port`) {
		t.Errorf("with a bad address: %v", err)
	}
	if err := (Endpoint{Address: "a:1,b:1,a:1"}).Check(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("an address twice: %v", err)
	}
	if err := (Endpoint{Address: "127.0.0.1:1,b:1", TokenFile: "x"}).Check(); err == nil {
		t.Error("a token may be sent unencrypted to b")
	}
}
