package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/client"
)

// allStored checks that the service has every event once, and the client the answers.
func (s *service) allStored(c *client.Client, n int) {
	s.t.Helper()
	got := c.Counts()
	if events := s.scheduler().GetStatus().GetEventCount(); int(events) != n || got.Stored+got.Duplicate != n ||
		got.Waiting+got.Dropped+got.Late+got.Rejected != 0 {
		s.t.Errorf("the service has %d events of %d; the client counts %+v", events, n, got)
	}
}

// Connections break in the middle of requests and answers: nothing is lost or counted twice.
func TestConnectionsBreak(t *testing.T) {
	// A request of 2000 events has 80 kB.
	s := newService(t, rpc.DefaultLimits(), 30_000, 5_000, 100_000, 170_000, 3_000, 90_000, 200_000)
	c, _ := s.client(client.Options{})
	const n = 20_000
	for i := 0; i < n; i += 100 {
		if err := c.Send(within(t), submitted(i, i+100)...); err != nil {
			t.Fatal(err)
		}
	}
	send(t, c)
	s.allStored(c, n)
	if s.mu.Lock(); len(s.cuts) > 0 {
		t.Errorf("%d connections did not break", len(s.cuts))
	}
	s.mu.Unlock()
}

// The service stops in the middle of calls and starts again.
func TestServiceRestarts(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var a applied
	c, _ := s.client(client.Options{Apply: a.apply, Instance: "a"})
	const n = 6_000
	for i := 0; i < n; i += 500 {
		if err := c.Send(within(t), submitted(i, i+500)...); err != nil {
			t.Fatal(err)
		}
		if i%2000 == 1500 {
			eventually(t, "events under way", func() bool { return c.Counts().Waiting < 2000 })
			s.stop()
			s.start(false)
		}
	}
	send(t, c)
	s.allStored(c, n)
	send(t, c, at(time.Hour+n*time.Second))
	eventually(t, "a tuned configuration", func() bool {
		in := s.scheduler().GetStatus().GetInstances()
		return len(in) == 1 && in[0].GetCondition() == pb.InstanceStatus_IN_SYNC && len(a.seen()) > 1
	})
	for i, x := range a.seen()[1:] {
		if x.GetRevision() <= a.seen()[i].GetRevision() {
			t.Errorf("revision %d is applied after %d", x.GetRevision(), a.seen()[i].GetRevision())
		}
	}
}

// The service bounds the events per second, and then the events of a request: RESOURCE_EXHAUSTED.
func TestQuotas(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(*rpc.Limits)
		n         int
		exhausted bool
	}{
		{"events per second", func(l *rpc.Limits) { l.Events = 600 }, 2500, true},
		{"bytes of a request", func(l *rpc.Limits) { l.Message = 10_000 }, 2500, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := rpc.DefaultLimits()
			c.change(&limits)
			s := newService(t, limits)
			var mu sync.Mutex
			exhausted := 0
			o, _ := s.client(client.Options{Notify: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if status.Code(err) == codes.ResourceExhausted {
					exhausted++
				}
			}})
			send(t, o, submitted(0, c.n)...)
			s.allStored(o, c.n)
			mu.Lock()
			defer mu.Unlock()
			if (exhausted > 0) != c.exhausted {
				t.Errorf("%d notes of an exhausted quota", exhausted)
			}
		})
	}
}

// The store is restored from a copy: the configuration is applied anew, with the new epoch,
// and a snapshot makes up for the events that the copy lacks.
func TestRestoredStore(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var a applied
	snapshots := make(chan int, 9)
	taken := 0
	c, _ := s.client(client.Options{Apply: a.apply, Snapshot: func() *pb.Event {
		taken++
		snapshots <- taken
		return &pb.Event{EventId: fmt.Sprint("s", taken), Kind: pb.Event_SNAPSHOT,
			Snapshot: &pb.Snapshot{}, SchedulerTime: timestamppb.New(zero.Add(50 * time.Second))}
	}})
	send(t, c, submitted(0, 10)...)
	<-snapshots // of the start
	eventually(t, "the first configuration", func() bool { return len(a.seen()) == 1 })
	s.stop()
	backup := s.copy()
	s.start(false)
	send(t, c, submitted(10, 20)...)
	s.stop()
	s.dir = backup
	s.start(true)
	eventually(t, "the configuration of the new epoch", func() bool { return len(a.seen()) == 2 })
	<-snapshots
	send(t, c, submitted(20, 30)...)
	if n := s.scheduler().GetStatus().GetEventCount(); n != 10+1+1+10 {
		t.Errorf("%d events in the restored store", n)
	}
	before, after := a.seen()[0], a.seen()[1]
	if before.GetRevision() != after.GetRevision() || before.GetEpoch().GetCounter() >= after.GetEpoch().GetCounter() {
		t.Errorf("revision %d of epoch %v, then %d of %v", before.GetRevision(), before.GetEpoch(), after.GetRevision(),
			after.GetEpoch())
	}
	eventually(t, "an acknowledgement", func() bool {
		in := s.scheduler().GetStatus().GetInstances()
		return len(in) == 1 && in[0].GetCondition() == pb.InstanceStatus_IN_SYNC
	})
}

// A store and its restored copy run at once: each refuses the events of a writer of the other (N19). The client sends
// what was refused to the later one, with a snapshot, and nothing to the older one.
func TestEventsAreOfAnEpoch(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var old client.Options
	stopped := make(chan error, 99)
	old.Notify = func(err error) { stopped <- err }
	old.Snapshot = func() *pb.Event {
		return &pb.Event{Kind: pb.Event_SNAPSHOT, Snapshot: &pb.Snapshot{}, SchedulerTime: timestamppb.New(zero)}
	}
	var a applied
	old.Apply = a.apply
	c, _ := s.client(old)
	send(t, c, submitted(0, 10)...)
	before := s.scheduler().GetEpoch()
	stored := func() int64 { return s.scheduler().GetStatus().GetEventCount() }
	s.stop()
	older, later := s.dir, s.copy()
	s.dir = later
	s.start(true)
	send(t, c, submitted(10, 20)...) // with the new epoch, after one refusal
	if now := s.scheduler().GetEpoch(); now.GetCounter() <= before.GetCounter() || stored() < 20 {
		t.Errorf("epoch %v after %v, %d events", now, before, stored())
	}
	s.stop()
	for len(stopped) > 0 {
		<-stopped
	}
	s.dir = older
	s.start(false)
	n := stored()
	if err := c.Send(within(t), submitted(20, 30)...); err != nil {
		t.Fatal(err)
	}
	for err := range stopped {
		if client.Reason(err) == "EPOCH_MISMATCH" {
			break
		}
	}
	if c.Counts().Waiting < 10 || stored() != n {
		t.Errorf("the older copy has %d events after %d, %d wait", stored(), n, c.Counts().Waiting)
	}
	s.stop()
	s.dir = later
	s.start(false)
	if err := c.Flush(within(t)); err != nil || c.Counts().Dropped+c.Counts().Rejected > 0 {
		t.Errorf("%+v, %v", c.Counts(), err)
	}
}

// offering is a service that offers configurations, each after the client's answer to the one
// before.
type offering struct {
	pb.UnimplementedTuningServiceServer
	pb.UnimplementedConfigurationServiceServer
	offers []*pb.Configuration
	done   chan struct{}
	acks   chan *pb.AcknowledgeConfigurationRequest
}

func (o *offering) WatchConfigurations(_ *pb.WatchConfigurationsRequest,
	stream pb.ConfigurationService_WatchConfigurationsServer) error {
	for _, c := range o.offers {
		if err := stream.Send(&pb.WatchConfigurationsResponse{
			Event: &pb.WatchConfigurationsResponse_Configuration{Configuration: c}}); err != nil {
			return err
		}
		select {
		case <-o.done:
		case <-stream.Context().Done():
			return nil
		}
	}
	<-stream.Context().Done()
	return nil
}

func (o *offering) AcknowledgeConfiguration(_ context.Context,
	req *pb.AcknowledgeConfigurationRequest) (*pb.AcknowledgeConfigurationResponse, error) {
	o.acks <- req
	return &pb.AcknowledgeConfigurationResponse{}, nil
}

// A configuration of an older epoch is not applied, whatever its revision; one of a later epoch is,
// even if the revision is in force.
func TestOlderEpoch(t *testing.T) {
	of := func(revision, epoch int64) *pb.Configuration {
		return &pb.Configuration{Name: "c", Revision: revision, ContentHash: "h",
			Epoch: &pb.Epoch{Id: fmt.Sprint("epoch", epoch), Counter: epoch}}
	}
	fake := &offering{offers: []*pb.Configuration{of(7, 2), of(9, 1), of(7, 2), of(7, 3)}, done: make(chan struct{}),
		acks: make(chan *pb.AcknowledgeConfigurationRequest, 9)}
	conn := serveFake(t, func(s *grpc.Server) {
		pb.RegisterConfigurationServiceServer(s, fake)
		pb.RegisterTuningServiceServer(s, fake)
	})
	var a applied
	notes := make(chan error, 9)
	c, err := client.New(client.Options{Conn: conn, Scheduler: "prod", Apply: a.apply,
		Notify: func(err error) { notes <- err }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-fake.acks
	fake.done <- struct{}{}
	if err := <-notes; !strings.Contains(err.Error(), "epoch 1 of the store, before 2") {
		t.Error(err)
	}
	fake.done <- struct{}{} // the one in force, again
	fake.done <- struct{}{}
	if ack := <-fake.acks; ack.GetEpoch().GetCounter() != 3 || ack.GetContentHash() != "h" {
		t.Errorf("acknowledged %v", ack)
	}
	if n := len(a.seen()); n != 2 {
		t.Errorf("%d configurations are applied, want those of epochs 2 and 3", n)
	}
}

// Outcomes of Apply and the service's view of them.
func TestAcknowledgements(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var a applied
	failures := 2
	a.outcome = func(c *pb.Configuration) (map[string]*structpb.Value, error) {
		switch {
		case c.GetRevision() == 1 && failures > 0:
			failures--
			return nil, errors.New("the disk is full")
		case c.GetRevision() == 2:
			return nil, fmt.Errorf("two queues are too few: %w", client.ErrRefused)
		case c.GetRevision() > 3:
			return map[string]*structpb.Value{"pack": structpb.NewBoolValue(true), "unknown": nil,
				"queues": c.GetParameters()["queues"]}, nil
		}
		return nil, nil
	}
	c, _ := s.client(client.Options{Apply: a.apply, Instance: "x", Now: func() time.Time { return zero }})
	instance := func(state pb.Acknowledgement_State, revision int64) {
		t.Helper()
		eventually(t, fmt.Sprint(state, revision), func() bool {
			got, err := pb.NewConfigurationServiceClient(s.conn).GetConfiguration(t.Context(),
				&pb.GetConfigurationRequest{Name: fmt.Sprintf("schedulers/prod/configurations/%d", revision)})
			if err != nil {
				return false
			}
			ack := got.GetAcknowledgement()
			ok := ack.GetState() == state && ack.GetInstanceId() == "x"
			if ok && state == pb.Acknowledgement_PARTIALLY_APPLIED {
				want := map[string]*structpb.Value{"pack": structpb.NewBoolValue(true)}
				ok = len(ack.GetEffectiveParameters()) == 1 && proto.Equal(ack.GetEffectiveParameters()["pack"],
					want["pack"])
			}
			return ok
		})
	}
	instance(pb.Acknowledgement_APPLIED, 1) // at the third attempt
	if n := len(a.seen()); n != 3 {
		t.Errorf("revision 1 was applied %d times, want 3", n)
	}
	send(t, c, at(0), at(time.Hour))
	instance(pb.Acknowledgement_REJECTED, 2)
	instance(pb.Acknowledgement_APPLIED, 3) // the values of revision 1
	send(t, c, at(2*time.Hour))
	instance(pb.Acknowledgement_PARTIALLY_APPLIED, 4)
}

// A poller applies the same as a watcher.
func TestPoll(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var a applied
	c, stop := s.client(client.Options{Apply: a.apply, Poll: true})
	eventually(t, "the first configuration", func() bool { return len(a.seen()) == 1 })
	send(t, c, at(0), at(time.Hour))
	eventually(t, "the second configuration", func() bool { return len(a.seen()) == 2 })
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A permanent fault ends Run, and its error names it.
func TestRunEnds(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	c, stop := s.client(client.Options{Apply: (&applied{}).apply})
	send(t, c, at(0))
	if _, err := pb.NewTuningServiceClient(s.conn).DeleteScheduler(t.Context(),
		&pb.DeleteSchedulerRequest{Name: "schedulers/prod"}); err != nil {
		t.Fatal(err)
	}
	unknown, err := client.New(client.Options{Conn: s.conn, Scheduler: "none", Apply: (&applied{}).apply})
	if err != nil {
		t.Fatal(err)
	}
	if err := unknown.Run(within(t)); status.Code(err) != codes.NotFound {
		t.Errorf("unknown scheduler: %v", err)
	}
	gone, err := client.New(client.Options{Conn: s.conn, Scheduler: "prod", Apply: (&applied{}).apply})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Run(within(t)); status.Code(err) != codes.FailedPrecondition || client.Reason(err) != "DELETED" {
		t.Errorf("deleted scheduler: %v", err)
	}
	_ = stop()
}

// An event that makes no sense is reported; the others are stored.
func TestRejectedEvents(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	notes := make(chan error, 9)
	c, _ := s.client(client.Options{Notify: func(err error) { notes <- err }})
	bad := submitted(1, 2)[0]
	bad.Job.JobId = ""
	send(t, c, submitted(0, 1)[0], bad, submitted(2, 3)[0])
	var rejected *client.RejectedError
	if err := <-notes; !errors.As(err, &rejected) || rejected.EventId != "e1" {
		t.Error(err)
	}
	if got := c.Counts(); got.Stored != 2 || got.Rejected != 1 {
		t.Errorf("%+v", got)
	}
}

// An instance starts again at the instant at which it ended, as the clock is coarse, and has other jobs: its
// snapshots count, each once.
func TestRestartAtTheSameInstant(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	for life := range 3 {
		c, stop := s.client(client.Options{Instance: "a", Snapshot: func() *pb.Event {
			return &pb.Event{Kind: pb.Event_SNAPSHOT, SchedulerTime: timestamppb.New(zero), Snapshot: &pb.Snapshot{
				Jobs: []*pb.ActiveJob{{SubmitTime: timestamppb.New(zero), Job: &pb.JobDetails{
					JobId: fmt.Sprint("j", life/2), MilliGpus: 1000, User: "u", Key: "k"}}}}}
		}})
		for n := range 2 {
			eventually(t, "the answer to a snapshot", func() bool {
				got := c.Counts()
				return got.Stored+got.Duplicate+got.Rejected == n+1
			})
			if n == 0 {
				c.Resync()
			}
		}
		_ = stop()
		if got, n := c.Counts(), s.scheduler().GetStatus().GetEventCount(); got.Stored != 2 || int(n) != 2*(life+1) {
			t.Errorf("client %d: %+v; the service has %d events", life, got, n)
		}
	}
}

// A client reports when tuning is paused and resumed, also if its watch was cut when that happened.
func TestPaused(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	reported := make(chan bool, 9)
	_, _ = s.client(client.Options{Apply: (&applied{}).apply,
		Paused: func(p *pb.WatchConfigurationsResponse_Paused) { reported <- p != nil }})
	pause := func(paused bool) {
		t.Helper()
		tuning := pb.NewTuningServiceClient(s.conn)
		answered(t, func(ctx context.Context) (*pb.Scheduler, error) {
			if paused {
				return tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: "schedulers/prod"})
			}
			return tuning.ResumeTuning(ctx, &pb.ResumeTuningRequest{Name: "schedulers/prod"})
		})
		select {
		case got := <-reported:
			if got != paused {
				t.Errorf("reported paused %v, want %v", got, paused)
			}
		case <-within(t).Done():
			t.Fatalf("not reported paused %v", paused)
		}
	}
	pause(true)
	pause(false)
	pause(true)
	s.stop()
	s.start(false)
	pause(false)
	if len(reported) > 0 {
		t.Errorf("reported again: %v", <-reported)
	}
}

// serveFake connects to a server of the registered services.
func serveFake(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := client.Endpoint{Address: l.Addr().String()}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		<-served
	})
	return conn
}

// slow is a service that answers requests of events on command.
type slow struct {
	pb.UnimplementedTuningServiceServer
	answer   chan struct{}
	mu       sync.Mutex
	requests int
	events   []*pb.Event
}

func (s *slow) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		s.mu.Lock()
		s.requests++
		s.events = append(s.events, req.GetEvents()...)
		s.mu.Unlock()
		select {
		case <-s.answer:
		case <-stream.Context().Done():
			return nil
		}
		if err := stream.Send(&pb.IngestEventsResponse{Sequence: req.GetSequence(),
			AcceptedCount: int32(len(req.GetEvents()))}); err != nil {
			return err
		}
	}
}

// A service that answers slowly bounds the client's buffer: Send waits, Offer drops and has a
// snapshot sent, and heartbeats do not pile up.
func TestSlowService(t *testing.T) {
	fake := &slow{answer: make(chan struct{})}
	conn := serveFake(t, func(s *grpc.Server) { pb.RegisterTuningServiceServer(s, fake) })
	snapshots := 0
	c, err := client.New(client.Options{Conn: conn, Scheduler: "prod", Buffer: 100, Heartbeat: time.Millisecond,
		Now: func() time.Time { return zero },
		Snapshot: func() *pb.Event {
			snapshots++
			return &pb.Event{EventId: fmt.Sprint("s", snapshots), Kind: pb.Event_SNAPSHOT, Snapshot: &pb.Snapshot{}}
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	fake.answer <- struct{}{} // the first snapshot
	eventually(t, "its answer", func() bool { return c.Counts().Stored == 1 })
	short, stop := context.WithCancel(t.Context())
	sent := make(chan error)
	go func() { sent <- c.Send(short, submitted(0, 200)...) }()
	eventually(t, "a full buffer", func() bool { return c.Counts().Waiting >= 100 })
	stop()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("Send into a full buffer: %v", err)
	}
	if got := c.Counts(); got.Waiting < 100 || got.Waiting > 101 { // and a heartbeat
		t.Errorf("%+v", got)
	}
	if c.Offer(submitted(200, 203)...) {
		t.Error("Offer into a full buffer")
	}
	if got := c.Counts(); got.Dropped != 3 {
		t.Errorf("%+v", got)
	}
	close(fake.answer)
	eventually(t, "a second snapshot", func() bool {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		for _, e := range fake.events {
			if e.GetEventId() == "s2" {
				return true
			}
		}
		return false
	})
	eventually(t, "a heartbeat", func() bool {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return fake.events[len(fake.events)-1].GetKind() == pb.Event_HEARTBEAT
	})
}

func TestBadOptions(t *testing.T) {
	s := &service{}
	for _, o := range []client.Options{{}, {Conn: s.conn}, {Conn: s.conn, Scheduler: "x", Buffer: -1},
		{Conn: s.conn, Scheduler: "x", Heartbeat: -1}} {
		if _, err := client.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
