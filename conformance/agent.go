package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

var agentChecks = []check{
	{"apply-first", "ApplyConfiguration puts a configuration into force, and DescribeParameters returns it",
		(*tester).takesFirst, true},
	{"apply", "a new configuration is put into force", (*tester).takesNext, false},
	{"repeat", "a configuration that is in force is applied again, and changes nothing", (*tester).repeat, false},
	{"same-values", "values in force that are sent under a new revision are described with that one",
		(*tester).sameValues, false},
	{"refuse", "a configuration that cannot be applied is answered as REJECTED, FAILED or PARTIALLY_APPLIED, or with " +
		"an error, and the one before stays in force unless it is applied in part", (*tester).refuseCall, false},
	{"after-refusal", "the configuration that follows a refused one is put into force", (*tester).takesNext, false},
	{"no-configuration", "a request without a configuration is an error, and changes nothing",
		(*tester).noConfiguration, false},
	{"cancelled", "after a call whose deadline passed, one configuration is in force whole, and the next is put into force",
		(*tester).cancelled, false},
	{"new-epoch", "a lower revision of an epoch with a higher counter is put into force", (*tester).takesNewEpoch,
		false},
	{"former-epoch", "a configuration of an epoch with a lower counter is refused, and changes nothing",
		(*tester).refusesFormerEpoch, false},
	{"crash-applying", "an agent that is killed while it applies a configuration puts it into force after its start",
		(*tester).crashCall, false},
	{"crash-idle", "an agent that was killed describes after its start what is in force, or an error",
		(*tester).crashAgent, false},
	{"acknowledgements", "each answer has a state, and an error where the state wants one", (*tester).answersWhole,
		false},
	{"stream", "StreamEvents resumes after a token, and without one begins with all that the agent has or a SNAPSHOT",
		(*tester).stream, false},
	{"events", "each has id, kind, time and what its kind requires, and one content per id", (*tester).events, false},
	{"lives", "by scheduler_time a job's events are a life: nothing before SUBMITTED and nothing after FINISHED",
		(*tester).lives, false},
	{"snapshots", "a SNAPSHOT has each active job once, with its id, GPUs and submit_time", (*tester).snapshots, false},
}

// answer is that of an agent to ApplyConfiguration.
type answer struct {
	to  *pb.Configuration
	ack *pb.Acknowledgement
}

// call has the agent apply a configuration. It waits for an agent that does not listen, and calls again where one
// ends meanwhile.
func (t *tester) call(c *pb.Configuration) (*pb.Acknowledgement, error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.Patience)
	defer cancel()
	for {
		got, err := t.agent.ApplyConfiguration(ctx, &pb.ApplyConfigurationRequest{Configuration: c},
			grpc.WaitForReady(true))
		if status.Code(err) == codes.Unavailable {
			if client.Sleep(ctx, 50*time.Millisecond) {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("ApplyConfiguration of %s: %w", c.GetName(), err)
		}
		t.answers = append(t.answers, answer{c, got.GetAcknowledgement()})
		return got.GetAcknowledgement(), nil
	}
}

// takes wants a configuration put into force.
func (t *tester) takes(c *pb.Configuration) error {
	ack, err := t.call(c)
	if err == nil && !inForce(ack) {
		err = fmt.Errorf("%s is answered as %v: %s", c.GetName(), ack.GetState(), ack.GetError())
	}
	if err != nil {
		return err
	}
	t.runs, t.whole = c, ack.GetState() == pb.Acknowledgement_APPLIED
	return t.describes()
}

// describes wants DescribeParameters to return the values in force.
func (t *tester) describes() error { return t.describesEither(t.runs) }

func (t *tester) described() (*pb.DescribeParametersResponse, error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.Patience)
	defer cancel()
	got, err := t.agent.DescribeParameters(ctx, &pb.DescribeParametersRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("DescribeParameters: %w", err)
	}
	return got, nil
}

func (t *tester) same(got *pb.DescribeParametersResponse, want *pb.Configuration) error {
	if got.GetRevision() != want.GetRevision() {
		return fmt.Errorf("DescribeParameters: revision %d, not %d", got.GetRevision(), want.GetRevision())
	}
	for _, id := range slices.Sorted(maps.Keys(want.GetParameters())) {
		v, sent := got.GetParameters()[id], want.GetParameters()[id]
		switch {
		case v == nil:
			return fmt.Errorf("DescribeParameters: %s is missing", id)
		case t.whole && !proto.Equal(v, sent):
			return fmt.Errorf("DescribeParameters: %s is %v, and was sent as %v and answered as APPLIED", id, v, sent)
		}
	}
	return nil
}

func (t *tester) takesFirst() error { return t.takes(t.s.offer) }

func (t *tester) takesNext() error { return t.takes(t.s.next()) }

func (t *tester) repeat() error { return t.takes(t.runs) }

func (t *tester) sameValues() error {
	t.s.mu.Lock()
	c := t.s.put(t.runs.GetParameters(), t.runs.GetContentHash(), t.runs.GetRevision()+1)
	t.s.mu.Unlock()
	return t.takes(c)
}

func (t *tester) refuseCall() error {
	c, named, err := t.refused()
	if err != nil {
		return err
	}
	ack, err := t.call(c)
	switch {
	case err != nil && t.ctx.Err() == nil:
	case ack.GetState() == pb.Acknowledgement_APPLIED && !named:
		t.runs, t.whole = c, true
		if err := t.describes(); err != nil {
			return fmt.Errorf("it is answered as APPLIED, but %w", err)
		}
		return skip("the agent takes a parameter that does not exist: name values that it refuses")
	case ack.GetState() == pb.Acknowledgement_APPLIED:
		return errors.New("it is answered as APPLIED")
	case ack.GetState() == pb.Acknowledgement_PARTIALLY_APPLIED:
		t.runs, t.whole = c, false
		return nil
	}
	return t.describes()
}

func (t *tester) noConfiguration() error {
	ack, err := t.call(nil)
	if err == nil && inForce(ack) {
		return fmt.Errorf("it is answered as %v", ack.GetState())
	}
	return t.describes()
}

// describesEither wants the former values, or another configuration in its place, and remembers which.
func (t *tester) describesEither(c *pb.Configuration) error {
	got, err := t.described()
	if err != nil {
		return err
	}
	if got.GetRevision() == c.GetRevision() {
		t.runs = c
	}
	return t.same(got, t.runs)
}

func (t *tester) cancelled() error {
	c := t.s.next()
	ctx, cancel := context.WithTimeout(t.ctx, min(t.o.Patience/100, 5*time.Millisecond))
	got, err := t.agent.ApplyConfiguration(ctx, &pb.ApplyConfigurationRequest{Configuration: c})
	cancel()
	if err != nil {
		t.settle()
	} else if inForce(got.GetAcknowledgement()) {
		t.whole = got.GetAcknowledgement().GetState() == pb.Acknowledgement_APPLIED
	}
	if err := t.describesEither(c); err != nil {
		return err
	}
	return t.takes(t.s.next())
}

func (t *tester) takesNewEpoch() error {
	c, _ := t.restore(&pb.Epoch{Id: "second", Counter: 3}, 2)
	return t.takes(c)
}

func (t *tester) refusesFormerEpoch() error {
	t.s.mu.Lock()
	right := t.s.epoch
	t.s.epoch = &pb.Epoch{Id: "old copy", Counter: right.GetCounter() - 1}
	c := t.s.publish(t.s.another(), t.s.offer.GetRevision()+7)
	t.s.epoch = right
	t.s.mu.Unlock()
	if ack, err := t.call(c); err == nil && inForce(ack) {
		return fmt.Errorf("%s of epoch %d is answered as %v, after epoch %d", c.GetName(), c.GetEpoch().GetCounter(),
			ack.GetState(), right.GetCounter())
	}
	t.s.mu.Lock()
	t.s.offer = t.runs
	t.s.mu.Unlock()
	return t.describes()
}

func (t *tester) crashCall() error {
	if err := t.mayCrash(); err != nil {
		return err
	}
	c := t.s.next()
	calling := make(chan struct{})
	go func() {
		defer close(calling)
		ctx, cancel := context.WithTimeout(t.ctx, t.o.Patience)
		defer cancel()
		_, _ = t.agent.ApplyConfiguration(ctx, &pb.ApplyConfigurationRequest{Configuration: c}) // it is killed
	}()
	time.Sleep(time.Duration(t.s.rng.IntN(20)) * time.Millisecond)
	err := t.restarted(func() {})
	<-calling
	if err != nil {
		return err
	}
	return t.takes(c)
}

func (t *tester) crashAgent() error {
	if err := t.mayCrash(); err != nil {
		return err
	}
	if err := t.restarted(func() {}); err != nil {
		return err
	}
	got, err := t.described()
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return err
	case err == nil && got.GetRevision() != 0: // else it knows that it does not know
		if err := t.same(got, t.runs); err != nil {
			return err
		}
	}
	return t.takes(t.s.next())
}

func (t *tester) answersWhole() error {
	for _, a := range t.answers {
		state := a.ack.GetState()
		switch {
		case state == pb.Acknowledgement_STATE_UNSPECIFIED:
			return fmt.Errorf("%s: the answer has no state", a.to.GetName())
		case !inForce(a.ack) && a.ack.GetError() == "":
			return fmt.Errorf("%s: the answer %v has no error", a.to.GetName(), state)
		case len(a.ack.GetError()) > 1024:
			return fmt.Errorf("%s: error is longer than 1024 bytes", a.to.GetName())
		}
		for id := range a.ack.GetEffectiveParameters() {
			if a.to.GetParameters()[id] == nil {
				return fmt.Errorf("%s: effective_parameters has %s, which was not sent", a.to.GetName(), id)
			}
		}
	}
	return nil
}

// read receives events for a while, at most three responses.
func (t *tester) read(token string) (out []*pb.StreamEventsResponse, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.Patience)
	defer cancel()
	s, err := t.agent.StreamEvents(ctx, &pb.StreamEventsRequest{ResumeToken: token}, grpc.WaitForReady(true))
	var idle *time.Timer
	for err == nil && len(out) < 3 {
		var m *pb.StreamEventsResponse
		if m, err = s.Recv(); err != nil {
			break
		}
		if n := len(m.GetEvents()); n > 10_000 {
			return nil, fmt.Errorf("StreamEvents: a response has %d events, more than 10000", n)
		}
		out = append(out, m)
		if idle == nil {
			idle = time.AfterFunc(min(t.o.Patience, time.Second), cancel)
			defer idle.Stop()
		}
		t.s.mu.Lock()
		t.s.batches = append(t.s.batches, &pb.IngestEventsRequest{Events: m.GetEvents()})
		t.s.mu.Unlock()
	}
	switch code := status.Code(err); {
	case err == nil, errors.Is(err, io.EOF), code == codes.Canceled && len(out) > 0:
		return out, t.ctx.Err()
	case code == codes.Unimplemented:
		return nil, skip("the agent has no events")
	case code == codes.DeadlineExceeded && len(out) == 0:
		return nil, skip("the agent sent no events")
	}
	return out, fmt.Errorf("StreamEvents: %w", err)
}

func (t *tester) stream() error {
	first, err := t.read("")
	if err != nil || len(first) == 0 {
		return err
	}
	ids := func(of []*pb.StreamEventsResponse) map[string]bool {
		out := map[string]bool{}
		for _, m := range of {
			for _, e := range m.GetEvents() {
				out[e.GetEventId()] = true
			}
		}
		return out
	}
	if len(first) > 1 {
		rest, err := t.read(first[0].GetResumeToken())
		if err != nil {
			return err
		}
		got := ids(rest)
		if e := first[1].GetEvents(); len(e) > 0 && !got[e[0].GetEventId()] {
			return fmt.Errorf("event %q is not sent after the token of the response before it", e[0].GetEventId())
		}
	}
	again, err := t.read("")
	if err != nil {
		return err
	}
	got := ids(again)
	begin := again[0].GetEvents()
	if len(begin) > 0 && begin[0].GetKind() == pb.Event_SNAPSHOT {
		return nil
	}
	for _, e := range first[0].GetEvents() {
		if !got[e.GetEventId()] {
			return fmt.Errorf("without a token event %q is not sent again, and no SNAPSHOT comes first", e.GetEventId())
		}
	}
	return nil
}
