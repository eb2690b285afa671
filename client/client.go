// Package client connects a scheduler to the service: it sends events until they are
// stored, follows the configuration to run, and acknowledges it. It goes on by itself
// after lost connections, restarts and restores of the service.
//
// A scheduler calls [Client.Register] once, [Client.Run] in a goroutine, and
// [Client.Send] or [Client.Offer] for events; [Client.Report] for measurements
// of itself.
package client

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// ErrRefused is wrapped by errors of Options.Apply about values that the scheduler
// cannot take: the service parks them. After any other error the client applies the
// configuration again later.
var ErrRefused = errors.New("configuration refused")

// Options say which instance of which scheduler a client is.
type Options struct {
	// Conn is the connection to the service. Required.
	Conn grpc.ClientConnInterface
	// Scheduler is the id of the scheduler. Required.
	Scheduler string
	// Instance is the id of this instance; "" for the only one.
	Instance string
	// Apply puts a configuration into force. It returns the values in force where they
	// are known by id; nil means as sent. It is called for one configuration at a time,
	// and not again for the one in force. If nil, no configuration is followed.
	Apply func(ctx context.Context, c *pb.Configuration) (effective map[string]*structpb.Value, err error)
	// Paused is called when an operator paused tuning, and with nil when that is over, if Apply is set and Poll is
	// not. It must not block.
	Paused func(*pb.WatchConfigurationsResponse_Paused)
	// Poll asks for the configuration from time to time, as often as the service says,
	// in place of a watch.
	Poll bool
	// Snapshot returns a SNAPSHOT event of all active jobs. It is sent when the client
	// starts, after Offer dropped events, and after the service lost events in a restore:
	// it makes up for the lost events. Run calls it in a goroutine of its own.
	Snapshot func() *pb.Event
	// Heartbeat is how long nothing is sent before a HEARTBEAT event is; 0 for never.
	Heartbeat time.Duration
	// Now is the scheduler's time; time.Now if nil.
	Now func() time.Time
	// Buffer is how many events are held until they are stored; 100,000 if 0.
	Buffer int
	// Reports is how many reports are held until they are stored; 10,000 if 0.
	Reports int
	// Notify is called with faults, which are tried again: lost connections; events
	// and reports that the service rejected, as *RejectedError and *RejectedReportError;
	// and reports that were dropped, as *DroppedReportsError. It must not block.
	Notify func(error)
	// Random returns numbers from 0 to 1, which spread attempts and tell the events of clients of
	// one instance apart; numbers of math/rand if nil.
	Random func() float64
}

const defaultBuffer = 100_000

// Client is the connection of an instance to the service. Its methods may be called from
// several goroutines.
type Client struct {
	o       Options
	name    string
	tuning  pb.TuningServiceClient
	config  pb.ConfigurationServiceClient
	metrics pb.MetricServiceClient
	running sync.Mutex   // held by Run
	token   uint32       // in ids of the client's own events
	made    atomic.Int64 // their number

	events
	reports  reports
	revision atomic.Int64      // in force, 0 before one was applied
	inForce  *pb.Configuration // the last one applied
	lost     bool              // it is to be applied again
	paused   bool              // as Options.Paused last received
	reapply  chan struct{}     // says so
}

// New checks the options. It does not connect.
func New(o Options) (*Client, error) {
	switch {
	case o.Conn == nil:
		return nil, errors.New("client: Conn is missing")
	case o.Scheduler == "":
		return nil, errors.New("client: Scheduler is missing: the id of a scheduler")
	case o.Buffer < 0:
		return nil, fmt.Errorf("client: Buffer: %d is negative", o.Buffer)
	case o.Reports < 0:
		return nil, fmt.Errorf("client: Reports: %d is negative", o.Reports)
	case o.Heartbeat < 0:
		return nil, fmt.Errorf("client: Heartbeat: %v is negative", o.Heartbeat)
	}
	if o.Buffer == 0 {
		o.Buffer = defaultBuffer
	}
	if o.Reports == 0 {
		o.Reports = defaultReports
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(error) {}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	c := &Client{o: o, name: "schedulers/" + o.Scheduler, tuning: pb.NewTuningServiceClient(o.Conn),
		config: pb.NewConfigurationServiceClient(o.Conn), metrics: pb.NewMetricServiceClient(o.Conn)}
	c.token = uint32(o.Random() * math.MaxUint32)
	c.reapply = make(chan struct{}, 1)
	c.events = newEvents(o.Buffer, o.Snapshot != nil)
	c.reports = newReports(o.Reports)
	return c, nil
}

// Reapply has the configuration in force applied and acknowledged again: the scheduler lost it.
func (c *Client) Reapply() {
	select {
	case c.reapply <- struct{}{}:
	default:
	}
}

// Register creates the scheduler, or returns the one of this id that exists. It waits
// for a service that is away.
func (c *Client) Register(ctx context.Context, s *pb.Scheduler) (registered *pb.Scheduler, created bool, err error) {
	request := crand.Text() // the same in every attempt: the answer to one may have been lost
	err = c.persist(ctx, func() (err error) {
		registered, err = c.tuning.CreateScheduler(ctx,
			&pb.CreateSchedulerRequest{SchedulerId: c.o.Scheduler, Scheduler: s, RequestId: request})
		created = err == nil
		if status.Code(err) == codes.AlreadyExists {
			registered, err = c.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: c.name})
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("register %s: %w", c.name, err)
	}
	return registered, created, nil
}

// Run sends events and follows the configuration until the context ends, whose error it
// returns, or the service refuses the client for good: the scheduler is unknown or
// deleted, say, or the caller has no role for it. It can be called again; events that
// are not stored are kept.
func (c *Client) Run(ctx context.Context) error {
	if !c.running.TryLock() {
		return errors.New("client: Run is running already")
	}
	defer c.running.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loops := []func(context.Context) error{c.sendEvents, c.sendReports}
	if c.o.Apply != nil {
		loops = append(loops, c.follow)
	}
	ended := make(chan error, len(loops))
	for _, loop := range loops {
		go func() { ended <- loop(ctx) }()
	}
	err := <-ended
	cancel()
	for range len(loops) - 1 {
		<-ended
	}
	return err
}

// persist repeats a call while it fails for a time.
func (c *Client) persist(ctx context.Context, call func() error) error {
	retry := retrying{random: c.o.Random}
	for {
		err := call()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || !Transient(err) {
			return err
		}
		if !c.pause(ctx, &retry, err) {
			return ctx.Err()
		}
	}
}

// pause waits after a failure and reports whether the context has not ended.
func (c *Client) pause(ctx context.Context, b *retrying, err error) bool {
	d, news := b.delay(err)
	if news {
		c.o.Notify(err)
	}
	return sleep(ctx, d)
}
