package arrivals

import (
	"bufio"
	"bytes"
	"cmp"
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

// Bounds for hostile input: nineteen years of minutes, and their results.
const (
	maxCountRows  = 10_000_000
	maxCountBytes = 1 << 30
)

// ReadCounts reads arrivals that are only counted: CSV, plain or gzip, whose
// header names a column time (RFC 3339) or unix (seconds), when each bin begins,
// and one of CountColumns. Bins follow each other without a gap. It returns the
// time of the first bin, to be used as the zero, and the bins' length.
func ReadCounts(r io.Reader, name string) (zero time.Time, bin time.Duration, counts []int, err error) {
	t := countTable{line: 1}
	if err := t.read(r); err != nil {
		return time.Time{}, 0, nil, fmt.Errorf("%s: line %d: %w", name, t.line, err)
	}
	return t.zero, t.bin, t.counts, nil
}

// countTable is a table of counts as far as it is read.
type countTable struct {
	line   int // being read, from 1
	header []string
	when   int // column of the time, of a bin's begin
	unix   bool
	what   int // column of the count
	zero   time.Time
	last   time.Time
	bin    time.Duration // 0 before the second row
	counts []int
}

func (t *countTable) read(r io.Reader) error {
	in := bufio.NewReader(r)
	r = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		defer z.Close()
		r = z
	}
	limited := &io.LimitedReader{R: r, N: maxCountBytes}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 4096), 64<<10)
	if !lines.Scan() {
		return fmt.Errorf("%w: %w", ErrNotCounts, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	if err := t.readHeader(lines.Text()); err != nil {
		return err
	}
	for t.line = 2; lines.Scan(); t.line++ {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			if err := t.readRow(text); err != nil {
				return err
			}
		}
	}
	t.line = len(t.counts) + 2
	switch {
	case lines.Err() != nil:
		return lines.Err()
	case limited.N <= 0:
		return fmt.Errorf("more than %d bytes", maxCountBytes)
	case len(t.counts) < 2:
		t.line = 2
		return fmt.Errorf("%d rows: at least two tell the bins' length", len(t.counts))
	}
	return nil
}

// readHeader finds the columns of time and count.
func (t *countTable) readHeader(text string) error {
	t.header = strings.Split(strings.TrimPrefix(text, "\ufeff"), ",")
	for i := range t.header {
		t.header[i] = strings.TrimSpace(t.header[i])
	}
	t.when = slices.Index(t.header, "unix")
	if t.unix = t.when >= 0; !t.unix {
		t.when = slices.Index(t.header, "time")
	}
	t.what = -1
	for _, c := range CountColumns {
		if t.what = slices.Index(t.header, c); t.what >= 0 {
			break
		}
	}
	if t.what < 0 || t.when < 0 {
		return fmt.Errorf("%w: the header wants time or unix, and one of %s",
			ErrNotCounts, strings.Join(CountColumns, ", "))
	}
	return nil
}

func (t *countTable) readRow(text string) error {
	if len(t.counts) >= maxCountRows {
		return fmt.Errorf("more than %d rows", maxCountRows)
	}
	fields := strings.Split(text, ",")
	if len(fields) != len(t.header) {
		return fmt.Errorf("%d fields, the header has %d", len(fields), len(t.header))
	}
	at, err := t.readTime(fields[t.when])
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(fields[t.what]), 64)
	if err != nil || !(n >= 0) || n > 1e9 || n != float64(int(n)) {
		return fmt.Errorf("%s: %q is no count", t.header[t.what], fields[t.what])
	}
	if err := t.follow(at); err != nil {
		return err
	}
	t.counts = append(t.counts, int(n))
	return nil
}

func (t *countTable) readTime(field string) (time.Time, error) {
	text := strings.TrimSpace(field)
	if t.unix {
		sec, err := strconv.ParseInt(text, 10, 64)
		if err != nil || sec < 0 || sec > 1<<36 {
			return time.Time{}, fmt.Errorf("unix: %q is no time in seconds", field)
		}
		return time.Unix(sec, 0).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("time: %q is no RFC 3339 time", field)
	}
	return at, nil
}

// follow checks that a bin begins where the bin before ends. The first two say how
// long bins are.
func (t *countTable) follow(at time.Time) error {
	switch len(t.counts) {
	case 0:
		t.zero = at
	case 1:
		t.bin = at.Sub(t.zero)
		if t.bin < time.Minute || time.Hour%t.bin != 0 {
			return fmt.Errorf("bins of %v: they must divide an hour and last a minute or more", t.bin)
		}
	default:
		if step := at.Sub(t.last); step != t.bin {
			return fmt.Errorf("%s comes %v after the bin before, not %v: bins must follow each other",
				at.Format(time.RFC3339), step, t.bin)
		}
	}
	t.last = at
	return nil
}
