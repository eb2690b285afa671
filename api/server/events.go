package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

// Limits on events. Together with the size of a message they bound what one
// request can make the service hold.
const (
	maxText   = 128
	firstYear = 1970
	lastYear  = 2068 // so that any two times are less than a hundred years apart
)

// fault is what is wrong with an event.
type fault struct{ field, why string }

// eventFromProto converts an event, times since the Unix epoch. It finds what has
// no counterpart in a workload.Event; Validate of that finds the rest.
func eventFromProto(e *pb.Event) (workload.Event, *fault) {
	job, node := e.GetJob(), e.GetNode()
	out := workload.Event{
		// Kinds and states have the same numbers; a test holds them together.
		ID: e.GetEventId(), Kind: workload.EventKind(e.GetKind()),
		HasLevel: e.GetLevelAttained() != nil, HasAttained: e.GetAttainedService() != nil,
	}
	c := converter{}
	if k := e.GetKind(); k < 0 || k > pb.Event_NODE_DRAINED {
		c.add("kind", fmt.Sprintf("%d is not a known kind of event", k))
	}
	if end := job.GetEndStatus(); end < 0 || end > pb.JobDetails_FAILED {
		c.add("job.end_status", fmt.Sprintf("%d is not known", end))
	}
	for _, t := range []struct{ field, text string }{
		{"event_id", out.ID}, {"job.job_id", job.GetJobId()}, {"job.user", job.GetUser()},
		{"job.tenant", job.GetTenant()},
		{"job.key", job.GetKey()}, {"job.model", job.GetModel()}, {"node.node_id", node.GetNodeId()},
		{"shares_gpus_with", e.GetSharesGpusWith()},
	} {
		c.text(t.field, t.text)
	}
	out.SharesWith, out.Pool = e.GetSharesGpusWith(), int(e.GetPool())
	out.Time = c.time("scheduler_time", e.GetSchedulerTime())
	if e.GetSchedulerTime() == nil {
		c.add("scheduler_time", "is required")
	}
	out.LeaseUntil = c.time("lease_expire_time", e.GetLeaseExpireTime())
	out.LevelAttained = c.duration("level_attained", e.GetLevelAttained())
	out.Attained = c.duration("attained_service", e.GetAttainedService())
	for i, p := range e.GetPlacement() {
		c.text(fmt.Sprintf("placement[%d].node_id", i), p.GetNodeId())
		out.Placement = append(out.Placement, workload.NodeShare{Node: p.GetNodeId(), GPUs: int(p.GetGpus())})
	}
	if out.Kind.OfJob() {
		out.Job = workload.Job{
			ID: job.GetJobId(), GPUs: workload.MilliGPU(job.GetMilliGpus()),
			Status: workload.Status(job.GetEndStatus()),
		}
	}
	if out.Kind == workload.Submitted {
		out.Job.User, out.Job.Tenant = job.GetUser(), job.GetTenant()
		out.Job.Key, out.Job.Model = job.GetKey(), job.GetModel()
		if at := job.GetDeadlineTime(); at != nil {
			out.Job.Deadline = workload.DeadlineAt(c.time("job.deadline_time", at))
		}
	}
	if out.Kind.OfNode() {
		out.Node, out.NodeGPUs = node.GetNodeId(), int(node.GetGpus())
	}
	if out.Kind == workload.NodeUp && out.NodeGPUs == 0 {
		c.add("node.gpus", "is required on NODE_UP")
	}
	revision := e.GetConfigurationRevision()
	if revision > 0 {
		out.Revision = strconv.FormatInt(revision, 10)
	} else if out.Kind == workload.ConfigApplied {
		c.add("configuration_revision", fmt.Sprintf("%d is not a revision", revision))
	}
	return out, c.first
}

// converter keeps the first fault of an event.
type converter struct{ first *fault }

func (c *converter) add(field, why string) {
	if c.first == nil {
		c.first = &fault{field, why}
	}
}

func (c *converter) text(field, s string) {
	if len(s) > maxText {
		c.add(field, fmt.Sprintf("is longer than %d bytes", maxText))
	}
}

// time is since the Unix epoch, 0 for none.
func (c *converter) time(field string, t *timestamppb.Timestamp) time.Duration {
	if t == nil {
		return 0
	}
	at, ok := sinceEpoch(t)
	if !ok {
		c.add(field, fmt.Sprintf("is not between the years %d and %d", firstYear, lastYear))
	}
	return at
}

func (c *converter) duration(field string, d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() == math.MaxInt64 {
		c.add(field, "is not a duration from 0 to 292 years")
	}
	return d.AsDuration()
}

func sinceEpoch(t *timestamppb.Timestamp) (time.Duration, bool) {
	if t.CheckValid() != nil {
		return 0, false
	}
	at := t.AsTime()
	if at.Year() < firstYear || at.Year() > lastYear {
		return 0, false
	}
	return time.Duration(at.UnixNano()), true
}

// faultOf splits the error of an invalid event ("field: why") and names the field
// as the API does.
func faultOf(err error) *fault {
	field, why, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return &fault{"kind", err.Error()}
	}
	switch field {
	case "time":
		field = "scheduler_time"
	case "job.gpus":
		field = "job.milli_gpus"
	case "node":
		field = "node.node_id"
	}
	return &fault{field, why}
}
