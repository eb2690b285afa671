package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

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

// eventFromProto converts an event, times since the Unix epoch. field and why
// name the first thing that makes no sense; why is "" if nothing does.
func eventFromProto(e *pb.Event) (out workload.Event, field, why string) {
	out.ID = e.GetEventId()
	out.Kind = workload.EventKind(0)
	if k := e.GetKind(); k > pb.Event_KIND_UNSPECIFIED && k <= pb.Event_CONFIG_APPLIED {
		out.Kind = workload.EventKind(k) // the same numbers, held together by a test
	}
	job := e.GetJob()
	isJob := out.Kind >= workload.Submitted && out.Kind <= workload.Finished
	isNode := out.Kind == workload.NodeUp || out.Kind == workload.NodeDown
	for _, t := range []struct{ field, text string }{
		{"event_id", out.ID}, {"job.job_id", job.GetJobId()}, {"job.user", job.GetUser()}, {"job.tenant", job.GetTenant()},
		{"job.key", job.GetKey()},
		{"job.model", job.GetModel()}, {"node.node_id", e.GetNode().GetNodeId()},
	} {
		if len(t.text) > maxText {
			return out, t.field, fmt.Sprintf("is longer than %d bytes", maxText)
		}
	}
	switch {
	case out.ID == "":
		return out, "event_id", "is required"
	case out.Kind == workload.EventUnknown:
		return out, "kind", fmt.Sprintf("%d is not a known kind of event", e.GetKind())
	case e.GetSchedulerTime() == nil:
		return out, "scheduler_time", "is required"
	case isJob && job.GetJobId() == "":
		return out, "job.job_id", "is required"
	case isNode && e.GetNode().GetNodeId() == "":
		return out, "node.node_id", "is required"
	case out.Kind == workload.ConfigApplied && e.GetConfigurationRevision() <= 0:
		return out, "configuration_revision", fmt.Sprintf("%d is not a revision", e.GetConfigurationRevision())
	case job.GetEndStatus() < 0 || job.GetEndStatus() > pb.JobDetails_FAILED:
		return out, "job.end_status", fmt.Sprintf("%d is not known", job.GetEndStatus())
	case e.GetNode().GetGpus() < 0 || e.GetNode().GetGpus() > 1024:
		return out, "node.gpus", fmt.Sprintf("%d is not from 0 to 1024", e.GetNode().GetGpus())
	case out.Kind == workload.NodeUp && e.GetNode().GetGpus() == 0:
		return out, "node.gpus", "is required on NODE_UP"
	}
	var ok bool
	if out.Time, ok = sinceEpoch(e.GetSchedulerTime()); !ok {
		return out, "scheduler_time", fmt.Sprintf("is not between the years %d and %d", firstYear, lastYear)
	}
	if t := e.GetLeaseExpireTime(); t != nil {
		if out.LeaseUntil, ok = sinceEpoch(t); !ok {
			return out, "lease_expire_time", fmt.Sprintf("is not between the years %d and %d", firstYear, lastYear)
		}
	}
	if d := e.GetLevelAttained(); d != nil {
		if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() == math.MaxInt64 {
			return out, "level_attained", "is not a duration from 0 to 292 years"
		}
		out.LevelAttained, out.HasLevel = d.AsDuration(), true
	}
	if d := e.GetAttainedService(); d != nil {
		if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() == math.MaxInt64 {
			return out, "attained_service", "is not a duration from 0 to 292 years"
		}
		out.Attained, out.HasAttained = d.AsDuration(), true
	}
	for i, p := range e.GetPlacement() {
		switch id := p.GetNodeId(); {
		case id == "":
			return out, fmt.Sprintf("placement[%d].node_id", i), "is required"
		case len(id) > maxText:
			return out, fmt.Sprintf("placement[%d].node_id", i), fmt.Sprintf("is longer than %d bytes", maxText)
		}
		if p.GetGpus() <= 0 || p.GetGpus() > 1024 {
			return out, fmt.Sprintf("placement[%d].gpus", i), fmt.Sprintf("%d is not from 1 to 1024", p.GetGpus())
		}
		out.Placement = append(out.Placement, workload.NodeShare{Node: p.GetNodeId(), GPUs: int(p.GetGpus())})
	}
	if isJob {
		out.Job = workload.Job{ID: job.GetJobId(), GPUs: workload.MilliGPU(job.GetMilliGpus()),
			Status: workload.Status(job.GetEndStatus())}
		if out.Kind == workload.Submitted {
			out.Job.User, out.Job.Tenant, out.Job.Key, out.Job.Model = job.GetUser(), job.GetTenant(), job.GetKey(),
				job.GetModel()
			if t := job.GetDeadlineTime(); t != nil {
				at, ok := sinceEpoch(t)
				if !ok {
					return out, "job.deadline_time", fmt.Sprintf("is not between the years %d and %d", firstYear, lastYear)
				}
				out.Job.Deadline = workload.DeadlineAt(at)
			}
		}
	}
	if isNode {
		out.Node, out.NodeGPUs = e.GetNode().GetNodeId(), int(e.GetNode().GetGpus())
	}
	if r := e.GetConfigurationRevision(); r > 0 {
		out.Revision = strconv.FormatInt(r, 10)
	}
	return out, "", ""
}

type timestamp interface {
	CheckValid() error
	AsTime() time.Time
}

func sinceEpoch(t timestamp) (time.Duration, bool) {
	if t.CheckValid() != nil {
		return 0, false
	}
	at := t.AsTime()
	if at.Year() < firstYear || at.Year() > lastYear {
		return 0, false
	}
	return time.Duration(at.UnixNano()), true
}

// eventFault splits what a ledger says of an event ("field: why") and names the
// field as the API does.
func eventFault(err error) (field, why string) {
	field, why, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return "kind", err.Error()
	}
	switch field {
	case "time":
		field = "scheduler_time"
	case "job.gpus":
		field = "job.milli_gpus"
	case "node":
		field = "node.node_id"
	}
	return field, why
}
