package space

import (
	"fmt"
	"strings"
)

// Violation is one thing that is wrong, and where.
type Violation struct {
	// Field is a path: parameters[3].min_value or rules[0].ordering.params in a
	// specification, queues or queue_thresholds[1] in a configuration.
	Field       string `json:"field"`
	Description string `json:"description"`
	// Line is where a document that was read has it, 0 if not known.
	Line int `json:"line,omitempty"`
}

// Violations is the error of New, Check, Parse and their relatives. It holds
// everything found, not only the first.
type Violations []Violation

// String is "line 12: field: what is wrong".
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

// err returns v as an error, nil when nothing is wrong.
func (v Violations) err() error {
	if len(v) == 0 {
		return nil
	}
	return v
}
