// Package registration reads requests that register or update a scheduler into the types of the
// controller, and writes them back. It checks a registration as a whole: the built-in scheduler
// narrowed by the request.
package registration

import (
	"errors"
	"fmt"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
)

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
