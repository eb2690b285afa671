package server

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
)

// TestBatchCreateTrials: a batch is added whole, once, or not at all.
func TestBatchCreateTrials(t *testing.T) {
	f := serve(t, nil)
	spec := &pb.SchedulerSpec{SchedulerType: controller.External, Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8},
		Objective: &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "wait"}},
		Parameters: []*pb.ParameterSpec{{ParameterId: "x", DefaultValue: structpb.NewNumberValue(1),
			ParameterValueSpec: &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{MinValue: 1,
				MaxValue: 5000}}}}}
	if _, err := f.tuning.CreateScheduler(background(t), &pb.CreateSchedulerRequest{SchedulerId: "s",
		Scheduler: &pb.Scheduler{Spec: spec}}); err != nil {
		t.Fatal(err)
	}
	c := pb.NewStudyServiceClient(f.conn)
	if _, err := c.CreateStudy(background(t), &pb.CreateStudyRequest{Parent: "schedulers/s", StudyId: "first",
		Study: &pb.Study{Spec: &pb.StudySpec{Algorithm: "sobol"}}}); err != nil {
		t.Fatal(err)
	}
	const first = "schedulers/s/studies/first"
	trial := func(x float64) *pb.Trial {
		return &pb.Trial{Parameters: map[string]*structpb.Value{"x": structpb.NewNumberValue(x)}}
	}
	measured := func(x float64) *pb.Trial {
		one := trial(x)
		one.FinalMeasurement = &pb.Measurement{Metrics: map[string]float64{"wait": x}}
		return one
	}
	failed := trial(3)
	failed.State, failed.Reason = pb.Trial_FAILED, "it crashed"
	count := func() int {
		got := must[*pb.ListTrialsResponse](t)(c.ListTrials(background(t), &pb.ListTrialsRequest{Parent: first,
			PageSize: 1000}))
		return len(got.GetTrials())
	}
	req := &pb.BatchCreateTrialsRequest{Parent: first, Trials: []*pb.Trial{measured(2), failed, trial(4)},
		RequestId: "r"}
	dry := proto.Clone(req).(*pb.BatchCreateTrialsRequest)
	dry.ValidateOnly = true
	got := must[*pb.BatchCreateTrialsResponse](t)(c.BatchCreateTrials(background(t), dry))
	if len(got.GetTrials()) != 3 || count() != 0 {
		t.Errorf("validate_only: %v, %d trials", got, count())
	}
	got = must[*pb.BatchCreateTrialsResponse](t)(c.BatchCreateTrials(background(t), req))
	again := must[*pb.BatchCreateTrialsResponse](t)(c.BatchCreateTrials(background(t), req))
	if !proto.Equal(got, again) || count() != 3 || got.GetTrials()[0].GetState() != pb.Trial_SUCCEEDED ||
		got.GetTrials()[1].GetReason() != "it crashed" || got.GetTrials()[2].GetState() != pb.Trial_REQUESTED ||
		got.GetTrials()[2].GetName() != first+"/trials/3" {
		t.Errorf("%v, sent again %v; %d trials", got, again, count())
	}
	stopped := trial(9)
	stopped.State = pb.Trial_STALE
	silent := trial(9)
	silent.State = pb.Trial_FAILED
	both := measured(9)
	both.State = pb.Trial_INFEASIBLE
	for field, bad := range map[string]*pb.Trial{"trials[1].state": stopped, "trials[1].reason": silent,
		"trials[1].final_measurement": both, "trials[1].parameters.x": trial(9000)} {
		refuses(t, codes.InvalidArgument, field, func() error {
			_, err := c.BatchCreateTrials(background(t), &pb.BatchCreateTrialsRequest{Parent: first,
				Trials: []*pb.Trial{measured(8), bad}})
			return err
		})
	}
	refuses(t, codes.InvalidArgument, "trials", func() error {
		_, err := c.BatchCreateTrials(background(t), &pb.BatchCreateTrialsRequest{Parent: first})
		return err
	})
	many := &pb.BatchCreateTrialsRequest{Parent: first}
	for i := range 1000 {
		many.Trials = append(many.Trials, measured(float64(100+i)))
	}
	_, err := c.BatchCreateTrials(background(t), &pb.BatchCreateTrialsRequest{Parent: first,
		Trials: append(many.GetTrials(), trial(5))})
	refuses(t, codes.InvalidArgument, "trials", func() error { return err })
	if n := count(); n != 3 {
		t.Errorf("%d trials after what was refused", n)
	}
	if got := must[*pb.BatchCreateTrialsResponse](t)(c.BatchCreateTrials(background(t), many)); len(
		got.GetTrials()) != 1000 || got.GetTrials()[999].GetName() != fmt.Sprint(first, "/trials/", 1003) {
		t.Errorf("%d trials", len(got.GetTrials()))
	}
}
