package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// newTraceCmd is "autosched trace": what can be done with a trace alone.
func newTraceCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Fetch, import, describe, cut, check and synthesise traces",
		Long: `A trace says which jobs were submitted to a cluster: when, how many GPUs each
asked for, and how long it ran. These commands read traces in any known format,
plain, gzip or zstd, and write the project's own CSV.

Formats, recognised by their content:
` + formatList() + `
A trace of several files is named with commas between them
(jobs.csv,tasks.csv), or by the folder that holds them; what is no trace in a
folder is left out. Files may be tables that belong together, as those of PAI
2020, logs of one month each, or a list of the cluster's machines.

The name "sample" stands for a small built-in synthetic trace, "-" for standard
input.`,
		Example: `  autosched trace stats sample
  autosched trace import jobs.csv.gz --out jobs.autosched.csv.gz
  autosched trace synth --days 14 --load 1.2 --nodes 70 --gpus-per-node 8 --out philly-like.csv.gz`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(newTraceFetchCmd(), newTraceImportCmd(), newTraceStatsCmd(), newTraceSynthCmd(), newTraceValidateCmd(), newTraceWindowCmd())
	return cmd
}

func formatList() string {
	var b strings.Builder
	for _, f := range trace.Formats {
		name := f.Name
		for _, line := range wrap(f.About, 66) {
			fmt.Fprintf(&b, "  %-12s%s\n", name, line)
			name = ""
		}
	}
	return b.String()
}

// wrap breaks a text at blanks into lines of at most so many bytes, if its words
// allow.
func wrap(text string, most int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > most {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// traceInput are the options of every command that reads a trace.
type traceInput struct {
	trace   string
	format  string
	strict  bool
	show    int
	maxRows int
	json    bool
}

func (o *traceInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "format to read instead of the one the content says: one of "+formatNames())
	f.BoolVar(&o.strict, "strict", false, "fail at the first row that must be rejected (default: reject it, count it, go on)")
	f.IntVar(&o.show, "show", trace.DefaultKeep, "name at most this many rejected rows; all are counted")
	f.IntVar(&o.maxRows, "max-rows", trace.DefaultMaxRows, "refuse a trace of more rows")
	f.BoolVar(&o.json, "json", false, "print JSON for programs")
	f.StringVar(&o.trace, "trace", "", "the trace, instead of naming it as the argument: a file, files with commas between, or a folder")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usageError{fmt.Errorf("trace %s: takes one trace, not %d", cmd.Name(), len(args))}
		case len(args) == 1 && o.trace != "":
			return usageError{fmt.Errorf("trace %s: --trace and the argument %q both name a trace", cmd.Name(), args[0])}
		case len(args) == 1:
			o.trace = args[0]
		case o.trace == "":
			return usageError{fmt.Errorf(`trace %s: name a trace file, or "sample"`, cmd.Name())}
		}
		return nil
	}
}

func formatNames() string {
	names := make([]string, len(trace.Formats))
	for i, f := range trace.Formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// open reads a trace, showing progress on a terminal, and tells of rejected
// rows and of a synthetic trace on standard error.
func (o *traceInput) open(cmd *cobra.Command) (*workload.Workload, *trace.Report, error) {
	w, report, err := o.read(cmd)
	if err != nil {
		return nil, report, err
	}
	notices := cmd.ErrOrStderr()
	if report.Rejected > 0 {
		printRejections(notices, report)
	}
	if report.LeftOut > 0 {
		fmt.Fprintf(notices, "note: %d jobs were left out: %s\n", report.LeftOut, leftOut(report))
	}
	if len(report.Ignored) > 0 {
		fmt.Fprintf(notices, "note: not read: %s\n", strings.Join(report.Ignored, ", "))
	}
	if report.Unsorted > 0 {
		fmt.Fprintf(notices, "note: %d of %d jobs were out of order and have been sorted by submission\n", report.Unsorted, report.Jobs)
	}
	if w.Synthetic() {
		fmt.Fprintf(notices, "note: %s is synthetic\n", report.File)
	}
	return w, report, nil
}

func (o *traceInput) read(cmd *cobra.Command) (*workload.Workload, *trace.Report, error) {
	if o.show < 1 || o.maxRows < 1 {
		return nil, nil, usageError{errors.New("--show and --max-rows: must be positive")}
	}
	if o.format != "" && !slices.ContainsFunc(trace.Formats, func(f trace.Format) bool { return f.Name == o.format }) {
		return nil, nil, usageError{fmt.Errorf("--format: %q is not known; see autosched trace --help", o.format)}
	}
	opts := trace.Options{Context: cmd.Context(), Format: o.format, Strict: o.strict, KeepRejected: o.show, MaxRows: o.maxRows}
	path := o.trace
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.clear()
	opts.Progress = line.reading(path)
	if path == "-" {
		return trace.Read(cmd.InOrStdin(), "stdin", opts)
	}
	return trace.Open(path, opts)
}

func newTraceValidateCmd() *cobra.Command {
	var o traceInput
	cmd := &cobra.Command{
		Use:   "validate TRACE",
		Short: "Check every row of a trace",
		Long: `Validate reads a trace and tells what its rows are like. It exits with 1 if a
row had to be rejected, naming the first of them: line, field, value, reason.`,
		Example: `  autosched trace validate jobs.csv.gz
  autosched trace validate jobs.csv --show 100 --json | jq .reasons`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, report, err := o.read(cmd)
			if report == nil {
				return err
			}
			if o.json {
				if err := printJSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
			} else {
				printReport(cmd.OutOrStdout(), report)
			}
			if err == nil && report.Rejected > 0 {
				err = fmt.Errorf("trace %s: %d of %d rows rejected, first %s", report.File, report.Rejected, report.Rows, report.First[0])
			}
			return err
		},
	}
	o.flags(cmd)
	return cmd
}

func newTraceWindowCmd() *cobra.Command {
	var o struct {
		traceInput
		traceWindow
		out string
	}
	cmd := &cobra.Command{
		Use:   "window TRACE --from INSTANT --to INSTANT",
		Short: "Cut the jobs submitted in an interval out of a trace",
		Long: `Window writes the jobs submitted from --from (included) until --to (excluded),
on the zero of the whole trace. An instant is an RFC 3339 time, a date (midnight
UTC), seconds since the trace's zero, or a span since it such as 36h. The zero is
midnight UTC of the day of the first submission, or 1970-01-01 for traces in
seconds; trace stats shows it.

A window begins with an empty cluster: jobs that were running before are not in
it.`,
		Example: `  autosched trace window jobs.csv.gz --from 2017-10-02 --to 2017-10-09 --out week.csv.gz
  autosched trace window sample --from 24h --to 48h | autosched trace stats -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.json && o.out == "-" {
				return usageError{errors.New("trace window: --json needs --out FILE: standard output holds the trace")}
			}
			w, _, err := o.open(cmd)
			if err != nil {
				return err
			}
			if w, err = o.cut(w); err != nil {
				return err
			}
			if err := writeTrace(cmd, o.out, w); err != nil {
				return err
			}
			return o.wrote(cmd, o.out, w)
		},
	}
	o.traceInput.flags(cmd)
	o.traceWindow.flags(cmd)
	cmd.Flags().StringVarP(&o.out, "out", "o", "-", "file to write, compressed if it ends in .gz or .zst, - for standard output")
	return cmd
}

// traceWindow is the part of a trace that counts.
type traceWindow struct {
	from, to string
}

func (o *traceWindow) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.from, "from", "", "first instant of the window (default: the first submission)")
	cmd.Flags().StringVar(&o.to, "to", "", "instant after the window (default: after the last submission)")
}

func (o *traceWindow) cut(w *workload.Workload) (*workload.Workload, error) {
	first, last := w.Span()
	from, to := first, last+1
	var err error
	if o.from != "" {
		if from, err = trace.ParseInstant(w, o.from); err != nil {
			return nil, usageError{fmt.Errorf("--from: %w", err)}
		}
	}
	if o.to != "" {
		if to, err = trace.ParseInstant(w, o.to); err != nil {
			return nil, usageError{fmt.Errorf("--to: %w", err)}
		}
	}
	if to <= from {
		return nil, usageError{fmt.Errorf("--to: %s is not after --from %s", w.Clock(to).Format(time.RFC3339), w.Clock(from).Format(time.RFC3339))}
	}
	cut := w.Window(from, to)
	if cut.Len() == 0 {
		return nil, fmt.Errorf("trace %s: no job was submitted from %s to %s; the trace goes from %s to %s", w.Name(),
			w.Clock(from).Format(time.RFC3339), w.Clock(to).Format(time.RFC3339), w.Clock(first).Format(time.RFC3339), w.Clock(last).Format(time.RFC3339))
	}
	return cut, nil
}

// wrote tells what trace was written: on standard error if standard output
// holds it.
func (o *traceInput) wrote(cmd *cobra.Command, out string, w *workload.Workload) error {
	to := cmd.OutOrStdout()
	if out == "-" {
		to = cmd.ErrOrStderr()
	}
	first, last := w.Span()
	if o.json {
		return printJSON(to, struct {
			Out       string    `json:"out"`
			Jobs      int       `json:"jobs"`
			First     time.Time `json:"first"`
			Last      time.Time `json:"last"`
			Synthetic bool      `json:"synthetic"`
			Digest    string    `json:"digest"`
		}{out, w.Len(), w.Clock(first), w.Clock(last), w.Synthetic(), w.Digest()})
	}
	label := ""
	if w.Synthetic() {
		label = " (synthetic)"
	}
	fmt.Fprintf(to, "%s: %d jobs%s, submitted from %s to %s, digest %.12s\n", out, w.Len(), label,
		w.Clock(first).Format(time.RFC3339), w.Clock(last).Format(time.RFC3339), w.Digest())
	return nil
}

// writeTrace writes the project's CSV: to a new file that replaces the old one
// when it is complete, or to standard output for "-".
func writeTrace(cmd *cobra.Command, path string, w *workload.Workload) error {
	write := func(out io.Writer) error { return trace.WriteCSV(untilDone{cmd.Context(), out}, w) }
	if path == "-" {
		return write(cmd.OutOrStdout())
	}
	return atomicfile.Write(path, write)
}

// untilDone is a writer that ends with its context.
type untilDone struct {
	ctx context.Context
	io.Writer
}

func (u untilDone) Write(b []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.Writer.Write(b)
}

// rejectionsThen names the rejected rows of a trace that could not be read.
func rejectionsThen(cmd *cobra.Command, report *trace.Report, err error) error {
	if report != nil && report.Rejected > 0 {
		printRejections(cmd.ErrOrStderr(), report)
	}
	return err
}

func printReport(w io.Writer, r *trace.Report) {
	b := bufio.NewWriter(w)
	defer b.Flush()
	name := r.Format
	if name == "" {
		name = "unknown"
	}
	if r.Compression != "" {
		name += ", " + r.Compression
	}
	if r.Synthetic {
		name += ", synthetic"
	}
	fmt.Fprintf(b, "trace       %s (%s)\n", r.File, name)
	if len(r.Files) > 0 {
		fmt.Fprintf(b, "files       %s\n", strings.Join(r.Files, ", "))
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(b, "not read    %s\n", strings.Join(r.Ignored, ", "))
	}
	fmt.Fprintf(b, "rows        %d\njobs        %d\nrejected    %d\n", r.Rows, r.Jobs, r.Rejected)
	if r.LeftOut > 0 {
		fmt.Fprintf(b, "left out    %d jobs: %s\n", r.LeftOut, leftOut(r))
	}
	if r.Merged > 0 {
		fmt.Fprintf(b, "merged      %d rows that tell more of another row's job or of machines\n", r.Merged)
	}
	for _, m := range r.Machines {
		fmt.Fprintf(b, "machines    %d x %d GPUs %s\n", m.Nodes, m.GPUsPerNode, m.GPUModel)
	}
	if r.Unsorted > 0 {
		fmt.Fprintf(b, "unsorted    %d, now sorted by submission\n", r.Unsorted)
	}
	if r.Rejected > 0 {
		printRejections(b, r)
	}
}

// leftOut tells why jobs without fault are not used.
func leftOut(r *trace.Report) string {
	var b strings.Builder
	for i, c := range r.LeftOutReasons {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d because %s", c.Jobs, c.Reason)
	}
	return b.String()
}

func printRejections(w io.Writer, r *trace.Report) {
	fmt.Fprintf(w, "%d of %d rows rejected:\n", r.Rejected, r.Rows)
	for _, c := range r.Reasons {
		fmt.Fprintf(w, "  %6d x %s %s\n", c.Rows, c.Field, c.Reason)
	}
	for _, x := range r.First {
		fmt.Fprintf(w, "  %s\n", x)
	}
	if n := r.Rejected - len(r.First); n > 0 {
		fmt.Fprintf(w, "  ... and %d more (--show)\n", n)
	}
}
