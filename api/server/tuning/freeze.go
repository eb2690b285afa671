// Package tuning serves schedulers: their registration, updates, freezes and events.
package tuning

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
)

// allSchedulers is the name of all of them.
const allSchedulers = convert.SchedulersPrefix + "-"

// FreezeTuning keeps the service from changing the configurations of schedulers.
func (s *Service) FreezeTuning(ctx context.Context, req *pb.FreezeTuningRequest) (*pb.FreezeTuningResponse,
	error) {
	until, err := rpc.Lasting(req)
	if err != nil {
		return nil, err
	}
	done, err := s.freeze(ctx, req, &rollout.Freeze{Reason: req.GetReason(), Actor: access.FromContext(ctx).Name,
		Created: time.Now().UTC(), Until: until})
	return &pb.FreezeTuningResponse{Schedulers: done}, err
}

func pinToProto(id string, p *rollout.Pin) *pb.Pin {
	if p == nil {
		return nil
	}
	out := &pb.Pin{Configuration: convert.ConfigurationName(id, p.Revision), Reason: p.Reason, Actor: p.Actor,
		CreateTime: timestamppb.New(p.Created)}
	if !p.Until.IsZero() {
		out.ExpireTime = timestamppb.New(p.Until)
	}
	return out
}

// UnfreezeTuning ends a freeze.
func (s *Service) UnfreezeTuning(ctx context.Context,
	req *pb.UnfreezeTuningRequest) (*pb.UnfreezeTuningResponse, error) {
	done, err := s.freeze(ctx, req, nil)
	return &pb.UnfreezeTuningResponse{Schedulers: done}, err
}

// freeze freezes a scheduler or all of them, or ends that if f is nil. Of all, those that
// are quarantined or deleted, which nothing tunes, are left out.
func (s *Service) freeze(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, f *rollout.Freeze) (done []*pb.Scheduler, err error) {
	name, etag := req.GetName(), req.GetEtag()
	if etag != "" && name == allSchedulers {
		return nil, convert.Invalid("etag", "is of one scheduler, and the request is of all")
	}
	ids := s.o.Controller.Schedulers("", math.MaxInt)
	if name != allSchedulers {
		id, err := convert.ParseScheduler("name", name)
		if err != nil {
			return nil, err
		}
		ids = []string{id}
	}
	if f != nil && !f.Until.IsZero() {
		for _, id := range ids {
			if _, st, err := s.o.Controller.Scheduler(id); err == nil && !st.EventTime.Before(f.Until) {
				return nil, convert.Invalid("expire_time", "%s is over: the event time of %s is %s",
					f.Until.Format(time.RFC3339), convert.SchedulerName(id), st.EventTime.Format(time.RFC3339))
			}
		}
	}
	call := rpc.CallOf(ctx, req)
	call.Request = "" // the request is stored once all are changed
	for _, id := range ids {
		one, err := s.modify(ctx, call, id, func(c *controller.Scheduler) error {
			if err := rpc.Match(etag, s.o.Stamp.SchedulerEtag(c)); err != nil {
				return err
			}
			if f != nil && c.Freeze != nil && c.Freeze.Reason == f.Reason && c.Freeze.Until.Equal(f.Until) {
				return nil // sent again
			}
			c.Freeze = f
			return nil
		})
		untuned := errors.Is(err, controller.ErrQuarantined) || errors.Is(err, controller.ErrDeleted) ||
			errors.Is(err, controller.ErrNotFound) // purged since
		if name == allSchedulers && untuned {
			continue
		}
		if err != nil {
			return nil, err
		}
		done = append(done, one)
	}
	return done, nil
}

// Named returns a scheduler, or all of them that can be tuned.
func (s *Service) Named(name string) (out []*pb.Scheduler, err error) {
	if name != allSchedulers {
		id, err := convert.ParseScheduler("name", name)
		if err != nil {
			return nil, err
		}
		one, err := s.scheduler(id)
		return []*pb.Scheduler{one}, err
	}
	for _, id := range s.o.Controller.Schedulers("", math.MaxInt) {
		one, err := s.scheduler(id)
		if err == nil && one.GetState() != pb.Scheduler_DELETED {
			out = append(out, one)
		}
	}
	return out, nil
}

func freezeToProto(f *rollout.Freeze) *pb.Freeze {
	if f == nil {
		return nil
	}
	out := &pb.Freeze{Reason: f.Reason, Actor: f.Actor, CreateTime: timestamppb.New(f.Created)}
	if !f.Until.IsZero() {
		out.ExpireTime = timestamppb.New(f.Until)
	}
	return out
}
