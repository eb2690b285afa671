// Package agent is the scheduler's side of the API: an emulated scheduler on an
// emulated cluster, which registers, streams its events, watches for
// configurations, applies and acknowledges them. A trace feeds it, in
// accelerated time. It shows and tests the whole loop without a GPU, and how a
// real scheduler talks to the service.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options of an emulated scheduler.
type Options struct {
	Conn      grpc.ClientConnInterface
	ID        string // the scheduler's id with the service
	Scheduler *schedulers.Scheduler
	Cluster   workload.Cluster
	Workload  *workload.Workload
	Simulate  simulator.Options
	// Mode and Rollout are what a new registration asks for; unset for
	// AUTO, and for the service's defaults.
	Mode    pb.SchedulerSpec_Mode
	Rollout *pb.RolloutPolicy
	// Speedup is emulated time over real time, above 0 and at most MaxSpeedup.
	Speedup float64
	// Progress is called about twenty times a second.
	Progress func(Progress)
	// Applied is called for every configuration put into force.
	Applied func(Applied)
	// Lost is called when the service went away; the emulation waits for it.
	Lost func(error)
	// File, if set, has the configuration, in the words of the scheduler: the emulation
	// watches and acknowledges nothing, as that is left to an adapter.
	File *File
}

// Progress is how far the emulation is.
type Progress struct {
	At              time.Time
	Active, Waiting int
	Events          int // acknowledged by the service
}

// Applied is a configuration put into force.
type Applied struct {
	At       time.Time    `json:"at"`
	Revision int64        `json:"revision"`
	Config   space.Config `json:"configuration"`
	Reason   string       `json:"reason"`
}

// Report is how it went.
type Report struct {
	Scheduler string    `json:"scheduler"`
	Events    int       `json:"events_sent"`
	Applied   []Applied `json:"applied"`
	simulator.Summary
}

// MaxSpeedup bounds Options.Speedup: 14 hours in a tick, beyond which the service
// could not tune between two of them anyway.
const MaxSpeedup = 1e6

// instance is the id of the emulated instance.
const instance = "emulated"

const (
	tick = 50 * time.Millisecond
	// maxStep bounds what the emulated cluster does between two looks at the
	// service, also after this process was held up.
	maxStep = 24 * time.Hour
	// inFlight bounds the batches that the service has not answered yet; at the
	// bound the emulated cluster waits.
	inFlight = 64
	maxBatch = 5000
)

// agent is a running emulation.
type agent struct {
	o      Options
	name   string
	live   live.Cluster
	batch  []*pb.Event
	fault  error // of turning events into messages
	tuning pb.TuningServiceClient
	config pb.ConfigurationServiceClient
	report Report
	link   *link
	offer  *pb.Configuration // in force; nil before the first
	asked  int64             // batches sent
	acked  int64
	// unanswered are the batches that the service has not answered, in order.
	unanswered []*pb.IngestEventsRequest
}

// Run emulates until the last job has ended and every event is acknowledged. If
// the context ends first, its error is what comes back.
func Run(ctx context.Context, o Options) (*Report, error) {
	r, err := run(ctx, o)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // whichever call noticed first
	}
	return r, err
}

func run(ctx context.Context, o Options) (*Report, error) {
	if !(o.Speedup > 0 && o.Speedup <= MaxSpeedup) {
		return nil, fmt.Errorf("emulate: speedup: %g is not above 0 and at most %g", o.Speedup, float64(MaxSpeedup))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &agent{o: o, name: "schedulers/" + o.ID, tuning: pb.NewTuningServiceClient(o.Conn),
		config: pb.NewConfigurationServiceClient(o.Conn)}
	a.report.Scheduler = a.name
	// What cannot be emulated is not registered: jobs wider than the cluster.
	if err := a.live.Sim.Start(o.Cluster, o.Workload, o.Scheduler.New(o.Scheduler.Space.Default()),
		o.Simulate); err != nil {
		return nil, err
	}
	if err := a.register(ctx); err != nil {
		return nil, err
	}
	c, current, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	a.live.Send = a.collect
	sim := o.Simulate
	sim.Observer = a.live.Observe
	first, _ := o.Workload.Span()
	if err := a.live.Sim.Start(o.Cluster, o.Workload, o.Scheduler.New(c), sim); err != nil {
		return nil, err
	}
	if a.link, err = a.connect(ctx); err != nil {
		return nil, err
	}
	if err := a.applied(ctx, first, current, c); err != nil {
		return nil, err
	}
	if err := a.loop(ctx, first); err != nil {
		return nil, err
	}
	a.report.Summary = a.live.Sim.Summarize()
	return &a.report, nil
}

// begin is the configuration to start with: the service's, or the file's.
func (a *agent) begin(ctx context.Context) (space.Config, *pb.Configuration, error) {
	if a.o.File != nil {
		c, err := a.o.File.begin(a.o.Scheduler)
		return c, nil, err
	}
	current, err := a.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: a.name,
		InstanceId: instance})
	if err != nil {
		return space.Config{}, nil, fmt.Errorf("emulate: current configuration: %w", err)
	}
	c, err := a.read(current.Configuration)
	return c, current.Configuration, err
}

// register creates the scheduler, or goes on with the one there is.
func (a *agent) register(ctx context.Context) error {
	if n := len(a.o.Cluster.Groups); n != 1 {
		return fmt.Errorf("emulate: cluster: has %d groups of nodes, and the service registers one", n)
	}
	spec := &pb.SchedulerSpec{SchedulerType: a.o.Scheduler.Name, Mode: a.o.Mode, Rollout: a.o.Rollout,
		Cluster: &pb.Cluster{Nodes: int32(a.o.Cluster.Nodes()), GpusPerNode: int32(a.o.Cluster.GPUsPerNode())}}
	if spec.Mode == pb.SchedulerSpec_MODE_UNSPECIFIED {
		spec.Mode = pb.SchedulerSpec_AUTO
	}
	_, err := a.tuning.CreateScheduler(ctx, &pb.CreateSchedulerRequest{SchedulerId: a.o.ID,
		Scheduler: &pb.Scheduler{DisplayName: "emulated " + a.o.Scheduler.Name, Spec: spec}})
	if status.Code(err) != codes.AlreadyExists {
		if err != nil {
			return fmt.Errorf("emulate: register: %w", err)
		}
		return nil
	}
	there, err := a.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: a.name})
	if err != nil {
		return fmt.Errorf("emulate: %w", err)
	}
	if got := there.Spec.Cluster; there.Spec.SchedulerType != spec.SchedulerType ||
		got.GetNodes() != spec.Cluster.Nodes ||
		got.GetGpusPerNode() != spec.Cluster.GpusPerNode {
		return fmt.Errorf("emulate: %s is registered as %s on %d nodes x %d GPUs, not as %s on %s: use another id",
			a.name,
			there.Spec.SchedulerType,
			got.GetNodes(), got.GetGpusPerNode(), spec.SchedulerType, a.o.Cluster)
	}
	if there.Status.GetEventCount() > 0 {
		return fmt.Errorf(
			"emulate: %s has events already, and an emulation starts from an empty cluster: use another id",
			a.name)
	}
	return nil
}

func (a *agent) loop(ctx context.Context, first time.Duration) error {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	last, at := time.Now(), first
	for {
		if err := a.flush(); err != nil {
			if err := a.reconnect(ctx, err); err != nil {
				return err
			}
		}
		if a.live.Sim.Done() && len(a.batch) == 0 && a.acked == a.asked {
			return nil
		}
		if a.o.Progress != nil {
			a.o.Progress(Progress{At: a.wall(at), Active: a.live.Sim.Active(), Waiting: a.live.Sim.Waiting(),
				Events: a.report.Events})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-a.link.failed:
			if err := a.reconnect(ctx, err); err != nil {
				return err
			}
			last = time.Now()
		case m := <-a.link.acks:
			a.answered(m.Sequence)
			for _, r := range m.RejectedEvents {
				if strings.HasSuffix(r.Field, "].epoch") {
					continue // another epoch came in between; what it offers is next
				}
				return fmt.Errorf("emulate: the service rejects event %s: %s: %s", r.EventId, r.Field, r.Description)
			}
		case c := <-a.link.offers:
			if err := a.apply(ctx, at, c); err != nil {
				return err
			}
		case <-a.o.File.reloads():
			if c, ok := a.o.File.reload(a.o.Scheduler); ok {
				a.live.Sim.Reconfigure(a.o.Scheduler.New(c))
				if err := a.applied(ctx, at, nil, c); err != nil {
					return err
				}
			}
		case <-clock.C:
			now := time.Now()
			real := now.Sub(last)
			last = now
			if a.asked-a.acked >= inFlight || a.live.Sim.Done() {
				continue // the cluster waits for the service
			}
			at += step(real, a.o.Speedup)
			if err := a.live.Sim.RunUntil(ctx, at); err != nil {
				return err
			}
		}
	}
}

// apply puts an offered configuration into force and acknowledges it. One that
// cannot be read is refused, with the reason.
func (a *agent) apply(ctx context.Context, at time.Duration, offer *pb.Configuration) error {
	now := offer.GetEpoch()
	if now.GetCounter() < a.offer.GetEpoch().GetCounter() { // of an older copy of the service's store
		if a.o.Lost != nil {
			a.o.Lost(fmt.Errorf("emulate: %s is of epoch %d, before %d, and not applied", offer.Name, now.GetCounter(),
				a.offer.GetEpoch().GetCounter()))
		}
		return nil
	}
	n := len(a.report.Applied)
	if n > 0 && a.report.Applied[n-1].Revision == offer.Revision && now.GetId() == a.offer.GetEpoch().GetId() {
		return nil
	}
	c, err := a.read(offer)
	if err != nil {
		return a.acknowledge(ctx, offer, &pb.Acknowledgement{State: pb.Acknowledgement_REJECTED, Error: err.Error()})
	}
	a.live.Sim.Reconfigure(a.o.Scheduler.New(c))
	return a.applied(ctx, at, offer, c)
}

func (a *agent) applied(ctx context.Context, at time.Duration, offer *pb.Configuration, c space.Config) error {
	x := Applied{At: a.wall(at), Revision: offer.GetRevision(), Config: c, Reason: offer.GetReason()}
	if offer == nil {
		x.Reason = "read from " + a.o.File.Path
	} else {
		a.offer = offer
		a.live.Applied(at, fmt.Sprint(offer.Revision))
	}
	a.report.Applied = append(a.report.Applied, x)
	if a.o.Applied != nil {
		a.o.Applied(x)
	}
	if offer == nil {
		return nil // the adapter says so
	}
	return a.acknowledge(ctx, offer, &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED,
		EffectiveParameters: offer.Parameters,
		AppliedTime:         timestamppb.New(a.wall(at))})
}

func (a *agent) acknowledge(ctx context.Context, offer *pb.Configuration, ack *pb.Acknowledgement) error {
	ack.InstanceId = instance
	req := &pb.AcknowledgeConfigurationRequest{Name: offer.Name, Acknowledgement: ack, ContentHash: offer.ContentHash,
		Epoch: offer.Epoch}
	_, err := a.config.AcknowledgeConfiguration(ctx, req)
	for gone(err) { // it may be said again safely
		if err := pause(ctx); err != nil {
			return err
		}
		_, err = a.config.AcknowledgeConfiguration(ctx, req, grpc.WaitForReady(true))
	}
	if status.Code(err) == codes.FailedPrecondition {
		return nil // another epoch came in between; what it offers is next
	}
	if err != nil {
		return fmt.Errorf("emulate: acknowledge %s: %w", offer.Name, err)
	}
	return nil
}

// read turns a configuration of the API into one of the scheduler's space.
func (a *agent) read(c *pb.Configuration) (space.Config, error) {
	values := map[string]any{}
	for id, v := range c.GetParameters() {
		values[id] = v.AsInterface()
	}
	b, err := json.Marshal(values)
	if err != nil {
		return space.Config{}, fmt.Errorf("emulate: %s: %w", c.GetName(), err)
	}
	out, err := a.o.Scheduler.Space.ParseJSON(b)
	if err != nil {
		return out, fmt.Errorf("emulate: %s: %w", c.GetName(), err)
	}
	return out, nil
}

func (a *agent) wall(at time.Duration) time.Time { return a.o.Workload.Zero().Add(at) }

// step is how far the emulated clock moves in a real time.
func step(real time.Duration, speedup float64) time.Duration {
	return time.Duration(min(float64(real)*speedup, float64(maxStep)))
}

// flush sends what has been collected, as far as the service keeps up: beyond
// that, sending would block on answers that are not received.
func (a *agent) flush() error {
	if a.fault != nil {
		return a.fault
	}
	for len(a.batch) > 0 && a.asked-a.acked < inFlight {
		n := min(len(a.batch), maxBatch)
		a.asked++
		req := &pb.IngestEventsRequest{Parent: a.name, Sequence: a.asked, Events: a.batch[:n:n]}
		a.unanswered = append(a.unanswered, req)
		a.batch = a.batch[n:]
		if err := a.link.stream.Send(req); err != nil {
			return errors.Join(<-a.link.failed, err) // the stream's end says why
		}
	}
	if len(a.batch) == 0 {
		a.batch = nil
	}
	return nil
}

// answered forgets the batches that are on the service's disk by now. Each event
// is counted once, whether the service had it already when it was sent again or
// not.
func (a *agent) answered(sequence int64) {
	a.acked = sequence
	for len(a.unanswered) > 0 && a.unanswered[0].Sequence <= sequence {
		a.report.Events += len(a.unanswered[0].Events)
		a.unanswered = a.unanswered[1:]
	}
}

var kinds = map[workload.EventKind]pb.Event_Kind{
	workload.Submitted: pb.Event_SUBMITTED, workload.Started: pb.Event_STARTED, workload.Preempted: pb.Event_PREEMPTED,
	workload.Resumed: pb.Event_RESUMED, workload.Resized: pb.Event_RESIZED, workload.Finished: pb.Event_FINISHED,
	workload.ConfigApplied: pb.Event_CONFIG_APPLIED,
}

var ends = map[workload.Status]pb.JobDetails_EndStatus{
	workload.Completed: pb.JobDetails_COMPLETED, workload.Cancelled: pb.JobDetails_CANCELLED,
	workload.Failed: pb.JobDetails_FAILED,
}

// collect turns an event of the emulated cluster into a message.
func (a *agent) collect(e workload.Event) {
	kind, ok := kinds[e.Kind]
	if !ok {
		a.fault = fmt.Errorf("emulate: no message for event kind %v", e.Kind)
		return
	}
	m := &pb.Event{EventId: e.ID, Kind: kind, SchedulerTime: timestamppb.New(a.wall(e.Time))}
	fmt.Sscan(e.Revision, &m.ConfigurationRevision)
	if e.Kind == workload.ConfigApplied {
		m.InstanceId, m.ContentHash, m.Epoch = instance, a.offer.GetContentHash(), a.offer.GetEpoch()
	}
	if e.Job.ID != "" {
		m.Job = &pb.JobDetails{JobId: e.Job.ID, User: e.Job.User, Tenant: e.Job.Tenant, Key: e.Job.Key,
			Model:     e.Job.Model,
			MilliGpus: int64(e.Job.GPUs), EndStatus: ends[e.Job.Status]}
		if e.Job.Deadline != 0 {
			m.Job.DeadlineTime = timestamppb.New(a.wall(e.Job.Deadline))
		}
	}
	for _, n := range e.Placement {
		m.Placement = append(m.Placement, &pb.NodePlacement{NodeId: n.Node, Gpus: int32(n.GPUs)})
	}
	m.SharesGpusWith, m.Pool = e.SharesWith, int32(e.Pool)
	if e.HasLevel {
		m.LevelAttained = durationpb.New(e.LevelAttained)
	}
	if e.LeaseUntil > 0 {
		m.LeaseExpireTime = timestamppb.New(a.wall(e.LeaseUntil))
	}
	a.batch = append(a.batch, m)
}
