package convert

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/rollout"
)

// The most that limits of changes may say.
const (
	maxChangesPerDay = 1000
	maxQuietHours    = 20
)

// LimitsFromProto reads the limits that are set into the default ones.
func LimitsFromProto(r *pb.RolloutPolicy, to *rollout.Limits, v *Violations) {
	const at = "scheduler.spec.rollout."
	if r != nil && r.MaxChangesPerDay != nil {
		if n := r.GetMaxChangesPerDay(); n < 0 || n > maxChangesPerDay {
			v.Add(at+"max_changes_per_day", "%d is not from 0 to %d", n, maxChangesPerDay)
		}
		to.ChangesPerDay = int(r.GetMaxChangesPerDay())
	}
	span := func(dst *time.Duration, d *durationpb.Duration, field string) {
		if d == nil {
			return
		}
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 || d.AsDuration() > MaxSpan {
			v.Add(at+field, "%v is not from 0 to %v", d.AsDuration(), MaxSpan)
		}
		*dst = d.AsDuration()
	}
	span(&to.FlapWindow, r.GetFlapWindow(), "flap_window")
	span(&to.RollbackHold, r.GetRollbackHold(), "rollback_hold")
	if n := len(r.GetQuietHours()); n > maxQuietHours {
		v.Add(at+"quiet_hours", "%d are more than %d", n, maxQuietHours)
		return
	}
	for i, one := range r.GetQuietHours() {
		q, err := rollout.ParseQuietHours(one.GetStart(), one.GetEnd(), one.GetTimeZone())
		if err != nil {
			field := fmt.Sprintf("%squiet_hours[%d]", at, i)
			switch "" {
			case one.GetStart():
				field += ".start"
			case one.GetEnd():
				field += ".end"
			}
			v.Add(field, "%v", err)
		}
		to.QuietHours = append(to.QuietHours, q)
	}
}

// LimitsToProto writes limits into a policy.
func LimitsToProto(l *rollout.Limits, to *pb.RolloutPolicy) {
	changes := int32(l.ChangesPerDay)
	to.MaxChangesPerDay = &changes
	to.FlapWindow, to.RollbackHold = durationpb.New(l.FlapWindow), durationpb.New(l.RollbackHold)
	for _, q := range l.QuietHours {
		to.QuietHours = append(to.QuietHours, &pb.QuietHours{Start: rollout.Clock(q.Start), End: rollout.Clock(q.End),
			TimeZone: q.Zone})
	}
}

// MinSpan and MaxSpan bound the times of a policy.
const MinSpan, MaxSpan = time.Minute, 7 * 24 * time.Hour
