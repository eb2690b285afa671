package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func TestUpdateSpaceAndCluster(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	made := f.create("s", pb.SchedulerSpec_RECOMMEND)
	update := func(s *pb.Scheduler, validate bool, paths ...string) (*pb.Scheduler, error) {
		s.Name = made.GetName()
		return f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{Scheduler: s, ValidateOnly: validate,
			UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
	}
	param := made.GetSpec().GetParameters()[0]
	id := param.GetParameterId()
	narrow := &pb.ParameterSpec{ParameterId: id, DefaultValue: structpb.NewNumberValue(2),
		ParameterValueSpec: &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{MinValue: 1,
			MaxValue: 2}}}
	spec := &pb.SchedulerSpec{Parameters: []*pb.ParameterSpec{narrow}}
	for _, p := range made.GetSpec().GetParameters() {
		if p.GetParameterId() == "thresholds" {
			p = proto.Clone(p).(*pb.ParameterSpec)
			p.DefaultValue = structpb.NewListValue(&structpb.ListValue{
				Values: []*structpb.Value{structpb.NewNumberValue(3250)}})
			spec.Parameters = append(spec.Parameters, p)
		}
	}
	got, err := update(&pb.Scheduler{Spec: spec}, true, "spec.parameters")
	if err != nil || got.GetRevision() != 2 ||
		got.GetSpec().GetParameters()[0].GetIntegerValueSpec().GetMaxValue() != 2 {
		t.Fatalf("validate only: %v, %v", got, err)
	}
	if got, err = f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: made.GetName()}); err != nil ||
		got.GetRevision() != 1 {
		t.Fatalf("validate only stored: %v, %v", got, err)
	}
	got, err = update(&pb.Scheduler{Spec: spec}, false, "spec.parameters")
	if err != nil || got.GetRevision() != 2 || got.GetEtag() == made.GetEtag() {
		t.Fatalf("narrowed: %v, %v", got, err)
	}
	now, err := f.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: made.GetName()})
	if c := now.GetConfiguration(); err != nil || c.GetOrigin() != pb.Configuration_PROJECTED ||
		c.GetParameters()[id].GetNumberValue() != 2 || c.GetSchedulerRevision() != 2 {
		t.Errorf("on offer: %v, %v", c, err)
	}
	got, err = update(&pb.Scheduler{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x/y": "z"},
		Spec: &pb.SchedulerSpec{Cluster: &pb.Cluster{Nodes: 7}}}, false, "spec.cluster.nodes", "labels", "annotations")
	if err != nil || got.GetRevision() != 3 || got.GetSpec().GetCluster().GetNodes() != 7 ||
		got.GetSpec().GetCluster().GetGpusPerNode() != made.GetSpec().GetCluster().GetGpusPerNode() ||
		got.GetLabels()["team"] != "a" || got.GetAnnotations()["x/y"] != "z" {
		t.Errorf("cluster and labels: %v, %v", got, err)
	}
	list, err := f.tuning.ListSchedulerRevisions(ctx, &pb.ListSchedulerRevisionsRequest{Parent: made.GetName(),
		PageSize: 2})
	if err != nil || len(list.GetSchedulerRevisions()) != 2 || list.GetNextPageToken() == "" ||
		list.GetSchedulerRevisions()[0].GetName() != "schedulers/s@3" {
		t.Fatalf("list: %v, %v", list, err)
	}
	list, err = f.tuning.ListSchedulerRevisions(ctx, &pb.ListSchedulerRevisionsRequest{Parent: made.GetName(),
		PageSize:  2,
		PageToken: list.GetNextPageToken()})
	if err != nil || len(list.GetSchedulerRevisions()) != 1 || list.GetNextPageToken() != "" {
		t.Fatalf("second page: %v, %v", list, err)
	}
	first, err := f.tuning.GetSchedulerRevision(ctx, &pb.GetSchedulerRevisionRequest{Name: "schedulers/s@1"})
	if err != nil || first.GetCluster().GetNodes() != made.GetSpec().GetCluster().GetNodes() ||
		len(first.GetParameters()) != len(made.GetSpec().GetParameters()) ||
		first.GetObjective().GetMetricId() != "avg_jct" {
		t.Errorf("revision 1: %v, %v", first, err)
	}
	for _, name := range []string{"schedulers/s", "schedulers/s@0", "schedulers/s@01", "s@1"} {
		refuses(t, codes.InvalidArgument, "name", func() error {
			_, err := f.tuning.GetSchedulerRevision(ctx, &pb.GetSchedulerRevisionRequest{Name: name})
			return err
		})
	}
	refuses(t, codes.NotFound, "", func() error {
		_, err := f.tuning.GetSchedulerRevision(ctx, &pb.GetSchedulerRevisionRequest{Name: "schedulers/s@9"})
		return err
	})
	for _, bad := range []struct {
		s           *pb.Scheduler
		path, field string
	}{
		{&pb.Scheduler{}, "spec.cluster", "scheduler.spec.cluster.nodes"},
		{&pb.Scheduler{Labels: map[string]string{"Team": "a"}}, "labels", "scheduler.labels"},
		{&pb.Scheduler{Labels: map[string]string{"team": "A"}}, "labels", `scheduler.labels["team"]`},
		{&pb.Scheduler{Annotations: map[string]string{"a": strings.Repeat("x", 1<<16)}}, "annotations",
			"scheduler.annotations"},
		{&pb.Scheduler{Spec: &pb.SchedulerSpec{Parameters: []*pb.ParameterSpec{{ParameterId: "none",
			ParameterValueSpec: narrow.GetParameterValueSpec()}}}}, "spec.parameters",
			"scheduler.spec.parameters[0].parameter_id"},
	} {
		refuses(t, codes.InvalidArgument, bad.field, func() error {
			_, err := update(bad.s, false,
				bad.path)
			return err
		})
	}
}
