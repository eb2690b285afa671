// Package adapter applies configurations to schedulers that know nothing of the API. An adapter
// is a client: it watches for the configuration that an instance of a scheduler should run, a driver
// puts it in force and reads it back, and the adapter acknowledges the outcome.
package adapter

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/space"
)

// FromProto converts the values of a configuration.
func FromProto(parameters map[string]*structpb.Value) (space.Values, error) {
	text, err := (&structpb.Struct{Fields: parameters}).MarshalJSON()
	if err != nil {
		return nil, err
	}
	var values space.Values
	err = json.Unmarshal(text, &values)
	return values, err
}

// ToProto converts values.
func ToProto(values space.Values) (map[string]*structpb.Value, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var s structpb.Struct
	err = s.UnmarshalJSON(text)
	return s.Fields, err
}
