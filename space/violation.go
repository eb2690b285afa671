package space

import (
	"fmt"
	"strings"
)

// Violation is one error in a specification or configuration.
type Violation struct {
	// Field is a path: parameters[3].min_value or rules[0].ordering.params in a
	// specification, queues or queue_thresholds[1] in a configuration.
	Field       string `json:"field"`
	Description string `json:"description"`
	// Line is the line in the source document, 0 if unknown.
	Line int `json:"line,omitempty"`
}

// Violations is the error type of New, Load, Check and Parse. It holds every
// violation found.
type Violations []Violation

// String returns "line 12: field: description".
func (v Violation) String() string {
	if v.Line > 0 {
		return fmt.Sprintf("line %d: %s: %s", v.Line, v.Field, v.Description)
	}
	return v.Field + ": " + v.Description
}

// Error joins all violations into one line.
func (v Violations) Error() string {
	parts := make([]string, len(v))
	for i, one := range v {
		parts[i] = one.String()
	}
	return strings.Join(parts, "; ")
}

func (v *Violations) add(field, format string, args ...any) {
	*v = append(*v, Violation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// err returns v as an error, or nil if it is empty.
func (v Violations) err() error {
	if len(v) == 0 {
		return nil
	}
	return v
}
