package main

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// said keeps the sent messages.
type said struct {
	grpc.ServerStream
	steps []*pb.EvaluateResponse
}

func (s *said) Context() context.Context { return context.Background() }

func (s *said) Send(r *pb.EvaluateResponse) error {
	s.steps = append(s.steps, r)
	return nil
}

// TestEvaluate: measurements so far come before the result, larger batches cost less, and the shortest first
// wait less.
func TestEvaluate(t *testing.T) {
	measure := func(batch float64, order string) []*pb.EvaluateResponse {
		var s said
		if err := (&evaluator{}).Evaluate(&pb.EvaluateRequest{MetricId: "wait", Seed: 1,
			Parameters: map[string]*structpb.Value{"batch": structpb.NewNumberValue(batch),
				"order": structpb.NewStringValue(order)}}, &s); err != nil {
			t.Fatal(err)
		}
		return s.steps
	}
	final := func(s []*pb.EvaluateResponse) float64 { return s[len(s)-1].GetFinalMeasurement().GetMetrics()["wait"] }
	one, ten, las := measure(1, "fifo"), measure(10, "fifo"), measure(10, "las")
	if len(ten) != parts || ten[0].GetMeasurement().GetStepCount() >= ten[1].GetMeasurement().GetStepCount() {
		t.Errorf("%v", ten)
	}
	if final(las) >= final(ten) || final(ten) >= final(one) || final(las) <= 0 {
		t.Errorf("waits of %v, %v and %v", final(las), final(ten), final(one))
	}
	if bad := measure(0, "fifo"); len(bad) != 1 || bad[0].GetInfeasibleReason() == "" {
		t.Errorf("%v", bad)
	}
}
