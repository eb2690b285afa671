package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
)

// missing are the fields that a request has to have and lacks. Handlers check them where they name all violations,
// where a mask selects the fields, and where elements are refused one by one.
func missing(req proto.Message) (v convert.Violations) {
	switch r := req.(type) {
	case *pb.CreateSchedulerRequest, *pb.UpdateSchedulerRequest:
	case *pb.IngestTelemetryRequest:
		if r.GetParent() == "" {
			v.Add("parent", "is required")
		}
	default:
		convert.AddMissing(&v, req.ProtoReflect(), "")
	}
	return v
}

// behave holds requests to the google.api.field_behavior of their fields.
func (s *Server) behave(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if m, ok := req.(proto.Message); ok && m.ProtoReflect().Descriptor().ParentFile().Package() == convert.Package {
		if err := missing(m).Err(); err != nil {
			return nil, err
		}
		convert.IgnoreOutput(m.ProtoReflect())
	}
	return handle(ctx, req)
}
