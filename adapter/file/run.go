package file

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// Session is an adapter at work.
type Session struct {
	Conn grpc.ClientConnInterface
	// Scheduler and Instance say whose file it is.
	Scheduler, Instance string
	// Driver applies configurations; none is followed if nil.
	Driver *Driver
	// Events, if set, runs beside and sends events; its Snapshot is that of the client.
	Events   func(context.Context, *client.Client)
	Snapshot func() *pb.Event
	// Interval is the time between looks at what is in force.
	Interval time.Duration
	// Applied is called after every attempt to apply a configuration.
	Applied func(*pb.Configuration, error)
	// Notify is called with what went wrong and is tried again, and with what someone else changed.
	Notify func(error)
}

// Run follows the configuration, applies and acknowledges it, and reports to the service when someone
// else changes what is in force, until the context ends or the service refuses the adapter.
func (s *Session) Run(ctx context.Context) error {
	o := client.Options{Conn: s.Conn, Scheduler: s.Scheduler, Instance: s.Instance, Notify: s.Notify,
		Snapshot: s.Snapshot}
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
	if s.Driver != nil {
		beside.Go(func() { s.look(ctx) })
	}
	if s.Events != nil {
		beside.Go(func() { s.Events(ctx, c) })
	}
	err = c.Run(ctx)
	cancel()
	beside.Wait()
	return err
}

// look acknowledges what is in force whenever it changed without the adapter.
func (s *Session) look(ctx context.Context) {
	config := pb.NewConfigurationServiceClient(s.Conn)
	clock := time.NewTicker(s.Interval)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		req, now := s.Driver.look(ctx)
		if req == nil {
			continue
		}
		req.Acknowledgement.InstanceId = s.Instance
		s.Notify(now.news(s.Driver.o.Path))
		if _, err := config.AcknowledgeConfiguration(ctx, req); err == nil {
			s.Driver.reported(now)
		} else if ctx.Err() == nil {
			s.Notify(err)
		}
	}
}

// look is what was found in force.
type look struct {
	foreign bool         // the file is someone else's
	values  space.Values // nil if they cannot be read
	fault   string       // why
}

// news says what is other than the adapter left it.
func (l *look) news(path string) error {
	switch {
	case l.fault != "":
		return fmt.Errorf("what is in force cannot be read: %s", l.fault)
	case l.foreign:
		return fmt.Errorf("%w: %s; new configurations are not applied", ErrChanged, path)
	}
	return fmt.Errorf("in force is %v", l.values)
}

func (d *Driver) reported(l look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = l
}

// look returns an acknowledgement of what is in force if that is not what the service knows.
func (d *Driver) look(ctx context.Context) (*pb.AcknowledgeConfigurationRequest, look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.note.InForce
	if last == nil || d.note.Pending != nil || d.known.values == nil && d.known.fault == "" {
		return nil, look{} // nothing is in force, or not known to be since the start
	}
	var now look
	text, err := read(d.o.Path)
	if err == nil {
		now.foreign = !slices.Contains(d.note.Files, digest(text))
		now.values, err = d.readBack(ctx, last.Sent)
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
	if now.fault == "" && !maps.EqualFunc(now.values, last.Sent, space.Value.Equal) {
		ack.State, ack.Error = pb.Acknowledgement_PARTIALLY_APPLIED, now.news(d.o.Path).Error()
		if ack.EffectiveParameters, err = adapter.ToProto(now.values); err != nil {
			now.fault = err.Error()
		}
	}
	if now.fault != "" {
		ack.State, ack.Error, ack.EffectiveParameters = pb.Acknowledgement_FAILED, now.news(d.o.Path).Error(), nil
	}
	ack.Error = ack.Error[:min(len(ack.Error), 1000)]
	return &pb.AcknowledgeConfigurationRequest{Name: last.Name, ContentHash: last.ContentHash, Epoch: last.epoch(),
		Acknowledgement: ack}, now
}
