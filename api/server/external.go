package server

import (
	"errors"
	"fmt"
	"regexp"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
)

// metricID is the name of a metric that callers measure.
var metricID = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func checkMetric(field, name string, v *violations) {
	if !metricID.MatchString(name) {
		v.add(field, "%q is not 1 to 63 of a-z, 0-9 and '_', starting with a letter", name)
	}
}

// externalFromProto reads the parameters, rules and metric of a scheduler that is not simulated.
func externalFromProto(spec *pb.SchedulerSpec, reg *controller.Registration, v *violations) {
	reg.Simulation = controller.Simulation{}
	reg.Objective = metricFromProto(spec, v)
	checkExternal(spec, v)
	if len(spec.GetParameters()) == 0 {
		v.add(parametersField, "are required for a scheduler of type %s: there are no built-in ones",
			controller.External)
	}
	before := len(*v)
	for i, p := range spec.GetParameters() {
		reg.Params = append(reg.Params, paramFromProto(p, fmt.Sprintf("%s[%d]", parametersField, i), v))
	}
	for i, c := range spec.GetConstraints() {
		reg.Rules = append(reg.Rules, ruleFromProto(c, fmt.Sprintf("%s[%d]", constraintsField, i), v))
	}
	if len(*v) > before {
		return
	}
	_, err := space.New(reg.Params, reg.Rules)
	var wrong space.Violations
	if errors.As(err, &wrong) {
		for _, one := range wrong {
			field, _ := fieldOf(spec, one.Field, func(_ bool, i int) int { return i })
			v.add(field, "%s", one.Description)
		}
	}
}

// checkExternal refuses what only rounds have.
func checkExternal(spec *pb.SchedulerSpec, v *violations) {
	if spec.GetSimulation() != nil {
		v.add("scheduler.spec.simulation", "a scheduler of type %s is not simulated", controller.External)
	}
}

// metricFromProto reads the metric that studies of an external scheduler measure.
func metricFromProto(spec *pb.SchedulerSpec, v *violations) string {
	if _, goal := spec.GetObjective().GetKind().(*pb.ObjectiveSpec_Goal); goal {
		v.add("scheduler.spec.objective.goal", "a scheduler of type %s has a metric_id that its studies measure",
			controller.External)
		return ""
	}
	name := spec.GetObjective().GetMetricId()
	checkMetric("scheduler.spec.objective.metric_id", name, v)
	return name
}
