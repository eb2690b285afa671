package telemetry

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
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

func textColumn[T any](name string, required bool, at func(*T) *string) column[T] {
	return column[T]{name, required, func(in *input, v *T, b []byte) string {
		*at(v) = in.text(b)
		return ""
	}, func(dst []byte, v *T) ([]byte, bool) {
		return appendText(dst, *at(v)), !strings.ContainsAny(*at(v), "\r\n") && !(required && *at(v) == "")
	}}
}

func timeColumn[T any](name string, required bool, at func(*T) *time.Duration) column[T] {
	return column[T]{name, required, func(in *input, v *T, b []byte) (reason string) {
		*at(v), reason = in.instant(b)
		return reason
	}, func(dst []byte, v *T) ([]byte, bool) {
		if !required && *at(v) == 0 {
			return dst, true
		}
		return appendSeconds(dst, *at(v)), *at(v) >= 0 && *at(v) <= maxTime
	}}
}

func countColumn[T any](name string, most int, at func(*T) *int) column[T] {
	return column[T]{name, true, func(_ *input, v *T, b []byte) (reason string) {
		*at(v), reason = whole(b, most)
		return reason
	}, func(dst []byte, v *T) ([]byte, bool) {
		return strconv.AppendInt(dst, int64(*at(v)), 10), *at(v) >= 0 && *at(v) <= most
	}}
}

// gpuColumns are the columns of GPU samples.
var gpuColumns = func() []column[GPUSample] {
	cols := []column[GPUSample]{
		timeColumn("time", true, func(s *GPUSample) *time.Duration { return &s.Time }),
		textColumn("node", true, func(s *GPUSample) *string { return &s.Node }),
		countColumn("gpu", maxGPU, func(s *GPUSample) *int { return &s.Index }),
		{"instance", false, func(_ *input, s *GPUSample, b []byte) string {
			n, reason := whole(b, maxGPU)
			s.Instance = n + 1 // readGPUs takes it off, so that an empty field is no instance
			return reason
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if s.Instance == -1 {
				return dst, true
			}
			return strconv.AppendInt(dst, int64(s.Instance), 10), s.Instance >= 0 && s.Instance <= maxGPU
		}},
		textColumn("uuid", false, func(s *GPUSample) *string { return &s.UUID }),
	}
	for i := range Quantities {
		q := &Quantities[i]
		cols = append(cols, column[GPUSample]{q.Name, false, func(_ *input, s *GPUSample, b []byte) string {
			n, reason := number(b)
			if reason == "" {
				reason = q.set(s, n)
			}
			return reason
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if !s.Has(q.Field) {
				return dst, true
			}
			n := *q.At(s)
			return strconv.AppendFloat(dst, n, 'g', -1, 64), n >= q.Least && n <= q.Most
		}})
	}
	counts := func(name string, f Field, most int, at func(*GPUSample) *int) column[GPUSample] {
		return column[GPUSample]{name, false, func(_ *input, s *GPUSample, b []byte) (reason string) {
			*at(s), reason = whole(b, most)
			s.Known |= f
			return reason
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if !s.Has(f) {
				return dst, true
			}
			return strconv.AppendInt(dst, int64(*at(s)), 10), *at(s) >= 0 && *at(s) <= most
		}}
	}
	return append(cols,
		column[GPUSample]{"throttle", false, func(_ *input, s *GPUSample, b []byte) string {
			n, err := strconv.ParseUint(string(b), 0, 64)
			if err != nil {
				return "is not a set of bits such as 0x4"
			}
			s.Throttle = n
			s.Known |= Throttle
			return ""
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if !s.Has(Throttle) {
				return dst, true
			}
			return strconv.AppendUint(append(dst, "0x"...), s.Throttle, 16), true
		}},
		counts("xid", Xid, maxXid, func(s *GPUSample) *int { return &s.Xid }),
		counts("processes", Processes, maxProcesses, func(s *GPUSample) *int { return &s.Processes }),
		textColumn("job", false, func(s *GPUSample) *string { return &s.Job }),
		column[GPUSample]{"lost", false, func(_ *input, s *GPUSample, b []byte) string {
			if s.Lost = string(b) == "1"; !s.Lost && string(b) != "0" {
				return "is neither 1, for a GPU that did not answer, nor 0 or empty"
			}
			return ""
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if s.Lost {
				dst = append(dst, '1')
			}
			return dst, !s.Lost || s.Known&^Xid == 0
		}})
}()

func readGPUs(in *input) error {
	return readTable(in, gpuColumns, func(s *GPUSample) error {
		s.Instance--
		if s.Lost && s.Known&^Xid != 0 {
			in.reject("lost", "a GPU that did not answer has quantities", []byte(s.Known.String()))
			return nil
		}
		return in.gpu(s)
	})
}

// podColumns are the columns of Alibaba's inference pods, each of which has a GPU.
var podColumns = []column[GPUSample]{
	timeColumn("unix", true, func(s *GPUSample) *time.Duration { return &s.Time }),
	textColumn("pod", true, func(s *GPUSample) *string { return &s.Node }),
	quantityColumn("gpu_util", Utilization),
	quantityColumn("gpu_memory_used_mib", MemoryUsed),
}

// quantityColumn is a column of another name with a quantity in its own unit. That an
// absent column of the format is one of another format makes all of them required.
func quantityColumn(name string, f Field) column[GPUSample] {
	q := quantityOf(f)
	return column[GPUSample]{name: name, read: func(_ *input, s *GPUSample, b []byte) string {
		n, reason := number(b)
		if reason == "" {
			reason = q.set(s, n)
		}
		return reason
	}}
}

func readPods(in *input) error {
	return readTable(in, podColumns, func(s *GPUSample) error {
		if s.Known == 0 { // nothing was sampled
			return nil
		}
		s.Instance, s.Job = -1, s.Node
		return in.gpu(s)
	})
}

// maxCount bounds jobs and GPUs of a cluster, and steps of a job.
const maxCount = math.MaxInt32

var queueColumns = []column[QueueSample]{
	timeColumn("time", true, func(s *QueueSample) *time.Duration { return &s.Time }),
	textColumn("queue", false, func(s *QueueSample) *string { return &s.Queue }),
	countColumn("pending", maxCount, func(s *QueueSample) *int { return &s.Pending }),
	countColumn("pending_gpus", maxCount, func(s *QueueSample) *int { return &s.PendingGPUs }),
	countColumn("free_gpus", maxCount, func(s *QueueSample) *int { return &s.FreeGPUs }),
	countColumn("total_gpus", maxCount, func(s *QueueSample) *int { return &s.TotalGPUs }),
}

func readQueues(in *input) error {
	return readTable(in, queueColumns, func(s *QueueSample) error {
		if s.FreeGPUs > s.TotalGPUs {
			in.reject("free_gpus", "is more than total_gpus", strconv.AppendInt(nil, int64(s.FreeGPUs), 10))
			return nil
		}
		in.stats.Samples++
		return in.visit.Queue(s)
	})
}

var iterationColumns = []column[Iteration]{
	textColumn("job", true, func(i *Iteration) *string { return &i.Job }),
	countColumn("worker", maxCount, func(i *Iteration) *int { return &i.Worker }),
	countColumn("step", maxCount, func(i *Iteration) *int { return &i.Step }),
	timeColumn("seconds", true, func(i *Iteration) *time.Duration { return &i.Took }),
	timeColumn("time", false, func(i *Iteration) *time.Duration { return &i.Time }),
}

func readIterations(in *input) error {
	return readTable(in, iterationColumns, func(i *Iteration) error {
		in.stats.Samples++
		return in.visit.Iteration(i)
	})
}

// minibatchColumns are the columns of PAI's iteration times.
var minibatchColumns = []column[Iteration]{
	textColumn("job", true, func(i *Iteration) *string { return &i.Job }),
	countColumn("worker", maxCount, func(i *Iteration) *int { return &i.Worker }),
	countColumn("iteration", maxCount, func(i *Iteration) *int { return &i.Step }),
	{"batch_time", true, func(_ *input, i *Iteration, b []byte) string {
		ms, reason := number(b)
		if reason == "" && !(ms >= 0 && ms <= 1e9) {
			reason = outOfRange
		}
		i.Took = time.Duration(math.Round(ms * 1e6))
		return reason
	}, nil},
}

func readMinibatches(in *input) error {
	return readTable(in, minibatchColumns, func(i *Iteration) error {
		in.stats.Samples++
		return in.visit.Iteration(i)
	})
}
