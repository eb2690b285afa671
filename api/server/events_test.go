package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/workload"
)

// convert converts an event and validates it, as the service does.
func converted(e *pb.Event) (workload.Event, *convert.Fault) {
	out, f := convert.EventFromProto(e)
	if f == nil {
		if err := out.Validate(); err != nil {
			f = convert.FaultOf(err)
		}
	}
	return out, f
}

func TestEventPlacementAndAttainedService(t *testing.T) {
	start := func(edit func(*pb.Event)) *pb.Event {
		e := submitted("1", 0)
		e.Kind, e.Placement = pb.Event_STARTED,
			[]*pb.NodePlacement{{NodeId: "rack-1", Gpus: 8}, {NodeId: "rack-2", Gpus: 1}}
		e.AttainedService = durationpb.New(time.Hour)
		edit(e)
		return e
	}
	e, f := converted(start(func(*pb.Event) {}))
	if f != nil || len(e.Placement) != 2 || e.Placement[1] != (workload.NodeShare{Node: "rack-2", GPUs: 1}) ||
		!e.HasAttained || e.Attained != time.Hour {
		t.Errorf("%+v, %v", e, f)
	}
	e, f = converted(start(func(e *pb.Event) { e.SharesGpusWith, e.Pool = "2", 1 }))
	if f != nil || e.SharesWith != "2" || e.Pool != 1 {
		t.Errorf("%+v, %v", e, f)
	}
	if e, _ := converted(start(func(e *pb.Event) { e.AttainedService = nil })); e.HasAttained {
		t.Error("attained service told from nowhere")
	}
	for want, edit := range map[string]func(*pb.Event){
		"placement[1].node_id": func(e *pb.Event) { e.Placement[1].NodeId = "" },
		"placement[0].node_id": func(e *pb.Event) { e.Placement[0].NodeId = strings.Repeat("x", convert.MaxText+1) },
		"placement[1].gpus":    func(e *pb.Event) { e.Placement[1].Gpus = 0 },
		"shares_gpus_with":     func(e *pb.Event) { e.SharesGpusWith = strings.Repeat("x", convert.MaxText+1) },
		"pool":                 func(e *pb.Event) { e.Pool = 256 },
		"attained_service":     func(e *pb.Event) { e.AttainedService.Seconds = -1 },
	} {
		if _, f := converted(start(edit)); f == nil || f.Field != want || f.Why == "" {
			t.Errorf("%s: %v", want, f)
		}
	}
}

// TestEventDeadline: of submissions, within the years that a clock may show.
func TestEventDeadline(t *testing.T) {
	e := submitted("1", 0)
	e.Job.DeadlineTime = timestamppb.New(e.GetSchedulerTime().AsTime().Add(90 * time.Minute))
	got, f := converted(e)
	if f != nil || got.Job.Deadline != got.Time+90*time.Minute {
		t.Errorf("%+v, %v", got, f)
	}
	e.Job.DeadlineTime = timestamppb.New(time.Unix(0, 0))
	if got, f := converted(e); f != nil || got.Job.Deadline == 0 {
		t.Errorf("a deadline in the first instant of 1970: %+v, %v", got, f)
	}
	e.Job.DeadlineTime = timestamppb.New(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC))
	if _, f := converted(e); f == nil || f.Field != "job.deadline_time" || f.Why == "" {
		t.Errorf("%v", f)
	}
	e.Kind = pb.Event_STARTED
	if got, f := converted(e); f != nil || got.Job.Deadline != 0 {
		t.Errorf("%+v, %v", got, f)
	}
}

// TestEventSnapshot: the active jobs and nodes at an instant, as the API and as events have them.
func TestEventSnapshot(t *testing.T) {
	at := submitted("1", time.Hour).GetSchedulerTime()
	taken := func(edit func(*pb.Snapshot)) *pb.Event {
		running := &pb.ActiveJob{Job: &pb.JobDetails{JobId: "a", MilliGpus: 4000, Tenant: "x"}, Running: true,
			SubmitTime: submitted("1", 0).GetSchedulerTime(), Placement: []*pb.NodePlacement{{NodeId: "n", Gpus: 4}},
			AttainedService: durationpb.New(time.Minute), LeaseExpireTime: at, SharesGpusWith: "b", Pool: 2}
		waiting := &pb.ActiveJob{Job: &pb.JobDetails{JobId: "b", MilliGpus: 1000}, SubmitTime: at}
		s := &pb.Snapshot{Jobs: []*pb.ActiveJob{running, waiting},
			Nodes: []*pb.NodeDetails{{NodeId: "n", Gpus: 8}, {NodeId: "m", Gpus: 8, Draining: true}}}
		edit(s)
		return &pb.Event{EventId: "1", Kind: pb.Event_SNAPSHOT, SchedulerTime: at, Snapshot: s}
	}
	e, f := converted(taken(func(*pb.Snapshot) {}))
	if f != nil || len(e.Active) != 4 {
		t.Fatalf("%+v, %v", e, f)
	}
	a, b := e.Active[0], e.Active[1]
	if a.Kind != workload.Started || a.Job.Submit != e.Time-time.Hour || a.Job.Tenant != "x" ||
		a.Placement[0].GPUs != 4 ||
		a.Attained != time.Minute || !a.HasAttained || a.LeaseUntil != e.Time || a.SharesWith != "b" || a.Pool != 2 ||
		b.Kind != workload.Submitted || b.Job.Submit != e.Time || b.HasAttained ||
		e.Active[2].Kind != workload.NodeUp ||
		e.Active[3].Kind != workload.NodeDrained {
		t.Errorf("%+v", e)
	}
	long := strings.Repeat("x", convert.MaxText+1)
	for want, edit := range map[string]func(*pb.Snapshot){
		"snapshot.jobs[1].submit_time":          func(s *pb.Snapshot) { s.Jobs[1].SubmitTime = nil },
		"snapshot.jobs[0].job.user":             func(s *pb.Snapshot) { s.Jobs[0].Job.User = long },
		"snapshot.jobs[0].placement[0].node_id": func(s *pb.Snapshot) { s.Jobs[0].Placement[0].NodeId = long },
		"snapshot.nodes[0].gpus":                func(s *pb.Snapshot) { s.Nodes[0].Gpus = 0 },
		"snapshot":                              func(s *pb.Snapshot) { s.Jobs[1] = s.Jobs[0] },
	} {
		if _, f := converted(taken(edit)); f == nil || f.Field != want || f.Why == "" {
			t.Errorf("%s: %v", want, f)
		}
	}
	unset := taken(func(*pb.Snapshot) {})
	unset.Snapshot = nil
	if _, f := converted(unset); f == nil || f.Field != "snapshot" {
		t.Errorf("a snapshot that is unset: %v", f)
	}
	unset.Snapshot = &pb.Snapshot{}
	if e, f := converted(unset); f != nil || len(e.Active) != 0 {
		t.Errorf("a snapshot without jobs: %+v, %v", e, f)
	}
	other := submitted("1", 0)
	other.Snapshot = &pb.Snapshot{}
	if _, f := converted(other); f == nil || f.Field != "snapshot" {
		t.Errorf("a submission with a snapshot: %v", f)
	}
	wide := submitted("1", 0)
	wide.Kind, wide.Placement = pb.Event_STARTED, make([]*pb.NodePlacement, workload.MaxPlaces+1)
	if _, f := converted(wide); f == nil || f.Field != "placement" {
		t.Errorf("a job on %d nodes: %v", len(wide.Placement), f)
	}
}

// TestTimesHaveTheSameNames: every instant of the API is called something_time.
func TestTimesHaveTheSameNames(t *testing.T) {
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
		pb.File_autosched_v1_event_proto, pb.File_autosched_v1_scheduler_proto,
		pb.File_autosched_v1_configuration_proto, pb.File_autosched_v1_parameter_proto,
	} {
		look(file.Messages())
	}
	if seen < 10 {
		t.Errorf("%d instants found", seen)
	}
}
