// Package native has the words of schedulers: how a configuration is written into the file of
// a scheduler, in its own options, and read from it.
package native

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/autosched/autosched/space"
)

// Form is a scheduler's configuration file.
//
// Parse(Render(v)) is v for the values of every valid configuration.
type Form interface {
	// Render returns the file that has the values.
	Render(space.Values) ([]byte, error)
	// Parse returns the values by parameter that a file has. They may be incomplete or
	// outside the scheduler's space; a file that is none is an error that names the line
	// and option.
	Parse([]byte) (space.Values, error)
}

// ValuesOf returns the values of a configuration.
func ValuesOf(c space.Config) space.Values {
	values := space.Values{}
	for _, id := range c.IDs() {
		values[id] = c.Get(id)
	}
	return values
}

// Changed is a file with other values of some parameters: rendered anew, without settings that have no effect then, or
// as it is where it says the same.
func Changed(f Form, file []byte, values space.Values) ([]byte, error) {
	have, err := f.Parse(file)
	if err != nil {
		return nil, err
	}
	now, err := f.Render(have)
	if err != nil {
		return nil, err
	}
	want := maps.Clone(have)
	maps.Copy(want, values)
	next, err := f.Render(want)
	if err != nil {
		return nil, err
	}
	if effective, err := f.Parse(next); err == nil {
		if next, err = f.Render(effective); err != nil {
			return nil, err
		}
	}
	if bytes.Equal(now, next) {
		return file, nil
	}
	return next, nil
}

// Config returns the configuration of values. It must be complete and valid as it is; otherwise
// the error is a [space.Violations].
func Config(s *space.Space, values space.Values) (space.Config, error) {
	c, changes := s.Project(values)
	var v space.Violations
	for _, id := range slices.Sorted(maps.Keys(values)) {
		if _, known := s.Param(id); !known {
			v = append(v, space.Violation{Field: id, Description: "there is no such parameter"})
		}
	}
	for _, change := range changes {
		description := fmt.Sprintf("%s is not valid here (%s) and would become %s", change.From, change.Rule, change.To)
		switch {
		case change.From.IsZero():
			description = "is missing"
		case change.To.IsZero():
			description = fmt.Sprintf("has no effect here (%s) and must be left out", change.Rule)
		}
		v = append(v, space.Violation{Field: change.Param, Description: description})
	}
	if len(v) > 0 {
		return space.Config{}, v
	}
	return c, nil
}
