package tuning

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
)

// UpdateScheduler changes the specification of a scheduler.
func (s *Service) UpdateScheduler(ctx context.Context, req *pb.UpdateSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("scheduler.name", req.GetScheduler().GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		if err := rpc.Match(req.GetScheduler().GetEtag(), s.o.Stamp.SchedulerEtag(c)); err != nil {
			return err
		}
		return s.o.Registrations.Update(c, req)
	})
}

// DeleteScheduler deletes a scheduler, which can be undeleted for a while.
func (s *Service) DeleteScheduler(ctx context.Context, req *pb.DeleteSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Delete(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		return rpc.Match(req.GetEtag(), s.o.Stamp.SchedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// deleted is a scheduler that was deleted or undeleted, also one of which nothing can be read.
func (s *Service) deleted(c controller.Scheduler) (*pb.Scheduler, error) {
	if _, err := s.o.Controller.Space(c.ID); !errors.Is(err, controller.ErrQuarantined) {
		return s.scheduler(c.ID)
	}
	out := &pb.Scheduler{Name: convert.SchedulerName(c.ID)}
	if !c.Deleted.IsZero() {
		out.State, out.DeleteTime, out.ExpireTime = pb.Scheduler_DELETED, timestamppb.New(c.Deleted),
			timestamppb.New(c.Expires)
	}
	return out, nil
}

// UndeleteScheduler takes back that a scheduler was deleted.
func (s *Service) UndeleteScheduler(ctx context.Context, req *pb.UndeleteSchedulerRequest) (*pb.Scheduler,
	error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Undelete(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		return rpc.Match(req.GetEtag(), s.o.Stamp.SchedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// PauseTuning keeps rounds from being decided.
func (s *Service) PauseTuning(ctx context.Context, req *pb.PauseTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, true)
}

// ResumeTuning ends a pause.
func (s *Service) ResumeTuning(ctx context.Context, req *pb.ResumeTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, false)
}

func (s *Service) pause(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, paused bool) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		c.Paused = paused
		return rpc.Match(req.GetEtag(), s.o.Stamp.SchedulerEtag(c))
	})
}

// modify changes a scheduler and returns it, after a dry run as it would be.
func (s *Service) modify(ctx context.Context, call controller.Call, id string,
	f func(*controller.Scheduler) error) (*pb.Scheduler, error) {
	c, err := s.o.Controller.Modify(ctx, call, id, f)
	if err != nil {
		return nil, err
	}
	if !call.DryRun {
		return s.scheduler(id)
	}
	_, st, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := space.New(c.Params, c.Rules)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, SchedulerToProto(c, st, sp)), nil
}

// GetSchedulerRevision returns one revision of a scheduler.
func (s *Service) GetSchedulerRevision(_ context.Context,
	req *pb.GetSchedulerRevisionRequest) (*pb.SchedulerRevision, error) {
	id, revision, err := convert.ParseSchedulerRevision("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	all, err := s.o.Controller.Revisions(id, revision+1, 1)
	if err == nil && (len(all) == 0 || all[0].Number != revision) {
		err = fmt.Errorf("revision %d of scheduler %q: %w", revision, id, controller.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return schedulerRevisionToProto(&c, &all[0]), nil
}

// ListSchedulerRevisions lists the revisions of a scheduler, newest first.
func (s *Service) ListSchedulerRevisions(_ context.Context,
	req *pb.ListSchedulerRevisionsRequest) (*pb.ListSchedulerRevisionsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) ([]*pb.SchedulerRevision, error) {
		all, err := s.o.Controller.Revisions(id, after.Revision, n)
		return rpc.Map(all, func(r *controller.SchedulerRevision) *pb.SchedulerRevision {
			return schedulerRevisionToProto(&c, r)
		}), err
	}
	place := func(x *pb.SchedulerRevision) rpc.Token { return rpc.Token{Revision: x.GetRevision()} }
	page, next, err := rpc.List[*pb.SchedulerRevision]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListSchedulerRevisionsResponse{SchedulerRevisions: page, NextPageToken: next}, err
}
