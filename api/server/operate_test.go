package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/tuning"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

func TestUpdateScheduler(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	made := f.create("s", pb.SchedulerSpec_RECOMMEND)
	ask := func(etag string, validate bool, paths ...string) (*pb.Scheduler, error) {
		return f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
			Scheduler: &pb.Scheduler{Name: made.GetName(), Etag: etag, DisplayName: "the big one",
				Spec: &pb.SchedulerSpec{
					Mode:      pb.SchedulerSpec_AUTO,
					Objective: &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "p99_jct"}},
					Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(30 * time.Minute), Futures: 8,
						TrialBudget: 80, Adoption: "paper", Guard: .2},
				}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}, ValidateOnly: validate,
		})
	}
	got, err := ask(made.GetEtag(), true, "spec.mode")
	if err != nil || got.GetSpec().GetMode() != pb.SchedulerSpec_AUTO || got.GetEtag() != made.GetEtag() {
		t.Fatalf("validate only: %v, %v", got, err)
	}
	// Only the fields of the mask.
	got, err = ask(made.GetEtag(), false, "spec.mode", "spec.rollout.futures", "spec.rollout.guard",
		"spec.rollout.adoption")
	if err != nil {
		t.Fatal(err)
	}
	spec := got.GetSpec()
	if r := spec.GetRollout(); r.GetGuard() != .2 || r.GetAdoption() != "paper" {
		t.Errorf("adoption: %v", r)
	}
	if spec.GetMode() != pb.SchedulerSpec_AUTO || spec.GetRollout().GetFutures() != 8 ||
		spec.GetRollout().GetTrialBudget() != 40 ||
		spec.GetObjective().GetMetricId() != "avg_jct" || got.GetDisplayName() != "" ||
		got.GetEtag() == made.GetEtag() {
		t.Errorf("updated: %v", got)
	}
	refuses(t, codes.Aborted, "", func() error { _, err := ask(made.GetEtag(), false, "spec.mode"); return err })
	got, err = ask("", false, "display_name", "spec.objective", "spec.rollout")
	if err != nil || got.GetDisplayName() != "the big one" || got.GetSpec().GetObjective().GetMetricId() != "p99_jct" ||
		got.GetSpec().GetRollout().GetUpdateInterval().AsDuration() != 30*time.Minute ||
		got.GetSpec().GetRollout().GetTrialBudget() != 80 {
		t.Errorf("updated: %v, %v", got, err)
	}
	got, err = f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
		Scheduler: &pb.Scheduler{Name: made.GetName(), Spec: &pb.SchedulerSpec{
			Objective: &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: "avg_jct subject to p99_jct <= " +
				"1.1*incumbent,avg_wait<=30m"}}}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.objective"}},
	})
	if want := "avg_jct subject to p99_jct<=1.1*incumbent, avg_queue<=30m"; err != nil ||
		got.GetSpec().GetObjective().GetGoal() != want {
		t.Errorf("updated: %v, %v, want the goal %s", got, err, want)
	}
	// Whatever can be an objective is one by its name alone.
	for metric, want := range map[string]string{"avg_wait": "avg_queue", "p95_queue": "p95_queue",
		"deadline_misses": "deadline_misses", "max_rho": "max_rho"} {
		got, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
			Scheduler: &pb.Scheduler{Name: made.GetName(),
				Spec: &pb.SchedulerSpec{Objective: &pb.ObjectiveSpec{
					Kind: &pb.ObjectiveSpec_MetricId{MetricId: metric}}}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.objective"}},
		})
		if err != nil || got.GetSpec().GetObjective().GetMetricId() != want {
			t.Errorf("%s: %v, %v", metric, got, err)
		}
	}
	refuses(t, codes.InvalidArgument, "scheduler.spec.objective.metric_id", func() error {
		_, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
			Scheduler: &pb.Scheduler{Name: made.GetName(),
				Spec: &pb.SchedulerSpec{Objective: &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "tenant_avg_queue"}}}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.objective"}},
		})
		return err
	})
	if _, err := ask("", false, "spec.objective"); err != nil {
		t.Fatal(err)
	}
	// A bad goal is refused by whichever path it is named.
	for _, path := range []string{"spec.objective", "spec.objective.metric_id", "spec.objective.goal"} {
		refuses(t, codes.InvalidArgument, "scheduler.spec.objective.goal", func() error {
			_, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
				Scheduler: &pb.Scheduler{Name: made.GetName(),
					Spec: &pb.SchedulerSpec{Objective: &pb.ObjectiveSpec{
						Kind: &pb.ObjectiveSpec_Goal{Goal: "nothing"}}}},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}},
			})
			return err
		})
	}
	// Without a mask, the fields that are set.
	got, err = f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{Scheduler: &pb.Scheduler{Name: made.GetName(),
		Spec: &pb.SchedulerSpec{Rollout: &pb.RolloutPolicy{TrialBudget: 33}}}})
	if err != nil || got.GetSpec().GetRollout().GetTrialBudget() != 33 || got.GetDisplayName() != "the big one" ||
		got.GetSpec().GetRollout().GetUpdateInterval().AsDuration() != 30*time.Minute {
		t.Errorf("without a mask: %v, %v", got, err)
	}
	refuses(t, codes.InvalidArgument, "update_mask", func() error {
		_, err := f.tuning.UpdateScheduler(ctx,
			&pb.UpdateSchedulerRequest{Scheduler: &pb.Scheduler{Name: made.GetName()}})
		return err
	})
	refuses(t, codes.InvalidArgument, "update_mask", func() error {
		_, err := ask("", false, "spec.scheduler_type")
		return err
	})
	refuses(t, codes.InvalidArgument, "scheduler.spec.rollout.futures", func() error {
		_, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
			Scheduler: &pb.Scheduler{Name: made.GetName(),
				Spec: &pb.SchedulerSpec{Rollout: &pb.RolloutPolicy{Futures: 65}}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.rollout"}},
		})
		return err
	})
	refuses(t, codes.NotFound, "", func() error {
		_, err := f.tuning.UpdateScheduler(ctx,
			&pb.UpdateSchedulerRequest{Scheduler: &pb.Scheduler{Name: "schedulers/none"},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.mode"}}})
		return err
	})
	refuses(t, codes.InvalidArgument, "scheduler.name", func() error {
		_, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{})
		return err
	})
}

// TestUpdateSimulation: whole, by field, and back to what the service was started with. The cost of a round with the
// updated and the other fields is bounded.
func TestUpdatedRoundsAreBounded(t *testing.T) {
	f := serve(t, nil)
	f.create("s", pb.SchedulerSpec_AUTO)
	update := func(r *pb.RolloutPolicy, path string) error {
		_, err := f.tuning.UpdateScheduler(background(t), &pb.UpdateSchedulerRequest{
			Scheduler:  &pb.Scheduler{Name: "schedulers/s", Spec: &pb.SchedulerSpec{Rollout: r}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}}})
		return err
	}
	if err := update(&pb.RolloutPolicy{TrialBudget: 4000}, "spec.rollout.trial_budget"); err != nil {
		t.Error(err)
	}
	refuses(t, codes.InvalidArgument, "scheduler.spec.rollout.trial_budget", func() error {
		return update(&pb.RolloutPolicy{Futures: 8}, "spec.rollout.futures")
	})
}

// The etag of a scheduler covers the fields that operators set: events, rounds and acknowledgements between a read and
// the update that follows from it do not make the update fail.
func TestEtagIgnoresTheStatus(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	read := f.create("s", pb.SchedulerSpec_AUTO)
	f.ingest("s", submitted("1", 0), submitted("2", 2*time.Hour))
	f.waitRounds("s", 1)
	f.acknowledge("schedulers/s/configurations/1", pb.Acknowledgement_APPLIED)
	rename := func(etag string) (*pb.Scheduler, error) {
		return f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
			Scheduler:  &pb.Scheduler{Name: read.GetName(), Etag: etag, DisplayName: etag},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}}})
	}
	got, err := rename(read.GetEtag())
	if err != nil || got.GetEtag() == read.GetEtag() || got.GetGeneration() != read.GetGeneration()+1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := rename(read.GetEtag()); status.Code(err) != codes.Aborted {
		t.Errorf("a second update by the same etag: %v", err)
	}
}

func TestUpdateSimulation(t *testing.T) {
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline}, Options{
		Builtins:   []controller.Builtin{testBuiltin},
		Simulation: controller.Simulation{MaxPreemptions: 2, MinRun: time.Minute},
	})
	made := f.create("s", pb.SchedulerSpec_AUTO)
	update := func(sim *pb.Simulation, paths ...string) (*pb.Simulation, error) {
		got, err := f.tuning.UpdateScheduler(background(t), &pb.UpdateSchedulerRequest{
			Scheduler:  &pb.Scheduler{Name: made.GetName(), Spec: &pb.SchedulerSpec{Simulation: sim}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
		})
		return got.GetSpec().GetSimulation(), err
	}
	models := func(text string) *structpb.Struct {
		out := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(text), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	costly := models(
		`{"restart": {"source": "measured", "steps": [{"gpus": 1, "seconds": 60}], "proportional_beyond": false}}`)
	asked := &pb.Simulation{MaxPreemptions: 7, MinRun: durationpb.New(time.Hour), Models: costly}
	for _, step := range []struct {
		sim   *pb.Simulation
		paths []string
		want  *pb.Simulation
	}{
		{asked, []string{"spec.simulation.min_run"}, &pb.Simulation{MaxPreemptions: 2, MinRun: asked.MinRun}},
		{asked, []string{"spec.simulation.models", "spec.simulation.max_preemptions"}, asked},
		{&pb.Simulation{}, []string{"spec.simulation.models"}, &pb.Simulation{MaxPreemptions: 7, MinRun: asked.MinRun}},
		{asked, []string{"spec.simulation"}, asked},
		{asked, []string{"spec.mode"}, asked},
		{&pb.Simulation{MaxPreemptions: 3}, []string{"spec.simulation"}, &pb.Simulation{MaxPreemptions: 3}},
		{nil, []string{"spec.simulation"}, &pb.Simulation{MaxPreemptions: 2, MinRun: durationpb.New(time.Minute)}},
	} {
		if got, err := update(step.sim, step.paths...); err != nil || !proto.Equal(got, step.want) {
			t.Errorf("%v of %v: %v, %v, want %v", step.paths, step.sim, got, err, step.want)
		}
	}
	for field, bad := range map[string]*pb.Simulation{
		"max_preemptions": {MaxPreemptions: -1},
		"min_run":         {MinRun: durationpb.New(8 * 24 * time.Hour)},
		"models":          {Models: models(`{"restart": {"source": "", "steps": []}}`)},
	} {
		field = "spec.simulation." + field
		for _, path := range []string{"spec.simulation", field} {
			refuses(t, codes.InvalidArgument, "scheduler."+field, func() error {
				_, err := update(bad, path)
				return err
			})
		}
		if _, err := update(bad, "spec.rollout"); err != nil { // not named by the mask
			t.Error(err)
		}
	}
}

func TestPauseTuning(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	made := f.create("s", pb.SchedulerSpec_AUTO)
	first, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: made.GetName()})
	if err != nil || first.GetState() != pb.Scheduler_PAUSED {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: made.GetName()})
	if err != nil || again.GetEtag() != first.GetEtag() {
		t.Errorf("paused again: %v, %v", again, err)
	}
	if got, err := f.tuning.ResumeTuning(ctx, &pb.ResumeTuningRequest{Name: made.GetName()}); err != nil ||
		got.GetState() != pb.Scheduler_ACTIVE {
		t.Errorf("%v, %v", got, err)
	}
	refuses(t, codes.NotFound, "", func() error {
		_, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: "schedulers/none"})
		return err
	})
	refuses(t, codes.InvalidArgument, "name", func() error {
		_, err := f.tuning.ResumeTuning(ctx, &pb.ResumeTuningRequest{Name: "s"})
		return err
	})
}

// TestApproveAndRollBack is an operator's day with a scheduler in mode RECOMMEND.
func TestApproveAndRollBack(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	made := f.create("s", pb.SchedulerSpec_RECOMMEND)
	f.ingest("s", submitted("a", 30*time.Minute), submitted("b", 61*time.Minute))
	proposal := made.GetName() + "/configurations/2"
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := f.config.GetConfiguration(ctx, &pb.GetConfigurationRequest{Name: proposal}); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: made.GetName()}); err != nil {
		t.Fatal(err)
	}
	got, err := f.config.ApproveConfiguration(ctx, &pb.ApproveConfigurationRequest{Name: proposal})
	if err != nil || got.GetState() != pb.Configuration_PUBLISHED {
		t.Fatalf("%v, %v", got, err)
	}
	if now, err := f.config.GetCurrentConfiguration(ctx,
		&pb.GetCurrentConfigurationRequest{Name: made.GetName()}); err != nil ||
		now.GetConfiguration().GetRevision() != 2 {
		t.Errorf("%v, %v", now, err)
	}
	back, err := f.config.RollbackConfiguration(ctx,
		&pb.RollbackConfigurationRequest{Parent: made.GetName(), Park: true})
	if err != nil || back.GetRevision() != 3 || back.GetOrigin() != pb.Configuration_RESTORED ||
		back.GetParameters()["pack"].GetBoolValue() {
		t.Errorf("%v, %v", back, err)
	}
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := f.config.ApproveConfiguration(ctx, &pb.ApproveConfigurationRequest{Name: proposal})
		return err
	})
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := f.config.RollbackConfiguration(ctx,
			&pb.RollbackConfigurationRequest{Parent: made.GetName(), Revision: 2})
		return err
	})
	refuses(t, codes.InvalidArgument, "revision", func() error {
		_, err := f.config.RollbackConfiguration(ctx,
			&pb.RollbackConfigurationRequest{Parent: made.GetName(), Revision: -1})
		return err
	})
	refuses(t, codes.Aborted, "", func() error {
		_, err := f.config.RollbackConfiguration(ctx,
			&pb.RollbackConfigurationRequest{Parent: made.GetName(), Revision: 1, FromRevision: 1})
		return err
	})
	refuses(t, codes.InvalidArgument, "from_revision", func() error {
		_, err := f.config.RollbackConfiguration(ctx,
			&pb.RollbackConfigurationRequest{Parent: made.GetName(), FromRevision: -1})
		return err
	})
	refuses(t, codes.NotFound, "", func() error {
		_, err := f.config.RollbackConfiguration(ctx,
			&pb.RollbackConfigurationRequest{Parent: made.GetName(), Revision: 9})
		return err
	})
}

// refuses checks the code of an error and, if there is one to name, its field.
func refuses(t *testing.T, code codes.Code, field string, call func() error) {
	t.Helper()
	err := call()
	wantCode(t, err, code)
	if field != "" && !slices.Contains(fields(t, err), field) {
		t.Errorf("%v does not name %s", err, field)
	}
}

func TestEvidenceIsReported(t *testing.T) {
	sp, err := space.New(testBuiltin.Params, testBuiltin.Rules)
	if err != nil {
		t.Fatal(err)
	}
	got := render.ConfigurationToProto(&rollout.Configuration{Scheduler: "s",
		Revision: 2, Config: sp.Default(), Evidence: &rollout.Evidence{
			Ratio: 1.2, Interval: round.Interval{Low: 1.1, High: 1.3}, Search: "full", Why: "cold start", Incumbent: 1,
		}}).GetEvidence()
	if got.GetRatioLow() != 1.1 || got.GetRatioHigh() != 1.3 || got.GetSearch() != "full" ||
		got.GetSearchReason() != "cold start" || got.GetIncumbentRevision() != 1 {
		t.Errorf("%v", got)
	}
}

// TestIncidentIsReported: with the revision and in the scheduler's status.
func TestIncidentIsReported(t *testing.T) {
	sp, err := space.New(testBuiltin.Params, testBuiltin.Rules)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2024, 1, 1, 12, 5, 0, 0, time.UTC)
	c := &rollout.Configuration{Scheduler: "s", Revision: 3, Config: sp.Default(), Origin: rollout.FromJudge,
		Incident: &rollout.Incident{At: at, Actor: rollout.Judge, Revision: 2, Good: 1, Until: at.Add(round.Parked),
			Verdict: round.Verdict{Judgement: round.Worse, Reason: "more waits", Ratio: 1.5, Excess: 3}}}
	got := render.ConfigurationToProto(c)
	want := &pb.Incident{SchedulerTime: timestamppb.New(at), Actor: "judge", WorseRevision: 2, GoodRevision: 1,
		Revision: 3, Reason: "more waits", ControllableRatio: 1.5, Excess: 3,
		ParkExpireTime: timestamppb.New(at.Add(24 * time.Hour))}
	if got.GetOrigin() != pb.Configuration_REVERTED || !proto.Equal(got.GetIncident(), want) {
		t.Errorf("%v", got)
	}
	c = &rollout.Configuration{Scheduler: "s", Revision: 2, Config: sp.Default(), Origin: rollout.FromTuning,
		Incident: &rollout.Incident{At: at, Actor: rollout.Judge, Revision: 2, Good: 1, Verdict: c.Incident.Verdict}}
	want.Revision, want.ParkExpireTime = 0, nil // it stays
	st := controller.Status{Incident: c, Watching: "revision 3"}
	status := tuning.SchedulerToProto(controller.Scheduler{}, st, sp).GetStatus()
	if !proto.Equal(status.GetLastIncident(), want) || status.GetWatching() != "revision 3" {
		t.Errorf("%v", status)
	}
}

// TestValidateOnlyOfTuning: freezes, pauses and triggers are checked whole, answered with the outcome, and change
// nothing.
func TestValidateOnlyOfTuning(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	f.ingest("prod", submitted("1", 0))
	work, ctx, name := pb.NewOperationServiceClient(f.conn), background(t), "schedulers/prod"
	get := func() *pb.Scheduler {
		t.Helper()
		got, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		got.Status = nil
		return got
	}
	records := func() int {
		t.Helper()
		got, err := pb.NewAuditServiceClient(f.conn).ListAuditRecords(ctx, &pb.ListAuditRecordsRequest{PageSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.GetAuditRecords())
	}
	before, audited := get(), records()
	frozen, err := f.tuning.FreezeTuning(ctx, &pb.FreezeTuningRequest{Name: "schedulers/-", Reason: "why",
		ValidateOnly: true})
	if err != nil || len(frozen.GetSchedulers()) != 1 || frozen.GetSchedulers()[0].GetFreeze().GetReason() != "why" {
		t.Errorf("%v %v", frozen, err)
	}
	paused, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: name, ValidateOnly: true})
	if err != nil || paused.GetState() != pb.Scheduler_PAUSED {
		t.Errorf("%v %v", paused, err)
	}
	o, err := work.TriggerRound(ctx, &pb.TriggerRoundRequest{Parent: name, ValidateOnly: true})
	if err != nil || o.GetName() != "" || o.GetScheduler() != name {
		t.Errorf("%v %v", o, err)
	}
	all, err := work.ListOperations(ctx, &pb.ListOperationsRequest{})
	if err != nil || len(all.GetOperations()) > 0 {
		t.Errorf("%v %v", all, err)
	}
	if after := get(); !proto.Equal(before, after) || records() != audited {
		t.Errorf("%d audit records, were %d; %v, was %v", records(), audited, after, before)
	}

	if _, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.tuning.FreezeTuning(ctx, &pb.FreezeTuningRequest{Name: name, Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	before = get()
	resumed, err := f.tuning.ResumeTuning(ctx, &pb.ResumeTuningRequest{Name: name, ValidateOnly: true})
	if err != nil || resumed.GetState() != pb.Scheduler_ACTIVE {
		t.Errorf("%v %v", resumed, err)
	}
	thawed, err := f.tuning.UnfreezeTuning(ctx, &pb.UnfreezeTuningRequest{Name: name, ValidateOnly: true})
	if err != nil || len(thawed.GetSchedulers()) != 1 || thawed.GetSchedulers()[0].GetFreeze() != nil {
		t.Errorf("%v %v", thawed, err)
	}
	if after := get(); !proto.Equal(before, after) {
		t.Errorf("%v, was %v", after, before)
	}
	refuses(t, codes.FailedPrecondition, "", func() error { // a paused scheduler has no rounds
		_, err := work.TriggerRound(ctx, &pb.TriggerRoundRequest{Parent: name, ValidateOnly: true})
		return err
	})
	refuses(t, codes.NotFound, "", func() error {
		_, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: "schedulers/none", ValidateOnly: true})
		return err
	})
	refuses(t, codes.Aborted, "", func() error {
		_, err := f.tuning.FreezeTuning(ctx, &pb.FreezeTuningRequest{Name: name, Reason: "x", Etag: "y",
			ValidateOnly: true})
		return err
	})
}

// TestOperationOfRound: an operation of a round does not wait for a study that is being changed.
func TestOperationOfRound(t *testing.T) {
	f := serve(t, nil)
	registerExternal(t, f)
	ctx := background(t)
	if _, err := pb.NewStudyServiceClient(f.conn).CreateStudy(ctx, &pb.CreateStudyRequest{Parent: "schedulers/s",
		StudyId: "k", Study: &pb.Study{Spec: &pb.StudySpec{Goal: pb.StudySpec_MINIMIZE, MetricId: "mean_jct",
			Algorithm: "random", TrialBudget: 4}}}); err != nil {
		t.Fatal(err)
	}
	f.create("rounds", pb.SchedulerSpec_RECOMMEND)
	f.ingest("rounds", submitted("1", 0))
	work := pb.NewOperationServiceClient(f.conn)
	o, err := work.TriggerRound(ctx, &pb.TriggerRoundRequest{Parent: "schedulers/rounds"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.studies.Operate(ctx, controller.Call{}, "s", "k", study.Pause{},
		func(*study.Record) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			if _, err := work.GetOperation(ctx, &pb.GetOperationRequest{Name: o.GetName()}); err != nil {
				return err
			}
			_, err := work.ListOperations(ctx, &pb.ListOperationsRequest{Scheduler: "schedulers/rounds"})
			return err
		})
	if err != nil {
		t.Error(err)
	}
}
