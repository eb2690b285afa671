package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestPinRefusesValues: values that are none, or that a rule would change, are refused by name, and nothing is pinned.
func TestPinRefusesValues(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_AUTO)
	number := structpb.NewNumberValue
	list := func(all ...float64) *structpb.Value {
		out := &structpb.ListValue{}
		for _, x := range all {
			out.Values = append(out.Values, number(x))
		}
		return structpb.NewListValue(out)
	}
	for _, c := range []struct {
		name, field string
		values      map[string]*structpb.Value
	}{
		{"NaN", "queues", map[string]*structpb.Value{"queues": number(math.NaN())}},
		{"infinite", "queues", map[string]*structpb.Value{"queues": number(math.Inf(1))}},
		{"huge", "queues", map[string]*structpb.Value{"queues": number(1e300)}},
		{"a fraction", "queues", map[string]*structpb.Value{"queues": number(2.5)}},
		{"a text", "queues", map[string]*structpb.Value{"queues": structpb.NewStringValue("4")}},
		{"a truth", "queues", map[string]*structpb.Value{"queues": structpb.NewBoolValue(true)}},
		{"null", "queues", map[string]*structpb.Value{"queues": structpb.NewNullValue()}},
		{"nothing", "queues", map[string]*structpb.Value{"queues": {}}},
		{"a structure", "queues", map[string]*structpb.Value{"queues": structpb.NewStructValue(&structpb.Struct{})}},
		{"unknown", "queus", map[string]*structpb.Value{"queus": number(4)}},
		{"no name", "", map[string]*structpb.Value{"": number(4)}},
		{"a category", "order", map[string]*structpb.Value{"order": structpb.NewStringValue("random")}},
		{"too long", "thresholds", map[string]*structpb.Value{"thresholds": list(60, 70, 80, 90, 100, 110)}},
		{"not in order", "thresholds", map[string]*structpb.Value{"thresholds": list(700, 70)}},
		{"between special and least", "starve", map[string]*structpb.Value{"starve": number(30)}},
		{"what does not count", "limit", map[string]*structpb.Value{"limit": number(.3)}},
		{"a forbidden set", "order", map[string]*structpb.Value{"pack": structpb.NewBoolValue(true),
			"effort": structpb.NewStringValue("low"), "order": structpb.NewStringValue("submit")}},
	} {
		refuses(t, codes.InvalidArgument, `parameters["`+c.field+`"]`, func() error {
			_, err := f.config.PinConfiguration(background(t), &pb.PinConfigurationRequest{Parent: "schedulers/prod",
				Reason: c.name, Parameters: c.values})
			return err
		})
	}
	got, err := f.tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/prod"})
	if err != nil || got.GetPin() != nil || got.GetCurrentConfiguration() != "schedulers/prod/configurations/1" {
		t.Errorf("%v %v", got, err)
	}
}

// TestPropose: an operator's values are what what-if simulates, wait for an approval, and are refused once they are
// proposed or parked.
func TestPropose(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	ctx, name := background(t), "schedulers/prod"
	req := &pb.ProposeConfigurationRequest{Parent: name, Reason: "quarter",
		Parameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(4)}}
	propose := func() error {
		_, err := f.config.ProposeConfiguration(ctx, req)
		return err
	}
	c, err := f.config.ProposeConfiguration(ctx, req)
	if err != nil || c.GetState() != pb.Configuration_PROPOSED || c.GetOrigin() != pb.Configuration_MANUAL ||
		c.GetReason() != "quarter" || c.GetParameters()["queues"].GetNumberValue() != 4 ||
		len(c.GetParameters()["thresholds"].GetListValue().GetValues()) != 3 {
		t.Fatalf("%v %v", c, err)
	}
	got, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil || got.GetStatus().GetProposedConfiguration() != c.GetName() ||
		got.GetCurrentConfiguration() != name+"/configurations/1" {
		t.Errorf("%v %v", got, err)
	}
	refuses(t, codes.FailedPrecondition, "", propose)
	if _, err := f.config.RejectConfiguration(ctx, &pb.RejectConfigurationRequest{Name: c.GetName(),
		Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	refuses(t, codes.FailedPrecondition, "", propose)
	if _, err := f.config.UnparkConfiguration(ctx, &pb.UnparkConfigurationRequest{Name: c.GetName()}); err != nil {
		t.Fatal(err)
	}
	if err := propose(); err != nil {
		t.Error(err)
	}
	req.Parameters = map[string]*structpb.Value{"queues": structpb.NewNumberValue(99)}
	refuses(t, codes.InvalidArgument, `parameters["queues"]`, propose)
	req.Reason = " "
	refuses(t, codes.InvalidArgument, "reason", propose)
	audit, err := pb.NewAuditServiceClient(f.conn).ListAuditRecords(ctx, &pb.ListAuditRecordsRequest{Resource: name,
		Filter: `verb = "ProposeConfiguration"`})
	if err != nil || len(audit.GetAuditRecords()) != 2 || audit.GetAuditRecords()[0].GetReason() != "quarter" {
		t.Errorf("%v %v", audit, err)
	}
}

// TestParkConfiguration: a proposal is parked once, listed with who, why and when, waits again, and is rejected.
func TestParkConfiguration(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	ctx, name := background(t), "schedulers/prod"
	propose := func(queues float64) *pb.Configuration {
		t.Helper()
		return must[*pb.Configuration](t)(f.config.ProposeConfiguration(ctx, &pb.ProposeConfigurationRequest{
			Parent: name, Reason: "quarter",
			Parameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(queues)}}))
	}
	c := propose(4)
	park := &pb.ParkConfigurationRequest{Name: c.GetName(), Reason: "after the release", Etag: c.GetEtag()}
	for range 2 {
		got, err := f.config.ParkConfiguration(ctx, park)
		if err != nil || got.GetState() != pb.Configuration_PARKED || !got.GetReview().GetParked() ||
			got.GetReview().GetApproved() || got.GetReview().GetReason() != "after the release" {
			t.Fatalf("%v %v", got, err)
		}
		park.Etag = got.GetEtag()
	}
	refuses(t, codes.Aborted, "", func() error { // it was parked since
		_, err := f.config.ApproveConfiguration(ctx,
			&pb.ApproveConfigurationRequest{Name: c.GetName(), Etag: c.GetEtag()})
		return err
	})
	list, err := f.config.ListParkedConfigurations(ctx, &pb.ListParkedConfigurationsRequest{Parent: name,
		Filter: "proposal = true"})
	if all := list.GetParkedConfigurations(); err != nil || len(all) != 1 || all[0].GetConfiguration() != c.GetName() ||
		all[0].GetActor() != "operator" || all[0].GetReason() != "after the release" || all[0].GetCreateTime() == nil {
		t.Errorf("%v %v", list, err)
	}
	only, err := f.config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: name, Filter: "state = PARKED"})
	if err != nil || len(only.GetConfigurations()) != 1 {
		t.Errorf("%v %v", only, err)
	}
	got, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil || got.GetStatus().GetProposedConfiguration() != "" {
		t.Errorf("it waits: %v %v", got, err)
	}
	other, unpark := propose(5), &pb.UnparkConfigurationRequest{Name: c.GetName()}
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := f.config.UnparkConfiguration(ctx, unpark)
		return err
	})
	must[*pb.Configuration](t)(f.config.ParkConfiguration(ctx, &pb.ParkConfigurationRequest{Name: other.GetName()}))
	again, err := f.config.UnparkConfiguration(ctx, unpark)
	if err != nil || again.GetState() != pb.Configuration_PROPOSED || again.GetReview() != nil {
		t.Errorf("it does not wait again: %v %v", again, err)
	}
	got, err = f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil || got.GetStatus().GetProposedConfiguration() != c.GetName() {
		t.Errorf("%v waits, %v", got.GetStatus().GetProposedConfiguration(), err)
	}
	refused, err := f.config.RejectConfiguration(ctx, &pb.RejectConfigurationRequest{Name: other.GetName()})
	if err != nil || refused.GetState() != pb.Configuration_REJECTED {
		t.Errorf("a parked proposal is not rejected: %v %v", refused, err)
	}
	audit, err := pb.NewAuditServiceClient(f.conn).ListAuditRecords(ctx, &pb.ListAuditRecordsRequest{Resource: name,
		Filter: `verb = "ParkConfiguration"`})
	if all := audit.GetAuditRecords(); err != nil || len(all) != 2 || all[1].GetReason() != "after the release" &&
		all[0].GetReason() != "after the release" {
		t.Errorf("the audit log has %v %v", audit, err)
	}
	refuses(t, codes.InvalidArgument, "reason", func() error {
		_, err := f.config.ParkConfiguration(ctx, &pb.ParkConfigurationRequest{Name: c.GetName(),
			Reason: strings.Repeat("x", 1025)})
		return err
	})
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := f.config.ParkConfiguration(ctx, &pb.ParkConfigurationRequest{Name: other.GetName()})
		return err
	})
}

// TestUnparkSentAgain: the answer is the proposal that waits again, by an earlier revision of its values, sent twice.
func TestUnparkSentAgain(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	ctx, name := background(t), "schedulers/prod"
	var all []*pb.Configuration
	for _, queues := range []float64{4, 5, 4} {
		all = append(all, must[*pb.Configuration](t)(f.config.ProposeConfiguration(ctx, &pb.ProposeConfigurationRequest{
			Parent: name, Reason: "quarter",
			Parameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(queues)}})))
	}
	must[*pb.Configuration](t)(f.config.ParkConfiguration(ctx,
		&pb.ParkConfigurationRequest{Name: all[2].GetName()}))
	unpark := &pb.UnparkConfigurationRequest{Name: all[0].GetName(), RequestId: "again"}
	for range 2 {
		got, err := f.config.UnparkConfiguration(ctx, unpark)
		if err != nil || got.GetName() != all[2].GetName() || got.GetState() != pb.Configuration_PROPOSED {
			t.Errorf("%v waits, %v", got, err)
		}
	}
}

// TestPinDuringWaves: pinned values reach all instances at once, in the middle of a wave, a freeze and a pause; a
// refusal ends the pin, and a deleted scheduler keeps it until it is undeleted.
func TestPinDuringWaves(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_AUTO)
	ctx, name := background(t), "schedulers/prod"
	_, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
		Scheduler: &pb.Scheduler{Name: name, Spec: &pb.SchedulerSpec{Rollout: &pb.RolloutPolicy{Canary: true,
			SoakTime: durationpb.New(time.Hour)}}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.rollout.canary", "spec.rollout.soak_time"}}})
	if err != nil {
		t.Fatal(err)
	}
	ack := func(revision, instance string, state pb.Acknowledgement_State) {
		t.Helper()
		_, err := f.config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{
			Name:            name + "/configurations/" + revision,
			Acknowledgement: &pb.Acknowledgement{State: state, InstanceId: instance}})
		if err != nil {
			t.Fatal(err)
		}
	}
	pin := func(values map[string]*structpb.Value) *pb.Configuration {
		t.Helper()
		c, err := f.config.PinConfiguration(ctx, &pb.PinConfigurationRequest{Parent: name, Reason: "test",
			Parameters: values})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	offered := func(what string, want ...int64) {
		t.Helper()
		for i, instance := range []string{"a", "b"} {
			got, err := f.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: name,
				InstanceId: instance})
			if err != nil || got.GetConfiguration().GetRevision() != want[i] {
				t.Errorf("%s: instance %s is offered %d, want %d: %v", what, instance,
					got.GetConfiguration().GetRevision(), want[i], err)
			}
		}
	}
	ack("1", "a", pb.Acknowledgement_APPLIED)
	ack("1", "b", pb.Acknowledgement_APPLIED)
	f.ingest("prod", submitted("1", 30*time.Minute), submitted("2", 61*time.Minute))
	f.waitRounds("prod", 1)
	offered("a canary", 2, 1)
	if c := pin(nil); c.GetRevision() != 3 || !c.GetParameters()["pack"].GetBoolValue() {
		t.Errorf("what is on offer is pinned: %v", c)
	}
	offered("pinned", 3, 3)
	if _, err := f.tuning.FreezeTuning(ctx, &pb.FreezeTuningRequest{Name: name, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
	four := map[string]*structpb.Value{"queues": structpb.NewNumberValue(4)}
	pin(four)
	offered("pinned while frozen and paused", 4, 4)
	if _, err := f.tuning.DeleteScheduler(ctx, &pb.DeleteSchedulerRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := f.config.PinConfiguration(ctx, &pb.PinConfigurationRequest{Parent: name, Reason: "another",
			Parameters: four})
		return err
	})
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := f.config.UnpinConfiguration(ctx, &pb.UnpinConfigurationRequest{Parent: name})
		return err
	})
	back, err := f.tuning.UndeleteScheduler(ctx, &pb.UndeleteSchedulerRequest{Name: name})
	if err != nil || back.GetPin().GetConfiguration() != name+"/configurations/4" {
		t.Errorf("undeleted: %v %v", back.GetPin(), err)
	}
	ack("4", "a", pb.Acknowledgement_REJECTED)
	offered("refused", 5, 5)
	after, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil || after.GetPin() != nil || after.GetFreeze() == nil {
		t.Errorf("refused: %v %v", after, err)
	}
}

// TestPinBase: parameters that a pin does not name are as in force, changes by hand among it; as on offer while
// nothing is acknowledged, and while other values are pinned.
func TestPinBase(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_AUTO)
	ctx, name := background(t), "schedulers/prod"
	queues := func(n float64) map[string]*structpb.Value {
		return map[string]*structpb.Value{"queues": structpb.NewNumberValue(n)}
	}
	pack := func(on bool) map[string]*structpb.Value {
		return map[string]*structpb.Value{"pack": structpb.NewBoolValue(on)}
	}
	ack := func(revision string, a *pb.Acknowledgement) {
		t.Helper()
		_, err := f.config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{
			Name: name + "/configurations/" + revision, Acknowledgement: a})
		if err != nil {
			t.Fatal(err)
		}
	}
	pin := func(what string, values map[string]*structpb.Value, only bool, wantQueues float64, wantPack bool) {
		t.Helper()
		c, err := f.config.PinConfiguration(ctx, &pb.PinConfigurationRequest{Parent: name, Reason: "test",
			Parameters: values, ValidateOnly: only})
		if err != nil {
			t.Fatal(err)
		}
		got := c.GetParameters()
		if n, on := got["queues"].GetNumberValue(), got["pack"].GetBoolValue(); n != wantQueues || on != wantPack {
			t.Errorf("%s: %g queues, pack %v; want %g, %v", what, n, on, wantQueues, wantPack)
		}
	}
	first, err := f.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	def := first.GetConfiguration().GetParameters()["queues"].GetNumberValue()
	f.ingest("prod", submitted("1", 30*time.Minute), submitted("2", 61*time.Minute))
	f.waitRounds("prod", 1) // which offers to pack
	pin("nothing is acknowledged", queues(4), true, 4, true)
	ack("1", &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED})
	pin("the offer is not in force", queues(4), true, 4, false)
	ack("2", &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED})
	pin("it is", queues(4), true, 4, true)
	ack("2", &pb.Acknowledgement{State: pb.Acknowledgement_PARTIALLY_APPLIED, EffectiveParameters: queues(def + 1)})
	pin("changed by hand", pack(false), true, def+1, false)
	ack("2", &pb.Acknowledgement{State: pb.Acknowledgement_PARTIALLY_APPLIED, EffectiveParameters: queues(1e6)})
	pin("outside the space", pack(false), true, 6, false) // the most
	pin("pinned", queues(4), false, 4, true)
	pin("what is pinned is not in force yet", pack(false), false, 4, false)
	pin("what is on offer", nil, true, 4, false)
}
