package convert

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/simulator"
)

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
