package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
)

// once makes a request that has a request_id once: sent again it is answered with the resource of the first one. One
// with validate_only is checked and not made.
func (s *Server) once(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	m, ok := req.(proto.Message)
	if !ok {
		return handle(ctx, req)
	}
	fields := m.ProtoReflect().Descriptor().Fields()
	field, dry := fields.ByName("request_id"), fields.ByName("validate_only")
	if dry != nil && m.ProtoReflect().Get(dry).Bool() {
		return handle(ctx, req)
	}
	if field == nil || m.ProtoReflect().Get(field).String() == "" {
		return handle(ctx, req)
	}
	id := m.ProtoReflect().Get(field).String()
	if len(id) > convert.MaxRequestID {
		return nil, convert.Invalid("request_id", "is longer than %d bytes", convert.MaxRequestID)
	}
	content := proto.Clone(m)
	content.ProtoReflect().Clear(field)
	// Deterministic within one version of the service, which is long enough for
	// a caller that repeats itself.
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	scheduler := schedulerOf(req)
	if r, ok := req.(*pb.UpdateSchedulerRequest); ok {
		scheduler = schedulerOf(r.GetScheduler())
	}
	var resp any
	before, err := s.service.Once(ctx, controller.Request{ID: id, Digest: hex.EncodeToString(sum[:]),
		Scheduler: scheduler, Method: path.Base(info.FullMethod)}, func() (string, error) {
		var err error
		resp, err = handle(ctx, req)
		if named, ok := resp.(interface{ GetName() string }); ok && err == nil {
			return named.GetName(), nil
		}
		return "", err
	})
	if err != nil {
		return nil, err
	}
	if before == nil {
		return resp, nil
	}
	if before.Name == "" {
		before.Name = subject(m)
	}
	return s.made(ctx, info.FullMethod, before.Name)
}

// subject is the name of the resource that a request is about: the one that it names or creates.
func subject(m proto.Message) string {
	switch r := m.(type) {
	case *pb.CreateSchedulerRequest:
		return convert.SchedulerName(r.GetSchedulerId())
	case *pb.UpdateSchedulerRequest:
		return r.GetScheduler().GetName()
	case *pb.CreateStudyRequest:
		return r.GetParent() + "/studies/" + r.GetStudyId()
	case *pb.GenerateWorkloadRequest:
		return r.GetParent() + convert.WorkloadsSegment + r.GetWorkloadId()
	case interface{ GetName() string }:
		return r.GetName()
	}
	return ""
}

// made reads the resource that a request made or changed, as the answer of its method.
func (s *Server) made(ctx context.Context, method, name string) (any, error) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(
		protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")))
	if err != nil {
		return nil, err
	}
	out := d.(protoreflect.MethodDescriptor).Output()
	switch out.Name() {
	case "Scheduler":
		return s.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	case "Configuration":
		return s.config.GetConfiguration(ctx, &pb.GetConfigurationRequest{Name: name})
	case "Operation":
		return s.operation.GetOperation(ctx, &pb.GetOperationRequest{Name: name})
	case "Study":
		return s.study.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
	case "Workload":
		return s.workload.GetWorkload(ctx, &pb.GetWorkloadRequest{Name: name})
	case "Trial":
		return s.study.GetTrial(ctx, &pb.GetTrialRequest{Name: name})
	case "Finding":
		return s.waste.GetFinding(ctx, &pb.GetFindingRequest{Name: name})
	case "BatchCreateTrialsResponse":
		return s.study.CreatedBefore(name)
	case "FreezeTuningResponse":
		all, err := s.tuning.Named(name)
		return &pb.FreezeTuningResponse{Schedulers: all}, err
	case "UnfreezeTuningResponse":
		all, err := s.tuning.Named(name)
		return &pb.UnfreezeTuningResponse{Schedulers: all}, err
	}
	if out.Fields().Len() > 0 {
		return nil, errors.New("server: " + method + " has an answer that cannot be made again")
	}
	empty, err := protoregistry.GlobalTypes.FindMessageByName(out.FullName())
	if err != nil {
		return nil, err
	}
	return empty.New().Interface(), nil
}
