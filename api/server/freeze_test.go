package server

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestFreezeTuning freezes one scheduler and all of them, and ends that.
func TestFreezeTuning(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	for _, id := range []string{"a", "b"} {
		f.create(id, pb.SchedulerSpec_AUTO)
	}
	until := timestamppb.New(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	one := &pb.FreezeTuningRequest{Name: "schedulers/a", Reason: "benchmark", ExpireTime: until}
	first, err := f.tuning.FreezeTuning(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	got := first.GetSchedulers()
	if len(got) != 1 || got[0].GetFreeze().GetReason() != "benchmark" ||
		!got[0].GetFreeze().GetExpireTime().AsTime().Equal(until.AsTime()) ||
		got[0].GetStatus().GetHold() != "tuning is frozen until 2030-01-01T00:00:00Z: benchmark" {
		t.Errorf("%v", got)
	}
	if again, err := f.tuning.FreezeTuning(ctx, one); err != nil ||
		again.GetSchedulers()[0].GetEtag() != got[0].GetEtag() {
		t.Errorf("sent again: %v, %v", again, err)
	}
	all, err := f.tuning.FreezeTuning(ctx, &pb.FreezeTuningRequest{Name: "schedulers/-", Reason: "quarter"})
	if err != nil || len(all.GetSchedulers()) != 2 || all.GetSchedulers()[0].GetFreeze().GetReason() != "quarter" {
		t.Errorf("%v, %v", all, err)
	}
	for range 2 {
		none, err := f.tuning.UnfreezeTuning(ctx, &pb.UnfreezeTuningRequest{Name: "schedulers/-"})
		if err != nil || len(none.GetSchedulers()) != 2 || none.GetSchedulers()[1].GetFreeze() != nil ||
			none.GetSchedulers()[1].GetStatus().GetHold() != "" {
			t.Errorf("%v, %v", none, err)
		}
	}
	for _, bad := range []*pb.FreezeTuningRequest{{Name: "schedulers/a"}, {Name: "a", Reason: "x"},
		{Name: "schedulers/none", Reason: "x"},
		{Name: "schedulers/a", Reason: "x", ExpireTime: &timestamppb.Timestamp{Nanos: -1}}} {
		if _, err := f.tuning.FreezeTuning(ctx, bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	f.ingest("b", submitted("1", 0))
	_, st, err := f.server.service.Scheduler("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"schedulers/b", "schedulers/-"} { // and nothing is frozen
		over := &pb.FreezeTuningRequest{Name: name, Reason: "x", ExpireTime: timestamppb.New(st.EventTime)}
		if _, err := f.tuning.FreezeTuning(ctx, over); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a freeze of %s that is over: %v", name, err)
		}
	}
	if got, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/a"}); err != nil ||
		got.GetFreeze() != nil {
		t.Errorf("%v, %v", got, err)
	}
	later := &pb.FreezeTuningRequest{Name: "schedulers/-", Reason: "x",
		ExpireTime: timestamppb.New(st.EventTime.Add(time.Second))}
	if _, err := f.tuning.FreezeTuning(ctx, later); err != nil {
		t.Error(err)
	}
}

// TestLasting: a freeze and a pin are not for ever where an instant is meant, and say why.
func TestLasting(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_AUTO)
	ctx, name := background(t), "schedulers/prod"
	for field, c := range map[string]struct {
		reason string
		until  *timestamppb.Timestamp
	}{
		"reason":      {" \n\t", nil},
		"expire_time": {"why", timestamppb.New(time.Time{})},
	} {
		refuses(t, codes.InvalidArgument, field, func() error {
			_, err := f.config.PinConfiguration(ctx, &pb.PinConfigurationRequest{Parent: name, Reason: c.reason,
				ExpireTime: c.until})
			return err
		})
		refuses(t, codes.InvalidArgument, field, func() error {
			_, err := f.tuning.FreezeTuning(ctx, &pb.FreezeTuningRequest{Name: name, Reason: c.reason,
				ExpireTime: c.until})
			return err
		})
	}
	got, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil || got.GetPin() != nil || got.GetFreeze() != nil {
		t.Errorf("%v %v", got, err)
	}
}
