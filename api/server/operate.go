package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

var errEtag = errors.New("it was changed since its etag was read; read it again")

// matches is errEtag if a request has an etag and it is not the present one.
func matches(etag, present string) error {
	if etag != "" && etag != present {
		return fmt.Errorf("etag %.80q is not %q: %w", etag, present, errEtag)
	}
	return nil
}

// UpdateScheduler changes what is tuned of a scheduler, and how.
func (s *tuningService) UpdateScheduler(ctx context.Context, req *pb.UpdateSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("scheduler.name", req.GetScheduler().GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, callOf(ctx, req), id, func(c *controller.Scheduler) error {
		if err := matches(req.GetScheduler().GetEtag(), s.o.Stamp.schedulerEtag(c)); err != nil {
			return err
		}
		return s.o.Registrations.Update(c, req)
	})
}

// DeleteScheduler deletes a scheduler, which can be undeleted for a while.
func (s *tuningService) DeleteScheduler(ctx context.Context, req *pb.DeleteSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Delete(ctx, callOf(ctx, req), id, func(c *controller.Scheduler) error {
		return matches(req.GetEtag(), s.o.Stamp.schedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// deleted is a scheduler that was deleted or undeleted, also one of which nothing can be read.
func (s *tuningService) deleted(c controller.Scheduler) (*pb.Scheduler, error) {
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
func (s *tuningService) UndeleteScheduler(ctx context.Context, req *pb.UndeleteSchedulerRequest) (*pb.Scheduler,
	error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Undelete(ctx, callOf(ctx, req), id, func(c *controller.Scheduler) error {
		return matches(req.GetEtag(), s.o.Stamp.schedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// PauseTuning keeps rounds from being decided.
func (s *tuningService) PauseTuning(ctx context.Context, req *pb.PauseTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, true)
}

// ResumeTuning ends a pause.
func (s *tuningService) ResumeTuning(ctx context.Context, req *pb.ResumeTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, false)
}

func (s *tuningService) pause(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, paused bool) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, callOf(ctx, req), id, func(c *controller.Scheduler) error {
		c.Paused = paused
		return matches(req.GetEtag(), s.o.Stamp.schedulerEtag(c))
	})
}

// modify changes a scheduler and returns it, after a dry run as it would be.
func (s *tuningService) modify(ctx context.Context, call controller.Call, id string,
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
	return s.stamped(c, schedulerToProto(c, st, sp)), nil
}

// GetSchedulerRevision returns one revision of a scheduler.
func (s *tuningService) GetSchedulerRevision(_ context.Context,
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
func (s *tuningService) ListSchedulerRevisions(_ context.Context,
	req *pb.ListSchedulerRevisionsRequest) (*pb.ListSchedulerRevisionsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	some := func(after token, n int) ([]*pb.SchedulerRevision, error) {
		all, err := s.o.Controller.Revisions(id, after.Revision, n)
		return mapped(all, func(r *controller.SchedulerRevision) *pb.SchedulerRevision {
			return schedulerRevisionToProto(&c, r)
		}), err
	}
	place := func(x *pb.SchedulerRevision) token { return token{Revision: x.GetRevision()} }
	page, next, err := list[*pb.SchedulerRevision]{some: some, place: place}.page(s.o.Pages, req)
	return &pb.ListSchedulerRevisionsResponse{SchedulerRevisions: page, NextPageToken: next}, err
}

func schedulerRevisionToProto(c *controller.Scheduler, r *controller.SchedulerRevision) *pb.SchedulerRevision {
	out := &pb.SchedulerRevision{Name: convert.SchedulerRevisionName(c.ID, r.Number), Revision: r.Number}
	if r.Damage != nil || r.Space == nil {
		out.Error = fmt.Sprint("its record is damaged: ", r.Damage)
		return out
	}
	out.CreateTime, out.Objective = timestamppb.New(r.Created), registration.ObjectiveToProto(r.Objective)
	out.Cluster = convert.ClusterToProto(r.Cluster)
	for _, p := range r.Space.Params() {
		out.Parameters = append(out.Parameters, convert.ParamToProto(&p))
	}
	if c.Type == controller.External {
		out.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: r.Objective}}
	}
	out.Constraints = convert.Constraints(r.Space)
	return out
}

// ApproveConfiguration offers a proposal to the scheduler.
func (s *configService) ApproveConfiguration(ctx context.Context,
	req *pb.ApproveConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	call := callOf(ctx, req)
	return s.o.Stamp.configured(s.o.Controller.Approve(ctx, call, id, rollout.Approve{Revision: revision,
		Applied: req.GetApplied(),
		Actor:   operator(ctx), Why: call.Origin.Reason}, s.o.Stamp.same(req.GetEtag())))
}

// operator is the name of an operator that calls.
func operator(ctx context.Context) string {
	return cmp.Or(access.FromContext(ctx).Name, rollout.Operator)
}

// RejectConfiguration parks the values of a proposal.
func (s *configService) RejectConfiguration(ctx context.Context,
	req *pb.RejectConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err == nil && len(req.GetReason()) > maxReason {
		err = convert.Invalid("reason", "is longer than %d bytes", maxReason)
	}
	if err != nil {
		return nil, err
	}
	call := callOf(ctx, req)
	return s.o.Stamp.configured(s.o.Controller.Reject(ctx, call, id, rollout.Reject{Revision: revision,
		Actor: operator(ctx),
		Why:   cmp.Or(req.GetReason(), call.Origin.Reason)}, s.o.Stamp.same(req.GetEtag())))
}

// UnparkConfiguration lets values be offered again.
func (s *configService) UnparkConfiguration(ctx context.Context,
	req *pb.UnparkConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.o.Stamp.configured(s.o.Controller.Unpark(ctx, callOf(ctx, req), id, revision,
		s.o.Stamp.same(req.GetEtag())))
}

// ListParkedConfigurations lists the values that are not offered.
func (s *configService) ListParkedConfigurations(_ context.Context,
	req *pb.ListParkedConfigurationsRequest) (*pb.ListParkedConfigurationsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	parks, err := s.o.Controller.Parked(id)
	if err != nil {
		return nil, err
	}
	all := mapped(parks, func(p *rollout.Park) *pb.ParkedConfiguration { return parkToProto(id, p) })
	place := func(x *pb.ParkedConfiguration) token {
		return token{After: x.GetContentHash() + " " + x.GetActor(), Revision: x.GetCreateTime().AsTime().UnixNano()}
	}
	some := func(after token, n int) ([]*pb.ParkedConfiguration, error) {
		rest := all
		if after.After != "" {
			after = token{After: after.After, Revision: after.Revision}
			at := slices.IndexFunc(all, func(x *pb.ParkedConfiguration) bool { return place(x) == after })
			if at < 0 {
				return nil, errGone
			}
			rest = all[at+1:]
		}
		return rest[:min(n, len(rest))], nil
	}
	page, next, err := list[*pb.ParkedConfiguration]{some: some, place: place}.page(s.o.Pages, req)
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
func (s *configService) ForgetInstance(ctx context.Context,
	req *pb.ForgetInstanceRequest) (*pb.ForgetInstanceResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		_, err = instanceID("instance_id", req.GetInstanceId())
	}
	if err == nil {
		err = s.o.Controller.ForgetInstance(ctx, callOf(ctx, req), id, req.GetInstanceId())
	}
	if err != nil {
		return nil, err
	}
	return &pb.ForgetInstanceResponse{}, nil
}

// RollbackConfiguration offers earlier values again.
func (s *configService) RollbackConfiguration(ctx context.Context,
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
	call := callOf(ctx, req)
	c, err := s.o.Controller.Rollback(ctx, call, id, rollout.Rollback{To: req.GetRevision(),
		From: req.GetFromRevision(),
		Park: req.GetPark(), Actor: operator(ctx), Why: call.Origin.Reason})
	if err != nil {
		return nil, err
	}
	if !call.DryRun {
		s.restored.WithLabelValues(id).Inc()
	}
	return s.o.Stamp.configuration(c), nil
}
