// Package units formats quantities for people: one way for each, in every command,
// page and reason.
package units

import (
	"fmt"
	"math"
	"strconv"
)

// Duration formats seconds in two units: 45 s, 12 min 30 s, 32 h 18 min, 3 d 4 h.
// Below ten seconds it has two digits.
func Duration(seconds float64) string {
	switch {
	case seconds < 0:
		return "-" + Duration(-seconds)
	case !(seconds <= 1e12):
		return strconv.FormatFloat(seconds, 'g', -1, 64) + " s"
	case seconds < 9.95:
		return strconv.FormatFloat(seconds, 'g', 2, 64) + " s"
	}
	n := int64(math.Round(seconds))
	switch {
	case n < 60:
		return fmt.Sprintf("%d s", n)
	case n < 3600:
		return two(n/60, "min", n%60, "s")
	}
	n = (n + 30) / 60
	if n < 2*24*60 {
		return two(n/60, "h", n%60, "min")
	}
	n = (n + 30) / 60
	return two(n/24, "d", n%24, "h")
}

func two(a int64, ua string, b int64, ub string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, ua)
	}
	return fmt.Sprintf("%d %s %d %s", a, ua, b, ub)
}

// Percent formats a share with one decimal: 12.5 %.
func Percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

// Change formats a relative change with its sign: -0.4 %.
func Change(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }

// Count formats a whole number in groups of three digits: 12,345.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
