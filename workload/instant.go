package workload

import (
	"fmt"
	"strings"
	"time"
)

// ParseInstant reads an instant of the workload as people write it: an RFC 3339
// time, a date (midnight UTC), seconds since the workload's zero ("86400"), or a
// span since it with a unit ("36h", "90m").
func ParseInstant(w *Workload, s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	var at time.Duration
	switch t, err := parseClock(s); {
	case err == nil:
		at = t.Sub(w.Zero())
	default:
		d, reason := parseSeconds([]byte(s))
		if reason != "" {
			if d, err = time.ParseDuration(s); err != nil {
				return 0, fmt.Errorf("instant %q: is neither an RFC 3339 time (2017-10-09T12:00:00Z), nor a date, nor seconds since the zero %s, nor a span such as 36h",
					s, w.Zero().Format(time.RFC3339))
			}
		}
		at = d
	}
	if at > MaxSubmit || at < -MaxSubmit {
		return 0, fmt.Errorf("instant %q: is more than a hundred years from the zero %s", s, w.Zero().Format(time.RFC3339))
	}
	return at, nil
}

func parseClock(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Parse(time.DateOnly, s)
}

// Clock is the wall-clock time of an instant of the workload.
func (w *Workload) Clock(at time.Duration) time.Time { return w.zero.Add(at) }
