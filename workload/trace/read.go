package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// Errors a reader can end with. The error returned wraps one of them and says
// where and why.
var (
	// ErrFormat is for input that is no trace in a known format.
	ErrFormat = errors.New("not a trace in a known format")
	// ErrNoJobs is for a trace of which no row could be used.
	ErrNoJobs = errors.New("no usable job")
	// ErrRejected is for a rejected row where Options.Strict forbids it.
	ErrRejected = errors.New("rejected row")
	// ErrLimit is for input beyond one of the limits of Options.
	ErrLimit = lines.ErrLimit
)

// Defaults of Options. The largest public trace is PAI 2020 with 7.5 million
// instances; Philly's has 117,325 jobs. Lines of public job tables stay below
// 1 KiB, and their gzip ratio below 20; gzip can reach 1032, zstd more.
const (
	DefaultMaxRows  = 20_000_000
	DefaultMaxLine  = 64 << 10
	DefaultMaxBytes = 16 << 30
	DefaultMaxRatio = 200
	DefaultKeep     = 20
)

// Options says how to read a trace. The zero value is good for any trace.
type Options struct {
	// Format is the name of the format to read, as in Formats. Default: as the
	// content says.
	Format string
	// Strict makes the first rejected row an error (ErrRejected). Default: rows
	// are rejected, counted and named in the report.
	Strict bool
	// Shards is how many shards a GPU has (Slurm's gres/shard), where a trace counts in
	// them. Default: rows that do are rejected.
	Shards int
	// GPUsPerProc is how many GPUs go with a processor, where a trace counts in processors (swf). Default: one.
	GPUsPerProc float64
	// RequeueRestarts says that a job that Slurm requeued lost its progress: its run
	// time is that of its last start. Default: its starts add up.
	RequeueRestarts bool
	// Columns map the columns of a table of no known format; its header is then not looked at for
	// one. Of Slurm's they may say which one is the tenant.
	Columns Columns
	// Zone is the zone whose clock a trace shows where it names none (Philly, Helios,
	// Slurm). Default: the clock is kept and labelled UTC.
	Zone *time.Location
	// Progress gets how far the reading is, about once a MiB and at the end.
	Progress func(Progress)
	// Events gets each event of a log of events (the format "events"), in its order, with times since the Unix
	// epoch. It may be nil.
	Events func(*workload.Event)
	// KeepRejected is how many rejected rows the report names; all are counted.
	// Default: DefaultKeep.
	KeepRejected int
	// MaxRows, MaxLine (bytes), MaxBytes (after decompression) and MaxRatio
	// (bytes after decompression over bytes before, checked above 16 MiB) bound
	// hostile input; MaxRows and MaxBytes count over all files of a trace. A
	// longer line, or a JSON job longer than 64 lines, is a rejected row, all
	// else is ErrLimit. Defaults: the constants above.
	MaxRows int
	// MaxJobs, if set, bounds the jobs that are taken. It is seen at the next row, and at the end
	// in formats whose jobs have several rows.
	MaxJobs  int
	MaxLine  int
	MaxBytes int64
	MaxRatio int
}

func (o Options) withDefaults() Options {
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
	Bytes int64 // read from the files, before decompression
	Total int64 // size of the files; 0 if unknown
	Rows  int   // rows seen
}

// Open reads a trace, plain, gzip or zstd. path is a file, several files with
// commas between them, or a folder, of which every file of a known format is
// read: some traces come as several tables, and logs in one file per month. The
// paths "sample" and "sample-shifts" are traces built into the program; write
// ./sample for a file of that name. "-" is standard input. The report is nil
// only if nothing could be read.
func Open(ctx context.Context, path string, opts Options) (*workload.Workload, *Report, error) {
	if b := findBuiltIn(path); b != nil {
		return b.read(ctx, opts)
	}
	if path == "-" {
		return Read(ctx, os.Stdin, "stdin", opts)
	}
	t, err := locate(path)
	if err != nil {
		return nil, nil, fmt.Errorf("trace: %w", err)
	}
	return read(ctx, t, opts)
}

// Read reads a trace of one file, plain, gzip or zstd, in any known format
// (Formats). name is the workload's name and the file of the report. The error
// names the fault and its place; the report covers the rows until then.
func Read(ctx context.Context, r io.Reader, name string, opts Options) (*workload.Workload, *Report, error) {
	return read(ctx, oneFile(r, name, 0), opts)
}

// Check is Open for the report alone: it keeps no jobs, and so needs a tenth of the
// memory. r stands for standard input.
func Check(ctx context.Context, path string, r io.Reader, opts Options) (*Report, error) {
	t, err := oneFile(r, "stdin", 0), error(nil)
	if b := findBuiltIn(path); b != nil {
		_, report, err := b.read(ctx, opts)
		return report, err
	}
	if path != "-" {
		if t, err = locate(path); err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
	}
	in := newInput(t, opts.withDefaults())
	in.check = true
	_, report, err := in.trace(ctx, t)
	return report, err
}

func read(ctx context.Context, t traceFiles, opts Options) (*workload.Workload, *Report, error) {
	return newInput(t, opts.withDefaults()).trace(ctx, t)
}

// trace reads the files and completes the report.
func (in *input) trace(ctx context.Context, t traceFiles) (*workload.Workload, *Report, error) {
	w, err := in.run(ctx, t)
	if err == nil {
		err = in.manyJobs()
	}
	in.report.Jobs = in.taken
	in.report.Bytes = in.out
	if in.source != nil {
		in.report.Bytes += in.source.Out()
		in.progress()
	}
	if err != nil {
		return nil, in.report, fmt.Errorf("trace %s: %w", t.name, err)
	}
	return w, in.report, nil
}
