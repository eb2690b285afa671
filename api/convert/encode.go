package convert

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

// EventToProto converts an event whose times are since a zero: the inverse of EventFromProto where that is the Unix
// epoch.
func EventToProto(e *workload.Event, zero time.Time) *pb.Event {
	z := since(zero)
	out := &pb.Event{EventId: e.ID, Kind: pb.Event_Kind(e.Kind), SchedulerTime: z.at(e.Time),
		Placement: PlacementToProto(e.Placement), SharesGpusWith: e.SharesWith, Pool: int32(e.Pool),
		AttainedService: known(e.Attained, e.HasAttained), LevelAttained: known(e.LevelAttained, e.HasLevel),
		LeaseExpireTime: z.unlessZero(e.LeaseUntil), HoldUntilTime: z.unlessZero(e.HoldUntil), ProgressLost: e.Lost,
		StartUp: known(e.StartUp, e.StartUp != 0)}
	out.ConfigurationRevision, _ = strconv.ParseInt(e.Revision, 10, 64) // 0 where none is in force
	if e.Job.ID != "" {
		out.Job = JobToProto(&e.Job, zero)
		out.Job.RuleLabels = splitLabels(e.Labels)
	}
	switch {
	case e.Kind.OfNode():
		out.Node = &pb.NodeDetails{NodeId: e.Node, Gpus: int32(e.NodeGPUs)}
	case e.Kind == workload.ConfigApplied:
		out.InstanceId, out.ContentHash = e.Instance, e.Hash
		if e.Epoch != (workload.Epoch{}) {
			out.Epoch = &pb.Epoch{Id: e.Epoch.ID, Counter: e.Epoch.Counter}
		}
	case e.Kind == workload.TakenSnapshot:
		out.Snapshot = z.snapshot(e.Active)
	}
	return out
}

// JobToProto converts the description of a job whose times are since a zero.
func JobToProto(j *workload.Job, zero time.Time) *pb.JobDetails {
	out := &pb.JobDetails{JobId: j.ID, User: j.User, Tenant: j.Tenant, Key: j.Key, Model: j.Model,
		MilliGpus: int64(j.GPUs), DeadlineTime: since(zero).unlessZero(j.Deadline)}
	for end, status := range statuses {
		if status == j.Status {
			out.EndStatus = end
		}
	}
	if q := j.Request(); q != (workload.Request{}) {
		out.Request = &pb.JobRequest{GpuModel: q.GPUModel, Partition: q.Partition, MilliCpus: q.MilliCPUs,
			MemoryBytes: q.Memory, NodeCount: q.NodeCount, Nice: q.Nice, Priority: q.Priority, Qos: q.QOS,
			Account: q.Account, Requeue: pb.JobRequest_RequeueMode(q.Requeue),
			TimeLimit: known(q.TimeLimit, q.TimeLimit > 0), HoldOff: known(q.HoldOff, q.HoldOff > 0)}
	}
	return out
}

// since is the zero of times.
type since time.Time

func (z since) at(t time.Duration) *timestamppb.Timestamp {
	return timestamppb.New(time.Time(z).Add(t))
}

// unlessZero is nil for 0, which stands for none.
func (z since) unlessZero(t time.Duration) *timestamppb.Timestamp {
	if t == 0 {
		return nil
	}
	return z.at(t)
}

func (z since) snapshot(active []workload.Event) *pb.Snapshot {
	out := &pb.Snapshot{}
	for i := range active {
		e := &active[i]
		if e.Kind.OfNode() {
			out.Nodes = append(out.Nodes, &pb.NodeDetails{NodeId: e.Node, Gpus: int32(e.NodeGPUs),
				Draining: e.Kind == workload.NodeDrained})
			continue
		}
		job := JobToProto(&e.Job, time.Time(z))
		job.RuleLabels = splitLabels(e.Labels)
		out.Jobs = append(out.Jobs, &pb.ActiveJob{Job: job, SubmitTime: z.at(e.Job.Submit),
			Running: e.Kind == workload.Started, Placement: PlacementToProto(e.Placement), Pool: int32(e.Pool),
			SharesGpusWith: e.SharesWith, AttainedService: known(e.Attained, e.HasAttained),
			LevelAttained: known(e.LevelAttained, e.HasLevel), LeaseExpireTime: z.unlessZero(e.LeaseUntil),
			HoldUntilTime: z.unlessZero(e.HoldUntil)})
	}
	return out
}

// known is nil for a duration that is not known.
func known(d time.Duration, is bool) *durationpb.Duration {
	if !is {
		return nil
	}
	return durationpb.New(d)
}

// PlacementToProto converts the places of a running job.
func PlacementToProto(at []workload.NodeShare) (out []*pb.NodePlacement) {
	for i := range at {
		place := &pb.NodePlacement{NodeId: at[i].Node, Gpus: int32(at[i].GPUs)}
		numbers, _ := at[i].Numbers() // valid by Event.Validate
		for _, n := range numbers {
			place.GpuIndexes = append(place.GpuIndexes, int32(n))
		}
		out = append(out, place)
	}
	return out
}

// splitLabels is the inverse of Checker.labels.
func splitLabels(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
