package render

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/study"
)

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
