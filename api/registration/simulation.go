package registration

import (
	"math"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
)

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
