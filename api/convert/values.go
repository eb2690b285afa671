package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// ValuesToProto are values of parameters of a space, nil if there are none.
func ValuesToProto(sp *space.Space, values space.Values) map[string]*structpb.Value {
	var out map[string]*structpb.Value
	for id, x := range values {
		if p, ok := sp.Param(id); ok {
			if out == nil {
				out = map[string]*structpb.Value{}
			}
			out[id] = ValueToProto(&p, x)
		}
	}
	return out
}

// ValuesFromProto reads values by parameter id.
func ValuesFromProto(sp *space.Space, in map[string]*structpb.Value) (map[string]space.Value, error) {
	var v Violations
	out := map[string]space.Value{}
	for _, id := range slices.Sorted(maps.Keys(in)) {
		field := fmt.Sprintf("parameters[%.80q]", id)
		x, why := ValueFromProto(in[id])
		switch p, ok := sp.Param(id); {
		case !ok:
			v.Add(field, "there is no such parameter")
		case why != "":
			v.Add(field, "%s", why)
		case !SameShape(&p, in[id]):
			v.Add(field, "%s is not a value of it: want %s", x, p.Range())
		default:
			out[id] = x
		}
	}
	return out, v.Err()
}

// Overlay returns a configuration with other values, projected, and the changes of the values given.
func Overlay(sp *space.Space, base space.Config, values map[string]space.Value) (space.Config, []space.Change) {
	raw := space.Values{}
	for _, p := range sp.Params() {
		if x, given := values[p.ID]; given {
			raw[p.ID] = x
		} else if base.Has(p.ID) {
			raw[p.ID] = base.Get(p.ID)
		}
	}
	config, changes := sp.Project(raw)
	return config, slices.DeleteFunc(changes, func(c space.Change) bool {
		_, given := values[c.Param]
		return !given
	})
}

// Choose is a configuration with other values, which must be valid as they are.
func Choose(sp *space.Space, base space.Config, in map[string]*structpb.Value) (space.Config, error) {
	if len(in) == 0 {
		return base, Invalid("parameters", "are required: values by parameter id")
	}
	values, err := ValuesFromProto(sp, in)
	if err != nil {
		return base, err
	}
	config, changes := Overlay(sp, base, values)
	var v Violations
	for _, c := range changes {
		p, _ := sp.Param(c.Param)
		to := "nothing"
		if !c.To.IsZero() {
			to = p.Format(c.To)
		}
		v.Add(fmt.Sprintf("parameters[%q]", c.Param), "%s is not valid (%s): %s is the nearest that is", c.From,
			c.Rule, to)
	}
	return config, v.Err()
}

// ConfigToProto returns the values of c by parameter id.
func ConfigToProto(c space.Config) map[string]*structpb.Value {
	out := map[string]*structpb.Value{}
	for _, id := range c.IDs() {
		p, _ := c.Space().Param(id)
		out[id] = ValueToProto(&p, c.Get(id))
	}
	return out
}

// ChangesToProto writes the changes of a projection.
func ChangesToProto(sp *space.Space, changes []space.Change) (out []*pb.ParameterChange) {
	for _, change := range changes {
		p, _ := sp.Param(change.Param)
		one := &pb.ParameterChange{ParameterId: change.Param, ConstraintId: change.Rule}
		if !change.From.IsZero() {
			one.From = ValueToProto(&p, change.From)
		}
		if !change.To.IsZero() {
			one.To = ValueToProto(&p, change.To)
		}
		out = append(out, one)
	}
	return out
}

// ValueToProto writes a value; nil for a parameter without one.
func ValueToProto(p *space.Param, v space.Value) *structpb.Value {
	switch {
	case v.IsZero():
		return nil
	case p.Array != nil:
		list := &structpb.ListValue{}
		for _, x := range v.Floats() {
			list.Values = append(list.Values, structpb.NewNumberValue(x))
		}
		return structpb.NewListValue(list)
	case p.Kind == space.KindBool:
		return structpb.NewBoolValue(v.Bool())
	case p.Kind == space.KindCategorical || p.Kind == space.KindOrdinal:
		return structpb.NewStringValue(v.Text())
	}
	return structpb.NewNumberValue(v.Float())
}

// ValueFromProto reads a value of any parameter; why says why it is
// invalid by itself. No value at all is the zero Value.
func ValueFromProto(v *structpb.Value) (out space.Value, why string) {
	number := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch k := v.GetKind().(type) {
	case nil:
		return space.Value{}, ""
	case *structpb.Value_NumberValue:
		if !number(k.NumberValue) {
			return out, "is not a finite number"
		}
		return space.Num(k.NumberValue), ""
	case *structpb.Value_BoolValue:
		return space.Bool(k.BoolValue), ""
	case *structpb.Value_StringValue:
		return space.Text(k.StringValue), ""
	case *structpb.Value_ListValue:
		nums := make([]float64, len(k.ListValue.GetValues()))
		for i, e := range k.ListValue.GetValues() {
			n, ok := e.GetKind().(*structpb.Value_NumberValue)
			if !ok || !number(n.NumberValue) {
				return out, "is a list of something else than finite numbers"
			}
			nums[i] = n.NumberValue
		}
		return space.Nums(nums...), ""
	}
	return out, "is neither a number, true or false, a text nor a list of numbers"
}

// SameShape reports whether a value could be one of the parameter, in its
// range or not.
func SameShape(p *space.Param, v *structpb.Value) bool {
	switch v.GetKind().(type) {
	case *structpb.Value_ListValue:
		return p.Array != nil
	case *structpb.Value_BoolValue:
		return p.Kind == space.KindBool
	case *structpb.Value_StringValue:
		return p.Kind == space.KindCategorical || p.Kind == space.KindOrdinal
	case *structpb.Value_NumberValue:
		return p.Array == nil && p.Kind != space.KindBool && p.Kind != space.KindCategorical &&
			p.Kind != space.KindOrdinal
	}
	return false
}

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
