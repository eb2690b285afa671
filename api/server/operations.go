package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

const operationsPrefix = "operations/"

// parseOperation reads operations/{operation}.
func parseOperation(field, name string) (string, error) {
	if id, ok := strings.CutPrefix(name, operationsPrefix); ok && isRequestID(id) {
		return id, nil
	}
	return "", invalid(field, "%.160q is not of the form operations/{operation}", name)
}

// TriggerRound asks for a round now.
func (s *Server) TriggerRound(ctx context.Context, req *pb.TriggerRoundRequest) (*pb.Operation, error) {
	id, err := parseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, s.statusOf(err)
	}
	o, err := s.service.TriggerRound(ctx, id, round.SearchAuto)
	if err != nil {
		return nil, s.statusOf(err)
	}
	out := s.operation(&o)
	if req.GetValidateOnly() {
		out.Name = ""
	}
	return out, nil
}

// GetOperation returns one operation.
func (s *Server) GetOperation(_ context.Context, req *pb.GetOperationRequest) (*pb.Operation, error) {
	return s.operate(req.GetName(), s.service.Operation)
}

// CancelOperation ends an operation.
func (s *Server) CancelOperation(ctx context.Context, req *pb.CancelOperationRequest) (*pb.Operation, error) {
	return s.operate(req.GetName(), func(id string) (controller.Operation, error) {
		return s.service.CancelOperation(ctx, id)
	})
}

func (s *Server) operate(name string, f func(id string) (controller.Operation, error)) (*pb.Operation, error) {
	id, err := parseOperation("name", name)
	if err != nil {
		return nil, s.statusOf(err)
	}
	o, err := f(id)
	if err != nil {
		return nil, s.statusOf(err)
	}
	return s.operation(&o), nil
}

// The bounds of a wait.
const (
	defaultWait = 30 * time.Second
	maxWait     = 10 * time.Minute
)

// WaitOperation waits for the end of an operation.
func (s *Server) WaitOperation(ctx context.Context, req *pb.WaitOperationRequest) (*pb.Operation, error) {
	wait := defaultWait
	if d := req.GetTimeout(); d != nil {
		if wait = d.AsDuration(); d.CheckValid() != nil || wait < 0 || wait > maxWait {
			return nil, s.statusOf(invalid("timeout", "%v is not from 0 to %v", wait, maxWait))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	go func() { // ends with the call
		select {
		case <-s.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.operate(req.GetName(), func(id string) (controller.Operation, error) {
		return s.service.WaitOperation(ctx, id)
	})
}

// ListOperations lists operations, newest first.
func (s *Server) ListOperations(_ context.Context, req *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
	scheduler := ""
	if req.GetScheduler() != "" {
		var err error
		if scheduler, err = parseScheduler("scheduler", req.GetScheduler()); err != nil {
			return nil, s.statusOf(err)
		}
	}
	some := func(after token, n int) ([]*pb.Operation, error) {
		all := operationsAfter(s.service.Operations(scheduler), after)
		return mapped(all[:min(n, len(all))], s.operation), nil
	}
	place := func(x *pb.Operation) token {
		return token{After: strings.TrimPrefix(x.GetName(), operationsPrefix),
			Revision: x.GetCreateTime().AsTime().UnixNano()}
	}
	page, next, err := list[*pb.Operation]{some: some, place: place}.page(s.pages, req)
	if err != nil {
		return nil, s.statusOf(err)
	}
	return &pb.ListOperationsResponse{Operations: page, NextPageToken: next}, nil
}

// operationsAfter are those that follow a place, newest first. The place of one that is forgotten is that of the
// time at which it was asked for.
func operationsAfter(all []controller.Operation, after token) []controller.Operation {
	if after.After == "" {
		return all
	}
	if at := slices.IndexFunc(all, func(o controller.Operation) bool { return o.ID == after.After }); at >= 0 {
		return all[at+1:]
	}
	at := slices.IndexFunc(all, func(o controller.Operation) bool { return o.Created.UnixNano() < after.Revision })
	if at < 0 {
		return nil
	}
	return all[at:]
}

func (s *Server) operation(o *controller.Operation) *pb.Operation {
	out := &pb.Operation{Name: operationsPrefix + o.ID, Scheduler: schedulerName(o.Scheduler), Actor: o.Actor,
		CreateTime: timestamppb.New(o.Created)}
	if o.Ended.IsZero() {
		return out
	}
	out.Done, out.EndTime = true, timestamppb.New(o.Ended)
	if o.Err != nil {
		code, message := codes.Internal, o.Err.Error()
		if errors.Is(o.Err, controller.ErrCanceled) {
			code = codes.Canceled
		} else if errors.Is(o.Err, controller.ErrInterrupted) {
			code = codes.Aborted
		} else if st, ok := status.FromError(s.statusOf(o.Err)); ok && st.Code() != codes.Internal {
			code = st.Code()
		}
		out.Result = &pb.Operation_Error{Error: &pb.OperationError{Code: int32(code), Message: message}}
		return out
	}
	decided := &pb.Round{Outcome: o.Outcome}
	if o.Round > 0 {
		if r, err := s.service.Round(o.Scheduler, o.Round); err == nil {
			if full, err := roundToProto(o.Scheduler, r, false); err == nil {
				decided = full
			}
		}
	}
	out.Result = &pb.Operation_Round{Round: decided}
	return out
}
