// Package tuning serves schedulers: their registration, updates, freezes and events.
package tuning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// checkWeight refuses a scheduler that gives its rounds more weight than others have.
func checkWeight(c access.Caller, r *controller.Registration) error {
	if c.Role == access.Scheduler && r.Policy.Weight > 1 {
		return fmt.Errorf("%w: spec.rollout.weight: %v is above 1, which only an admin sets", access.ErrRole,
			r.Policy.Weight)
	}
	return nil
}

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	CheckEpoch(e controller.Epoch) error
	Delete(ctx context.Context, call controller.Call, id string,
		check func(*controller.Scheduler) error) (controller.Scheduler, error)
	Ingest(ctx context.Context, call controller.Call, id string,
		events []workload.Event) (controller.IngestResult, error)
	Modify(ctx context.Context, call controller.Call, id string,
		f func(*controller.Scheduler) error) (controller.Scheduler, error)
	Register(ctx context.Context, call controller.Call, reg controller.Registration) (controller.Scheduler, error)
	Registered(creator, id string) (all, own int, exists bool)
	Revisions(id string, below int64, limit int) ([]controller.SchedulerRevision, error)
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
	Schedulers(after string, limit int) []string
	Space(id string) (*space.Space, error)
	Undelete(ctx context.Context, call controller.Call, id string,
		check func(*controller.Scheduler) error) (controller.Scheduler, error)
}

// Quota bounds registrations and events.
type Quota interface {
	Register(service rpc.Registered, reg *controller.Registration, f func() error) error
	TakeEvents(ctx context.Context, id string, n int) error
}

// Config configures the service of schedulers.
type Config struct {
	Controller    Controller
	Registrations *registration.Reader
	Reports       render.Changes // nil if metrics are not reported
	Stamp         render.Stamp
	Pages         rpc.Pager
	Quota         Quota
	Streams       *rpc.Streams
}

// Service serves schedulers and their events.
type Service struct {
	pb.UnimplementedTuningServiceServer

	o       Config
	latency prometheus.Histogram
	events  *prometheus.CounterVec // by scheduler and result
}

// New returns the service of schedulers.
func New(o Config) *Service {
	return &Service{o: o,
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "autosched_ingest_duration_seconds",
			Help:    "Latency of event batches, from receipt until they are durable.",
			Buckets: rpc.Buckets,
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_events_total", Help: "Events received, by result: accepted, duplicate, late or rejected.",
		}, []string{"scheduler", "result"})}
}

// Register adds the service to a server, and its metrics to a registry.
func (s *Service) Register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	pb.RegisterTuningServiceServer(g, s)
	r.MustRegister(s.latency, s.events)
}

// Forget drops the metrics of a purged scheduler.
func (s *Service) Forget(id string) {
	s.events.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// CreateScheduler registers a scheduler.
func (s *Service) CreateScheduler(ctx context.Context, req *pb.CreateSchedulerRequest) (*pb.Scheduler, error) {
	reg, err := s.o.Registrations.Read(req)
	if err != nil {
		return nil, err
	}
	if err := checkWeight(access.FromContext(ctx), &reg); err != nil {
		return nil, err
	}
	reg.Creator = access.FromContext(ctx).Name
	var c controller.Scheduler
	err = s.o.Quota.Register(s.o.Controller, &reg, func() (err error) {
		c, err = s.o.Controller.Register(ctx, rpc.CallOf(ctx, req), reg)
		return err
	})
	if err != nil {
		return nil, err
	}
	if req.GetValidateOnly() {
		sp, err := space.New(c.Params, c.Rules)
		if err != nil {
			return nil, err
		}
		return s.stamped(c, SchedulerToProto(c, controller.Status{}, sp)), nil
	}
	return s.scheduler(c.ID)
}

// GetScheduler returns one scheduler.
func (s *Service) GetScheduler(_ context.Context, req *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	out, err := s.scheduler(id)
	if err != nil {
		return nil, err
	}
	if c, _, err := s.o.Controller.Scheduler(id); err == nil {
		out.Status.ReportedMetrics, err = render.Reported(s.o.Reports, id, c.OfferedRevision)
		return out, err
	}
	return out, nil
}

func (s *Service) scheduler(id string) (*pb.Scheduler, error) {
	c, st, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := s.o.Controller.Space(id)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, SchedulerToProto(c, st, sp)), nil
}

// ListSchedulers lists schedulers in order of name.
func (s *Service) ListSchedulers(_ context.Context,
	req *pb.ListSchedulersRequest) (*pb.ListSchedulersResponse, error) {
	some := func(after rpc.Token, n int) (out []*pb.Scheduler, err error) {
		for _, id := range s.o.Controller.Schedulers(after.After, math.MaxInt) {
			one, err := s.scheduler(id)
			if errors.Is(err, controller.ErrNotFound) {
				continue // purged meanwhile
			} else if err != nil {
				return nil, err
			}
			if one.GetState() != pb.Scheduler_DELETED || req.GetShowDeleted() {
				if out = append(out, one); len(out) == n {
					break
				}
			}
		}
		return out, nil
	}
	place := func(x *pb.Scheduler) rpc.Token {
		return rpc.Token{After: strings.TrimPrefix(x.GetName(), convert.SchedulersPrefix)}
	}
	page, next, err := rpc.List[*pb.Scheduler]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListSchedulersResponse{Schedulers: page, NextPageToken: next}, err
}

// maxBatch bounds the events of one request.
const maxBatch = 10_000

// IngestEvents takes events in and answers each request when its events are on
// disk.
func (s *Service) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	return rpc.AnswerEach(s.o.Streams, stream, s.ingest)
}

// ingest takes one batch of a registered scheduler in.
func (s *Service) ingest(ctx context.Context, id string,
	req *pb.IngestEventsRequest) (*pb.IngestEventsResponse, error) {
	if n := len(req.GetEvents()); n > maxBatch {
		return nil, convert.Invalid("events", "%d are more than %d", n, maxBatch)
	}
	if e := req.GetEpoch(); e != nil {
		if err := s.o.Controller.CheckEpoch(controller.Epoch{ID: e.GetId(), Counter: e.GetCounter()}); err != nil {
			return nil, err
		}
	}
	if err := s.o.Quota.TakeEvents(ctx, id, len(req.GetEvents())); err != nil {
		return nil, err
	}
	out := &pb.IngestEventsResponse{Sequence: req.GetSequence(), Epoch: s.o.Stamp.EpochToProto()}
	reject := func(i int, f *convert.Fault) {
		out.RejectedEvents = append(out.RejectedEvents, &pb.RejectedEvent{
			Index: int32(i), EventId: req.GetEvents()[i].GetEventId(),
			Field: fmt.Sprintf("events[%d].%s", i, f.Field), Description: f.Why,
		})
	}
	events := make([]workload.Event, 0, len(req.GetEvents()))
	places := make([]int, 0, len(req.GetEvents()))
	for i, e := range req.GetEvents() {
		event, fault := convert.EventFromProto(e)
		if fault != nil {
			reject(i, fault)
		} else {
			events, places = append(events, event), append(places, i)
		}
	}
	start := time.Now()
	result, err := s.o.Controller.Ingest(ctx, rpc.CallOf(ctx, req), id, events)
	if err != nil {
		return nil, err
	}
	s.latency.Observe(time.Since(start).Seconds())
	for _, r := range result.Rejected {
		reject(places[r.Index], convert.FaultOf(r.Err))
	}
	slices.SortFunc(out.RejectedEvents, func(a,
		b *pb.RejectedEvent) int {
		return cmp.Compare(a.GetIndex(), b.GetIndex())
	})
	for name, n := range map[string]int{
		"accepted": result.Accepted, "duplicate": result.Duplicates, "late": result.Late,
		"rejected": len(out.RejectedEvents),
	} {
		s.events.WithLabelValues(id, name).Add(float64(n))
	}
	out.AcceptedCount, out.DuplicateCount = int32(result.Accepted), int32(result.Duplicates)
	out.LateCount = int32(result.Late)
	return out, nil
}

// allSchedulers is the name of all of them.
const allSchedulers = convert.SchedulersPrefix + "-"

// FreezeTuning keeps the service from changing the configurations of schedulers.
func (s *Service) FreezeTuning(ctx context.Context, req *pb.FreezeTuningRequest) (*pb.FreezeTuningResponse,
	error) {
	until, err := rpc.Lasting(req)
	if err != nil {
		return nil, err
	}
	done, err := s.freeze(ctx, req, &rollout.Freeze{Reason: req.GetReason(), Actor: access.FromContext(ctx).Name,
		Created: time.Now().UTC(), Until: until})
	return &pb.FreezeTuningResponse{Schedulers: done}, err
}

func pinToProto(id string, p *rollout.Pin) *pb.Pin {
	if p == nil {
		return nil
	}
	out := &pb.Pin{Configuration: convert.ConfigurationName(id, p.Revision), Reason: p.Reason, Actor: p.Actor,
		CreateTime: timestamppb.New(p.Created)}
	if !p.Until.IsZero() {
		out.ExpireTime = timestamppb.New(p.Until)
	}
	return out
}

// UnfreezeTuning ends a freeze.
func (s *Service) UnfreezeTuning(ctx context.Context,
	req *pb.UnfreezeTuningRequest) (*pb.UnfreezeTuningResponse, error) {
	done, err := s.freeze(ctx, req, nil)
	return &pb.UnfreezeTuningResponse{Schedulers: done}, err
}

// freeze freezes a scheduler or all of them, or ends that if f is nil. Of all, those that
// are quarantined or deleted, which nothing tunes, are left out.
func (s *Service) freeze(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, f *rollout.Freeze) (done []*pb.Scheduler, err error) {
	name, etag := req.GetName(), req.GetEtag()
	if etag != "" && name == allSchedulers {
		return nil, convert.Invalid("etag", "is of one scheduler, and the request is of all")
	}
	ids := s.o.Controller.Schedulers("", math.MaxInt)
	if name != allSchedulers {
		id, err := convert.ParseScheduler("name", name)
		if err != nil {
			return nil, err
		}
		ids = []string{id}
	}
	if f != nil && !f.Until.IsZero() {
		for _, id := range ids {
			if _, st, err := s.o.Controller.Scheduler(id); err == nil && !st.EventTime.Before(f.Until) {
				return nil, convert.Invalid("expire_time", "%s is over: the event time of %s is %s",
					f.Until.Format(time.RFC3339), convert.SchedulerName(id), st.EventTime.Format(time.RFC3339))
			}
		}
	}
	call := rpc.CallOf(ctx, req)
	call.Request = "" // the request is stored once all are changed
	for _, id := range ids {
		one, err := s.modify(ctx, call, id, func(c *controller.Scheduler) error {
			if err := rpc.Match(etag, s.o.Stamp.SchedulerEtag(c)); err != nil {
				return err
			}
			if f != nil && c.Freeze != nil && c.Freeze.Reason == f.Reason && c.Freeze.Until.Equal(f.Until) {
				return nil // sent again
			}
			c.Freeze = f
			return nil
		})
		untuned := errors.Is(err, controller.ErrQuarantined) || errors.Is(err, controller.ErrDeleted) ||
			errors.Is(err, controller.ErrNotFound) // purged since
		if name == allSchedulers && untuned {
			continue
		}
		if err != nil {
			return nil, err
		}
		done = append(done, one)
	}
	return done, nil
}

// Named returns a scheduler, or all of them that can be tuned.
func (s *Service) Named(name string) (out []*pb.Scheduler, err error) {
	if name != allSchedulers {
		id, err := convert.ParseScheduler("name", name)
		if err != nil {
			return nil, err
		}
		one, err := s.scheduler(id)
		return []*pb.Scheduler{one}, err
	}
	for _, id := range s.o.Controller.Schedulers("", math.MaxInt) {
		one, err := s.scheduler(id)
		if err == nil && one.GetState() != pb.Scheduler_DELETED {
			out = append(out, one)
		}
	}
	return out, nil
}

func freezeToProto(f *rollout.Freeze) *pb.Freeze {
	if f == nil {
		return nil
	}
	out := &pb.Freeze{Reason: f.Reason, Actor: f.Actor, CreateTime: timestamppb.New(f.Created)}
	if !f.Until.IsZero() {
		out.ExpireTime = timestamppb.New(f.Until)
	}
	return out
}

// UpdateScheduler changes the specification of a scheduler.
func (s *Service) UpdateScheduler(ctx context.Context, req *pb.UpdateSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("scheduler.name", req.GetScheduler().GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		if err := rpc.Match(req.GetScheduler().GetEtag(), s.o.Stamp.SchedulerEtag(c)); err != nil {
			return err
		}
		return s.o.Registrations.Update(c, req)
	})
}

// DeleteScheduler deletes a scheduler, which can be undeleted for a while.
func (s *Service) DeleteScheduler(ctx context.Context, req *pb.DeleteSchedulerRequest) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Delete(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		return rpc.Match(req.GetEtag(), s.o.Stamp.SchedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// deleted is a scheduler that was deleted or undeleted, also one of which nothing can be read.
func (s *Service) deleted(c controller.Scheduler) (*pb.Scheduler, error) {
	if _, err := s.o.Controller.Space(c.ID); !errors.Is(err, controller.ErrQuarantined) {
		return s.scheduler(c.ID)
	}
	out := &pb.Scheduler{Name: convert.SchedulerName(c.ID)}
	if !c.Deleted.IsZero() {
		out.State, out.DeleteTime, out.ExpireTime = pb.Scheduler_DELETED, timestamppb.New(c.Deleted),
			timestamppb.New(c.Expires)
	}
	return out, nil
}

// UndeleteScheduler takes back that a scheduler was deleted.
func (s *Service) UndeleteScheduler(ctx context.Context, req *pb.UndeleteSchedulerRequest) (*pb.Scheduler,
	error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.o.Controller.Undelete(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		return rpc.Match(req.GetEtag(), s.o.Stamp.SchedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// PauseTuning keeps rounds from being decided.
func (s *Service) PauseTuning(ctx context.Context, req *pb.PauseTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, true)
}

// ResumeTuning ends a pause.
func (s *Service) ResumeTuning(ctx context.Context, req *pb.ResumeTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, false)
}

func (s *Service) pause(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, paused bool) (*pb.Scheduler, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, rpc.CallOf(ctx, req), id, func(c *controller.Scheduler) error {
		c.Paused = paused
		return rpc.Match(req.GetEtag(), s.o.Stamp.SchedulerEtag(c))
	})
}

// modify changes a scheduler and returns it, after a dry run as it would be.
func (s *Service) modify(ctx context.Context, call controller.Call, id string,
	f func(*controller.Scheduler) error) (*pb.Scheduler, error) {
	c, err := s.o.Controller.Modify(ctx, call, id, f)
	if err != nil {
		return nil, err
	}
	if !call.DryRun {
		return s.scheduler(id)
	}
	_, st, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := space.New(c.Params, c.Rules)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, SchedulerToProto(c, st, sp)), nil
}

// GetSchedulerRevision returns one revision of a scheduler.
func (s *Service) GetSchedulerRevision(_ context.Context,
	req *pb.GetSchedulerRevisionRequest) (*pb.SchedulerRevision, error) {
	id, revision, err := convert.ParseSchedulerRevision("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	all, err := s.o.Controller.Revisions(id, revision+1, 1)
	if err == nil && (len(all) == 0 || all[0].Number != revision) {
		err = fmt.Errorf("revision %d of scheduler %q: %w", revision, id, controller.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return schedulerRevisionToProto(&c, &all[0]), nil
}

// ListSchedulerRevisions lists the revisions of a scheduler, newest first.
func (s *Service) ListSchedulerRevisions(_ context.Context,
	req *pb.ListSchedulerRevisionsRequest) (*pb.ListSchedulerRevisionsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) ([]*pb.SchedulerRevision, error) {
		all, err := s.o.Controller.Revisions(id, after.Revision, n)
		return rpc.Map(all, func(r *controller.SchedulerRevision) *pb.SchedulerRevision {
			return schedulerRevisionToProto(&c, r)
		}), err
	}
	place := func(x *pb.SchedulerRevision) rpc.Token { return rpc.Token{Revision: x.GetRevision()} }
	page, next, err := rpc.List[*pb.SchedulerRevision]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListSchedulerRevisionsResponse{SchedulerRevisions: page, NextPageToken: next}, err
}

func schedulerRevisionToProto(c *controller.Scheduler, r *controller.SchedulerRevision) *pb.SchedulerRevision {
	out := &pb.SchedulerRevision{Name: convert.SchedulerRevisionName(c.ID, r.Number), Revision: r.Number}
	if r.Damage != nil || r.Space == nil {
		out.Error = fmt.Sprint("its record is damaged: ", r.Damage)
		return out
	}
	out.CreateTime, out.Objective = timestamppb.New(r.Created), registration.ObjectiveToProto(r.Objective)
	out.Cluster = convert.ClusterToProto(r.Cluster)
	for _, p := range r.Space.Params() {
		out.Parameters = append(out.Parameters, convert.ParamToProto(&p))
	}
	if c.Type == controller.External {
		out.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: r.Objective}}
	}
	out.Constraints = convert.Constraints(r.Space)
	return out
}

// stamped adds the epoch and the etag.
func (s *Service) stamped(c controller.Scheduler, out *pb.Scheduler) *pb.Scheduler {
	out.Epoch, out.Etag = s.o.Stamp.EpochToProto(), s.o.Stamp.SchedulerEtag(&c)
	return out
}

// SchedulerToProto writes a scheduler without epoch and etag.
func SchedulerToProto(c controller.Scheduler, st controller.Status, sp *space.Space) *pb.Scheduler {
	settings := c.Policy.WithDefaults() // records of older versions lack some
	spec := &pb.SchedulerSpec{
		SchedulerType: c.Type,
		Objective:     registration.ObjectiveToProto(c.Objective),
		Cluster:       convert.ClusterToProto(c.Cluster),
		Mode:          pb.SchedulerSpec_RECOMMEND,
		Rollout: &pb.RolloutPolicy{
			UpdateInterval: durationpb.New(c.Policy.UpdateInterval), Adoption: settings.Rule.String(),
			AcknowledgeDeadline: durationpb.New(cmp.Or(c.Policy.AckDeadline, controller.DefaultAckDeadline)),
			Guard:               settings.Guard, Horizon: durationpb.New(settings.Horizon),
			Futures: int32(settings.Futures), TrialBudget: int32(settings.Budget), Seed: settings.Seed,
			Weight: cmp.Or(c.Policy.Weight, 1), AllowedLateness: durationpb.New(c.Policy.AllowedLateness),
		},
	}
	convert.LimitsToProto(&c.Policy.Limits, spec.Rollout)
	if w := &c.Policy.Waves; *w != (rollout.Waves{}) {
		spec.Rollout.Canary, spec.Rollout.WaveShare = w.Canary, w.Share
		spec.Rollout.SoakTime = durationpb.New(cmp.Or(w.Soak, rollout.DefaultSoak))
	}
	if c.Type == controller.External {
		spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: c.Objective}}
	} else {
		spec.Simulation = registration.SimulationToProto(&c.Simulation)
	}
	if c.Mode == controller.Auto {
		spec.Mode = pb.SchedulerSpec_AUTO
	}
	state := pb.Scheduler_ACTIVE
	if c.Paused {
		state = pb.Scheduler_PAUSED
	}
	if !c.Deleted.IsZero() {
		state = pb.Scheduler_DELETED
	}
	for _, p := range sp.Params() {
		spec.Parameters = append(spec.Parameters, convert.ParamToProto(&p))
	}
	spec.Constraints = convert.Constraints(sp)
	out := &pb.Scheduler{
		Name: convert.SchedulerName(c.ID), Uid: c.UID, DisplayName: c.DisplayName, Spec: spec, State: state,
		Generation: c.Generation, Revision: max(1, c.Revision), Labels: c.Labels, Annotations: c.Annotations,
		CreateTime: timestamppb.New(c.Created), UpdateTime: timestamppb.New(c.Updated),
		Status: &pb.SchedulerStatus{EventCount: st.Events, RoundCount: st.Rounds, LastDecision: st.LastDecision,
			LastError: st.LastError, Fidelity: st.Fidelity, Watching: st.Watching, Hold: st.Hold, Deciding: st.Deciding,
			LastIncident: render.IncidentToProto(st.Incident), LateEventCount: st.LateEvents},
	}
	if !c.Deleted.IsZero() {
		out.DeleteTime, out.ExpireTime = timestamppb.New(c.Deleted), timestamppb.New(c.Expires)
	}
	if c.OfferedRevision > 0 {
		out.CurrentConfiguration = convert.ConfigurationName(c.ID, c.OfferedRevision)
	}
	out.Status.Degraded = st.Degraded
	for i := range st.Instances {
		out.Status.Instances = append(out.Status.Instances, instanceToProto(&st.Instances[i], sp))
	}
	out.Freeze, out.Pin = freezeToProto(c.Freeze), pinToProto(c.ID, c.Pin)
	if p := c.Pause; p != nil {
		out.Pause = &pb.Pause{Reason: p.Reason, Actor: p.Actor, CreateTime: timestamppb.New(p.Created)}
	}
	if st.Proposed > 0 {
		out.Status.ProposedConfiguration = convert.ConfigurationName(c.ID, st.Proposed)
	}
	if !st.EventTime.IsZero() {
		out.Status.EventTime = timestamppb.New(st.EventTime)
	}
	return out
}

var conditions = map[rollout.Condition]pb.InstanceStatus_Condition{
	rollout.InSync: pb.InstanceStatus_IN_SYNC, rollout.Pending: pb.InstanceStatus_PENDING,
	rollout.Degraded: pb.InstanceStatus_DEGRADED,
}

func instanceToProto(i *controller.InstanceStatus, sp *space.Space) *pb.InstanceStatus {
	out := &pb.InstanceStatus{InstanceId: i.ID, Condition: conditions[i.Condition], Reason: i.Why,
		DesiredRevision: i.Desired, ReportedRevision: i.Revision, ContentHash: i.Hash,
		EffectiveParameters: convert.ValuesToProto(sp, i.Effective), ReportTime: timestamppb.New(i.Reported)}
	if !i.Applied.IsZero() {
		out.AppliedTime = timestamppb.New(i.Applied)
	}
	return out
}
