package workload

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// csvRow is a row being made into a job. Its methods check one field each and
// note the first fault in bad and badReason; what they return is then unused.
// Reasons are fixed sentences, so that they can be counted.
type csvRow struct {
	in        *input
	names     []string
	column    []int // position of each name, -1 if the trace has none
	fields    [][]byte
	bad       int
	badReason string
}

func (r *csvRow) fault(i int, reason string) {
	if r.badReason == "" {
		r.bad, r.badReason = i, reason
	}
}

// value is the field of a column, empty if the trace has no such column.
func (r *csvRow) value(i int) []byte {
	if r.column[i] < 0 {
		return nil
	}
	return r.fields[r.column[i]]
}

func (r *csvRow) id(i int) string {
	v := r.value(i)
	if len(v) == 0 {
		r.fault(i, "is empty")
	}
	return string(v)
}

func (r *csvRow) text(i int) string { return r.in.text(r.value(i)) }

// clock reads an RFC 3339 time. It counts from the zero if the trace names it,
// else from the Unix epoch.
func (r *csvRow) clock(i int) time.Duration {
	t, err := time.Parse(time.RFC3339, string(r.value(i)))
	if err != nil {
		r.fault(i, "is not an RFC 3339 time")
		return 0
	}
	if r.in.hasZero {
		d := t.Sub(r.in.zero)
		if d > MaxSubmit || d < -MaxSubmit {
			r.fault(i, "is more than a hundred years from the zero")
		}
		return d
	}
	if t.Year() < 1970 || t.Year() > 2068 { // so that any two are within MaxSubmit
		r.fault(i, "is not in the years 1970 to 2068")
		return 0
	}
	return time.Duration(t.UnixNano())
}

// deadline reads an RFC 3339 time, or nothing for no deadline.
func (r *csvRow) deadline(i int) time.Duration {
	if len(r.value(i)) == 0 {
		return 0
	}
	return deadlineAt(r.clock(i))
}

// deadlineAt keeps a deadline at the zero itself apart from none, by a
// nanosecond.
func deadlineAt(d time.Duration) time.Duration {
	if d == 0 {
		return 1
	}
	return d
}

// instant reads seconds since the zero.
func (r *csvRow) instant(i int) time.Duration {
	d, reason := parseSeconds(r.value(i))
	switch {
	case reason != "":
		r.fault(i, reason)
	case d > MaxSubmit || d < -MaxSubmit:
		r.fault(i, "is more than a hundred years from the zero")
	}
	return d
}

// duration reads positive seconds.
func (r *csvRow) duration(i int) time.Duration {
	d, reason := parseSeconds(r.value(i))
	switch {
	case reason != "":
		r.fault(i, reason)
	case d <= 0:
		r.fault(i, "is not positive")
	case d > MaxDuration:
		r.fault(i, "is more than ten years")
	}
	return d
}

// gpus reads a positive number of GPUs with at most three decimals.
func (r *csvRow) gpus(i int) MilliGPU {
	n, reason := parseDecimal(r.value(i), 3)
	switch {
	case reason != "":
		r.fault(i, reason)
	case n <= 0:
		r.fault(i, "is not positive")
	case n > int64(GPUs(MaxGPUs)):
		r.fault(i, "is more than a million GPUs")
	}
	return MilliGPU(n)
}

func (r *csvRow) status(i int) Status {
	switch string(r.value(i)) {
	case "":
		return Unknown
	case "completed":
		return Completed
	case "cancelled":
		return Cancelled
	case "failed":
		return Failed
	}
	r.fault(i, "is not completed, cancelled or failed")
	return Unknown
}

func parseSeconds(b []byte) (time.Duration, string) {
	n, reason := parseDecimal(b, 9)
	if reason == tooFine { // shorter than a nanosecond: a float, written in full
		f, err := strconv.ParseFloat(string(b), 64)
		if err != nil || math.Abs(f) > 9e9 {
			return 0, outOfRange
		}
		return time.Duration(math.Round(f * 1e9)), ""
	}
	return time.Duration(n), reason
}

const (
	isEmpty    = "is empty"
	notNumber  = "is not a number"
	tooFine    = "has more decimals than are kept"
	outOfRange = "is out of range"
)

// parseDecimal reads a decimal number exactly, times 10^decimals. An exponent
// is allowed where the result is whole.
func parseDecimal(b []byte, decimals int) (int64, string) {
	if len(b) == 0 {
		return 0, isEmpty
	}
	s, negative := b, false
	if s[0] == '-' || s[0] == '+' {
		negative, s = s[0] == '-', s[1:]
	}
	var n int64
	digits, point, frac := 0, false, 0
	for _, c := range s {
		switch {
		case c == '.' && !point:
			point = true
		case c >= '0' && c <= '9':
			digits++
			if point {
				if frac == decimals {
					if c != '0' {
						return 0, tooFineOr(b)
					}
					continue
				}
				frac++
			}
			if n > (math.MaxInt64-9)/10 {
				return 0, outOfRange
			}
			n = n*10 + int64(c-'0')
		default:
			return parseExponent(b, decimals)
		}
	}
	if digits == 0 {
		return 0, notNumber
	}
	for ; frac < decimals; frac++ {
		if n > math.MaxInt64/10 {
			return 0, outOfRange
		}
		n *= 10
	}
	if negative {
		n = -n
	}
	return n, ""
}

func tooFineOr(b []byte) string {
	if _, err := strconv.ParseFloat(string(b), 64); err != nil {
		return notNumber
	}
	return tooFine
}

func parseExponent(b []byte, decimals int) (int64, string) {
	s := string(b)
	if strings.ContainsAny(s, "xX_") {
		return 0, notNumber
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case math.IsInf(f, 0):
		return 0, outOfRange
	case err != nil || math.IsNaN(f):
		return 0, notNumber
	}
	f *= math.Pow10(decimals)
	switch {
	case math.Abs(f) > 9e18:
		return 0, outOfRange
	case f != math.Trunc(f):
		return 0, tooFine
	}
	return int64(f), ""
}
