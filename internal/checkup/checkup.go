// Package checkup collects the results of checks of a system: each is ok, a warning or a
// failure, with a remedy.
package checkup

import (
	"fmt"
	"io"
	"strings"

	"github.com/autosched/autosched/internal/units"
)

// A Status is the result of a check.
type Status string

// Statuses, from good to bad.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Action string `json:"action,omitempty"` // the remedy; empty if the check is ok
}

// Report lists checks in the order in which they were made. The zero value is empty.
type Report struct {
	Checks []Check `json:"checks"`
}

// OK adds a check that found nothing wrong.
func (r *Report) OK(name, format string, args ...any) { r.Add(OK, name, "", format, args...) }

// Warn adds a warning with the action that removes it.
func (r *Report) Warn(name, action, format string, args ...any) {
	r.Add(Warn, name, action, format, args...)
}

// Fail adds a failure with the action that removes it.
func (r *Report) Fail(name, action, format string, args ...any) {
	r.Add(Fail, name, action, format, args...)
}

// Add adds a check. The action of one that is ok is dropped.
func (r *Report) Add(s Status, name, action, format string, args ...any) {
	if s == OK {
		action = ""
	}
	r.Checks = append(r.Checks, Check{name, s, fmt.Sprintf(format, args...), action})
}

// Print writes a line per check, and below it the action.
func (r *Report) Print(w io.Writer) error {
	for _, c := range r.Checks {
		line := fmt.Sprintf("%-4s  %-12s  %s", c.Status, c.Name, c.Detail)
		if c.Action != "" {
			line += "\n" + strings.Repeat(" ", 20) + "-> " + c.Action
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Err returns an error with the number of failures, or nil.
func (r *Report) Err() error {
	n := 0
	for _, c := range r.Checks {
		if c.Status == Fail {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s failed", units.Plural(n, "check"))
}

// Free bytes of a file system below which changes may be refused soon, and below which a
// warning is due.
const (
	noBytes  = 64 << 20
	fewBytes = 1 << 30
)

// Disk returns the status of a file system with the given free bytes.
func Disk(free uint64) Status {
	switch {
	case free < noBytes:
		return Fail
	case free < fewBytes:
		return Warn
	}
	return OK
}
