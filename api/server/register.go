package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The limits of a rollout policy.
const (
	minSpan, maxSpan = time.Minute, 7 * 24 * time.Hour
	maxLateness      = 24 * time.Hour
	maxFutures       = 64
	maxTrialBudget   = 10_000
	maxRatio         = 100
	// maxCost bounds the cost of a round: its budget times its futures times its horizon.
	maxCost              = 200_000 * time.Hour
	minWeight, maxWeight = .1, 10
)

// checkCost refuses rounds that keep the processors from those of other schedulers for long.
func checkCost(p *controller.Policy, v *violations) {
	s := p.WithDefaults()
	if cost := float64(s.Budget) * float64(s.Futures) * s.Horizon.Hours(); cost > maxCost.Hours() {
		v.add("scheduler.spec.rollout.trial_budget", "%d x futures %d x horizon %v is %.0f simulated hours a round, more than "+
			"%.0f: lower one of them", s.Budget, s.Futures, s.Horizon, cost, maxCost.Hours())
	}
}

// registrar reads requests that register or update a scheduler.
type registrar struct {
	builtins []controller.Builtin // that can be registered
	// simulation is recorded for registrations that name none.
	simulation controller.Simulation
	// checkEnergy refuses an objective that counts energy on a cluster without a power model; nil refuses none.
	checkEnergy func(objective string, c workload.Cluster) error
}

// registration checks a registration as a whole and converts it: the built-in
// scheduler narrowed by the request. The error names every bad field.
func (r *registrar) registration(req *pb.CreateSchedulerRequest) (controller.Registration, error) {
	reg, v := r.registered(req)
	if len(v) == 0 {
		addMissing(&v, req.ProtoReflect(), "")
	}
	return reg, v.err()
}

func (r *registrar) registered(req *pb.CreateSchedulerRequest) (reg controller.Registration, v violations) {
	sched, spec := req.GetScheduler(), req.GetScheduler().GetSpec()
	reg = controller.Registration{
		ID: req.GetSchedulerId(), DisplayName: sched.GetDisplayName(), Type: spec.GetSchedulerType(),
	}
	if err := CheckID(reg.ID); err != nil {
		v.add("scheduler_id", "%v", err)
	}
	if len(req.GetRequestId()) > longestRequestID {
		v.add("request_id", "is longer than %d bytes", longestRequestID)
	}
	checkDisplayName("scheduler.display_name", reg.DisplayName, &v)
	reg.Labels, reg.Annotations = labelsFromProto(sched, &v)
	reg.Mode = modeFromProto(spec, &v)
	reg.Cluster = clusterFromProto(spec.GetCluster(), &v)
	reg.Policy = policyFromProto(spec.GetRollout(), &v)
	checkCost(&reg.Policy, &v)
	reg.Simulation = r.simulationFromProto(spec.GetSimulation(), &v)
	if reg.Type == controller.External {
		externalFromProto(spec, &reg, &v)
		return reg, v
	}
	builtin := r.builtin(reg.Type)
	if builtin == nil {
		v.add("scheduler.spec.scheduler_type", "%q is not known: want one of %s, or %s for a scheduler that is not "+
			"simulated", reg.Type, strings.Join(r.builtinNames(), ", "), controller.External)
		return reg, v
	}
	reg.Objective = objectiveFromProto(spec, &v)
	reg.Params, reg.Rules = narrow(builtin, spec, &v)
	if len(v) == 0 {
		r.addEnergy(reg.Objective, reg.Cluster, &v)
	}
	return reg, v
}

func (r *registrar) addEnergy(objective string, c workload.Cluster, v *violations) {
	if r.checkEnergy == nil {
		return
	}
	if err := r.checkEnergy(objective, c); err != nil {
		v.add("scheduler.spec.objective", "%v", err)
	}
}

func (r *registrar) builtin(name string) *controller.Builtin {
	for i := range r.builtins {
		if r.builtins[i].Name == name {
			return &r.builtins[i]
		}
	}
	return nil
}

func (r *registrar) builtinNames() []string {
	names := make([]string, len(r.builtins))
	for i := range r.builtins {
		names[i] = r.builtins[i].Name
	}
	return names
}

// CheckRegistration checks a registration as CreateScheduler does, without a
// service, and returns the space it asks for. Its error is a [space.Violations].
func CheckRegistration(builtins []controller.Builtin, req *pb.CreateSchedulerRequest) (*space.Space, error) {
	r := registrar{builtins: builtins}
	reg, err := r.registration(req)
	var bad violations
	if errors.As(err, &bad) {
		var v space.Violations
		for _, one := range bad {
			v = append(v, space.Violation{Field: one.GetField(), Description: one.GetDescription()})
		}
		return nil, v
	}
	if err != nil {
		return nil, err
	}
	return space.New(reg.Params, reg.Rules)
}

// narrow is the space of a built-in scheduler as the request narrows it.
func narrow(b *controller.Builtin, spec *pb.SchedulerSpec, v *violations) ([]space.Param, []space.Rule) {
	before := len(*v)
	params := make([]space.Param, len(spec.GetParameters()))
	for i, p := range spec.GetParameters() {
		params[i] = paramFromProto(p, fmt.Sprintf("%s[%d]", parametersField, i), v)
	}
	var rules []space.Rule
	var ruleAt []int // places in the request
	for i, c := range spec.GetConstraints() {
		r := ruleFromProto(c, fmt.Sprintf("%s[%d]", constraintsField, i), v)
		// A built-in rule said again is no second one, so that what the service
		// answered can be registered again.
		if !slices.ContainsFunc(b.Rules, func(own space.Rule) bool { return reflect.DeepEqual(own, r) }) {
			rules, ruleAt = append(rules, r), append(ruleAt, i)
		}
	}
	if len(*v) > before {
		return nil, nil
	}
	merged, allRules, found := b.Narrow(params, rules)
	for _, one := range found {
		field, _ := fieldOf(spec, one.Field, func(_ bool, i int) int { return i })
		v.add(field, "%s", one.Description)
	}
	if len(found) > 0 {
		return nil, nil
	}
	place := func(rule bool, i int) int {
		if rule {
			if i -= len(b.Rules); i >= 0 {
				return ruleAt[i]
			}
			return -1
		}
		return slices.IndexFunc(params, func(p space.Param) bool { return p.ID == merged[i].ID })
	}
	_, err := space.New(merged, allRules)
	var wrong space.Violations
	if errors.As(err, &wrong) {
		for _, one := range wrong {
			if field, exact := fieldOf(spec, one.Field, place); exact {
				v.add(field, "%s", one.Description)
			} else {
				v.add(field, "together with the built-in ones: %s: %s", one.Field, one.Description)
			}
		}
	}
	return merged, allRules
}

// maxClusterText bounds the description of a cluster, in bytes of JSON.
const maxClusterText = 1 << 20

const clusterField = "scheduler.spec.cluster."

// clusterFromProto reads a cluster, and finds what is wrong with it.
func clusterFromProto(c *pb.Cluster, v *violations) workload.Cluster {
	if c.GetDescription() == nil {
		if n := c.GetNodes(); n <= 0 || n > workload.MaxNodes {
			v.add(clusterField+"nodes", "%d is not from 1 to 1,000,000", n)
		}
		if n := c.GetGpusPerNode(); n <= 0 || n > workload.MaxGPUsPerNode {
			v.add(clusterField+"gpus_per_node", "%d is not from 1 to 1024", n)
		}
		return workload.Uniform(int(c.GetNodes()), int(c.GetGpusPerNode()))
	}
	const field = clusterField + "description"
	text, err := protojson.Marshal(c.GetDescription())
	if len(text) > maxClusterText {
		v.add(field, "has %d bytes of JSON, more than %d", len(text), maxClusterText)
		return workload.Cluster{}
	}
	var out workload.Cluster
	if err == nil {
		out, err = workload.ParseCluster(text)
	}
	if err != nil {
		v.add(field, "%v", err)
		return out
	}
	if n := int(c.GetNodes()); n != 0 && n != out.Nodes() {
		v.add(clusterField+"nodes", "%d is not the %d of the description", n, out.Nodes())
	}
	if n := int(c.GetGpusPerNode()); n != 0 && n != out.GPUsPerNode() {
		v.add(clusterField+"gpus_per_node", "%d is not the %d of the description", n, out.GPUsPerNode())
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

// The bounds of labels and annotations.
const (
	maxLabels      = 64
	maxAnnotations = 64 << 10 // bytes of all
)

var (
	labelKey      = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue    = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	annotationKey = regexp.MustCompile(`^[a-z][a-z0-9_./-]{0,62}$`)
)

func checkLabels(field string, labels map[string]string, v *violations) {
	if n := len(labels); n > maxLabels {
		v.add(field, "has %d, more than %d", n, maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey.MatchString(key) {
			v.add(field, "key %.80q is not 1 to 63 of a-z, 0-9, '_' and '-' beginning with a letter", key)
		}
		if value := labels[key]; !labelValue.MatchString(value) {
			v.add(fmt.Sprintf("%s[%.80q]", field, key), "%.80q is not at most 63 of a-z, 0-9, '_' and '-'", value)
		}
	}
}

func labelsFromProto(s *pb.Scheduler, v *violations) (labels, annotations map[string]string) {
	checkLabels("scheduler.labels", s.GetLabels(), v)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.GetAnnotations())) {
		if size += len(key) + len(s.GetAnnotations()[key]); !annotationKey.MatchString(key) {
			v.add("scheduler.annotations", "key %.80q is not 1 to 63 of a-z, 0-9, '_', '-', '.' and '/' beginning with a "+
				"letter", key)
		}
	}
	if size > maxAnnotations {
		v.add("scheduler.annotations", "has %d bytes, more than %d", size, maxAnnotations)
	}
	return s.GetLabels(), s.GetAnnotations()
}

func checkDisplayName(field, name string, v *violations) {
	if utf8.RuneCountInString(name) > 63 {
		v.add(field, "is longer than 63 characters")
	}
}

func modeFromProto(spec *pb.SchedulerSpec, v *violations) controller.Mode {
	switch spec.GetMode() {
	case pb.SchedulerSpec_MODE_UNSPECIFIED, pb.SchedulerSpec_RECOMMEND:
	case pb.SchedulerSpec_AUTO:
		return controller.Auto
	default:
		v.add("scheduler.spec.mode", "%d is not known: want RECOMMEND or AUTO", spec.GetMode())
	}
	return controller.Recommend
}

// longestGoal bounds a goal's text.
const longestGoal = 1000

// objectiveToProto is the inverse of objectiveFromProto.
func objectiveToProto(objective string) *pb.ObjectiveSpec {
	if _, err := round.ParseMetric(objective); err == nil {
		return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: objective}}
	}
	return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: objective}}
}

func objectiveFromProto(spec *pb.SchedulerSpec, v *violations) string {
	if spec.GetObjective().GetKind() == nil {
		return round.Objectives[0]
	}
	if goal, ok := spec.GetObjective().GetKind().(*pb.ObjectiveSpec_Goal); ok {
		if len(goal.Goal) > longestGoal {
			v.add("scheduler.spec.objective.goal", "it has %d characters, more than %d", len(goal.Goal), longestGoal)
			return ""
		}
		g, err := round.ParseGoal(goal.Goal)
		if err != nil {
			v.add("scheduler.spec.objective.goal", "%v", err)
		}
		return g.String()
	}
	metric, err := round.ParseMetric(spec.GetObjective().GetMetricId())
	if err != nil {
		v.add("scheduler.spec.objective.metric_id", "%v", err)
	}
	return metric
}

func policyFromProto(r *pb.RolloutPolicy, v *violations) controller.Policy {
	const at = "scheduler.spec.rollout."
	p := controller.DefaultPolicy()
	span := func(dst *time.Duration, d *durationpb.Duration, field string) {
		if d == nil {
			return
		}
		if err := d.CheckValid(); err != nil || d.AsDuration() < minSpan || d.AsDuration() > maxSpan {
			v.add(at+field, "%v is not from %v to %v", d.AsDuration(), minSpan, maxSpan)
			return
		}
		*dst = d.AsDuration()
	}
	span(&p.UpdateInterval, r.GetUpdateInterval(), "update_interval")
	span(&p.Horizon, r.GetHorizon(), "horizon")
	if x := r.GetMinControllableRatio(); x != 0 {
		if math.IsNaN(x) || x < 1 || x > maxRatio {
			v.add(at+"min_controllable_ratio", "%v is not from 1 to %d", x, maxRatio)
		}
		p.MinRatio = x
	}
	share := func(dst *float64, x float64, field string) {
		if x == 0 {
			return
		}
		if !(x <= 1) || math.IsInf(x, 0) {
			v.add(at+field, "%v is above 1: it is a share, such as 0.1 for 10 %%, or negative for none", x)
		}
		*dst = x
	}
	share(&p.MinGain, r.GetMinGain(), "min_gain")
	share(&p.ChangePrice, r.GetChangePrice(), "change_price")
	share(&p.Guard, r.GetGuard(), "guard")
	optional := func(dst *time.Duration, d *durationpb.Duration, field string) {
		if d.AsDuration() == 0 {
			return
		}
		if err := d.CheckValid(); err != nil || d.AsDuration() > maxSpan {
			v.add(at+field, "%v is above %v", d.AsDuration(), maxSpan)
		}
		*dst = d.AsDuration()
	}
	optional(&p.Dwell, r.GetDwell(), "dwell")
	optional(&p.AckDeadline, r.GetAcknowledgeDeadline(), "acknowledge_deadline")
	if d := r.GetAllowedLateness(); d.AsDuration() != 0 {
		if err := d.CheckValid(); err != nil || d.AsDuration() > maxLateness {
			v.add(at+"allowed_lateness", "%v is above %v", d.AsDuration(), maxLateness)
		}
		p.AllowedLateness = d.AsDuration()
	}
	number := func(dst *int, n int32, most int, field string) {
		if n == 0 {
			return
		}
		if n < 0 || int(n) > most {
			v.add(at+field, "%d is not from 1 to %d", n, most)
		}
		*dst = int(n)
	}
	if x := r.GetWeight(); x != 0 {
		if !(x >= minWeight && x <= maxWeight) {
			v.add(at+"weight", "%v is not from %v to %v", x, minWeight, maxWeight)
		}
		p.Weight = x
	}
	number(&p.Futures, r.GetFutures(), maxFutures, "futures")
	number(&p.Budget, r.GetTrialBudget(), maxTrialBudget, "trial_budget")
	p.Seed = r.GetSeed()
	limitsFromProto(r, &p.Limits, v)
	p.Waves.Canary, p.Waves.Share = r.GetCanary(), r.GetWaveShare()
	if x := r.GetWaveShare(); !(x >= 0 && x < 1) {
		v.add(at+"wave_share", "%v is not from 0 to below 1: it is a share of the instances, such as 0.5", x)
	}
	optional(&p.Waves.Soak, r.GetSoakTime(), "soak_time")
	return p
}

// schedulerEtag identifies what operators set of a scheduler.
func (s *Server) schedulerEtag(c *controller.Scheduler) string {
	return fmt.Sprintf("%x-%.8s-%d", s.service.Epoch().Counter, c.UID, c.Generation)
}

// stamped adds what depends on the store.
func (s *Server) stamped(c controller.Scheduler, out *pb.Scheduler) *pb.Scheduler {
	out.Epoch, out.Etag = s.epoch(), s.schedulerEtag(&c)
	return out
}

func schedulerToProto(c controller.Scheduler, st controller.Status, sp *space.Space) *pb.Scheduler {
	settings := c.Policy.WithDefaults() // what an older version stored lacks some
	spec := &pb.SchedulerSpec{
		SchedulerType: c.Type,
		Objective:     objectiveToProto(c.Objective),
		Cluster:       ClusterToProto(c.Cluster),
		Mode:          pb.SchedulerSpec_RECOMMEND,
		Rollout: &pb.RolloutPolicy{
			UpdateInterval: durationpb.New(c.Policy.UpdateInterval), MinControllableRatio: settings.MinRatio,
			MinGain: settings.MinGain, ChangePrice: settings.ChangePrice, Dwell: durationpb.New(settings.Dwell),
			AcknowledgeDeadline: durationpb.New(cmp.Or(c.Policy.AckDeadline, controller.DefaultAckDeadline)),
			Guard:               settings.Guard, Horizon: durationpb.New(settings.Horizon),
			Futures: int32(settings.Futures), TrialBudget: int32(settings.Budget), Seed: settings.Seed,
			Weight: cmp.Or(c.Policy.Weight, 1), AllowedLateness: durationpb.New(c.Policy.AllowedLateness),
		},
	}
	LimitsToProto(&c.Policy.Limits, spec.Rollout)
	if w := &c.Policy.Waves; *w != (rollout.Waves{}) {
		spec.Rollout.Canary, spec.Rollout.WaveShare = w.Canary, w.Share
		spec.Rollout.SoakTime = durationpb.New(cmp.Or(w.Soak, rollout.DefaultSoak))
	}
	if c.Type == controller.External {
		spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: c.Objective}}
	} else {
		spec.Simulation = simulationToProto(&c.Simulation)
	}
	if c.Mode == controller.Auto {
		spec.Mode = pb.SchedulerSpec_AUTO
	}
	state := pb.Scheduler_ACTIVE
	if c.Paused {
		state = pb.Scheduler_PAUSED
	}
	if !c.Deleted.IsZero() {
		state = pb.Scheduler_DELETED
	}
	for _, p := range sp.Params() {
		spec.Parameters = append(spec.Parameters, paramToProto(&p))
	}
	spec.Constraints = Constraints(sp)
	out := &pb.Scheduler{
		Name: schedulerName(c.ID), Uid: c.UID, DisplayName: c.DisplayName, Spec: spec, State: state,
		Generation: c.Generation, Revision: max(1, c.Revision), Labels: c.Labels, Annotations: c.Annotations,
		CreateTime: timestamppb.New(c.Created), UpdateTime: timestamppb.New(c.Updated),
		Status: &pb.SchedulerStatus{EventCount: st.Events, RoundCount: st.Rounds, LastDecision: st.LastDecision,
			LastError: st.LastError, Fidelity: st.Fidelity, Watching: st.Watching, Hold: st.Hold,
			LastIncident: incidentToProto(st.Incident), LateEventCount: st.LateEvents},
	}
	if !c.Deleted.IsZero() {
		out.DeleteTime, out.ExpireTime = timestamppb.New(c.Deleted), timestamppb.New(c.Expires)
	}
	if c.OfferedRevision > 0 {
		out.CurrentConfiguration = configurationName(c.ID, c.OfferedRevision)
	}
	out.Status.Degraded = st.Degraded
	for i := range st.Instances {
		out.Status.Instances = append(out.Status.Instances, instanceToProto(&st.Instances[i], sp))
	}
	out.Freeze, out.Pin = freezeToProto(c.Freeze), pinToProto(c.ID, c.Pin)
	if p := c.Pause; p != nil {
		out.Pause = &pb.Pause{Reason: p.Reason, Actor: p.Actor, CreateTime: timestamppb.New(p.Created)}
	}
	if st.Proposed > 0 {
		out.Status.ProposedConfiguration = configurationName(c.ID, st.Proposed)
	}
	if !st.EventTime.IsZero() {
		out.Status.EventTime = timestamppb.New(st.EventTime)
	}
	return out
}

var conditions = map[rollout.Condition]pb.InstanceStatus_Condition{
	rollout.InSync: pb.InstanceStatus_IN_SYNC, rollout.Pending: pb.InstanceStatus_PENDING,
	rollout.Degraded: pb.InstanceStatus_DEGRADED,
}

func instanceToProto(i *controller.InstanceStatus, sp *space.Space) *pb.InstanceStatus {
	out := &pb.InstanceStatus{InstanceId: i.ID, Condition: conditions[i.Condition], Reason: i.Why,
		DesiredRevision: i.Desired, ReportedRevision: i.Revision, ContentHash: i.Hash,
		EffectiveParameters: ValuesToProto(sp, i.Effective), ReportTime: timestamppb.New(i.Reported)}
	if !i.Applied.IsZero() {
		out.AppliedTime = timestamppb.New(i.Applied)
	}
	return out
}
