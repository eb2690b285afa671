package telemetry

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
)

// column is a column of a CSV: how its fields are read into a record and written.
type column[T any] struct {
	name     string
	required bool // in the header and in every row
	read     func(in *input, v *T, b []byte) (reason string)
	// write appends nothing for an unknown value; it is false for one that read would reject.
	write func(dst []byte, v *T) ([]byte, bool)
}

func title[T any](cols []column[T]) string {
	names := make([]string, len(cols))
	for i := range cols {
		names[i] = cols[i].name
	}
	return strings.Join(names, ",")
}

// has recognises a header by the required columns.
func has[T any](cols []column[T]) func(head []byte) bool {
	return func(head []byte) bool {
		fields, reason := lines.Split(bytes.Clone(lines.Header(head)), ',', nil)
		if reason != "" {
			return false
		}
		for i := range cols {
			called := func(b []byte) bool { return trimmed(b) == cols[i].name }
			if cols[i].required && !slices.ContainsFunc(fields, called) {
				return false
			}
		}
		return true
	}
}

// readTable reads rows into v, which each gets with the fields of one row set. Columns
// may be in any order; unknown ones are named in the statistics.
func readTable[T any](in *input, cols []column[T], each func(v *T) error) error {
	names, err := in.header()
	if err != nil {
		return err
	}
	bound := make([]*column[T], len(names))
	for i := range cols {
		at := slices.Index(names, cols[i].name)
		switch {
		case at < 0 && cols[i].required:
			return fmt.Errorf("%w: line %d: the header lacks %s", ErrFormat, in.line, cols[i].name)
		case at >= 0 && slices.Contains(names[at+1:], cols[i].name):
			return fmt.Errorf("%w: line %d: the header names %s twice", ErrFormat, in.line, cols[i].name)
		case at >= 0:
			bound[at] = &cols[i]
		}
	}
	for i, name := range names {
		if bound[i] == nil {
			in.stats.Ignored = append(in.stats.Ignored, name)
		}
	}
	v := new(T)
rows:
	for {
		fields, err := in.row()
		if fields == nil || err != nil {
			return err
		}
		if len(fields) != len(names) {
			in.reject("line", "has another number of fields than the header", bytes.Join(fields, []byte{','}))
			continue
		}
		*v = *new(T)
		for i, b := range fields {
			c := bound[i]
			if c == nil {
				continue
			}
			reason := ""
			switch {
			case len(b) > 0:
				reason = c.read(in, v, b)
			case c.required:
				reason = isEmpty
			default:
				in.stats.Absent++
			}
			if reason != "" {
				in.reject(c.name, reason, b)
				continue rows
			}
		}
		if err := each(v); err != nil {
			return err
		}
	}
}

// Writer writes records as the project's CSV, which Read reads. The records of a file are
// best in order of time.
type Writer[T any] struct {
	cols  []column[T]
	out   *bufio.Writer
	row   []byte
	begun bool
}

func newWriter[T any](w io.Writer, cols []column[T]) *Writer[T] {
	return &Writer[T]{cols: cols, out: bufio.NewWriterSize(w, 64<<10)}
}

// NewWriter writes GPU samples.
func NewWriter(w io.Writer) *Writer[GPUSample] { return newWriter(w, gpuColumns) }

// Write writes one record, buffered until Flush. A record that would read back otherwise
// is an error, and is not written.
func (w *Writer[T]) Write(v *T) error {
	if err := w.Header(); err != nil {
		return err
	}
	w.row = w.row[:0]
	for i := range w.cols {
		if i > 0 {
			w.row = append(w.row, ',')
		}
		from, ok := len(w.row), false
		if w.row, ok = w.cols[i].write(w.row, v); !ok {
			return fmt.Errorf("telemetry: %s: %s cannot be written", w.cols[i].name, lines.Excerpt(w.row[from:]))
		}
	}
	if len(w.row) > maxLine {
		return fmt.Errorf("telemetry: a row of %d bytes cannot be written", len(w.row))
	}
	w.row = append(w.row, '\n')
	_, err := w.out.Write(w.row)
	return err
}

// Header writes the header, as the first Write does.
func (w *Writer[T]) Header() error {
	if w.begun {
		return nil
	}
	w.begun = true
	_, err := w.out.WriteString(title(w.cols) + "\n")
	return err
}

// SkipHeader continues a table that has its header.
func (w *Writer[T]) SkipHeader() { w.begun = true }

// Flush writes the buffer.
func (w *Writer[T]) Flush() error { return w.out.Flush() }

func appendText(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, `",`) {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

// appendSeconds writes a time exactly, to the nanosecond.
func appendSeconds(dst []byte, d time.Duration) []byte {
	dst = strconv.AppendInt(dst, int64(d/time.Second), 10)
	if rest := d % time.Second; rest != 0 {
		dst = append(dst, bytes.TrimRight(fmt.Appendf(nil, ".%09d", rest), "0")...)
	}
	return dst
}
