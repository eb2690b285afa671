package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
)

// Errors a reader can end with. The error returned wraps one of them and says where and
// why.
var (
	// ErrFormat is for input that is no telemetry in a known format.
	ErrFormat = errors.New("not telemetry in a known format")
	// ErrNothing is for input without a record.
	ErrNothing = errors.New("nothing was read")
	// ErrLimit is for more GPUs at a time than are kept.
	ErrLimit = lines.ErrLimit
)

// Options says how to read telemetry. The zero value is good for any file.
type Options struct {
	// Format is the name of the format, as in Formats. Default: as the content says.
	Format string
	// At is when a scrape whose lines have no times was made, since the Unix epoch.
	At time.Duration
	// Node is the node of GPUs of which the input names none.
	Node string
	// Zone is whose clock the times of nvidia-smi show. Default: UTC.
	Zone *time.Location
	// Xids are the last errors of GPUs in the scrapes before, which DCGM repeats; they are
	// kept up to date. Default: the ones of the input alone.
	Xids map[GPU]int
	// Names are a site's names of metrics and labels. Default: none beside the known ones.
	Names *Names
	// KeepRejected is how many rejected rows are named; all are counted. Default: 20.
	KeepRejected int
}

// Visit gets the records of a file in the order of its rows. A record is valid until
// the function returns; an error ends the reading. A kind without a function is refused.
type Visit struct {
	GPU       func(*GPUSample) error
	Queue     func(*QueueSample) error
	Iteration func(*Iteration) error
}

// Stats counts the input.
type Stats struct {
	File        string `json:"file"`
	Format      string `json:"format"`
	Kind        Kind   `json:"kind"`
	Compression string `json:"compression,omitempty"` // "gzip" or "zstd"
	Bytes       int64  `json:"bytes"`                 // after decompression
	// Rows counts the ones with data; of a scrape, the lines of known metrics.
	Rows    int `json:"rows"`
	Samples int `json:"samples"` // records given to Visit
	// Absent is the number of values that the rows say they lack.
	Absent  int      `json:"absent"`
	Ignored []string `json:"ignored_columns,omitempty"`
	// Unknown are the metrics of scrapes that are not read, those of GPUs first.
	Unknown []string `json:"-"`
	// Messages is the number of lines of a log that are not rows, such as errors and repeated headers.
	Messages int `json:"messages,omitempty"`
	// Named is the number of samples that name their job, Exporters of values whose pod is taken to be the exporter's.
	Named     int `json:"named,omitempty"`
	Exporters int `json:"exporters_pods,omitempty"`
	// Numbered is the number of GPUs without an index, which have one in order of their UUIDs; Renamed of samples of a
	// GPU that has the node of its samples before.
	Numbered int `json:"numbered,omitempty"`
	Renamed  int `json:"renamed,omitempty"`
	// Rejections are rows or, where a row has a value for each GPU, values.
	lines.Rejections
}

// Nothing is an error that wraps ErrNothing and says why, nil if there are records.
func (s *Stats) Nothing() error {
	switch {
	case s.Samples > 0:
		return nil
	case s.Rejected > 0:
		return fmt.Errorf("telemetry %s: %w: %d of %d rows rejected, first %s", s.File, ErrNothing, s.Rejected, s.Rows,
			s.First[0])
	case len(s.Unknown) > 0:
		return fmt.Errorf("telemetry %s: %w: no metric of this scrape is known: %s", s.File, ErrNothing,
			strings.Join(s.Unknown[:min(len(s.Unknown), 8)], ", "))
	case s.Rows > 0:
		return fmt.Errorf("telemetry %s: %w: none of %d rows has a value", s.File, ErrNothing, s.Rows)
	}
	return fmt.Errorf("telemetry %s: %w: it has no rows", s.File, ErrNothing)
}

const (
	// maxLine holds a row of Acme's 2,400 GPUs many times.
	maxLine      = 1 << 20
	keepRejected = 20
)

// Read reads the GPU samples of a file, plain, gzip or zstd, in any known format. name is
// the file's, for the statistics and for formats whose file names mean something. The
// memory needed depends on the number of GPUs alone. The statistics count the input
// until an error.
func Read(ctx context.Context, r io.Reader, name string, opts Options, each func(*GPUSample) error) (*Stats, error) {
	return ReadAll(ctx, r, name, opts, Visit{GPU: each})
}

// ReadFile is ReadAll of a file.
func ReadFile(ctx context.Context, path string, opts Options, visit Visit) (*Stats, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	defer f.Close()
	return ReadAll(ctx, f, filepath.Base(path), opts, visit)
}

// ReadAll is Read for records of any kind.
func ReadAll(ctx context.Context, r io.Reader, name string, opts Options, visit Visit) (*Stats, error) {
	opts.KeepRejected = cmp.Or(opts.KeepRejected, keepRejected)
	in := &input{opts: opts, visit: visit, texts: map[string]string{}, stats: &Stats{File: name}}
	err := in.run(ctx, r)
	if in.source != nil {
		in.stats.Bytes = in.source.Out()
		in.source.Close()
	}
	if err != nil {
		return in.stats, fmt.Errorf("telemetry %s: %w", name, err)
	}
	return in.stats, nil
}

// input is the source of a format: lines in, records and rejections out.
type input struct {
	opts   Options
	visit  Visit
	stats  *Stats
	source *lines.Reader
	line   int // number of the line last read, from 1
	fields [][]byte
	// separator is between fields. Default: a comma.
	separator byte
	texts     map[string]string // names recur: equal ones share memory

	clock  []byte // the instant last read, and its meaning
	clocks time.Duration
}

func (in *input) run(ctx context.Context, r io.Reader) error {
	var err error
	if in.source, err = lines.New(ctx, r, lines.Options{MaxLine: maxLine}); err != nil {
		return err
	}
	in.stats.Compression = in.source.Compression
	var head []byte
	if in.opts.Format == "" {
		if head, err = in.source.Peek(); err != nil {
			return err
		}
	}
	f, err := formatFor(head, in.opts.Format)
	if err != nil {
		return err
	}
	in.stats.Format, in.stats.Kind = f.Name, f.Kind
	if f.Kind == GPUs && in.visit.GPU == nil || f.Kind == Queues && in.visit.Queue == nil ||
		f.Kind == Iterations && in.visit.Iteration == nil {
		return fmt.Errorf("%w: it holds %s, which are not what is asked for", ErrFormat, f.Kind)
	}
	return f.read(in)
}

// next returns the next line, nil at the end. Lines that are too long are rejected here.
func (in *input) next() ([]byte, error) {
	for {
		line, long, err := in.source.Line()
		if err == io.EOF {
			return nil, nil
		}
		in.line++
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", in.line, err)
		}
		if !long {
			return line, nil
		}
		in.stats.Rows++
		in.reject("line", "is longer than the limit", line)
	}
}

func (in *input) reject(field, reason string, value []byte) {
	x := lines.Rejection{File: in.stats.File, Line: in.line, Field: field, Reason: reason}
	if len(in.stats.First) < in.opts.KeepRejected {
		x.Value = lines.Excerpt(value)
	}
	in.stats.Add(x, in.opts.KeepRejected)
}

func (in *input) gpu(s *GPUSample) error {
	in.stats.Samples++
	if s.Job != "" {
		in.stats.Named++
	}
	return in.visit.GPU(s)
}

// maxTexts bounds the names that are shared: names of nodes, jobs and GPUs.
const maxTexts = 1 << 20

func (in *input) text(b []byte) string {
	if s, ok := in.texts[string(b)]; ok {
		return s
	}
	if len(in.texts) >= maxTexts {
		clear(in.texts)
	}
	s := string(b)
	in.texts[s] = s
	return s
}

// Why values are rejected.
const (
	isEmpty    = "is empty"
	notNumber  = "is not a number"
	notWhole   = "is not a whole number"
	outOfRange = "is out of range"
	noClock    = "is neither seconds since 1970 nor a time with its zone"
)

// maxTime is the latest instant: 200 years after 1970.
const maxTime = 200 * 365 * 24 * time.Hour

// instant reads seconds since the Unix epoch, or a time with its zone.
func (in *input) instant(b []byte) (time.Duration, string) {
	if len(b) > 0 && bytes.Equal(b, in.clock) {
		return in.clocks, ""
	}
	at, reason := instant(b)
	if reason == "" {
		in.clock, in.clocks = append(in.clock[:0], b...), at
	}
	return at, reason
}

// The layouts of times; a T in place of the blank is read too.
var layouts = []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 MST"}

// Zones that Philly's files name; no other abbreviation is unambiguous.
var zones = map[string]time.Duration{"UTC": 0, "PST": -8 * time.Hour, "PDT": -7 * time.Hour}

func instant(b []byte) (time.Duration, string) {
	if len(b) == 0 {
		return 0, isEmpty
	}
	if at, ok := seconds(b); ok {
		if at > maxTime {
			return 0, outOfRange
		}
		return at, ""
	}
	s := string(b)
	if len(s) > 10 && s[10] == 'T' {
		s = s[:10] + " " + s[11:]
	}
	for i, layout := range layouts {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if i == 1 {
			name, _ := t.Zone()
			offset, known := zones[name]
			if !known {
				return 0, noClock
			}
			t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC).
				Add(-offset)
		}
		if t.Unix() < 0 || t.Unix() > int64(maxTime/time.Second) {
			return 0, outOfRange
		}
		return time.Duration(t.UnixNano()), ""
	}
	return 0, noClock
}

// seconds reads a decimal number of seconds exactly, to the nanosecond.
func seconds(b []byte) (time.Duration, bool) {
	var n, unit int64 = 0, int64(time.Second)
	point, digits := false, 0
	for _, c := range b {
		switch {
		case c == '.' && !point:
			point = true
		case c >= '0' && c <= '9':
			digits++
			if point {
				unit /= 10
				n += int64(c-'0') * unit
				continue
			}
			if n > int64(maxTime)/10 { // beyond the range, which the caller reports
				return math.MaxInt64, true
			}
			n = n*10 + int64(c-'0')*int64(time.Second)
		default:
			return 0, false
		}
	}
	return time.Duration(n), digits > 0
}

// exactDigits is how many digits of a decimal float64 holds exactly.
const exactDigits = 15

var powersOfTen = func() (p [exactDigits + 1]float64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// decimal reads a number of digits with a point or without, as strconv.ParseFloat does: of two numbers that are exact,
// the quotient is rounded once. It is false for all others.
func decimal(b []byte) (float64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	n, digits, places, point := uint64(0), 0, 0, false
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + uint64(c-'0')
			if digits++; point {
				places++
			}
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	if digits == 0 || digits > exactDigits {
		return 0, false
	}
	v := float64(n) / powersOfTen[places]
	if negative {
		v = -v
	}
	return v, true
}

// number reads a decimal number. NaN and infinities are none.
func number(b []byte) (float64, string) {
	if v, ok := decimal(b); ok { // strconv takes three times as long
		return v, ""
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case errors.Is(err, strconv.ErrRange), math.IsInf(v, 0):
		return 0, outOfRange
	case err != nil || math.IsNaN(v):
		return 0, notNumber
	}
	return v, ""
}

// whole reads a number from 0 to a bound.
func whole(b []byte, most int) (int, string) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, notWhole
		}
		if n = n*10 + int(c-'0'); n > most {
			return 0, outOfRange
		}
	}
	if len(b) == 0 {
		return 0, isEmpty
	}
	return n, ""
}

// trimmed is a header's field as its column is called.
func trimmed(b []byte) string { return strings.TrimSpace(string(b)) }

// Kind is the kind of a file's records.
type Kind string

// The kinds of files.
const (
	GPUs       Kind = "GPU samples"
	Queues     Kind = "queue samples"
	Iterations Kind = "iterations"
)

// Format is a way to write telemetry down. To add one, write its reader and add an entry
// to Formats.
type Format struct {
	Name   string // as in Options.Format
	About  string // one sentence
	Kind   Kind
	Header string // its beginning, to show
	// detect recognises the beginning of a text. At most one format may recognise it.
	detect func(head []byte) bool
	// read gives every row to a function of input.visit or to input.reject.
	read func(*input) error
}

// Formats are the known formats, in order of name. A function, because readers name them
// in their errors.
func Formats() []Format {
	return []Format{
		{"acme", "Shanghai AI Laboratory's DCGM files: a metric each, which the file's name says, a column per GPU",
			GPUs, "Time,SERVER-0,SERVER-1,...", detectAcme, readAcme},
		{"autosched", "this project's CSV; an empty field is unknown", GPUs, title(gpuColumns),
			has(gpuColumns), readGPUs},
		{"genai-pods", "Alibaba's inference pods of 2026, a GPU each", GPUs, title(podColumns),
			has(podColumns), readPods},
		{"iterations", "this project's CSV of training steps", Iterations, title(iterationColumns),
			has(iterationColumns), readIterations},
		{"nvidia-smi", "what nvidia-smi --query-gpu=... --format=csv prints of a node, with or without units; times of one clock",
			GPUs, "timestamp, index, utilization.gpu [%], ...", detectSMI, readSMI},
		{"nvidia-smi-xml", "what nvidia-smi -q -x prints of a node, once or often; times of one clock", GPUs,
			"<?xml version=\"1.0\" ?>", detectSMILog, readSMILog},
		{"pai-minibatch", "Alibaba PAI's iteration times, scaled to at most 1000 per job and read as milliseconds",
			Iterations, title(minibatchColumns), has(minibatchColumns), readMinibatches},
		{"philly", "Microsoft Philly's cluster_gpu_util: a row per machine and minute", GPUs,
			"time,machineId,gpu0_util,...,gpu7_util", detectPhilly, readPhilly},
		{"prometheus", "scrapes of dcgm-exporter and others in Prometheus' text format, and tsdb dumps", GPUs,
			`DCGM_FI_DEV_GPU_UTIL{gpu="0",...} 93`, detectPrometheus, readPrometheus},
		{"prometheus-json", "answers of Prometheus' HTTP API, and VictoriaMetrics' export", GPUs,
			`{"status":"success","data":{"resultType":"matrix",...`, detectPrometheusJSON, readPrometheusJSON},
		{"queue", "this project's CSV of queue samples", Queues, title(queueColumns), has(queueColumns), readQueues},
	}
}

// formatFor finds the format by its name or by the beginning of a text.
func formatFor(head []byte, name string) (*Format, error) {
	all := Formats()
	var names, headers []string
	for i := range all {
		f := &all[i]
		if name == f.Name || name == "" && f.detect(head) {
			return f, nil
		}
		names = append(names, f.Name)
		headers = append(headers, "\n  "+f.Name+": "+f.Header)
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("%w: no format is called %q; known are %s", ErrFormat, name, strings.Join(names, ", "))
	case len(head) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	if what := notSMI(head); what != "" {
		return nil, fmt.Errorf("%w: this is %s", ErrFormat, what)
	}
	return nil, fmt.Errorf("%w: it begins with %s; known formats begin with:%s", ErrFormat,
		lines.Excerpt(lines.Header(head)), strings.Join(headers, ""))
}

// header reads the first line that is neither empty nor a comment, cut into fields.
func (in *input) header() ([]string, error) {
	for {
		line, err := in.next()
		if err != nil {
			return nil, err
		}
		if line == nil {
			return nil, fmt.Errorf("%w: there is no header", ErrFormat)
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		fields, reason := lines.Split(bytes.Clone(line), ',', nil)
		if reason != "" {
			return nil, fmt.Errorf("%w: line %d: the header %s", ErrFormat, in.line, reason)
		}
		names := make([]string, len(fields))
		for i := range fields {
			names[i] = trimmed(fields[i])
		}
		return names, nil
	}
}

// row reads the next row that is not empty, cut into fields; nil at the end.
func (in *input) row() ([][]byte, error) {
	for {
		line, err := in.next()
		if line == nil || err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue
		}
		in.stats.Rows++
		var reason string
		if in.fields, reason = lines.Split(line, cmp.Or(in.separator, ','), in.fields[:0]); reason != "" {
			in.reject("line", reason, line)
			continue
		}
		return in.fields, nil
	}
}
