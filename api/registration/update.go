package registration

import (
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// updatable is a field that UpdateScheduler may change.
type updatable struct {
	path  string // in the request
	field any    // a pointer to it in a scheduler
}

// updates returns the fields that UpdateScheduler may change of s, in the order in which errors list them.
func updates(s *controller.Scheduler) []updatable {
	p, limits, waves := &s.Policy, &s.Policy.Limits, &s.Policy.Waves
	return []updatable{
		{"display_name", &s.DisplayName},
		{"labels", &s.Labels},
		{"annotations", &s.Annotations},
		{parametersPath, &s.Params},
		{parametersPath, &s.Rules},
		{constraintsPath, &s.Params},
		{constraintsPath, &s.Rules},
		{clusterPath, &s.Cluster},
		{clusterPath + ".nodes", &s.Cluster},
		{clusterPath + ".gpus_per_node", &s.Cluster},
		{clusterPath + ".description", &s.Cluster},
		{"spec.mode", &s.Mode},
		{"spec.objective", &s.Objective},
		{"spec.objective.metric_id", &s.Objective},
		{"spec.objective.goal", &s.Objective},
		{"spec.rollout", p},
		{"spec.rollout.update_interval", &p.UpdateInterval},
		{"spec.rollout.adoption", &p.Rule},
		{"spec.rollout.allowed_lateness", &p.AllowedLateness},
		{"spec.rollout.acknowledge_deadline", &p.AckDeadline},
		{"spec.rollout.guard", &p.Guard},
		{"spec.rollout.horizon", &p.Horizon},
		{"spec.rollout.futures", &p.Futures},
		{"spec.rollout.trial_budget", &p.Budget},
		{"spec.rollout.seed", &p.Seed},
		{"spec.rollout.max_changes_per_day", &limits.ChangesPerDay},
		{"spec.rollout.flap_window", &limits.FlapWindow},
		{"spec.rollout.rollback_hold", &limits.RollbackHold},
		{"spec.rollout.quiet_hours", &limits.QuietHours},
		{"spec.rollout.canary", &waves.Canary},
		{"spec.rollout.wave_share", &waves.Share},
		{"spec.rollout.soak_time", &waves.Soak},
		{"spec.rollout.weight", &p.Weight},
		{"spec.simulation", &s.Simulation},
		{"spec.simulation.max_preemptions", &s.Simulation.MaxPreemptions},
		{"spec.simulation.min_run", &s.Simulation.MinRun},
		{"spec.simulation.models", &s.Simulation.Models},
	}
}

const (
	parametersPath  = "spec.parameters"
	constraintsPath = "spec.constraints"
	clusterPath     = "spec.cluster"
)

// respec sets the space and the cluster that a mask asks for; fields outside the mask stay.
func (r *Reader) respec(to, c *controller.Scheduler, req *pb.UpdateSchedulerRequest, found *convert.Violations) {
	names := func(path string) bool {
		return slices.ContainsFunc(req.GetUpdateMask().GetPaths(), func(p string) bool {
			return p == path || path == clusterPath && strings.HasPrefix(p, clusterPath+".")
		})
	}
	spec, paths := req.GetScheduler().GetSpec(), req.GetUpdateMask().GetPaths()
	if names(clusterPath) {
		to.Cluster = recluster(c.Cluster, spec.GetCluster(), paths, found)
	}
	if !names(parametersPath) && !names(constraintsPath) {
		return
	}
	b := r.builtin(c.Type)
	if b == nil && c.Type != controller.External {
		found.Add("scheduler."+parametersPath,
			"this version does not have %q: register the scheduler as one of %s", c.Type,
			strings.Join(r.builtinNames(), ", "))
		return
	}
	asked := &pb.SchedulerSpec{Parameters: spec.GetParameters(), Constraints: spec.GetConstraints()}
	if sp, err := space.New(c.Params, c.Rules); err == nil {
		if !names(parametersPath) {
			asked.Parameters = nil
			for _, p := range sp.Params() {
				asked.Parameters = append(asked.Parameters, convert.ParamToProto(&p))
			}
		}
		if !names(constraintsPath) {
			asked.Constraints = convert.Constraints(sp)
		}
	}
	var wrong convert.Violations
	if b == nil {
		asked.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: c.Objective}}
		reg := controller.Registration{}
		externalFromProto(asked, &reg, &wrong)
		to.Params, to.Rules = reg.Params, reg.Rules
	} else {
		to.Params, to.Rules = narrow(b, asked, &wrong)
	}
	for _, w := range wrong { // of fields in the mask, under any field that shows it
		if !names(parametersPath) && strings.HasPrefix(w.GetField(), convert.ParametersField) {
			w.Description, w.Field = w.GetField()+": "+w.GetDescription(), convert.ConstraintsField
		} else if !names(constraintsPath) && strings.HasPrefix(w.GetField(), convert.ConstraintsField) {
			w.Description, w.Field = w.GetField()+": "+w.GetDescription(), convert.ParametersField
		}
	}
	*found = append(*found, wrong...)
}

// recluster is the cluster that a mask asks for.
func recluster(c workload.Cluster, asked *pb.Cluster, paths []string, found *convert.Violations) workload.Cluster {
	if slices.Contains(paths, clusterPath) {
		return convert.ClusterFromProto(asked, found)
	}
	if slices.Contains(paths, clusterPath+".description") {
		if asked.GetDescription() == nil {
			asked = &pb.Cluster{Nodes: int32(c.Nodes()), GpusPerNode: int32(c.GPUsPerNode())}
		} else {
			asked = &pb.Cluster{Description: asked.GetDescription()}
		}
		return convert.ClusterFromProto(asked, found)
	}
	if len(c.Groups) != 1 {
		found.Add(convert.ClusterField+"nodes", "the cluster has %d kinds of nodes: change its description",
			len(c.Groups))
		return c
	}
	whole := &pb.Cluster{Nodes: int32(c.Nodes()), GpusPerNode: int32(c.GPUsPerNode())}
	if slices.Contains(paths, clusterPath+".nodes") {
		whole.Nodes = asked.GetNodes()
	}
	if slices.Contains(paths, clusterPath+".gpus_per_node") {
		whole.GpusPerNode = asked.GetGpusPerNode()
	}
	size := convert.ClusterFromProto(whole, found).Groups[0]
	c.Groups = slices.Clone(c.Groups)
	c.Groups[0].Nodes, c.Groups[0].GPUsPerNode = size.Nodes, size.GPUsPerNode
	return c
}

// Update changes the fields of the mask, unless one of them is invalid.
func (r *Reader) Update(c *controller.Scheduler, req *pb.UpdateSchedulerRequest) error {
	var v convert.Violations
	asked := controller.Scheduler{}
	to, from := updates(c), updates(&asked)
	var paths []string
	for _, u := range to {
		if !slices.Contains(paths, u.path) {
			paths = append(paths, u.path)
		}
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		req = proto.Clone(req).(*pb.UpdateSchedulerRequest)
		req.UpdateMask = &fieldmaskpb.FieldMask{Paths: populated(req.GetScheduler(), paths)}
		if len(req.GetUpdateMask().GetPaths()) == 0 {
			return convert.Invalid("update_mask", "is empty, and so are the fields that can be changed: %s",
				strings.Join(paths, ", "))
		}
	}
	// All fields are read; violations count only where the mask names the field.
	var found convert.Violations
	spec := req.GetScheduler().GetSpec()
	asked.DisplayName = req.GetScheduler().GetDisplayName()
	convert.CheckDisplayName("scheduler.display_name", asked.DisplayName, &found)
	asked.Labels, asked.Annotations = labelsFromProto(req.GetScheduler(), &found)
	r.respec(&asked, c, req, &found)
	asked.Mode = modeFromProto(spec, &found)
	asked.Policy = policyFromProto(spec.GetRollout(), &found)
	asked.Simulation = r.simulationFromProto(spec.GetSimulation(), &found)
	if c.Type == controller.External {
		asked.Objective = metricFromProto(spec, &found)
		checkExternal(spec, &found)
	} else if b := r.builtin(c.Type); b != nil {
		asked.Objective = objectiveFromProto(spec, &found)
	} else { // registered by a version that had it
		asked.Objective = spec.GetObjective().GetMetricId() + spec.GetObjective().GetGoal()
	}
	for _, path := range req.GetUpdateMask().GetPaths() {
		known := convert.IsOutput(req.GetScheduler(), path) // changes nothing
		for i, u := range to {
			if u.path == path {
				known = true
				reflect.ValueOf(u.field).Elem().Set(reflect.ValueOf(from[i].field).Elem())
			}
		}
		if !known {
			v.Add("update_mask", "%q cannot be changed: want some of %s", path, strings.Join(paths, ", "))
		}
		at := "scheduler." + path
		if strings.HasPrefix(path, "spec.objective.") { // of its kinds there is one, whichever is named
			at = "scheduler.spec.objective"
		}
		for _, f := range found {
			if f.GetField() == at || strings.HasPrefix(f.GetField(), at+".") ||
				strings.HasPrefix(f.GetField(), at+"[") {
				v = append(v, f)
			}
		}
	}
	if slices.ContainsFunc(req.GetUpdateMask().GetPaths(), func(path string) bool {
		return strings.HasPrefix(path, "spec.rollout")
	}) {
		checkCost(&c.Policy, &v)
	}
	if len(v) == 0 && slices.ContainsFunc(req.GetUpdateMask().GetPaths(), func(path string) bool {
		return strings.HasPrefix(path, "spec.objective") || strings.HasPrefix(path, clusterPath)
	}) && c.Type != controller.External {
		r.addEnergy(c.Objective, c.Cluster, &v)
	}
	return v.Err()
}

// populated returns the paths of fields that are set, without messages that have other paths inside.
func populated(m proto.Message, paths []string) (out []string) {
	for _, path := range paths {
		if slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") }) {
			continue
		}
		at, set := m.ProtoReflect(), true
		for name := range strings.SplitSeq(path, ".") {
			field := at.Descriptor().Fields().ByName(protoreflect.Name(name))
			if set = set && field != nil && at.Has(field); set && field.Message() != nil && !field.IsList() &&
				!field.IsMap() {
				at = at.Get(field).Message()
			}
		}
		if set {
			out = append(out, path)
		}
	}
	return out
}
