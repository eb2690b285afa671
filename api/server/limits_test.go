package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestLimits: they are registered, answered, registered again as answered, and changed one by one.
func TestLimits(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	defaults := f.create("a", pb.SchedulerSpec_AUTO).GetSpec().GetRollout()
	if defaults.GetMaxChangesPerDay() != 6 || defaults.GetFlapWindow().AsDuration() != 24*time.Hour ||
		defaults.GetRollbackHold().AsDuration() != 24*time.Hour || len(defaults.GetQuietHours()) != 0 {
		t.Errorf("defaults %v", defaults)
	}
	r := request("b", pb.SchedulerSpec_AUTO)
	r.Scheduler.Spec.Rollout = &pb.RolloutPolicy{MaxChangesPerDay: proto.Int32(0), FlapWindow: durationpb.New(0),
		RollbackHold: durationpb.New(time.Hour),
		QuietHours: []*pb.QuietHours{{Start: "22:00", End: "06:00", TimeZone: "Europe/Berlin"},
			{Start: "12:00", End: "24:00"}}}
	got, err := f.tuning.CreateScheduler(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		limits := got.GetSpec().GetRollout()
		limits = &pb.RolloutPolicy{MaxChangesPerDay: limits.MaxChangesPerDay, FlapWindow: limits.GetFlapWindow(),
			RollbackHold: limits.GetRollbackHold(), QuietHours: limits.GetQuietHours()}
		if !proto.Equal(limits, r.Scheduler.Spec.Rollout) {
			t.Errorf("limits %s", protojson.Format(limits))
		}
		again := &pb.CreateSchedulerRequest{SchedulerId: "c", Scheduler: &pb.Scheduler{Spec: got.GetSpec()},
			ValidateOnly: true}
		if got, err = f.tuning.CreateScheduler(ctx, again); err != nil {
			t.Fatal(err)
		}
	}
	update := func(r *pb.RolloutPolicy, fields ...string) (*pb.RolloutPolicy, error) {
		mask := &fieldmaskpb.FieldMask{}
		for _, one := range fields {
			mask.Paths = append(mask.Paths, "spec.rollout."+one)
		}
		got, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{UpdateMask: mask,
			Scheduler: &pb.Scheduler{Name: "schedulers/b", Spec: &pb.SchedulerSpec{Rollout: r}}})
		return got.GetSpec().GetRollout(), err
	}
	changed, err := update(&pb.RolloutPolicy{MaxChangesPerDay: proto.Int32(2)}, "max_changes_per_day", "flap_window")
	if err != nil || changed.GetMaxChangesPerDay() != 2 || changed.GetFlapWindow().AsDuration() != 24*time.Hour ||
		changed.GetRollbackHold().AsDuration() != time.Hour || len(changed.GetQuietHours()) != 2 {
		t.Errorf("%v, %v", changed, err)
	}
	changed, err = update(&pb.RolloutPolicy{}, "quiet_hours", "rollback_hold")
	if err != nil || len(changed.GetQuietHours()) != 0 || changed.GetRollbackHold().AsDuration() != 24*time.Hour ||
		changed.GetMaxChangesPerDay() != 2 {
		t.Errorf("%v, %v", changed, err)
	}
	waves := &pb.RolloutPolicy{Canary: true, WaveShare: .5}
	changed, err = update(waves, "canary", "wave_share")
	if err != nil || !changed.GetCanary() || changed.GetWaveShare() != .5 ||
		changed.GetSoakTime().AsDuration() != time.Hour {
		t.Errorf("%v, %v", changed, err)
	}
	changed, err = update(&pb.RolloutPolicy{SoakTime: durationpb.New(-1)}, "soak_time", "wave_share")
	if err != nil || !changed.GetCanary() || changed.GetWaveShare() != 0 || changed.GetSoakTime().AsDuration() != -1 {
		t.Errorf("%v, %v", changed, err)
	}
	for _, share := range []float64{-1, 1, math.NaN()} {
		if _, err := update(&pb.RolloutPolicy{WaveShare: share}, "wave_share"); err == nil ||
			!strings.Contains(err.Error(), "scheduler.spec.rollout.wave_share") {
			t.Errorf("%v: %v", share, err)
		}
	}
	_, err = update(&pb.RolloutPolicy{QuietHours: []*pb.QuietHours{{Start: "9", End: "10:00"}}}, "quiet_hours")
	if err == nil || !strings.Contains(err.Error(), `scheduler.spec.rollout.quiet_hours[0]: start "9"`) {
		t.Errorf("%v", err)
	}
}
