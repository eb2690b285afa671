package config

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/rollout"
)

// ApproveConfiguration offers a proposal to the scheduler.
func (s *Service) ApproveConfiguration(ctx context.Context,
	req *pb.ApproveConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	call := rpc.CallOf(ctx, req)
	return s.o.Stamp.Configured(s.o.Controller.Approve(ctx, call, id, rollout.Approve{Revision: revision,
		Applied: req.GetApplied(),
		Actor:   rpc.Operator(ctx), Why: call.Origin.Reason}, s.o.Stamp.Same(req.GetEtag())))
}

// RejectConfiguration parks the values of a proposal.
func (s *Service) RejectConfiguration(ctx context.Context,
	req *pb.RejectConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err == nil && len(req.GetReason()) > maxReason {
		err = convert.Invalid("reason", "is longer than %d bytes", maxReason)
	}
	if err != nil {
		return nil, err
	}
	call := rpc.CallOf(ctx, req)
	return s.o.Stamp.Configured(s.o.Controller.Reject(ctx, call, id, rollout.Reject{Revision: revision,
		Actor: rpc.Operator(ctx),
		Why:   cmp.Or(req.GetReason(), call.Origin.Reason)}, s.o.Stamp.Same(req.GetEtag())))
}

// UnparkConfiguration lets values be offered again.
func (s *Service) UnparkConfiguration(ctx context.Context,
	req *pb.UnparkConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.o.Stamp.Configured(s.o.Controller.Unpark(ctx, rpc.CallOf(ctx, req), id, revision,
		s.o.Stamp.Same(req.GetEtag())))
}

// ListParkedConfigurations lists the values that are not offered.
func (s *Service) ListParkedConfigurations(_ context.Context,
	req *pb.ListParkedConfigurationsRequest) (*pb.ListParkedConfigurationsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	parks, err := s.o.Controller.Parked(id)
	if err != nil {
		return nil, err
	}
	all := rpc.Map(parks, func(p *rollout.Park) *pb.ParkedConfiguration { return parkToProto(id, p) })
	place := func(x *pb.ParkedConfiguration) rpc.Token {
		return rpc.Token{After: x.GetContentHash() + " " + x.GetActor(),
			Revision: x.GetCreateTime().AsTime().UnixNano()}
	}
	some := func(after rpc.Token, n int) ([]*pb.ParkedConfiguration, error) {
		rest := all
		if after.After != "" {
			after = rpc.Token{After: after.After, Revision: after.Revision}
			at := slices.IndexFunc(all, func(x *pb.ParkedConfiguration) bool { return place(x) == after })
			if at < 0 {
				return nil, rpc.ErrGone
			}
			rest = all[at+1:]
		}
		return rest[:min(n, len(rest))], nil
	}
	page, next, err := rpc.List[*pb.ParkedConfiguration]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListParkedConfigurationsResponse{ParkedConfigurations: page, NextPageToken: next}, err
}

func parkToProto(id string, p *rollout.Park) *pb.ParkedConfiguration {
	out := &pb.ParkedConfiguration{Configuration: convert.ConfigurationName(id, p.Revision), ContentHash: p.Hash,
		Actor: p.Actor, InstanceId: p.Instance, Reason: p.Why, CreateTime: timestamppb.New(p.Since)}
	if !p.Until.IsZero() {
		out.ExpireTime = timestamppb.New(p.Until)
	}
	return out
}

// ForgetInstance drops an instance that is gone.
func (s *Service) ForgetInstance(ctx context.Context,
	req *pb.ForgetInstanceRequest) (*pb.ForgetInstanceResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		_, err = instanceID("instance_id", req.GetInstanceId())
	}
	if err == nil {
		err = s.o.Controller.ForgetInstance(ctx, rpc.CallOf(ctx, req), id, req.GetInstanceId())
	}
	if err != nil {
		return nil, err
	}
	return &pb.ForgetInstanceResponse{}, nil
}

// RollbackConfiguration offers earlier values again.
func (s *Service) RollbackConfiguration(ctx context.Context,
	req *pb.RollbackConfigurationRequest) (*pb.Configuration, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	if req.GetRevision() < 0 {
		return nil, convert.Invalid("revision", "%d is negative", req.GetRevision())
	}
	if req.GetFromRevision() < 0 {
		return nil, convert.Invalid("from_revision", "%d is negative", req.GetFromRevision())
	}
	call := rpc.CallOf(ctx, req)
	c, err := s.o.Controller.Rollback(ctx, call, id, rollout.Rollback{To: req.GetRevision(),
		From: req.GetFromRevision(),
		Park: req.GetPark(), Actor: rpc.Operator(ctx), Why: call.Origin.Reason})
	if err != nil {
		return nil, err
	}
	if !call.DryRun {
		s.restored.WithLabelValues(id).Inc()
	}
	return s.o.Stamp.Configuration(c), nil
}
