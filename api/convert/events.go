package convert

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

// Limits on events. Together with the size of a message they bound the memory of one
// request in the service.
const (
	MaxText   = 128
	FirstYear = 1970
	LastYear  = 2068 // so that any two times are less than a hundred years apart
)

// Fault is an invalid field of a message and why it is invalid.
type Fault struct{ Field, Why string }

// EventFromProto converts an event, times since the Unix epoch. It finds fields without
// a counterpart in a workload.Event; Validate of that finds the rest.
func EventFromProto(e *pb.Event) (workload.Event, *Fault) {
	job, node := e.GetJob(), e.GetNode()
	out := workload.Event{
		// Kinds have the same numbers; a test holds them together.
		ID: e.GetEventId(), Kind: workload.EventKind(e.GetKind()),
		HasLevel: e.GetLevelAttained() != nil, HasAttained: e.GetAttainedService() != nil,
	}
	c := Checker{}
	switch k := e.GetKind(); {
	case k == pb.Event_KIND_UNSPECIFIED:
		c.Add("kind", "is required")
	case k < 0 || k > pb.Event_HEARTBEAT:
		c.Add("kind", fmt.Sprintf("%d is not a known kind of event", k))
	}
	status, known := statuses[job.GetEndStatus()]
	if !known {
		c.Add("job.end_status", fmt.Sprintf("%d is not known", job.GetEndStatus()))
	}
	for _, t := range []struct{ field, text string }{
		{"event_id", out.ID}, {"node.node_id", node.GetNodeId()}, {"shares_gpus_with", e.GetSharesGpusWith()},
	} {
		c.Text(t.field, t.text)
	}
	c.names("job", job)
	out.SharesWith, out.Pool = e.GetSharesGpusWith(), int(e.GetPool())
	out.Time = c.Time("scheduler_time", e.GetSchedulerTime())
	if e.GetSchedulerTime() == nil {
		c.Add("scheduler_time", "is required")
	}
	out.LeaseUntil = c.Time("lease_expire_time", e.GetLeaseExpireTime())
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
	out.StartUp = c.duration("start_up", e.GetStartUp())
	out.Lost, out.HoldUntil = e.GetProgressLost(), c.Time("hold_until_time", e.GetHoldUntilTime())
	if out.Kind.OfNode() {
		out.Node, out.NodeGPUs = node.GetNodeId(), int(node.GetGpus())
	}
	if out.Kind == workload.NodeUp && out.NodeGPUs == 0 {
		c.Add("node.gpus", "is required on NODE_UP")
	}
	if out.Kind == workload.TakenSnapshot {
		out.Active = c.snapshot(e.GetSnapshot())
		if e.GetSnapshot() == nil {
			c.Add("snapshot", "is required: one without jobs says that no job is active")
		}
	} else if e.GetSnapshot() != nil {
		c.Add("snapshot", "is for kind SNAPSHOT only")
	}
	revision := e.GetConfigurationRevision()
	if revision > 0 {
		out.Revision = strconv.FormatInt(revision, 10)
	} else if out.Kind == workload.ConfigApplied {
		c.Add("configuration_revision", fmt.Sprintf("%d is not a revision", revision))
	}
	if out.Kind == workload.ConfigApplied {
		out.Instance, out.Hash = e.GetInstanceId(), e.GetContentHash()
		out.Epoch = workload.Epoch{ID: e.GetEpoch().GetId(), Counter: e.GetEpoch().GetCounter()}
		c.Text("instance_id", out.Instance)
		c.Text("content_hash", out.Hash)
		c.Text("epoch.id", out.Epoch.ID)
	}
	return out, c.First
}

// statuses convert the ends of jobs. The numbers of the API differ from package workload.
var statuses = map[pb.JobDetails_EndStatus]workload.Status{
	pb.JobDetails_END_STATUS_UNSPECIFIED: workload.Unknown, pb.JobDetails_COMPLETED: workload.Completed,
	pb.JobDetails_CANCELLED: workload.Cancelled, pb.JobDetails_FAILED: workload.Failed,
	pb.JobDetails_TIMED_OUT: workload.TimedOut, pb.JobDetails_OUT_OF_MEMORY: workload.OutOfMemory,
}

// Checker keeps the first fault of an event.
type Checker struct{ First *Fault }

// Add records a fault unless First holds one.
func (c *Checker) Add(field, why string) {
	if c.First == nil {
		c.First = &Fault{field, why}
	}
}

// Err returns the first fault as the error of a request.
func (c *Checker) Err() error {
	if c.First == nil {
		return nil
	}
	return Invalid(c.First.Field, "%s", c.First.Why)
}

// names checks the texts of a job.
func (c *Checker) names(field string, job *pb.JobDetails) {
	for _, t := range []struct{ name, text string }{
		{"job_id", job.GetJobId()}, {"user", job.GetUser()}, {"tenant", job.GetTenant()}, {"key", job.GetKey()},
		{"model", job.GetModel()},
	} {
		if len(t.text) > MaxText {
			c.Text(field+"."+t.name, t.text)
		}
	}
}

// describe reads the description of a job in its submission.
func (c *Checker) describe(field string, job *pb.JobDetails, out *workload.Job) {
	out.User, out.Tenant, out.Key, out.Model = job.GetUser(), job.GetTenant(), job.GetKey(), job.GetModel()
	if at := job.GetDeadlineTime(); at != nil {
		out.Deadline = workload.DeadlineAt(c.Time(field+".deadline_time", at))
	}
	if q := job.GetRequest(); q != nil {
		field += ".request."
		c.Text(field+"gpu_model", q.GetGpuModel())
		c.Text(field+"partition", q.GetPartition())
		c.Text(field+"qos", q.GetQos())
		c.Text(field+"account", q.GetAccount())
		if m := q.GetRequeue(); pb.JobRequest_RequeueMode_name[int32(m)] == "" {
			c.Add(field+"requeue", fmt.Sprintf("%d is not known", m))
		}
		out.Requested = workload.Request{GPUModel: q.GetGpuModel(), Partition: q.GetPartition(),
			MilliCPUs: q.GetMilliCpus(), Memory: q.GetMemoryBytes(),
			TimeLimit: c.duration(field+"time_limit", q.GetTimeLimit()), NodeCount: q.GetNodeCount(),
			Nice: q.GetNice(), Priority: q.GetPriority(), QOS: q.GetQos(), Account: q.GetAccount(),
			Requeue: workload.RequeueMode(q.GetRequeue()),
			HoldOff: c.duration(field+"hold_off", q.GetHoldOff())}.Shared()
	}
}

func (c *Checker) placement(field string, p []*pb.NodePlacement) (out []workload.NodeShare) {
	if len(p) > workload.MaxPlaces {
		c.Add(field, fmt.Sprintf("has %d nodes, more than %d", len(p), workload.MaxPlaces))
		return nil
	}
	for i, n := range p {
		if len(n.GetNodeId()) > MaxText {
			c.Text(fmt.Sprintf("%s[%d].node_id", field, i), n.GetNodeId())
		}
		out = append(out, workload.NodeShare{Node: n.GetNodeId(), GPUs: int(n.GetGpus()),
			Indexes: workload.Indexes(n.GetGpuIndexes())})
	}
	return out
}

// labels joins the labels of a job.
func (c *Checker) labels(field string, job *pb.JobDetails) string {
	for _, l := range job.GetRuleLabels() {
		if l == "" || strings.Contains(l, ",") {
			c.Add(field, fmt.Sprintf("%q is empty or has a comma", l))
		}
	}
	text := strings.Join(job.GetRuleLabels(), ",")
	c.Text(field, text)
	return text
}

// snapshot converts the jobs and nodes of a snapshot.
func (c *Checker) snapshot(s *pb.Snapshot) (out []workload.Event) {
	if n := len(s.GetJobs()) + len(s.GetNodes()); n > workload.MaxActive {
		c.Add("snapshot", fmt.Sprintf("has %d jobs and nodes, more than %d", n, workload.MaxActive))
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
			c.Add(field+".submit_time", "is required")
		}
		c.names(field+".job", a.GetJob())
		c.describe(field+".job", a.GetJob(), &e.Job)
		e.Labels = c.labels(field+".job.rule_labels", a.GetJob())
		c.Text(field+".shares_gpus_with", e.SharesWith)
		e.Job.Submit = c.Time(field+".submit_time", a.GetSubmitTime())
		e.LeaseUntil = c.Time(field+".lease_expire_time", a.GetLeaseExpireTime())
		e.HoldUntil = c.Time(field+".hold_until_time", a.GetHoldUntilTime())
		e.LevelAttained = c.duration(field+".level_attained", a.GetLevelAttained())
		e.Attained = c.duration(field+".attained_service", a.GetAttainedService())
		e.Placement = c.placement(field+".placement", a.GetPlacement())
		c.part(field, e)
		out = append(out, e)
	}
	for i, n := range s.GetNodes() {
		field := fmt.Sprintf("snapshot.nodes[%d]", i)
		c.Text(field+".node_id", n.GetNodeId())
		e := workload.Event{Kind: workload.NodeUp, Node: n.GetNodeId(), NodeGPUs: int(n.GetGpus())}
		if n.GetDraining() {
			e.Kind = workload.NodeDrained
		} else if e.NodeGPUs == 0 {
			c.Add(field+".gpus", "is required")
		}
		c.part(field, e)
		out = append(out, e)
	}
	return out
}

// part checks a part of a snapshot, whose fields its own event has under other names.
func (c *Checker) part(field string, e workload.Event) {
	e.ID = field // its own is that of the snapshot
	if err := e.Validate(); err != nil {
		f := FaultOf(err)
		c.Add(field+"."+strings.TrimPrefix(f.Field, "node."), f.Why)
	}
}

// Text adds a fault if s is longer than MaxText bytes.
func (c *Checker) Text(field, s string) {
	if len(s) > MaxText {
		c.Add(field, fmt.Sprintf("is longer than %d bytes", MaxText))
	}
}

// Time is since the Unix epoch, 0 for none.
func (c *Checker) Time(field string, t *timestamppb.Timestamp) time.Duration {
	if t == nil {
		return 0
	}
	at, ok := SinceEpoch(t)
	if !ok {
		c.Add(field, fmt.Sprintf("is not between the years %d and %d", FirstYear, LastYear))
	}
	return at
}

func (c *Checker) duration(field string, d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() == math.MaxInt64 {
		c.Add(field, "is not a duration from 0 to 292 years")
	}
	return d.AsDuration()
}

// SinceEpoch returns the time since the Unix epoch, false outside the years FirstYear to LastYear.
func SinceEpoch(t *timestamppb.Timestamp) (time.Duration, bool) {
	if t.CheckValid() != nil {
		return 0, false
	}
	at := t.AsTime()
	if at.Year() < FirstYear || at.Year() > LastYear {
		return 0, false
	}
	return time.Duration(at.UnixNano()), true
}

// FaultOf splits the error of an invalid event ("field: why") and names the field
// as the API does.
func FaultOf(err error) *Fault {
	field, why, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return &Fault{"kind", err.Error()}
	}
	if field == "time" {
		field = "scheduler_time"
	}
	return &Fault{field, why}
}
