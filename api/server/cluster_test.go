package server

import (
	"reflect"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

const describedCluster = `{"groups": [
	{"name": "a", "nodes": 3, "gpus_per_node": 8, "partition": "train", "memory_bytes": 524288000000},
	{"name": "b", "nodes": 2, "gpus_per_node": 4}],
	"site": {"qos": [{"name": "high", "priority": 100}], "accounts": [{"name": "vc1", "shares": 10}],
		"partitions": [{"name": "train", "default_minutes": 10}], "settings": {"PriorityCalcPeriod": "1"}}}`

func description(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	out := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDescribedCluster: rounds simulate the nodes, accounts and settings of a description, and reads return them.
func TestDescribedCluster(t *testing.T) {
	f := serve(t, nil)
	want, err := workload.ParseCluster([]byte(describedCluster))
	if err != nil {
		t.Fatal(err)
	}
	made, err := f.tuning.CreateScheduler(t.Context(), &pb.CreateSchedulerRequest{SchedulerId: "prod",
		Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
			Cluster: &pb.Cluster{Description: description(t, describedCluster)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if c := made.GetSpec().GetCluster(); c.GetNodes() != 5 || c.GetGpusPerNode() != 8 || c.GetDescription() == nil {
		t.Errorf("%v", c)
	}
	stored, _, err := f.server.service.Scheduler("prod")
	if err != nil || !reflect.DeepEqual(stored.Cluster, want) {
		t.Errorf("%+v %v", stored.Cluster, err)
	}
	update := func(path string, c *pb.Cluster) (*pb.Scheduler, error) {
		return f.tuning.UpdateScheduler(t.Context(), &pb.UpdateSchedulerRequest{
			Scheduler:  &pb.Scheduler{Name: "schedulers/prod", Spec: &pb.SchedulerSpec{Cluster: c}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}}})
	}
	refuses(t, codes.InvalidArgument, "scheduler.spec.cluster.nodes", func() error {
		_, err := update("spec.cluster.nodes", &pb.Cluster{Nodes: 7})
		return err
	})
	one := `{"groups": [{"nodes": 3, "gpus_per_node": 8}], "site": {"settings": {"PriorityCalcPeriod": "2"}}}`
	if _, err := update("spec.cluster.description", &pb.Cluster{Description: description(t, one)}); err != nil {
		t.Fatal(err)
	}
	got, err := update("spec.cluster.nodes", &pb.Cluster{Nodes: 7})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.GetSpec().GetCluster(); c.GetNodes() != 7 || c.GetDescription().GetFields()["site"] == nil {
		t.Errorf("the site is lost: %v", c)
	}
	got, err = update("spec.cluster.description", &pb.Cluster{})
	if c := got.GetSpec().GetCluster(); err != nil || c.GetDescription() != nil || c.GetNodes() != 7 {
		t.Errorf("%v %v", c, err)
	}
	for field, c := range map[string]*pb.Cluster{
		"scheduler.spec.cluster.description":   {Description: description(t, `{"groups": [], "nodez": 1}`)},
		"scheduler.spec.cluster.nodes":         {Nodes: 6, Description: description(t, describedCluster)},
		"scheduler.spec.cluster.gpus_per_node": {GpusPerNode: 4, Description: description(t, describedCluster)},
	} {
		refuses(t, codes.InvalidArgument, field, func() error { _, err := update("spec.cluster", c); return err })
	}
}
