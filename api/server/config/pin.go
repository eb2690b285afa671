package config

import (
	"context"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// PinConfiguration offers values and keeps them on offer.
func (s *Service) PinConfiguration(ctx context.Context, req *pb.PinConfigurationRequest) (*pb.Configuration,
	error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	until, err := rpc.Lasting(req)
	if err != nil {
		return nil, err
	}
	var config func(*space.Space, space.Config) (space.Config, error)
	if len(req.GetParameters()) > 0 {
		config = func(sp *space.Space, base space.Config) (space.Config, error) {
			return convert.Choose(sp, base, req.GetParameters())
		}
	}
	return s.o.Stamp.Configured(s.o.Controller.Pin(ctx, rpc.CallOf(ctx, req), id, rollout.Pin{Reason: req.GetReason(),
		Actor: rpc.Operator(ctx), Until: until},
		s.o.Stamp.Same(req.GetEtag()), config))
}

// UnpinConfiguration ends a pin.
func (s *Service) UnpinConfiguration(ctx context.Context,
	req *pb.UnpinConfigurationRequest) (*pb.UnpinConfigurationResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		err = s.o.Controller.Unpin(ctx, rpc.CallOf(ctx, req), id)
	}
	if err != nil {
		return nil, err
	}
	return &pb.UnpinConfigurationResponse{}, nil
}
