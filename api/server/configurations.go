package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// configController is the part of controller.Service that the service calls.
type configController interface {
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
	Parked(id string) ([]rollout.Park, error)
	Pin(ctx context.Context, call controller.Call, id string, pin rollout.Pin, check controller.Check,
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

// configConfig configures the service of configurations.
type configConfig struct {
	Controller configController
	Reports    changes // nil if metrics are not reported
	Stamp      stamp
	Pages      pager
	Quota      *quota
	Draining   <-chan struct{} // closed when the server shuts down
	// PollAfter is the interval that polling schedulers are asked to keep; Jitter draws what is added to it.
	PollAfter time.Duration
	Jitter    func(below time.Duration) time.Duration
}

// configService serves configurations.
type configService struct {
	pb.UnimplementedConfigurationServiceServer

	o        configConfig
	acks     *prometheus.CounterVec // by scheduler and state
	restored *prometheus.CounterVec // by scheduler
}

func newConfig(o configConfig) *configService {
	return &configService{o: o,
		acks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_acknowledgements_total",
			Help: "Acknowledgements of configurations since the service started, by state: rejected is a refusal.",
		}, []string{"scheduler", "state"}),
		restored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_operator_rollbacks_total", Help: "Rollbacks by operators since the service started.",
		}, []string{"scheduler"})}
}

// register adds the service to a server, and its metrics to a registry.
func (s *configService) register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	pb.RegisterConfigurationServiceServer(g, s)
	r.MustRegister(s.acks, s.restored)
}

// forget drops the metrics of a purged scheduler.
func (s *configService) forget(id string) {
	s.acks.DeletePartialMatch(prometheus.Labels{"scheduler": id})
	s.restored.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// GetCurrentConfiguration returns what the scheduler should run.
func (s *configService) GetCurrentConfiguration(_ context.Context,
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
	if req.GetIfNoneMatch() != "" && req.GetIfNoneMatch() == s.o.Stamp.etag(c) {
		out.NotModified = true
		return out, nil
	}
	out.Configuration = s.o.Stamp.configuration(c)
	return out, nil
}

const (
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = time.Second
	maxHeartbeat     = 10 * time.Minute
)

// WatchConfigurations streams what the scheduler should run. There is no queue
// behind it: a slow receiver finds the newest revision when it is ready for
// one.
func (s *configService) WatchConfigurations(req *pb.WatchConfigurationsRequest,
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
	mark, err := parseToken("resume_token", req.GetResumeToken(), c.UID)
	if err != nil {
		return err
	}
	if req.GetResumeToken() != "" && (mark.Epoch != s.o.Controller.Epoch() || mark.Revision > c.LastRevision) {
		return fmt.Errorf("%w: resume_token is not of the store's present epoch, %d", errResync,
			s.o.Controller.Epoch().Counter)
	}
	leave, err := s.o.Quota.watch(stream.Context(), id)
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
	send := func(r *pb.WatchConfigurationsResponse) error {
		r.ResumeToken = mark.String()
		return stream.Send(r)
	}
	sendCurrent := func() error {
		now := watcher.Current()
		if now == nil || now.Revision <= mark.Revision {
			return nil
		}
		mark.Revision = now.Revision
		event := &pb.WatchConfigurationsResponse_Configuration{Configuration: s.o.Stamp.configuration(now)}
		return send(&pb.WatchConfigurationsResponse{Event: event})
	}
	if now := watcher.Current(); now != nil && req.GetResumeToken() == "" && !req.GetSendInitialEvents() {
		mark.Revision = now.Revision
	}
	if err := sendCurrent(); err != nil {
		return err
	}
	paused := false // as the watch last reported
	sendPause := func() error {
		pause, now := watcher.Paused()
		if now == paused {
			return nil
		}
		if paused = now; !paused {
			return send(&pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Resumed_{
				Resumed: &pb.WatchConfigurationsResponse_Resumed{}}})
		}
		out := &pb.WatchConfigurationsResponse_Paused{}
		if pause != nil {
			out.CreateTime, out.Actor, out.Reason = timestamppb.New(pause.Created), pause.Actor, pause.Reason
		}
		return send(&pb.WatchConfigurationsResponse{Event: &pb.WatchConfigurationsResponse_Paused_{Paused: out}})
	}
	if err := sendPause(); err != nil {
		return err
	}
	bookmark := &pb.WatchConfigurationsResponse_Bookmark_{Bookmark: &pb.WatchConfigurationsResponse_Bookmark{}}
	if err := send(&pb.WatchConfigurationsResponse{Event: bookmark}); err != nil {
		return err
	}
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.o.Draining:
			return errDraining
		case <-watcher.Changed():
			if err = watcher.Err(); err != nil {
				return err
			}
			if err = sendCurrent(); err == nil {
				err = sendPause()
			}
		case <-timer.C:
			alive := &pb.WatchConfigurationsResponse_Heartbeat_{Heartbeat: &pb.WatchConfigurationsResponse_Heartbeat{}}
			err = send(&pb.WatchConfigurationsResponse{Event: alive})
		}
		if err != nil {
			return err
		}
		timer.Reset(heartbeat)
	}
}

var ackStates = map[pb.Acknowledgement_State]rollout.AckState{
	pb.Acknowledgement_APPLIED: rollout.AckApplied, pb.Acknowledgement_PARTIALLY_APPLIED: rollout.AckPartial,
	pb.Acknowledgement_REJECTED: rollout.AckRejected, pb.Acknowledgement_FAILED: rollout.AckFailed,
}

// AcknowledgeConfiguration records the outcome of a revision at its scheduler.
func (s *configService) AcknowledgeConfiguration(ctx context.Context,
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
	if err := s.o.Quota.acknowledgement(id); err != nil {
		return nil, err
	}
	ack, err := ackFromProto(req.GetAcknowledgement(), sp, c.Config)
	if err != nil {
		return nil, err
	}
	if hash := req.GetContentHash(); hash != "" && hash != c.Hash {
		return nil, convert.Invalid("content_hash",
			"%.64q is not that of revision %d, %s: the instance has other values",
			hash, revision, c.Hash)
	}
	c, current, err := s.o.Controller.Acknowledge(ctx, callOf(ctx, req), id, revision, ack)
	if err != nil {
		return nil, err
	}
	s.acks.WithLabelValues(id, string(ack.State)).Inc()
	out := &pb.AcknowledgeConfigurationResponse{Configuration: s.o.Stamp.configuration(c)}
	if current > 0 {
		out.CurrentConfiguration = convert.ConfigurationName(id, current)
	}
	return out, nil
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

// ackFromProto checks an acknowledgement of a configuration and converts it.
func ackFromProto(a *pb.Acknowledgement, sp *space.Space, sent space.Config) (rollout.Ack, error) {
	const at = "acknowledgement."
	var v convert.Violations
	out := rollout.Ack{State: ackStates[a.GetState()], Error: a.GetError(), Instance: a.GetInstanceId()}
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

// GetConfiguration returns one revision.
func (s *configService) GetConfiguration(_ context.Context, req *pb.GetConfigurationRequest) (*pb.Configuration,
	error) {
	id, revision, err := convert.ParseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Configuration(id, revision)
	if err != nil {
		return nil, err
	}
	out := s.o.Stamp.configuration(c)
	if out.Incident == nil {
		out.Incident = incidentToProto(s.o.Controller.WayBack(c))
	}
	out.ReportedMetrics, err = reported(s.o.Reports, id, revision)
	return out, err
}

// ListConfigurations lists revisions, newest first.
func (s *configService) ListConfigurations(_ context.Context,
	req *pb.ListConfigurationsRequest) (*pb.ListConfigurationsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after token, n int) ([]*pb.Configuration, error) {
		all, err := s.o.Controller.Configurations(id, after.Revision, n)
		return mapped(all,
			func(c **rollout.Configuration) *pb.Configuration { return s.o.Stamp.configuration(*c) }), err
	}
	place := func(x *pb.Configuration) token { return token{Revision: x.GetRevision()} }
	page, next, err := list[*pb.Configuration]{some: some, place: place}.page(s.o.Pages, req)
	return &pb.ListConfigurationsResponse{Configurations: page, NextPageToken: next}, err
}

var configStates = map[rollout.RevisionState]pb.Configuration_State{
	rollout.Proposed: pb.Configuration_PROPOSED, rollout.Published: pb.Configuration_PUBLISHED,
	rollout.RolledOut:  pb.Configuration_ROLLED_OUT,
	rollout.Superseded: pb.Configuration_SUPERSEDED, rollout.Rejected: pb.Configuration_REJECTED,
	rollout.Lost: pb.Configuration_LOST,
}

var origins = map[rollout.Origin]pb.Configuration_Origin{
	rollout.FromDefault: pb.Configuration_DEFAULT, rollout.FromTuning: pb.Configuration_TUNED,
	rollout.FromRestore: pb.Configuration_RESTORED, rollout.FromJudge: pb.Configuration_REVERTED,
	rollout.FromSpace: pb.Configuration_PROJECTED, rollout.FromPin: pb.Configuration_PINNED,
	rollout.FromStudy: pb.Configuration_STUDY,
}

func configurationToProto(c *rollout.Configuration) *pb.Configuration {
	sp := c.Config.Space()
	out := &pb.Configuration{
		Name: convert.ConfigurationName(c.Scheduler, c.Revision), Uid: c.UID, Revision: c.Revision,
		State:      configStates[c.State],
		Origin:     origins[c.Origin],
		Parameters: convert.ConfigToProto(c.Config), ContentHash: c.Hash,
		CreateTime: timestamppb.New(c.Created), UpdateTime: timestamppb.New(c.Updated), Reason: c.Reason,
		Incident: incidentToProto(c), SchedulerRevision: max(1, c.Space),
	}
	if e := c.Evidence; e != nil {
		out.Evidence = &pb.TuningEvidence{
			Round: e.Round, TrialName: e.Trial, Seed: e.Seed, ControllableRatio: e.Ratio,
			IncumbentRevision: e.Incumbent, Details: statsToProto(e.Stats),
			RatioLow: e.Interval.Low, RatioHigh: e.Interval.High, Search: string(e.Search), SearchReason: e.Why,
			Fidelity: e.Fidelity, RoundName: convert.RoundName(c.Scheduler, e.Record),
		}
		out.Evidence.Energy, out.Evidence.IncumbentEnergy = energyToProto(e.Energy)
	}
	if e := c.Evidence; e != nil && !e.At.IsZero() {
		out.Evidence.SchedulerTime = timestamppb.New(e.At)
	}
	if a := c.Ack; a != nil {
		ack := &pb.Acknowledgement{Error: a.Error, InstanceId: a.Instance}
		for state, name := range ackStates {
			if name == a.State {
				ack.State = state
			}
		}
		if !a.Applied.IsZero() {
			ack.AppliedTime = timestamppb.New(a.Applied)
		}
		ack.EffectiveParameters = convert.ValuesToProto(sp, a.Effective)
		out.Acknowledgement = ack
	}
	if r := c.Review; r != nil {
		out.Review = &pb.Review{Approved: r.Approved, Actor: r.Actor, Reason: r.Why, CreateTime: timestamppb.New(r.At)}
	}
	return out
}

// incidentToProto is the incident of a revision, nil if there is none.
func incidentToProto(c *rollout.Configuration) *pb.Incident {
	if c == nil || c.Incident == nil {
		return nil
	}
	i := c.Incident
	out := &pb.Incident{SchedulerTime: timestamppb.New(i.At), Actor: i.Actor, WorseRevision: i.Revision,
		GoodRevision: i.Good, Revision: c.Revision, Reason: i.Verdict.Reason, ControllableRatio: i.Verdict.Ratio,
		Excess: i.Verdict.Excess}
	if !i.Until.IsZero() {
		out.ParkExpireTime = timestamppb.New(i.Until)
	}
	return out
}

// statsToProto names the counts of a round; nil if there are none.
func statsToProto(s round.Stats) map[string]float64 {
	if s == (round.Stats{}) {
		return nil
	}
	out := map[string]float64{"trials": float64(s.Trials), "evaluations": float64(s.Evaluations)}
	if s.Raced > 0 {
		out["raced"] = float64(s.Raced)
	}
	if s.Simplified > 0 {
		out["simplified"] = float64(s.Simplified)
	}
	if s.WiderThanCluster > 0 {
		out["jobs_wider_than_cluster"] = float64(s.WiderThanCluster)
	}
	return out
}

// energyToProto is what a configuration and the incumbent draw; nil if that was not counted.
func energyToProto(c *round.EnergyChange) (after, before *pb.EnergyUse) {
	if c == nil {
		return nil, nil
	}
	return energyUse(&c.After), energyUse(&c.Before)
}

// energyUse is nil for nil.
func energyUse(a *energy.Amount) *pb.EnergyUse {
	if a == nil {
		return nil
	}
	band := func(b energy.Band) *pb.EnergyBand { return &pb.EnergyBand{Low: b.Low, Middle: b.Middle, High: b.High} }
	return &pb.EnergyUse{EnergyKwh: band(a.Energy), CostUsd: band(a.Cost), Co2Kg: band(a.CO2)}
}
