package server

import (
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
)

// testBuiltin has a parameter and a rule of every kind.
var testBuiltin = controller.Builtin{
	Name: "test",
	Params: []space.Param{
		{ID: "queues", Module: "scheduling", Kind: space.KindInt, Min: 1, Max: 6, Default: space.Int(3)},
		{ID: "thresholds", Kind: space.KindFloat, Min: 60, Max: 1e6, Log: true,
			Array: &space.Array{Length: "queues", Offset: -1, Max: 5}, Default: space.Nums(3250, 7200)},
		{ID: "order", Kind: space.KindCategorical, Categories: []string{"submit", "running_first"},
			Default: space.Text("submit")},
		{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)},
		{ID: "limit", Kind: space.KindFloat, Min: 0.1, Max: 1, Default: space.Num(0.5)},
		{ID: "starve", Kind: space.KindDuration, Min: 60, Max: 86400, Special: []space.Special{{Value: 0, Name: "off"}},
			Default: space.Num(0)},
		{ID: "effort", Kind: space.KindOrdinal, Categories: []string{"low", "mid", "high"}, Default: space.Text("mid")},
	},
	Rules: []space.Rule{
		{ID: "increase", Ordering: &space.Ordering{Params: []string{"thresholds"}}},
		{ID: "limit_if_pack", Activation: &space.Activation{Param: "limit", When: "pack",
			Op: space.Equal, Value: space.Bool(true)}},
		{ID: "budget", Linear: &space.Linear{Terms: []space.Term{{Param: "queues", Coefficient: 0.1},
			{Param: "limit", Coefficient: 1}}, Max: 1.2}},
		{ID: "lazy_packing", Forbidden: &space.Forbidden{All: []space.Condition{
			{Param: "pack", Op: space.Equal, Value: space.Bool(true)},
			{Param: "effort", Op: space.LessEqual, Value: space.Text("low")},
			{Param: "order", Op: space.In, Values: []space.Value{space.Text("submit")}}}}},
	},
}

type fixture struct {
	t      *testing.T
	server *Server
	tuning pb.TuningServiceClient
	config pb.ConfigurationServiceClient
	conn   *grpc.ClientConn
	stop   func()
	// studies is the keeper of the server.
	studies *studies.Service
}

// serve starts a service with the built-in scheduler test. decide decides its rounds; nil adopts packing.
func serve(t *testing.T, decide round.DecideFunc) *fixture {
	t.Helper()
	if decide == nil {
		decide = func(_ context.Context, in round.Input) (round.Decision, error) {
			return round.Decision{Config: in.Incumbent.With("pack", space.Bool(true)).With("limit", space.Num(0.5)),
				Adopt: true, Reason: "packed is better", Ratio: 1.5}, nil
		}
	}
	return serveWith(t, t.TempDir(), controller.Options{Decide: decide},
		Options{Builtins: []controller.Builtin{testBuiltin}})
}

// serveWith starts a service on the data in a directory.
func serveWith(t *testing.T, dir string, co controller.Options, so Options) *fixture {
	t.Helper()
	storeOptions := store.Options{}
	if co.NewID != nil {
		began := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		storeOptions = store.Options{NewID: func() string { return "epoch-1" }, Now: func() time.Time { return began }}
	}
	repo, err := stores.Open(dir, storeOptions)
	if err != nil {
		t.Fatal(err)
	}
	co.Store = repo
	service, err := controller.NewService(co)
	if err != nil {
		t.Fatal(err)
	}
	so.Service, so.Store = service, repo
	so.Studies, err = studies.New(studies.Options{Store: repo, Schedulers: service, Now: co.Now, NewID: co.NewID})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := samples.Open(filepath.Join(dir, "telemetry"), samples.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	so.Samples = kept
	so.Findings = findings.Open(findings.Options{Dir: filepath.Join(dir, "findings"), Now: so.Now})
	so.Reports = reports.New(reports.Options{Store: repo, Schedulers: service})
	if so.Workloads, err = workloads.New(workloads.Options{Store: repo, Schedulers: service, Now: co.Now,
		NewID: co.NewID}); err != nil {
		t.Fatal(err)
	}
	s := New(so)
	stopParts := start(so, s)
	<-service.Rebuilt()
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, server: s, conn: conn, tuning: pb.NewTuningServiceClient(conn),
		config: pb.NewConfigurationServiceClient(conn), studies: so.Studies}
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		stopParts()
		_ = conn.Close()
		if err := repo.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(f.stop)
	return f
}

// start runs the parts of a service beside a server, which stop ends. The controller ends last.
func start(o Options, s *Server) (stop func()) {
	kept, _ := o.Samples.(*samples.Store)
	found, _ := o.Findings.(*findings.Keeper)
	repo, _ := o.Store.(stores.Store)
	var stops []func()
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error {
			h := controller.Hooks{Purged: func(id string) {
				if o.Studies != nil {
					o.Studies.Forget(id)
					o.Workloads.Forget(id)
					o.Reports.Forget(id)
					_ = kept.Forget(id)
				}
				if found != nil {
					_ = found.Forget(id)
				}
				s.Forget(id)
			}}
			if found != nil {
				h.Events, h.Look = found.Events, found.Look
			}
			if o.Studies != nil {
				h.Trials = o.Studies.Trials
			}
			return o.Service.Run(ctx, h)
		},
		func(ctx context.Context) error {
			if o.Studies == nil {
				return nil
			}
			return o.Studies.Run(ctx)
		},
		func(ctx context.Context) error {
			if found == nil {
				return nil
			}
			return found.Run(ctx, &findings.Stored{Service: o.Service, Log: repo, Kept: kept})
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- part(ctx) }()
		stops = append(stops, func() {
			cancel()
			<-ended
		})
	}
	return func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	}
}

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func request(id string, mode pb.SchedulerSpec_Mode) *pb.CreateSchedulerRequest {
	return &pb.CreateSchedulerRequest{SchedulerId: id, Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{
		SchedulerType: "test", Cluster: &pb.Cluster{Nodes: 10, GpusPerNode: 8}, Mode: mode,
		Rollout: &pb.RolloutPolicy{AllowedLateness: durationpb.New(-1)},
	}}}
}

func (f *fixture) create(id string, mode pb.SchedulerSpec_Mode) *pb.Scheduler {
	f.t.Helper()
	s, err := f.tuning.CreateScheduler(background(f.t), request(id, mode))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// patience bounds waits that take milliseconds unless the machine is busy.
const patience = 2 * time.Minute

// waitRounds waits until a scheduler has had n rounds.
func (f *fixture) waitRounds(id string, n int64) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, st, err := f.server.service.Scheduler(id)
		if err != nil {
			f.t.Fatal(err)
		}
		if st.Rounds >= n {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d rounds, want %d", st.Rounds, n)
		}
	}
}

// ingest sends one batch and returns the answer.
func (f *fixture) ingest(id string, events ...*pb.Event) *pb.IngestEventsResponse {
	f.t.Helper()
	stream, err := f.tuning.IngestEvents(background(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/" + id, Sequence: 7,
		Events: events}); err != nil {
		f.t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		f.t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		f.t.Fatal(err)
	}
	if answer.GetSequence() != 7 {
		f.t.Errorf("answer to request %d", answer.GetSequence())
	}
	return answer
}

func submitted(id string, at time.Duration) *pb.Event {
	return &pb.Event{
		EventId: id, Kind: pb.Event_SUBMITTED,
		SchedulerTime: timestamppb.New(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(at)),
		Job:           &pb.JobDetails{JobId: "j" + id, MilliGpus: 1000},
	}
}

// fields are the field paths of an InvalidArgument error.
func fields(t *testing.T, err error) []string {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument {
		t.Fatalf("error %v, want InvalidArgument", err)
	}
	var out []string
	for _, d := range st.Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range b.GetFieldViolations() {
				out = append(out, v.GetField())
			}
		}
	}
	return out
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("error %v, want %v", err, code)
	}
}

func TestSchedulerSpecRoundTrip(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	got := f.create("a", pb.SchedulerSpec_AUTO)
	if len(got.GetSpec().GetParameters()) != len(testBuiltin.Params) ||
		len(got.GetSpec().GetConstraints()) != len(testBuiltin.Rules) {
		t.Fatalf("spec %v", got.GetSpec())
	}
	if got.GetSpec().GetObjective().GetMetricId() != "avg_jct" ||
		got.GetSpec().GetRollout().GetGuard() != round.DefaultSettings().Guard ||
		got.GetSpec().GetRollout().GetAdoption() != "daily" ||
		got.GetCurrentConfiguration() != "schedulers/a/configurations/1" {
		t.Errorf("defaults are not filled in: %v", got)
	}
	// The answer of the service registers the same again.
	second, err := f.tuning.CreateScheduler(ctx,
		&pb.CreateSchedulerRequest{SchedulerId: "b", Scheduler: &pb.Scheduler{Spec: got.GetSpec()}})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(second.GetSpec(), got.GetSpec()) {
		t.Errorf("registered again:\n%s\nwas\n%s", protojson.Format(second.GetSpec()), protojson.Format(got.GetSpec()))
	}
}

// The simulation of the service is recorded at a registration that names none.
func TestSimulationDefaults(t *testing.T) {
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline}, Options{
		Builtins:   []controller.Builtin{testBuiltin},
		Simulation: controller.Simulation{MaxPreemptions: 2, MinRun: time.Minute},
	})
	got := f.create("a", pb.SchedulerSpec_AUTO).GetSpec().GetSimulation()
	if got.GetMaxPreemptions() != 2 || got.GetMinRun().AsDuration() != time.Minute || got.GetModels() != nil {
		t.Errorf("recorded %v", got)
	}
	r := request("b", pb.SchedulerSpec_AUTO)
	r.Scheduler.Spec.Simulation = &pb.Simulation{MaxPreemptions: 5}
	other, err := f.tuning.CreateScheduler(background(t), r)
	if err != nil || !proto.Equal(other.GetSpec().GetSimulation(), r.Scheduler.Spec.Simulation) {
		t.Errorf("%v, %v", other.GetSpec().GetSimulation(), err)
	}
}

func TestBadFieldsAreNamed(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	number := structpb.NewNumberValue
	integer := func(id string, lo, hi int64, def float64) *pb.ParameterSpec {
		return &pb.ParameterSpec{ParameterId: id, DefaultValue: number(def),
			ParameterValueSpec: &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{MinValue: lo,
				MaxValue: hi}}}
	}
	thresholds := func(length string, lo float64) *pb.ParameterSpec {
		list, _ := structpb.NewList([]any{3250.0, 7200.0})
		return &pb.ParameterSpec{ParameterId: "thresholds", DefaultValue: structpb.NewListValue(list),
			ParameterValueSpec: &pb.ParameterSpec_ArraySpec{ArraySpec: &pb.ArraySpec{
				LengthParameterId: length, LengthOffset: -1, MaxLength: 5,
				ElementValueSpec: &pb.ArraySpec_DoubleValueSpec{DoubleValueSpec: &pb.DoubleValueSpec{MinValue: lo,
					MaxValue: 1e6}},
			}}}
	}
	params := func(p ...*pb.ParameterSpec) func(*pb.CreateSchedulerRequest) {
		return func(r *pb.CreateSchedulerRequest) { r.Scheduler.Spec.Parameters = p }
	}
	for _, c := range []struct {
		name string
		edit func(r *pb.CreateSchedulerRequest)
		want string
	}{
		{"id", func(r *pb.CreateSchedulerRequest) { r.SchedulerId = "Upper" }, "scheduler_id"},
		{"no spec", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler = nil
		}, "scheduler.spec.cluster.nodes scheduler.spec.cluster.gpus_per_node scheduler.spec.scheduler_type"},
		{"type", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.SchedulerType = "x"
		}, "scheduler.spec.scheduler_type"},
		{"objective", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "fun"}}
		}, "scheduler.spec.objective.metric_id"},
		{"goal", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: "avg_jct subject " +
				"to fun<=1"}}
		}, "scheduler.spec.objective.goal"},
		{"long goal", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: strings.Repeat(
				"avg_jct + ", 200)}}
		}, "scheduler.spec.objective.goal"},
		{"rollout", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{UpdateInterval: durationpb.New(time.Second),
				Futures: -1, Guard: math.Inf(-1), Adoption: "never"}
		}, "scheduler.spec.rollout.update_interval scheduler.spec.rollout.guard scheduler.spec.rollout.adoption " +
			"scheduler.spec.rollout.futures"},
		{"guard", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{Guard: math.NaN()}
		}, "scheduler.spec.rollout.guard"},
		{"limits", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{MaxChangesPerDay: proto.Int32(-1),
				FlapWindow: durationpb.New(-time.Second), RollbackHold: durationpb.New(1000 * time.Hour),
				QuietHours: []*pb.QuietHours{{Start: "22:00", End: "06:00"}, {Start: "22:00", End: "6"}}}
		}, "scheduler.spec.rollout.max_changes_per_day scheduler.spec.rollout.flap_window " +
			"scheduler.spec.rollout.rollback_hold scheduler.spec.rollout.quiet_hours[1]"},
		{"quiet hours", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{QuietHours: make([]*pb.QuietHours, 21)}
		}, "scheduler.spec.rollout.quiet_hours"},
		{"beyond the built-in", params(integer("queues", 0, 9, 3)),
			"scheduler.spec.parameters[0].integer_value_spec.min_value " +
				"scheduler.spec.parameters[0].integer_value_spec.max_value"},
		{"upside down", params(thresholds("queues", 60), integer("queues", 5, 3, 3)),
			"scheduler.spec.parameters[1].integer_value_spec.max_value"},
		{"default", params(integer("queues", 1, 3, 4)), "scheduler.spec.parameters[0].default_value"},
		{"no default", params(&pb.ParameterSpec{ParameterId: "pack",
			ParameterValueSpec: &pb.ParameterSpec_BooleanValueSpec{}}), "scheduler.spec.parameters[0].default_value"},
		{"unknown parameter", params(integer("quues", 1, 3, 3)), "scheduler.spec.parameters[0].parameter_id"},
		{"twice", params(integer("queues", 1, 3, 3), integer("queues", 1, 3, 3)),
			"scheduler.spec.parameters[1].parameter_id"},
		{"another kind", params(integer("order", 1, 3, 3)), "scheduler.spec.parameters[0].integer_value_spec"},
		{"no kind", params(&pb.ParameterSpec{ParameterId: "queues"}),
			"scheduler.spec.parameters[0].parameter_value_spec"},
		{"array", params(thresholds("order", 1)),
			"scheduler.spec.parameters[0].array_spec.double_value_spec.min_value " +
				"scheduler.spec.parameters[0].array_spec.length_parameter_id"},
		{"category", params(&pb.ParameterSpec{ParameterId: "order", DefaultValue: structpb.NewStringValue("lifo"),
			ParameterValueSpec: &pb.ParameterSpec_CategoricalValueSpec{CategoricalValueSpec: &pb.CategoricalValueSpec{Values: []string{"submit", "lifo"}}}}),
			"scheduler.spec.parameters[0].categorical_value_spec.values[1]"},
		{"rule", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Constraints = []*pb.DependencyConstraint{
				{ConstraintId: "x",
					Rule: &pb.DependencyConstraint_Activation{Activation: &pb.ActivationRule{ParameterId: "order",
						WhenParameterId: "nothing", Operator: pb.ActivationRule_EQUAL}}},
				{ConstraintId: "increase",
					Rule: &pb.DependencyConstraint_Ordering{Ordering: &pb.OrderingRule{
						ParameterIds: []string{"thresholds"}, MinGap: 5}}},
			}
		}, "scheduler.spec.constraints[0].activation.when_parameter_id " +
			"scheduler.spec.constraints[1].constraint_id scheduler.spec.constraints[1].ordering.parameter_ids[0] " +
			"scheduler.spec.constraints[1].ordering.parameter_ids"},
		{"the order of an ordinal",
			params(&pb.ParameterSpec{ParameterId: "effort", DefaultValue: structpb.NewStringValue("mid"),
				ParameterValueSpec: &pb.ParameterSpec_OrdinalValueSpec{OrdinalValueSpec: &pb.OrdinalValueSpec{Values: []string{"mid", "low"}}}}),
			"scheduler.spec.parameters[0].ordinal_value_spec.values"},
		{"linear and forbidden", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Constraints = []*pb.DependencyConstraint{
				{ConstraintId: "l",
					Rule: &pb.DependencyConstraint_Linear{Linear: &pb.LinearRule{Terms: []*pb.LinearRule_Term{{ParameterId: "order", Coefficient: 1}, {ParameterId: "limit"}}}}},
				{ConstraintId: "f",
					Rule: &pb.DependencyConstraint_Forbidden{Forbidden: &pb.ForbiddenClause{
						Conditions: []*pb.ForbiddenClause_Condition{
							{ParameterId: "effort",
								Operator: pb.ActivationRule_LESS, Value: structpb.NewStringValue("huge")},
							{ParameterId: "x", Operator: pb.ActivationRule_EQUAL}, {ParameterId: "pack"}}}}},
				{ConstraintId: "n"},
			}
		}, "scheduler.spec.constraints[2].rule"},
		{"linear and forbidden", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Constraints = []*pb.DependencyConstraint{
				{ConstraintId: "l",
					Rule: &pb.DependencyConstraint_Linear{Linear: &pb.LinearRule{Terms: []*pb.LinearRule_Term{{ParameterId: "order", Coefficient: 1}, {ParameterId: "limit"}}}}},
				{ConstraintId: "f",
					Rule: &pb.DependencyConstraint_Forbidden{Forbidden: &pb.ForbiddenClause{
						Conditions: []*pb.ForbiddenClause_Condition{
							{ParameterId: "effort",
								Operator: pb.ActivationRule_LESS, Value: structpb.NewStringValue("huge")},
							{ParameterId: "x", Operator: pb.ActivationRule_EQUAL}, {ParameterId: "pack"}}}}},
			}
		}, "scheduler.spec.constraints[0].linear.terms[0].parameter_id " +
			"scheduler.spec.constraints[0].linear.terms[1].coefficient " +
			"scheduler.spec.constraints[1].forbidden.conditions[0].value" +
			" scheduler.spec.constraints[1].forbidden.conditions[1].parameter_id " +
			"scheduler.spec.constraints[1].forbidden.conditions[2].operator"},
		{"a costly round", func(r *pb.CreateSchedulerRequest) { // each is within its own bounds
			r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{TrialBudget: 10_000, Futures: 64,
				Horizon: durationpb.New(7 * 24 * time.Hour)}
		}, "scheduler.spec.rollout.trial_budget"},
		{"a weight beyond all", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{Weight: 11}
		}, "scheduler.spec.rollout.weight"},
		{"a contradiction", func(r *pb.CreateSchedulerRequest) {
			r.Scheduler.Spec.Constraints = []*pb.DependencyConstraint{{ConstraintId: "l",
				Rule: &pb.DependencyConstraint_Linear{Linear: &pb.LinearRule{
					Terms: []*pb.LinearRule_Term{{ParameterId: "queues", Coefficient: 1}}}}}}
		}, "scheduler.spec.parameters"},
		{"built-in parts that no longer fit", params(integer("queues", 2, 3, 2)), "scheduler.spec.parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("x", pb.SchedulerSpec_AUTO)
			c.edit(r)
			_, err := f.tuning.CreateScheduler(ctx, r)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.Join(fields(t, err), " "); got != c.want {
				t.Errorf("fields %s\nwant %s\n%v", got, c.want, err)
			}
		})
	}
	if got, err := f.tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{}); err != nil ||
		len(got.GetSchedulers()) != 0 {
		t.Errorf("something was stored: %v, %v", got, err)
	}
}

// A deleted scheduler is listed on request only, its watch ends, and an etag guards the request.
func TestDeleteScheduler(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	made := f.create("s", pb.SchedulerSpec_AUTO)
	f.create("t", pb.SchedulerSpec_AUTO)
	stream, err := f.config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: made.GetName()})
	if err == nil {
		_, err = stream.Recv() // the bookmark
	}
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, codes.Aborted, "", func() error {
		_, err := f.tuning.DeleteScheduler(ctx, &pb.DeleteSchedulerRequest{Name: made.GetName(), Etag: "other"})
		return err
	})
	got, err := f.tuning.DeleteScheduler(ctx, &pb.DeleteSchedulerRequest{Name: made.GetName(), Etag: made.GetEtag()})
	if err != nil || got.GetState() != pb.Scheduler_DELETED || got.GetExpireTime() == nil {
		t.Fatalf("%v, %v", got, err)
	}
	if _, err := stream.Recv(); reasonOf(err) != "DELETED" {
		t.Errorf("its watch: %v", err)
	}
	for _, c := range []struct {
		deleted bool
		want    int
	}{{false, 1}, {true, 2}} {
		all, err := f.tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{ShowDeleted: c.deleted})
		if err != nil || len(all.GetSchedulers()) != c.want {
			t.Errorf("show_deleted %v: %v, %v", c.deleted, all, err)
		}
	}
	refuses(t, codes.AlreadyExists, "", func() error {
		_, err := f.tuning.CreateScheduler(ctx, request("s", pb.SchedulerSpec_AUTO))
		return err
	})
	got, err = f.tuning.UndeleteScheduler(ctx, &pb.UndeleteSchedulerRequest{Name: made.GetName()})
	if err != nil || got.GetState() != pb.Scheduler_ACTIVE || got.GetExpireTime() != nil {
		t.Errorf("%v, %v", got, err)
	}
	refuses(t, codes.InvalidArgument, "scheduler_id", func() error {
		_, err := f.tuning.CreateScheduler(ctx, request("configurations", pb.SchedulerSpec_AUTO))
		return err
	})
}

func TestCreateIsIdempotentAndListPages(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	r := request("s0", pb.SchedulerSpec_RECOMMEND)
	r.RequestId, r.ValidateOnly = "r-1", true
	if got, err := f.tuning.CreateScheduler(ctx, r); err != nil || len(got.GetSpec().GetParameters()) == 0 {
		t.Fatal(got, err)
	}
	_, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/s0"})
	wantCode(t, err, codes.NotFound)
	r.ValidateOnly = false
	first, err := f.tuning.CreateScheduler(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.tuning.CreateScheduler(ctx, r); err != nil || again.GetUid() != first.GetUid() {
		t.Errorf("the same request: %v, %v", again, err)
	}
	r.Scheduler.DisplayName = "another"
	_, err = f.tuning.CreateScheduler(ctx, r)
	wantCode(t, err, codes.AlreadyExists)
	_, err = f.tuning.CreateScheduler(ctx, request("s0", pb.SchedulerSpec_RECOMMEND))
	wantCode(t, err, codes.AlreadyExists)

	for i := 1; i < 5; i++ {
		f.create(fmt.Sprint("s", i), pb.SchedulerSpec_RECOMMEND)
	}
	var names []string
	for page := ""; ; {
		got, err := f.tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{PageSize: 2, PageToken: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got.GetSchedulers() {
			names = append(names, s.GetName())
		}
		if page = got.GetNextPageToken(); page == "" {
			break
		}
	}
	if strings.Join(names, " ") != "schedulers/s0 schedulers/s1 schedulers/s2 schedulers/s3 schedulers/s4" {
		t.Errorf("listed %v", names)
	}
	_, err = f.tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{PageToken: "junk"})
	if got := fields(t, err); len(got) != 1 || got[0] != "page_token" {
		t.Error(got)
	}
}

func TestIngestAnswersBatches(t *testing.T) {
	f := serve(t, nil)
	f.create("s", pb.SchedulerSpec_RECOMMEND)
	noGPUs := submitted("3", 0)
	noGPUs.Job.MilliGpus = 0
	noTime := submitted("4", 0)
	noTime.SchedulerTime = nil
	far := submitted("5", 200*365*24*time.Hour)
	got := f.ingest("s", submitted("1", 0), submitted("2", time.Minute), submitted("1", 0), noTime, noGPUs, far,
		&pb.Event{EventId: "6", Kind: 99})
	if got.GetAcceptedCount() != 2 || got.GetDuplicateCount() != 1 {
		t.Errorf("answer %v", got)
	}
	want := map[string]string{"3": "events[4].job.milli_gpus", "4": "events[3].scheduler_time",
		"5": "events[5].scheduler_time", "6": "events[6].kind"}
	for _, r := range got.GetRejectedEvents() {
		if want[r.GetEventId()] != r.GetField() || r.GetDescription() == "" {
			t.Errorf("rejected %v", r)
		}
		delete(want, r.GetEventId())
	}
	if len(want) > 0 {
		t.Errorf("not rejected: %v", want)
	}
	if got := f.ingest("s", submitted("1", 0), submitted("7", 0)); got.GetAcceptedCount() != 1 ||
		got.GetDuplicateCount() != 1 {
		t.Errorf("sent again: %v", got)
	}
	got = f.ingest("s", submitted("8", -40*24*time.Hour), submitted("9", 8*24*time.Hour), submitted("2", time.Minute))
	if got.GetLateCount() != 1 || got.GetDuplicateCount() != 1 || len(got.GetRejectedEvents()) != 1 ||
		got.GetRejectedEvents()[0].GetField() != "events[1].scheduler_time" {
		t.Errorf("too late and too early: %v", got)
	}
	s, err := f.tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/s"})
	if err != nil || s.GetStatus().GetEventCount() != 3 ||
		!s.GetStatus().GetEventTime().AsTime().Equal(submitted("", time.Minute).GetSchedulerTime().AsTime()) {
		t.Errorf("status %v, %v", s.GetStatus(), err)
	}
	for _, c := range []struct {
		first, second string
		code          codes.Code
	}{{"", "", codes.InvalidArgument}, {"schedulers/nobody", "", codes.NotFound},
		{"schedulers/s", "schedulers/other", codes.InvalidArgument}} {
		stream, err := f.tuning.IngestEvents(background(t))
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&pb.IngestEventsRequest{Parent: c.first})
		_ = stream.Send(&pb.IngestEventsRequest{Parent: c.second})
		_ = stream.CloseSend()
		for err == nil {
			_, err = stream.Recv()
		}
		wantCode(t, err, c.code)
	}
}

func TestHealthAndReflection(t *testing.T) {
	defer goleak.VerifyNone(t)
	f := serve(t, nil)
	defer f.stop()
	ctx := background(t)
	for _, service := range []string{"", "autosched.v1.TuningService", "autosched.v1.ConfigurationService"} {
		got, err := healthpb.NewHealthClient(f.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(
		&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil || len(got.GetListServicesResponse().GetService()) < 4 {
		t.Errorf("%v, %v", got, err)
	}
	_ = stream.CloseSend()
	_, _ = stream.Recv()

	// While draining, health says so to who still asks.
	f.server.health.Shutdown()
	if got, err := healthpb.NewHealthClient(f.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil ||
		got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", got, err)
	}
}

func TestErrorsOfNoHandlerLeak(t *testing.T) {
	f := serve(t, nil)
	var err error
	func() {
		defer f.server.recovered(t.Context(), "/m", &err)
		panic("secret")
	}()
	wantCode(t, err, codes.Internal)
	if strings.Contains(err.Error(), "secret") ||
		strings.Contains(rpc.Status(fmt.Errorf("secret")).Error(), "secret") {
		t.Error("the inside is told to callers")
	}
	wantCode(t, rpc.Status(fmt.Errorf("x: %w", store.ErrFull)), codes.ResourceExhausted)
	wantCode(t, rpc.Status(&store.CorruptError{}), codes.DataLoss)
	wantCode(t, rpc.Status(context.DeadlineExceeded), codes.DeadlineExceeded)
}
