// Package render writes records of the service as messages of the API: configurations, rounds,
// studies and reported metrics.
package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/study"
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
	rollout.Lost: pb.Configuration_LOST, rollout.Parked: pb.Configuration_PARKED,
}

var origins = map[rollout.Origin]pb.Configuration_Origin{
	rollout.FromDefault: pb.Configuration_DEFAULT, rollout.FromTuning: pb.Configuration_TUNED,
	rollout.FromRestore: pb.Configuration_RESTORED, rollout.FromJudge: pb.Configuration_REVERTED,
	rollout.FromSpace: pb.Configuration_PROJECTED, rollout.FromPin: pb.Configuration_PINNED,
	rollout.FromStudy: pb.Configuration_STUDY, rollout.FromManual: pb.Configuration_MANUAL,
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
		out.Review = &pb.Review{Approved: r.Approved, Parked: r.Parked, Actor: r.Actor, Reason: r.Why,
			CreateTime: timestamppb.New(r.At)}
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

// RoundToProto has candidates and settings only if the whole is asked for.
func RoundToProto(id string, r *controller.RoundRecord, whole bool) (out *pb.Round, err error) {
	fields := func(text json.RawMessage) map[string]*structpb.Value {
		s := &structpb.Struct{}
		if bad := s.UnmarshalJSON(text); bad != nil && err == nil {
			err = fmt.Errorf("server: round %d: %w", r.Sequence, bad)
		}
		return s.GetFields()
	}
	out = &pb.Round{Name: convert.RoundName(id, r.Sequence)}
	if r.Damage != nil {
		out.Error = r.Damage.Error()
		return out, nil
	}
	x := &r.Input
	out.SchedulerTime, out.CreateTime = timestamppb.New(x.Zero.Add(x.At)), timestamppb.New(r.Decided)
	out.Duration, out.Urgent, out.Outcome, out.Revision = durationpb.New(r.Took), x.Urgent, r.Outcome, r.Revision
	out.Error, out.IncumbentRevision = r.Error, x.Running
	out.InputDigest, out.EventCount, out.EventCursor = r.Digest, r.Events, r.Cursor
	out.SimulatorVersion, out.SchedulerRevision = r.Simulator, max(1, x.SchedulerRevision)
	if d := r.Decision; d != nil {
		out.Adopt, out.Reason, out.ControllableRatio = d.Adopt, d.Reason, d.Ratio
		out.Parameters, out.PredictedObjectives, out.IncumbentObjectives = fields(d.Config), d.Predicted, d.Before
		out.Search, out.SearchReason = string(d.Search), d.Why
		out.Energy, out.IncumbentEnergy = energyToProto(d.Energy)
	}
	if !whole {
		return out, err
	}
	if r.Decision != nil {
		names := round.Origins(x.History, x.Zero)
		for _, c := range r.Decision.Candidates {
			one := &pb.Round_Candidate{Origin: cmp.Or(names[c.Origin], c.Origin),
				ControllableRatio: c.Ratio, Objectives: c.Objective,
				Error: c.Error, Outcome: c.Outcome}
			if len(c.Config) > 0 {
				one.Parameters = fields(c.Config)
			}
			out.Candidates = append(out.Candidates, one)
		}
	}
	settings, bad := json.Marshal(struct {
		Objective  string                `json:"objective"`
		Type       string                `json:"scheduler"`
		Settings   any                   `json:"settings"`
		Simulation controller.Simulation `json:"simulation"`
	}{x.Objective, x.Type, x.Settings, x.Simulation})
	if bad != nil {
		return nil, fmt.Errorf("server: round %d: %w", r.Sequence, bad)
	}
	out.Settings = &structpb.Struct{Fields: fields(settings)}
	return out, err
}

// runToProto converts the evaluation of a study; nil if none measures it.
func runToProto(scheduler string, st *study.State, p problems) *pb.StudyRun {
	if st.Run == nil {
		return nil
	}
	return &pb.StudyRun{Evaluator: st.Run.Evaluator, Workload: st.Run.Workload,
		WorkloadSha256: st.Run.SHA256, ParallelTrials: int32(st.Run.Parallel), StartTime: timestamppb.New(st.Run.Since),
		Problem: p.Problem(scheduler, st), Operation: OperationsPrefix + st.UID}
}

// OperationsPrefix begins the names of operations.
const OperationsPrefix = "operations/"

var studyStates = map[study.Phase]pb.Study_State{
	study.Active: pb.Study_ACTIVE, study.Paused: pb.Study_PAUSED, study.Completed: pb.Study_COMPLETED,
	study.Cancelled: pb.Study_CANCELLED,
}

var causalModels = map[study.Causal]pb.StudySpec_CausalModel{
	study.CausalAuto: pb.StudySpec_AUTO, study.CausalOn: pb.StudySpec_ON, study.CausalOff: pb.StudySpec_OFF,
}

// problems finds why evaluators do not measure a study.
type problems interface {
	// Problem returns why nothing is measured of a study that is run, "" if something is.
	Problem(scheduler string, st *study.State) string
}

// Study writes a study with its etag and the problem of its run.
func (e Stamp) Study(scheduler string, st *study.State, p problems) *pb.Study {
	goal := pb.StudySpec_MINIMIZE
	if st.Spec.Maximize {
		goal = pb.StudySpec_MAXIMIZE
	}
	out := &pb.Study{Name: convert.StudyName(scheduler, st.ID), Uid: st.UID, Etag: e.studyEtag(&st.Record),
		DisplayName: st.Display,
		State:       studyStates[st.Phase],
		CreateTime:  timestamppb.New(st.Created), UpdateTime: timestamppb.New(st.Updated), UsedBudget: int32(st.Used()),
		TrialCounts: map[string]int32{}, SamplerChoice: st.Choice, Run: runToProto(scheduler, st, p),
		Spec: &pb.StudySpec{Algorithm: st.Spec.Algorithm, TrialBudget: int32(st.Spec.Budget), Seed: st.Spec.Seed,
			MetricId: st.Spec.Metric, Goal: goal, LeaseDuration: durationpb.New(st.Spec.Lease),
			AllowRepeats: st.Spec.AllowRepeats, CausalModel: causalModels[st.Spec.Causal],
			SchedulerRevision: st.Spec.Revision,
			Parameters:        convert.Parameters(st.Space.Default()), Constraints: convert.Constraints(st.Space)}}
	for state, n := range st.Count() {
		out.TrialCounts[trialStates[state].String()] = int32(n)
	}
	return out
}

var trialStates = map[study.TrialState]pb.Trial_State{
	study.Requested: pb.Trial_REQUESTED, study.Running: pb.Trial_ACTIVE, study.Stopping: pb.Trial_STOPPING,
	study.Succeeded: pb.Trial_SUCCEEDED, study.Failed: pb.Trial_FAILED, study.Infeasible: pb.Trial_INFEASIBLE,
	study.Stale: pb.Trial_STALE, study.Skipped: pb.Trial_SKIPPED,
}

// TrialToProto writes a trial of a study.
func TrialToProto(scheduler string, s *study.State, t *study.Trial) *pb.Trial {
	name := func(id int64) string {
		if id == 0 {
			return ""
		}
		return convert.TrialName(scheduler, s.ID, id)
	}
	stamp := func(at time.Time) *timestamppb.Timestamp {
		if at.IsZero() {
			return nil
		}
		return timestamppb.New(at)
	}
	out := &pb.Trial{Name: name(t.ID), State: trialStates[t.State], Parameters: convert.ConfigToProto(t.Config),
		Origin: t.Origin, ClientId: t.Client, CreateTime: stamp(t.Created), StartTime: stamp(t.Started),
		EndTime: stamp(t.Ended), LeaseExpireTime: stamp(t.Expires), Reason: t.Reason, WasStale: t.WasStale,
		Deduplicated: t.SameAs != 0, SameAs: name(t.SameAs), RetriedBy: name(t.Retry), RetryOf: name(t.RetryOf),
		SuggestedParameters: convert.ValuesToProto(s.Space, t.Suggested), Narrowed: t.Narrowed}
	for i := range t.Measurements {
		out.Measurements = append(out.Measurements, measurementToProto(&t.Measurements[i]))
	}
	if t.Final != nil {
		out.FinalMeasurement = measurementToProto(t.Final)
	}
	if t.Prediction != nil {
		mean, sd := s.Spec.Predicted(t.Prediction)
		out.Prediction = &pb.Prediction{Mean: mean, StandardDeviation: sd}
	}
	return out
}

func measurementToProto(m *study.Measurement) *pb.Measurement {
	out := &pb.Measurement{StepCount: m.Step, Metrics: m.Metrics}
	if m.Elapsed > 0 {
		out.ElapsedDuration = durationpb.New(m.Elapsed)
	}
	return out
}

// Stamp makes the etags of resources, which hold for one epoch of the store.
type Stamp struct{ controller.Epoch }

// Etag identifies a revision: the values behind a poll change only with it. That of a parked proposal is another one:
// who read it before must read it again before an approval.
func (e Stamp) Etag(c *rollout.Configuration) string {
	etag := fmt.Sprintf("%x-%d-%.16s", e.Counter, c.Revision, c.Hash)
	if c.State == rollout.Parked {
		etag += "-parked"
	}
	return etag
}

// Configuration is a revision as the API shows it.
func (e Stamp) Configuration(c *rollout.Configuration) *pb.Configuration {
	out := ConfigurationToProto(c)
	out.Epoch, out.Etag = e.EpochToProto(), e.Etag(c)
	return out
}

// Configured is the answer of a call that changes a revision.
func (e Stamp) Configured(c *rollout.Configuration, err error) (*pb.Configuration, error) {
	if err != nil {
		return nil, err
	}
	return e.Configuration(c), nil
}

// EpochToProto writes the epoch of the store.
func (e Stamp) EpochToProto() *pb.Epoch { return &pb.Epoch{Id: e.ID, Counter: e.Counter} }

// Same refuses a configuration that has another etag than a request.
func (e Stamp) Same(etag string) controller.Check {
	return func(c *rollout.Configuration) error { return rpc.Match(etag, e.Etag(c)) }
}

// SchedulerEtag identifies the settings of a scheduler.
func (e Stamp) SchedulerEtag(c *controller.Scheduler) string {
	return fmt.Sprintf("%x-%.8s-%d", e.Counter, c.UID, c.Generation)
}

// StudyEtag identifies the settings of a study.
func (e Stamp) studyEtag(r *study.Record) string {
	run, _ := json.Marshal(r.Run) // plain values
	sum := sha256.Sum256(append(run, r.Phase...))
	return fmt.Sprintf("%x-%.8s-%x", e.Counter, r.UID, sum[:4])
}

// SameStudy refuses a study that has another etag than a request.
func (e Stamp) SameStudy(etag string) func(*study.Record) error {
	return func(r *study.Record) error { return rpc.Match(etag, e.studyEtag(r)) }
}

// WorkloadEtag returns the etag of a workload.
func (e Stamp) WorkloadEtag(r *workloads.Record) string {
	return fmt.Sprintf("%x-%.8s", e.Counter, r.UID)
}

// Changes are summaries of reported metrics by revision.
type Changes interface {
	// Changes returns the metrics reported under a revision, each with that of the revision before.
	Changes(scheduler string, revision int64) ([]reports.Change, error)
}

// Reported returns the metrics reported under a revision, none if c is nil.
func Reported(c Changes, id string, revision int64) (out []*pb.ReportedMetric, err error) {
	if c == nil {
		return nil, nil
	}
	all, err := c.Changes(id, revision)
	for _, c := range all {
		one := summaryToProto(&c.Summary)
		if c.Before != nil {
			one.Previous = summaryToProto(c.Before)
		}
		out = append(out, one)
	}
	return out, err
}

func summaryToProto(s *reports.Summary) *pb.ReportedMetric {
	out := &pb.ReportedMetric{MetricId: s.Metric, ConfigurationRevision: s.Revision, Mean: s.Mean,
		IntervalCount: int32(s.Intervals), ReportCount: int32(s.Reports), StartTime: timestamppb.New(s.From),
		EndTime: timestamppb.New(s.To)}
	if !math.IsNaN(s.Low) {
		out.MeanLow, out.MeanHigh = &s.Low, &s.High
	}
	return out
}
