package trace

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// wallClock is a time of day and date, taken for UTC if it has no zone.
type wallClock struct {
	seconds int64 // since the Unix epoch
	nanos   int
	zoned   bool
	rfc3339 bool // a zone is there, and the shape is exactly that of RFC 3339
}

// parseWallClock reads a time of the shape 2006-01-02T15:04:05, a blank instead of the T allowed, with at most nine
// decimals and perhaps a zone (Z, +07:00, +0700).
func parseWallClock(b []byte) (w wallClock, ok bool) {
	const shape = "0000-00-00T00:00:00"
	if len(b) < len(shape) {
		return w, false
	}
	for i := range len(shape) {
		digit := shape[i] == '0'
		if digit && b[i]-'0' > 9 || !digit && b[i] != shape[i] && (shape[i] != 'T' || b[i] != ' ') {
			return w, false
		}
	}
	year, month, day := 100*two(b)+two(b[2:]), two(b[5:]), two(b[8:])
	hour, minute, second := two(b[11:]), two(b[14:]), two(b[17:])
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if int(t.Month()) != month || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return w, false
	}
	w.seconds = t.Unix()
	nanos, rest, ok := parseNanos(b[len(shape):])
	if !ok || len(rest) == 0 {
		w.nanos = nanos
		return w, ok
	}
	offset, colon, ok := parseOffset(rest)
	return wallClock{w.seconds - offset, nanos, true, colon && b[10] == 'T'}, ok
}

// parseNanos reads decimals of a second, if b begins with a point and a digit.
func parseNanos(b []byte) (nanos int, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '.' {
		return 0, b, true
	}
	unit, n := 100_000_000, 1
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		nanos += int(b[n]-'0') * unit
		unit /= 10
	}
	return nanos, b[n:], n > 1 && n <= 10
}

// parseOffset reads a zone, in seconds east of Greenwich. colon reports that it is Z or has one.
func parseOffset(b []byte) (offset int64, colon, ok bool) {
	if len(b) == 1 && b[0] == 'Z' {
		return 0, true, true
	}
	if colon = len(b) == 6 && b[3] == ':'; !colon && len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false, false
	}
	hours, minutes := b[1:3], b[len(b)-2:]
	for _, digits := range [...][]byte{hours, minutes} {
		if digits[0]-'0' > 9 || digits[1]-'0' > 9 {
			return 0, false, false
		}
	}
	if offset = int64(3600*two(hours) + 60*two(minutes)); b[0] == '-' {
		offset = -offset
	}
	return offset, colon, two(hours) <= 23 && two(minutes) <= 59
}

// two is the number of two digits.
func two(b []byte) int { return 10*int(b[0]-'0') + int(b[1]-'0') }

// The years in which wall clocks may be, so that any two are within MaxSubmit.
var (
	firstSecond = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(2069, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1
)

const (
	notRFC3339 = "is not an RFC 3339 time"
	skipped    = "is in an hour that the clock of --timezone skipped"
	notClock   = "is not a time such as 2006-01-02 15:04:05"
	badYears   = "is not in the years 1970 to 2068"
	tooFar     = "is more than a hundred years from the zero"
)

// absent recognises the marks of absent values.
func absent(b []byte) bool {
	switch string(b) {
	case "", "None", "none", "NULL", "null", "NaN", "nan", "NaT", "NA", "N/A", "Unknown", `\N`:
		return true
	}
	return false
}

// ParseZone finds a time zone by its name in the IANA database, such as
// Europe/Berlin.
func ParseZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "local") {
		return nil, errors.New("name the zone whose clock the trace shows, such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not a zone of the IANA database, such as Europe/Berlin", name)
	}
	return zone, nil
}

// localClock finds the instants at which a zone's clock showed a time. It is one,
// none where the clock was put forward over it, and two where it was put back.
type localClock struct {
	zone     *time.Location
	from, to int64 // local seconds in which offset is the only one
	offset   int64
}

// reach is more than any offset from UTC, in seconds.
const reach = 15 * 3600

// instants are in seconds since the Unix epoch, as local is on the zone's clock.
func (c *localClock) instants(local int64) (first, second int64, count int) {
	if local >= c.from && local < c.to {
		return local - c.offset, 0, 1
	}
	before, after := time.Unix(local-reach, 0).In(c.zone), time.Unix(local+reach, 0).In(c.zone)
	a, b := offsetOf(before), offsetOf(after)
	if a == b {
		if start, end := before.ZoneBounds(); !end.IsZero() && end.Unix() > local+reach {
			c.from, c.to, c.offset = local, end.Unix()-reach, a
			if !start.IsZero() {
				c.from = min(local, start.Unix()+reach)
			}
		}
		return local - a, 0, 1
	}
	shows := func(offset int64) bool { return offsetOf(time.Unix(local-offset, 0).In(c.zone)) == offset }
	switch early, late := shows(a), shows(b); {
	case early && late:
		return local - a, local - b, 2
	case early:
		return local - a, 0, 1
	case late:
		return local - b, 0, 1
	}
	return 0, 0, 0
}

func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return int64(offset)
}

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
