package convert

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

// Violations are the bad fields of a request. As an error it is
// InvalidArgument.
type Violations []*errdetails.BadRequest_FieldViolation

// Add appends a violation of field, a path in the request.
func (v *Violations) Add(field, format string, args ...any) {
	*v = append(*v, &errdetails.BadRequest_FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// Err is nil if there are none.
func (v Violations) Err() error {
	if len(v) == 0 {
		return nil
	}
	return v
}

// Invalid is the error of one bad field.
func Invalid(field, format string, args ...any) error {
	var v Violations
	v.Add(field, format, args...)
	return v
}

// Error joins the violations as "field: description", separated by semicolons.
func (v Violations) Error() string {
	parts := make([]string, len(v))
	for i, one := range v {
		parts[i] = one.Field + ": " + one.Description
	}
	return strings.Join(parts, "; ")
}
