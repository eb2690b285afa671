package conformance

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// acknowledgements checks all that the client sent.
func (t *tester) acknowledgements() error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, a := range t.s.acks {
		if err := t.acknowledgement(a); err != nil {
			return fmt.Errorf("%s as %v: %w", a.GetName(), a.GetAcknowledgement().GetState(), err)
		}
	}
	return nil
}

func (t *tester) acknowledgement(a *pb.AcknowledgeConfigurationRequest) error {
	ack := a.GetAcknowledgement()
	at := slices.IndexFunc(t.s.offers, func(c *pb.Configuration) bool {
		return c.GetName() == a.GetName() && (a.GetEpoch() == nil || proto.Equal(c.GetEpoch(), a.GetEpoch()))
	})
	if at < 0 {
		return errors.New("there is no such configuration in its epoch")
	}
	c := t.s.offers[at]
	instances := map[string]bool{}
	for _, f := range t.s.follows {
		instances[f.instance] = true
	}
	switch {
	case a.GetContentHash() != "" && a.GetContentHash() != c.GetContentHash():
		return fmt.Errorf("content_hash is %s, not %s", a.GetContentHash(), c.GetContentHash())
	case !instances[ack.GetInstanceId()]:
		return fmt.Errorf("instance_id is %q, and no such instance watches or polls", ack.GetInstanceId())
	case ack.GetState() == pb.Acknowledgement_STATE_UNSPECIFIED:
		return errors.New("it has no state")
	case len(ack.GetError()) > 1024:
		return errors.New("error is longer than 1024 bytes")
	case (ack.GetState() == pb.Acknowledgement_REJECTED || ack.GetState() == pb.Acknowledgement_FAILED) &&
		ack.GetError() == "":
		return errors.New("it has no error")
	}
	if ack.GetState() == pb.Acknowledgement_APPLIED {
		for id, v := range ack.GetEffectiveParameters() {
			if !proto.Equal(v, c.GetParameters()[id]) {
				return fmt.Errorf("%s is %v in force and was sent as %v", id, v, c.GetParameters()[id])
			}
		}
	}
	return nil
}

func (t *tester) partial() error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	found := false
	for _, a := range t.s.acks {
		if a.GetAcknowledgement().GetState() != pb.Acknowledgement_PARTIALLY_APPLIED {
			continue
		}
		found = true
		at := slices.IndexFunc(t.s.offers, func(c *pb.Configuration) bool { return c.GetName() == a.GetName() })
		differs := false
		for id, v := range a.GetAcknowledgement().GetEffectiveParameters() {
			differs = differs || at >= 0 && !proto.Equal(v, t.s.offers[at].GetParameters()[id])
		}
		if !differs {
			return fmt.Errorf("%s: no value differs from what was sent", a.GetName())
		}
	}
	if !found {
		return skip("the client applied every configuration whole")
	}
	return nil
}

// all are the events that the client sent, each once.
func (t *tester) all() ([]*pb.Event, error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	byID := map[string]*pb.Event{}
	var out []*pb.Event
	for _, b := range t.s.batches {
		for _, e := range b.GetEvents() {
			before := byID[e.GetEventId()]
			if before != nil && !proto.Equal(before, e) {
				return nil, fmt.Errorf("two events have the id %q", e.GetEventId())
			}
			if before == nil {
				byID[e.GetEventId()] = e
				out = append(out, e)
			}
		}
	}
	if len(out) == 0 {
		return nil, skip("the client sent no events")
	}
	if len(t.s.faults) > 0 {
		return nil, errors.New(t.s.faults[0])
	}
	return out, nil
}

func (t *tester) events() error {
	all, err := t.all()
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := e.GetSchedulerTime().CheckValid(); err != nil {
			return fmt.Errorf("event %q: scheduler_time: %w", e.GetEventId(), err)
		}
		if id := e.GetEventId(); id == "" || len(id) > 128 {
			return fmt.Errorf("event_id %.200q is not 1 to 128 bytes", id)
		}
		missing := ""
		switch k := e.GetKind(); {
		case k == pb.Event_KIND_UNSPECIFIED:
			missing = "kind"
		case k <= pb.Event_FINISHED && e.GetJob().GetJobId() == "":
			missing = "job.job_id"
		case (k == pb.Event_SUBMITTED || k == pb.Event_RESIZED) && e.GetJob().GetMilliGpus() <= 0:
			missing = "job.milli_gpus"
		case (k == pb.Event_NODE_UP || k == pb.Event_NODE_DOWN || k == pb.Event_NODE_DRAINED) &&
			e.GetNode().GetNodeId() == "":
			missing = "node.node_id"
		case k == pb.Event_CONFIG_APPLIED && e.GetConfigurationRevision() <= 0:
			missing = "configuration_revision"
		}
		if missing != "" {
			return fmt.Errorf("event %q of kind %v has no %s", e.GetEventId(), e.GetKind(), missing)
		}
	}
	return nil
}

// lives checks the events of each job whose submission was sent.
func (t *tester) lives() error {
	all, err := t.all()
	if err != nil {
		return err
	}
	jobs := map[string][]*pb.Event{}
	var ids []string
	for _, e := range all {
		if id := e.GetJob().GetJobId(); e.GetKind() <= pb.Event_FINISHED && id != "" {
			if jobs[id] == nil {
				ids = append(ids, id)
			}
			jobs[id] = append(jobs[id], e)
		}
	}
	if len(ids) == 0 {
		return skip("the client sent no events of jobs")
	}
	for _, id := range ids {
		life := jobs[id]
		for _, e := range life {
			for _, other := range life {
				at, then := e.GetSchedulerTime().AsTime(), other.GetSchedulerTime().AsTime()
				submitted, finished := e.GetKind() == pb.Event_SUBMITTED, e.GetKind() == pb.Event_FINISHED
				switch {
				case e == other:
				case submitted && then.Before(at):
					return fmt.Errorf("job %q has %v before it is submitted", id, other.GetKind())
				case finished && then.After(at):
					return fmt.Errorf("job %q has %v after it finished", id, other.GetKind())
				case (submitted || finished) && other.GetKind() == e.GetKind():
					return fmt.Errorf("job %q has %v twice", id, e.GetKind())
				}
			}
		}
	}
	return nil
}

func (t *tester) snapshots() error {
	all, err := t.all()
	if err != nil {
		return err
	}
	found := false
	for _, e := range all {
		if e.GetKind() != pb.Event_SNAPSHOT {
			continue
		}
		found = true
		seen := map[string]bool{}
		for _, j := range e.GetSnapshot().GetJobs() {
			id := j.GetJob().GetJobId()
			switch {
			case id == "" || j.GetJob().GetMilliGpus() <= 0 || j.GetSubmitTime() == nil:
				return fmt.Errorf("event %q: job %q lacks its id, milli_gpus or submit_time", e.GetEventId(), id)
			case seen[id]:
				return fmt.Errorf("event %q has job %q twice", e.GetEventId(), id)
			}
			seen[id] = true
		}
	}
	if !found {
		return skip("the client sent no snapshot")
	}
	return nil
}
