package trace

import (
	"fmt"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// ParseInstant reads an instant of the workload as people write it: an RFC 3339
// time, a date (midnight UTC), seconds since the workload's zero ("86400"), or a
// span since it with a unit ("36h", "90m").
func ParseInstant(w *workload.Workload, s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	since := readInstant(s)
	if since == nil {
		return 0, fmt.Errorf("instant %q: "+noInstant, s, "the zero "+w.Zero().Format(time.RFC3339))
	}
	at := since(w.Zero())
	if at > workload.MaxSubmit || at < -workload.MaxSubmit {
		return 0, fmt.Errorf("instant %q: is more than a hundred years from the zero %s",
			s, w.Zero().Format(time.RFC3339))
	}
	return at, nil
}

// CheckInstant reports whether ParseInstant can read a text, before there is a
// workload.
func CheckInstant(s string) error {
	if readInstant(strings.TrimSpace(s)) == nil {
		return fmt.Errorf("instant %q: "+noInstant, s, "the trace's zero")
	}
	return nil
}

const noInstant = "is neither an RFC 3339 time (2017-10-09T12:00:00Z), nor a date, nor seconds since %s, nor a " +
	"span such as 36h"

// readInstant returns the instant since a zero, nil if the text is none.
func readInstant(s string) func(zero time.Time) time.Duration {
	if t, err := parseClock(s); err == nil {
		return t.Sub
	}
	span, reason := parseSeconds([]byte(s))
	if reason != "" {
		var err error
		if span, err = time.ParseDuration(s); err != nil {
			return nil
		}
	}
	return func(time.Time) time.Duration { return span }
}

func parseClock(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Parse(time.DateOnly, s)
}
