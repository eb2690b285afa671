// Package config serves configurations: current revisions, acknowledgements, and changes that
// operators make to revisions.
package config

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	Acknowledge(ctx context.Context, call controller.Call, id string, revision int64,
		ack rollout.Ack) (*rollout.Configuration, int64, error)
	Approve(ctx context.Context, call controller.Call, id string, e rollout.Approve,
		check controller.Check) (*rollout.Configuration, error)
	CheckEpoch(e controller.Epoch) error
	Configuration(id string, revision int64) (*rollout.Configuration, error)
	Configurations(id string, below int64, limit int) ([]*rollout.Configuration, error)
	Current(id, instance string) (*rollout.Configuration, error)
	Epoch() controller.Epoch
	ForgetInstance(ctx context.Context, call controller.Call, id, instance string) error
	Park(ctx context.Context, call controller.Call, id string, e rollout.ParkProposal,
		check controller.Check) (*rollout.Configuration, error)
	Parked(id string) ([]rollout.Park, error)
	Pin(ctx context.Context, call controller.Call, id string, pin rollout.Pin, check controller.Check,
		config func(sp *space.Space, base space.Config) (space.Config, error)) (*rollout.Configuration, error)
	ProposeValues(ctx context.Context, call controller.Call, id, reason string, check controller.Check,
		config func(sp *space.Space, base space.Config) (space.Config, error)) (*rollout.Configuration, error)
	Reject(ctx context.Context, call controller.Call, id string, e rollout.Reject,
		check controller.Check) (*rollout.Configuration, error)
	Rollback(ctx context.Context, call controller.Call, id string, r rollout.Rollback) (*rollout.Configuration, error)
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
	Space(id string) (*space.Space, error)
	Unpark(ctx context.Context, call controller.Call, id string, revision int64,
		check controller.Check) (*rollout.Configuration, error)
	Unpin(ctx context.Context, call controller.Call, id string) error
	Watch(id, instance string) (*controller.Watcher, error)
	WayBack(c *rollout.Configuration) *rollout.Configuration
}

// Quota bounds acknowledgements of a scheduler and its watches.
type Quota interface {
	Acknowledgement(id string) error
	Watch(ctx context.Context, id string) (leave func(), err error)
}

// Config configures the service of configurations.
type Config struct {
	Controller Controller
	Reports    render.Changes // nil if metrics are not reported
	Stamp      render.Stamp
	Pages      rpc.Pager
	Quota      Quota
	Draining   <-chan struct{} // closed when the server shuts down
	// PollAfter is the interval that polling schedulers are asked to keep; Jitter draws what is added to it.
	PollAfter time.Duration
	Jitter    func(below time.Duration) time.Duration
}

// Service serves configurations.
type Service struct {
	pb.UnimplementedConfigurationServiceServer

	o        Config
	acks     *prometheus.CounterVec // by scheduler and state
	restored *prometheus.CounterVec // by scheduler
}

// New returns the service of configurations.
func New(o Config) *Service {
	return &Service{o: o,
		acks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_acknowledgements_total",
			Help: "Acknowledgements of configurations since the service started, by state: rejected is a refusal.",
		}, []string{"scheduler", "state"}),
		restored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_operator_rollbacks_total", Help: "Rollbacks by operators since the service started.",
		}, []string{"scheduler"})}
}

// Register adds the service to a server, and its metrics to a registry.
func (s *Service) Register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	pb.RegisterConfigurationServiceServer(g, s)
	r.MustRegister(s.acks, s.restored)
}

// Forget drops the metrics of a purged scheduler.
func (s *Service) Forget(id string) {
	s.acks.DeletePartialMatch(prometheus.Labels{"scheduler": id})
	s.restored.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// GetCurrentConfiguration returns the configuration that an instance should run.
func (s *Service) GetCurrentConfiguration(_ context.Context,
	req *pb.GetCurrentConfigurationRequest) (*pb.GetCurrentConfigurationResponse, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	instance, err := instanceID("instance_id", req.GetInstanceId())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Current(id, instance)
	if err != nil {
		return nil, err
	}
	out := &pb.GetCurrentConfigurationResponse{PollAfter: durationpb.New(s.o.PollAfter + s.o.Jitter(s.o.PollAfter/5+1))}
	if req.GetIfNoneMatch() != "" && req.GetIfNoneMatch() == s.o.Stamp.Etag(c) {
		out.NotModified = true
		return out, nil
	}
	out.Configuration = s.o.Stamp.Configuration(c)
	return out, nil
}

const (
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = time.Second
	maxHeartbeat     = 10 * time.Minute
)

// WatchConfigurations streams the configuration that an instance should run. There is no queue
// behind it: a slow receiver finds the newest revision when it is ready for
// one.
func (s *Service) WatchConfigurations(req *pb.WatchConfigurationsRequest,
	stream pb.ConfigurationService_WatchConfigurationsServer) error {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return err
	}
	heartbeat := defaultHeartbeat
	if d := req.GetHeartbeatInterval(); d != nil {
		if heartbeat = d.AsDuration(); d.CheckValid() != nil || heartbeat < minHeartbeat || heartbeat > maxHeartbeat {
			return convert.Invalid("heartbeat_interval", "%v is not from %v to %v",
				heartbeat, minHeartbeat, maxHeartbeat)
		}
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return err
	}
	mark, err := rpc.ParseToken("resume_token", req.GetResumeToken(), c.UID)
	if err != nil {
		return err
	}
	if req.GetResumeToken() != "" && (mark.Epoch != s.o.Controller.Epoch() || mark.Revision > c.LastRevision) {
		return fmt.Errorf("%w: resume_token is not of the store's present epoch, %d", rpc.ErrResync,
			s.o.Controller.Epoch().Counter)
	}
	leave, err := s.o.Quota.Watch(stream.Context(), id)
	if err != nil {
		return err
	}
	defer leave()
	instance, err := instanceID("instance_id", req.GetInstanceId())
	if err != nil {
		return err
	}
	watcher, err := s.o.Controller.Watch(id, instance)
	if err != nil {
		return err
	}
	defer watcher.Close()
	mark.Of, mark.Epoch = c.UID, s.o.Controller.Epoch()
	w := sender{stamp: s.o.Stamp, stream: stream, watcher: watcher, mark: mark}
	if now := watcher.Current(); now != nil && req.GetResumeToken() == "" && !req.GetSendInitialEvents() {
		w.mark.Revision = now.Revision
	}
	if err := w.changes(); err != nil {
		return err
	}
	bookmark := &pb.WatchConfigurationsResponse_Bookmark_{Bookmark: &pb.WatchConfigurationsResponse_Bookmark{}}
	if err := w.send(&pb.WatchConfigurationsResponse{Event: bookmark}); err != nil {
		return err
	}
	return s.follow(&w, heartbeat)
}

// follow sends changes, and heartbeats between them, until the watch ends.
func (s *Service) follow(w *sender, heartbeat time.Duration) (err error) {
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-w.stream.Context().Done():
			return w.stream.Context().Err()
		case <-s.o.Draining:
			return rpc.ErrDraining
		case <-w.watcher.Changed():
			if err = w.watcher.Err(); err == nil {
				err = w.changes()
			}
		case <-timer.C:
			alive := &pb.WatchConfigurationsResponse_Heartbeat_{Heartbeat: &pb.WatchConfigurationsResponse_Heartbeat{}}
			err = w.send(&pb.WatchConfigurationsResponse{Event: alive})
		}
		if err != nil {
			return err
		}
		timer.Reset(heartbeat)
	}
}

// sender sends the events of a watch.
type sender struct {
	stamp   render.Stamp
	stream  pb.ConfigurationService_WatchConfigurationsServer
	watcher *controller.Watcher
	mark    rpc.Token // of the last revision sent
	paused  bool      // as the watch last reported
}

func (w *sender) send(r *pb.WatchConfigurationsResponse) error {
	r.ResumeToken = w.mark.String()
	return w.stream.Send(r)
}

// changes sends the current configuration and pause if they differ from the last sent.
func (w *sender) changes() error {
	if now := w.watcher.Current(); now != nil && now.Revision > w.mark.Revision {
		w.mark.Revision = now.Revision
		event := &pb.WatchConfigurationsResponse_Configuration{Configuration: w.stamp.Configuration(now)}
		if err := w.send(&pb.WatchConfigurationsResponse{Event: event}); err != nil {
			return err
		}
	}
	pause, now := w.watcher.Paused()
	if now == w.paused {
		return nil
	}
	if w.paused = now; !now {
		return w.send(&pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Resumed_{
			Resumed: &pb.WatchConfigurationsResponse_Resumed{}}})
	}
	out := &pb.WatchConfigurationsResponse_Paused{}
	if pause != nil {
		out.CreateTime, out.Actor, out.Reason = timestamppb.New(pause.Created), pause.Actor, pause.Reason
	}
	return w.send(&pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Paused_{Paused: out}})
}

// AcknowledgeConfiguration records the outcome of a revision at its scheduler.
func (s *Service) AcknowledgeConfiguration(ctx context.Context,
	req *pb.AcknowledgeConfigurationRequest) (*pb.AcknowledgeConfigurationResponse, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	if e := req.GetEpoch(); e != nil {
		if err := s.o.Controller.CheckEpoch(controller.Epoch{ID: e.GetId(), Counter: e.GetCounter()}); err != nil {
			return nil, err
		}
	}
	sp, err := s.o.Controller.Space(id)
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Configuration(id, revision)
	if err != nil {
		return nil, err
	}
	if err := s.o.Quota.Acknowledgement(id); err != nil {
		return nil, err
	}
	ack, err := AckFromProto(req.GetAcknowledgement(), sp, c.Config)
	if err != nil {
		return nil, err
	}
	if hash := req.GetContentHash(); hash != "" && hash != c.Hash {
		return nil, convert.Invalid("content_hash",
			"%.64q is not that of revision %d, %s: the instance has other values",
			hash, revision, c.Hash)
	}
	c, current, err := s.o.Controller.Acknowledge(ctx, rpc.CallOf(ctx, req), id, revision, ack)
	if err != nil {
		return nil, err
	}
	s.acks.WithLabelValues(id, string(ack.State)).Inc()
	out := &pb.AcknowledgeConfigurationResponse{Configuration: s.o.Stamp.Configuration(c)}
	if current > 0 {
		out.CurrentConfiguration = convert.ConfigurationName(id, current)
	}
	return out, nil
}

// GetConfiguration returns one revision.
func (s *Service) GetConfiguration(_ context.Context, req *pb.GetConfigurationRequest) (*pb.Configuration,
	error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Configuration(id, revision)
	if err != nil {
		return nil, err
	}
	out := s.o.Stamp.Configuration(c)
	if out.Incident == nil {
		out.Incident = render.IncidentToProto(s.o.Controller.WayBack(c))
	}
	if of, _, err := s.o.Controller.Scheduler(id); err == nil && !c.Config.IsZero() {
		text, err := schedulers.FormOf(of.Type).Render(native.ValuesOf(c.Config))
		if err == nil { // a file that cannot be written is left out: the values are there
			out.NativeText = string(text)
		}
	}
	out.ReportedMetrics, err = render.Reported(s.o.Reports, id, revision)
	return out, err
}

// ListConfigurations lists revisions, newest first.
func (s *Service) ListConfigurations(_ context.Context,
	req *pb.ListConfigurationsRequest) (*pb.ListConfigurationsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) ([]*pb.Configuration, error) {
		all, err := s.o.Controller.Configurations(id, after.Revision, n)
		return rpc.Map(all,
			func(c **rollout.Configuration) *pb.Configuration { return s.o.Stamp.Configuration(*c) }), err
	}
	place := func(x *pb.Configuration) rpc.Token { return rpc.Token{Revision: x.GetRevision()} }
	page, next, err := rpc.List[*pb.Configuration]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListConfigurationsResponse{Configurations: page, NextPageToken: next}, err
}

// PinConfiguration offers values and keeps them on offer.
func (s *Service) PinConfiguration(ctx context.Context, req *pb.PinConfigurationRequest) (*pb.Configuration,
	error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	until, err := rpc.Lasting(req)
	if err != nil {
		return nil, err
	}
	var config func(*space.Space, space.Config) (space.Config, error)
	if len(req.GetParameters()) > 0 {
		config = func(sp *space.Space, base space.Config) (space.Config, error) {
			return convert.Choose(sp, base, req.GetParameters())
		}
	}
	return s.o.Stamp.Configured(s.o.Controller.Pin(ctx, rpc.CallOf(ctx, req), id, rollout.Pin{Reason: req.GetReason(),
		Actor: rpc.Operator(ctx), Until: until},
		s.o.Stamp.Same(req.GetEtag()), config))
}

// ProposeConfiguration proposes values.
func (s *Service) ProposeConfiguration(ctx context.Context,
	req *pb.ProposeConfigurationRequest) (*pb.Configuration, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	var v convert.Violations
	rpc.CheckReason(&v, req.GetReason())
	if err := v.Err(); err != nil {
		return nil, err
	}
	return s.o.Stamp.Configured(s.o.Controller.ProposeValues(ctx, rpc.CallOf(ctx, req), id, req.GetReason(),
		s.o.Stamp.Same(req.GetEtag()), func(sp *space.Space, base space.Config) (space.Config, error) {
			return convert.Choose(sp, base, req.GetParameters())
		}))
}

// UnpinConfiguration ends a pin.
func (s *Service) UnpinConfiguration(ctx context.Context,
	req *pb.UnpinConfigurationRequest) (*pb.UnpinConfigurationResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		err = s.o.Controller.Unpin(ctx, rpc.CallOf(ctx, req), id)
	}
	if err != nil {
		return nil, err
	}
	return &pb.UnpinConfigurationResponse{}, nil
}

// ApproveConfiguration offers a proposal to the scheduler.
func (s *Service) ApproveConfiguration(ctx context.Context,
	req *pb.ApproveConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	call := rpc.CallOf(ctx, req)
	return s.o.Stamp.Configured(s.o.Controller.Approve(ctx, call, id, rollout.Approve{Revision: revision,
		Applied: req.GetApplied(),
		Actor:   rpc.Operator(ctx), Why: call.Origin.Reason}, s.o.Stamp.Same(req.GetEtag())))
}

// RejectConfiguration parks the values of a proposal.
func (s *Service) RejectConfiguration(ctx context.Context,
	req *pb.RejectConfigurationRequest) (*pb.Configuration, error) {
	call, id, revision, err := refusal(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.o.Stamp.Configured(s.o.Controller.Reject(ctx, call, id, rollout.Reject{Revision: revision,
		Actor: rpc.Operator(ctx), Why: call.Origin.Reason}, s.o.Stamp.Same(req.GetEtag())))
}

// ParkConfiguration sets a proposal aside.
func (s *Service) ParkConfiguration(ctx context.Context, req *pb.ParkConfigurationRequest) (*pb.Configuration, error) {
	call, id, revision, err := refusal(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.o.Stamp.Configured(s.o.Controller.Park(ctx, call, id, rollout.ParkProposal{Revision: revision,
		Actor: rpc.Operator(ctx), Why: call.Origin.Reason}, s.o.Stamp.Same(req.GetEtag())))
}

// refusal is the revision that a request is about, and the call with its reason.
func refusal(ctx context.Context, req interface {
	GetName() string
	GetReason() string
}) (call controller.Call, id string, revision int64, err error) {
	id, revision, err = convert.ParseConfiguration("name", req.GetName())
	if err == nil && len(req.GetReason()) > maxReason {
		err = convert.Invalid("reason", "is longer than %d bytes", maxReason)
	}
	call = rpc.CallOf(ctx, req)
	call.Origin.Reason = cmp.Or(req.GetReason(), call.Origin.Reason)
	return call, id, revision, err
}

// UnparkConfiguration lets values be offered again.
func (s *Service) UnparkConfiguration(ctx context.Context,
	req *pb.UnparkConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.o.Stamp.Configured(s.o.Controller.Unpark(ctx, rpc.CallOf(ctx, req), id, revision,
		s.o.Stamp.Same(req.GetEtag())))
}

// ListParkedConfigurations lists the values that are not offered.
func (s *Service) ListParkedConfigurations(_ context.Context,
	req *pb.ListParkedConfigurationsRequest) (*pb.ListParkedConfigurationsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	parks, err := s.o.Controller.Parked(id)
	if err != nil {
		return nil, err
	}
	all := rpc.Map(parks, func(p *rollout.Park) *pb.ParkedConfiguration { return parkToProto(id, p) })
	place := func(x *pb.ParkedConfiguration) rpc.Token {
		return rpc.Token{After: x.GetContentHash() + " " + x.GetActor(),
			Revision: x.GetCreateTime().AsTime().UnixNano()}
	}
	some := func(after rpc.Token, n int) ([]*pb.ParkedConfiguration, error) {
		rest := all
		if after.After != "" {
			after = rpc.Token{After: after.After, Revision: after.Revision}
			at := slices.IndexFunc(all, func(x *pb.ParkedConfiguration) bool { return place(x) == after })
			if at < 0 {
				return nil, rpc.ErrGone
			}
			rest = all[at+1:]
		}
		return rest[:min(n, len(rest))], nil
	}
	page, next, err := rpc.List[*pb.ParkedConfiguration]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListParkedConfigurationsResponse{ParkedConfigurations: page, NextPageToken: next}, err
}

func parkToProto(id string, p *rollout.Park) *pb.ParkedConfiguration {
	out := &pb.ParkedConfiguration{Configuration: convert.ConfigurationName(id, p.Revision), ContentHash: p.Hash,
		Actor: p.Actor, InstanceId: p.Instance, Reason: p.Why, CreateTime: timestamppb.New(p.Since),
		Proposal: p.Proposal}
	if !p.Until.IsZero() {
		out.ExpireTime = timestamppb.New(p.Until)
	}
	return out
}

// ForgetInstance drops an instance that is gone.
func (s *Service) ForgetInstance(ctx context.Context,
	req *pb.ForgetInstanceRequest) (*pb.ForgetInstanceResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		_, err = instanceID("instance_id", req.GetInstanceId())
	}
	if err == nil {
		err = s.o.Controller.ForgetInstance(ctx, rpc.CallOf(ctx, req), id, req.GetInstanceId())
	}
	if err != nil {
		return nil, err
	}
	return &pb.ForgetInstanceResponse{}, nil
}

// RollbackConfiguration offers earlier values again.
func (s *Service) RollbackConfiguration(ctx context.Context,
	req *pb.RollbackConfigurationRequest) (*pb.Configuration, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	if req.GetRevision() < 0 {
		return nil, convert.Invalid("revision", "%d is negative", req.GetRevision())
	}
	if req.GetFromRevision() < 0 {
		return nil, convert.Invalid("from_revision", "%d is negative", req.GetFromRevision())
	}
	call := rpc.CallOf(ctx, req)
	c, err := s.o.Controller.Rollback(ctx, call, id, rollout.Rollback{To: req.GetRevision(),
		From: req.GetFromRevision(),
		Park: req.GetPark(), Actor: rpc.Operator(ctx), Why: call.Origin.Reason})
	if err != nil {
		return nil, err
	}
	if !call.DryRun {
		s.restored.WithLabelValues(id).Inc()
	}
	return s.o.Stamp.Configuration(c), nil
}

// maxReason bounds why a configuration is refused, in bytes.
const maxReason = 1024

// instanceID checks the id of an instance.
func instanceID(field, id string) (string, error) {
	if len(id) > convert.MaxText {
		return "", convert.Invalid(field, "is longer than %d bytes", convert.MaxText)
	}
	return id, nil
}

// AckFromProto checks an acknowledgement of a configuration and converts it.
func AckFromProto(a *pb.Acknowledgement, sp *space.Space, sent space.Config) (rollout.Ack, error) {
	const at = "acknowledgement."
	var v convert.Violations
	out := rollout.Ack{State: render.AckStates[a.GetState()], Error: a.GetError(), Instance: a.GetInstanceId()}
	if out.State == "" {
		v.Add(at+"state", "is required: APPLIED, PARTIALLY_APPLIED, REJECTED or FAILED")
	}
	if len(out.Error) > maxReason {
		v.Add(at+"error", "is longer than %d bytes", maxReason)
	}
	if len(out.Instance) > convert.MaxText {
		v.Add(at+"instance_id", "is longer than %d bytes", convert.MaxText)
	}
	if t := a.GetAppliedTime(); t != nil {
		if _, ok := convert.SinceEpoch(t); !ok {
			v.Add(at+"applied_time", "is not between the years %d and %d", convert.FirstYear, convert.LastYear)
		}
		out.Applied = t.AsTime()
	}
	switch n := len(a.GetEffectiveParameters()); {
	case n == 0 && out.State == rollout.AckPartial:
		v.Add(at+"effective_parameters", "is required if PARTIALLY_APPLIED: the values in force that differ")
	case n > 0 && out.State != rollout.AckPartial && out.State != rollout.AckApplied:
		v.Add(at+"effective_parameters", "counts only if APPLIED or PARTIALLY_APPLIED")
	}
	for _, id := range slices.Sorted(maps.Keys(a.GetEffectiveParameters())) {
		value := a.GetEffectiveParameters()[id]
		field := fmt.Sprintf("%seffective_parameters[%q]", at, id)
		p, ok := sp.Param(id)
		x, why := convert.ValueFromProto(value)
		switch {
		case !ok:
			v.Add(field, "there is no such parameter")
		case why != "":
			v.Add(field, "%s", why)
		case !convert.SameShape(&p, value):
			v.Add(field, "%s is not a value of it: want %s", x, p.Range())
		case x.Equal(sent.Get(id)):
			// As sent: nothing to remember.
		case out.State == rollout.AckApplied:
			v.Add(field, "%s is not what was sent, %s: want state PARTIALLY_APPLIED", x, sent.Get(id))
		default:
			if out.Effective == nil {
				out.Effective = map[string]space.Value{}
			}
			out.Effective[id] = x
		}
	}
	return out, v.Err()
}
