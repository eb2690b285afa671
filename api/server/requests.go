package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
)

// withRequestID returns a context with the id of the call: the caller's x-request-id, or one that is
// made. The answer's header has it.
func (s *Server) withRequestID(ctx context.Context) context.Context {
	id := ""
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if v := md.Get(requestIDHeader); len(v) == 1 && rpc.IsRequestID(v[0]) {
			id = v[0]
		}
	}
	if id == "" {
		id = s.newID()
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(requestIDHeader, id)) // fails outside of a call only
	return access.WithRequestID(ctx, id)
}

func (s *Server) identifyUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	ctx = s.withRequestID(ctx)
	resp, err := handle(ctx, req)
	s.logInternal(ctx, info.FullMethod, err)
	return resp, rpc.Describe(err, info.FullMethod, schedulerOf(req))
}

func (s *Server) identifyStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	ctx := s.withRequestID(stream.Context())
	err := handle(srv, contextStream{stream, ctx})
	s.logInternal(ctx, info.FullMethod, err)
	return rpc.Describe(err, info.FullMethod, "")
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

// logInternal logs the cause of an internal error, which the answer lacks.
func (s *Server) logInternal(ctx context.Context, method string, err error) {
	var internal rpc.InternalError
	if errors.As(err, &internal) {
		s.log.ErrorContext(ctx, "request failed", "method", path.Base(method), "err", internal.Cause)
	}
}

// Changes reports whether a method changes something: a method that a viewer may call does not.
func (r rule) changes() bool { return !r.open && !slices.Contains(r.roles, access.Viewer) }

// schedulerOf is the id of the scheduler that a request is about, "" for none.
func schedulerOf(req any) string {
	for _, field := range []string{"name", "parent", "scheduler_id"} {
		if id := schedulerIn(req, field); id != "" {
			return id
		}
	}
	return ""
}

// logAccess writes the line of a call that may have changed something.
func (s *Server) logAccess(ctx context.Context, method, scheduler string, r rule, began time.Time, err error) {
	if !r.changes() {
		return
	}
	attrs := []slog.Attr{slog.String("method", path.Base(method)),
		slog.String("code", status.Code(rpc.Status(err)).String()), slog.Duration("took", time.Since(began))}
	if scheduler != "" {
		attrs = append(attrs, slog.String("scheduler", rpc.Shorten(scheduler)))
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// requestIDHeader is the key of a call's id in the metadata of its request and of its answer.
const requestIDHeader = "x-request-id"

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
