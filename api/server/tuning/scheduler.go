package tuning

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

func schedulerRevisionToProto(c *controller.Scheduler, r *controller.SchedulerRevision) *pb.SchedulerRevision {
	out := &pb.SchedulerRevision{Name: convert.SchedulerRevisionName(c.ID, r.Number), Revision: r.Number}
	if r.Damage != nil || r.Space == nil {
		out.Error = fmt.Sprint("its record is damaged: ", r.Damage)
		return out
	}
	out.CreateTime, out.Objective = timestamppb.New(r.Created), registration.ObjectiveToProto(r.Objective)
	out.Cluster = convert.ClusterToProto(r.Cluster)
	for _, p := range r.Space.Params() {
		out.Parameters = append(out.Parameters, convert.ParamToProto(&p))
	}
	if c.Type == controller.External {
		out.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: r.Objective}}
	}
	out.Constraints = convert.Constraints(r.Space)
	return out
}

// stamped adds the epoch and the etag.
func (s *Service) stamped(c controller.Scheduler, out *pb.Scheduler) *pb.Scheduler {
	out.Epoch, out.Etag = s.o.Stamp.EpochToProto(), s.o.Stamp.SchedulerEtag(&c)
	return out
}

// SchedulerToProto writes a scheduler without epoch and etag.
func SchedulerToProto(c controller.Scheduler, st controller.Status, sp *space.Space) *pb.Scheduler {
	settings := c.Policy.WithDefaults() // records of older versions lack some
	spec := &pb.SchedulerSpec{
		SchedulerType: c.Type,
		Objective:     registration.ObjectiveToProto(c.Objective),
		Cluster:       convert.ClusterToProto(c.Cluster),
		Mode:          pb.SchedulerSpec_RECOMMEND,
		Rollout: &pb.RolloutPolicy{
			UpdateInterval: durationpb.New(c.Policy.UpdateInterval), Adoption: settings.Rule.String(),
			AcknowledgeDeadline: durationpb.New(cmp.Or(c.Policy.AckDeadline, controller.DefaultAckDeadline)),
			Guard:               settings.Guard, Horizon: durationpb.New(settings.Horizon),
			Futures: int32(settings.Futures), TrialBudget: int32(settings.Budget), Seed: settings.Seed,
			Weight: cmp.Or(c.Policy.Weight, 1), AllowedLateness: durationpb.New(c.Policy.AllowedLateness),
		},
	}
	convert.LimitsToProto(&c.Policy.Limits, spec.Rollout)
	if w := &c.Policy.Waves; *w != (rollout.Waves{}) {
		spec.Rollout.Canary, spec.Rollout.WaveShare = w.Canary, w.Share
		spec.Rollout.SoakTime = durationpb.New(cmp.Or(w.Soak, rollout.DefaultSoak))
	}
	if c.Type == controller.External {
		spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: c.Objective}}
	} else {
		spec.Simulation = registration.SimulationToProto(&c.Simulation)
	}
	if c.Mode == controller.Auto {
		spec.Mode = pb.SchedulerSpec_AUTO
	}
	state := pb.Scheduler_ACTIVE
	if c.Paused {
		state = pb.Scheduler_PAUSED
	}
	if !c.Deleted.IsZero() {
		state = pb.Scheduler_DELETED
	}
	for _, p := range sp.Params() {
		spec.Parameters = append(spec.Parameters, convert.ParamToProto(&p))
	}
	spec.Constraints = convert.Constraints(sp)
	out := &pb.Scheduler{
		Name: convert.SchedulerName(c.ID), Uid: c.UID, DisplayName: c.DisplayName, Spec: spec, State: state,
		Generation: c.Generation, Revision: max(1, c.Revision), Labels: c.Labels, Annotations: c.Annotations,
		CreateTime: timestamppb.New(c.Created), UpdateTime: timestamppb.New(c.Updated),
		Status: &pb.SchedulerStatus{EventCount: st.Events, RoundCount: st.Rounds, LastDecision: st.LastDecision,
			LastError: st.LastError, Fidelity: st.Fidelity, Watching: st.Watching, Hold: st.Hold, Deciding: st.Deciding,
			LastIncident: render.IncidentToProto(st.Incident), LateEventCount: st.LateEvents},
	}
	if !c.Deleted.IsZero() {
		out.DeleteTime, out.ExpireTime = timestamppb.New(c.Deleted), timestamppb.New(c.Expires)
	}
	if c.OfferedRevision > 0 {
		out.CurrentConfiguration = convert.ConfigurationName(c.ID, c.OfferedRevision)
	}
	out.Status.Degraded = st.Degraded
	for i := range st.Instances {
		out.Status.Instances = append(out.Status.Instances, instanceToProto(&st.Instances[i], sp))
	}
	out.Freeze, out.Pin = freezeToProto(c.Freeze), pinToProto(c.ID, c.Pin)
	if p := c.Pause; p != nil {
		out.Pause = &pb.Pause{Reason: p.Reason, Actor: p.Actor, CreateTime: timestamppb.New(p.Created)}
	}
	if st.Proposed > 0 {
		out.Status.ProposedConfiguration = convert.ConfigurationName(c.ID, st.Proposed)
	}
	if !st.EventTime.IsZero() {
		out.Status.EventTime = timestamppb.New(st.EventTime)
	}
	return out
}

var conditions = map[rollout.Condition]pb.InstanceStatus_Condition{
	rollout.InSync: pb.InstanceStatus_IN_SYNC, rollout.Pending: pb.InstanceStatus_PENDING,
	rollout.Degraded: pb.InstanceStatus_DEGRADED,
}

func instanceToProto(i *controller.InstanceStatus, sp *space.Space) *pb.InstanceStatus {
	out := &pb.InstanceStatus{InstanceId: i.ID, Condition: conditions[i.Condition], Reason: i.Why,
		DesiredRevision: i.Desired, ReportedRevision: i.Revision, ContentHash: i.Hash,
		EffectiveParameters: convert.ValuesToProto(sp, i.Effective), ReportTime: timestamppb.New(i.Reported)}
	if !i.Applied.IsZero() {
		out.AppliedTime = timestamppb.New(i.Applied)
	}
	return out
}
