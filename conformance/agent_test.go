package conformance_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/adapter/file"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/conformance"
	"github.com/autosched/autosched/schedulers"
)

// called is a scheduler that is called, with a fault.
type called struct {
	pb.UnimplementedSchedulerAgentServer
	fault  string
	events []*pb.Event

	mu  sync.Mutex
	now *pb.Configuration
}

func newCalled(fault string) *called {
	s := &called{fault: fault}
	at := func(n int) *timestamppb.Timestamp { return timestamppb.New(time.Unix(int64(n), 0)) }
	job := &pb.JobDetails{JobId: "a", MilliGpus: 1000}
	for i, k := range []pb.Event_Kind{pb.Event_SUBMITTED, pb.Event_STARTED, pb.Event_FINISHED} {
		s.events = append(s.events, &pb.Event{EventId: fmt.Sprint(i), Kind: k, SchedulerTime: at(i), Job: job})
	}
	s.events = append(s.events, &pb.Event{EventId: "s", Kind: pb.Event_SNAPSHOT, SchedulerTime: at(9)})
	return s
}

func (s *called) ApplyConfiguration(_ context.Context, req *pb.ApplyConfigurationRequest) (
	*pb.ApplyConfigurationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := req.GetConfiguration()
	answer := func(state pb.Acknowledgement_State, text string) (*pb.ApplyConfigurationResponse, error) {
		return &pb.ApplyConfigurationResponse{Acknowledgement: &pb.Acknowledgement{State: state, Error: text}}, nil
	}
	switch {
	case s.fault == "fails":
		return answer(pb.Acknowledgement_FAILED, "not today")
	case c == nil && s.fault == "takes nothing":
		return answer(pb.Acknowledgement_APPLIED, "")
	case c == nil:
		return nil, status.Error(codes.InvalidArgument, "configuration: is missing")
	case c.GetEpoch().GetCounter() < s.now.GetEpoch().GetCounter() && s.fault != "any epoch":
		return answer(pb.Acknowledgement_FAILED, "an old copy of the store")
	case c.GetParameters()["no_such_parameter"] != nil && s.fault == "mute":
		return answer(pb.Acknowledgement_REJECTED, "")
	case c.GetParameters()["no_such_parameter"] != nil && s.fault != "takes all":
		return answer(pb.Acknowledgement_REJECTED, "there is no such parameter")
	}
	if s.fault != "lies" || s.now == nil {
		s.now = c
	}
	return answer(pb.Acknowledgement_APPLIED, "")
}

func (s *called) DescribeParameters(context.Context, *pb.DescribeParametersRequest) (
	*pb.DescribeParametersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := maps.Clone(s.now.GetParameters())
	delete(values, "no_such_parameter")
	switch s.fault {
	case "forgets":
		delete(values, "backfill")
	case "differs":
		values["backfill"] = structpb.NewNumberValue(7)
	}
	return &pb.DescribeParametersResponse{Parameters: values, Revision: s.now.GetRevision()}, nil
}

func (s *called) StreamEvents(req *pb.StreamEventsRequest, stream pb.SchedulerAgent_StreamEventsServer) error {
	next, _ := strconv.Atoi(req.GetResumeToken())
	if s.fault == "skips" {
		next++
	}
	for ; next < len(s.events); next++ {
		e := s.events[next]
		if s.fault == "finishes twice" && e.GetKind() == pb.Event_STARTED {
			e = &pb.Event{EventId: "x", Kind: pb.Event_FINISHED, SchedulerTime: e.GetSchedulerTime(), Job: e.GetJob()}
		}
		m := &pb.StreamEventsResponse{Events: []*pb.Event{e}, ResumeToken: strconv.Itoa(next + 1)}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// checkAgent runs the suite against an agent, which is made anew whenever it is started.
func checkAgent(t *testing.T, kind string,
	start func() (pb.SchedulerAgentServer, func())) map[string]conformance.Result {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	results, err := conformance.Run(t.Context(), conformance.Options{Agent: conn, Space: spaceOf,
		Registered: registration(kind), Patience: 2 * time.Minute,
		Start: func() (func(), error) {
			if l == nil {
				if l, err = net.Listen("tcp", address); err != nil {
					return nil, err
				}
			}
			agent, end := start()
			server := grpc.NewServer()
			pb.RegisterSchedulerAgentServer(server, agent)
			served, on := make(chan error, 1), l
			go func() { served <- server.Serve(on) }()
			l = nil
			return func() {
				server.Stop()
				<-served
				end()
			}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]conformance.Result{}
	for _, r := range results {
		out[r.Check] = r
		t.Logf("%-8s %s: %s", r.Outcome, r.Check, r.Reason)
	}
	return out
}

// TestAgents: a scheduler that is called, which keeps its values, and the adapter of configuration files
// conform.
func TestAgents(t *testing.T) {
	t.Run("called", func(t *testing.T) {
		t.Parallel()
		s := newCalled("")
		wants(t, checkAgent(t, "fifo", func() (pb.SchedulerAgentServer, func()) { return s, func() {} }))
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "options.yaml")
		wants(t, checkAgent(t, "lucid", func() (pb.SchedulerAgentServer, func()) {
			d, err := file.Open(file.Options{Path: path, Form: schedulers.FormOf("lucid")})
			if err != nil {
				t.Error(err)
				return &called{}, func() {}
			}
			return &file.Agent{Driver: d, Applied: func(*pb.Configuration, error) {}}, func() { _ = d.Close() }
		}), "stream", "events", "lives", "snapshots")
	})
}

// wants wants every check of an agent to pass, but for skipped ones.
func wants(t *testing.T, results map[string]conformance.Result, skipped ...string) {
	t.Helper()
	if len(results) != len(conformance.Names(true)) {
		t.Errorf("%d checks ran", len(results))
	}
	outcomes(t, results, skipped...)
}

// TestFaultyAgents: an agent's faults are found.
func TestFaultyAgents(t *testing.T) {
	for _, c := range []struct{ fault, check, reason string }{
		{"fails", "apply-first", "as FAILED: not today"},
		{"forgets", "apply-first", "backfill is missing"},
		{"differs", "apply-first", "backfill is number_value:7"},
		{"lies", "apply", "revision 1, not 2"},
		{"any epoch", "former-epoch", "of epoch 2 is answered as APPLIED"},
		{"takes all", "refuse", "no_such_parameter is missing"},
		{"takes nothing", "no-configuration", "answered as APPLIED"},
		{"mute", "acknowledgements", "REJECTED has no error"},
		{"skips", "stream", "is not sent after the token"},
		{"finishes twice", "lives", "after it finished"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			s := newCalled(c.fault)
			r := checkAgent(t, "fifo", func() (pb.SchedulerAgentServer, func()) { return s, func() {} })[c.check]
			if r.Outcome != conformance.Fail || !strings.Contains(strings.ReplaceAll(r.Reason, "  ", " "), c.reason) {
				t.Errorf("%s: %s: %s", c.check, r.Outcome, r.Reason)
			}
		})
	}
	if _, err := conformance.Run(t.Context(), conformance.Options{Agent: &grpc.ClientConn{}}); err == nil {
		t.Error("an agent without a registered scheduler is checked")
	}
}
