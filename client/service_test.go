package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is the service on a directory, on an address that stays the same when it
// restarts.
type service struct {
	t       *testing.T
	dir     string
	address string
	limits  rpc.Limits
	mute    bool // it takes no reports
	conn    *grpc.ClientConn
	stop    func() // ends it in the middle of its calls

	mu   sync.Mutex
	cuts []int // bytes after which the next connections break
}

var builtin = controller.Builtin{Name: "test", Params: []space.Param{
	{ID: "queues", Kind: space.KindInt, Min: 1, Max: 6, Default: space.Int(3)},
	{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)}}}

// zero is the time of the first event.
var zero = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// adopt tunes to another number of queues in every round.
func adopt(_ context.Context, in round.Input) (round.Decision, error) {
	c, _ := in.Space.Project(space.Values{"queues": space.Int(1 + in.Round%6)})
	return round.Decision{Config: c, Adopt: true, Reason: "test", Ratio: 1.2}, nil
}

// newService starts a service. Its first connections break after the bytes given.
func newService(t *testing.T, limits rpc.Limits, cuts ...int) *service {
	t.Helper()
	s := &service{t: t, dir: filepath.Join(t.TempDir(), "data"), limits: limits, cuts: cuts, address: "127.0.0.1:0"}
	s.start(false)
	conn, err := client.Endpoint{Address: s.address}.Dial(grpc.WithContextDialer(s.dial))
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	t.Cleanup(func() {
		_ = conn.Close()
		s.stop()
	})
	return s
}

// start serves the directory, as a new epoch if it was restored.
func (s *service) start(restored bool) {
	s.t.Helper()
	repo, err := store.Open(s.dir, store.Options{NewEpoch: restored})
	if err != nil {
		s.t.Fatal(err)
	}
	events, err := controller.NewService(controller.Options{Store: repo, Decide: adopt})
	if err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = events.Run(context.Background(), controller.Hooks{}) }()
	<-events.Rebuilt()
	o := server.Options{Service: events, Store: repo, Builtins: []controller.Builtin{builtin},
		Limits: s.limits, PollAfter: 10 * time.Millisecond}
	if !s.mute {
		o.Reports = reports.New(reports.Options{Store: repo, Schedulers: events})
	}
	srv := server.New(o)
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	s.stop = func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Shutdown(ctx)
		if err := <-served; err != nil {
			s.t.Error(err)
		}
		events.Close()
		if err := repo.Close(); err != nil {
			s.t.Error(err)
		}
		s.stop = func() {}
	}
}

// brittle is a connection that breaks after some bytes.
type brittle struct {
	net.Conn
	left int
}

func (b *brittle) Write(p []byte) (int, error) {
	if len(p) < b.left {
		b.left -= len(p)
		return b.Conn.Write(p)
	}
	n, _ := b.Conn.Write(p[:b.left])
	_ = b.Conn.Close()
	return n, net.ErrClosed
}

func (s *service) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(s.cuts) == 0 {
		return conn, err
	}
	cut := s.cuts[0]
	s.cuts = s.cuts[1:]
	return &brittle{Conn: conn, left: cut}, nil
}

// copy copies the stopped service's directory.
func (s *service) copy() string {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(s.dir)); err != nil {
		s.t.Fatal(err)
	}
	return to
}

// answered calls until the service answers: after a restart a call may be on the connection that ended.
func answered[T any](t *testing.T, call func(context.Context) (T, error)) T {
	t.Helper()
	ctx := within(t)
	for {
		got, err := call(ctx)
		if err == nil {
			return got
		}
		if status.Code(err) != codes.Unavailable || !client.Sleep(ctx, 10*time.Millisecond) {
			t.Fatal(err)
		}
	}
}

func (s *service) scheduler() *pb.Scheduler {
	s.t.Helper()
	return answered(s.t, func(ctx context.Context) (*pb.Scheduler, error) {
		return pb.NewTuningServiceClient(s.conn).GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/prod"})
	})
}

// client runs a client of the registered scheduler until the test ends. stop ends it and
// returns the error of Run.
func (s *service) client(o client.Options) (c *client.Client, stop func() error) {
	s.t.Helper()
	o.Conn, o.Scheduler = s.conn, "prod"
	c, err := client.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := c.Register(s.t.Context(), registration()); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.t.Cleanup(func() { _ = stop() })
	return c, stop
}

func registration() *pb.Scheduler {
	return &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test", Mode: pb.SchedulerSpec_AUTO,
		Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8},
		Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(time.Hour)}}}
}

// submitted are events of jobs from the first to before the last, a second apart.
func submitted(first, last int) (out []*pb.Event) {
	for i := first; i < last; i++ {
		out = append(out, &pb.Event{EventId: fmt.Sprint("e", i), Kind: pb.Event_SUBMITTED,
			SchedulerTime: timestamppb.New(zero.Add(time.Duration(i) * time.Second)),
			Job:           &pb.JobDetails{JobId: fmt.Sprint("j", i), MilliGpus: 1000, User: "u", Key: "k"}})
	}
	return out
}

// at is an event at a time after the first.
func at(after time.Duration) *pb.Event {
	return &pb.Event{EventId: fmt.Sprint("at", after), Kind: pb.Event_HEARTBEAT,
		SchedulerTime: timestamppb.New(zero.Add(after))}
}

// within is a context for events that must happen soon.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// send sends events and waits until they are answered.
func send(t *testing.T, c *client.Client, events ...*pb.Event) {
	t.Helper()
	ctx := within(t)
	if err := c.Send(ctx, events...); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatalf("%v: %+v", err, c.Counts())
	}
}

// eventually waits for something to hold.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for ctx := within(t); !holds(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// applied records the configurations that are applied.
type applied struct {
	mu  sync.Mutex
	all []*pb.Configuration
	// outcome is the end of the next ones.
	outcome func(*pb.Configuration) (map[string]*structpb.Value, error)
}

func (a *applied) apply(_ context.Context, c *pb.Configuration) (map[string]*structpb.Value, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, c)
	if a.outcome != nil {
		return a.outcome(c)
	}
	return nil, nil
}

func (a *applied) seen() []*pb.Configuration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[:len(a.all):len(a.all)]
}
