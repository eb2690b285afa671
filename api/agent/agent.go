// Package agent is an emulated scheduler on an emulated cluster. A trace feeds it, in
// accelerated time. Its instances register, send events, and follow and acknowledge
// configurations by package client. It shows and tests the whole loop without a GPU; faults
// make it a scheduler that misbehaves.
package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
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
	// Mode and Rollout are settings of a new registration; unset for
	// AUTO, and for the service's defaults.
	Mode    pb.SchedulerSpec_Mode
	Rollout *pb.RolloutPolicy
	// Speedup is emulated time over real time, above 0 and at most MaxSpeedup. The emulated cluster waits while the
	// service decides, as a round takes little of an interval in real time.
	Speedup float64
	// Instances of the scheduler; 1 if 0. The first schedules the cluster and sends its
	// events. The others are replicas that stand by: they apply and acknowledge.
	Instances int
	Faults    Faults
	// Addresses, if set, are where the service calls each instance as a SchedulerAgent, in place of
	// Conn: the emulation registers nothing.
	Addresses []string
	// File, if set, has the configuration of each instance, in the words of the scheduler: the
	// emulation follows and acknowledges nothing, as that is left to an adapter of each.
	File *File
	// Progress is called about a hundred times a second.
	Progress func(Progress)
	// Applied is called for every configuration that the first instance put into force.
	Applied func(Applied)
	// Notify is called with faults, which are tried again, and with every fault, from
	// several goroutines.
	Notify func(error)
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
	Applied   []Applied `json:"applied"` // by the first instance
	// Instances are the counts of each; Lost the events that were never sent.
	Instances []Instance `json:"instances"`
	Lost      int        `json:"events_lost"`
	simulator.Summary
}

// MaxSpeedup bounds Options.Speedup: nearly three hours in a tick, beyond an interval of rounds.
const MaxSpeedup = 1e6

// MaxInstances bounds Options.Instances.
const MaxInstances = 100

const (
	tick = 10 * time.Millisecond
	// maxStep bounds the emulated time between two looks at the
	// service, also after this process was held up.
	maxStep = 24 * time.Hour
	// lossNoticed is the emulated time after which a scheduler that lost events sends a snapshot.
	lossNoticed = time.Hour
)

// agent is a running emulation.
type agent struct {
	o         Options
	name      string
	instances []*instance

	mu     sync.Mutex // guards the following: instances apply in goroutines of their own
	live   live.Cluster
	began  bool              // the first configuration is in force
	offer  *pb.Configuration // that the first instance applied last
	at     time.Duration     // emulated
	batch  []*pb.Event
	fault  error // ends the emulation
	report Report
	chance *chance
	lost   time.Duration // when events were lost that no snapshot made up for; 0 for none

	feed feed // with a lock of its own, which comes after mu
}

// Run emulates until the last job has ended, every event is acknowledged and the service has decided on them. If
// the context ends first, its error is returned.
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
	if o.Instances == 0 {
		o.Instances = max(1, len(o.Addresses))
	}
	if len(o.Addresses) > 0 && (len(o.Addresses) != o.Instances || o.File != nil) {
		return nil, fmt.Errorf("emulate: addresses: %d for %d instances, which have no file", len(o.Addresses),
			o.Instances)
	}
	if o.Instances < 1 || o.Instances > MaxInstances {
		return nil, fmt.Errorf("emulate: instances: %d is not from 1 to %d", o.Instances, MaxInstances)
	}
	if err := o.Faults.Check(); err != nil {
		return nil, fmt.Errorf("emulate: faults: %w", err)
	}
	if o.Notify == nil {
		o.Notify = func(error) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &agent{o: o, name: "schedulers/" + o.ID, chance: o.Faults.chance(0)}
	a.report.Scheduler = a.name
	// Jobs that cannot be emulated are not registered, being wider than the cluster.
	if err := a.live.Sim.Start(o.Cluster, o.Workload, o.Scheduler.New(o.Scheduler.Space.Default()),
		o.Simulate); err != nil {
		return nil, err
	}
	if len(o.Addresses) == 0 {
		if err := a.register(ctx); err != nil {
			return nil, err
		}
	}
	a.feed.more = make(chan struct{})
	a.live.Send = a.collect
	a.at, _ = o.Workload.Span()
	for n := range o.Instances {
		a.instances = append(a.instances, a.newInstance(n))
	}
	ended := make(chan error, o.Instances)
	for _, i := range a.instances {
		go func() { ended <- i.run(ctx) }()
	}
	err := a.loop(ctx, ended)
	cancel()
	for range a.instances {
		<-ended
	}
	if err != nil {
		return nil, err
	}
	for _, i := range a.instances {
		a.report.Instances = append(a.report.Instances, i.Instance)
	}
	a.report.Events = a.instances[0].answered()
	a.report.Summary = a.live.Sim.Summarize()
	return &a.report, nil
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
	c, err := client.New(client.Options{Conn: a.o.Conn, Scheduler: a.o.ID, Notify: a.o.Notify})
	if err != nil {
		return fmt.Errorf("emulate: %w", err)
	}
	there, created, err := c.Register(ctx, &pb.Scheduler{DisplayName: "emulated " + a.o.Scheduler.Name, Spec: spec})
	if err != nil {
		return fmt.Errorf("emulate: %w", err)
	}
	if created {
		return nil
	}
	if got := there.Spec.Cluster; there.Spec.SchedulerType != spec.SchedulerType ||
		got.GetNodes() != spec.Cluster.Nodes || got.GetGpusPerNode() != spec.Cluster.GpusPerNode {
		return fmt.Errorf("emulate: %s is registered as %s on %s, not as %s on %s: use another id",
			a.name, there.Spec.SchedulerType, workload.Uniform(int(got.GetNodes()), int(got.GetGpusPerNode())),
			spec.SchedulerType, a.o.Cluster)
	}
	if there.Status.GetEventCount() > 0 {
		return fmt.Errorf(
			"emulate: %s has events already, and an emulation starts from an empty cluster: use another id", a.name)
	}
	return nil
}

// loop runs the emulated cluster.
func (a *agent) loop(ctx context.Context, ended chan error) error {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	last := time.Now()
	for {
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-a.o.File.reloads():
			for _, i := range a.instances {
				i.file.reload()
			}
			continue
		case <-clock.C:
		}
		now := time.Now()
		real := now.Sub(last)
		last = now
		first := a.instances[0]
		free, interval := first.waiting() == 0 && first.up(), time.Duration(0)
		if free {
			var err error
			if free, interval, err = a.service(ctx); err != nil {
				return err
			}
		}
		if !free {
			real = 0 // the cluster waits for the service, or for its scheduler
		}
		done, batch, err := a.advance(ctx, step(real, a.o.Speedup), interval)
		if err != nil {
			return err
		}
		if err := first.send(ctx, batch); err != nil {
			return err
		}
		if done && free && len(batch) == 0 {
			return nil
		}
	}
}

// service reports whether the service has decided on the events that it has, and how often it decides, 0 if that is
// not known. A service that does not answer is asked again.
func (a *agent) service(ctx context.Context) (free bool, interval time.Duration, err error) {
	if len(a.o.Addresses) > 0 {
		return true, 0, nil // the service calls, and cannot be asked
	}
	s, err := pb.NewTuningServiceClient(a.o.Conn).GetScheduler(ctx, &pb.GetSchedulerRequest{Name: a.name})
	if client.Transient(err) {
		return false, 0, nil
	}
	return !s.GetStatus().GetDeciding(), s.GetSpec().GetRollout().GetUpdateInterval().AsDuration(), err
}

// advance moves the cluster on, at most to the next instant of a round, and returns the events since the last call.
// done reports whether all jobs have ended.
func (a *agent) advance(ctx context.Context, step, interval time.Duration) (done bool, batch []*pb.Event, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault != nil {
		return false, nil, a.fault
	}
	if !a.began {
		return false, nil, nil
	}
	if done = a.live.Sim.Done(); !done && step > 0 {
		if interval > 0 {
			at := a.wall(a.at)
			step = min(step, at.Truncate(interval).Add(interval).Sub(at))
		}
		a.at += step
		if err := a.live.Sim.RunUntil(ctx, a.at); err != nil {
			return false, nil, err
		}
	}
	if a.lost > 0 && (a.at-a.lost > lossNoticed || done) {
		a.lost = 0
		e := a.taken()
		e.EventId = fmt.Sprint("after-loss-", a.at.Nanoseconds())
		a.batch = append(a.batch, e)
	}
	if a.o.Progress != nil {
		a.o.Progress(Progress{At: a.wall(a.at), Active: a.live.Sim.Active(), Waiting: a.live.Sim.Waiting(),
			Events: a.instances[0].answered()})
	}
	batch, a.batch = a.batch, nil
	return done, batch, nil
}

// reconfigure puts a configuration into force in the emulated cluster.
func (a *agent) reconfigure(c space.Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.began {
		sim := a.o.Simulate
		sim.Observer = a.live.Observe
		if err := a.live.Sim.Start(a.o.Cluster, a.o.Workload, a.o.Scheduler.New(c), sim); err != nil {
			a.fault = err
			return err
		}
		a.began = true
	} else {
		a.live.Sim.Reconfigure(a.o.Scheduler.New(c))
	}
	return nil
}

// applied reports that the first instance runs a configuration, or says so; nil is that of a file, which an
// adapter acknowledges.
func (a *agent) applied(offer *pb.Configuration, c space.Config) {
	a.mu.Lock()
	x := Applied{At: a.wall(a.at), Revision: offer.GetRevision(), Config: c, Reason: offer.GetReason()}
	if offer == nil {
		x.Reason = "read from " + a.o.File.Path
	} else {
		a.offer = offer
		a.live.Applied(a.at, fmt.Sprint(offer.Revision))
	}
	a.report.Applied = append(a.report.Applied, x)
	a.mu.Unlock()
	if a.o.Applied != nil {
		a.o.Applied(x)
	}
}

// now is the emulated time.
func (a *agent) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wall(a.at)
}

// paused notes that tuning is paused or, with nil, resumed.
func (a *agent) paused(p *pb.WatchConfigurationsResponse_Paused) {
	if p == nil {
		a.o.Notify(fmt.Errorf("tuning of %s is resumed", a.name))
	} else {
		a.o.Notify(fmt.Errorf("tuning of %s is paused by %q: %s", a.name, p.GetActor(), p.GetReason()))
	}
}

// snapshot returns the state of the cluster.
func (a *agent) snapshot() *pb.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken()
}

func (a *agent) taken() *pb.Event {
	out := &pb.Event{Kind: pb.Event_SNAPSHOT, SchedulerTime: timestamppb.New(a.wall(a.at)), Snapshot: &pb.Snapshot{}}
	if !a.began {
		return out
	}
	sim := &a.live.Sim
	for id := range sim.Submitted() {
		if !sim.JobActive(id) {
			continue
		}
		e := live.Report(sim, simulator.Event{Kind: workload.Started, Job: id, Time: a.at}, a.live.Revision)
		spec := sim.Spec(id)
		job := &pb.ActiveJob{Job: convert.JobToProto(spec, a.o.Workload.Zero()),
			SubmitTime: timestamppb.New(a.wall(spec.Submit)), Running: sim.JobRunning(id), Pool: int32(e.Pool)}
		job.Job.EndStatus = pb.JobDetails_END_STATUS_UNSPECIFIED
		if job.Running {
			job.Placement, job.SharesGpusWith = convert.PlacementToProto(e.Placement), e.SharesWith
		} else if until := sim.JobEligible(id); until > a.at {
			job.HoldUntilTime = timestamppb.New(a.wall(until))
		}
		out.Snapshot.Jobs = append(out.Snapshot.Jobs, job)
	}
	return out
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

// collect turns an event of the emulated cluster into a message.
func (a *agent) collect(e workload.Event) {
	if a.chance.happens(a.o.Faults.Lose) {
		a.report.Lost++
		if a.lost == 0 {
			a.lost = max(e.Time, 1)
		}
		return
	}
	if e.Kind == workload.ConfigApplied {
		e.Instance, e.Hash = a.instances[0].ID, a.offer.GetContentHash()
		e.Epoch = workload.Epoch{ID: a.offer.GetEpoch().GetId(), Counter: a.offer.GetEpoch().GetCounter()}
	}
	a.batch = append(a.batch, convert.EventToProto(&e, a.o.Workload.Zero()))
}

// File is the configuration file of an emulated scheduler.
type File struct {
	// Path is the file of the first instance. The files of the others have .2, .3 and so on added.
	Path string
	// Reload has the instances read their files again. The new values of an instance are written to its file's
	// name with ".running" added, below the reason if it refuses the file.
	Reload <-chan os.Signal
}

// reloads is nil for a scheduler without a file, so that nothing comes.
func (f *File) reloads() <-chan os.Signal {
	if f == nil {
		return nil
	}
	return f.Reload
}

// configured is an instance that has its configuration from a file.
type configured struct {
	i      *instance
	path   string
	wake   chan struct{} // has it read the file again
	text   []byte        // last read
	runs   space.Config  // that it says it runs
	answer string        // why it refused the text; "" if it did not
}

func (i *instance) configuredBy(f *File, n int) *configured {
	c := &configured{i: i, path: f.Path, wake: make(chan struct{}, 1)}
	if n > 0 {
		c.path = fmt.Sprint(f.Path, ".", n+1)
	}
	return c
}

// reload does not wait for an instance that is down or hangs: it reads its file when it can.
func (c *configured) reload() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin starts a life with the file's values. Without one the scheduler runs its defaults.
func (c *configured) begin(ctx context.Context) error {
	text, config, err := c.read()
	if errors.Is(err, fs.ErrNotExist) {
		config, err = c.i.agent.o.Scheduler.Space.Default(), nil
	}
	if err == nil {
		c.text, c.answer = text, ""
		c.runs, err = c.i.put(ctx, c.path, config, nil)
	}
	if err != nil {
		return err
	}
	return c.say()
}

// follow reads the file again after each reload.
func (c *configured) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		text, config, err := c.read()
		if err == nil && bytes.Equal(text, c.text) {
			err = c.say() // nothing new
		} else {
			c.text, c.answer = text, ""
			if err == nil && !config.Equal(c.runs) {
				config, err = c.i.put(ctx, c.path, config, nil)
			}
			if ctx.Err() != nil {
				return // it crashed
			}
			if err != nil {
				c.answer = err.Error()
			} else {
				c.runs = config
			}
			err = c.say()
		}
		if err != nil {
			c.i.agent.o.Notify(err)
		}
	}
}

func (c *configured) read() (text []byte, config space.Config, err error) {
	if text, err = os.ReadFile(c.path); err != nil {
		return nil, config, err
	}
	s := c.i.agent.o.Scheduler
	values, err := s.Form().Parse(text)
	if err == nil {
		config, err = native.Config(s.Space, values)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.path, err)
	}
	return text, config, err
}

// say writes the values that the scheduler reports.
func (c *configured) say() error {
	text, err := c.i.agent.o.Scheduler.Form().Render(native.ValuesOf(c.runs))
	if err != nil {
		return err
	}
	if c.answer != "" {
		text = append([]byte("# refused: "+strings.ReplaceAll(c.answer, "\n", " ")+"\n"), text...)
	}
	out, err := atomicfile.CreatePlain(c.path + ".running")
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return out.Finish(err)
}
