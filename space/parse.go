package space

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Parse returns base with "id=value" assignments applied, as on a command line:
//
//	queues=4  queue_thresholds=3250,7200,20000  starve_limit=off  lease=10m
//
// A text may hold several assignments with spaces between, as [Config.String] returns
// them, or be a JSON object, as [Config.MarshalJSON] does.
//
// Unassigned parameters adapt: arrays are extended or cut to their length, and
// parameters that become active take their defaults. Assigned values must be valid
// as they are; otherwise the error is a [Violations] that names the parameter and
// its valid values.
func (s *Space) Parse(base Config, sets []string) (Config, error) {
	var v Violations
	raw := make([]Value, len(s.params))
	for i := range s.params {
		raw[i] = base.Get(s.params[i].ID)
	}
	assigned := make([]bool, len(s.params))
	s.assign(sets, &v, func(i int, x Value) {
		if fault := s.params[i].fault(x); fault != "" {
			v.add(s.params[i].ID, "%s", fault)
			return
		}
		raw[i], assigned[i] = x, true
	})
	if len(v) > 0 {
		return Config{}, v
	}
	values, _ := s.project(raw)
	for i := range values {
		if assigned[i] && !values[i].Equal(raw[i]) {
			v.addAll(s.explain(i, raw, values))
		}
	}
	if len(v) > 0 {
		return Config{}, v
	}
	c := Config{space: s, values: values}
	return c, s.Check(c)
}

// assign reads assignments and calls set with each parameter's index and value.
func (s *Space) assign(sets []string, v *Violations, set func(i int, x Value)) {
	seen := make([]bool, len(s.params))
	for _, text := range assignments(sets) {
		id, value, ok := strings.Cut(text, "=")
		id = strings.TrimSpace(id)
		i, known := s.index[id]
		switch {
		case !ok:
			v.add(text, "want name=value")
		case !known:
			v.add(id, "there is no such parameter, want one of %s", strings.Join(s.ids(), ", "))
		case seen[i]:
			v.add(id, "is set twice")
		default:
			seen[i] = true
			if x, readable := s.params[i].parse(value); readable {
				set(i, x)
			} else {
				v.add(id, "cannot read %q, want %s", value, s.params[i].Range())
			}
		}
	}
}

var nextAssignment = regexp.MustCompile(`\s+[\pL_][\pL\d_.-]*\s*=`)

// assignments splits texts that hold several assignments.
func assignments(sets []string) (out []string) {
	for _, set := range sets {
		set = strings.TrimSpace(set)
		if root, err := parseDocument([]byte(set)); strings.HasPrefix(set, "{") && err == nil {
			for i, id := range root.keys {
				out = append(out, id+"="+root.items[i].assigned())
			}
			continue
		}
		for {
			at := nextAssignment.FindStringIndex(set)
			if at == nil {
				break
			}
			out, set = append(out, set[:at[0]]), strings.TrimSpace(set[at[0]:])
		}
		out = append(out, set)
	}
	return out
}

// explain returns why parameter i could not keep its raw value beside the values of
// the other parameters.
func (s *Space) explain(i int, raw, values []Value) Violations {
	with := Config{space: s, values: append([]Value(nil), values...)}
	with.values[i] = raw[i]
	if found, ok := s.Check(with).(Violations); ok {
		return found
	}
	p := &s.params[i]
	return Violations{{Field: p.ID, Description: fmt.Sprintf("%s does not fit the other values and would become %s",
		p.Format(raw[i]), p.Format(values[i]))}}
}

func (v *Violations) addAll(more Violations) {
	for _, one := range more {
		v.add(one.Field, "%s", one.Description)
	}
}

func (s *Space) ids() []string {
	ids := make([]string, len(s.params))
	for i := range s.params {
		ids[i] = s.params[i].ID
	}
	return ids
}

// ParseJSON parses a configuration in the form of [Config.MarshalJSON]; durations
// may also be texts such as "10m", and special values their names. The configuration
// must be complete and valid: nothing is corrected.
func (s *Space) ParseJSON(b []byte) (Config, error) {
	var v Violations
	values := make([]Value, len(s.params))
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return Config{}, Violations{{Field: "configuration", Description: "is not a JSON object"}}
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return Config{}, Violations{{Field: "configuration", Description: err.Error()}}
		}
		id := key.(string) // the only possible token before a colon
		var x Value
		if err := dec.Decode(&x); err != nil {
			return Config{}, Violations{{Field: id, Description: err.Error()}}
		}
		i, known := s.index[id]
		switch {
		case !known:
			v.add(id, "there is no such parameter")
		case !values[i].IsZero():
			v.add(id, "is set twice")
		default:
			values[i] = s.params[i].normalise(x)
		}
	}
	if _, err := dec.Token(); err != nil {
		return Config{}, Violations{{Field: "configuration", Description: err.Error()}}
	}
	if dec.More() {
		v.add("configuration", "is followed by something else")
	}
	c := Config{space: s, values: values}
	if err := s.Check(c); err != nil {
		v.addAll(err.(Violations))
	}
	if len(v) > 0 {
		return Config{}, v
	}
	return c, nil
}

// document is the JSON form of a space.
type document struct {
	Parameters []Param `json:"parameters"`
	Rules      []Rule  `json:"rules,omitempty"`
}

// MarshalJSON returns the specification in the form that UnmarshalJSON parses.
func (s *Space) MarshalJSON() ([]byte, error) {
	return json.Marshal(document{Parameters: s.params, Rules: s.rules})
}

// Digest returns the SHA-256 of the specification's JSON in hexadecimal. It
// identifies the space in logs, caches and stored searches.
func (s *Space) Digest() string {
	b, err := s.MarshalJSON()
	if err != nil {
		panic("space: a checked specification does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// UnmarshalJSON parses and checks a specification; unknown fields are errors. It
// must not be called on a space that already has configurations.
func (s *Space) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var d document
	if err := dec.Decode(&d); err != nil {
		return fmt.Errorf("space: %w", err)
	}
	read, err := New(d.Parameters, d.Rules)
	if err != nil {
		return err
	}
	*s = *read
	s.initial.space = s
	return nil
}

// ReadValues reads assignments as Parse does. What it returns may be outside of the space.
func (s *Space) ReadValues(sets []string) (Values, error) {
	var v Violations
	out := Values{}
	s.assign(sets, &v, func(i int, x Value) { out[s.params[i].ID] = x })
	return out, v.err()
}
