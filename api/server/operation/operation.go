// Package operation serves operations: rounds that callers ask for, and studies that the service
// runs.
package operation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/study"
)

// parseOperation reads operations/{operation}.
func parseOperation(field, name string) (string, error) {
	if id, ok := strings.CutPrefix(name, render.OperationsPrefix); ok && rpc.IsRequestID(id) {
		return id, nil
	}
	return "", convert.Invalid(field, "%.160q is not of the form operations/{operation}", name)
}

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	CancelOperation(ctx context.Context, call controller.Call, id string) (controller.Operation, error)
	Operation(id string) (controller.Operation, error)
	Operations(scheduler string) (out []controller.Operation)
	Round(id string, sequence int64) (*controller.RoundRecord, error)
	TriggerRound(ctx context.Context, call controller.Call, id string, search round.Search) (controller.Operation,
		error)
	WaitOperation(ctx context.Context, id string) (controller.Operation, error)
}

// Config configures the service of operations.
type Config struct {
	Controller Controller
	Studies    *studies.Service // nil if there are none
	Stamp      render.Stamp
	Pages      rpc.Pager
	Draining   <-chan struct{} // closed when the server shuts down
}

// Service serves operations: rounds that callers ask for, and studies that the service runs.
type Service struct {
	pb.UnimplementedOperationServiceServer
	o Config
}

// New returns the service of operations.
func New(o Config) *Service { return &Service{o: o} }

// Register adds the service to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) { pb.RegisterOperationServiceServer(g, s) }

// TriggerRound asks for a round now.
func (s *Service) TriggerRound(ctx context.Context, req *pb.TriggerRoundRequest) (*pb.Operation, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	o, err := s.o.Controller.TriggerRound(ctx, rpc.CallOf(ctx, req), id, round.SearchAuto)
	if err != nil {
		return nil, err
	}
	out := s.operation(&o)
	if req.GetValidateOnly() {
		out.Name = ""
	}
	return out, nil
}

// GetOperation returns one operation.
func (s *Service) GetOperation(_ context.Context, req *pb.GetOperationRequest) (*pb.Operation, error) {
	return s.operate(req.GetName(), s.o.Controller.Operation, func(*studies.Ran) error { return nil })
}

// CancelOperation ends an operation.
func (s *Service) CancelOperation(ctx context.Context, req *pb.CancelOperationRequest) (*pb.Operation, error) {
	return s.operate(req.GetName(), func(id string) (controller.Operation, error) {
		return s.o.Controller.CancelOperation(ctx, rpc.CallOf(ctx, req), id)
	}, func(r *studies.Ran) error {
		if over(r) {
			return nil
		}
		_, err := s.o.Studies.Operate(ctx, rpc.CallOf(ctx, req), r.Scheduler, r.ID, study.Cancel{},
			s.o.Stamp.SameStudy(""))
		return err
	})
}

// operate does something about an operation, which is a round or a study, and returns it.
func (s *Service) operate(name string, round func(id string) (controller.Operation, error),
	run func(*studies.Ran) error) (*pb.Operation, error) {
	id, err := parseOperation("name", name)
	if err != nil {
		return nil, err
	}
	o, err := round(id)
	if err == nil {
		return s.operation(&o), nil
	}
	if r := s.ran(id); errors.Is(err, controller.ErrNotFound) && r != nil {
		if err := run(r); err != nil {
			return nil, err
		}
		if r = s.again(r); r != nil {
			return s.runOperation(r), nil
		}
	}
	return nil, err
}

func (s *Service) runs(scheduler string) []studies.Ran {
	if s.o.Studies == nil {
		return nil
	}
	return s.o.Studies.Ran(scheduler)
}

// ran is the study that an operation measures, nil if it is none.
func (s *Service) ran(id string) *studies.Ran {
	for _, r := range s.runs("") {
		if r.UID == id {
			return &r
		}
	}
	return nil
}

// again is a study as it is now, nil if it is gone.
func (s *Service) again(r *studies.Ran) *studies.Ran {
	st, err := s.o.Studies.Study(r.Scheduler, r.ID)
	if err != nil || st.UID != r.UID {
		return nil
	}
	return &studies.Ran{Scheduler: r.Scheduler, State: st}
}

// over reports whether no more trials of a study are measured.
func over(r *studies.Ran) bool { return r.Phase == study.Completed || r.Phase == study.Cancelled }

// runOperation is the operation that measures a study.
func (s *Service) runOperation(r *studies.Ran) *pb.Operation {
	out := &pb.Operation{Name: render.OperationsPrefix + r.UID, Scheduler: convert.SchedulerName(r.Scheduler),
		Target: convert.StudyName(r.Scheduler, r.ID), Actor: r.Run.Actor, CreateTime: timestamppb.New(r.Run.Since),
		Progress: &pb.OperationProgress{Phase: pb.OperationProgress_RUNNING, DoneCount: int32(r.Done()),
			TotalCount: int32(r.Spec.Budget)}}
	switch {
	case over(r):
		out.Done, out.EndTime = true, timestamppb.New(cmp.Or(r.Over, r.Updated)) // old records lack the first
		out.Progress.Phase = pb.OperationProgress_ENDED
	case r.Phase == study.Paused || s.o.Studies.Problem(r.Scheduler, &r.State) != "":
		out.Progress.Phase = pb.OperationProgress_PAUSED
	}
	switch r.Phase {
	case study.Cancelled:
		out.Result = &pb.Operation_Error{Error: &pb.OperationError{Code: int32(codes.Canceled),
			Message: "the study was cancelled"}}
	case study.Completed:
		one := s.o.Stamp.Study(r.Scheduler, &r.State, s.o.Studies)
		one.Spec.Parameters, one.Spec.Constraints = nil, nil
		out.Result = &pb.Operation_Study{Study: one}
	}
	return out
}

// The bounds of a wait.
const (
	defaultWait = 30 * time.Second
	maxWait     = 10 * time.Minute
	lookEvery   = 200 * time.Millisecond // at a study that is waited for
)

// WaitOperation waits for the end of an operation.
func (s *Service) WaitOperation(ctx context.Context, req *pb.WaitOperationRequest) (*pb.Operation, error) {
	wait := defaultWait
	if d := req.GetTimeout(); d != nil {
		if wait = d.AsDuration(); d.CheckValid() != nil || wait < 0 || wait > maxWait {
			return nil, convert.Invalid("timeout", "%v is not from 0 to %v", wait, maxWait)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	go func() { // ends with the call
		select {
		case <-s.o.Draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.operate(req.GetName(), func(id string) (controller.Operation, error) {
		return s.o.Controller.WaitOperation(ctx, id)
	}, func(r *studies.Ran) error {
		clock := time.NewTicker(lookEvery)
		defer clock.Stop()
		for ; r != nil && !over(r); r = s.again(r) {
			select {
			case <-ctx.Done():
				return nil
			case <-clock.C:
			}
		}
		return nil
	})
}

// ListOperations lists operations, newest first.
func (s *Service) ListOperations(_ context.Context,
	req *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
	scheduler := ""
	if req.GetScheduler() != "" {
		var err error
		if scheduler, err = convert.ParseScheduler("scheduler", req.GetScheduler()); err != nil {
			return nil, err
		}
	}
	some := func(after rpc.Token, n int) ([]*pb.Operation, error) {
		all := operationsAfter(s.asked(scheduler), after)
		return rpc.Map(all[:min(n, len(all))], func(a *asked) *pb.Operation { return a.proto() }), nil
	}
	place := func(x *pb.Operation) rpc.Token {
		return rpc.Token{After: strings.TrimPrefix(x.GetName(), render.OperationsPrefix),
			Revision: x.GetCreateTime().AsTime().UnixNano()}
	}
	page, next, err := rpc.List[*pb.Operation]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListOperationsResponse{Operations: page, NextPageToken: next}, err
}

// asked is an operation of a list.
type asked struct {
	id    string
	at    time.Time
	proto func() *pb.Operation
}

// asked are the operations of a scheduler, or of all if it is "", newest first.
func (s *Service) asked(scheduler string) (out []asked) {
	for _, o := range s.o.Controller.Operations(scheduler) {
		out = append(out, asked{o.ID, o.Created, func() *pb.Operation { return s.operation(&o) }})
	}
	for _, r := range s.runs(scheduler) {
		out = append(out, asked{r.UID, r.Run.Since, func() *pb.Operation { return s.runOperation(&r) }})
	}
	slices.SortStableFunc(out, func(a, b asked) int { return b.at.Compare(a.at) })
	return out
}

// operationsAfter are those that follow a place, newest first. The place of one that is forgotten is that of the
// time at which it was asked for.
func operationsAfter(all []asked, after rpc.Token) []asked {
	if after.After == "" {
		return all
	}
	if at := slices.IndexFunc(all, func(a asked) bool { return a.id == after.After }); at >= 0 {
		return all[at+1:]
	}
	at := slices.IndexFunc(all, func(a asked) bool { return a.at.UnixNano() < after.Revision })
	if at < 0 {
		return nil
	}
	return all[at:]
}

func (s *Service) operation(o *controller.Operation) *pb.Operation {
	out := &pb.Operation{Name: render.OperationsPrefix + o.ID, Scheduler: convert.SchedulerName(o.Scheduler),
		Actor:  o.Actor,
		Target: convert.SchedulerName(o.Scheduler), CreateTime: timestamppb.New(o.Created),
		Progress: &pb.OperationProgress{Phase: pb.OperationProgress_WAITING}}
	switch {
	case !o.Ended.IsZero():
		out.Progress.Phase = pb.OperationProgress_ENDED
	case o.Begun:
		out.Progress.Phase = pb.OperationProgress_RUNNING
		return out
	default:
		return out
	}
	out.Done, out.EndTime = true, timestamppb.New(o.Ended)
	if o.Err != nil {
		code, message := codes.Internal, o.Err.Error()
		if errors.Is(o.Err, controller.ErrCanceled) {
			code = codes.Canceled
		} else if errors.Is(o.Err, controller.ErrInterrupted) {
			code = codes.Aborted
		} else if st, ok := status.FromError(rpc.Status(o.Err)); ok && st.Code() != codes.Internal {
			code = st.Code()
		}
		out.Result = &pb.Operation_Error{Error: &pb.OperationError{Code: int32(code), Message: message}}
		return out
	}
	decided := &pb.Round{Outcome: o.Outcome}
	if o.Round > 0 {
		if r, err := s.o.Controller.Round(o.Scheduler, o.Round); err == nil {
			if full, err := render.RoundToProto(o.Scheduler, r, false); err == nil {
				decided = full
			}
		}
	}
	out.Result = &pb.Operation_Round{Round: decided}
	return out
}
