package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// Instance is an instance of the emulated scheduler with its counts.
type Instance struct {
	ID      string `json:"instance_id"`
	Applied int    `json:"applied"`
	Partial int    `json:"partially_applied"`
	Refused int    `json:"refused"`
	Lies    int    `json:"lies"`
	Hangs   int    `json:"hangs"`
	Crashes int    `json:"crashes"`
}

// instance is a running one.
type instance struct {
	agent *agent
	first bool

	mu      sync.Mutex // guards the following
	client  *client.Client
	crash   context.CancelFunc // of this life; nil while it is down
	called  *called            // nil for one that follows the configuration itself
	address string             // of called
	file    *configured        // nil for one without a file
	counted int                // events answered in former lives
	former  space.Config       // the values it reports; zero at the start of a life
	chance  *chance
	Instance
}

// InstanceID is the id of an instance, from 0 on.
func InstanceID(n int) string {
	if n == 0 {
		return "emulated"
	}
	return fmt.Sprint("emulated-", n+1)
}

func (a *agent) newInstance(n int) *instance {
	i := &instance{agent: a, first: n == 0, chance: a.o.Faults.chance(uint64(n) + 1)}
	i.ID = InstanceID(n)
	if len(a.o.Addresses) > 0 {
		i.called, i.address = &called{i: i}, a.o.Addresses[n]
	}
	if a.o.File != nil {
		i.file = i.configuredBy(a.o.File, n)
	}
	return i
}

// run is an instance's lives: it begins a new one after each crash.
func (i *instance) run(ctx context.Context) error {
	for {
		life, crash := context.WithCancel(ctx)
		err := i.live(ctx, life, crash)
		crashed := life.Err() != nil && ctx.Err() == nil
		crash()
		if !crashed {
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("emulate: %w", err)
			}
			return err
		}
		i.agent.o.Notify(fmt.Errorf("%s crashed and starts again", i.ID))
		if err := i.pass(ctx, downTime); err != nil {
			return err
		}
	}
}

// live is one life, until it crashes or the context ends.
func (i *instance) live(ctx, life context.Context, crash context.CancelFunc) error {
	if i.called != nil {
		i.begin(nil, crash)
		defer i.end()
		return i.called.serve(ctx, life, i.address)
	}
	o := client.Options{Conn: i.agent.o.Conn, Scheduler: i.agent.o.ID, Instance: i.ID, Apply: i.apply,
		Now: i.agent.now, Notify: i.notify}
	if i.file != nil {
		o.Apply = nil
	}
	if i.first {
		o.Snapshot, o.Paused = i.agent.snapshot, i.agent.paused
	}
	c, err := client.New(o)
	if err != nil {
		return err
	}
	i.begin(c, crash)
	defer i.end()
	if i.file == nil {
		return c.Run(life)
	}
	if err := i.file.begin(life); err != nil {
		return err
	}
	following, stop := context.WithCancel(life)
	var beside sync.WaitGroup
	beside.Go(func() { i.file.follow(following) })
	defer beside.Wait()
	defer stop()
	return c.Run(life)
}

func (i *instance) begin(c *client.Client, crash context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client, i.crash, i.former = c, crash, space.Config{}
}

func (i *instance) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client != nil {
		i.counted += answeredOf(i.client.Counts())
	}
	i.client, i.crash = nil, nil
}

// downTime is how long an instance is down after a crash, and hangTime how long one hangs, in emulated
// time.
const (
	downTime = 10 * time.Minute
	hangTime = 6 * time.Hour
)

// pass waits for emulated time.
func (i *instance) pass(ctx context.Context, d time.Duration) error {
	client.Sleep(ctx, time.Duration(float64(d)/i.agent.o.Speedup))
	return ctx.Err()
}

// notify ends the emulation where the service rejects an event: its own mistake.
func (i *instance) notify(err error) {
	i.agent.o.Notify(err)
	if rejected := (*client.RejectedError)(nil); errors.As(err, &rejected) {
		i.agent.mu.Lock()
		defer i.agent.mu.Unlock()
		i.agent.fault = fmt.Errorf("emulate: %w", err)
	}
}

// apply puts an offered configuration into force, or has a fault.
func (i *instance) apply(ctx context.Context, offer *pb.Configuration) (map[string]*structpb.Value, error) {
	c, err := i.agent.read(offer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, client.ErrRefused)
	}
	said, err := i.put(ctx, fmt.Sprint("revision ", offer.GetRevision()), c, offer)
	if err != nil || said.Equal(c) {
		return nil, err
	}
	var effective structpb.Struct
	if err := effective.UnmarshalJSON([]byte(said.Canonical())); err != nil {
		return nil, err
	}
	return effective.Fields, nil
}

// put puts a configuration into force, or has a fault, and returns the values that the instance reports.
// The first one of a life is put as it is: there is none to keep. The offer is nil for one of a file.
func (i *instance) put(ctx context.Context, what string, c space.Config, offer *pb.Configuration) (
	space.Config, error) {
	f, a := i.agent.o.Faults, i.agent
	i.mu.Lock()
	former := i.former
	draw := func(p float64, count *int, does string) bool {
		if former.IsZero() || !i.chance.happens(p) {
			return false
		}
		*count++
		a.o.Notify(fmt.Errorf("%s %s %s", i.ID, does, what))
		return true
	}
	refuse := draw(f.Refuse, &i.Refused, "refuses")
	hang := !refuse && draw(f.Hang, &i.Hangs, "hangs at")
	lie := !refuse && draw(f.Lie, &i.Lies, "says that it runs, and does not,")
	crash := !refuse && draw(f.Crash, &i.Crashes, "crashes at")
	partial := !refuse && !lie && !former.IsZero() && i.chance.happens(f.Partial)
	lag := time.Duration(i.chance.float() * float64(f.Lag))
	i.mu.Unlock()
	if hang {
		lag += hangTime
	}
	if lag > 0 && !former.IsZero() {
		if err := i.pass(ctx, lag); err != nil {
			return c, err
		}
	}
	if refuse {
		return c, fmt.Errorf("an emulated fault: %w", client.ErrRefused)
	}
	if partial {
		if mixed := keepOne(former, c); !mixed.Equal(c) {
			c = mixed
			i.mu.Lock()
			i.Partial++
			i.mu.Unlock()
			a.o.Notify(fmt.Errorf("%s applies %s in part", i.ID, what))
		}
	}
	if i.first && !lie {
		if err := a.reconfigure(c); err != nil {
			return c, err
		}
	}
	if crash {
		i.mu.Lock()
		i.crash()
		i.mu.Unlock()
		return c, ctx.Err()
	}
	i.mu.Lock()
	i.Applied++
	i.former = c
	i.mu.Unlock()
	if i.first {
		a.applied(offer, c)
	}
	return c, nil
}

// keepOne is a configuration with one parameter as it was, or as it is if no such configuration is one of the space.
func keepOne(former, c space.Config) space.Config {
	for _, id := range slices.Sorted(slices.Values(former.IDs())) {
		if v := c.Get(id); v.IsZero() || v.Equal(former.Get(id)) {
			continue
		}
		mixed := c.With(id, former.Get(id))
		if _, err := c.Space().ParseJSON([]byte(mixed.Canonical())); err == nil {
			return mixed
		}
	}
	return c
}

// send sends events of the cluster; the events of an instance that is down are lost with it, unless it is called.
func (i *instance) send(ctx context.Context, events []*pb.Event) error {
	i.mu.Lock()
	c := i.client
	i.mu.Unlock()
	switch {
	case len(events) == 0:
		return nil
	case i.called != nil:
		i.agent.feed.add(events)
		return nil
	case c == nil:
		return nil
	}
	return c.Send(ctx, events...)
}

// up reports whether the instance is not down after a crash.
func (i *instance) up() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.crash != nil
}

func (i *instance) waiting() int {
	if i.called != nil {
		_, n := i.agent.feed.counts()
		return n
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil {
		return 0
	}
	return i.client.Counts().Waiting
}

// answered is how many events the service has answered, or received of an instance that is called.
func (i *instance) answered() int {
	if i.called != nil {
		n, _ := i.agent.feed.counts()
		return n
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	n := i.counted
	if i.client != nil {
		n += answeredOf(i.client.Counts())
	}
	return n
}

func answeredOf(c client.Counts) int { return c.Stored + c.Duplicate + c.Late + c.Rejected }

// Faults are the faults of an emulated scheduler, with the probability of each for a
// configuration. The first configuration of an instance is applied as it should be.
type Faults struct {
	Refuse  float64 // refuses it
	Partial float64 // keeps the former value of one parameter, and says so
	Lie     float64 // says that it runs it, and goes on as before
	Hang    float64 // does nothing for six hours of emulated time
	Crash   float64 // ends after it applied it and before it says so, and starts ten minutes later
	Lose    float64 // of an event: it is never sent; a snapshot follows within an hour
	// Lag is the longest emulated time before a configuration is applied.
	Lag  time.Duration
	Seed uint64
}

// Check finds probabilities and times that make no sense.
func (f *Faults) Check() error {
	for name, p := range map[string]float64{"refuse": f.Refuse, "partial": f.Partial, "lie": f.Lie, "hang": f.Hang,
		"crash": f.Crash, "lose": f.Lose} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s: %v is not from 0 to 1", name, p)
		}
	}
	if f.Lag < 0 {
		return fmt.Errorf("lag: %v is negative", f.Lag)
	}
	return nil
}

// chance draws faults. Instances have one each, so that they do not depend on each other.
type chance struct{ r *rand.Rand }

func (f *Faults) chance(of uint64) *chance { return &chance{rand.New(rand.NewPCG(f.Seed, of))} }

// happens draws with a probability.
func (c *chance) happens(p float64) bool { return p > 0 && c.r.Float64() < p }

// float is from 0 to 1.
func (c *chance) float() float64 { return c.r.Float64() }

// called is an instance that the service calls, through its lives.
type called struct {
	pb.UnimplementedSchedulerAgentServer
	i *instance

	applying sync.Mutex // one configuration at a time
	mu       sync.Mutex // guards the following
	life     context.Context
	inForce  *pb.Configuration // that it says it runs; nil at the start of a life
	values   map[string]*structpb.Value
	epoch    int64 // counter of the last one applied, which it remembers after a crash
}

// lastSend bounds the events sent to the service once the emulation ends.
const lastSend = 5 * time.Second

// serve is a life of an instance that is called: it answers until the life ends, which is a crash if the context
// does not.
func (c *called) serve(ctx, life context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(life, "tcp", address)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.life, c.inForce, c.values = life, nil, nil
	c.mu.Unlock()
	s := grpc.NewServer(grpc.WaitForHandlers(true))
	pb.RegisterSchedulerAgentServer(s, c)
	stopped := make(chan struct{})
	context.AfterFunc(life, func() {
		defer close(stopped)
		if ctx.Err() == nil {
			s.Stop()
			return
		}
		defer time.AfterFunc(lastSend, s.Stop).Stop()
		s.GracefulStop()
	})
	if err := s.Serve(l); err != nil && life.Err() == nil {
		return err
	}
	<-stopped
	return life.Err()
}

// ApplyConfiguration implements SchedulerAgent.
func (c *called) ApplyConfiguration(ctx context.Context, req *pb.ApplyConfigurationRequest) (
	*pb.ApplyConfigurationResponse, error) {
	offer := req.GetConfiguration()
	if offer == nil {
		return nil, status.Error(codes.InvalidArgument, "configuration: is missing")
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	c.mu.Lock()
	life, now, epoch := c.life, c.inForce, c.epoch
	values := c.values
	c.mu.Unlock()
	answer := func(err error) (*pb.ApplyConfigurationResponse, error) {
		return &pb.ApplyConfigurationResponse{Acknowledgement: client.Outcome(offer, values, err)}, nil
	}
	switch {
	case offer.GetEpoch().GetCounter() < epoch:
		return answer(fmt.Errorf("%s is of epoch %d of the store, before %d: an old copy of "+
			"the store is served", offer.GetName(), offer.GetEpoch().GetCounter(), epoch))
	case now != nil && now.GetRevision() == offer.GetRevision() && proto.Equal(now.GetEpoch(), offer.GetEpoch()):
		return answer(nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	effective, err := c.i.apply(ctx, offer)
	switch {
	case life.Err() != nil:
		return nil, status.Error(codes.Unavailable, "the scheduler crashed")
	case err != nil && ctx.Err() != nil && !errors.Is(err, client.ErrRefused):
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return answer(err)
	}
	if values = effective; values == nil {
		values = offer.GetParameters()
	}
	c.mu.Lock()
	c.inForce, c.values, c.epoch = offer, values, offer.GetEpoch().GetCounter()
	c.mu.Unlock()
	return answer(nil)
}

// DescribeParameters implements SchedulerAgent.
func (c *called) DescribeParameters(context.Context, *pb.DescribeParametersRequest) (
	*pb.DescribeParametersResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inForce == nil {
		return nil, status.Error(codes.FailedPrecondition, "nothing was applied since the start")
	}
	return &pb.DescribeParametersResponse{Parameters: c.values, Revision: c.inForce.GetRevision()}, nil
}

// StreamEvents implements SchedulerAgent. The first instance has the events.
func (c *called) StreamEvents(req *pb.StreamEventsRequest, stream pb.SchedulerAgent_StreamEventsServer) error {
	if !c.i.first {
		return status.Error(codes.Unimplemented, "another instance has the events")
	}
	c.mu.Lock()
	life := c.life
	c.mu.Unlock()
	a, next := c.i.agent, 0
	if token := req.GetResumeToken(); token != "" {
		var err error
		if next, err = strconv.Atoi(token); err != nil || next < 0 {
			return status.Errorf(codes.InvalidArgument, "resume_token: %.64q is not one of this scheduler", token)
		}
	}
	for {
		events, to, more := a.eventsFrom(next)
		if len(events) > 0 {
			if err := stream.Send(&pb.StreamEventsResponse{Events: events, ResumeToken: strconv.Itoa(to)}); err != nil {
				return err
			}
			next = to
			a.feed.sentTo(to)
			continue
		}
		select {
		case <-life.Done():
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-more:
		}
	}
}

const (
	maxKept  = 80_000
	maxBatch = 2000
)

// feed is the events of a scheduler that is called. The latest are kept, as a stream may resume.
type feed struct {
	mu     sync.Mutex
	events []*pb.Event
	from   int           // number of the first one kept
	sent   int           // number up to which a stream had them
	more   chan struct{} // closed and replaced when there are more
}

func (f *feed) add(events []*pb.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, events...)
	if drop := len(f.events) - maxKept; drop > maxKept/4 {
		f.events = slices.Clone(f.events[drop:])
		f.from += drop
	}
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) sentTo(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = max(f.sent, n)
}

// counts are how many events a stream had, and how many wait for one.
func (f *feed) counts() (sent, waiting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent, f.from + len(f.events) - f.sent
}

// eventsFrom is the events from a number on, at most a response's, the number after them, and a channel that is closed
// when there are more. A snapshot stands for all where some are dropped, or the number is one of a former run.
func (a *agent) eventsFrom(next int) (events []*pb.Event, to int, more <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &a.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if end := f.from + len(f.events); next < f.from || next > end {
		e := a.taken()
		e.EventId = fmt.Sprint("snapshot-", a.at.Nanoseconds(), "-", end)
		return []*pb.Event{e}, end, f.more
	}
	events = f.events[next-f.from:]
	n := min(len(events), maxBatch)
	return events[:n:n], next + n, f.more
}
