package server

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server/rpc"
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
