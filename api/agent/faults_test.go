package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/file"
	"github.com/autosched/autosched/adapter/push"
	"github.com/autosched/autosched/api/agent"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// serve starts a service that tunes to other values in every round, and returns a connection.
func serve(t *testing.T) *server.Server {
	t.Helper()
	repo, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := controller.NewService(controller.Options{Store: repo,
		Decide: func(_ context.Context, in round.Input) (round.Decision, error) {
			c := in.Space.Default().With("starve_limit", space.Num(float64(3600+60*(in.Round%100))))
			return round.Decision{Config: c, Adopt: true, Reason: "test", Ratio: 1.2}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = service.Run(context.Background(), controller.Hooks{}) }()
	srv := server.New(server.Options{Service: service, Store: repo,
		Builtins: []controller.Builtin{{Name: s.Name, Params: s.Space.Params(), Rules: s.Space.Rules()}}})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Shutdown(ctx)
		service.Close()
		_ = repo.Close()
	})
	return srv
}

// Each fault shows at the service and in the report, and the emulation ends with every event sent
// stored.
func TestFaults(t *testing.T) {
	t.Parallel()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []workload.Job
	for i := range 8 * 60 {
		jobs = append(jobs, workload.Job{ID: fmt.Sprint("j", i), Submit: time.Duration(i) * time.Minute, User: "u",
			Duration: 10 * time.Minute, GPUs: workload.GPUs(1)})
	}
	w, err := workload.New("w", time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		faults    agent.Faults
		instances int
		want      func(agent.Instance, *agent.Report) bool
	}{
		"none": {agent.Faults{}, 2, func(i agent.Instance, _ *agent.Report) bool { return i.Applied > 1 }},
		"lag": {agent.Faults{Lag: time.Minute}, 1, func(i agent.Instance, _ *agent.Report) bool {
			return i.Applied > 1
		}},
		"partial": {agent.Faults{Partial: 1}, 1, func(i agent.Instance, _ *agent.Report) bool { return i.Partial > 0 }},
		"refuse":  {agent.Faults{Refuse: 1}, 1, func(i agent.Instance, _ *agent.Report) bool { return i.Refused > 0 }},
		"lie":     {agent.Faults{Lie: 1}, 2, func(i agent.Instance, _ *agent.Report) bool { return i.Lies > 0 }},
		"hang":    {agent.Faults{Hang: 1}, 1, func(i agent.Instance, _ *agent.Report) bool { return i.Hangs > 0 }},
		"crash": {agent.Faults{Crash: 1}, 2, func(i agent.Instance, _ *agent.Report) bool {
			return i.Crashes > 0 && i.Applied > 1
		}},
		"lose": {agent.Faults{Lose: 0.1}, 1, func(_ agent.Instance, r *agent.Report) bool {
			return r.Lost > 50 && r.Lost < 250
		}},
	} {
		emulates := func(t *testing.T, how string) {
			t.Parallel()
			// A slow machine needs more time for configurations to arrive.
			for _, speedup := range []float64{10_000, 1_000, 100} {
				r := emulate(t, how, agent.Options{Scheduler: s, Cluster: workload.Uniform(2, 8), Workload: w,
					Speedup: speedup, Instances: c.instances, Faults: c.faults})
				if len(r.Instances) != c.instances || r.Jobs != len(jobs) {
					t.Errorf("%+v", r)
				}
				if !slices.ContainsFunc(r.Instances, func(i agent.Instance) bool { return !c.want(i, r) }) {
					return
				}
				t.Logf("%g times as fast: %+v; %d events lost", speedup, r.Instances, r.Lost)
			}
			t.Error("the fault does not show")
		}
		for _, how := range []string{"watching", "called", "by file"} {
			if testing.Short() && name != "none" && name != "crash" && name != "lose" {
				continue // the others are answers of the same calls
			}
			t.Run(name+" "+how, func(t *testing.T) { emulates(t, how) })
		}
	}
}

// emulate runs an emulation to its end and checks that the service has every event that it answered, or received if
// it calls the scheduler.
func emulate(t *testing.T, how string, o agent.Options) *agent.Report {
	t.Helper()
	srv := serve(t)
	conn, err := srv.Connect("test", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	o.Conn, o.ID = conn, "x"
	o.Rollout = &pb.RolloutPolicy{UpdateInterval: durationpb.New(time.Hour)}
	called := how == "called"
	switch how {
	case "called":
		o.Conn, o.Addresses = nil, pushed(t, srv, conn, &o)
	case "by file":
		adapted(t, conn, &o)
	}
	r, err := agent.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	now := func() *pb.Scheduler {
		got, err := pb.NewTuningServiceClient(conn).GetScheduler(t.Context(),
			&pb.GetSchedulerRequest{Name: "schedulers/x"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := now()
	// The events of a called scheduler are stored soon.
	for end := time.Now().Add(2 * time.Minute); called && int(got.GetStatus().GetEventCount()) < r.Events &&
		time.Now().Before(end); got = now() {
		time.Sleep(10 * time.Millisecond)
	}
	// A crash loses answers about stored events.
	n := int(got.GetStatus().GetEventCount())
	if n < r.Events || n > r.Events && o.Faults.Crash == 0 {
		t.Errorf("the service has %d events, the report %d", n, r.Events)
	}
	if n := len(got.GetStatus().GetInstances()); n != o.Instances {
		t.Errorf("the service knows %d instances", n)
	}
	return r
}

// register registers the scheduler before its emulation does.
func register(t *testing.T, conn *grpc.ClientConn, o *agent.Options) {
	t.Helper()
	_, err := pb.NewTuningServiceClient(conn).CreateScheduler(t.Context(), &pb.CreateSchedulerRequest{
		SchedulerId: o.ID, Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: o.Scheduler.Name,
			Mode: pb.SchedulerSpec_AUTO, Rollout: o.Rollout, Cluster: &pb.Cluster{Nodes: int32(o.Cluster.Nodes()),
				GpusPerNode: int32(o.Cluster.GPUsPerNode())}}}})
	if err != nil {
		t.Fatal(err)
	}
}

// reloading is an emulated scheduler as its adapter reaches it.
type reloading struct{ signal chan<- os.Signal }

func (reloading) Check(context.Context, string) error { return nil }

func (r reloading) Reload(ctx context.Context, path string) error {
	running := path + ".running"
	if err := os.Remove(running); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case r.signal <- syscall.SIGHUP:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		text, err := os.ReadFile(running)
		switch {
		case err == nil && strings.HasPrefix(string(text), "# refused"):
			return fmt.Errorf("%w: %s", client.ErrRefused, text)
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (r reloading) Restore(ctx context.Context, path string) error { return r.Reload(ctx, path) }

func (r reloading) ReadBack(_ context.Context, path string) ([]byte, error) {
	return os.ReadFile(path + ".running")
}

// adapted registers the scheduler, and has an adapter write the file of each instance.
func adapted(t *testing.T, conn *grpc.ClientConn, o *agent.Options) {
	t.Helper()
	register(t, conn, o)
	signal := make(chan os.Signal)
	o.File = &agent.File{Path: filepath.Join(t.TempDir(), "options.yaml"), Reload: signal}
	ctx, cancel := context.WithCancel(t.Context())
	var adapters sync.WaitGroup
	for n := range o.Instances {
		path := o.File.Path
		if n > 0 {
			path = fmt.Sprint(path, ".", n+1)
		}
		driver, err := file.Open(file.Options{Path: path, Form: o.Scheduler.Form(), Target: reloading{signal}})
		if err != nil {
			t.Fatal(err)
		}
		s := &adapter.Session{Conn: conn, Scheduler: o.ID, Instance: agent.InstanceID(n), Driver: driver,
			Interval: 100 * time.Millisecond, Applied: func(*pb.Configuration, error) {}, Notify: func(error) {}}
		adapters.Go(func() { _ = s.Run(ctx) })
		t.Cleanup(func() { _ = driver.Close() })
	}
	t.Cleanup(adapters.Wait)
	t.Cleanup(cancel)
}

// pushed registers the scheduler, and has the service call its instances.
func pushed(t *testing.T, srv *server.Server, conn *grpc.ClientConn, o *agent.Options) (addresses []string) {
	t.Helper()
	register(t, conn, o)
	var agents []push.Agent
	for n := range o.Instances {
		addresses = append(addresses, testshared.FreeAddress(t))
		agents = append(agents, push.Agent{Scheduler: o.ID, Instance: agent.InstanceID(n), Deadline: time.Second,
			Endpoint: client.Endpoint{Address: addresses[n]}, Interval: 100 * time.Millisecond})
	}
	pusher, err := push.New(agents, func(string) (*grpc.ClientConn, error) { return srv.Connect("push", o.ID) },
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { pusher.Run(ctx); close(ended) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = pusher.Close()
	})
	return addresses
}
