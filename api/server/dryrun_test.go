package server

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
)

// change is a method that changes something, with its input.
type change struct {
	method protoreflect.MethodDescriptor
	full   string
}

// changes are the unary methods whose requests have a field.
func changes(field protoreflect.Name) map[string]change {
	out := map[string]change{}
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				if m.Input().Fields().ByName(field) != nil && !m.IsStreamingClient() {
					out[string(m.Name())] = change{m, "/" + string(s.FullName()) + "/" + string(m.Name())}
				}
			}
		}
		return true
	})
	return out
}

// TestEveryChangeOnceOrNot: each mutation leaves config.db byte by byte as it is when it is checked only, in which its
// request_id is not used up; is made; and is not made again with its request_id, which is refused for another content.
func TestEveryChangeOnceOrNot(t *testing.T) {
	dir := t.TempDir()
	f := serveWith(t, dir, controller.Options{Decide: byRound}, Options{Builtins: []controller.Builtin{testBuiltin}})
	registerExternal(t, f) // schedulers/s
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	f.ingest("prod", submitted("1", time.Minute), submitted("2", time.Hour+time.Minute))
	f.waitRounds("prod", 1)
	const prod, study = "schedulers/prod", "schedulers/s/studies/a"
	if _, err := f.config.AcknowledgeConfiguration(background(t), &pb.AcknowledgeConfigurationRequest{
		Name: prod + "/configurations/1", Acknowledgement: &pb.Acknowledgement{InstanceId: "i",
			State: pb.Acknowledgement_APPLIED}}); err != nil {
		t.Fatal(err)
	}
	trial := &pb.Trial{Parameters: map[string]*structpb.Value{"x": structpb.NewNumberValue(2)}}
	final := &pb.Measurement{Metrics: map[string]float64{"wait": 2}}
	calls := []proto.Message{
		&pb.ParkConfigurationRequest{Name: prod + "/configurations/2", Reason: "r"},
		&pb.RejectConfigurationRequest{Name: prod + "/configurations/2", Reason: "r"},
		&pb.UnparkConfigurationRequest{Name: prod + "/configurations/2"},
		&pb.ProposeConfigurationRequest{Parent: prod, Reason: "r", Parameters: map[string]*structpb.Value{
			"queues": structpb.NewNumberValue(4)}},
		&pb.PinConfigurationRequest{Parent: prod, Reason: "r", Parameters: map[string]*structpb.Value{
			"queues": structpb.NewNumberValue(5)}},
		&pb.UnpinConfigurationRequest{Parent: prod},
		&pb.RollbackConfigurationRequest{Parent: prod, Revision: 1},
		&pb.ForgetInstanceRequest{Parent: prod, InstanceId: "i"},
		&pb.UpdateSchedulerRequest{Scheduler: &pb.Scheduler{Name: prod, DisplayName: "d"},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}}},
		&pb.PauseTuningRequest{Name: prod},
		&pb.ResumeTuningRequest{Name: prod},
		&pb.FreezeTuningRequest{Name: prod, Reason: "r"},
		&pb.UnfreezeTuningRequest{Name: prod},
		&pb.GenerateWorkloadRequest{Parent: prod, WorkloadId: "w", Seed: proto.Uint64(1)},
		&pb.DeleteWorkloadRequest{Name: prod + "/workloads/w"},
		&pb.CreateSchedulerRequest{SchedulerId: "new", Scheduler: request("new", pb.SchedulerSpec_AUTO).GetScheduler()},
		&pb.DeleteSchedulerRequest{Name: "schedulers/new"},
		&pb.UndeleteSchedulerRequest{Name: "schedulers/new"},
		&pb.CreateStudyRequest{Parent: "schedulers/s", StudyId: "a", Study: &pb.Study{Spec: &pb.StudySpec{
			Algorithm: "sobol"}}},
		&pb.PauseStudyRequest{Name: study},
		&pb.ResumeStudyRequest{Name: study},
		&pb.CreateTrialRequest{Parent: study, Trial: trial},
		&pb.BatchCreateTrialsRequest{Parent: study, Trials: []*pb.Trial{{Parameters: map[string]*structpb.Value{
			"x": structpb.NewNumberValue(3)}}}},
		&pb.StopTrialRequest{Name: study + "/trials/2"},
		&pb.SuggestTrialsRequest{Parent: study, ClientId: "c"}, // trial 1
		&pb.AddTrialMeasurementRequest{Name: study + "/trials/1", Measurement: final},
		&pb.CompleteTrialRequest{Name: study + "/trials/1", Result: &pb.CompleteTrialRequest_FinalMeasurement{
			FinalMeasurement: final}},
		&pb.ProposeTrialRequest{Name: study + "/trials/1"},
		&pb.ApproveConfigurationRequest{Name: "schedulers/s/configurations/2"},
		&pb.CancelStudyRequest{Name: study},
		&pb.DeleteStudyRequest{Name: study},
		&pb.TriggerRoundRequest{Parent: prod},
	}
	stored := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "config.db"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:8])
	}
	all, checks := changes("request_id"), changes("validate_only")
	for _, req := range calls {
		if r, ok := req.(*pb.SuggestTrialsRequest); ok {
			if _, err := pb.NewStudyServiceClient(f.conn).SuggestTrials(background(t), r); err != nil {
				t.Fatal(err)
			}
			continue
		}
		r := req.ProtoReflect()
		in := r.Descriptor()
		var name string
		for n, c := range all {
			if c.method.Input() == in {
				name = n
			}
		}
		call := func(edit func(protoreflect.Message)) error {
			one := proto.Clone(req)
			edit(one.ProtoReflect())
			answer, err := protoregistry.GlobalTypes.FindMessageByName(all[name].method.Output().FullName())
			if err != nil {
				t.Fatal(err)
			}
			return f.conn.Invoke(background(t), all[name].full, one, answer.New().Interface())
		}
		set := func(m protoreflect.Message, field protoreflect.Name, v any) {
			m.Set(in.Fields().ByName(field), protoreflect.ValueOf(v))
		}
		id := "r-" + name
		before := stored()
		if _, ok := checks[name]; ok {
			err := call(func(m protoreflect.Message) { set(m, "validate_only", true); set(m, "request_id", id) })
			if err != nil || stored() != before {
				t.Errorf("%s with validate_only: %v, stored %v", name, err, stored() != before)
			}
		}
		if err := call(func(m protoreflect.Message) { set(m, "request_id", id) }); err != nil || stored() == before {
			t.Errorf("%s: %v, stored %v", name, err, stored() != before)
		}
		if name == "TriggerRound" { // the round is stored, too
			f.waitRounds("prod", 2)
			continue
		}
		scheduler := schedulerOf(req)
		if r, ok := req.(*pb.UpdateSchedulerRequest); ok {
			scheduler = schedulerOf(r.GetScheduler())
		}
		if before = stored(); name != "PauseTuning" && scheduler != "" { // ids are those of a scheduler
			wantCode(t, f.conn.Invoke(background(t), pb.TuningService_PauseTuning_FullMethodName,
				&pb.PauseTuningRequest{Name: "schedulers/" + scheduler, RequestId: id}, &pb.Scheduler{}),
				codes.AlreadyExists)
		}
		if err := call(func(m protoreflect.Message) { set(m, "request_id", id) }); err != nil || stored() != before {
			t.Errorf("%s again: %v, stored %v", name, err, stored() != before)
		}
		delete(all, name)
		delete(checks, name)
	}
	for _, name := range []string{"TriggerRound", "RunStudy", "CancelOperation", "AcknowledgeFinding", "SnoozeFinding",
		"MarkFalsePositive"} { // of evaluators, or of findings, which are not in config.db
		delete(all, name)
	}
	if len(all) > 0 {
		t.Errorf("not called: %v", slices.Sorted(maps.Keys(all)))
	}
}
