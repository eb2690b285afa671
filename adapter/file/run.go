package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
)

// Look implements [adapter.Applier].
func (d *Driver) Look(ctx context.Context) (*pb.AcknowledgeConfigurationRequest, string, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.note.InForce
	if last == nil || d.note.Pending != nil || !d.asked {
		return nil, "", nil // nothing is in force, or it is acknowledged with the first offer
	}
	var now adapter.InForce
	text, err := read(d.o.Path)
	if err == nil {
		if !slices.Contains(d.note.Files, digest(text)) {
			now.Foreign = fmt.Sprintf("%v: %s", ErrChanged, d.o.Path)
		}
		now.Values, err = d.inForce(ctx, last.Sent)
	}
	if ctx.Err() != nil {
		return nil, "", nil
	}
	if err != nil {
		now.Fault = err.Error()
	}
	if now.Equal(d.known) {
		return nil, "", nil
	}
	req, news := last.Acknowledge(now)
	return req, news, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.known = now
	}
}

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
	return &pb.ApplyConfigurationResponse{Acknowledgement: client.Outcome(c, effective, err)}, nil
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

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 1 << 20

// exitError is a command that ran and failed.
type exitError struct{ error }

// commands is a Target that is reached by the commands of Options.
type commands struct{ o *Options }

// Check implements [Target].
func (c commands) Check(ctx context.Context, path string) error {
	_, err := c.run(ctx, c.o.Check, path)
	return refusedBy("check", err)
}

// Reload implements [Target].
func (c commands) Reload(ctx context.Context, path string) error {
	_, err := c.run(ctx, c.o.Reload, path)
	return refusedBy("reload", err)
}

// Restore implements [Target].
func (c commands) Restore(ctx context.Context, path string) error { return c.Reload(ctx, path) }

// ReadBack implements [Target].
func (c commands) ReadBack(ctx context.Context, path string) ([]byte, error) {
	if len(c.o.ReadBack) == 0 {
		return os.ReadFile(path)
	}
	return c.run(ctx, c.o.ReadBack, path)
}

// run runs a command and returns its standard output; nothing if there is no command.
func (c commands) run(ctx context.Context, words []string, path string) ([]byte, error) {
	if len(words) == 0 {
		return nil, nil
	}
	words = slices.Clone(words)
	for i, word := range words[1:] {
		words[1+i] = strings.ReplaceAll(word, "{file}", path)
	}
	out, errs := program.Beginning{Max: maxOutput}, program.Beginning{Max: maxOutput}
	err := program.Run(ctx, c.o.Timeout, words, nil, &out, &errs)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		said := strings.TrimSpace(errs.String() + " " + out.String())
		return nil, &exitError{fmt.Errorf("%w: %.500s", err, said)}
	} else if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// refusedBy marks the failure of a command as a refusal of the values, unless it did not run to its end.
func refusedBy(step string, err error) error {
	if err == nil {
		return nil
	}
	if failed := (*exitError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%w: %s: %w", client.ErrRefused, step, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}
