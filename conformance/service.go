package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// service is the scripted service, with the client's actions.
type service struct {
	pb.UnimplementedTuningServiceServer
	o   *Options
	rng *rand.Rand

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	streams int           // counts up when streams are cut
	away    bool          // every call is answered with UNAVAILABLE

	request     *pb.CreateSchedulerRequest // of the registered scheduler
	space       *space.Space
	epoch       *pb.Epoch
	offer       *pb.Configuration   // for the client to run
	offers      []*pb.Configuration // all of them
	failAck     bool                // the next acknowledgement is answered with UNAVAILABLE
	holdAck     bool                // acknowledgements are not answered
	holdEvents  bool                // events are not answered
	registering error               // why a registration was refused

	follows []follow
	sent    int // configurations sent to the client
	acks    []*pb.AcknowledgeConfigurationRequest
	batches []*pb.IngestEventsRequest // of all streams
	faults  []string                  // of the protocol of event streams
}

// follow is a watch or poll of the client.
type follow struct {
	poll, initial, token bool
	etag                 string
	instance             string
	stream               int // service.streams then
}

func newService(o *Options) (*service, error) {
	s := &service{o: o, rng: rand.New(rand.NewPCG(1, 1)), changed: make(chan struct{}),
		epoch: &pb.Epoch{Id: "first", Counter: 1}}
	if o.Registered != nil {
		if err := s.register(o.Registered); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// note wakes all that wait for a change. The caller holds the lock.
func (s *service) note() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *service) register(req *pb.CreateSchedulerRequest) error {
	sp, err := s.o.Space(req)
	if err != nil {
		return err
	}
	s.request, s.space = req, sp
	s.publish(sp.Default(), 1)
	return nil
}

// publish offers a configuration. The caller holds the lock.
func (s *service) publish(c space.Config, revision int64) *pb.Configuration {
	parameters, err := adapter.ToProto(native.ValuesOf(c))
	if err != nil {
		panic("conformance: " + err.Error())
	}
	return s.put(parameters, c.Hash(), revision)
}

func (s *service) put(parameters map[string]*structpb.Value, hash string, revision int64) *pb.Configuration {
	s.offer = &pb.Configuration{Name: fmt.Sprintf("%s/configurations/%d", s.name(), revision), Revision: revision,
		State: pb.Configuration_PUBLISHED, Parameters: parameters, ContentHash: hash, Epoch: s.epoch,
		Etag: fmt.Sprintf("%s-%d", s.epoch.GetId(), revision), Reason: "a check"}
	s.offers = append(s.offers, s.offer)
	s.note()
	return s.offer
}

// another is a configuration of the space that is not on offer.
func (s *service) another() space.Config {
	x := make([]float64, s.space.Dims())
	for {
		for i := range x {
			x[i] = s.rng.Float64()
		}
		if c := s.space.Decode(x); c.Hash() != s.offer.GetContentHash() {
			return c
		}
	}
}

// next offers another configuration under the next revision.
func (s *service) next() *pb.Configuration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publish(s.another(), s.offer.GetRevision()+1)
}

func (s *service) name() string { return "schedulers/" + s.request.GetSchedulerId() }

// set changes how the service behaves.
func (s *service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.note()
}

// end lets nothing wait any more.
func (s *service) end() {
	s.set(func() { s.streams, s.away, s.holdAck, s.holdEvents = s.streams+1, true, false, false })
}

var errAway = status.Error(codes.Unavailable, "the service is away, as the check wants it")

func reasoned(code codes.Code, reason string) error {
	st, err := status.New(code, reason).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: pb.ErrorDomain})
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return st.Err()
}

// known checks that a call is about the scheduler. The caller holds the lock.
func (s *service) known(name string) error {
	switch {
	case s.away:
		return errAway
	case s.request == nil || name != s.name():
		return status.Errorf(codes.NotFound, "%s is not registered", name)
	}
	return nil
}

// CreateScheduler registers the first scheduler that it gets.
func (s *service) CreateScheduler(_ context.Context, req *pb.CreateSchedulerRequest) (*pb.Scheduler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.away:
		return nil, errAway
	case s.request != nil:
		return nil, status.Errorf(codes.AlreadyExists, "%s is registered", s.name())
	}
	if err := s.register(req); err != nil {
		s.registering = err
		s.note()
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.registering = nil
	return s.scheduler(), nil
}

func (s *service) scheduler() *pb.Scheduler {
	out := proto.CloneOf(s.request.GetScheduler())
	out.Name, out.Status = s.name(), &pb.SchedulerStatus{}
	for _, b := range s.batches {
		out.Status.EventCount += int64(len(b.GetEvents()))
	}
	return out
}

// GetScheduler returns the registered scheduler.
func (s *service) GetScheduler(_ context.Context, req *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.known(req.GetName()); err != nil {
		return nil, err
	}
	return s.scheduler(), nil
}

// IngestEvents takes events and remembers them. A stream with events that are not answered fails when it is cut, also
// if the client has no more to send.
func (s *service) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	s.mu.Lock()
	began := s.streams
	s.mu.Unlock()
	got := make(chan *pb.IngestEventsRequest)
	failed := make(chan error, 1)
	ctx := stream.Context()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case got <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	var held []*pb.IngestEventsRequest // in the order of their answers
	ended := false                     // the client has no more to send
	for first := true; ; first = false {
		var m *pb.IngestEventsRequest
		for m == nil {
			s.mu.Lock()
			over, hold, changed := s.streams != began || s.away, s.holdEvents, s.changed
			s.mu.Unlock()
			if over {
				return errAway
			}
			for ; len(held) > 0 && !hold; held = held[1:] {
				if err := stream.Send(&pb.IngestEventsResponse{Sequence: held[0].GetSequence(),
					AcceptedCount: int32(len(held[0].GetEvents()))}); err != nil {
					return err
				}
			}
			if ended && len(held) == 0 {
				return nil
			}
			select {
			case m = <-got:
			case err := <-failed:
				if ended = true; !errors.Is(err, io.EOF) {
					return nil
				}
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
		s.mu.Lock()
		if m.GetParent() != s.name() && (first || m.GetParent() != "") {
			s.faults = append(s.faults, fmt.Sprintf("a request of an event stream has parent %q", m.GetParent()))
		}
		s.batches = append(s.batches, m)
		s.note()
		s.mu.Unlock()
		held = append(held, m)
	}
}

// configurations is the part of the service that schedulers follow.
type configurations struct {
	pb.UnimplementedConfigurationServiceServer
	*service
}

// GetCurrentConfiguration answers a poll.
func (s *configurations) GetCurrentConfiguration(_ context.Context, req *pb.GetCurrentConfigurationRequest) (
	*pb.GetCurrentConfigurationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.known(req.GetName()); err != nil {
		return nil, err
	}
	s.follows = append(s.follows, follow{poll: true, etag: req.GetIfNoneMatch(), instance: req.GetInstanceId(),
		stream: s.streams})
	out := &pb.GetCurrentConfigurationResponse{PollAfter: durationpb.New(50 * time.Millisecond)}
	if out.NotModified = req.GetIfNoneMatch() == s.offer.GetEtag(); !out.NotModified {
		out.Configuration = s.offer
		s.sent++
	}
	s.note()
	return out, nil
}

// WatchConfigurations sends the client's configuration.
func (s *configurations) WatchConfigurations(req *pb.WatchConfigurationsRequest,
	stream pb.ConfigurationService_WatchConfigurationsServer) error {
	s.mu.Lock()
	if err := s.known(req.GetParent()); err != nil {
		s.mu.Unlock()
		return err
	}
	began, seen := s.streams, s.offer
	s.follows = append(s.follows, follow{initial: req.GetSendInitialEvents(), token: req.GetResumeToken() != "",
		instance: req.GetInstanceId(), stream: began})
	if req.GetResumeToken() != "" {
		epoch, number, _ := strings.Cut(req.GetResumeToken(), " ")
		revision, err := strconv.ParseInt(number, 10, 64)
		if err != nil || epoch != s.epoch.GetId() || revision > s.offer.GetRevision() {
			s.note()
			s.mu.Unlock()
			return reasoned(codes.OutOfRange, "RESYNC")
		}
		if revision < s.offer.GetRevision() {
			seen = nil
		}
	} else if req.GetSendInitialEvents() {
		seen = nil
	}
	s.note()
	s.mu.Unlock()
	beat := time.NewTicker(max(req.GetHeartbeatInterval().AsDuration(), time.Second))
	defer beat.Stop()
	for {
		s.mu.Lock()
		over, offer, changed := s.streams != began || s.away, s.offer, s.changed
		token := fmt.Sprintf("%s %d", s.epoch.GetId(), s.offer.GetRevision())
		s.mu.Unlock()
		if over {
			return errAway
		}
		if offer != seen {
			out := []*pb.WatchConfigurationsResponse{
				{Event: &pb.WatchConfigurationsResponse_Configuration{Configuration: offer}}}
			if seen == nil { // with messages that need no action of a client
				out = append(out, &pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Bookmark_{
					Bookmark: &pb.WatchConfigurationsResponse_Bookmark{}}},
					&pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Paused_{
						Paused: &pb.WatchConfigurationsResponse_Paused{Actor: "operator"}}},
					&pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Resumed_{
						Resumed: &pb.WatchConfigurationsResponse_Resumed{}}})
			}
			for _, m := range out {
				m.ResumeToken = token
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			seen = offer
			s.set(func() { s.sent++ })
			continue
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-beat.C:
			if err := stream.Send(&pb.WatchConfigurationsResponse{ResumeToken: token,
				Event: &pb.WatchConfigurationsResponse_Heartbeat_{
					Heartbeat: &pb.WatchConfigurationsResponse_Heartbeat{}}}); err != nil {
				return err
			}
		}
	}
}

// AcknowledgeConfiguration takes acknowledgements and remembers them.
func (s *configurations) AcknowledgeConfiguration(ctx context.Context, req *pb.AcknowledgeConfigurationRequest) (
	*pb.AcknowledgeConfigurationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	s.acks = append(s.acks, req)
	s.note()
	if s.failAck {
		s.failAck = false
		return nil, errAway
	}
	for s.holdAck {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if e := req.GetEpoch(); e != nil && e.GetId() != s.epoch.GetId() {
		return nil, reasoned(codes.FailedPrecondition, "EPOCH_MISMATCH")
	}
	return &pb.AcknowledgeConfigurationResponse{Configuration: s.offer, CurrentConfiguration: s.offer.GetName()}, nil
}
