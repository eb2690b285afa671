package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func TestValidateParameters(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	f.create("s", pb.SchedulerSpec_RECOMMEND)
	ask := pb.NewExplanationServiceClient(f.conn)
	got, err := ask.ValidateParameters(ctx, &pb.ValidateParametersRequest{Name: "schedulers/s",
		Parameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(99)}})
	if err != nil || len(got.GetChanges()) != 1 || got.GetSchedulerRevision() != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	c := got.GetChanges()[0]
	if c.GetParameterId() != "queues" || c.GetFrom().GetNumberValue() != 99 || c.GetConstraintId() != "range" ||
		c.GetTo().GetNumberValue() != got.GetParameters()["queues"].GetNumberValue() {
		t.Errorf("%v", got)
	}
	again, err := ask.ValidateParameters(ctx, &pb.ValidateParametersRequest{Name: "schedulers/s",
		Parameters: got.GetParameters()})
	if err != nil || len(again.GetChanges()) != 0 {
		t.Errorf("valid values: %v, %v", again, err)
	}
	for field, values := range map[string]map[string]*structpb.Value{
		`parameters["none"]`:   {"none": structpb.NewNumberValue(1)},
		`parameters["queues"]`: {"queues": structpb.NewStringValue("many")},
	} {
		refuses(t, codes.InvalidArgument, field, func() error {
			_, err := ask.ValidateParameters(ctx, &pb.ValidateParametersRequest{Name: "schedulers/s",
				Parameters: values})
			return err
		})
		refuses(t, codes.InvalidArgument, field, func() error {
			_, err := ask.WhatIf(ctx, &pb.WhatIfRequest{Name: "schedulers/s", Parameters: values})
			return err
		})
	}
	refuses(t, codes.NotFound, "", func() error {
		_, err := ask.WhatIf(ctx, &pb.WhatIfRequest{Name: "schedulers/none",
			Parameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(2)}})
		return err
	})
}

// A causal model that nothing was measured for says so, with its scheduler, and nothing else.
func TestGetCausalModel(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	f.create("s", pb.SchedulerSpec_RECOMMEND)
	ask := pb.NewExplanationServiceClient(f.conn)
	m, err := ask.GetCausalModel(ctx, &pb.GetCausalModelRequest{Name: "schedulers/s"})
	if r := m.GetReliability(); err != nil || m.GetName() != "schedulers/s/causalModel" || r.GetReliable() ||
		!strings.Contains(r.GetReason(), "0 trials") || m.GetSchedulerRevision() != 1 || len(m.GetNodes()) > 0 {
		t.Errorf("%v, %v", m, err)
	}
	refuses(t, codes.NotFound, "", func() error {
		_, err := ask.GetCausalModel(ctx, &pb.GetCausalModelRequest{Name: "schedulers/none"})
		return err
	})
	refuses(t, codes.InvalidArgument, "name", func() error {
		_, err := ask.GetCausalModel(ctx, &pb.GetCausalModelRequest{Name: "s"})
		return err
	})
}
