package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/autosched/autosched/adapter/site"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// RefuseOpen is an error if the service answers anonymous callers: then every account that reaches it sets the
// cluster's priorities by the rights of the adapter.
func (f *ConnectFlags) RefuseOpen(ctx context.Context, scheduler string) error {
	conn, err := (&ConnectFlags{Server: f.Server, CA: f.CA}).Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = pb.NewTuningServiceClient(conn).GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/" + scheduler})
	switch status.Code(err) {
	case codes.OK, codes.NotFound:
		return fmt.Errorf("%s does not ask who calls: every account that reaches it would set this cluster's priorities: start "+
			"it with --roles ('autosched admin certs DIR --id %s' makes the files), or give --allow-anonymous",
			f.Server, scheduler)
	}
	return nil
}

// SetMode has the service treat a scheduler as --mode says: recommend or auto.
func SetMode(ctx context.Context, tuning pb.TuningServiceClient, s *pb.Scheduler, as string) error {
	mode, err := ParseMode(as)
	if err != nil || s.GetSpec().GetMode() == mode {
		return err
	}
	_, err = tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
		Scheduler:  &pb.Scheduler{Name: s.GetName(), Spec: &pb.SchedulerSpec{Mode: mode}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.mode"}}})
	if status.Code(err) == codes.PermissionDenied {
		return fmt.Errorf("an operator has to set the mode: autosched scheduler update %s --mode %s: %w",
			strings.TrimPrefix(s.GetName(), "schedulers/"), as, err)
	}
	return err
}

// AwaitScheduler waits until a scheduler is registered, and returns it.
func AwaitScheduler(ctx context.Context, tuning pb.TuningServiceClient, id string, log *slog.Logger) (*pb.Scheduler,
	error) {
	for waiting := false; ; waiting = true {
		s, err := tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/" + id},
			grpc.WaitForReady(waiting))
		switch status.Code(err) {
		case codes.OK:
			return s, nil
		case codes.NotFound, codes.Unavailable, codes.ResourceExhausted:
		default:
			return nil, err
		}
		if !waiting {
			log.Info("waiting for the scheduler", "scheduler", id, "reason", TransportReason(err))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// LogApplied logs results of applications, with more about those that are in force.
func LogApplied(log *slog.Logger, more ...any) func(*pb.Configuration, error) {
	return func(c *pb.Configuration, err error) {
		if err != nil {
			log.Warn("not applied", "revision", c.GetRevision(), "error", err)
			return
		}
		log.Info("in force", slices.Concat([]any{"revision", c.GetRevision()}, more)...)
	}
}

// Registration returns how a site under a scheduler is rendered for 'autosched scheduler register'. The scheduler's own
// rules are built in.
func Registration(scheduler string) func(site.Registration) ([]byte, error) {
	return func(r site.Registration) ([]byte, error) {
		s, err := schedulers.Find(scheduler)
		if err != nil {
			return nil, err
		}
		own := s.Space.Rules()
		rules := slices.DeleteFunc(convert.Constraints(r.Parameters.Space()), func(c *pb.DependencyConstraint) bool {
			return slices.ContainsFunc(own, func(r space.Rule) bool { return r.ID == c.GetConstraintId() })
		})
		return protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(&pb.Scheduler{
			Name: "schedulers/" + r.ID,
			Spec: &pb.SchedulerSpec{SchedulerType: scheduler, Mode: pb.SchedulerSpec_RECOMMEND,
				Cluster: convert.ClusterToProto(r.Cluster), Constraints: rules,
				Parameters: slices.DeleteFunc(convert.Parameters(r.Parameters), func(p *pb.ParameterSpec) bool {
					return !slices.Contains(r.Tuned, p.GetParameterId())
				})},
		})
	}
}
