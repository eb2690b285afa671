package server

import (
	"cmp"
	"context"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
)

// The metadata of a call that the audit log has beside what the call changes. Values of keys
// that end in -bin may be any text.
const (
	requestIDHeader = "x-request-id"
	reasonHeader    = "autosched-reason-bin"
)

// callOf returns the call of a request: who asks, whether it is a dry run, and the id that it is
// stored with.
func callOf(ctx context.Context, req any) (call controller.Call) {
	header := func(name string) string {
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			if v := md.Get(name); len(v) > 0 {
				return shorten(v[0])
			}
		}
		return ""
	}
	method, _ := grpc.Method(ctx)
	call.Origin = audit.Origin{Actor: cmp.Or(access.FromContext(ctx).Name, "anonymous"), Verb: path.Base(method),
		RequestID: access.RequestID(ctx), Reason: header(reasonHeader)}
	if r, ok := req.(interface{ GetValidateOnly() bool }); ok {
		call.DryRun = r.GetValidateOnly()
	}
	if r, ok := req.(interface{ GetRequestId() string }); ok && !call.DryRun {
		call.Request = r.GetRequestId()
	}
	return call
}

// ListAuditRecords lists who changed what, when and why, newest first.
func (s *adminService) ListAuditRecords(_ context.Context,
	req *pb.ListAuditRecordsRequest) (*pb.ListAuditRecordsResponse, error) {
	if req.GetResource() != "" {
		if _, err := convert.ParseScheduler("resource", req.GetResource()); err != nil {
			return nil, err
		}
	}
	some := func(after token, n int) ([]*pb.AuditRecord, error) {
		all, err := s.o.Controller.AuditLog(after.Revision, req.GetResource(), n)
		if err != nil {
			return nil, err
		}
		if id := strings.TrimPrefix(req.GetResource(), convert.SchedulersPrefix); len(all) == 0 &&
			after.Revision == 0 && id != "" {
			if _, _, err := s.o.Controller.Scheduler(id); err != nil { // not even its end is recorded
				return nil, err
			}
		}
		return mapped(all, auditRecordToProto), nil
	}
	place := func(x *pb.AuditRecord) token { return token{Revision: x.GetSequence()} }
	page, next, err := list[*pb.AuditRecord]{some: some, place: place}.page(s.o.Pages, req)
	return &pb.ListAuditRecordsResponse{AuditRecords: page, NextPageToken: next}, err
}

func auditRecordToProto(r *controller.AuditRecord) *pb.AuditRecord {
	out := &pb.AuditRecord{Sequence: r.Sequence, CreateTime: timestamppb.New(r.Time), Actor: r.Actor, Verb: r.Verb,
		RequestId: r.RequestID, Resource: r.Resource, RevisionBefore: r.RevisionBefore,
		RevisionAfter: r.RevisionAfter, Reason: r.Reason, ContentHash: r.Head.Hash, PreviousHash: r.Previous,
		Line: string(r.Line)}
	for _, f := range r.Fields {
		out.Fields = append(out.Fields, &pb.AuditRecord_Field{Name: f.Name, Before: f.Before, After: f.After})
	}
	return out
}
