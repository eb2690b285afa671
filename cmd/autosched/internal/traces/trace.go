// Package traces has the commands about traces and telemetry.
package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

func newTraceCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Fetch, import, export, describe, cut, check and synthesise traces",
		Long: `A trace lists the jobs submitted to a cluster: submission, requested GPUs and run
time. These commands read traces in any known format, plain, gzip or zstd, and
write AutoSched's own CSV.

Formats, recognised by their content:
` + formatList() + `
A table of any other format is read with --columns submit=created,gpus=n_gpu,...:
FIELD=COLUMN for each field that it has. Fields:
` + fieldList() + `
A number may have a unit (duration=run_ms:ms): of instants and spans s, ms, us, ns,
min, h, d; of GPUs and CPUs percent, milli; of memory B, KiB, MiB, GiB. Instants are
times of day, or numbers since 1970: seconds, or finer ones if they have 12 digits
or more.

A trace of several files is named with commas between them
(jobs.csv,tasks.csv), or by the folder that holds them; other files of a folder
are ignored. Files may be related tables, as those of PAI 2020, logs of one month
each, or a list of the cluster's machines.

"sample" and "sample-shifts" are small built-in synthetic traces, the second of which
changes its shape after a week; "-" is standard input.`,
		Example: `  autosched trace stats sample
  autosched trace import jobs.csv.gz --out jobs.autosched.csv.gz
  autosched trace synth --days 14 --load 1.2 --nodes 70 --gpus-per-node 8 --out philly-like.csv.gz`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Usage(err) })
	cmd.AddCommand(newTraceExportCmd(), newTraceFetchCmd(), newTraceImportCmd(), newTraceStatsCmd(),
		newTraceSynthCmd(), newTraceValidateCmd(), newTraceWindowCmd())
	return cmd
}

func formatList() string {
	var b strings.Builder
	for _, f := range trace.Formats {
		name := f.Name
		for _, line := range table.Wrap(f.About, 66) {
			fmt.Fprintf(&b, "  %-12s%s\n", name, line)
			name = ""
		}
	}
	return b.String()
}

func fieldList() string {
	var b strings.Builder
	for _, f := range trace.ColumnFields {
		fmt.Fprintf(&b, "  %-12s%s\n", f.Name, f.About)
	}
	return b.String()
}

// traceInput are the flags of a command that reads the trace that its argument
// names.
type traceInput struct {
	trace   string
	format  string
	strict  bool
	show    int
	maxRows int
	json    bool
	how     cli.ReadFlags

	stdin io.Reader // of the command
}

func (o *traceInput) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "")
	f.BoolVar(&o.strict, "strict", false, "fail at the first faulty row (default: reject and count it, and continue)")
	f.IntVar(&o.show, "show", trace.DefaultKeep, "")
	f.IntVar(&o.maxRows, "max-rows", trace.DefaultMaxRows, "refuse a trace of more rows")
	f.BoolVar(&o.json, "json", false, "")
	f.StringVar(&o.trace, "trace", "", "")
	o.how.Add(cmd)
	cmd.Args = o.parse
}

// parse takes the trace from the arguments.
func (o *traceInput) parse(cmd *cobra.Command, args []string) error {
	o.stdin = cmd.InOrStdin()
	switch {
	case len(args) > 1:
		return cli.Usage(fmt.Errorf("trace %s: takes one trace, not %d", cmd.Name(), len(args)))
	case len(args) == 1 && o.trace != "":
		return cli.Usage(fmt.Errorf("trace %s: --trace and the argument %q both name a trace", cmd.Name(), args[0]))
	case len(args) == 1:
		o.trace = args[0]
	case o.trace == "":
		return cli.Usage(fmt.Errorf(`trace %s: name a trace file, "sample" or "sample-shifts"`, cmd.Name()))
	}
	return nil
}

func (o *traceInput) check() error {
	if o.show < 1 || o.maxRows < 1 {
		return cli.Usage(errors.New("--show and --max-rows: must be positive"))
	}
	known := func(f trace.Format) bool { return f.Name == o.format }
	if o.format != "" && !slices.ContainsFunc(trace.Formats, known) {
		return cli.Usage(fmt.Errorf("--format: %q is not known; see autosched trace --help", o.format))
	}
	return o.how.Apply(&trace.Options{})
}

// open reads the trace, and notes rejected rows and that it is synthetic.
func (o *traceInput) open(ctx context.Context, notes io.Writer) (*workload.Workload, *trace.Report, error) {
	w, report, err := o.read(ctx, notes)
	if err != nil {
		return nil, report, err
	}
	if report.Rejected > 0 {
		printRejections(notes, report)
	}
	if report.LeftOut > 0 {
		fmt.Fprintf(notes, "note: %d jobs were left out: %s\n", report.LeftOut, leftOut(report))
	}
	if len(report.Ignored) > 0 {
		fmt.Fprintf(notes, "note: not read: %s\n", strings.Join(report.Ignored, ", "))
	}
	if report.Unsorted > 0 {
		fmt.Fprintf(notes, "note: %d of %d jobs were out of order and have been sorted by submission\n",
			report.Unsorted,
			report.Jobs)
	}
	if w.Synthetic() {
		fmt.Fprintf(notes, "note: %s is synthetic\n", report.File)
	}
	return w, report, nil
}

// read reads the trace. The report is nil if nothing of it could be read.
func (o *traceInput) read(ctx context.Context, notes io.Writer) (w *workload.Workload, r *trace.Report, err error) {
	err = o.with(ctx, notes, func(opts trace.Options) (*trace.Report, error) {
		if o.trace == "-" {
			w, r, err = trace.Read(ctx, o.stdin, "stdin", opts)
		} else {
			w, r, err = trace.Open(ctx, o.trace, opts)
		}
		return r, err
	})
	return w, r, err
}

// report is read for the report alone.
func (o *traceInput) report(ctx context.Context, notes io.Writer) (r *trace.Report, err error) {
	err = o.with(ctx, notes, func(opts trace.Options) (*trace.Report, error) {
		r, err = trace.Check(ctx, o.trace, o.stdin, opts)
		return r, err
	})
	return r, err
}

// with reads with the options that the flags give.
func (o *traceInput) with(ctx context.Context, notes io.Writer,
	read func(trace.Options) (*trace.Report, error)) error {
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	opts := trace.Options{
		Format: o.format, Strict: o.strict, KeepRejected: o.show, MaxRows: o.maxRows,
		Progress: line.Reading(o.trace),
	}
	if err := o.how.Apply(&opts); err != nil {
		return err
	}
	r, err := read(opts)
	if err == nil {
		line.Clear()
		o.how.Note(notes, r)
	}
	return err
}

// checkOut refuses --json where standard output holds the trace.
func checkOut(command, out string, asJSON bool) error {
	if asJSON && out == "-" {
		return cli.Usage(fmt.Errorf("trace %s: --json needs --out FILE: standard output holds the trace", command))
	}
	return nil
}

// writeTrace writes a trace as CSV with the nodes of its cluster, if they are known.
func writeTrace(cmd *cobra.Command, path string, w *workload.Workload, machines []workload.NodeGroup) error {
	return cli.WriteOutput(cmd, path, func(out io.Writer) error { return trace.WriteCSV(out, w, machines...) })
}

// writeAndShow writes a trace and reports on it.
func writeAndShow(cmd *cobra.Command, out string, asJSON bool, w *workload.Workload,
	machines []workload.NodeGroup) error {
	if err := writeTrace(cmd, out, w, machines); err != nil {
		return err
	}
	first, last := w.Span()
	r := &writtenTrace{out, w.Len(), w.Clock(first), w.Clock(last), w.Synthetic(), w.Digest()}
	return cli.Show(cli.ReportWriter(cmd, out), asJSON, "written-trace/v1", r, r.print)
}

// writtenTrace describes a trace that a command wrote.
type writtenTrace struct {
	Out       string    `json:"out"`
	Jobs      int       `json:"jobs"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Synthetic bool      `json:"synthetic"`
	Digest    string    `json:"digest"`
}

func (r *writtenTrace) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %d jobs%s, submitted from %s to %s, digest %.12s\n",
		r.Out, r.Jobs, cli.SyntheticLabel(r.Synthetic),
		r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339), r.Digest)
	return err
}

// readRecipe finds the recipe that FILE:NAME names.
func readRecipe(arg string) (*synth.Recipe, string, error) {
	path, name, err := cli.SplitFileName("recipe", arg)
	if err != nil {
		return nil, "", err
	}
	file, err := scenario.Read(path)
	if err != nil {
		return nil, "", fmt.Errorf("--recipe: %w", err)
	}
	r, err := file.Recipe(name)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--recipe: %w", err))
	}
	return r, name, nil
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newTraceCmd(), newTelemetryCmd()}
}
