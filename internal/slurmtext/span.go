package slurmtext

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Errors of spans.
var (
	ErrSpan  = errors.New("is not a span such as 1-02:03:04")
	ErrLimit = errors.New("is not a time limit such as 2-00:00:00, minutes or UNLIMITED")
)

const (
	maxSpan  = 100 * 365 * 24 * time.Hour
	maxLimit = 10 * 365 * 24 * time.Hour
)

// ParseSpan reads a time as time_str2secs in src/common/parse_time.c does: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds, up to a hundred years.
func ParseSpan(text string) (time.Duration, error) {
	days, rest, withDays := strings.Cut(text, "-")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if !withDays {
		days, rest = "0", text
	}
	fields := strings.Split(rest, ":")
	if !withDays && len(fields) < 3 {
		units = units[1:]
	}
	if len(fields) > len(units) {
		return 0, ErrSpan
	}
	n, err := strconv.ParseUint(days, 10, 31)
	sum := float64(n) * 86400
	for i, f := range fields {
		if err == nil {
			n, err = strconv.ParseUint(f, 10, 31)
			sum += float64(n) * units[i].Seconds()
		}
	}
	if err != nil || sum > maxSpan.Seconds() {
		return 0, ErrSpan
	}
	return time.Duration(sum) * time.Second, nil
}

// ParseElapsed reads [days-]hours:minutes:seconds, as secs2time_str in src/common/parse_time.c writes the column
// Elapsed.
func ParseElapsed(text string) (time.Duration, error) {
	if strings.Count(text, ":") != 2 {
		return 0, ErrSpan
	}
	return ParseSpan(text)
}

// ParseLimit reads a time limit, 0 if it is none: UNLIMITED, Partition_Limit, INVALID, INFINITE, NONE, N/A, -1,
// nothing, or more than ten years. src/sacct/print.c writes minutes into TimelimitRaw and mins2time_str into Timelimit.
func ParseLimit(text string) (time.Duration, error) {
	switch strings.ToUpper(text) {
	case "", "UNLIMITED", "PARTITION_LIMIT", "INVALID", "INFINITE", "NONE", "N/A", "-1":
		return 0, nil
	}
	if minutes, err := strconv.ParseUint(text, 10, 64); err == nil && minutes > uint64(maxLimit/time.Minute) {
		return 0, nil
	}
	d, err := ParseSpan(text)
	switch {
	case err != nil:
		return 0, ErrLimit
	case d > maxLimit:
		return 0, nil
	}
	return d, nil
}
