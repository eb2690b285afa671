package trace

import "time"

// parseWallClock reads a time of the shape 2006-01-02T15:04:05, a blank instead of
// the T allowed, with at most nine decimals and perhaps a zone (Z, +07:00,
// +0700). Without a zone the wall clock is taken for UTC. seconds count from
// the Unix epoch. rfc3339 reports whether a zone is there and the shape is exactly
// that of RFC 3339.
func parseWallClock(b []byte) (seconds int64, nanos int, zoned, rfc3339, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[13] != ':' || b[16] != ':' || b[10] != 'T' && b[10] != ' ' {
		return 0, 0, false, false, false
	}
	century, ok0 := two(b)
	years, ok1 := two(b[2:])
	month, ok2 := two(b[5:])
	day, ok3 := two(b[8:])
	hour, ok4 := two(b[11:])
	minute, ok5 := two(b[14:])
	second, ok6 := two(b[17:])
	year := 100*century + years
	if !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || month < 1 || month > 12 || day < 1 ||
		day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false, false, false
	}
	seconds = daysTo(year, month, day)*86400 + int64(3600*hour+60*minute+second)
	rfc3339 = b[10] == 'T'
	b = b[19:]
	if len(b) > 1 && b[0] == '.' {
		unit, n := 100_000_000, 1
		for ; n < len(b) && b[n] >= '0' && b[n] <= '9'; n++ {
			nanos += int(b[n]-'0') * unit
			unit /= 10
		}
		if n == 1 || n > 10 {
			return 0, 0, false, false, false
		}
		b = b[n:]
	}
	switch {
	case len(b) == 0:
		return seconds, nanos, false, false, true
	case len(b) == 1 && b[0] == 'Z':
		return seconds, nanos, true, rfc3339, true
	case b[0] != '+' && b[0] != '-':
		return 0, 0, false, false, false
	}
	var minutes int
	switch {
	case len(b) == 6 && b[3] == ':':
		minutes, ok0 = two(b[4:])
	case len(b) == 5:
		minutes, ok0 = two(b[3:])
		rfc3339 = false
	default:
		return 0, 0, false, false, false
	}
	hours, ok1 := two(b[1:])
	if !ok0 || !ok1 || hours > 23 || minutes > 59 {
		return 0, 0, false, false, false
	}
	if offset := int64(3600*hours + 60*minutes); b[0] == '+' {
		seconds -= offset
	} else {
		seconds += offset
	}
	return seconds, nanos, true, rfc3339, true
}

func two(b []byte) (int, bool) {
	tens, units := b[0]-'0', b[1]-'0'
	return int(tens)*10 + int(units), tens <= 9 && units <= 9
}

func daysIn(year, month int) int {
	if month == 2 {
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month/8)&1
}

// daysTo counts the days from 1970-01-01. Years begin in March, so that a leap
// day is a year's last.
func daysTo(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	// Days of the months from March to the one before: 153 in five months.
	return int64(365*year+floorBy(year, 4)-floorBy(year, 100)+floorBy(year, 400)+(153*(month-3)+2)/5+day-1) - 719468
}

func floorBy(a, b int) int {
	if a < 0 {
		return -((b - 1 - a) / b)
	}
	return a / b
}

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

// absent recognises what traces write for nothing.
func absent(b []byte) bool {
	switch string(b) {
	case "", "None", "none", "NULL", "null", "NaN", "nan", "NaT", "NA", "N/A", "Unknown", `\N`:
		return true
	}
	return false
}
