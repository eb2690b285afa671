package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/telemetry"
)

func gpuSample(node string, at time.Duration, edit ...func(*pb.GpuSample)) *pb.GpuSample {
	p := &pb.GpuSample{NodeId: node, GpuIndex: 1, SampleTime: timestamppb.New(time.Unix(1_700_000_000, 0).Add(at)),
		UtilizationPercent: new(97.5), PowerWatts: new(312.25), EnergyJoules: new(1e6), ThrottleReasons: new(uint64(4)),
		Xid: new(int32(0)), Processes: new(int32(2)), JobId: "7"}
	for _, f := range edit {
		f(p)
	}
	return p
}

// TestTelemetry: samples come back as they were sent, once, by pages and filters.
func TestTelemetry(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	c := pb.NewTelemetryServiceClient(f.conn)
	var sent []*pb.GpuSample
	for k := range 10 {
		for _, node := range []string{"a", "b"} {
			sent = append(sent, gpuSample(node, time.Duration(k)*10*time.Minute))
		}
	}
	sent = append(sent, gpuSample("c", 0, func(p *pb.GpuSample) {
		*p = pb.GpuSample{NodeId: "c", SampleTime: p.GetSampleTime(), Lost: true, MigInstance: new(int32(3)),
			GpuUuid: "MIG-1"}
	}))
	for range 2 {
		got, err := c.IngestTelemetry(t.Context(), &pb.IngestTelemetryRequest{Parent: "schedulers/prod", Samples: sent})
		if err != nil || got.GetStoredCount() != 21 || got.GetRejectedCount() != 0 {
			t.Fatalf("%v %v", got, err)
		}
	}
	list := func(edit func(*pb.ListTelemetryRequest)) (all []*pb.GpuSample) {
		t.Helper()
		req := &pb.ListTelemetryRequest{Parent: "schedulers/prod", PageSize: 4}
		edit(req)
		for {
			got, err := c.ListTelemetry(t.Context(), req)
			if err != nil || len(got.GetSamples()) > 4 {
				t.Fatalf("%v %v", got, err)
			}
			all = append(all, got.GetSamples()...)
			if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
				return all
			}
		}
	}
	got := list(func(*pb.ListTelemetryRequest) {})
	if len(got) != len(sent) {
		t.Fatalf("%d samples, want %d", len(got), len(sent))
	}
	for _, want := range sent {
		found := 0
		for _, g := range got {
			if proto.Equal(g, want) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%v was found %d times", want, found)
		}
	}
	if got := list(func(r *pb.ListTelemetryRequest) {
		r.NodeId, r.GpuIndex, r.StartTime, r.EndTime = "b", new(int32(1)), sent[2].SampleTime, sent[8].SampleTime
	}); len(got) != 3 {
		t.Errorf("%d samples of a node in half an hour", len(got))
	}
	if got := list(func(r *pb.ListTelemetryRequest) { r.JobId = "8" }); len(got) != 0 {
		t.Errorf("%d samples of another job", len(got))
	}
	if got := list(func(r *pb.ListTelemetryRequest) {
		r.NodeId, r.Resolution = "a", pb.ListTelemetryRequest_HOUR
	}); len(got) != 2 || got[0].GetUtilizationPercent() != 97.5 {
		t.Errorf("means of hours: %v", got)
	}
	many := &pb.IngestTelemetryRequest{Parent: "schedulers/prod"}
	for k := range 49 {
		many.Iterations = append(many.Iterations, &pb.TrainingIteration{JobId: "j", DurationSeconds: 1,
			EndTime: timestamppb.New(time.Unix(1_700_000_000+3600*int64(k), 0))})
	}
	if _, err := c.IngestTelemetry(t.Context(), many); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "iterations: are of 49 hours") {
		t.Errorf("iterations of too many hours: %v", err)
	}
}

// TestBadTelemetry: faults are named, and the rest is stored.
func TestBadTelemetry(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	c := pb.NewTelemetryServiceClient(f.conn)
	whole := telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: 1, Instance: 2}, UUID: "u", Job: "j",
		Time: 1e18, Known: telemetry.Throttle | telemetry.Xid | telemetry.Processes, Throttle: 4, Xid: 31, Processes: 3}
	for i := range telemetry.Quantities {
		q := &telemetry.Quantities[i]
		whole.Known |= q.Field
		*q.At(&whole) = q.Most - float64(i)/100
	}
	if got, err := convert.SampleFromProto(convert.SampleToProto(&whole)); err != nil || got != whole {
		t.Errorf("a sample of all quantities: %+v, %v, want %+v", got, err, whole)
	}
	bad := []struct {
		field string
		edit  func(*pb.GpuSample)
	}{
		{"node_id", func(p *pb.GpuSample) { p.NodeId = "" }},
		{"node_id", func(p *pb.GpuSample) { p.NodeId = "a b" }},
		{"sample_time", func(p *pb.GpuSample) { p.SampleTime = nil }},
		{"sample_time", func(p *pb.GpuSample) { p.SampleTime = timestamppb.New(time.Now().Add(48 * time.Hour)) }},
		{"gpu_index", func(p *pb.GpuSample) { p.GpuIndex = -1 }},
		{"mig_instance", func(p *pb.GpuSample) { p.MigInstance = new(int32(-1)) }},
		{"utilization_percent", func(p *pb.GpuSample) { p.UtilizationPercent = new(101.0) }},
		{"power_watts", func(p *pb.GpuSample) { p.PowerWatts = new(math.NaN()) }},
		{"sm_active", func(p *pb.GpuSample) { p.SmActive = new(50.0) }},
		{"xid", func(p *pb.GpuSample) { p.Xid = new(int32(-1)) }},
		{"lost", func(p *pb.GpuSample) { p.Lost = true }},
	}
	req := &pb.IngestTelemetryRequest{Parent: "schedulers/prod", Samples: []*pb.GpuSample{gpuSample("good", 0)}}
	for _, b := range bad {
		req.Samples = append(req.Samples, gpuSample("bad", 0, b.edit))
	}
	got, err := c.IngestTelemetry(t.Context(), req)
	if err != nil || got.GetStoredCount() != 1 || got.GetRejectedCount() != int64(len(bad)) {
		t.Fatalf("%v %v", got, err)
	}
	for i, b := range bad {
		if r := got.GetRejected()[i]; r.GetField() != b.field || r.GetIndex() != int32(i+1) {
			t.Errorf("%d: %v, want %s", i, r, b.field)
		}
	}
	refuses(t, codes.NotFound, "", func() error {
		_, err := c.IngestTelemetry(t.Context(), &pb.IngestTelemetryRequest{Parent: "schedulers/none"})
		return err
	})
	refuses(t, codes.InvalidArgument, "samples", func() error {
		req := &pb.IngestTelemetryRequest{Parent: "schedulers/prod"}
		for k := range 50 {
			req.Samples = append(req.Samples, gpuSample("a", time.Duration(k)*time.Hour))
		}
		_, err := c.IngestTelemetry(t.Context(), req)
		return err
	})
	refuses(t, codes.InvalidArgument, "page_token", func() error {
		_, err := c.ListTelemetry(t.Context(), &pb.ListTelemetryRequest{Parent: "schedulers/prod", PageToken: "x"})
		return err
	})
	refuses(t, codes.InvalidArgument, "resolution", func() error {
		_, err := c.ListTelemetry(t.Context(), &pb.ListTelemetryRequest{Parent: "schedulers/prod", Resolution: 9})
		return err
	})
}

// TestIterations: iterations are stored, and a fault of one is named without holding up the others.
func TestIterations(t *testing.T) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	c := pb.NewTelemetryServiceClient(f.conn)
	good := func() *pb.TrainingIteration {
		return &pb.TrainingIteration{JobId: "7", Worker: 3, Step: 4, DurationSeconds: .5,
			EndTime: timestamppb.New(time.Unix(1_700_000_000, 0))}
	}
	all := []*pb.TrainingIteration{good()}
	var want []string
	for _, x := range []struct {
		field string
		edit  func(*pb.TrainingIteration)
	}{
		{"job_id", func(p *pb.TrainingIteration) { p.JobId = "" }},
		{"worker", func(p *pb.TrainingIteration) { p.Worker = -1 }},
		{"worker", func(p *pb.TrainingIteration) { p.Worker = convert.MaxWorker + 1 }},
		{"step", func(p *pb.TrainingIteration) { p.Step = -1 }},
		{"step", func(p *pb.TrainingIteration) { p.Step = math.MaxInt64 }},
		{"duration_seconds", func(p *pb.TrainingIteration) { p.DurationSeconds = 0 }},
		{"duration_seconds", func(p *pb.TrainingIteration) { p.DurationSeconds = math.NaN() }},
		{"duration_seconds", func(p *pb.TrainingIteration) { p.DurationSeconds = 1e6 }},
		{"end_time", func(p *pb.TrainingIteration) { p.EndTime = nil }},
		{"end_time", func(p *pb.TrainingIteration) { p.EndTime = timestamppb.New(time.Unix(4_000_000_000, 0)) }},
	} {
		p := good()
		x.edit(p)
		all, want = append(all, p), append(want, x.field)
	}
	got, err := c.IngestTelemetry(t.Context(), &pb.IngestTelemetryRequest{Parent: "schedulers/prod", Iterations: all})
	if err != nil || got.GetStoredIterationCount() != 1 || got.GetRejectedIterationCount() != int64(len(want)) {
		t.Fatalf("%v %v", got, err)
	}
	for i, r := range got.GetRejectedIterations() {
		if r.GetField() != want[i] || int(r.GetIndex()) != i+1 {
			t.Errorf("%v, want %s", r, want[i])
		}
	}
	many := make([]*pb.TrainingIteration, 20_001)
	for i := range many {
		many[i] = &pb.TrainingIteration{}
	}
	_, err = c.IngestTelemetry(t.Context(), &pb.IngestTelemetryRequest{Parent: "schedulers/prod", Iterations: many})
	wantCode(t, err, codes.InvalidArgument)
}
