package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/file"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/conformance"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func spaceOf(req *pb.CreateSchedulerRequest) (*space.Space, error) {
	s, err := schedulers.Find(req.GetScheduler().GetSpec().GetSchedulerType())
	if err != nil {
		return nil, err
	}
	return s.Space, nil
}

func registration(kind string) *pb.CreateSchedulerRequest {
	return &pb.CreateSchedulerRequest{SchedulerId: "x", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{
		SchedulerType: kind, Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8}}}}
}

// check runs the suite against a client, which is a function that is killed by its context.
func check(t *testing.T, o conformance.Options,
	run func(context.Context, *grpc.ClientConn)) map[string]conformance.Result {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Listener, o.Space = l, spaceOf
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	o.Start = func() (func(), error) {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx, conn)
		}()
		return func() {
			cancel()
			<-done
			_ = conn.Close()
		}, nil
	}
	results, err := conformance.Run(t.Context(), o)
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

// conforms wants every check to pass, but for skipped ones.
func conforms(t *testing.T, results map[string]conformance.Result, skipped ...string) {
	t.Helper()
	if len(results) < 20 {
		t.Errorf("%d checks ran", len(results))
	}
	outcomes(t, results, skipped...)
}

func outcomes(t *testing.T, results map[string]conformance.Result, skipped ...string) {
	t.Helper()
	for name, r := range results {
		want := conformance.Pass
		if slices.Contains(skipped, name) {
			want = conformance.Skipped
		}
		if r.Outcome != want {
			t.Errorf("%s: %s: %s", name, r.Outcome, r.Reason)
		}
	}
}

// scheduler is one that uses package client: it registers, sends events and a snapshot, refuses unknown
// values, and ends by its context.
func scheduler(t *testing.T, poll bool) func(context.Context, *grpc.ClientConn) {
	t.Helper()
	zero := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	n := 0 // across crashes, as a scheduler's clock
	return func(ctx context.Context, conn *grpc.ClientConn) {
		now := func() *timestamppb.Timestamp { n++; return timestamppb.New(zero.Add(time.Duration(n) * time.Second)) }
		c, err := client.New(client.Options{Conn: conn, Scheduler: "x", Instance: "a", Poll: poll,
			Apply: func(_ context.Context, c *pb.Configuration) (map[string]*structpb.Value, error) {
				if c.GetParameters()["no_such_parameter"] != nil {
					return nil, fmt.Errorf("%w: there is no such parameter", client.ErrRefused)
				}
				return nil, nil
			},
			Snapshot: func() *pb.Event {
				return &pb.Event{Kind: pb.Event_SNAPSHOT, SchedulerTime: timestamppb.New(zero)}
			}})
		if err != nil {
			t.Error(err)
			return
		}
		if _, _, err := c.Register(ctx, registration("fifo").Scheduler); err != nil {
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Run(ctx)
		}()
		defer func() { <-done }()
		for ctx.Err() == nil {
			id := fmt.Sprint("job-", n)
			job := &pb.JobDetails{JobId: id, MilliGpus: 1000}
			events := []*pb.Event{
				{EventId: id + "-1", Kind: pb.Event_SUBMITTED, SchedulerTime: now(), Job: job},
				{EventId: id + "-2", Kind: pb.Event_STARTED, SchedulerTime: now(), Job: job},
				{EventId: id + "-3", Kind: pb.Event_FINISHED, SchedulerTime: now(), Job: job}}
			slices.Reverse(events) // any order
			c.Offer(events...)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// TestClient: package client conforms, by watch and by polls.
func TestClient(t *testing.T) {
	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		conforms(t, check(t, conformance.Options{}, scheduler(t, false)), "partial")
	})
	t.Run("poll", func(t *testing.T) {
		t.Parallel()
		conforms(t, check(t, conformance.Options{}, scheduler(t, true)), "partial", "repeated")
	})
}

// TestFileAdapter: the adapter of configuration files conforms, also if it is killed.
func TestFileAdapter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "options.yaml")
	conforms(t, check(t, conformance.Options{Registered: registration("lucid")},
		func(ctx context.Context, conn *grpc.ClientConn) {
			d, err := file.Open(file.Options{Path: path, Form: schedulers.FormOf("lucid")})
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			s := adapter.Session{Conn: conn, Scheduler: "x", Driver: d, Interval: time.Hour,
				Applied: func(*pb.Configuration, error) {}, Notify: func(error) {}}
			_ = s.Run(ctx)
		}), "register", "partial", "events", "events-resent", "events-late", "lives", "snapshots")
}

// faulty is a client that is killed by its context. The suite waits for it with patience.
type faulty func(ctx context.Context, conn *grpc.ClientConn, patience time.Duration)

// impatient is a client that ends when an answer is late: to an acknowledgement or to events.
func impatient(acknowledges bool) faulty {
	return func(ctx context.Context, conn *grpc.ClientConn, patience time.Duration) {
		limit := min(patience/20, 2*time.Second) / 2 // half the time that the suite takes
		config := pb.NewConfigurationServiceClient(conn)
		n := 0
		send := func() error {
			n++
			call, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			s, err := pb.NewTuningServiceClient(conn).IngestEvents(call)
			if err == nil {
				err = s.Send(&pb.IngestEventsRequest{Parent: "schedulers/x",
					Events: []*pb.Event{{EventId: fmt.Sprint(n), Kind: pb.Event_HEARTBEAT}}})
			}
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}
		err := send()
		w, failed := config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/x",
			SendInitialEvents: true})
		for err = errors.Join(err, failed); err == nil; {
			var m *pb.WatchConfigurationsResponse
			if m, err = w.Recv(); m.GetConfiguration() == nil {
				continue
			}
			call, cancel := context.WithTimeout(ctx, limit)
			_, err = config.AcknowledgeConfiguration(call, &pb.AcknowledgeConfigurationRequest{
				Name:            m.GetConfiguration().GetName(),
				Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}})
			cancel()
			if err == nil && !acknowledges {
				break
			}
		}
		for err == nil {
			err = send()
		}
		<-ctx.Done()
	}
}

// TestFaults: a client's faults are found. On a slow machine that takes patience.
func TestFaults(t *testing.T) {
	t.Parallel()
	answer := func(change func(*pb.AcknowledgeConfigurationRequest)) faulty {
		return func(ctx context.Context, conn *grpc.ClientConn, _ time.Duration) {
			config := pb.NewConfigurationServiceClient(conn)
			for ctx.Err() == nil {
				w, err := config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/x",
					SendInitialEvents: true}, grpc.WaitForReady(true))
				for err == nil {
					var m *pb.WatchConfigurationsResponse
					if m, err = w.Recv(); m.GetConfiguration() == nil {
						continue
					}
					c := m.GetConfiguration()
					req := &pb.AcknowledgeConfigurationRequest{Name: c.GetName(), ContentHash: c.GetContentHash(),
						Epoch: c.GetEpoch(), Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}}
					change(req)
					if _, err := config.AcknowledgeConfiguration(ctx, req); ctx.Err() == nil && err != nil {
						continue // and does not try again
					}
				}
			}
		}
	}
	late := func(*pb.AcknowledgeConfigurationRequest) { time.Sleep(300 * time.Millisecond) }
	state := func(s pb.Acknowledgement_State) func(*pb.AcknowledgeConfigurationRequest) {
		return func(r *pb.AcknowledgeConfigurationRequest) { r.Acknowledgement.State = s }
	}
	for _, c := range []struct {
		name   string
		run    faulty
		check  string
		reason string
		skips  bool
	}{
		{"idle", func(ctx context.Context, _ *grpc.ClientConn, _ time.Duration) { <-ctx.Done() }, "follow",
			"no watch or poll", false},
		{"fails", answer(state(pb.Acknowledgement_FAILED)), "apply-first", "but FAILED", false},
		{"once", answer(func(*pb.AcknowledgeConfigurationRequest) {}), "retry-acknowledgement",
			"no second acknowledgement", false},
		{"late", answer(late), "deadline", "and acknowledge_deadline is 100ms", false},
		{"impatient", impatient(true), "late-answer", "no acknowledgement", false},
		{"impatient with events", impatient(false), "events-late", "no events after those", false},
		{"any epoch", answer(func(*pb.AcknowledgeConfigurationRequest) {}), "former-epoch", "of counter 2", false},
		{"takes all", answer(func(*pb.AcknowledgeConfigurationRequest) {}), "refuse", "name values", true},
		{"hash", answer(func(r *pb.AcknowledgeConfigurationRequest) { r.ContentHash = "x" }), "acknowledgements",
			"content_hash is x", false},
		{"instance", answer(func(r *pb.AcknowledgeConfigurationRequest) { r.Acknowledgement.InstanceId = "y" }),
			"acknowledgements", `instance_id is "y"`, false},
		{"values", answer(func(r *pb.AcknowledgeConfigurationRequest) {
			r.Acknowledgement.EffectiveParameters = map[string]*structpb.Value{"backfill": structpb.NewNumberValue(7)}
		}), "acknowledgements", "backfill is", false},
		{"partial", answer(state(pb.Acknowledgement_PARTIALLY_APPLIED)), "partial", "no value differs", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			only := []string{c.check}
			if c.check == "former-epoch" {
				only = append(only, "new-epoch")
			}
			registered := registration("fifo")
			registered.Scheduler.Spec.Rollout = &pb.RolloutPolicy{
				AcknowledgeDeadline: durationpb.New(100 * time.Millisecond)}
			want := conformance.Fail
			if c.skips {
				want = conformance.Skipped
			}
			var r conformance.Result
			for _, patience := range []time.Duration{4 * time.Second, time.Minute} {
				r = check(t, conformance.Options{Registered: registered, Patience: patience, Only: only},
					func(ctx context.Context, conn *grpc.ClientConn) { c.run(ctx, conn, patience) })[c.check]
				if r.Outcome == want && strings.Contains(r.Reason, c.reason) {
					return
				}
			}
			t.Errorf("%s: %s: %s", c.check, r.Outcome, r.Reason)
		})
	}
	t.Run("late and allowed", func(t *testing.T) {
		t.Parallel()
		r := check(t, conformance.Options{Registered: registration("fifo"), Only: []string{"deadline"}},
			func(ctx context.Context, conn *grpc.ClientConn) { answer(late)(ctx, conn, 0) })
		outcomes(t, r, "register")
	})
	_, err := conformance.Run(t.Context(), conformance.Options{Registered: registration("none"), Space: spaceOf})
	if err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
