package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Errors a reader can end with. The error returned wraps one of them and says
// where and why.
var (
	// ErrFormat is for input that is no trace in a known format.
	ErrFormat = errors.New("not a trace in a known format")
	// ErrNoJobs is for a trace of which no row could be used.
	ErrNoJobs = errors.New("no usable job")
	// ErrRejected is for rejected rows where ReadOptions.Strict forbids them.
	ErrRejected = errors.New("rejected rows")
	// ErrLimit is for input beyond one of the limits of ReadOptions.
	ErrLimit = errors.New("limit exceeded")
)

// Defaults of ReadOptions. The largest public trace, Philly's, has 117,325
// jobs; PAI 2020 has 7.5 million instances. Lines of public job tables stay
// below 1 KiB, and their gzip ratio below 20; gzip can reach 1032.
const (
	DefaultMaxRows  = 20_000_000
	DefaultMaxLine  = 64 << 10
	DefaultMaxBytes = 16 << 30
	DefaultMaxRatio = 200
	DefaultKeep     = 20
)

// ReadOptions says how to read a trace. The zero value is good for any trace.
type ReadOptions struct {
	// Context ends the reading early; the error wraps its cause. Default: never.
	Context context.Context
	// Format is the name of the format to read, as in Formats. Default: as the
	// header says.
	Format string
	// Strict makes a rejected row an error (ErrRejected), after all rows were
	// checked. Default: rows are rejected, counted and named in the report.
	Strict bool
	// Progress is told how far the reading is, about once a MiB and at the end.
	Progress func(Progress)
	// KeepRejected is how many rejected rows the report names; all are counted.
	// Default: DefaultKeep.
	KeepRejected int
	// MaxRows, MaxLine (bytes), MaxBytes (after decompression) and MaxRatio
	// (bytes after decompression over bytes before, checked above 16 MiB) bound
	// hostile input. A longer line is a rejected row, all else is ErrLimit.
	// Defaults: the constants above.
	MaxRows  int
	MaxLine  int
	MaxBytes int64
	MaxRatio int
}

func (o ReadOptions) withDefaults() ReadOptions {
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.KeepRejected <= 0 {
		o.KeepRejected = DefaultKeep
	}
	if o.MaxRows <= 0 {
		o.MaxRows = DefaultMaxRows
	}
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxRatio <= 0 {
		o.MaxRatio = DefaultMaxRatio
	}
	return o
}

// Progress is how far the reading of a trace is.
type Progress struct {
	Bytes int64 // read from the file, before decompression
	Total int64 // size of the file; 0 if unknown
	Rows  int   // rows seen
}

// Open reads a trace file, plain or gzip. The path "sample" is the small trace
// built into the program (Sample); write ./sample for a file of that name. "-"
// is standard input. The report is nil only if nothing could be read.
func Open(path string, opts ReadOptions) (*Workload, *ImportReport, error) {
	switch path {
	case SampleName:
		return readSample(opts)
	case "-":
		return Read(os.Stdin, "stdin", opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	var size int64
	if info, err := f.Stat(); err == nil {
		if info.IsDir() {
			return nil, nil, fmt.Errorf("trace: %s: is a folder", path)
		}
		size = info.Size()
	}
	return read(f, filepath.Base(path), size, opts)
}

// Read reads a trace, plain or gzip, in any known format (Formats). name is the
// workload's name and the file of the report. The error says what is wrong and
// where; the report tells what was read until then.
func Read(r io.Reader, name string, opts ReadOptions) (*Workload, *ImportReport, error) {
	return read(r, name, 0, opts)
}

func read(r io.Reader, name string, size int64, opts ReadOptions) (*Workload, *ImportReport, error) {
	opts = opts.withDefaults()
	in := &input{opts: opts, report: &ImportReport{File: name}, texts: map[string]string{}, ids: map[string]struct{}{}}
	w, err := in.run(r, size)
	in.report.Jobs = len(in.jobs)
	if in.source != nil {
		in.report.Bytes = in.source.out
		in.progress()
	}
	if err != nil {
		return nil, in.report, fmt.Errorf("trace %s: %w", name, err)
	}
	return w, in.report, nil
}

// input is what a format reads from: bounded lines in; jobs and rejections out.
type input struct {
	opts   ReadOptions
	report *ImportReport
	source *source

	jobs  []Job
	ids   map[string]struct{}
	texts map[string]string // equal texts share memory
	last  time.Duration

	line      int // number of the line last read, from 1
	zero      time.Time
	hasZero   bool // the trace names its zero; submissions count from it
	wallClock bool // submissions count from the Unix epoch until they are rebased
	hasKeys   bool // the trace names users or keys
	synthetic bool
}

func (in *input) run(r io.Reader, size int64) (*Workload, error) {
	var err error
	if in.source, err = newSource(r, size, in.opts); err != nil {
		return nil, err
	}
	in.source.progress = in.progress
	in.report.Compressed = in.source.zipped
	f, err := in.format()
	if err != nil {
		return nil, err
	}
	in.report.Format = f.Name
	if err := f.read(in); err != nil {
		return nil, err
	}
	if len(in.jobs) == 0 {
		if len(in.report.First) > 0 {
			return nil, fmt.Errorf("%w: all %d rows were rejected, first %s", ErrNoJobs, in.report.Rejected, in.report.First[0])
		}
		return nil, fmt.Errorf("%w: there is no row below the header", ErrNoJobs)
	}
	if in.opts.Strict && in.report.Rejected > 0 {
		return nil, fmt.Errorf("%w: %d of %d, first %s", ErrRejected, in.report.Rejected, in.report.Rows, in.report.First[0])
	}
	return in.finish(), nil
}

// finish sorts, finds the zero and gives keys to a trace that has none.
func (in *input) finish() *Workload {
	sortBySubmit(in.jobs)
	zero := in.zero
	if in.wallClock {
		first := time.Unix(0, int64(in.jobs[0].Submit)).UTC()
		zero = first.Truncate(24 * time.Hour)
		shift := time.Duration(zero.UnixNano())
		for i := range in.jobs {
			in.jobs[i].Submit -= shift
			if d := &in.jobs[i].Deadline; *d != 0 {
				*d = deadlineAt(*d - shift)
			}
		}
	}
	if !in.hasKeys {
		assignKeys(in.jobs, zero)
	}
	in.report.Synthetic = in.synthetic
	in.report.Zero = zero
	return newSorted(in.report.File, zero, in.jobs, in.synthetic)
}

// format is the one asked for, or the one that recognises the first lines.
func (in *input) format() (*Format, error) {
	if in.opts.Format != "" {
		f := formatNamed(in.opts.Format)
		if f == nil {
			return nil, fmt.Errorf("%w: no format is called %q; known are %s", ErrFormat, in.opts.Format, formatNames())
		}
		return f, nil
	}
	head, err := in.source.peek()
	if err != nil {
		return nil, err
	}
	if len(head) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	for i := range Formats {
		if Formats[i].detect(head) {
			return &Formats[i], nil
		}
	}
	var want strings.Builder
	for _, f := range Formats {
		fmt.Fprintf(&want, "\n  %s: %s", f.Name, f.Header)
	}
	return nil, fmt.Errorf("%w: it begins with %s; a trace has one of these headers:%s", ErrFormat, excerpt(headerLine(head)), want.String())
}

// next returns the next line without its end, nil at the end of the input. It
// is valid until the next call. Lines that are too long are rejected here.
func (in *input) next() ([]byte, error) {
	for {
		line, long, err := in.source.line()
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
		if err := in.row(); err != nil {
			return nil, err
		}
		in.reject("line", "is longer than the limit", line)
	}
}

// row counts a row of data, used or not.
func (in *input) row() error {
	if in.report.Rows >= in.opts.MaxRows {
		return fmt.Errorf("line %d: %w: more than %d rows", in.line, ErrLimit, in.opts.MaxRows)
	}
	in.report.Rows++
	return nil
}

func (in *input) reject(field, reason string, value []byte) {
	in.report.reject(Rejection{File: in.report.File, Line: in.line, Field: field, Reason: reason, Value: excerpt(value)}, in.opts.KeepRejected)
}

// add takes a job whose fields were checked one by one.
func (in *input) add(j Job, idField string) {
	if _, dup := in.ids[j.ID]; dup {
		in.reject(idField, "repeats the id of an earlier row", []byte(j.ID))
		return
	}
	if float64(j.Duration)*float64(j.GPUs.Whole()) > maxGPUTime {
		in.reject("duration_s", "is more GPU-time than can be counted", []byte(j.Duration.String()))
		return
	}
	in.ids[j.ID] = struct{}{}
	if j.Submit < in.last && len(in.jobs) > 0 {
		in.report.Unsorted++
	}
	in.last = j.Submit
	in.jobs = append(in.jobs, j)
}

func (in *input) progress() {
	if in.opts.Progress != nil {
		in.opts.Progress(Progress{Bytes: in.source.raw.n, Total: in.source.size, Rows: in.report.Rows})
	}
}

// text shares the memory of equal texts: users, tenants and models recur.
func (in *input) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	in.texts[s] = s
	return s
}

func sortBySubmit(jobs []Job) {
	bySubmit := func(a, b int) bool { return jobs[a].Submit < jobs[b].Submit }
	if !sort.SliceIsSorted(jobs, bySubmit) {
		sort.SliceStable(jobs, bySubmit)
	}
}

// maxGPUTime bounds the GPU-time of one job, in nanoseconds: sums of a few must
// fit an int64.
const maxGPUTime = math.MaxInt64 / 4
