package agent

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// uncalled is a service that fails the test when it is called.
type uncalled struct{ t *testing.T }

func (n uncalled) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	n.t.Errorf("called %s", method)
	return errors.New("nobody")
}

func (n uncalled) NewStream(_ context.Context, _ *grpc.StreamDesc, method string,
	_ ...grpc.CallOption) (grpc.ClientStream, error) {
	n.t.Errorf("called %s", method)
	return nil, errors.New("nobody")
}

func TestRunChecksBeforeItRegisters(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("w", time.Unix(0, 0),
		[]workload.Job{{ID: "wide", GPUs: workload.GPUs(9), Duration: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Conn: uncalled{t}, ID: "x", Scheduler: s, Cluster: workload.Uniform(1, 8), Workload: w, Speedup: 1}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `job "wide" asks for 9 GPUs`) {
		t.Error(err)
	}
	for _, speedup := range []float64{0, -1, math.NaN(), math.Inf(1), MaxSpeedup + 1} {
		o.Speedup = speedup
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "speedup") {
			t.Errorf("%g: %v", speedup, err)
		}
	}
}

func TestStepIsBounded(t *testing.T) {
	for _, c := range []struct {
		real    time.Duration
		speedup float64
		want    time.Duration
	}{{time.Second, 60, time.Minute}, {tick, MaxSpeedup, 50_000 * time.Second}, {time.Hour, MaxSpeedup, maxStep},
		{math.MaxInt64, math.MaxFloat64, maxStep}} {
		if got := step(c.real, c.speedup); got != c.want {
			t.Errorf("%v at %g: %v, want %v", c.real, c.speedup, got, c.want)
		}
	}
}

// acknowledged records what is acknowledged.
type acknowledged struct {
	pb.ConfigurationServiceClient
	requests []*pb.AcknowledgeConfigurationRequest
}

func (a *acknowledged) AcknowledgeConfiguration(_ context.Context, r *pb.AcknowledgeConfigurationRequest,
	_ ...grpc.CallOption) (*pb.AcknowledgeConfigurationResponse, error) {
	a.requests = append(a.requests, r)
	return nil, nil
}

// A configuration of a former epoch is not applied, whatever its revision; one of a later epoch is
// looked at even if its number is that of the revision in force, and acknowledged with its epoch.
func TestEpochOfConfigurations(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	var config acknowledged
	lost := 0
	a := agent{o: Options{Scheduler: s, Lost: func(error) { lost++ }}, config: &config,
		offer:  &pb.Configuration{Epoch: &pb.Epoch{Id: "b", Counter: 2}},
		report: Report{Applied: []Applied{{Revision: 7}}}}
	for _, c := range []struct {
		name           string
		revision       int64
		epoch          *pb.Epoch
		lost, answered int
	}{
		{"former epoch", 9, &pb.Epoch{Id: "a", Counter: 1}, 1, 0},
		{"no epoch", 9, nil, 2, 0},
		{"in force", 7, &pb.Epoch{Id: "b", Counter: 2}, 2, 0},
		{"later epoch", 7, &pb.Epoch{Id: "c", Counter: 3}, 2, 1},
	} {
		err := a.apply(t.Context(), 0, &pb.Configuration{Revision: c.revision, Epoch: c.epoch}) // has no parameters
		if err != nil || lost != c.lost || len(config.requests) != c.answered {
			t.Errorf("%s: %v, %d refused, %d answered", c.name, err, lost, len(config.requests))
		}
	}
	if got := config.requests[0].GetEpoch().GetId(); got != "c" {
		t.Errorf("acknowledged for epoch %q", got)
	}
}

// sink takes any number of batches and answers none.
type sink struct {
	grpc.BidiStreamingClient[pb.IngestEventsRequest, pb.IngestEventsResponse]
	sent int
}

func (s *sink) Send(r *pb.IngestEventsRequest) error {
	s.sent += len(r.Events)
	return nil
}

func TestFlushWaitsForAnswers(t *testing.T) {
	var s sink
	a := agent{link: &link{stream: &s}, batch: make([]*pb.Event, maxBatch*(inFlight+3)+1)}
	for _, acked := range []int64{0, 0, 2, inFlight + 2} {
		a.acked = acked
		if err := a.flush(); err != nil {
			t.Fatal(err)
		}
		if a.asked-a.acked > inFlight {
			t.Fatalf("%d batches are not answered", a.asked-a.acked)
		}
	}
	if s.sent != maxBatch*(inFlight+3)+1 || a.batch != nil {
		t.Errorf("%d events were sent", s.sent)
	}
}
