package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/space"
)

// Session is an adapter at work.
type Session struct {
	Conn grpc.ClientConnInterface
	// Scheduler and Instance say whose file it is.
	Scheduler, Instance string
	// Driver applies configurations; none is followed if nil.
	Driver *Driver
	// InForce returns the values in force where there is no Driver; nothing is said of them if nil.
	InForce func(context.Context) (space.Values, error)
	// Events, if set, runs beside and sends events; its Snapshot is that of the client.
	Events   func(context.Context, *client.Client)
	Snapshot func() *pb.Event
	// Now is the scheduler's time; time.Now if nil.
	Now func() time.Time
	// Interval is the time between looks at the values in force.
	Interval time.Duration
	// Applied is called after every attempt to apply a configuration.
	Applied func(*pb.Configuration, error)
	// Notify is called with faults, which are tried again, and with changes by others.
	Notify func(error)
}

// Run follows the configuration, applies and acknowledges it, and reports to the service when someone
// else changes the values in force, until the context ends or the service refuses the adapter.
func (s *Session) Run(ctx context.Context) error {
	o := client.Options{Conn: s.Conn, Scheduler: s.Scheduler, Instance: s.Instance, Notify: s.Notify,
		Snapshot: s.Snapshot, Now: s.Now}
	if s.Driver != nil {
		o.Apply = func(ctx context.Context, c *pb.Configuration) (_ map[string]*structpb.Value, err error) {
			defer func() { s.Applied(c, err) }()
			return s.Driver.Apply(ctx, c)
		}
	}
	c, err := client.New(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	switch {
	case s.Driver != nil:
		beside.Go(func() { s.look(ctx) })
	case s.InForce != nil:
		beside.Go(func() { s.observe(ctx) })
	}
	if s.Events != nil {
		beside.Go(func() { s.Events(ctx, c) })
	}
	err = c.Run(ctx)
	cancel()
	beside.Wait()
	return err
}

// look acknowledges the values in force whenever it changed without the adapter.
func (s *Session) look(ctx context.Context) {
	config := pb.NewConfigurationServiceClient(s.Conn)
	for client.Sleep(ctx, s.Interval) {
		req, now := s.Driver.look(ctx)
		if req == nil {
			continue
		}
		req.Acknowledgement.InstanceId = s.Instance
		s.Notify(errors.New(now.news))
		if _, err := config.AcknowledgeConfiguration(ctx, req); err == nil {
			s.Driver.reported(now)
		} else if ctx.Err() == nil {
			s.Notify(err)
		}
	}
}

// observe acknowledges the values in force, as long as no change is under way, whenever the service knows it otherwise.
func (s *Session) observe(ctx context.Context) {
	last := ""
	for {
		news, err := s.observed(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			news = fmt.Sprintf("what is in force is not reported: %v", err)
		}
		switch {
		case news == last:
		case news == "":
			s.Notify(errors.New("in force is what the service knows"))
		default:
			s.Notify(errors.New(news))
		}
		last = news
		if !client.Sleep(ctx, s.Interval) {
			return
		}
	}
}

// observed acknowledges the revision that the service takes for the one that runs, with the values in force, and
// returns the differences.
func (s *Session) observed(ctx context.Context) (news string, err error) {
	values, err := s.InForce(ctx)
	if err != nil {
		return "", err
	}
	parameters, err := adapter.ToProto(values)
	if err != nil {
		return "", err
	}
	name := "schedulers/" + s.Scheduler
	scheduler, err := pb.NewTuningServiceClient(s.Conn).GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil {
		return "", err
	}
	var known *pb.InstanceStatus
	instances := scheduler.GetStatus().GetInstances()
	for _, i := range instances {
		if i.GetInstanceId() == s.Instance || s.Instance == "" && len(instances) == 1 {
			known = i
		}
	}
	config := pb.NewConfigurationServiceClient(s.Conn)
	var c *pb.Configuration
	if of := known.GetReportedRevision(); of > 0 {
		c, err = config.GetConfiguration(ctx,
			&pb.GetConfigurationRequest{Name: fmt.Sprint(name, "/configurations/", of)})
	} else {
		var got *pb.GetCurrentConfigurationResponse
		got, err = config.GetCurrentConfiguration(ctx,
			&pb.GetCurrentConfigurationRequest{Name: name, InstanceId: s.Instance})
		c = got.GetConfiguration()
	}
	if err != nil {
		return "", err
	}
	ack := &pb.Acknowledgement{InstanceId: s.Instance, State: pb.Acknowledgement_APPLIED,
		EffectiveParameters: client.Differing(c, parameters)}
	if len(ack.EffectiveParameters) > 0 {
		sent, err := adapter.FromProto(c.GetParameters())
		if err != nil {
			return "", err
		}
		news = fmt.Sprintf("in force is other than revision %d: %s", c.GetRevision(), differences(values, sent))
		ack.State, ack.Error = pb.Acknowledgement_PARTIALLY_APPLIED, shorten(news)
	}
	if known.GetReportedRevision() > 0 && maps.EqualFunc(ack.EffectiveParameters, known.GetEffectiveParameters(),
		func(a, b *structpb.Value) bool { return proto.Equal(a, b) }) {
		return news, nil
	}
	_, err = config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{Name: c.GetName(),
		ContentHash: c.GetContentHash(), Epoch: c.GetEpoch(), Acknowledgement: ack})
	return news, err
}

// differences names the values in force that differ from the sent ones.
func differences(values, sent space.Values) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(sent)) {
		if v := values[id]; !v.IsZero() && !v.Equal(sent[id]) {
			parts = append(parts, fmt.Sprintf("%s is %v, not %v", id, v, sent[id]))
		}
	}
	return strings.Join(parts, ", ")
}

func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), 1000)], "") }

// look is the configuration found in force.
type look struct {
	foreign bool         // the file is someone else's
	values  space.Values // nil if they cannot be read
	fault   string       // why
	news    string       // differences to the adapter's last values
}

func (d *Driver) reported(l look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = l
}

// look returns an acknowledgement of the values in force if the service knows others.
func (d *Driver) look(ctx context.Context) (*pb.AcknowledgeConfigurationRequest, look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.note.InForce
	if last == nil || d.note.Pending != nil || !d.asked {
		return nil, look{} // nothing is in force, or it is acknowledged with the first offer
	}
	var now look
	text, err := read(d.o.Path)
	if err == nil {
		now.foreign = !slices.Contains(d.note.Files, digest(text))
		now.values, err = d.inForce(ctx, last.Sent)
	}
	if ctx.Err() != nil {
		return nil, look{}
	}
	if err != nil {
		now.fault = err.Error()
	}
	if now.foreign == d.known.foreign && now.fault == d.known.fault &&
		maps.EqualFunc(now.values, d.known.values, space.Value.Equal) {
		return nil, look{}
	}
	ack := &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}
	differ := now.fault == "" && !maps.EqualFunc(now.values, last.Sent, space.Value.Equal)
	if differ {
		if ack.EffectiveParameters, err = adapter.ToProto(now.values); err != nil {
			now.fault = err.Error()
		}
	}
	switch {
	case now.fault != "":
		now.news = "what is in force cannot be read: " + now.fault
		ack.State, ack.Error, ack.EffectiveParameters = pb.Acknowledgement_FAILED, shorten(now.news), nil
	case differ:
		now.news = "someone else changed what is in force: " + differences(now.values, last.Sent)
		ack.State, ack.Error = pb.Acknowledgement_PARTIALLY_APPLIED, shorten(now.news)
	default:
		now.news = fmt.Sprintf("in force is revision %d", last.Revision)
	}
	if now.foreign {
		now.news = fmt.Sprintf("%v: %s; new configurations are not applied; %s", ErrChanged, d.o.Path, now.news)
		if ack.State != pb.Acknowledgement_APPLIED {
			ack.Error = shorten(now.news)
		}
	}
	return &pb.AcknowledgeConfigurationRequest{Name: last.Name, ContentHash: last.ContentHash, Epoch: last.epoch(),
		Acknowledgement: ack}, now
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
