package admin

import (
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
)

// ListAuditRecords lists the records of the audit log, newest first.
func (s *Service) ListAuditRecords(_ context.Context,
	req *pb.ListAuditRecordsRequest) (*pb.ListAuditRecordsResponse, error) {
	if req.GetResource() != "" {
		if _, err := convert.ParseScheduler("resource", req.GetResource()); err != nil {
			return nil, err
		}
	}
	some := func(after rpc.Token, n int) ([]*pb.AuditRecord, error) {
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
		return rpc.Map(all, auditRecordToProto), nil
	}
	place := func(x *pb.AuditRecord) rpc.Token { return rpc.Token{Revision: x.GetSequence()} }
	page, next, err := rpc.List[*pb.AuditRecord]{Some: some, Place: place}.Page(s.o.Pages, req)
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
