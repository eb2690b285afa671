package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
)

// limited starts a service with limits and a clock that stands still, on which schedulers a and b
// are registered.
func limited(t *testing.T, l rpc.Limits) *fixture {
	t.Helper()
	at := time.Unix(1, 0)
	f := serveWith(t, t.TempDir(), controller.Options{Decide: keep}, Options{
		Builtins: []controller.Builtin{testBuiltin}, Limits: l, Now: func() time.Time { return at }})
	f.create("a", pb.SchedulerSpec_AUTO)
	f.create("b", pb.SchedulerSpec_AUTO)
	return f
}

// beyond checks that an error names a limit, says when to try again, and is counted.
func beyond(t *testing.T, f *fixture, limit string, err error) {
	t.Helper()
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if status.Code(err) != codes.ResourceExhausted || info.GetMetadata()["limit"] != limit ||
		retry.GetRetryDelay().AsDuration() <= 0 {
		t.Fatalf("beyond %s: %v, %v, %v", limit, err, info, retry)
	}
	families, err := f.server.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "autosched_quota_refusals_total" && m.GetLabel()[0].GetValue() == limit {
				return
			}
		}
	}
	t.Errorf("refusals by %s are not counted", limit)
}

func TestLimitOfSchedulers(t *testing.T) {
	for _, l := range []rpc.Limits{{Schedulers: 3}, {SchedulersPerCaller: 3}} {
		f := limited(t, l)
		f.create("c", pb.SchedulerSpec_AUTO)
		name := "limit-schedulers"
		if l.Schedulers == 0 {
			name += "-per-caller"
		}
		_, err := f.tuning.CreateScheduler(background(t), request("d", pb.SchedulerSpec_AUTO))
		beyond(t, f, name, err)
		if _, err = f.tuning.CreateScheduler(background(t), request("a", pb.SchedulerSpec_AUTO)); status.Code(err) !=
			codes.AlreadyExists {
			t.Error(err)
		}
	}
}

// A refusal by one limit does not count for another one.
func TestRefusedEventsCountForNoLimit(t *testing.T) {
	q := rpc.NewQuota(rpc.Limits{Events: 5, EventsPerCaller: 4}, func() time.Time { return time.Unix(1, 0) })
	as := func(name string) context.Context {
		return access.NewContext(context.Background(), access.Caller{Name: name})
	}
	if err := q.TakeEvents(as("x"), "a", 3); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := q.TakeEvents(as("x"), "a", 2); err == nil || !strings.Contains(err.Error(), "per-caller") {
			t.Fatal(err)
		}
	}
	if err := q.TakeEvents(as("y"), "a", 2); err != nil {
		t.Error(err)
	}
	if err := q.TakeEvents(as("x"), "b", 1); err != nil {
		t.Error(err)
	}
}

// TestLimitOfSamples: telemetry of one scheduler beyond its share is refused, and that of a deleted one (N3, N15).
func TestLimitOfSamples(t *testing.T) {
	f := limited(t, rpc.Limits{Samples: 2})
	c := pb.NewTelemetryServiceClient(f.conn)
	send := func(id string) error {
		_, err := c.IngestTelemetry(background(t), &pb.IngestTelemetryRequest{Parent: "schedulers/" + id,
			Samples: []*pb.GpuSample{gpuSample("n", 0)}})
		return err
	}
	for range 2 {
		if err := send("a"); err != nil {
			t.Fatal(err)
		}
	}
	beyond(t, f, "limit-samples", send("a"))
	if err := send("b"); err != nil { // others have theirs
		t.Error(err)
	}
	if _, err := f.tuning.DeleteScheduler(background(t), &pb.DeleteSchedulerRequest{Name: "schedulers/b"}); err != nil {
		t.Fatal(err)
	}
	if err := send("b"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("telemetry of a deleted scheduler: %v", err)
	}
}

// TestAnonymousStreams: streams without an identity are bounded, in all and of an address (N6).
func TestAnonymousStreams(t *testing.T) {
	f := limited(t, rpc.Limits{})
	watch := func() (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(background(t))
		stream, err := healthpb.NewHealthClient(f.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, err
	}
	n := 0
	for ; ; n++ {
		cancel, err := watch()
		defer cancel()
		if err != nil {
			beyond(t, f, "anonymous-streams-of", err)
			break
		}
	}
	if n < 10 || n > 200 {
		t.Errorf("%d streams without an identity", n)
	}
	if _, err := f.tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/a"}); err != nil {
		t.Errorf("a caller meanwhile: %v", err)
	}
}

func TestLimitOfAcknowledgements(t *testing.T) {
	f := limited(t, rpc.Limits{Acknowledgements: 2})
	ack := func(id, instance string) error {
		_, err := f.config.AcknowledgeConfiguration(background(t), &pb.AcknowledgeConfigurationRequest{
			Name:            "schedulers/" + id + "/configurations/1",
			Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED, InstanceId: instance}})
		return err
	}
	for _, instance := range []string{"i", "j"} {
		if err := ack("a", instance); err != nil {
			t.Fatal(err)
		}
	}
	beyond(t, f, "limit-acknowledgements", ack("a", "k"))
	if err := ack("b", "i"); err != nil { // others have theirs
		t.Error(err)
	}
}

func TestLimitOfEvents(t *testing.T) {
	for _, l := range []rpc.Limits{{Events: 3}, {EventsPerCaller: 4}} {
		f := limited(t, l)
		send := func(id string, events ...*pb.Event) error {
			stream, err := f.tuning.IngestEvents(background(t))
			if err == nil {
				err = stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/" + id, Events: events})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}
		for _, id := range []string{"1", "2", "3"} {
			if err := send("a", submitted(id, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := send("b", submitted("1", 0)); err != nil { // others have theirs
			t.Error(err)
		}
		if l.Events > 0 {
			beyond(t, f, "limit-events", send("a", submitted("4", 0)))
		} else {
			beyond(t, f, "limit-events-per-caller", send("a", submitted("4", 0)))
		}
		many := []*pb.Event{submitted("5", 0), submitted("6", 0), submitted("7", 0), submitted("8", 0),
			submitted("9", 0)}
		if err := send("a", many...); !strings.Contains(err.Error(), "ask for less at a time") {
			t.Error(err)
		}
	}
}

func TestLimitOfStreamsAndWatches(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for name, l := range map[string]rpc.Limits{
		"limit-streams": {Streams: 2}, "limit-streams-per-caller": {StreamsPerCaller: 3},
		"limit-watches": {Watches: 2}, "limit-watches-per-caller": {WatchesPerCaller: 3}} {
		t.Run(name, func(t *testing.T) {
			f := limited(t, l)
			var cuts []context.CancelFunc
			open := func(id string) error {
				ctx, cancel := context.WithCancel(background(t))
				cuts = append(cuts, cancel)
				if strings.Contains(name, "watches") {
					stream, err := f.config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{
						Parent: "schedulers/" + id})
					if err == nil {
						_, err = stream.Recv()
					}
					return err
				}
				stream, err := f.tuning.IngestEvents(ctx)
				if err == nil {
					err = stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/" + id})
				}
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			}
			for _, id := range []string{"a", "a", "b"} {
				if err := open(id); err != nil {
					t.Fatal(err)
				}
			}
			beyond(t, f, name, open("a"))
			cuts[0]()
			began := time.Now()
			for open("a") != nil { // once the service noticed
				if time.Since(began) > 2*time.Minute {
					t.Fatal("a stream that ended still counts")
				}
			}
			for _, cut := range cuts {
				cut()
			}
		})
	}
}

func TestLimitOfRequests(t *testing.T) {
	f := limited(t, rpc.Limits{Requests: 5}) // two registered the schedulers
	get := func() error {
		_, err := f.tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/a"})
		return err
	}
	for range 3 {
		if err := get(); err != nil {
			t.Fatal(err)
		}
	}
	beyond(t, f, "limit-requests", get())
}

func TestLimitOfMessages(t *testing.T) {
	f := limited(t, rpc.Limits{Message: 1000})
	get := func(n int) error {
		_, err := f.tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: strings.Repeat("x", n)})
		return err
	}
	if err := get(900); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	if err := get(1001); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// TestQuestionsOfACaller (N14): questions that wait leave room for those of other callers.
func TestQuestionsOfACaller(t *testing.T) {
	f := limited(t, rpc.Limits{})
	var leave []func()
	for {
		left, err := f.server.quota.Question(access.Caller{})
		if err != nil {
			break
		}
		leave = append(leave, left)
	}
	if _, err := f.server.quota.Question(access.Caller{Name: "other"}); err != nil || len(leave) == 0 {
		t.Errorf("%d questions, and of another caller: %v", len(leave), err)
	}
	ask := pb.NewExplanationServiceClient(f.conn)
	ctx, name := t.Context(), "schedulers/a"
	for method, call := range map[string]func() error{
		"WhatIf": func() error {
			_, err := ask.WhatIf(ctx, &pb.WhatIfRequest{Name: name})
			return err
		},
		"ExplainConfiguration": func() error {
			_, err := ask.ExplainConfiguration(ctx, &pb.ExplainConfigurationRequest{Name: name + "/configurations/1"})
			return err
		},
		"GetCausalModel": func() error {
			_, err := ask.GetCausalModel(ctx, &pb.GetCausalModelRequest{Name: name + "/causalModel"})
			return err
		},
	} {
		beyond(t, f, "questions-per-caller", call())
		leave[0]()
		if err := call(); status.Code(err) == codes.ResourceExhausted {
			t.Errorf("%s after a question was answered: %v", method, err)
		}
		leave[0], _ = f.server.quota.Question(access.Caller{})
	}
}
