package registration

import (
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/round"
)

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
