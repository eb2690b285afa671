// Package units formats quantities for people: one way for each, in every command,
// page and reason.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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

// Exact is Duration with all its parts down to seconds.
func Exact(seconds float64) string {
	n := int64(math.Round(math.Abs(seconds)))
	if n < 3600 || !(math.Abs(seconds) <= 1e12) {
		return Duration(seconds)
	}
	text := ""
	for _, part := range [...]struct {
		of   int64
		name string
	}{{24 * 3600, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}} {
		if whole := n / part.of; whole > 0 {
			text += fmt.Sprintf(" %d %s", whole, part.name)
			n -= whole * part.of
		}
	}
	if seconds < 0 {
		return "-" + text[1:]
	}
	return text[1:]
}

// Span formats seconds as flags and files take them: 4h, 1h0m30s, 6h57m6.8s. It returns false
// if a span does not hold them exactly.
func Span(seconds float64) (string, bool) {
	d := time.Duration(math.Round(min(max(seconds, -1e9), 1e9) * 1e9))
	if d.Seconds() != seconds || d != 0 && d.Abs() < time.Millisecond {
		return "", false
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s, true
}

func two(a int64, ua string, b int64, ub string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, ua)
	}
	return fmt.Sprintf("%d %s %d %s", a, ua, b, ub)
}

// Percent formats a share with one decimal: 12.5 %.
func Percent(share float64) string { return strconv.FormatFloat(Tenth(100*share), 'f', 1, 64) + " %" }

// Tenth returns x, or 0 without a sign if x rounds to zero tenths.
func Tenth(x float64) float64 {
	if math.Abs(x) < .05 {
		return 0
	}
	return x
}

// Change formats a relative change with its sign: -0.4 %.
func Change(share float64) string { return fmt.Sprintf("%+.1f %%", Tenth(100*share)) }

// Plural formats a number of things: 1 rule, 2 rules.
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Count formats a whole number in groups of three digits: 12,345.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
