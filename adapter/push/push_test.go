package push_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/adapter/push"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scheduler is one that is called. Its fault selects its answer to a revision.
type scheduler struct {
	pb.UnimplementedSchedulerAgentServer
	mu       sync.Mutex
	fault    map[int64]string // refuse, fail, hang, lie or partial; each once but for refuse and partial
	revision int64
	values   map[string]*structpb.Value
	calls    []int64
	events   []*pb.Event
	cut      int // ends a stream after this event, once
}

func (s *scheduler) ApplyConfiguration(ctx context.Context,
	req *pb.ApplyConfigurationRequest) (*pb.ApplyConfigurationResponse, error) {
	c := req.GetConfiguration()
	s.mu.Lock()
	s.calls = append(s.calls, c.GetRevision())
	fault := s.fault[c.GetRevision()]
	if fault != "refuse" && fault != "partial" {
		delete(s.fault, c.GetRevision())
	}
	ack := &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}
	switch fault {
	case "refuse":
		ack = &pb.Acknowledgement{State: pb.Acknowledgement_REJECTED, Error: "not with me"}
	case "fail":
		s.mu.Unlock()
		return nil, status.Error(codes.Internal, "no memory")
	case "hang":
		s.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	case "lie":
	default:
		s.revision, s.values = c.GetRevision(), maps.Clone(c.GetParameters())
		if fault == "partial" {
			s.values["pack"] = structpb.NewBoolValue(true)
		}
	}
	s.mu.Unlock()
	return &pb.ApplyConfigurationResponse{Acknowledgement: ack}, nil
}

func (s *scheduler) DescribeParameters(context.Context,
	*pb.DescribeParametersRequest) (*pb.DescribeParametersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.DescribeParametersResponse{Parameters: maps.Clone(s.values), Revision: s.revision}, nil
}

func (s *scheduler) StreamEvents(req *pb.StreamEventsRequest, stream pb.SchedulerAgent_StreamEventsServer) error {
	next, _ := strconv.Atoi(req.GetResumeToken())
	for ; stream.Context().Err() == nil; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n, cut := min(next+10, len(s.events)), s.cut
		batch := s.events[min(next, n):n]
		s.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		next = n
		if err := stream.Send(&pb.StreamEventsResponse{Events: batch, ResumeToken: strconv.Itoa(n)}); err != nil {
			return err
		}
		if cut > 0 && n >= cut {
			s.mu.Lock()
			s.cut = 0
			s.mu.Unlock()
			return status.Error(codes.Unavailable, "restarts")
		}
	}
	return nil
}

func (s *scheduler) happens(e ...*pb.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e...)
}

func (s *scheduler) applied(revision int64) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.calls {
		if r == revision {
			n++
		}
	}
	return n
}

// world is a service that calls one scheduler.
type world struct {
	t         *testing.T
	scheduler *scheduler
	pusher    *push.Pusher
	conn      *grpc.ClientConn
}

func newWorld(t *testing.T, s *scheduler, deadline time.Duration) *world {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	remote := grpc.NewServer()
	pb.RegisterSchedulerAgentServer(remote, s)
	go func() { _ = remote.Serve(l) }()
	repo, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := controller.NewService(controller.Options{Store: repo,
		Decide: func(_ context.Context, in round.Input) (round.Decision, error) {
			c, _ := in.Space.Project(space.Values{"queues": space.Int(1 + in.Round%6)})
			return round.Decision{Config: c, Adopt: true, Reason: "test", Ratio: 1.2}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = service.Run(context.Background(), controller.Hooks{}) }()
	srv := server.New(server.Options{Service: service, Store: repo, Builtins: []controller.Builtin{{Name: "test",
		Params: []space.Param{{ID: "queues", Kind: space.KindInt, Min: 1, Max: 6, Default: space.Int(3)},
			{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)}}}}})
	w := &world{t: t, scheduler: s}
	if w.conn, err = srv.Connect("test", "prod"); err != nil {
		t.Fatal(err)
	}
	agent := push.Agent{Scheduler: "prod", Instance: "a", Endpoint: client.Endpoint{Address: l.Addr().String()},
		Deadline: deadline, Interval: 10 * time.Millisecond}
	if w.pusher, err = push.New([]push.Agent{agent}, func(id string) (*grpc.ClientConn, error) {
		return srv.Connect("push", id)
	}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.pusher.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = w.pusher.Close()
		_ = w.conn.Close()
		remote.Stop()
		srv.Shutdown(ctx)
		service.Close()
		_ = repo.Close()
	})
	return w
}

func (w *world) register() {
	w.t.Helper()
	if _, err := pb.NewTuningServiceClient(w.conn).CreateScheduler(w.t.Context(), &pb.CreateSchedulerRequest{
		SchedulerId: "prod", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
			Mode: pb.SchedulerSpec_AUTO, Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8},
			Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(time.Hour)}}}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s: calls %v", what, w.scheduler.calls)
		}
	}
}

// acknowledged waits for the acknowledgement of a revision.
func (w *world) acknowledged(revision int64, state pb.Acknowledgement_State, text string) *pb.Acknowledgement {
	w.t.Helper()
	var ack *pb.Acknowledgement
	w.eventually(fmt.Sprint(revision, state), func() bool {
		got, err := pb.NewConfigurationServiceClient(w.conn).GetConfiguration(w.t.Context(),
			&pb.GetConfigurationRequest{Name: fmt.Sprintf("schedulers/prod/configurations/%d", revision)})
		ack = got.GetAcknowledgement()
		return err == nil && ack.GetState() == state && strings.Contains(ack.GetError(), text) &&
			ack.GetInstanceId() == "a"
	})
	return ack
}

// at moves the scheduler's time past a round.
func (w *world) at(after time.Duration) {
	w.scheduler.happens(&pb.Event{EventId: fmt.Sprint("at", after), Kind: pb.Event_HEARTBEAT,
		SchedulerTime: timestamppb.New(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(after))})
}

// Each fault of a scheduler is acknowledged as such, by the values read back; a transient one is
// pushed again.
func TestPush(t *testing.T) {
	w := newWorld(t, &scheduler{fault: map[int64]string{1: "fail", 2: "refuse", 5: "partial", 6: "lie"}}, time.Minute)
	w.register() // after the pusher began
	w.acknowledged(1, pb.Acknowledgement_APPLIED, "")
	w.at(0)
	w.at(time.Hour)
	w.acknowledged(2, pb.Acknowledgement_REJECTED, "not with me")
	w.acknowledged(3, pb.Acknowledgement_APPLIED, "") // the values of revision 1
	w.at(2 * time.Hour)
	w.acknowledged(4, pb.Acknowledgement_APPLIED, "")
	w.at(3 * time.Hour)
	ack := w.acknowledged(5, pb.Acknowledgement_PARTIALLY_APPLIED, "")
	if v := ack.GetEffectiveParameters(); len(v) != 1 || !v["pack"].GetBoolValue() {
		t.Errorf("effective parameters %v", v)
	}
	w.at(4 * time.Hour)
	w.acknowledged(6, pb.Acknowledgement_APPLIED, "")
	for revision, want := range map[int64]int{1: 2, 2: 1, 4: 1, 5: 1, 6: 2} {
		if n := w.scheduler.applied(revision); n != want {
			t.Errorf("revision %d was pushed %d times, want %d", revision, n, want)
		}
	}
	want := `
		# HELP autosched_agent_pushes_total Configurations sent to agents, by outcome: applied, refused or failed.
		# TYPE autosched_agent_pushes_total counter
		autosched_agent_pushes_total{instance="a",outcome="applied",scheduler="prod"} 5
		autosched_agent_pushes_total{instance="a",outcome="failed",scheduler="prod"} 2
		autosched_agent_pushes_total{instance="a",outcome="refused",scheduler="prod"} 1
		# HELP autosched_agent_revision The revision that was last read back from an agent.
		# TYPE autosched_agent_revision gauge
		autosched_agent_revision{instance="a",scheduler="prod"} 6
		# HELP autosched_agent_up Whether the last call of an agent was answered.
		# TYPE autosched_agent_up gauge
		autosched_agent_up{instance="a",scheduler="prod"} 1
	`
	if err := testutil.CollectAndCompare(w.pusher, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// An application that hangs ends at its deadline, and is pushed again.
func TestHangingScheduler(t *testing.T) {
	w := newWorld(t, &scheduler{fault: map[int64]string{1: "hang"}}, time.Second)
	w.register()
	w.acknowledged(1, pb.Acknowledgement_APPLIED, "")
	if n := w.scheduler.applied(1); n < 2 {
		t.Errorf("it was pushed %d times", n)
	}
}

// A scheduler that restarted with other values gets its target again.
func TestRestartedScheduler(t *testing.T) {
	w := newWorld(t, &scheduler{}, time.Minute)
	w.register()
	w.acknowledged(1, pb.Acknowledgement_APPLIED, "")
	w.scheduler.mu.Lock()
	w.scheduler.revision, w.scheduler.values = 0, nil
	w.scheduler.mu.Unlock()
	w.eventually("the configuration again", func() bool { return w.scheduler.applied(1) == 2 })
	w.eventually("its values", func() bool {
		w.scheduler.mu.Lock()
		defer w.scheduler.mu.Unlock()
		return w.scheduler.revision == 1 && len(w.scheduler.values) == 2
	})
}

// Every event is stored once, though the stream of events breaks.
func TestEventsArePulled(t *testing.T) {
	s := &scheduler{cut: 95}
	w := newWorld(t, s, time.Minute)
	w.register()
	const n = 200
	for i := range n {
		s.happens(&pb.Event{EventId: fmt.Sprint("e", i), Kind: pb.Event_SUBMITTED,
			SchedulerTime: timestamppb.New(time.Date(2026, 3, 2, 0, 0, i, 0, time.UTC)),
			Job:           &pb.JobDetails{JobId: fmt.Sprint("j", i), MilliGpus: 1000}})
	}
	count := func() int {
		got, err := pb.NewTuningServiceClient(w.conn).GetScheduler(t.Context(),
			&pb.GetSchedulerRequest{Name: "schedulers/prod"})
		if err != nil {
			t.Fatal(err)
		}
		return int(got.GetStatus().GetEventCount())
	}
	w.eventually("all events", func() bool { return count() >= n })
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := count(); got != n || s.cut != 0 {
		t.Errorf("%d events are stored, want %d; cut at %d", got, n, s.cut)
	}
}

func TestReadAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	for _, c := range []struct{ text, says string }{
		{"agents:\n- {scheduler: a, address: 'localhost:1'}\n- {scheduler: a, instance: b, address: 'h.example.org:1', " +
			"tls-ca: system, deadline: 3s}", ""},
		{"", "has no agents"},
		{"agents:\n- scheduler: a\n  adress: x", "line 3: field adress not found"},
		{"agents:\n- address: x:1", "line 2: agents[0].scheduler: is missing"},
		{"agents:\n- scheduler: a", "line 2: agents[0].address: is missing"},
		{"agents:\n- {scheduler: a, address: localhost}", "agents[0].address: \"localhost\" is not host:port"},
		{"agents:\n- {scheduler: a, address: 'h.example.org:1'}", "agents[0].tls-ca: is missing"},
		{"agents:\n- {scheduler: a, address: 'h.example.org:1', allow-plaintext: true}", ""},
		{"agents:\n- {scheduler: a, address: 'localhost:1', deadline: -1s}", "deadline: -1s is negative"},
		{"agents:\n- {scheduler: a, address: 'localhost:1', tls-cert: x, tls-ca: y}", "tls-cert and tls-key"},
		{"agents:\n- {scheduler: a, address: 'localhost:1'}\n- {scheduler: a, address: 'localhost:2'}",
			"line 3: agents[1].instance: \"\" of scheduler a is another agent's"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		agents, err := push.ReadAgents(path)
		if c.says == "" && (err != nil || agents[0].Deadline != 10*time.Second) ||
			c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, %v; want %s", c.text, agents, err, c.says)
		}
	}
}
