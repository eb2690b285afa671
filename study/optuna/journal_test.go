package optuna

import (
	"reflect"
	"strings"
	"testing"
)

// read reads a journal, line by line.
func read(text string) (*Journal, error) {
	var j Journal
	for i, line := range strings.Split(text, "\n") {
		if err := j.Add(JSON([]byte(line)), i+1); err != nil {
			return nil, err
		}
	}
	return &j, nil
}

const (
	float  = `"distribution": "{\"name\": \"FloatDistribution\"}"`
	choice = `"distribution": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [\"a\", 2, true]}}"`
)

func TestJournal(t *testing.T) {
	j, err := read(`{"op_code": 0, "study_name": "of NaN", "directions": [2]}
{"op_code": 4}
{"op_code": 5, "trial_id": 0, "param_name": "x", "param_value_internal": 0.5, ` + float + `}
{"op_code": 5, "trial_id": 0, "param_name": "c", "param_value_internal": 1, ` + choice + `}
{"op_code": 7, "trial_id": 0, "intermediate_value": NaN}
{"op_code": 6, "trial_id": 0, "state": 1, "values": [7.5]}
{"op_code": 4, "state": 1, "value": 9, "params": {"x": 0.125}, "distributions": {"x": "{\"name\": \"FloatDistribution\"}"}}
{"op_code": 4}
{"op_code": 6, "trial_id": 2, "state": 1, "values": [-Infinity]}
{"op_code": 4, "state": 3}
{"op_code": 4, "state": 2, "value": 1}
{"op_code": 4}`)
	if err != nil {
		t.Fatal(err)
	}
	if max, ok := j.Maximize(); !max || !ok {
		t.Errorf("maximise: %v, %v", max, ok)
	}
	want := []Trial{
		{Line: 2, Params: map[string]any{"x": .5, "c": 2.}, Value: 7.5},
		{Line: 7, Params: map[string]any{"x": .125}, Value: 9},
		{Line: 8, Params: map[string]any{}, Failed: "the value of trial 2 is not finite in Optuna"},
		{Line: 10, Params: map[string]any{}, Failed: "trial 3 failed in Optuna"},
	}
	if got := j.Ended(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestDeletedStudy: trials of a deleted study are dropped, and their numbers are not used again.
func TestDeletedStudy(t *testing.T) {
	j, err := read(`{"op_code": 0, "directions": [1]}
{"op_code": 4, "state": 1, "value": 1}
{"op_code": 1}
{"op_code": 0, "directions": [1]}
{"op_code": 4}
{"op_code": 6, "trial_id": 1, "state": 1, "values": [2]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Ended(); len(got) != 1 || got[0].Value != 2 || got[0].Line != 5 {
		t.Errorf("%+v", got)
	}
	if max, ok := j.Maximize(); max || !ok {
		t.Errorf("maximise: %v, %v", max, ok)
	}
}

func TestJournalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"op_code": 5, "trial_id": 4}`:                                                                                         "trial 4 was not created",
		`{"op_code": 0, "directions": [1, 1]}`:                                                                                  "several studies or objectives",
		`{"op_code": 0, "directions": [1]}` + "\n" + `{"op_code": 0}`:                                                           "several studies or objectives",
		`{"op_code": 4}` + "\n" + `{"op_code": 5, "trial_id": 0, "param_name": "x"}`:                                            "x: param_value_internal is not a number",
		`{"op_code": 4}` + "\n" + `{"op_code": 5, "trial_id": 0, "param_name": "x", "param_value_internal": 3, ` + choice + `}`: "x: there is no choice 3 of 3",
		`{"op_code": 4, "params": {"x": 1}}`:                                                                                    "distribution of x: ",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
