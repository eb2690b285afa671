package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
)

// registerExternal registers an external scheduler s.
func registerExternal(t *testing.T, f *fixture) {
	t.Helper()
	spec := &pb.SchedulerSpec{SchedulerType: controller.External, Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8},
		Objective: &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "wait"}},
		Parameters: []*pb.ParameterSpec{{ParameterId: "x", DefaultValue: structpb.NewNumberValue(1),
			ParameterValueSpec: &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{MinValue: 1,
				MaxValue: 9}}}}}
	if _, err := f.tuning.CreateScheduler(background(t), &pb.CreateSchedulerRequest{SchedulerId: "s",
		Scheduler: &pb.Scheduler{Spec: spec}}); err != nil {
		t.Fatal(err)
	}
}

// report has all reports of a request accepted.
func report(t *testing.T, f *fixture, req *pb.ReportMetricsRequest) {
	t.Helper()
	stream, err := pb.NewMetricServiceClient(f.conn).ReportMetrics(background(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || int(got.GetAcceptedCount()) != len(req.GetReports()) {
		t.Fatalf("%v %v", got, err)
	}
}

// TestReportsOfTheEpoch: pages go on after reports of the first instant there is.
func TestReportsOfTheEpoch(t *testing.T) {
	f := serve(t, nil)
	registerExternal(t, f)
	req := &pb.ReportMetricsRequest{Parent: "schedulers/s"}
	for _, instance := range []string{"a", "b", "c"} {
		req.Reports = append(req.Reports, &pb.MetricReport{InstanceId: instance, ConfigurationRevision: 1,
			SchedulerTime: &timestamppb.Timestamp{}, Metrics: map[string]float64{"wait": 1}})
	}
	report(t, f, req)
	got, page := "", &pb.ListMetricsRequest{Parent: "schedulers/s", PageSize: 1}
	for range req.GetReports() {
		out, err := pb.NewMetricServiceClient(f.conn).ListMetrics(background(t), page)
		if err != nil || len(out.GetReports()) != 1 {
			t.Fatalf("%v %v", out, err)
		}
		got += out.GetReports()[0].GetInstanceId()
		page.PageToken = out.GetNextPageToken()
	}
	if got != "abc" || page.GetPageToken() != "" {
		t.Errorf("the pages have %q, and %q follows", got, page.GetPageToken())
	}
	none := &pb.ListMetricsRequest{Parent: "schedulers/s", EndTime: &timestamppb.Timestamp{}}
	if out, err := pb.NewMetricServiceClient(f.conn).ListMetrics(background(t), none); err != nil ||
		len(out.GetReports()) > 0 {
		t.Errorf("before the epoch: %v %v", out, err)
	}
}

// TestReportedMetricsForPrometheus: /metrics has the latest values and the means of the current and the previous
// revision.
func TestReportedMetricsForPrometheus(t *testing.T) {
	f := serve(t, nil)
	registerExternal(t, f)
	if _, err := f.config.PinConfiguration(background(t), &pb.PinConfigurationRequest{Parent: "schedulers/s",
		Parameters: map[string]*structpb.Value{"x": structpb.NewNumberValue(2)}, Reason: "a try"}); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	req := &pb.ReportMetricsRequest{Parent: "schedulers/s"}
	for i, v := range []float64{10, 20, 30, 50} {
		req.Reports = append(req.Reports, &pb.MetricReport{ConfigurationRevision: int64(1 + i/2),
			SchedulerTime: timestamppb.New(noon.Add(time.Duration(i) * time.Hour)),
			Metrics:       map[string]float64{"wait": v}})
	}
	report(t, f, req)
	_, text := get(f, "/metrics")
	for _, want := range []string{
		`autosched_metric_reports_total{result="accepted",scheduler="s"} 4`,
		`autosched_reported_metric{metric="wait",scheduler="s"} 50`,
		`autosched_reported_metric_mean{configuration="before",metric="wait",scheduler="s"} 15`,
		`autosched_reported_metric_mean{configuration="offered",metric="wait",scheduler="s"} 40`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
