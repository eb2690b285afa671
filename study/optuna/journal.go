// Package optuna reads the trials of a journal of Optuna (optuna.storages.journal, version 4).
package optuna

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The operations, states and directions of Optuna that matter.
const (
	createStudy = 0
	deleteStudy = 1
	createTrial = 4
	setParam    = 5
	setState    = 6

	maximize = 2

	complete = 1
	failed   = 3
)

// Journal collects the trials of one study of one objective from the lines of a journal.
// The zero value is empty.
type Journal struct {
	studies  int
	maximize bool
	next     int // the number of the next trial
	trials   map[int]*trial
}

type trial struct {
	line   int // that created it
	state  int
	value  *float64
	params map[string]any
}

// Trial is a trial that was completed or failed.
type Trial struct {
	Line   int            // that created it
	Params map[string]any // numbers, or choices of categorical parameters as JSON has them
	Value  float64        // of the objective; 0 if the trial failed
	Failed string         // the reason; empty if the trial was completed with a finite value
}

var pythonToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// JSON returns a line with null in place of the numbers that Python writes and JSON lacks.
func JSON(line []byte) []byte {
	if !bytes.Contains(line, []byte("NaN")) && !bytes.Contains(line, []byte("Infinity")) {
		return line
	}
	return pythonToken.ReplaceAllFunc(line, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte("null")
	})
}

// Maximize reports whether the study maximises its objective; ok is false before the
// journal creates a study.
func (j *Journal) Maximize() (maximize, ok bool) { return j.maximize, j.studies > 0 }

// Add takes a line in, of which the number is that in the file. The line must be JSON.
func (j *Journal) Add(line []byte, number int) error {
	var x struct {
		Op            int                `json:"op_code"`
		Directions    []int              `json:"directions"`
		Trial         int                `json:"trial_id"`
		State         *int               `json:"state"`
		Value         *float64           `json:"value"`
		Values        []*float64         `json:"values"`
		Param         string             `json:"param_name"`
		Internal      *float64           `json:"param_value_internal"`
		Distribution  string             `json:"distribution"`
		Params        map[string]float64 `json:"params"`
		Distributions map[string]string  `json:"distributions"`
	}
	if err := json.Unmarshal(line, &x); err != nil {
		return err
	}
	if len(x.Values) == 1 {
		x.Value = x.Values[0]
	}
	switch x.Op {
	case createStudy:
		if j.studies++; j.studies > 1 || len(x.Directions) > 1 {
			return errors.New("the journal has several studies or objectives; only one of one objective can be read")
		}
		j.maximize = len(x.Directions) == 1 && x.Directions[0] == maximize
		return nil
	case deleteStudy: // trials count on
		j.studies--
		clear(j.trials)
		return nil
	case createTrial:
		t := &trial{line: number, params: map[string]any{}, value: x.Value}
		if j.trials == nil {
			j.trials = map[int]*trial{}
		}
		j.trials[j.next] = t
		j.next++
		if x.State != nil {
			t.state = *x.State
		}
		for id, v := range x.Params {
			if err := t.set(id, v, x.Distributions[id]); err != nil {
				return err
			}
		}
		return nil
	case setParam, setState:
	default:
		return nil
	}
	t := j.trials[x.Trial]
	if t == nil {
		return fmt.Errorf("trial %d was not created", x.Trial)
	}
	if x.Op == setParam && x.Internal == nil {
		return fmt.Errorf("%s: param_value_internal is not a number", x.Param)
	} else if x.Op == setParam {
		return t.set(x.Param, *x.Internal, x.Distribution)
	}
	if x.State != nil {
		t.state = *x.State
	}
	if x.Value != nil {
		t.value = x.Value
	}
	return nil
}

// set sets a parameter. Of a categorical one the journal has the index of the choice.
func (t *trial) set(id string, v float64, distribution string) error {
	var d struct {
		Name       string `json:"name"`
		Attributes struct {
			Choices []any `json:"choices"`
		} `json:"attributes"`
	}
	if err := json.Unmarshal([]byte(distribution), &d); err != nil {
		return fmt.Errorf("distribution of %s: %w", id, err)
	}
	if !strings.HasPrefix(d.Name, "Categorical") {
		t.params[id] = v
		return nil
	}
	if v < 0 || v >= float64(len(d.Attributes.Choices)) {
		return fmt.Errorf("%s: there is no choice %v of %d", id, v, len(d.Attributes.Choices))
	}
	t.params[id] = d.Attributes.Choices[int(v)]
	return nil
}

// Ended returns the trials that were completed or failed, in order of creation.
func (j *Journal) Ended() (out []Trial) {
	for _, k := range slices.Sorted(maps.Keys(j.trials)) {
		t := j.trials[k]
		one := Trial{Line: t.line, Params: t.params}
		switch {
		case t.state == complete && t.value != nil:
			one.Value = *t.value
		case t.state == complete:
			one.Failed = fmt.Sprintf("the value of trial %d is not finite in Optuna", k)
		case t.state == failed:
			one.Failed = fmt.Sprintf("trial %d failed in Optuna", k)
		default:
			continue
		}
		out = append(out, one)
	}
	return out
}
