// Package conformance checks a client of the API, in any language, against the rules of docs/clients.md for
// clients. It serves the API from a script: the client under test connects to it as to the service,
// and meets lost connections, restored stores, refusals and its own crashes. A scheduler that is called
// instead is called by the script.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/native"
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
	var names []string
	for _, c := range list {
		names = append(names, c.name)
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
	client.Sleep(t.ctx, min(t.o.Patience/100, time.Second/4))
}

// check is one thing that clients have to do.
type check struct {
	name, expected string
	run            func(*tester) error
	needed         bool // by all that follow
}

var checks = []check{
	{"register", "CreateScheduler with a valid registration", (*tester).register, true},
	{"follow", "a watch with send_initial_events, or polls", (*tester).follow, true},
	{"apply-first", "the first configuration is acknowledged as in force", (*tester).applyFirst, true},
	{"apply", "a new configuration is acknowledged as in force", (*tester).apply, false},
	{"deadline", "a new configuration is acknowledged within the registration's acknowledge_deadline, after which " +
		"the instance is DEGRADED", (*tester).deadline, false},
	{"newest", "of several new revisions the last one is acknowledged, and none before it afterwards",
		(*tester).newest, false},
	{"retry-acknowledgement", "an acknowledgement that is answered with UNAVAILABLE is sent again",
		(*tester).retryAcknowledgement, false},
	{"late-answer", "after an acknowledgement that is answered late, what is offered meanwhile is acknowledged",
		(*tester).lateAnswer, false},
	{"resume", "after the streams end with UNAVAILABLE the client comes back, and applies what changed meanwhile",
		(*tester).resume, false},
	{"repeated", "a revision that is sent again is not acknowledged in another way", (*tester).repeated, false},
	{"refuse", "a configuration that cannot be applied is acknowledged as REJECTED, FAILED or PARTIALLY_APPLIED",
		(*tester).refuse, false},
	{"after-refusal", "the last good values are applied under their new revision", (*tester).apply, false},
	{"new-epoch", "a lower revision of an epoch with a higher counter is applied, and acknowledged with its epoch",
		(*tester).newEpoch, false},
	{"former-epoch", "a configuration of an epoch with a lower counter is not applied", (*tester).formerEpoch, false},
	{"events-resent", "events that were not answered before the stream ended are sent again", (*tester).eventsResent,
		false},
	{"events-late", "after events that are answered late, further events are sent", (*tester).eventsLate,
		false},
	{"crash-applying", "a client that is killed while it applies a configuration acknowledges it after its start",
		(*tester).crashApplying, false},
	{"crash-acknowledging", "a client that is killed before its acknowledgement is answered sends it after its start",
		(*tester).crashAcknowledging, false},
	{"crash-idle", "a client that was killed applies what changed meanwhile after its start", (*tester).crashIdle,
		false},
	{"acknowledgements", "each names the revision, its content_hash and epoch if any, the instance that watches, and " +
		"the values in force or an error where the state wants them", (*tester).acknowledgements, false},
	{"partial", "PARTIALLY_APPLIED has values in force that differ from those sent", (*tester).partial, false},
	{"events", "each has id, kind, time and what its kind requires, and one content per id", (*tester).events, false},
	{"lives", "by scheduler_time, in any order of sending, a job's events are a life: nothing before SUBMITTED and " +
		"nothing after FINISHED", (*tester).lives, false},
	{"snapshots", "a SNAPSHOT has each active job once, with its id, GPUs and submit_time", (*tester).snapshots, false},
}

func (t *tester) register() error {
	if t.o.Registered != nil {
		return skip("the scheduler was registered before")
	}
	err := t.until("registration", func() bool { return t.s.request != nil || t.s.registering != nil })
	if err == nil {
		t.s.mu.Lock()
		err = t.s.registering
		t.s.mu.Unlock()
	}
	return err
}

func (t *tester) follow() error {
	if err := t.until("watch or poll", func() bool { return len(t.s.follows) > 0 }); err != nil {
		return err
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if f := t.s.follows[0]; !f.poll && !f.initial {
		return errors.New("the first watch is without send_initial_events, and would miss what is on offer")
	}
	return nil
}

// about are the acknowledgements of a configuration. The caller holds the service's lock.
func (t *tester) about(c *pb.Configuration) (out []*pb.AcknowledgeConfigurationRequest) {
	for _, a := range t.s.acks {
		if a.GetName() == c.GetName() && (a.GetEpoch() == nil || a.GetEpoch().GetId() == c.GetEpoch().GetId()) {
			out = append(out, a)
		}
	}
	return out
}

// heard waits until a configuration is acknowledged in any way.
func (t *tester) heard(c *pb.Configuration) error {
	return t.until("acknowledgement of "+c.GetName(), func() bool { return len(t.about(c)) > 0 })
}

// applied waits until a configuration is acknowledged as in force.
func (t *tester) applied(c *pb.Configuration) error {
	var last *pb.Acknowledgement
	err := t.until("acknowledgement that "+c.GetName()+" is in force", func() bool {
		for _, a := range t.about(c) {
			last = a.GetAcknowledgement()
		}
		return inForce(last)
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w, but %v: %s", err, last.GetState(), last.GetError())
	}
	return err
}

func inForce(a *pb.Acknowledgement) bool {
	return a.GetState() == pb.Acknowledgement_APPLIED || a.GetState() == pb.Acknowledgement_PARTIALLY_APPLIED
}

func (t *tester) applyFirst() error {
	t.s.mu.Lock()
	first := t.s.offer
	t.s.mu.Unlock()
	return t.applied(first)
}

func (t *tester) apply() error { return t.applied(t.s.next()) }

// defaultDeadline is the acknowledge_deadline of registrations that have none.
const defaultDeadline = 10 * time.Minute

func (t *tester) deadline() error {
	t.s.mu.Lock()
	registered := t.s.request.GetScheduler().GetSpec().GetRollout().GetAcknowledgeDeadline()
	t.s.mu.Unlock()
	deadline := cmp.Or(registered.AsDuration(), defaultDeadline)
	if deadline < 0 {
		return skip("the registration allows any time")
	}
	began, c := time.Now(), t.s.next()
	if err := t.applied(c); err != nil {
		return err
	}
	if took := time.Since(began); took > deadline {
		return fmt.Errorf("%s is acknowledged after %v, and acknowledge_deadline is %v", c.GetName(),
			took.Round(time.Millisecond), deadline)
	}
	return nil
}

// lag is the time of a service that is slow.
func (t *tester) lag() {
	client.Sleep(t.ctx, min(t.o.Patience/20, 2*time.Second))
}

func (t *tester) lateAnswer() error {
	t.s.set(func() { t.s.holdAck = true })
	defer t.s.set(func() { t.s.holdAck = false })
	c := t.s.next()
	if err := t.heard(c); err != nil {
		return err
	}
	next := t.s.next()
	t.lag()
	t.s.set(func() { t.s.holdAck = false })
	return t.applied(next)
}

func (t *tester) newest() error {
	older := []*pb.Configuration{t.s.next(), t.s.next()}
	last := t.s.next()
	if err := t.applied(last); err != nil {
		return err
	}
	t.settle()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	at := slices.IndexFunc(t.s.acks,
		func(a *pb.AcknowledgeConfigurationRequest) bool { return a.GetName() == last.GetName() })
	for _, a := range t.s.acks[at:] {
		for _, c := range older {
			if a.GetName() == c.GetName() && inForce(a.GetAcknowledgement()) {
				return fmt.Errorf("%s is acknowledged after %s", a.GetName(), last.GetName())
			}
		}
	}
	return nil
}

func (t *tester) retryAcknowledgement() error {
	t.s.set(func() { t.s.failAck = true })
	c := t.s.next()
	return t.until("second acknowledgement of "+c.GetName(), func() bool { return len(t.about(c)) > 1 })
}

func (t *tester) resume() error {
	t.s.set(func() { t.s.away = true })
	t.settle()
	c := t.s.next()
	t.s.set(func() { t.s.away = false })
	return t.applied(c)
}

func (t *tester) repeated() error {
	t.s.mu.Lock()
	c := t.s.offer
	again := proto.CloneOf(c)
	t.s.offer = again // another message, which is sent to each watch
	before := t.s.sent
	t.s.note()
	poll := t.s.follows[len(t.s.follows)-1].poll
	t.s.mu.Unlock()
	if poll {
		return skip("the client polls")
	}
	if err := t.until("watch", func() bool { return t.s.sent > before }); err != nil {
		return err
	}
	t.settle()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, a := range t.about(c) {
		if !inForce(a.GetAcknowledgement()) {
			return fmt.Errorf("it is acknowledged as %v", a.GetAcknowledgement().GetState())
		}
	}
	return nil
}

// refused offers a configuration that the client cannot apply. named reports whether its values were named.
func (t *tester) refused() (c *pb.Configuration, named bool, err error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	values := map[string]*structpb.Value{}
	if t.o.Refused != nil {
		values, err = adapter.ToProto(t.o.Refused)
	}
	if named = len(values) > 0; !named {
		values["no_such_parameter"] = structpb.NewNumberValue(1)
	}
	sent, convert := adapter.ToProto(native.ValuesOf(t.s.another()))
	if err := errors.Join(err, convert); err != nil {
		return nil, named, err
	}
	maps.Copy(sent, values)
	return t.s.put(sent, "refused", t.s.offer.GetRevision()+1), named, nil
}

func (t *tester) refuse() error {
	c, named, err := t.refused()
	if err != nil {
		return err
	}
	if err := t.heard(c); err != nil {
		return err
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.about(c)[0].GetAcknowledgement().GetState() != pb.Acknowledgement_APPLIED {
		return nil
	}
	if !named {
		return skip("the client takes a parameter that does not exist: name values that it refuses")
	}
	return errors.New("it is acknowledged as APPLIED")
}

// restore has another process serve an epoch, which offers another configuration as a revision. It returns how many
// configurations were sent before.
func (t *tester) restore(epoch *pb.Epoch, revision int64) (c *pb.Configuration, sent int) {
	t.s.set(func() {
		t.s.epoch, sent = epoch, t.s.sent
		c = t.s.publish(t.s.another(), revision)
		t.s.streams++
	})
	return c, sent
}

func (t *tester) newEpoch() error {
	c, _ := t.restore(&pb.Epoch{Id: "second", Counter: 3}, 2)
	if err := t.applied(c); err != nil {
		return err
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.about(c)[0].GetEpoch() == nil {
		return errors.New("it is acknowledged without an epoch")
	}
	return nil
}

func (t *tester) formerEpoch() error {
	t.s.mu.Lock()
	right, revision := t.s.epoch, t.s.offer.GetRevision()
	t.s.mu.Unlock()
	c, before := t.restore(&pb.Epoch{Id: "old copy", Counter: 2}, revision+7)
	err := t.until("watch or poll", func() bool { return t.s.sent > before })
	t.settle()
	t.s.mu.Lock()
	wrong := slices.ContainsFunc(t.about(c), func(a *pb.AcknowledgeConfigurationRequest) bool {
		return inForce(a.GetAcknowledgement())
	})
	t.s.mu.Unlock()
	next, _ := t.restore(right, 3)
	switch {
	case err != nil:
		return err
	case wrong:
		return fmt.Errorf("%s of counter 2 is acknowledged as in force, after counter 3", c.GetName())
	}
	if err := t.applied(next); err != nil {
		return fmt.Errorf("back at the right epoch: %w", err)
	}
	return nil
}

// held lets events wait for their answers, and returns the ones that the client sends then, and how many requests it
// had sent by then.
func (t *tester) held() (ids []string, then int, err error) {
	t.s.mu.Lock()
	began := len(t.s.batches)
	t.s.holdEvents = true
	t.s.mu.Unlock()
	if began == 0 {
		return nil, 0, skip("the client sent no events so far")
	}
	if err := t.until("events", func() bool { return len(t.s.batches) > began }); err != nil {
		return nil, 0, skip("the client sends no more events")
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, b := range t.s.batches[began:] {
		for _, e := range b.GetEvents() {
			ids = append(ids, e.GetEventId())
		}
	}
	return ids, len(t.s.batches), nil
}

func (t *tester) eventsResent() error {
	defer t.s.set(func() { t.s.holdEvents = false })
	held, then, err := t.held()
	if err != nil {
		return err
	}
	t.s.set(func() { t.s.holdEvents, t.s.streams = false, t.s.streams+1 })
	return t.until("event "+held[0]+" again", func() bool {
		again := map[string]bool{}
		for _, b := range t.s.batches[then:] {
			for _, e := range b.GetEvents() {
				again[e.GetEventId()] = true
			}
		}
		return !slices.ContainsFunc(held, func(id string) bool { return !again[id] })
	})
}

func (t *tester) eventsLate() error {
	defer t.s.set(func() { t.s.holdEvents = false })
	if _, _, err := t.held(); err != nil {
		return err
	}
	t.lag()
	var then int
	t.s.set(func() { t.s.holdEvents, then = false, len(t.s.batches) })
	return t.until("events after those that were answered late",
		func() bool { return len(t.s.batches) > then })
}

// restarted kills the client and starts it again.
func (t *tester) restarted(meanwhile func()) error {
	t.kill()
	meanwhile()
	if err := t.start(); err != nil {
		return fmt.Errorf("start of the client: %w", err)
	}
	return nil
}

// mayCrash says why the client is not killed.
func (t *tester) mayCrash() error {
	switch {
	case t.o.Start == nil:
		return skip("the client was started by hand")
	case t.o.OneLife:
		return skip("the client is started once")
	}
	return nil
}

func (t *tester) crashApplying() error {
	if err := t.mayCrash(); err != nil {
		return err
	}
	t.s.mu.Lock()
	before := t.s.sent
	t.s.mu.Unlock()
	c := t.s.next()
	if err := t.until("watch or poll", func() bool { return t.s.sent > before }); err != nil {
		return err
	}
	if err := t.restarted(func() {}); err != nil {
		return err
	}
	return t.applied(c)
}

func (t *tester) crashAcknowledging() error {
	if err := t.mayCrash(); err != nil {
		return err
	}
	t.s.set(func() { t.s.holdAck = true })
	c := t.s.next()
	err := t.heard(c)
	var n int
	if err == nil {
		err = t.restarted(func() {
			t.s.set(func() { t.s.holdAck = false; n = len(t.about(c)) })
		})
	}
	t.s.set(func() { t.s.holdAck = false })
	if err != nil {
		return err
	}
	return t.until("acknowledgement of "+c.GetName()+" after the start", func() bool { return len(t.about(c)) > n })
}

func (t *tester) crashIdle() error {
	if err := t.mayCrash(); err != nil {
		return err
	}
	var c *pb.Configuration
	if err := t.restarted(func() { c = t.s.next() }); err != nil {
		return err
	}
	return t.applied(c)
}
