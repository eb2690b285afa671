package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

func TestEventPlacementAndAttainedService(t *testing.T) {
	start := func(edit func(*pb.Event)) *pb.Event {
		e := submitted("1", 0)
		e.Kind, e.Placement = pb.Event_STARTED, []*pb.NodePlacement{{NodeId: "rack-1", Gpus: 8}, {NodeId: "rack-2", Gpus: 1}}
		e.AttainedService = durationpb.New(time.Hour)
		edit(e)
		return e
	}
	e, field, why := eventFromProto(start(func(*pb.Event) {}))
	if why != "" || len(e.Placement) != 2 || e.Placement[1] != (workload.NodeShare{Node: "rack-2", GPUs: 1}) || !e.HasAttained || e.Attained != time.Hour {
		t.Errorf("%+v, %s: %s", e, field, why)
	}
	if e, _, _ := eventFromProto(start(func(e *pb.Event) { e.AttainedService = nil })); e.HasAttained {
		t.Error("attained service told from nowhere")
	}
	for want, edit := range map[string]func(*pb.Event){
		"placement[1].node_id": func(e *pb.Event) { e.Placement[1].NodeId = "" },
		"placement[0].node_id": func(e *pb.Event) { e.Placement[0].NodeId = strings.Repeat("x", maxText+1) },
		"placement[1].gpus":    func(e *pb.Event) { e.Placement[1].Gpus = 0 },
		"attained_service":     func(e *pb.Event) { e.AttainedService.Seconds = -1 },
	} {
		if _, field, why := eventFromProto(start(edit)); field != want || why == "" {
			t.Errorf("%s: %s: %s", want, field, why)
		}
	}
}

// TestEventDeadline: of submissions, within the years that a clock may show.
func TestEventDeadline(t *testing.T) {
	e := submitted("1", 0)
	e.Job.DeadlineTime = timestamppb.New(e.GetSchedulerTime().AsTime().Add(90 * time.Minute))
	got, field, why := eventFromProto(e)
	if why != "" || got.Job.Deadline != got.Time+90*time.Minute {
		t.Errorf("%+v, %s: %s", got, field, why)
	}
	e.Job.DeadlineTime = timestamppb.New(time.Unix(0, 0))
	if got, field, why := eventFromProto(e); why != "" || got.Job.Deadline == 0 {
		t.Errorf("a deadline in the first instant of 1970: %+v, %s: %s", got, field, why)
	}
	e.Job.DeadlineTime = timestamppb.New(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC))
	if _, field, why := eventFromProto(e); field != "job.deadline_time" || why == "" {
		t.Errorf("%s: %s", field, why)
	}
	e.Kind = pb.Event_STARTED
	if got, field, why := eventFromProto(e); why != "" || got.Job.Deadline != 0 {
		t.Errorf("%+v, %s: %s", got, field, why)
	}
}

// TestTimesAreNamedAlike: every instant of the API is called something_time.
func TestTimesAreNamedAlike(t *testing.T) {
	seen := 0
	var look func(protoreflect.MessageDescriptors)
	look = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			m := messages.Get(i)
			look(m.Messages())
			for k := range m.Fields().Len() {
				f := m.Fields().Get(k)
				if f.Message() == nil || f.Message().FullName() != "google.protobuf.Timestamp" {
					continue
				}
				if seen++; !strings.HasSuffix(string(f.Name()), "_time") {
					t.Errorf("%s does not end in _time", f.FullName())
				}
			}
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_autosched_v1_event_proto, pb.File_autosched_v1_scheduler_proto, pb.File_autosched_v1_configuration_proto, pb.File_autosched_v1_parameter_proto,
	} {
		look(file.Messages())
	}
	if seen < 10 {
		t.Errorf("%d instants found", seen)
	}
}
