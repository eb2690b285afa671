package arrivals

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CountColumns are the columns that ReadCounts takes the count from, the first
// that the header has.
var CountColumns = []string{"submit_gpu_job", "arrivals", "count"}

// ErrNotCounts is for input whose header is not that of a table of counts.
var ErrNotCounts = errors.New("no table of counts")

// Bounds for hostile input: nineteen years of minutes, and what they may take.
const (
	maxCountRows  = 10_000_000
	maxCountBytes = 1 << 30
)

// ReadCounts reads arrivals that are only counted: CSV, plain or gzip, whose
// header names a column time (RFC 3339) or unix (seconds), when each bin begins,
// and one of CountColumns. Bins follow each other without a gap. It returns the
// time of the first bin, to be used as the zero, and the bins' length.
func ReadCounts(r io.Reader, name string) (zero time.Time, bin time.Duration, counts []int, err error) {
	fail := func(line int, format string, args ...any) (time.Time, time.Duration, []int, error) {
		return time.Time{}, 0, nil, fmt.Errorf("%s: line %d: %w", name, line, fmt.Errorf(format, args...))
	}
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fail(1, "gzip: %w", err)
		}
		defer z.Close()
		r = z
	} else {
		r = in
	}
	limited := &io.LimitedReader{R: r, N: maxCountBytes}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 4096), 64<<10)
	if !lines.Scan() {
		return fail(1, "%w: %w", ErrNotCounts, cmpErr(lines.Err(), io.ErrUnexpectedEOF))
	}
	header := strings.Split(strings.TrimPrefix(lines.Text(), "\ufeff"), ",")
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	when, unix := slices.Index(header, "time"), slices.Index(header, "unix")
	what := -1
	for _, c := range CountColumns {
		if what = slices.Index(header, c); what >= 0 {
			break
		}
	}
	if what < 0 || when < 0 && unix < 0 {
		return fail(1, "%w: the header wants time or unix, and one of %s",
			ErrNotCounts, strings.Join(CountColumns, ", "))
	}
	var last time.Time
	for line := 2; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		if len(counts) >= maxCountRows {
			return fail(line, "more than %d rows", maxCountRows)
		}
		fields := strings.Split(text, ",")
		if len(fields) != len(header) {
			return fail(line, "%d fields, the header has %d", len(fields), len(header))
		}
		var t time.Time
		if unix >= 0 {
			sec, err := strconv.ParseInt(strings.TrimSpace(fields[unix]), 10, 64)
			if err != nil || sec < 0 || sec > 1<<36 {
				return fail(line, "unix: %q is no time in seconds", fields[unix])
			}
			t = time.Unix(sec, 0).UTC()
		} else if t, err = time.Parse(time.RFC3339, strings.TrimSpace(fields[when])); err != nil {
			return fail(line, "time: %q is no RFC 3339 time", fields[when])
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(fields[what]), 64)
		if err != nil || !(n >= 0) || n > 1e9 || n != float64(int(n)) {
			return fail(line, "%s: %q is no count", header[what], fields[what])
		}
		switch len(counts) {
		case 0:
			zero = t
		case 1:
			bin = t.Sub(zero)
			if bin < time.Minute || time.Hour%bin != 0 {
				return fail(line, "bins of %v: they must divide an hour and last a minute or more", bin)
			}
		default:
			if step := t.Sub(last); step != bin {
				return fail(line, "%s comes %v after the bin before, not %v: bins must follow each other",
					t.Format(time.RFC3339), step, bin)
			}
		}
		last = t
		counts = append(counts, int(n))
	}
	if err := lines.Err(); err != nil {
		return fail(len(counts)+2, "%w", err)
	}
	if limited.N <= 0 {
		return fail(len(counts)+2, "more than %d bytes", maxCountBytes)
	}
	if len(counts) < 2 {
		return fail(2, "%d rows: at least two tell the bins' length", len(counts))
	}
	return zero, bin, counts, nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
