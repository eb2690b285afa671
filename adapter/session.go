package adapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// Applier puts configurations in force.
type Applier interface {
	// Apply puts a configuration in force and returns the values in force, as the client's Options say.
	Apply(ctx context.Context, c *pb.Configuration) (map[string]*structpb.Value, error)
	// Look compares the values in force with the service's knowledge of them. If they differ, it returns an
	// acknowledgement, news for the operator, and a function to be called once the service has the acknowledgement;
	// otherwise nil.
	Look(ctx context.Context) (ack *pb.AcknowledgeConfigurationRequest, news string, reported func())
}

// Session is an adapter at work.
type Session struct {
	Conn grpc.ClientConnInterface
	// Scheduler and Instance say which scheduler is configured.
	Scheduler, Instance string
	// Driver applies configurations; none is followed if nil.
	Driver Applier
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
		req, news, reported := s.Driver.Look(ctx)
		if req == nil {
			continue
		}
		req.Acknowledgement.InstanceId = s.Instance
		s.Notify(errors.New(news))
		if _, err := config.AcknowledgeConfiguration(ctx, req); err == nil {
			reported()
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
	parameters, err := ToProto(values)
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
		sent, err := FromProto(c.GetParameters())
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

// Applied is a configuration that was put in force.
type Applied struct {
	Name         string       `json:"name"`
	Revision     int64        `json:"revision"`
	EpochID      string       `json:"epoch_id,omitempty"`
	EpochCounter int64        `json:"epoch_counter,omitempty"`
	ContentHash  string       `json:"content_hash"`
	Sent         space.Values `json:"sent"`
}

// AppliedOf describes a configuration with the values that were sent.
func AppliedOf(c *pb.Configuration, sent space.Values) Applied {
	return Applied{Name: c.GetName(), Revision: c.GetRevision(), EpochID: c.GetEpoch().GetId(),
		EpochCounter: c.GetEpoch().GetCounter(), ContentHash: c.GetContentHash(), Sent: sent}
}

func (a *Applied) epoch() *pb.Epoch {
	if a.EpochID == "" {
		return nil
	}
	return &pb.Epoch{Id: a.EpochID, Counter: a.EpochCounter}
}

// Old is an error if a configuration is of an epoch of the store before that of the one in force.
func (a *Applied) Old(c *pb.Configuration) error {
	if c.GetEpoch().GetCounter() >= a.EpochCounter {
		return nil
	}
	return fmt.Errorf("%s is of epoch %d of the store, before %d: an old copy of the store is served",
		c.GetName(), c.GetEpoch().GetCounter(), a.EpochCounter)
}

// InForce is the configuration found in force.
type InForce struct {
	Foreign string       // a change by someone else after which nothing is applied; empty if there is none
	Values  space.Values // nil if they cannot be read
	Fault   string       // why
}

// Equal reports whether two looks found the same.
func (f InForce) Equal(g InForce) bool {
	return f.Foreign == g.Foreign && f.Fault == g.Fault && maps.EqualFunc(f.Values, g.Values, space.Value.Equal)
}

// Acknowledge acknowledges the configuration last applied with the values found in force, and describes them.
func (a *Applied) Acknowledge(now InForce) (req *pb.AcknowledgeConfigurationRequest, news string) {
	ack := &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}
	differ := now.Fault == "" && !maps.EqualFunc(now.Values, a.Sent, space.Value.Equal)
	if differ {
		var err error
		if ack.EffectiveParameters, err = ToProto(now.Values); err != nil {
			now.Fault = err.Error()
		}
	}
	switch {
	case now.Fault != "":
		news = "what is in force cannot be read: " + now.Fault
		ack.State, ack.Error, ack.EffectiveParameters = pb.Acknowledgement_FAILED, shorten(news), nil
	case differ:
		news = "someone else changed what is in force: " + differences(now.Values, a.Sent)
		ack.State, ack.Error = pb.Acknowledgement_PARTIALLY_APPLIED, shorten(news)
	default:
		news = fmt.Sprintf("in force is revision %d", a.Revision)
	}
	if now.Foreign != "" {
		news = fmt.Sprintf("%s; new configurations are not applied; %s", now.Foreign, news)
		if ack.State != pb.Acknowledgement_APPLIED {
			ack.Error = shorten(news)
		}
	}
	return &pb.AcknowledgeConfigurationRequest{Name: a.Name, ContentHash: a.ContentHash, Epoch: a.epoch(),
		Acknowledgement: ack}, news
}
