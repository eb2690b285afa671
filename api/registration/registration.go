// Package registration reads requests that register or update a scheduler into the types of the
// controller, and writes them back. It checks a registration as a whole: the built-in scheduler
// narrowed by the request.
package registration

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

const maxLateness = 24 * time.Hour

const maxFutures = 64

const maxTrialBudget = 10_000

// maxCost bounds the cost of a round: its budget times its futures times its horizon.
const maxCost = 200_000 * time.Hour

const minWeight, maxWeight = .1, 10

// checkCost refuses rounds that would hold the processors for long while other schedulers wait.
func checkCost(p *controller.Policy, v *convert.Violations) {
	s := p.WithDefaults()
	if cost := float64(s.Budget) * float64(s.Futures) * s.Horizon.Hours(); cost > maxCost.Hours() {
		v.Add("scheduler.spec.rollout.trial_budget",
			"%d x futures %d x horizon %v is %.0f simulated hours a round, more than "+
				"%.0f: lower one of them", s.Budget, s.Futures, s.Horizon, cost, maxCost.Hours())
	}
}

// Reader reads requests that register or update a scheduler.
type Reader struct {
	Builtins []controller.Builtin // that can be registered
	// Simulation is recorded for registrations that name none.
	Simulation controller.Simulation
	// CheckEnergy refuses an objective that counts energy on a cluster without a power model; nil refuses none.
	CheckEnergy func(objective string, c workload.Cluster) error
}

// Read checks a registration as a whole and converts it: the built-in
// scheduler narrowed by the request. The error names every bad field.
func (r *Reader) Read(req *pb.CreateSchedulerRequest) (controller.Registration, error) {
	reg, v := r.registered(req)
	if len(v) == 0 {
		convert.AddMissing(&v, req.ProtoReflect(), "")
	}
	return reg, v.Err()
}

func (r *Reader) registered(req *pb.CreateSchedulerRequest) (reg controller.Registration, v convert.Violations) {
	sched, spec := req.GetScheduler(), req.GetScheduler().GetSpec()
	reg = controller.Registration{
		ID: req.GetSchedulerId(), DisplayName: sched.GetDisplayName(), Type: spec.GetSchedulerType(),
	}
	if err := convert.CheckID(reg.ID); err != nil {
		v.Add("scheduler_id", "%v", err)
	}
	if len(req.GetRequestId()) > convert.MaxRequestID {
		v.Add("request_id", "is longer than %d bytes", convert.MaxRequestID)
	}
	convert.CheckDisplayName("scheduler.display_name", reg.DisplayName, &v)
	reg.Labels, reg.Annotations = labelsFromProto(sched, &v)
	reg.Mode = modeFromProto(spec, &v)
	reg.Cluster = convert.ClusterFromProto(spec.GetCluster(), &v)
	reg.Policy = policyFromProto(spec.GetRollout(), &v)
	checkCost(&reg.Policy, &v)
	reg.Simulation = r.simulationFromProto(spec.GetSimulation(), &v)
	if reg.Type == controller.External {
		externalFromProto(spec, &reg, &v)
		return reg, v
	}
	builtin := r.builtin(reg.Type)
	if builtin == nil {
		v.Add("scheduler.spec.scheduler_type", "%q is not known: want one of %s, or %s for a scheduler that is not "+
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

func (r *Reader) addEnergy(objective string, c workload.Cluster, v *convert.Violations) {
	if r.CheckEnergy == nil {
		return
	}
	if err := r.CheckEnergy(objective, c); err != nil {
		v.Add("scheduler.spec.objective", "%v", err)
	}
}

func (r *Reader) builtin(name string) *controller.Builtin {
	for i := range r.Builtins {
		if r.Builtins[i].Name == name {
			return &r.Builtins[i]
		}
	}
	return nil
}

func (r *Reader) builtinNames() []string {
	names := make([]string, len(r.Builtins))
	for i := range r.Builtins {
		names[i] = r.Builtins[i].Name
	}
	return names
}

// Check checks a registration as CreateScheduler does, without a
// service, and returns the space it asks for. Its error is a [space.Violations].
func Check(builtins []controller.Builtin, req *pb.CreateSchedulerRequest) (*space.Space, error) {
	r := Reader{Builtins: builtins}
	reg, err := r.Read(req)
	var bad convert.Violations
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
func narrow(b *controller.Builtin, spec *pb.SchedulerSpec, v *convert.Violations) ([]space.Param, []space.Rule) {
	before := len(*v)
	params := make([]space.Param, len(spec.GetParameters()))
	for i, p := range spec.GetParameters() {
		params[i] = convert.ParamFromProto(p, fmt.Sprintf("%s[%d]", convert.ParametersField, i), v)
	}
	var rules []space.Rule
	var ruleAt []int // places in the request
	for i, c := range spec.GetConstraints() {
		r := convert.RuleFromProto(c, fmt.Sprintf("%s[%d]", convert.ConstraintsField, i), v)
		// A built-in rule said again is no second one, so that an answer of the service
		// can be registered again.
		if !slices.ContainsFunc(b.Rules, func(own space.Rule) bool { return reflect.DeepEqual(own, r) }) {
			rules, ruleAt = append(rules, r), append(ruleAt, i)
		}
	}
	if len(*v) > before {
		return nil, nil
	}
	merged, allRules, found := b.Narrow(params, rules)
	for _, one := range found {
		field, _ := convert.FieldOf(spec, one.Field, func(_ bool, i int) int { return i })
		v.Add(field, "%s", one.Description)
	}
	if len(found) > 0 {
		return nil, nil
	}
	place := func(rule bool, i int) int {
		if rule {
			if i -= len(allRules) - len(rules); i >= 0 {
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
			if field, exact := convert.FieldOf(spec, one.Field, place); exact {
				v.Add(field, "%s", one.Description)
			} else {
				v.Add(field, "together with the built-in ones: %s: %s", one.Field, one.Description)
			}
		}
	}
	return merged, allRules
}

const maxAnnotations = 64 << 10 // bytes of all

var annotationKey = regexp.MustCompile(`^[a-z][a-z0-9_./-]{0,62}$`)

func labelsFromProto(s *pb.Scheduler, v *convert.Violations) (labels, annotations map[string]string) {
	convert.CheckLabels("scheduler.labels", s.GetLabels(), v)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.GetAnnotations())) {
		if size += len(key) + len(s.GetAnnotations()[key]); !annotationKey.MatchString(key) {
			v.Add("scheduler.annotations",
				"key %.80q is not 1 to 63 of a-z, 0-9, '_', '-', '.' and '/' beginning with a "+
					"letter", key)
		}
	}
	if size > maxAnnotations {
		v.Add("scheduler.annotations", "has %d bytes, more than %d", size, maxAnnotations)
	}
	return s.GetLabels(), s.GetAnnotations()
}

func modeFromProto(spec *pb.SchedulerSpec, v *convert.Violations) controller.Mode {
	switch spec.GetMode() {
	case pb.SchedulerSpec_MODE_UNSPECIFIED, pb.SchedulerSpec_RECOMMEND:
	case pb.SchedulerSpec_AUTO:
		return controller.Auto
	default:
		v.Add("scheduler.spec.mode", "%d is not known: want RECOMMEND or AUTO", spec.GetMode())
	}
	return controller.Recommend
}

func policyFromProto(r *pb.RolloutPolicy, v *convert.Violations) controller.Policy {
	const at = "scheduler.spec.rollout."
	p := controller.DefaultPolicy()
	span := func(dst *time.Duration, d *durationpb.Duration, field string) {
		if d == nil {
			return
		}
		if err := d.CheckValid(); err != nil || d.AsDuration() < convert.MinSpan || d.AsDuration() > convert.MaxSpan {
			v.Add(at+field, "%v is not from %v to %v", d.AsDuration(), convert.MinSpan, convert.MaxSpan)
			return
		}
		*dst = d.AsDuration()
	}
	span(&p.UpdateInterval, r.GetUpdateInterval(), "update_interval")
	span(&p.Horizon, r.GetHorizon(), "horizon")
	share := func(dst *float64, x float64, field string) {
		if x == 0 {
			return
		}
		if !(x <= 1) || math.IsInf(x, 0) {
			v.Add(at+field, "%v is above 1: it is a share, such as 0.1 for 10 %%, or negative for none", x)
		}
		*dst = x
	}
	share(&p.Guard, r.GetGuard(), "guard")
	if rule, err := round.ParseRule(r.GetAdoption()); err != nil {
		v.Add(at+"adoption", "%v", err)
	} else {
		p.Rule = rule
	}
	optional := func(dst *time.Duration, d *durationpb.Duration, field string) {
		if d.AsDuration() == 0 {
			return
		}
		if err := d.CheckValid(); err != nil || d.AsDuration() > convert.MaxSpan {
			v.Add(at+field, "%v is above %v", d.AsDuration(), convert.MaxSpan)
		}
		*dst = d.AsDuration()
	}
	optional(&p.AckDeadline, r.GetAcknowledgeDeadline(), "acknowledge_deadline")
	if d := r.GetAllowedLateness(); d.AsDuration() != 0 {
		if err := d.CheckValid(); err != nil || d.AsDuration() > maxLateness {
			v.Add(at+"allowed_lateness", "%v is above %v", d.AsDuration(), maxLateness)
		}
		p.AllowedLateness = d.AsDuration()
	}
	number := func(dst *int, n int32, most int, field string) {
		if n == 0 {
			return
		}
		if n < 0 || int(n) > most {
			v.Add(at+field, "%d is not from 1 to %d", n, most)
		}
		*dst = int(n)
	}
	if x := r.GetWeight(); x != 0 {
		if !(x >= minWeight && x <= maxWeight) {
			v.Add(at+"weight", "%v is not from %v to %v", x, minWeight, maxWeight)
		}
		p.Weight = x
	}
	number(&p.Futures, r.GetFutures(), maxFutures, "futures")
	number(&p.Budget, r.GetTrialBudget(), maxTrialBudget, "trial_budget")
	p.Seed = r.GetSeed()
	convert.LimitsFromProto(r, &p.Limits, v)
	p.Waves.Canary, p.Waves.Share = r.GetCanary(), r.GetWaveShare()
	if x := r.GetWaveShare(); !(x >= 0 && x < 1) {
		v.Add(at+"wave_share", "%v is not from 0 to below 1: it is a share of the instances, such as 0.5", x)
	}
	optional(&p.Waves.Soak, r.GetSoakTime(), "soak_time")
	return p
}

// externalFromProto reads the parameters, rules and metric of a scheduler that is not simulated.
func externalFromProto(spec *pb.SchedulerSpec, reg *controller.Registration, v *convert.Violations) {
	reg.Simulation = controller.Simulation{}
	reg.Objective = metricFromProto(spec, v)
	checkExternal(spec, v)
	if len(spec.GetParameters()) == 0 {
		v.Add(convert.ParametersField, "are required for a scheduler of type %s: there are no built-in ones",
			controller.External)
	}
	before := len(*v)
	for i, p := range spec.GetParameters() {
		reg.Params = append(reg.Params, convert.ParamFromProto(p, fmt.Sprintf("%s[%d]", convert.ParametersField, i), v))
	}
	for i, c := range spec.GetConstraints() {
		reg.Rules = append(reg.Rules, convert.RuleFromProto(c, fmt.Sprintf("%s[%d]", convert.ConstraintsField, i), v))
	}
	if len(*v) > before {
		return
	}
	_, err := space.New(reg.Params, reg.Rules)
	var wrong space.Violations
	if errors.As(err, &wrong) {
		for _, one := range wrong {
			field, _ := convert.FieldOf(spec, one.Field, func(_ bool, i int) int { return i })
			v.Add(field, "%s", one.Description)
		}
	}
}

// checkExternal refuses fields of rounds.
func checkExternal(spec *pb.SchedulerSpec, v *convert.Violations) {
	if spec.GetSimulation() != nil {
		v.Add("scheduler.spec.simulation", "a scheduler of type %s is not simulated", controller.External)
	}
}

// metricFromProto reads the metric that studies of an external scheduler measure.
func metricFromProto(spec *pb.SchedulerSpec, v *convert.Violations) string {
	if _, goal := spec.GetObjective().GetKind().(*pb.ObjectiveSpec_Goal); goal {
		v.Add("scheduler.spec.objective.goal", "a scheduler of type %s has a metric_id that its studies measure",
			controller.External)
		return ""
	}
	name := spec.GetObjective().GetMetricId()
	convert.CheckMetric("scheduler.spec.objective.metric_id", name, v)
	return name
}

// longestGoal bounds a goal's text.
const longestGoal = 1000

// ObjectiveToProto is the inverse of objectiveFromProto.
func ObjectiveToProto(objective string) *pb.ObjectiveSpec {
	if _, err := round.ParseMetric(objective); err == nil {
		return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: objective}}
	}
	return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: objective}}
}

func objectiveFromProto(spec *pb.SchedulerSpec, v *convert.Violations) string {
	if spec.GetObjective().GetKind() == nil {
		return round.Objectives[0]
	}
	if goal, ok := spec.GetObjective().GetKind().(*pb.ObjectiveSpec_Goal); ok {
		if len(goal.Goal) > longestGoal {
			v.Add("scheduler.spec.objective.goal", "it has %d characters, more than %d", len(goal.Goal), longestGoal)
			return ""
		}
		g, err := round.ParseGoal(goal.Goal)
		if err != nil {
			v.Add("scheduler.spec.objective.goal", "%v", err)
		}
		return g.String()
	}
	metric, err := round.ParseMetric(spec.GetObjective().GetMetricId())
	if err != nil {
		v.Add("scheduler.spec.objective.metric_id", "%v", err)
	}
	return metric
}

// simulationFromProto reads a simulation, the registrar's if p is nil.
func (r *Reader) simulationFromProto(p *pb.Simulation, v *convert.Violations) controller.Simulation {
	if p == nil {
		return r.Simulation
	}
	const at = "scheduler.spec.simulation."
	out := controller.Simulation{MaxPreemptions: int(p.GetMaxPreemptions())}
	if out.MaxPreemptions < 0 {
		v.Add(at+"max_preemptions", "%d is negative", out.MaxPreemptions)
	}
	if d := p.GetMinRun(); d != nil {
		if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() > convert.MaxSpan {
			v.Add(at+"min_run", "%v is not from 0s to %v", d.AsDuration(), convert.MaxSpan)
		}
		out.MinRun = d.AsDuration()
	}
	if p.GetModels() != nil {
		var err error
		if out.Models, err = convert.ModelsFromProto(p.GetModels()); err != nil {
			v.Add(at+"models", "%s", strings.TrimPrefix(err.Error(), "models: "))
		}
	}
	return out
}

// SimulationToProto writes the simulation of a scheduler.
func SimulationToProto(s *controller.Simulation) *pb.Simulation {
	out := &pb.Simulation{MaxPreemptions: int32(min(s.MaxPreemptions, math.MaxInt32))}
	if s.MinRun != 0 {
		out.MinRun = durationpb.New(s.MinRun)
	}
	if s.Models != nil {
		out.Models = convert.ModelsToProto(s.Models)
	}
	return out
}
