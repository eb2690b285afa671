// Package conformance checks a client of the API, in any language, against the rules of docs/clients.md for
// clients. It serves the API from a script: the client under test connects to it as to the service,
// and meets lost connections, restored stores, refusals and its own crashes. A scheduler that is called
// instead is called by the script.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/space"
)

// Outcome is that of a check.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "PASS"
	Fail    Outcome = "FAIL"
	Skipped Outcome = "SKIPPED"
)

// Result is the outcome of a check.
type Result struct {
	Check string `json:"check"`
	// Expected is the behaviour that a client must have.
	Expected string  `json:"expected"`
	Outcome  Outcome `json:"outcome"`
	// Reason is the client's behaviour instead, or why the check was skipped.
	Reason string `json:"reason,omitempty"`
}

// Options select the client under test.
type Options struct {
	// Listener is where a client under test connects.
	Listener net.Listener
	// Agent, if set, is a SchedulerAgent under test, which is called instead. It needs Registered.
	Agent grpc.ClientConnInterface
	// Space checks a registration and returns its space.
	Space func(*pb.CreateSchedulerRequest) (*space.Space, error)
	// Registered is a scheduler that is registered before the client connects, for clients that register
	// none.
	Registered *pb.CreateSchedulerRequest
	// Refused are values by parameter that the client refuses. Nil: a configuration with a parameter
	// that does not exist takes their place.
	Refused space.Values
	// Start starts the client and returns a function that kills it. Nil: it is started by
	// hand, and its crashes are not checked.
	Start func() (kill func(), err error)
	// OneLife leaves out the crashes of a client that cannot be started again.
	OneLife bool
	// Only names the checks to run, besides the ones that all others need. Nil means all.
	Only []string
	// Patience is how long the client has for each step.
	Patience time.Duration
	// Report is called with each result.
	Report func(Result)
}

// Names lists the checks of clients or agents, in order.
func Names(agents bool) []string {
	list := checks
	if agents {
		list = agentChecks
	}
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	return names
}

// Run checks a client or an agent, and returns the results in order. An error means that it could not be
// checked.
func Run(ctx context.Context, o Options) ([]Result, error) {
	s, err := newService(&o)
	if err != nil {
		return nil, err
	}
	t, list := &tester{o: &o, s: s, ctx: ctx}, checks
	if o.Agent != nil {
		if o.Registered == nil {
			return nil, errors.New("conformance: an agent needs a registered scheduler, of which configurations are drawn")
		}
		t.agent, list = pb.NewSchedulerAgentClient(o.Agent), agentChecks
	} else {
		defer s.serve(o.Listener)()
	}
	defer t.kill()
	if err := t.start(); err != nil {
		return nil, fmt.Errorf("start of the client: %w", err)
	}
	for _, c := range list {
		if !c.needed && o.Only != nil && !slices.Contains(o.Only, c.name) {
			continue
		}
		t.run(c)
		if ctx.Err() != nil {
			return t.results, ctx.Err()
		}
		if t.results[len(t.results)-1].Outcome == Fail && c.needed {
			break // nothing that follows would say more
		}
	}
	return t.results, nil
}

// serve serves the API until the function that it returns is called.
func (s *service) serve(l net.Listener) (end func()) {
	server := grpc.NewServer()
	pb.RegisterTuningServiceServer(server, s)
	pb.RegisterConfigurationServiceServer(server, &configurations{service: s})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() {
		s.end()
		server.Stop()
		<-served
	}
}

// tester runs the checks.
type tester struct {
	o       *Options
	s       *service
	ctx     context.Context
	results []Result
	stop    func() // kills the client; nil if it is not running

	agent   pb.SchedulerAgentClient // nil if clients are checked
	answers []answer
	runs    *pb.Configuration // for the agent to describe
	whole   bool              // it answered that it applied that as sent
}

func (t *tester) start() error {
	if t.o.Start == nil || t.stop != nil {
		return nil
	}
	stop, err := t.o.Start()
	t.stop = stop
	return err
}

func (t *tester) kill() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// skip ends a check that does not apply to the client.
type skip string

func (s skip) Error() string { return string(s) }

func (t *tester) run(c check) {
	r := Result{Check: c.name, Expected: c.expected, Outcome: Pass}
	switch err := c.run(t).(type) {
	case nil:
	case skip:
		r.Outcome, r.Reason = Skipped, err.Error()
	default:
		r.Outcome, r.Reason = Fail, err.Error()
	}
	t.results = append(t.results, r)
	if t.o.Report != nil {
		t.o.Report(r)
	}
}

// until waits for the client to do something.
func (t *tester) until(what string, done func() bool) error {
	deadline := time.NewTimer(t.o.Patience)
	defer deadline.Stop()
	for {
		t.s.mu.Lock()
		ok, changed := done(), t.s.changed
		t.s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			return t.ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("no %s within %v", what, t.o.Patience)
		}
	}
}

// settle gives the client time for forbidden actions.
func (t *tester) settle() {
	select {
	case <-t.ctx.Done():
	case <-time.After(min(t.o.Patience/100, time.Second/4)):
	}
}
