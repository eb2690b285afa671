package file

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

// Agent is a driver that the service calls. It has no events.
type Agent struct {
	pb.UnimplementedSchedulerAgentServer
	Driver *Driver
	// Applied is called after every attempt to apply a configuration.
	Applied func(*pb.Configuration, error)
}

// ApplyConfiguration implements SchedulerAgent.
func (a *Agent) ApplyConfiguration(ctx context.Context, req *pb.ApplyConfigurationRequest) (
	*pb.ApplyConfigurationResponse, error) {
	c := req.GetConfiguration()
	if c == nil {
		return nil, status.Error(codes.InvalidArgument, "configuration: is missing")
	}
	effective, err := a.Driver.Apply(ctx, c)
	a.Applied(c, err)
	ack := &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}
	switch {
	case errors.Is(err, client.ErrRefused):
		ack.State, ack.Error = pb.Acknowledgement_REJECTED, err.Error()
	case err != nil:
		ack.State, ack.Error = pb.Acknowledgement_FAILED, err.Error()
	default:
		if ack.EffectiveParameters = client.Differing(c, effective); len(ack.EffectiveParameters) > 0 {
			ack.State = pb.Acknowledgement_PARTIALLY_APPLIED
		}
	}
	return &pb.ApplyConfigurationResponse{Acknowledgement: ack}, nil
}

// DescribeParameters implements SchedulerAgent.
func (a *Agent) DescribeParameters(ctx context.Context, _ *pb.DescribeParametersRequest) (
	*pb.DescribeParametersResponse, error) {
	d := a.Driver
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.note.InForce
	if last == nil {
		return nil, status.Error(codes.FailedPrecondition, "nothing was applied so far")
	}
	got, err := d.readBack(ctx, last.Sent)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	parameters, err := adapter.ToProto(got)
	return &pb.DescribeParametersResponse{Parameters: parameters, Revision: last.Revision}, err
}
