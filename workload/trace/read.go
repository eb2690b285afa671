// Package trace reads the traces that clusters publish or log, in any of
// Formats, and writes the project's own. Open takes files, folders and standard
// input, plain or compressed, and accounts for every row. Anonymize
// and Shift make a trace fit to be given away.
//
// A format reads rows into an input, which counts and checks them; most formats
// are tables of columns. Hostile input is bounded by the limits of Options.
package trace

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	o.KeepRejected, o.MaxRows = cmp.Or(max(0, o.KeepRejected), DefaultKeep), cmp.Or(max(0, o.MaxRows), DefaultMaxRows)
	o.MaxLine, o.MaxBytes = cmp.Or(max(0, o.MaxLine), DefaultMaxLine), cmp.Or(max(0, o.MaxBytes), DefaultMaxBytes)
	o.MaxRatio = cmp.Or(max(0, o.MaxRatio), DefaultMaxRatio)
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

// traceFiles are the files of one trace.
type traceFiles struct {
	name   string // of the workload
	files  []traceFile
	folder bool // files of no known format are left out
}

type traceFile struct {
	name string // as the report shows it
	size int64  // 0 if unknown
	open func() (io.ReadCloser, error)
}

// maxFiles bounds a folder taken for a trace by mistake.
const maxFiles = 1000

func oneFile(r io.Reader, name string, size int64) traceFiles {
	return traceFiles{name: name, files: []traceFile{{name: name, size: size, open: func() (io.ReadCloser, error) {
		return io.NopCloser(r), nil
	}}}}
}

// locate finds the files that a path stands for: see Open. A file whose name
// has a comma comes before a list.
func locate(path string) (traceFiles, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return locateFolder(path)
	case err == nil:
		return traceFiles{name: filepath.Base(path), files: []traceFile{fileAt(path, filepath.Base(path), info)}}, nil
	case errors.Is(err, fs.ErrNotExist) && path == filepath.Base(path) && !strings.Contains(path, ","):
		return traceFiles{}, fmt.Errorf("%w; traces that need no file: %s", err, strings.Join(builtInNames(), ", "))
	case !errors.Is(err, fs.ErrNotExist) || !strings.Contains(path, ","):
		return traceFiles{}, err
	}
	var t traceFiles
	names := map[string]bool{}
	for p := range strings.SplitSeq(path, ",") {
		p = strings.TrimSpace(p)
		if p == "" {
			return traceFiles{}, fmt.Errorf("%q: a file name is missing between commas", path)
		}
		info, err := os.Stat(p)
		if err != nil {
			return traceFiles{}, err
		}
		if info.IsDir() {
			return traceFiles{}, fmt.Errorf("%s: is a folder: name files, or this folder alone", p)
		}
		name := filepath.Base(p)
		if names[name] {
			name = p
		}
		names[name] = true
		t.files = append(t.files, fileAt(p, name, info))
		if len(t.files) > maxFiles {
			return traceFiles{}, fmt.Errorf("%q: more than %d files", path, maxFiles)
		}
	}
	t.name = t.files[0].name
	if n := len(t.files) - 1; n > 0 {
		t.name += fmt.Sprintf("+%d", n)
	}
	return t, nil
}

func locateFolder(path string) (traceFiles, error) {
	entries, err := os.ReadDir(path) // in order of name
	if err != nil {
		return traceFiles{}, err
	}
	t := traceFiles{folder: true}
	if abs, err := filepath.Abs(path); err == nil {
		t.name = filepath.Base(abs)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(path, e.Name())) // follows links
		// PAI's .header files name the columns of the tables beside them.
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") ||
			strings.HasSuffix(e.Name(), ".header") {
			continue
		}
		t.files = append(t.files, fileAt(filepath.Join(path, e.Name()), e.Name(), info))
		if len(t.files) > maxFiles {
			return traceFiles{},
				fmt.Errorf("%s: the folder holds more than %d files: name those of the trace, with commas between them",
					path, maxFiles)
		}
	}
	if len(t.files) == 0 {
		return traceFiles{}, fmt.Errorf("%s: the folder holds no file", path)
	}
	return t, nil
}

func fileAt(path, name string, info fs.FileInfo) traceFile {
	f := traceFile{name: name, open: func() (io.ReadCloser, error) { return os.Open(path) }}
	if info.Mode().IsRegular() {
		f.size = info.Size()
	}
	return f
}

// The paths under which Open finds the built-in traces. Both are synthetic: good for a
// first look and for tests, not for conclusions.
const (
	// SampleName is three contended days (offered load about 1.4) from Monday 2017-10-09,
	// made by synth.Generate after the Philly profile.
	SampleName = "sample"
	// ShiftsName is a calm week from Monday 2017-10-09 and four days of another shape, by
	// the recipe of that name in examples/scenarios.json.
	ShiftsName = "sample-shifts"
)

// BuiltIn is a trace that is part of the program.
type BuiltIn struct {
	Name, About string
	file        []byte // compressed CSV
	nodes       workload.NodeGroup
}

var (
	//go:embed sample/philly-like.csv.gz
	sampleFile []byte
	//go:embed sample/shifts.csv.gz
	shiftsFile []byte

	builtIn = []BuiltIn{
		{SampleName, "three days whose shape stays", sampleFile, workload.NodeGroup{Nodes: 20, GPUsPerNode: 8}},
		{ShiftsName, "eleven days whose shape changes after a week", shiftsFile,
			workload.NodeGroup{Nodes: 20, GPUsPerNode: 8}},
	}
)

// BuiltIns returns the built-in traces.
func BuiltIns() []BuiltIn { return slices.Clone(builtIn) }

func builtInNames() (out []string) {
	for _, b := range builtIn {
		out = append(out, b.Name)
	}
	return out
}

func findBuiltIn(path string) *BuiltIn {
	if i := slices.IndexFunc(builtIn, func(b BuiltIn) bool { return b.Name == path }); i >= 0 {
		return &builtIn[i]
	}
	return nil
}

func (b *BuiltIn) read(ctx context.Context, opts Options) (*workload.Workload, *Report, error) {
	w, r, err := read(ctx, oneFile(bytes.NewReader(b.file), b.Name, int64(len(b.file))), opts)
	r.Machines, r.Declared = []workload.NodeGroup{b.nodes}, true
	return w, r, err
}
