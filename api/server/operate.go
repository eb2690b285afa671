package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

var errEtag = errors.New("it was changed since its etag was read; read it again")

// matches is errEtag if a request has an etag and it is not the present one.
func matches(etag, present string) error {
	if etag != "" && etag != present {
		return fmt.Errorf("etag %.80q is not %q: %w", etag, present, errEtag)
	}
	return nil
}

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
		{"spec.rollout.min_controllable_ratio", &p.MinRatio},
		{"spec.rollout.min_gain", &p.MinGain},
		{"spec.rollout.change_price", &p.ChangePrice},
		{"spec.rollout.dwell", &p.Dwell},
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

// respec is the space and the cluster that a mask asks for: what it does not name stays.
func (r *registrar) respec(to, c *controller.Scheduler, req *pb.UpdateSchedulerRequest, found *violations) {
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
		found.add("scheduler."+parametersPath,
			"this version does not have %q: register the scheduler as one of %s", c.Type,
			strings.Join(r.builtinNames(), ", "))
		return
	}
	asked := &pb.SchedulerSpec{Parameters: spec.GetParameters(), Constraints: spec.GetConstraints()}
	if sp, err := space.New(c.Params, c.Rules); err == nil {
		if !names(parametersPath) {
			asked.Parameters = nil
			for _, p := range sp.Params() {
				asked.Parameters = append(asked.Parameters, paramToProto(&p))
			}
		}
		if !names(constraintsPath) {
			asked.Constraints = Constraints(sp)
		}
	}
	var wrong violations
	if b == nil {
		asked.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: c.Objective}}
		reg := controller.Registration{}
		externalFromProto(asked, &reg, &wrong)
		to.Params, to.Rules = reg.Params, reg.Rules
	} else {
		to.Params, to.Rules = narrow(b, asked, &wrong)
	}
	for _, w := range wrong { // of what the mask names, whichever field shows it
		if !names(parametersPath) && strings.HasPrefix(w.GetField(), parametersField) {
			w.Description, w.Field = w.GetField()+": "+w.GetDescription(), constraintsField
		} else if !names(constraintsPath) && strings.HasPrefix(w.GetField(), constraintsField) {
			w.Description, w.Field = w.GetField()+": "+w.GetDescription(), parametersField
		}
	}
	*found = append(*found, wrong...)
}

// recluster is the cluster that a mask asks for.
func recluster(c workload.Cluster, asked *pb.Cluster, paths []string, found *violations) workload.Cluster {
	if slices.Contains(paths, clusterPath) {
		return clusterFromProto(asked, found)
	}
	if slices.Contains(paths, clusterPath+".description") {
		if asked.GetDescription() == nil {
			asked = &pb.Cluster{Nodes: int32(c.Nodes()), GpusPerNode: int32(c.GPUsPerNode())}
		} else {
			asked = &pb.Cluster{Description: asked.GetDescription()}
		}
		return clusterFromProto(asked, found)
	}
	if len(c.Groups) != 1 {
		found.add(clusterField+"nodes", "the cluster has %d kinds of nodes: change its description", len(c.Groups))
		return c
	}
	whole := &pb.Cluster{Nodes: int32(c.Nodes()), GpusPerNode: int32(c.GPUsPerNode())}
	if slices.Contains(paths, clusterPath+".nodes") {
		whole.Nodes = asked.GetNodes()
	}
	if slices.Contains(paths, clusterPath+".gpus_per_node") {
		whole.GpusPerNode = asked.GetGpusPerNode()
	}
	size := clusterFromProto(whole, found).Groups[0]
	c.Groups = slices.Clone(c.Groups)
	c.Groups[0].Nodes, c.Groups[0].GPUsPerNode = size.Nodes, size.GPUsPerNode
	return c
}

// UpdateScheduler changes what is tuned of a scheduler, and how.
func (s *Server) UpdateScheduler(ctx context.Context, req *pb.UpdateSchedulerRequest) (*pb.Scheduler, error) {
	id, err := parseScheduler("scheduler.name", req.GetScheduler().GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, id, req.GetValidateOnly(), func(c *controller.Scheduler) error {
		if err := matches(req.GetScheduler().GetEtag(), s.schedulerEtag(c)); err != nil {
			return err
		}
		return s.registrar.applyUpdate(c, req)
	})
}

// applyUpdate changes what the mask names, unless a field of it makes no sense.
func (r *registrar) applyUpdate(c *controller.Scheduler, req *pb.UpdateSchedulerRequest) error {
	var v violations
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
			return invalid("update_mask", "is empty, and so are the fields that can be changed: %s", strings.Join(paths, ", "))
		}
	}
	// All fields are read; violations count only where the mask names the field.
	var found violations
	spec := req.GetScheduler().GetSpec()
	asked.DisplayName = req.GetScheduler().GetDisplayName()
	checkDisplayName("scheduler.display_name", asked.DisplayName, &found)
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
		known := isOutput(req.GetScheduler(), path) // changes nothing
		for i, u := range to {
			if u.path == path {
				known = true
				reflect.ValueOf(u.field).Elem().Set(reflect.ValueOf(from[i].field).Elem())
			}
		}
		if !known {
			v.add("update_mask", "%q cannot be changed: want some of %s", path, strings.Join(paths, ", "))
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
	return v.err()
}

// populated are the paths of fields that are set, without those that have others inside.
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

// DeleteScheduler deletes a scheduler, which can be undeleted for a while.
func (s *Server) DeleteScheduler(ctx context.Context, req *pb.DeleteSchedulerRequest) (*pb.Scheduler, error) {
	id, err := parseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.service.Delete(ctx, id, func(c *controller.Scheduler) error {
		return matches(req.GetEtag(), s.schedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// deleted is a scheduler that was deleted or undeleted, also one of which nothing can be read.
func (s *Server) deleted(c controller.Scheduler) (*pb.Scheduler, error) {
	if _, err := s.service.Space(c.ID); !errors.Is(err, controller.ErrQuarantined) {
		return s.scheduler(c.ID)
	}
	out := &pb.Scheduler{Name: schedulerName(c.ID)}
	if !c.Deleted.IsZero() {
		out.State, out.DeleteTime, out.ExpireTime = pb.Scheduler_DELETED, timestamppb.New(c.Deleted),
			timestamppb.New(c.Expires)
	}
	return out, nil
}

// UndeleteScheduler takes back that a scheduler was deleted.
func (s *Server) UndeleteScheduler(ctx context.Context, req *pb.UndeleteSchedulerRequest) (*pb.Scheduler, error) {
	id, err := parseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.service.Undelete(ctx, id, func(c *controller.Scheduler) error {
		return matches(req.GetEtag(), s.schedulerEtag(c))
	})
	if err != nil {
		return nil, err
	}
	return s.deleted(c)
}

// PauseTuning keeps rounds from being decided.
func (s *Server) PauseTuning(ctx context.Context, req *pb.PauseTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, true)
}

// ResumeTuning ends a pause.
func (s *Server) ResumeTuning(ctx context.Context, req *pb.ResumeTuningRequest) (*pb.Scheduler, error) {
	return s.pause(ctx, req, false)
}

func (s *Server) pause(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
	GetValidateOnly() bool
}, paused bool) (*pb.Scheduler, error) {
	id, err := parseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, id, req.GetValidateOnly(), func(c *controller.Scheduler) error {
		c.Paused = paused
		return matches(req.GetEtag(), s.schedulerEtag(c))
	})
}

// modify changes a scheduler and returns it. With validateOnly it returns the scheduler as it would be.
func (s *Server) modify(ctx context.Context, id string, validateOnly bool,
	f func(*controller.Scheduler) error) (*pb.Scheduler, error) {
	c, err := s.service.Modify(ctx, id, validateOnly, f)
	if err != nil {
		return nil, err
	}
	if !validateOnly {
		return s.scheduler(id)
	}
	_, st, err := s.service.Scheduler(id)
	if err != nil {
		return nil, err
	}
	sp, err := space.New(c.Params, c.Rules)
	if err != nil {
		return nil, err
	}
	return s.stamped(c, schedulerToProto(c, st, sp)), nil
}

// GetSchedulerRevision returns one revision of a scheduler.
func (s *Server) GetSchedulerRevision(_ context.Context,
	req *pb.GetSchedulerRevisionRequest) (*pb.SchedulerRevision, error) {
	id, revision, err := parseSchedulerRevision("name", req.GetName())
	if err != nil {
		return nil, err
	}
	c, _, err := s.service.Scheduler(id)
	if err != nil {
		return nil, err
	}
	all, err := s.service.Revisions(id, revision+1, 1)
	if err == nil && (len(all) == 0 || all[0].Number != revision) {
		err = fmt.Errorf("revision %d of scheduler %q: %w", revision, id, controller.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return schedulerRevisionToProto(&c, &all[0]), nil
}

// ListSchedulerRevisions lists the revisions of a scheduler, newest first.
func (s *Server) ListSchedulerRevisions(_ context.Context,
	req *pb.ListSchedulerRevisionsRequest) (*pb.ListSchedulerRevisionsResponse, error) {
	id, err := parseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	c, _, err := s.service.Scheduler(id)
	if err != nil {
		return nil, err
	}
	some := func(after token, n int) ([]*pb.SchedulerRevision, error) {
		all, err := s.service.Revisions(id, after.Revision, n)
		return mapped(all, func(r *controller.SchedulerRevision) *pb.SchedulerRevision {
			return schedulerRevisionToProto(&c, r)
		}), err
	}
	place := func(x *pb.SchedulerRevision) token { return token{Revision: x.GetRevision()} }
	page, next, err := list[*pb.SchedulerRevision]{some: some, place: place}.page(s.pages, req)
	return &pb.ListSchedulerRevisionsResponse{SchedulerRevisions: page, NextPageToken: next}, err
}

func schedulerRevisionToProto(c *controller.Scheduler, r *controller.SchedulerRevision) *pb.SchedulerRevision {
	out := &pb.SchedulerRevision{Name: schedulerRevisionName(c.ID, r.Number), Revision: r.Number}
	if r.Damage != nil || r.Space == nil {
		out.Error = fmt.Sprint("its record is damaged: ", r.Damage)
		return out
	}
	out.CreateTime, out.Objective = timestamppb.New(r.Created), objectiveToProto(r.Objective)
	out.Cluster = ClusterToProto(r.Cluster)
	for _, p := range r.Space.Params() {
		out.Parameters = append(out.Parameters, paramToProto(&p))
	}
	if c.Type == controller.External {
		out.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: r.Objective}}
	}
	out.Constraints = Constraints(r.Space)
	return out
}

// ApproveConfiguration offers a proposal to the scheduler.
func (s *Server) ApproveConfiguration(ctx context.Context,
	req *pb.ApproveConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := parseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.configured(s.service.Approve(ctx, id, rollout.Approve{Revision: revision, Applied: req.GetApplied(),
		Actor: operator(ctx), Why: audit.FromContext(ctx).Reason}, s.same(req.GetEtag())))
}

// same refuses a configuration that has another etag than a request.
func (s *Server) same(etag string) controller.Check {
	return func(c *rollout.Configuration) error { return matches(etag, s.etag(c)) }
}

// operator is the name of an operator that calls.
func operator(ctx context.Context) string {
	return cmp.Or(access.FromContext(ctx).Name, rollout.Operator)
}

// RejectConfiguration parks the values of a proposal.
func (s *Server) RejectConfiguration(ctx context.Context,
	req *pb.RejectConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := parseConfiguration("name", req.GetName())
	if err == nil && len(req.GetReason()) > maxReason {
		err = invalid("reason", "is longer than %d bytes", maxReason)
	}
	if err != nil {
		return nil, err
	}
	return s.configured(s.service.Reject(ctx, id, rollout.Reject{Revision: revision, Actor: operator(ctx),
		Why: cmp.Or(req.GetReason(), audit.FromContext(ctx).Reason)}, s.same(req.GetEtag())))
}

// UnparkConfiguration lets values be offered again.
func (s *Server) UnparkConfiguration(ctx context.Context,
	req *pb.UnparkConfigurationRequest) (*pb.Configuration, error) {
	id, revision, err := parseConfiguration("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.configured(s.service.Unpark(ctx, id, revision, s.same(req.GetEtag())))
}

// ListParkedConfigurations lists the values that are not offered.
func (s *Server) ListParkedConfigurations(_ context.Context,
	req *pb.ListParkedConfigurationsRequest) (*pb.ListParkedConfigurationsResponse, error) {
	id, err := parseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	parks, err := s.service.Parked(id)
	if err != nil {
		return nil, err
	}
	all := mapped(parks, func(p *rollout.Park) *pb.ParkedConfiguration { return parkToProto(id, p) })
	place := func(x *pb.ParkedConfiguration) token {
		return token{After: x.GetContentHash() + " " + x.GetActor(), Revision: x.GetCreateTime().AsTime().UnixNano()}
	}
	some := func(after token, n int) ([]*pb.ParkedConfiguration, error) {
		rest := all
		if after.After != "" {
			after = token{After: after.After, Revision: after.Revision}
			at := slices.IndexFunc(all, func(x *pb.ParkedConfiguration) bool { return place(x) == after })
			if at < 0 {
				return nil, errGone
			}
			rest = all[at+1:]
		}
		return rest[:min(n, len(rest))], nil
	}
	page, next, err := list[*pb.ParkedConfiguration]{some: some, place: place}.page(s.pages, req)
	return &pb.ListParkedConfigurationsResponse{ParkedConfigurations: page, NextPageToken: next}, err
}

func parkToProto(id string, p *rollout.Park) *pb.ParkedConfiguration {
	out := &pb.ParkedConfiguration{Configuration: configurationName(id, p.Revision), ContentHash: p.Hash,
		Actor: p.Actor, InstanceId: p.Instance, Reason: p.Why, CreateTime: timestamppb.New(p.Since)}
	if !p.Until.IsZero() {
		out.ExpireTime = timestamppb.New(p.Until)
	}
	return out
}

// ForgetInstance drops an instance that is gone.
func (s *Server) ForgetInstance(ctx context.Context,
	req *pb.ForgetInstanceRequest) (*pb.ForgetInstanceResponse, error) {
	id, err := parseScheduler("parent", req.GetParent())
	if err == nil {
		_, err = instanceID("instance_id", req.GetInstanceId())
	}
	if err == nil {
		err = s.service.ForgetInstance(ctx, id, req.GetInstanceId())
	}
	if err != nil {
		return nil, err
	}
	return &pb.ForgetInstanceResponse{}, nil
}

// RollbackConfiguration offers earlier values again.
func (s *Server) RollbackConfiguration(ctx context.Context,
	req *pb.RollbackConfigurationRequest) (*pb.Configuration, error) {
	id, err := parseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	if req.GetRevision() < 0 {
		return nil, invalid("revision", "%d is negative", req.GetRevision())
	}
	if req.GetFromRevision() < 0 {
		return nil, invalid("from_revision", "%d is negative", req.GetFromRevision())
	}
	c, err := s.service.Rollback(ctx, id, rollout.Rollback{To: req.GetRevision(), From: req.GetFromRevision(),
		Park: req.GetPark(), Actor: operator(ctx), Why: audit.FromContext(ctx).Reason})
	if err != nil {
		return nil, err
	}
	if !req.GetValidateOnly() {
		s.metrics.restored.WithLabelValues(id).Inc()
	}
	return s.configuration(c), nil
}
