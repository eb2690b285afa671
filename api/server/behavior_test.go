package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
)

// fill sets every field of a message, and of the messages of the API's package in it, to some value.
func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		inside := field.Message() != nil && field.Message().ParentFile().Package() == convert.Package
		recursive := field.Message() != nil && field.Message() == m.Descriptor()
		switch {
		case recursive:
		case field.IsMap():
			m.Mutable(field).Map().Set(protoreflect.ValueOfString("x").MapKey(), m.Mutable(field).Map().NewValue())
		case field.IsList():
			list := m.Mutable(field).List()
			one := list.NewElement()
			if inside {
				fill(one.Message())
			}
			list.Append(one)
		case field.Message() != nil:
			if one := m.Mutable(field).Message(); inside {
				fill(one)
			}
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString("x"))
		case field.Kind() == protoreflect.BoolKind:
			m.Set(field, protoreflect.ValueOfBool(true))
		case field.Enum() != nil:
			m.Set(field, protoreflect.ValueOfEnum(1))
		case field.Kind() == protoreflect.DoubleKind:
			m.Set(field, protoreflect.ValueOfFloat64(1))
		case field.Kind() == protoreflect.Int32Kind:
			m.Set(field, protoreflect.ValueOfInt32(1))
		case field.Kind() == protoreflect.Int64Kind:
			m.Set(field, protoreflect.ValueOfInt64(1))
		}
	}
}

// without returns copies of a message, each without one of the fields that are REQUIRED, by path of the field.
func without(whole proto.Message) map[string]proto.Message {
	out := map[string]proto.Message{}
	type place func(root protoreflect.Message) protoreflect.Message
	var walk func(of place, at string)
	walk = func(of place, at string) {
		of(whole.ProtoReflect()).Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			path := at + string(field.Name())
			if slices.Contains(convert.Behaviors(field), annotations.FieldBehavior_REQUIRED) {
				out[path] = proto.Clone(whole)
				of(out[path].ProtoReflect()).Clear(field)
			}
			switch inside := field.Message() != nil && field.Message().ParentFile().Package() == convert.Package; {
			case !inside || field.IsMap() || slices.Contains(convert.Behaviors(field),
				annotations.FieldBehavior_OUTPUT_ONLY):
			case field.IsList():
				for i := range value.List().Len() {
					walk(func(root protoreflect.Message) protoreflect.Message {
						return of(root).Get(field).List().Get(i).Message()
					}, fmt.Sprintf("%s[%d].", path, i))
				}
			default:
				walk(func(root protoreflect.Message) protoreflect.Message {
					return of(root).Get(field).Message()
				}, path+".")
			}
			return true
		})
	}
	walk(func(root protoreflect.Message) protoreflect.Message { return root }, "")
	return out
}

// registerWithRules registers an external scheduler with a rule of every kind.
func registerWithRules() *pb.CreateSchedulerRequest {
	number := func(id string) *pb.ParameterSpec {
		return &pb.ParameterSpec{ParameterId: id, DefaultValue: structpb.NewNumberValue(1),
			ParameterValueSpec: &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{MinValue: 1,
				MaxValue: 9}}}
	}
	list := number("l")
	list.DefaultValue, _ = structpb.NewValue([]any{1.0})
	list.ParameterValueSpec = &pb.ParameterSpec_ArraySpec{ArraySpec: &pb.ArraySpec{LengthParameterId: "a", MaxLength: 9,
		ElementValueSpec: &pb.ArraySpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{MinValue: 1,
			MaxValue: 9}}}}
	nine := structpb.NewNumberValue(9)
	return &pb.CreateSchedulerRequest{SchedulerId: "s", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{
		SchedulerType: "external", Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8},
		Objective:  &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "wait"}},
		Rollout:    &pb.RolloutPolicy{QuietHours: []*pb.QuietHours{{Start: "22:00", End: "23:00"}}},
		Parameters: []*pb.ParameterSpec{number("a"), number("b"), number("c"), list},
		Constraints: []*pb.DependencyConstraint{
			{ConstraintId: "ordering", Rule: &pb.DependencyConstraint_Ordering{Ordering: &pb.OrderingRule{
				ParameterIds: []string{"l"}}}},
			{ConstraintId: "activation", Rule: &pb.DependencyConstraint_Activation{Activation: &pb.ActivationRule{
				ParameterId: "b", WhenParameterId: "a", Operator: pb.ActivationRule_LESS, Value: nine}}},
			{ConstraintId: "linear", Rule: &pb.DependencyConstraint_Linear{Linear: &pb.LinearRule{
				Terms: []*pb.LinearRule_Term{{ParameterId: "a", Coefficient: 1}}, MaxValue: 9}}},
			{ConstraintId: "forbidden", Rule: &pb.DependencyConstraint_Forbidden{Forbidden: &pb.ForbiddenClause{
				Conditions: []*pb.ForbiddenClause_Condition{{ParameterId: "c", Operator: pb.ActivationRule_EQUAL,
					Value: nine}}}}},
		}}}}
}

// TestRequired: every method refuses a request that lacks a field that is REQUIRED, by the name of the field.
func TestRequired(t *testing.T) {
	f := serve(t, nil)
	tried := 0
	protoregistry.GlobalFiles.RangeFilesByPackage(convert.Package, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if service.Name() == "SchedulerAgent" || service.Name() == "EvaluatorService" { // others serve them
				continue
			}
			for k := range service.Methods().Len() {
				method := service.Methods().Get(k)
				name := fmt.Sprintf("/%s/%s", service.FullName(), method.Name())
				in, _ := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
				out, _ := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
				whole := in.New().Interface()
				fill(whole.ProtoReflect())
				if method.Name() == "CreateScheduler" {
					whole = registerWithRules()
				}
				for path, req := range without(whole) {
					switch {
					case method.IsStreamingClient(): // refuses elements: TestRequiredElements
						continue
					case method.Name() == "UpdateScheduler" && path != "scheduler": // selected by a mask
						continue
					case method.Name() == "IngestTelemetry" && path != "parent":
						continue
					}
					tried++
					var err error
					if method.IsStreamingServer() {
						stream, open := f.conn.NewStream(background(t), &grpc.StreamDesc{ServerStreams: true}, name)
						if err = cmp.Or(open, stream.SendMsg(req), stream.CloseSend()); err == nil {
							err = stream.RecvMsg(out.New().Interface())
						}
					} else {
						err = f.conn.Invoke(background(t), name, req, out.New().Interface())
					}
					wantCode(t, err, codes.InvalidArgument)
					got := fields(t, err)
					if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f+".", path+".") }) {
						t.Errorf("%s without %s: the answer names %q: %v", method.Name(), path, got, err)
					}
				}
			}
		}
		return true
	})
	if tried < 80 {
		t.Errorf("only %d fields were left out", tried)
	}
	if _, err := f.tuning.CreateScheduler(background(t), registerWithRules()); err != nil {
		t.Error("the registration itself is refused:", err)
	}
}

// TestRequiredElements: events, reports and samples are refused one by one, by the field that they lack.
func TestRequiredElements(t *testing.T) {
	f := serve(t, nil)
	registerExternal(t, f)
	at := timestamppb.New(time.Unix(1_700_000_000, 0))
	tried := 0
	job := &pb.JobDetails{JobId: "1", MilliGpus: 1000}
	places := []*pb.NodePlacement{{NodeId: "n", Gpus: 1}}
	for _, e := range []*pb.Event{
		{EventId: "1", Kind: pb.Event_STARTED, SchedulerTime: at, Job: job, Placement: places},
		{EventId: "2", Kind: pb.Event_NODE_UP, SchedulerTime: at, Node: &pb.NodeDetails{NodeId: "n", Gpus: 8}},
		{EventId: "3", Kind: pb.Event_SNAPSHOT, SchedulerTime: at, Snapshot: &pb.Snapshot{
			Jobs:  []*pb.ActiveJob{{Job: job, SubmitTime: at, Running: true, Placement: places}},
			Nodes: []*pb.NodeDetails{{NodeId: "n", Gpus: 8}}}},
	} {
		for path, lacking := range without(e) {
			tried++
			got := f.ingest("s", lacking.(*pb.Event)).GetRejectedEvents()
			if path == "snapshot.jobs[0].job" { // without any of its fields
				path += ".job_id"
			}
			if len(got) != 1 || got[0].GetField() != "events[0]."+path {
				t.Errorf("%v without %s: %v", e.GetKind(), path, got)
			}
		}
	}
	stream, err := pb.NewMetricServiceClient(f.conn).ReportMetrics(background(t))
	if err != nil {
		t.Fatal(err)
	}
	for path, lacking := range without(&pb.MetricReport{SchedulerTime: at, ConfigurationRevision: 1,
		Metrics: map[string]float64{"wait": 1}}) {
		tried++
		err := stream.Send(&pb.ReportMetricsRequest{Parent: "schedulers/s", Reports: []*pb.MetricReport{
			lacking.(*pb.MetricReport)}})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if got := answer.GetRejectedReports(); err != nil || len(got) != 1 || got[0].GetField() != "reports[0]."+path {
			t.Errorf("a report without %s: %v %v", path, got, err)
		}
	}
	for path, lacking := range without(gpuSample("n", 0)) {
		tried++
		answer, err := pb.NewTelemetryServiceClient(f.conn).IngestTelemetry(background(t), &pb.IngestTelemetryRequest{
			Parent: "schedulers/s", Samples: []*pb.GpuSample{lacking.(*pb.GpuSample)}})
		if got := answer.GetRejected(); err != nil || len(got) != 1 || got[0].GetField() != path {
			t.Errorf("a sample without %s: %v %v", path, got, err)
		}
	}
	if tried < 20 {
		t.Errorf("only %d fields were left out", tried)
	}
}

// TestOutputOnly: output-only fields are ignored in requests, by masks, too.
func TestOutputOnly(t *testing.T) {
	f := serve(t, nil)
	before := f.create("prod", pb.SchedulerSpec_RECOMMEND)
	name := before.GetName()
	req := &pb.CreateSchedulerRequest{SchedulerId: "copy", RequestId: "r", Scheduler: proto.CloneOf(before)}
	full := &pb.Scheduler{}
	fill(full.ProtoReflect())
	full.Spec, full.Labels, full.Annotations, full.DisplayName = before.GetSpec(), nil, nil, ""
	for _, scheduler := range []*pb.Scheduler{before, full, {Spec: before.GetSpec()}} { // one request_id
		req.Scheduler = scheduler
		req.Scheduler.Name, req.Scheduler.Etag = "", ""
		got, err := f.tuning.CreateScheduler(background(t), req)
		if err != nil {
			t.Fatal(err)
		}
		if got.GetName() != "schedulers/copy" || got.GetState() != pb.Scheduler_ACTIVE ||
			got.GetUid() == before.GetUid() || got.GetPin() != nil || got.GetFreeze() != nil ||
			got.GetGeneration() != 1 {
			t.Errorf("%v", got)
		}
	}
	update := &pb.UpdateSchedulerRequest{
		Scheduler:  &pb.Scheduler{Name: name, DisplayName: "mine", Uid: "x", State: pb.Scheduler_DELETED},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name", "uid", "status.hold"}},
	}
	got, err := f.tuning.UpdateScheduler(background(t), update)
	if err != nil || got.GetDisplayName() != "mine" || got.GetUid() == "x" || got.GetState() != pb.Scheduler_ACTIVE {
		t.Errorf("%v %v", got, err)
	}
	refuses(t, codes.InvalidArgument, "", func() error {
		update.UpdateMask.Paths = []string{"name"}
		_, err := f.tuning.UpdateScheduler(background(t), update)
		return err
	})
}
