package trace

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

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
