// Package push configures schedulers that are called: they implement SchedulerAgent, and the
// service calls the addresses that its own configuration names. Each agent is an ordinary instance of
// its scheduler: a client of the API follows the configuration, applies it at the agent, reads back
// the values in force, and acknowledges them. It pulls the agent's events as well.
package push

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

// Pusher calls agents.
type Pusher struct {
	agents []*agent
	up     *prometheus.GaugeVec
	in     *prometheus.GaugeVec
	pushes *prometheus.CounterVec
}

// New opens a connection to each agent, and one to the service by connect. It calls nothing.
func New(agents []Agent, connect func(scheduler string) (*grpc.ClientConn, error), log *slog.Logger) (*Pusher, error) {
	labels := []string{"scheduler", "instance"}
	p := &Pusher{
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "autosched_agent_up",
			Help: "Whether the last call of an agent was answered."}, labels),
		in: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "autosched_agent_revision",
			Help: "The revision that was last read back from an agent."}, labels),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "autosched_agent_pushes_total",
			Help: "Configurations sent to agents, by outcome: applied, refused or failed."}, append(labels, "outcome")),
	}
	for _, o := range agents {
		to, err := o.Dial()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("agent %s: %w", o.Address, err), p.Close())
		}
		a := &agent{Agent: o, conn: to, remote: pb.NewSchedulerAgentClient(to),
			log:    log.With("scheduler", o.Scheduler, "instance", o.Instance, "agent", o.Address),
			up:     p.up.WithLabelValues(o.Scheduler, o.Instance),
			in:     p.in.WithLabelValues(o.Scheduler, o.Instance),
			pushes: p.pushes.MustCurryWith(prometheus.Labels{"scheduler": o.Scheduler, "instance": o.Instance})}
		p.agents = append(p.agents, a)
		if a.service, err = connect(o.Scheduler); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		if a.client, err = client.New(client.Options{Conn: a.service, Scheduler: o.Scheduler, Instance: o.Instance,
			Apply: a.apply, Notify: a.notify}); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Describe implements [prometheus.Collector].
func (p *Pusher) Describe(c chan<- *prometheus.Desc) {
	p.up.Describe(c)
	p.in.Describe(c)
	p.pushes.Describe(c)
}

// Collect implements [prometheus.Collector].
func (p *Pusher) Collect(c chan<- prometheus.Metric) {
	p.up.Collect(c)
	p.in.Collect(c)
	p.pushes.Collect(c)
}

// Close closes the connections.
func (p *Pusher) Close() (err error) {
	for _, a := range p.agents {
		err = errors.Join(err, a.conn.Close())
		if a.service != nil {
			err = errors.Join(err, a.service.Close())
		}
	}
	return err
}

// Run calls the agents until the context ends.
func (p *Pusher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, a := range p.agents {
		for _, loop := range []func(context.Context){a.follow, a.pull, a.look} {
			wg.Go(func() { loop(ctx) })
		}
	}
	wg.Wait()
}

// agent is a scheduler that is called.
type agent struct {
	Agent
	conn, service *grpc.ClientConn
	remote        pb.SchedulerAgentClient
	client        *client.Client
	log           *slog.Logger
	up, in        prometheus.Gauge
	pushes        *prometheus.CounterVec

	calling sync.Mutex // one application or look at a time
	mu      sync.Mutex
	inForce *pb.Configuration          // nil before the first
	values  map[string]*structpb.Value // read back after it was applied
	cut     context.CancelCauseFunc    // ends the stream of events
	token   string                     // resumes it
}

const again = time.Second // after a refusal by the service, and a lost stream

// follow applies configurations. A client that ends is started again: the scheduler may be
// registered later.
func (a *agent) follow(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		err := a.client.Run(ctx)
		if ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			a.log.Warn("the service refuses the agent", "err", err)
		}
		client.Sleep(ctx, again)
	}
}

func (a *agent) notify(err error) { a.log.Warn("trying again", "err", err) }

// apply puts a configuration into force at the agent and returns the values read back.
func (a *agent) apply(ctx context.Context, c *pb.Configuration) (map[string]*structpb.Value, error) {
	a.calling.Lock()
	defer a.calling.Unlock()
	ctx, cancel := context.WithTimeout(ctx, a.Deadline)
	defer cancel()
	values, err := a.applyOnce(ctx, c)
	switch {
	case errors.Is(err, client.ErrRefused):
		a.pushes.WithLabelValues("refused").Inc()
	case err != nil:
		a.pushes.WithLabelValues("failed").Inc()
	default:
		a.pushes.WithLabelValues("applied").Inc()
	}
	if err != nil {
		a.log.Warn("configuration not applied", "revision", c.GetRevision(), "err", err)
		return nil, err
	}
	a.log.Info("configuration applied", "revision", c.GetRevision(), "differing", len(client.Differing(c, values)))
	a.in.Set(float64(c.GetRevision()))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inForce != nil && a.inForce.GetEpoch().GetId() != c.GetEpoch().GetId() {
		a.token = "" // the store may have lost events
		if a.cut != nil {
			a.cut(errors.New("new epoch of the store"))
		}
	}
	a.inForce, a.values = c, values
	return values, nil
}

func (a *agent) applyOnce(ctx context.Context, c *pb.Configuration) (map[string]*structpb.Value, error) {
	got, err := a.remote.ApplyConfiguration(ctx, &pb.ApplyConfigurationRequest{Configuration: c})
	a.answered(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("ApplyConfiguration: %w", err)
	}
	switch ack := got.GetAcknowledgement(); ack.GetState() {
	case pb.Acknowledgement_APPLIED, pb.Acknowledgement_PARTIALLY_APPLIED:
	case pb.Acknowledgement_REJECTED:
		return nil, fmt.Errorf("%w: %s", client.ErrRefused, ack.GetError())
	case pb.Acknowledgement_FAILED:
		return nil, fmt.Errorf("the agent failed: %s", ack.GetError())
	default:
		return nil, fmt.Errorf("ApplyConfiguration: the agent answers with state %v", ack.GetState())
	}
	return a.describe(ctx, c)
}

// describe reads back the values in force, which must have the revision and all its parameters.
func (a *agent) describe(ctx context.Context, c *pb.Configuration) (map[string]*structpb.Value, error) {
	got, err := a.remote.DescribeParameters(ctx, &pb.DescribeParametersRequest{})
	a.answered(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("DescribeParameters: %w", err)
	}
	if got.GetRevision() != c.GetRevision() {
		return nil, fmt.Errorf("DescribeParameters: revision %d is in force, not %d", got.GetRevision(),
			c.GetRevision())
	}
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(c.GetParameters())) {
		if got.GetParameters()[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("DescribeParameters: %s is missing", strings.Join(missing, ", "))
	}
	return got.GetParameters(), nil
}

// answered keeps the metric of calls that ended by themselves.
func (a *agent) answered(ctx context.Context, err error) {
	switch {
	case err == nil:
		a.up.Set(1)
	case !errors.Is(ctx.Err(), context.Canceled):
		a.up.Set(0)
	}
}

// look reads back from time to time, and has the configuration applied again where something
// else is in force: the agent restarted, say.
func (a *agent) look(ctx context.Context) {
	for client.Sleep(ctx, a.Interval) {
		a.lookOnce(ctx)
	}
}

func (a *agent) lookOnce(ctx context.Context) {
	a.calling.Lock()
	defer a.calling.Unlock()
	a.mu.Lock()
	c, applied := a.inForce, a.values
	a.mu.Unlock()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.Deadline)
	defer cancel()
	values, err := a.describe(ctx, c)
	switch {
	case ctx.Err() != nil || status.Code(err) == codes.Unavailable: // which says nothing about the values in force
	case err != nil || !equal(values, applied):
		a.log.Warn("something else is in force: applying again", "revision", c.GetRevision(), "err", err)
		a.client.Reapply()
	}
}

func equal(a, b map[string]*structpb.Value) bool {
	return maps.EqualFunc(a, b, func(x, y *structpb.Value) bool { return proto.Equal(x, y) })
}

// pull streams the agent's events to the service. An agent that does not implement that may
// send them itself.
func (a *agent) pull(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		err := a.pullOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case status.Code(err) == codes.Unimplemented:
			a.log.Info("the agent has no events")
			return
		case err.Error() != last:
			last = err.Error()
			a.log.Warn("the agent's events are not received", "err", err)
		}
		client.Sleep(ctx, again)
	}
}

func (a *agent) pullOnce(ctx context.Context) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	a.mu.Lock()
	a.cut = cut
	token := a.token
	a.mu.Unlock()
	stream, err := a.remote.StreamEvents(ctx, &pb.StreamEventsRequest{ResumeToken: token})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		// The client keeps them until they are stored. If this process ends before, the
		// agent is asked without a token.
		if err := a.client.Send(ctx, m.GetEvents()...); err != nil {
			return err
		}
		a.mu.Lock()
		if ctx.Err() == nil {
			a.token = m.GetResumeToken()
		}
		a.mu.Unlock()
	}
}

// Agent is a scheduler that is called, and how.
type Agent struct {
	// Scheduler is the id of the scheduler, Instance that of its instance that answers.
	Scheduler string `yaml:"scheduler"`
	Instance  string `yaml:"instance"`
	// Endpoint is where it answers.
	client.Endpoint `yaml:",inline"`
	// AllowPlaintext lets an address other than loopback be called unencrypted.
	AllowPlaintext bool `yaml:"allow-plaintext"`
	// Deadline bounds an application with its reading back; 10 s if 0.
	Deadline time.Duration `yaml:"deadline"`
	// Interval is the time between looks at the values in force; 30 s if 0.
	Interval time.Duration `yaml:"interval"`
}

const (
	defaultDeadline = 10 * time.Second
	defaultInterval = 30 * time.Second
)

// ReadAgents reads a YAML file of the agents to call:
//
//	agents:
//	  - scheduler: prod
//	    address: scheduler.example.org:7500
//	    tls-ca: pki/ca.pem
//	    tls-cert: pki/autosched.pem
//	    tls-key: pki/autosched.key
//
// Unknown fields and two agents of one instance are errors, which name the line.
func ReadAgents(path string) ([]Agent, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	agents, err := parseAgents(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return agents, nil
}

func parseAgents(text []byte) ([]Agent, error) {
	var file struct {
		Agents []Agent `yaml:"agents"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Agents) == 0 {
		return nil, errors.New("has no agents: name at least one under agents")
	}
	var nodes struct {
		Agents []yaml.Node `yaml:"agents"`
	}
	if err := yaml.Unmarshal(text, &nodes); err != nil {
		return nil, err
	}
	seen := map[[2]string]bool{}
	for i := range file.Agents {
		a := &file.Agents[i]
		err := a.check()
		if id := [2]string{a.Scheduler, a.Instance}; err == nil && seen[id] {
			err = fmt.Errorf("instance: %q of scheduler %s is another agent's, too", a.Instance, a.Scheduler)
		} else {
			seen[id] = true
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: agents[%d].%w", nodes.Agents[i].Line, i, err)
		}
	}
	return file.Agents, nil
}

// check checks the fields and sets defaults.
func (a *Agent) check() error {
	switch {
	case a.Scheduler == "":
		return errors.New("scheduler: is missing: the id of a scheduler")
	case a.Address == "":
		return errors.New("address: is missing: host:port at which the scheduler answers")
	case a.Deadline < 0:
		return fmt.Errorf("deadline: %v is negative", a.Deadline)
	case a.Interval < 0:
		return fmt.Errorf("interval: %v is negative", a.Interval)
	}
	a.Deadline, a.Interval = cmp.Or(a.Deadline, defaultDeadline), cmp.Or(a.Interval, defaultInterval)
	return a.CheckCalled(a.AllowPlaintext)
}
