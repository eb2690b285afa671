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
		// Kinds have the same numbers; a test holds them together.
		ID: e.GetEventId(), Kind: workload.EventKind(e.GetKind()),
		HasLevel: e.GetLevelAttained() != nil, HasAttained: e.GetAttainedService() != nil,
	}
	c := converter{}
	switch k := e.GetKind(); {
	case k == pb.Event_KIND_UNSPECIFIED:
		c.add("kind", "is required")
	case k < 0 || k > pb.Event_HEARTBEAT:
		c.add("kind", fmt.Sprintf("%d is not a known kind of event", k))
	}
	status, known := statuses[job.GetEndStatus()]
	if !known {
		c.add("job.end_status", fmt.Sprintf("%d is not known", job.GetEndStatus()))
	}
	for _, t := range []struct{ field, text string }{
		{"event_id", out.ID}, {"node.node_id", node.GetNodeId()}, {"shares_gpus_with", e.GetSharesGpusWith()},
	} {
		c.text(t.field, t.text)
	}
	c.names("job", job)
	out.SharesWith, out.Pool = e.GetSharesGpusWith(), int(e.GetPool())
	out.Time = c.time("scheduler_time", e.GetSchedulerTime())
	if e.GetSchedulerTime() == nil {
		c.add("scheduler_time", "is required")
	}
	out.LeaseUntil = c.time("lease_expire_time", e.GetLeaseExpireTime())
	out.LevelAttained = c.duration("level_attained", e.GetLevelAttained())
	out.Attained = c.duration("attained_service", e.GetAttainedService())
	out.Placement = c.placement("placement", e.GetPlacement())
	if out.Kind.OfJob() {
		out.Job = workload.Job{
			ID: job.GetJobId(), GPUs: workload.MilliGPU(job.GetMilliGpus()), Status: status,
		}
	}
	if out.Kind == workload.Submitted {
		c.describe("job", job, &out.Job)
		out.Labels = c.labels("job.rule_labels", job)
	}
	out.Lost, out.HoldUntil = e.GetProgressLost(), c.time("hold_until_time", e.GetHoldUntilTime())
	if out.Kind.OfNode() {
		out.Node, out.NodeGPUs = node.GetNodeId(), int(node.GetGpus())
	}
	if out.Kind == workload.NodeUp && out.NodeGPUs == 0 {
		c.add("node.gpus", "is required on NODE_UP")
	}
	if out.Kind == workload.TakenSnapshot {
		out.Active = c.snapshot(e.GetSnapshot())
		if e.GetSnapshot() == nil {
			c.add("snapshot", "is required: one without jobs says that no job is active")
		}
	} else if e.GetSnapshot() != nil {
		c.add("snapshot", "is for kind SNAPSHOT only")
	}
	revision := e.GetConfigurationRevision()
	if revision > 0 {
		out.Revision = strconv.FormatInt(revision, 10)
	} else if out.Kind == workload.ConfigApplied {
		c.add("configuration_revision", fmt.Sprintf("%d is not a revision", revision))
	}
	if out.Kind == workload.ConfigApplied {
		out.Instance, out.Hash = e.GetInstanceId(), e.GetContentHash()
		out.Epoch = workload.Epoch{ID: e.GetEpoch().GetId(), Counter: e.GetEpoch().GetCounter()}
		c.text("instance_id", out.Instance)
		c.text("content_hash", out.Hash)
		c.text("epoch.id", out.Epoch.ID)
	}
	return out, c.first
}

// statuses are how jobs ended. The numbers of the API are not those of package workload.
var statuses = map[pb.JobDetails_EndStatus]workload.Status{
	pb.JobDetails_END_STATUS_UNSPECIFIED: workload.Unknown, pb.JobDetails_COMPLETED: workload.Completed,
	pb.JobDetails_CANCELLED: workload.Cancelled, pb.JobDetails_FAILED: workload.Failed,
	pb.JobDetails_TIMED_OUT: workload.TimedOut, pb.JobDetails_OUT_OF_MEMORY: workload.OutOfMemory,
}

// converter keeps the first fault of an event.
type converter struct{ first *fault }

func (c *converter) add(field, why string) {
	if c.first == nil {
		c.first = &fault{field, why}
	}
}

// err returns the first fault as the error of a request.
func (c *converter) err() error {
	if c.first == nil {
		return nil
	}
	return invalid(c.first.field, "%s", c.first.why)
}

// names checks the texts of a job.
func (c *converter) names(field string, job *pb.JobDetails) {
	for _, t := range []struct{ name, text string }{
		{"job_id", job.GetJobId()}, {"user", job.GetUser()}, {"tenant", job.GetTenant()}, {"key", job.GetKey()},
		{"model", job.GetModel()},
	} {
		if len(t.text) > maxText {
			c.text(field+"."+t.name, t.text)
		}
	}
}

// describe takes over what a submission says of a job.
func (c *converter) describe(field string, job *pb.JobDetails, out *workload.Job) {
	out.User, out.Tenant, out.Key, out.Model = job.GetUser(), job.GetTenant(), job.GetKey(), job.GetModel()
	if at := job.GetDeadlineTime(); at != nil {
		out.Deadline = workload.DeadlineAt(c.time(field+".deadline_time", at))
	}
	if q := job.GetRequest(); q != nil {
		field += ".request."
		c.text(field+"gpu_model", q.GetGpuModel())
		c.text(field+"partition", q.GetPartition())
		c.text(field+"qos", q.GetQos())
		c.text(field+"account", q.GetAccount())
		if m := q.GetRequeue(); pb.JobRequest_RequeueMode_name[int32(m)] == "" {
			c.add(field+"requeue", fmt.Sprintf("%d is not known", m))
		}
		out.Requested = workload.Request{GPUModel: q.GetGpuModel(), Partition: q.GetPartition(),
			MilliCPUs: q.GetMilliCpus(), Memory: q.GetMemoryBytes(),
			TimeLimit: c.duration(field+"time_limit", q.GetTimeLimit()), NodeCount: q.GetNodeCount(),
			Nice: q.GetNice(), Priority: q.GetPriority(), QOS: q.GetQos(), Account: q.GetAccount(),
			Requeue: workload.RequeueMode(q.GetRequeue()),
			HoldOff: c.duration(field+"hold_off", q.GetHoldOff())}.Shared()
	}
}

func (c *converter) placement(field string, p []*pb.NodePlacement) (out []workload.NodeShare) {
	if len(p) > workload.MaxPlaces {
		c.add(field, fmt.Sprintf("has %d nodes, more than %d", len(p), workload.MaxPlaces))
		return nil
	}
	for i, n := range p {
		if len(n.GetNodeId()) > maxText {
			c.text(fmt.Sprintf("%s[%d].node_id", field, i), n.GetNodeId())
		}
		out = append(out, workload.NodeShare{Node: n.GetNodeId(), GPUs: int(n.GetGpus()),
			Indexes: workload.Indexes(n.GetGpuIndexes())})
	}
	return out
}

// labels joins the labels of a job.
func (c *converter) labels(field string, job *pb.JobDetails) string {
	for _, l := range job.GetRuleLabels() {
		if l == "" || strings.Contains(l, ",") {
			c.add(field, fmt.Sprintf("%q is empty or has a comma", l))
		}
	}
	text := strings.Join(job.GetRuleLabels(), ",")
	c.text(field, text)
	return text
}

// snapshot converts what there is at the instant of a snapshot.
func (c *converter) snapshot(s *pb.Snapshot) (out []workload.Event) {
	if n := len(s.GetJobs()) + len(s.GetNodes()); n > workload.MaxActive {
		c.add("snapshot", fmt.Sprintf("has %d jobs and nodes, more than %d", n, workload.MaxActive))
		return nil
	}
	for i, a := range s.GetJobs() {
		field := fmt.Sprintf("snapshot.jobs[%d]", i)
		e := workload.Event{Kind: workload.Submitted, Pool: int(a.GetPool()), SharesWith: a.GetSharesGpusWith(),
			HasLevel: a.GetLevelAttained() != nil, HasAttained: a.GetAttainedService() != nil,
			Job: workload.Job{ID: a.GetJob().GetJobId(), GPUs: workload.MilliGPU(a.GetJob().GetMilliGpus())}}
		if a.GetRunning() {
			e.Kind = workload.Started
		}
		if a.GetSubmitTime() == nil {
			c.add(field+".submit_time", "is required")
		}
		c.names(field+".job", a.GetJob())
		c.describe(field+".job", a.GetJob(), &e.Job)
		e.Labels = c.labels(field+".job.rule_labels", a.GetJob())
		c.text(field+".shares_gpus_with", e.SharesWith)
		e.Job.Submit = c.time(field+".submit_time", a.GetSubmitTime())
		e.LeaseUntil = c.time(field+".lease_expire_time", a.GetLeaseExpireTime())
		e.HoldUntil = c.time(field+".hold_until_time", a.GetHoldUntilTime())
		e.LevelAttained = c.duration(field+".level_attained", a.GetLevelAttained())
		e.Attained = c.duration(field+".attained_service", a.GetAttainedService())
		e.Placement = c.placement(field+".placement", a.GetPlacement())
		c.part(field, e)
		out = append(out, e)
	}
	for i, n := range s.GetNodes() {
		field := fmt.Sprintf("snapshot.nodes[%d]", i)
		c.text(field+".node_id", n.GetNodeId())
		e := workload.Event{Kind: workload.NodeUp, Node: n.GetNodeId(), NodeGPUs: int(n.GetGpus())}
		if n.GetDraining() {
			e.Kind = workload.NodeDrained
		} else if e.NodeGPUs == 0 {
			c.add(field+".gpus", "is required")
		}
		c.part(field, e)
		out = append(out, e)
	}
	return out
}

// part checks a part of a snapshot, whose fields its own event has under other names.
func (c *converter) part(field string, e workload.Event) {
	e.ID = field // its own is that of the snapshot
	if err := e.Validate(); err != nil {
		f := faultOf(err)
		c.add(field+"."+strings.TrimPrefix(f.field, "node."), f.why)
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
