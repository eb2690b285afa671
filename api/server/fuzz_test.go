package server

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/api/server/config"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/api/server/tuning"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// FuzzEvent: no message makes conversion panic, and accepted events have times and sizes that a ledger can count with.
func FuzzEvent(f *testing.F) {
	for _, e := range []*pb.Event{submitted("1", 0),
		{EventId: "2", Kind: pb.Event_NODE_UP, Node: &pb.NodeDetails{NodeId: "n", Gpus: 8}}} {
		b, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Event
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		e, f := converted(&m)
		if f != nil {
			if f.Field == "" || f.Why == "" {
				t.Fatalf("it names no field: %+v", f)
			}
			return
		}
		l := workload.NewLedger(workload.Uniform(1, 8))
		l.Apply(e)
		_ = l.State(e.Time)
	})
}

// FuzzRegistration: no specification makes checking panic, and one that passes
// gives a space whose defaults are valid and which comes back the same.
func FuzzRegistration(f *testing.F) {
	sp, err := space.New(testBuiltin.Params, testBuiltin.Rules)
	if err != nil {
		f.Fatal(err)
	}
	r := request("s", pb.SchedulerSpec_AUTO)
	r.Scheduler.Spec = tuning.SchedulerToProto(controller.Scheduler{Registration: controller.Registration{ID: "s",
		Type: "test", Objective: "avg_jct",
		Cluster: workload.Uniform(1, 8), Policy: controller.DefaultPolicy()}}, controller.Status{}, sp).GetSpec()
	b, err := proto.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	s := registration.Reader{Builtins: []controller.Builtin{testBuiltin}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.CreateSchedulerRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		reg, err := s.Read(&m)
		if err != nil {
			return
		}
		sp, err := space.New(reg.Params, reg.Rules)
		if err != nil {
			t.Fatalf("registration passed, space did not: %v", err)
		}
		if err := sp.Check(sp.Default()); err != nil {
			t.Fatal(err)
		}
		again := proto.Clone(&m).(*pb.CreateSchedulerRequest)
		again.Scheduler.Spec = tuning.SchedulerToProto(controller.Scheduler{Registration: reg}, controller.Status{},
			sp).GetSpec()
		if _, err := s.Read(again); err != nil {
			t.Fatalf("what the service answers does not register: %v", err)
		}
	})
}

// FuzzTokens: no text makes a token of another watch, or of a page.
func FuzzTokens(f *testing.F) {
	f.Add(rpc.Token{Of: "uid", Revision: 1}.String())
	f.Add(rpc.Pager("other").Next(&pb.ListSchedulersRequest{}, rpc.Token{After: "a"}))
	f.Add("junk")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := rpc.ParseToken("resume_token", text, "uid")
		if err == nil && text != "" && (got.Of != "uid" || got.Revision < 0) {
			t.Fatalf("%q gave %+v", text, got)
		}
		if got, err := rpc.Pager("key").After(&pb.ListSchedulersRequest{PageToken: text}); err == nil && text != "" {
			t.Fatalf("%q gave %+v", text, got)
		}
	})
}

// FuzzNames: a name that is read is the only name of its resource.
func FuzzNames(f *testing.F) {
	f.Add("schedulers/a")
	f.Add("schedulers/a/configurations/7")
	f.Fuzz(func(t *testing.T, name string) {
		if id, err := convert.ParseScheduler("name", name); err == nil && convert.SchedulersPrefix+id != name {
			t.Fatalf("%q is scheduler %q", name, id)
		}
		id, revision, err := convert.ParseConfiguration("name", name)
		if err == nil && convert.ConfigurationName(id, revision) != name {
			t.Fatalf("%q is revision %d of %q", name, revision, id)
		}
	})
}

// FuzzAcknowledgement: no message makes the check of an acknowledgement panic, and one that passes
// has a state.
func FuzzAcknowledgement(f *testing.F) {
	sp, err := space.New(testBuiltin.Params, testBuiltin.Rules)
	if err != nil {
		f.Fatal(err)
	}
	b, err := proto.Marshal(&pb.Acknowledgement{State: pb.Acknowledgement_PARTIALLY_APPLIED, Error: "e",
		EffectiveParameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(2)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Acknowledgement
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		if ack, err := config.AckFromProto(&m, sp, sp.Default()); err == nil && ack.State == "" {
			t.Fatalf("%v has no state", &m)
		}
	})
}

// FuzzUpdate: an update that passes leaves a scheduler whose specification registers.
func FuzzUpdate(f *testing.F) {
	s := registration.Reader{Builtins: []controller.Builtin{testBuiltin}}
	reg, err := s.Read(request("s", pb.SchedulerSpec_AUTO))
	if err != nil {
		f.Fatal(err)
	}
	b, err := proto.Marshal(&pb.UpdateSchedulerRequest{
		Scheduler: &pb.Scheduler{DisplayName: "d", Spec: &pb.SchedulerSpec{Mode: pb.SchedulerSpec_RECOMMEND,
			Rollout: &pb.RolloutPolicy{Seed: 3}}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name", "spec.mode", "spec.rollout.seed"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.UpdateSchedulerRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		c := controller.Scheduler{Registration: reg}
		if s.Update(&c, &m) != nil {
			return
		}
		sp, err := space.New(c.Params, c.Rules)
		if err != nil {
			t.Fatal(err)
		}
		again := request("s", pb.SchedulerSpec_AUTO)
		again.Scheduler.Spec = tuning.SchedulerToProto(c, controller.Status{}, sp).GetSpec()
		if _, err := s.Read(again); err != nil {
			t.Fatalf("what the update leaves does not register: %v", err)
		}
	})
}
