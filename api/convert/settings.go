package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// The most that limits of changes may say.
const (
	maxChangesPerDay = 1000
	maxQuietHours    = 20
)

// LimitsFromProto reads the limits that are set into the default ones.
func LimitsFromProto(r *pb.RolloutPolicy, to *rollout.Limits, v *Violations) {
	const at = "scheduler.spec.rollout."
	if r != nil && r.MaxChangesPerDay != nil {
		if n := r.GetMaxChangesPerDay(); n < 0 || n > maxChangesPerDay {
			v.Add(at+"max_changes_per_day", "%d is not from 0 to %d", n, maxChangesPerDay)
		}
		to.ChangesPerDay = int(r.GetMaxChangesPerDay())
	}
	span := func(dst *time.Duration, d *durationpb.Duration, field string) {
		if d == nil {
			return
		}
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 || d.AsDuration() > MaxSpan {
			v.Add(at+field, "%v is not from 0 to %v", d.AsDuration(), MaxSpan)
		}
		*dst = d.AsDuration()
	}
	span(&to.FlapWindow, r.GetFlapWindow(), "flap_window")
	span(&to.RollbackHold, r.GetRollbackHold(), "rollback_hold")
	if n := len(r.GetQuietHours()); n > maxQuietHours {
		v.Add(at+"quiet_hours", "%d are more than %d", n, maxQuietHours)
		return
	}
	for i, one := range r.GetQuietHours() {
		q, err := rollout.ParseQuietHours(one.GetStart(), one.GetEnd(), one.GetTimeZone())
		if err != nil {
			field := fmt.Sprintf("%squiet_hours[%d]", at, i)
			switch "" {
			case one.GetStart():
				field += ".start"
			case one.GetEnd():
				field += ".end"
			}
			v.Add(field, "%v", err)
		}
		to.QuietHours = append(to.QuietHours, q)
	}
}

// LimitsToProto writes limits into a policy.
func LimitsToProto(l *rollout.Limits, to *pb.RolloutPolicy) {
	changes := int32(l.ChangesPerDay)
	to.MaxChangesPerDay = &changes
	to.FlapWindow, to.RollbackHold = durationpb.New(l.FlapWindow), durationpb.New(l.RollbackHold)
	for _, q := range l.QuietHours {
		to.QuietHours = append(to.QuietHours, &pb.QuietHours{Start: rollout.Clock(q.Start), End: rollout.Clock(q.End),
			TimeZone: q.Zone})
	}
}

// MinSpan and MaxSpan bound the times of a policy.
const MinSpan, MaxSpan = time.Minute, 7 * 24 * time.Hour

// maxClusterText bounds the description of a cluster, in bytes of JSON.
const maxClusterText = 1 << 20

// ClusterField is the prefix of the fields of a cluster in a registration.
const ClusterField = "scheduler.spec.cluster."

// ClusterFromProto reads a cluster, and adds its violations.
func ClusterFromProto(c *pb.Cluster, v *Violations) workload.Cluster {
	if c.GetDescription() == nil {
		if n := c.GetNodes(); n <= 0 || n > workload.MaxNodes {
			v.Add(ClusterField+"nodes", "%d is not from 1 to 1,000,000", n)
		}
		if n := c.GetGpusPerNode(); n <= 0 || n > workload.MaxGPUsPerNode {
			v.Add(ClusterField+"gpus_per_node", "%d is not from 1 to 1024", n)
		}
		return workload.Uniform(int(c.GetNodes()), int(c.GetGpusPerNode()))
	}
	const field = ClusterField + "description"
	text, err := protojson.Marshal(c.GetDescription())
	if len(text) > maxClusterText {
		v.Add(field, "has %d bytes of JSON, more than %d", len(text), maxClusterText)
		return workload.Cluster{}
	}
	var out workload.Cluster
	if err == nil {
		out, err = workload.ParseCluster(text)
	}
	if err != nil {
		v.Add(field, "%v", err)
		return out
	}
	if n := int(c.GetNodes()); n != 0 && n != out.Nodes() {
		v.Add(ClusterField+"nodes", "%d is not the %d of the description", n, out.Nodes())
	}
	if n := int(c.GetGpusPerNode()); n != 0 && n != out.GPUsPerNode() {
		v.Add(ClusterField+"gpus_per_node", "%d is not the %d of the description", n, out.GPUsPerNode())
	}
	return out
}

// ClusterToProto has a description if the cluster is more than equal nodes.
func ClusterToProto(c workload.Cluster) *pb.Cluster {
	out := &pb.Cluster{Nodes: int32(c.Nodes()), GpusPerNode: int32(c.GPUsPerNode())}
	if reflect.DeepEqual(c, workload.Uniform(c.Nodes(), c.GPUsPerNode())) {
		return out
	}
	text, err := json.Marshal(c)
	if err == nil {
		out.Description = &structpb.Struct{}
		err = protojson.Unmarshal(text, out.Description)
	}
	if err != nil {
		panic("server: a cluster does not marshal: " + err.Error())
	}
	return out
}

// ModelsFromProto reads performance models.
func ModelsFromProto(s *structpb.Struct) (*simulator.ModelSpec, error) {
	text, err := protojson.Marshal(s)
	if err != nil {
		return nil, err
	}
	return simulator.ReadModels(bytes.NewReader(text))
}

// ModelsToProto panics for models that were not read by ModelsFromProto.
func ModelsToProto(m *simulator.ModelSpec) *structpb.Struct {
	text, err := json.Marshal(m)
	out := &structpb.Struct{}
	if err == nil {
		err = protojson.Unmarshal(text, out)
	}
	if err != nil {
		panic("server: models do not marshal: " + err.Error())
	}
	return out
}
