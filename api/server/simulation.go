package server

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/simulator"
)

// simulationFromProto reads a simulation, the registrar's if p is nil.
func (r *registrar) simulationFromProto(p *pb.Simulation, v *violations) controller.Simulation {
	if p == nil {
		return r.simulation
	}
	const at = "scheduler.spec.simulation."
	out := controller.Simulation{MaxPreemptions: int(p.GetMaxPreemptions())}
	if out.MaxPreemptions < 0 {
		v.add(at+"max_preemptions", "%d is negative", out.MaxPreemptions)
	}
	if d := p.GetMinRun(); d != nil {
		if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() > maxSpan {
			v.add(at+"min_run", "%v is not from 0s to %v", d.AsDuration(), maxSpan)
		}
		out.MinRun = d.AsDuration()
	}
	if p.GetModels() != nil {
		var err error
		if out.Models, err = modelsFromProto(p.GetModels()); err != nil {
			v.add(at+"models", "%s", strings.TrimPrefix(err.Error(), "models: "))
		}
	}
	return out
}

func modelsFromProto(s *structpb.Struct) (*simulator.ModelSpec, error) {
	text, err := protojson.Marshal(s)
	if err != nil {
		return nil, err
	}
	return simulator.ReadModels(bytes.NewReader(text))
}

func simulationToProto(s *controller.Simulation) *pb.Simulation {
	out := &pb.Simulation{MaxPreemptions: int32(min(s.MaxPreemptions, math.MaxInt32))}
	if s.MinRun != 0 {
		out.MinRun = durationpb.New(s.MinRun)
	}
	if s.Models != nil {
		out.Models = modelsToProto(s.Models)
	}
	return out
}

// modelsToProto panics for models that were not read by modelsFromProto.
func modelsToProto(m *simulator.ModelSpec) *structpb.Struct {
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
