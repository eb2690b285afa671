package trace

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// csvRow is a row being made into a job. Its methods check one field each and
// note the first fault in bad and badReason; their results are then unused.
// Reasons are fixed sentences, so that they can be counted.
type csvRow struct {
	in        *input
	names     []string
	column    []int // position of each name, negative if the trace has none
	bare      bool  // the file has no names
	fields    [][]byte
	earliest  int64 // the latest time of the row so far, seconds since the Unix epoch
	bad       int
	badReason string
	out       string // why the job is left out
}

func (r *csvRow) fault(i int, reason string) {
	if r.badReason == "" {
		r.bad, r.badReason = i, reason
	}
}

func (r *csvRow) ok() bool { return r.badReason == "" }

// leaveOut notes why the job of a row without fault cannot be used: the first
// reason counts.
func (r *csvRow) leaveOut(reason string) {
	if r.out == "" {
		r.out = reason
	}
}

// name is that of a column, as the file has it.
func (r *csvRow) name(i int) string {
	if r.column[i] >= 0 && !r.bare {
		return r.names[i]
	}
	name, _, _ := strings.Cut(r.names[i], "/")
	return name
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
		r.fault(i, isEmpty)
	}
	return r.in.own(v)
}

// hosts reads a host list. A text with a blank ("None assigned") is none.
func (r *csvRow) hosts(i int) string {
	v := r.value(i)
	if absent(v) || bytes.IndexByte(v, ' ') >= 0 {
		return ""
	}
	if s, ok := r.in.hosts[string(v)]; ok {
		return s
	}
	if _, err := slurmtext.HostList(string(v)); err != nil {
		r.fault(i, "is not a host list such as gpu[01-03],login1")
		return ""
	}
	if r.in.hosts == nil {
		r.in.hosts = map[string]string{}
	}
	s := r.in.own(v)
	r.in.hosts[s] = s
	return s
}

func (r *csvRow) text(i int) string { return r.in.text(r.value(i)) }

// clock reads an RFC 3339 time. It counts from the zero if the trace names it,
// else from the Unix epoch.
func (r *csvRow) clock(i int) time.Duration {
	w, ok := parseWallClock(r.value(i))
	if !ok || !w.rfc3339 { // more decimals, or a comma before them
		t, err := time.Parse(time.RFC3339, string(r.value(i)))
		if err != nil {
			r.fault(i, notRFC3339)
			return 0
		}
		w.seconds, w.nanos = t.Unix(), t.Nanosecond()
	}
	return r.sinceZero(i, w.seconds, w.nanos)
}

// wallClock reads a time of day and date as databases print it, with a zone or
// without, or seconds since the Unix epoch. It is absent where the trace says so.
func (r *csvRow) wallClock(i int) (at time.Duration, known bool) {
	v := r.value(i)
	if absent(v) {
		return 0, false
	}
	w, ok := parseWallClock(v)
	if !ok {
		d, reason := parseSeconds(v)
		if reason != "" {
			r.fault(i, notClock)
			return 0, false
		}
		t := time.Unix(0, int64(d))
		w = wallClock{seconds: t.Unix(), nanos: t.Nanosecond(), zoned: true}
	}
	if !w.zoned {
		w.seconds = r.zoned(i, w.seconds)
	}
	r.earliest = max(r.earliest, w.seconds)
	return r.sinceZero(i, w.seconds, w.nanos), true
}

// zoned is the instant at which the clock of Options.Zone showed a time, UTC without one. Of two it is
// the first one, unless that is before an earlier time of the same row.
func (r *csvRow) zoned(i int, local int64) int64 {
	if r.in.clock.zone == nil {
		r.in.noZone = true
		return local
	}
	r.in.report.Zone = r.in.clock.zone.String()
	first, second, n := r.in.clock.instants(local)
	switch {
	case n == 0:
		r.fault(i, skipped)
	case n == 2 && first < r.earliest:
		return second
	}
	return first
}

// submitClock is wallClock for a time that must be there, and the first of its row.
func (r *csvRow) submitClock(i int) time.Duration {
	r.earliest = math.MinInt64
	at, known := r.wallClock(i)
	if !known {
		r.fault(i, isEmpty)
	}
	return at
}

func (r *csvRow) sinceZero(i int, seconds int64, nanos int) time.Duration {
	if r.in.hasZero {
		s := seconds - r.in.zero.Unix()
		most := int64(workload.MaxSubmit/time.Second) + 1
		d := time.Duration(max(-most, min(s, most)))*time.Second + time.Duration(nanos-r.in.zero.Nanosecond())
		if d > workload.MaxSubmit || d < -workload.MaxSubmit {
			r.fault(i, tooFar)
		}
		return d
	}
	if seconds < firstSecond || seconds > lastSecond {
		r.fault(i, badYears)
		return 0
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos)
}

// deadline reads an RFC 3339 time, or nothing for no deadline.
func (r *csvRow) deadline(i int) time.Duration {
	if len(r.value(i)) == 0 {
		return 0
	}
	return workload.DeadlineAt(r.clock(i))
}

// instant reads seconds since the zero.
func (r *csvRow) instant(i int) time.Duration {
	d, reason := parseSeconds(r.value(i))
	switch {
	case reason != "":
		r.fault(i, reason)
	case d > workload.MaxSubmit || d < -workload.MaxSubmit:
		r.fault(i, tooFar)
	}
	return d
}

// instantOr is instant where a trace may say nothing.
func (r *csvRow) instantOr(i int) (at time.Duration, known bool) {
	if absent(r.value(i)) {
		return 0, false
	}
	return r.instant(i), true
}

// within notes why a number was not read, or that it is negative or above the most.
func (r *csvRow) within(i int, n int64, reason string, most int64, above string) int64 {
	switch {
	case reason != "":
		r.fault(i, reason)
	case n < 0:
		r.fault(i, isNegative)
	case n > most:
		r.fault(i, above)
	}
	return n
}

// positive is within for a number that is more than 0.
func (r *csvRow) positive(i int, n int64, reason string, most int64, above string) int64 {
	if reason == "" && n <= 0 {
		reason = "is not positive"
	}
	return r.within(i, n, reason, most, above)
}

// duration reads positive seconds.
func (r *csvRow) duration(i int) time.Duration {
	d, reason := parseSeconds(r.value(i))
	return time.Duration(r.positive(i, int64(d), reason, int64(workload.MaxDuration), tooLong))
}

// runTime reads seconds of a job that ran. A job of no second is left out: the
// clocks of traces count whole ones, and no simulation has a job without work.
func (r *csvRow) runTime(i int) time.Duration {
	d, reason := parseSeconds(r.value(i))
	if reason != "" {
		r.fault(i, reason)
		return 0
	}
	return r.ran(i, d)
}

// ran checks a run time that was computed.
func (r *csvRow) ran(i int, d time.Duration) time.Duration {
	if d == 0 {
		r.leaveOut(tooShort)
	}
	return r.span(i, d, "")
}

// span checks a time span of a job.
func (r *csvRow) span(i int, d time.Duration, reason string) time.Duration {
	return time.Duration(r.within(i, int64(d), reason, int64(workload.MaxDuration), tooLong))
}

// wait is the queueing delay: seconds in a column, if there is one, else the
// time until start.
func (r *csvRow) wait(i int, untilStart time.Duration) time.Duration {
	if absent(r.value(i)) {
		return untilStart
	}
	d, reason := parseSeconds(r.value(i))
	if reason != "" {
		r.fault(i, reason)
	}
	return d
}

// setWait sets a job's queueing delay if it is possible: clocks of hosts may differ.
func setWait(j *workload.Job, wait time.Duration) {
	if wait >= 0 && wait <= workload.MaxDuration {
		j.Wait, j.HasWait = wait, true
	}
}

// waited reads a queueing delay.
func (r *csvRow) waited(i int) time.Duration {
	d, reason := parseSeconds(r.value(i))
	return r.span(i, d, reason)
}

// gpusOrNone is gpus where a job may ask for none: it is then left out.
func (r *csvRow) gpusOrNone(i int) workload.MilliGPU {
	if absent(r.value(i)) {
		r.leaveOut(noGPU)
		return 0
	}
	n, reason := parseDecimal(r.value(i), 3)
	if reason == "" && n == 0 {
		r.leaveOut(noGPU)
	}
	return workload.MilliGPU(r.within(i, n, reason, maxMilliGPUs, tooWide))
}

// maxMilliGPUs bounds the GPUs of a job, in thousandths.
const maxMilliGPUs = 1000 * workload.MaxGPUs

// gpus reads a positive number of GPUs with at most three decimals.
func (r *csvRow) gpus(i int) workload.MilliGPU {
	n, reason := parseDecimal(r.value(i), 3)
	return workload.MilliGPU(r.positive(i, n, reason, maxMilliGPUs, tooWide))
}

// atMost reads a number that is not negative, times 10^decimals, or nothing for 0.
func (r *csvRow) atMost(i, decimals int, most int64) int64 {
	if absent(r.value(i)) {
		return 0
	}
	n, reason := parseDecimal(r.value(i), decimals)
	return r.within(i, n, reason, most, outOfRange)
}

// priority reads a whole number of any sign.
func (r *csvRow) priority(i int) int64 {
	if absent(r.value(i)) {
		return 0
	}
	n, reason := parseDecimal(r.value(i), 0)
	if reason == "" && (n < -workload.MaxPriority || n > workload.MaxPriority) {
		reason = outOfRange
	}
	if reason != "" {
		r.fault(i, reason)
		return 0
	}
	return n
}

// nodeCount reads the number of nodes of a job with a number of GPUs, each of which has an equal share of them.
func (r *csvRow) nodeCount(i int, gpus workload.MilliGPU) int32 {
	n := r.atMost(i, 0, workload.MaxPlaces)
	if n > 0 && int64(gpus)%(1000*n) != 0 {
		r.fault(i, "is a number of nodes that cannot share the GPUs equally")
	}
	return int32(n)
}

// nice reads a number that lowers a priority or, if negative, raises it.
func (r *csvRow) nice(i int) int32 {
	if absent(r.value(i)) {
		return 0
	}
	n, reason := parseDecimal(r.value(i), 0)
	if reason == "" && n != int64(int32(n)) {
		reason = outOfRange
	}
	if reason != "" {
		r.fault(i, reason)
	}
	return int32(n)
}

func (r *csvRow) requeue(i int) workload.RequeueMode {
	m, err := workload.ParseRequeue(string(r.value(i)))
	if err != nil {
		r.fault(i, "is neither resume nor restart")
	}
	return m
}

func (r *csvRow) status(i int) workload.Status {
	for s := workload.Unknown; s <= workload.OutOfMemory; s++ {
		if s.String() == string(r.value(i)) {
			return s
		}
	}
	r.fault(i, "is not completed, cancelled, failed, timed_out, out_of_memory, running or pending")
	return workload.Unknown
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
	isNegative = "is negative"
	tooLong    = "is more than ten years"
	tooWide    = "is more than a million GPUs"
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
