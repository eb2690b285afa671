// Package render writes records of the service as messages of the API: configurations, rounds,
// studies and reported metrics.
package render

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// AckStates converts the states of acknowledgements.
var AckStates = map[pb.Acknowledgement_State]rollout.AckState{
	pb.Acknowledgement_APPLIED: rollout.AckApplied, pb.Acknowledgement_PARTIALLY_APPLIED: rollout.AckPartial,
	pb.Acknowledgement_REJECTED: rollout.AckRejected, pb.Acknowledgement_FAILED: rollout.AckFailed,
}

var configStates = map[rollout.RevisionState]pb.Configuration_State{
	rollout.Proposed: pb.Configuration_PROPOSED, rollout.Published: pb.Configuration_PUBLISHED,
	rollout.RolledOut:  pb.Configuration_ROLLED_OUT,
	rollout.Superseded: pb.Configuration_SUPERSEDED, rollout.Rejected: pb.Configuration_REJECTED,
	rollout.Lost: pb.Configuration_LOST,
}

var origins = map[rollout.Origin]pb.Configuration_Origin{
	rollout.FromDefault: pb.Configuration_DEFAULT, rollout.FromTuning: pb.Configuration_TUNED,
	rollout.FromRestore: pb.Configuration_RESTORED, rollout.FromJudge: pb.Configuration_REVERTED,
	rollout.FromSpace: pb.Configuration_PROJECTED, rollout.FromPin: pb.Configuration_PINNED,
	rollout.FromStudy: pb.Configuration_STUDY,
}

// ConfigurationToProto writes a configuration without epoch and etag.
func ConfigurationToProto(c *rollout.Configuration) *pb.Configuration {
	sp := c.Config.Space()
	out := &pb.Configuration{
		Name: convert.ConfigurationName(c.Scheduler, c.Revision), Uid: c.UID, Revision: c.Revision,
		State:      configStates[c.State],
		Origin:     origins[c.Origin],
		Parameters: convert.ConfigToProto(c.Config), ContentHash: c.Hash,
		CreateTime: timestamppb.New(c.Created), UpdateTime: timestamppb.New(c.Updated), Reason: c.Reason,
		Incident: IncidentToProto(c), SchedulerRevision: max(1, c.Space),
	}
	if e := c.Evidence; e != nil {
		out.Evidence = &pb.TuningEvidence{
			Round: e.Round, TrialName: e.Trial, Seed: e.Seed, ControllableRatio: e.Ratio,
			IncumbentRevision: e.Incumbent, Details: statsToProto(e.Stats),
			RatioLow: e.Interval.Low, RatioHigh: e.Interval.High, Search: string(e.Search), SearchReason: e.Why,
			Fidelity: e.Fidelity, RoundName: convert.RoundName(c.Scheduler, e.Record),
		}
		out.Evidence.Energy, out.Evidence.IncumbentEnergy = energyToProto(e.Energy)
	}
	if e := c.Evidence; e != nil && !e.At.IsZero() {
		out.Evidence.SchedulerTime = timestamppb.New(e.At)
	}
	if a := c.Ack; a != nil {
		ack := &pb.Acknowledgement{Error: a.Error, InstanceId: a.Instance}
		for state, name := range AckStates {
			if name == a.State {
				ack.State = state
			}
		}
		if !a.Applied.IsZero() {
			ack.AppliedTime = timestamppb.New(a.Applied)
		}
		ack.EffectiveParameters = convert.ValuesToProto(sp, a.Effective)
		out.Acknowledgement = ack
	}
	if r := c.Review; r != nil {
		out.Review = &pb.Review{Approved: r.Approved, Actor: r.Actor, Reason: r.Why, CreateTime: timestamppb.New(r.At)}
	}
	return out
}

// IncidentToProto is the incident of a revision, nil if there is none.
func IncidentToProto(c *rollout.Configuration) *pb.Incident {
	if c == nil || c.Incident == nil {
		return nil
	}
	i := c.Incident
	out := &pb.Incident{SchedulerTime: timestamppb.New(i.At), Actor: i.Actor, WorseRevision: i.Revision,
		GoodRevision: i.Good, Reason: i.Verdict.Reason, ControllableRatio: i.Verdict.Ratio,
		Excess: i.Verdict.Excess}
	if !c.Alarmed() {
		out.Revision = c.Revision
	}
	if !i.Until.IsZero() {
		out.ParkExpireTime = timestamppb.New(i.Until)
	}
	return out
}

// statsToProto names the counts of a round; nil if there are none.
func statsToProto(s round.Stats) map[string]float64 {
	if s == (round.Stats{}) {
		return nil
	}
	out := map[string]float64{"trials": float64(s.Trials), "evaluations": float64(s.Evaluations)}
	if s.Replayed > 0 {
		out["replayed"] = float64(s.Replayed)
	}
	if s.Simplified > 0 {
		out["simplified"] = float64(s.Simplified)
	}
	if s.WiderThanCluster > 0 {
		out["jobs_wider_than_cluster"] = float64(s.WiderThanCluster)
	}
	return out
}

// energyToProto converts the energy of a configuration and the incumbent; nil if it was not counted.
func energyToProto(c *round.EnergyChange) (after, before *pb.EnergyUse) {
	if c == nil {
		return nil, nil
	}
	return EnergyUse(&c.After), EnergyUse(&c.Before)
}

// EnergyUse is nil for nil.
func EnergyUse(a *energy.Amount) *pb.EnergyUse {
	if a == nil {
		return nil
	}
	band := func(b energy.Band) *pb.EnergyBand { return &pb.EnergyBand{Low: b.Low, Middle: b.Middle, High: b.High} }
	return &pb.EnergyUse{EnergyKwh: band(a.Energy), CostUsd: band(a.Cost), Co2Kg: band(a.CO2)}
}
