package traces

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/telemetry"
)

func newTelemetryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "telemetry",
		Short: "Check and collect what GPUs, queues and training loops measure",
		Long: `Telemetry is what GPUs, queues and training loops measure: utilisation, memory,
power, errors; jobs that wait; the time of training steps. These commands read it
in any known format, plain, gzip or zstd.

Formats, recognised by their content:
` + telemetryFormats(),
		Example: `  autosched telemetry validate gpus.csv.zst
  curl -s node7:9400/metrics | autosched telemetry validate - --scrape-time 2026-01-05T12:00:00Z`,
	}
	cmd.AddCommand(newTelemetryCollectCmd(), newTelemetryValidateCmd(), newTelemetryImportCmd(), newTelemetryShowCmd(),
		newTelemetryFetchCmd(),
		newTelemetryExportCmd())
	return cmd
}

func telemetryFormats() string {
	var b strings.Builder
	for _, f := range telemetry.Formats() {
		name := f.Name
		for _, line := range cli.WrapText(f.About, 64) {
			fmt.Fprintf(&b, "  %-17s%s\n", name, line)
			name = ""
		}
	}
	return b.String()
}

// telemetryValidateOptions are the flags of telemetry validate.
type telemetryValidateOptions struct {
	files []string
	read  cli.TelemetryFlags
	out   string
	show  int
	json  bool
	stdin io.Reader
	notes io.Writer
}

func newTelemetryValidateCmd() *cobra.Command {
	var o telemetryValidateOptions
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check every row of telemetry, and describe it",
		Long: `Validate reads files of telemetry, "-" for standard input. It reports the rows, the
GPUs, the span, the period, which quantities were measured, and where samples are
missing. It exits with 1 if rows were rejected, and names the first of them, or if
nothing was read. Coverage is the share of the samples that a GPU of the period would
have between its first and its last; a gap is more than three periods without one.

--out writes the samples of GPUs as this project's CSV, which names nodes and times.
--metrics names a YAML file of a site's own metrics and labels, which come before the
known ones:
  metrics:
    site_gpu_busy: {is: utilization_percent, scale: 100}
    site_gpu_job: {is: job}
  labels:
    node: [machine]`,
		Example: `  autosched telemetry validate gpus.csv.zst queue.csv
  autosched telemetry validate nvidia-smi.log --node n7 --timezone Europe/Berlin --out n7.csv
  autosched telemetry validate GPU_UTIL.csv --json | jq '.files[0].coverage'`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.files = args; len(args) == 0 {
				return cli.Usage(errors.New("name the files, or - for standard input"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdin, o.notes = cmd.InOrStdin(), cmd.ErrOrStderr()
			if o.show < 1 {
				return cli.Usage(fmt.Errorf("--show: %d is not positive", o.show))
			}
			r, failed := o.run(cmd)
			if r == nil {
				return failed
			}
			print := func(w io.Writer) error { return printTelemetry(w, r) }
			if err := cli.Show(cli.ReportWriter(cmd, o.out), o.json, "telemetry-validation/v1", r, print); err != nil {
				return err
			}
			return failed
		},
	}
	f := cmd.Flags()
	o.read.Add(cmd)
	o.read.AddClock(cmd)
	f.StringVarP(&o.out, "out", "o", "", "write the samples of GPUs to this CSV file, - for standard output")
	f.IntVar(&o.show, "show", 20, "")
	f.BoolVar(&o.json, "json", false, "")
	return cmd
}

// telemetryValidation is the result of telemetry validate.
type telemetryValidation struct {
	Files []telemetryFile `json:"files"`
}

type telemetryFile struct {
	*telemetry.Stats
	*telemetry.Report
	From    string         `json:"from,omitempty"`
	To      string         `json:"to,omitempty"`
	Period  float64        `json:"period_s,omitempty"`
	Longest []telemetryGap `json:"longest_gaps,omitempty"`
}

type telemetryGap struct {
	Of      string  `json:"of"`
	From    string  `json:"from"`
	Seconds float64 `json:"seconds"`
}

// run reads the files. There is a result beside the error if rows were rejected.
func (o *telemetryValidateOptions) run(cmd *cobra.Command) (_ *telemetryValidation, failed error) {
	var all telemetryValidation
	each := func(*telemetry.GPUSample) error { return nil }
	opts, err := o.read.Options()
	if err != nil {
		return nil, err
	}
	opts.KeepRejected = o.show
	if o.out != "" {
		to, end := cmd.OutOrStdout(), func() error { return nil }
		if o.out != "-" {
			file, err := os.Create(o.out)
			if err != nil {
				return nil, fmt.Errorf("--out: %w", err)
			}
			to, end = file, file.Close
		}
		w := telemetry.NewWriter(to)
		each = w.Write
		defer func() {
			if err := cmp.Or(w.Header(), w.Flush(), end()); err != nil && failed == nil {
				failed = fmt.Errorf("--out: %w", err)
			}
		}()
	}
	for _, path := range o.files {
		f, err := o.file(cmd.Context(), path, opts, each)
		if err != nil {
			return nil, err
		}
		all.Files = append(all.Files, *f)
		if err := f.Nothing(); err != nil && failed == nil {
			failed = err
		}
		if f.Rejected > 0 && failed == nil {
			failed = fmt.Errorf("telemetry %s: %d of %d rows rejected, first %s", f.File, f.Rejected, f.Rows,
				f.First[0])
		}
	}
	return &all, failed
}

func (o *telemetryValidateOptions) file(ctx context.Context, path string, opts telemetry.Options,
	each func(*telemetry.GPUSample) error) (*telemetryFile, error) {
	in, name := o.stdin, "stdin"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, name = f, filepath.Base(path)
	}
	summary := telemetry.NewSummary()
	visit := summary.Visit()
	visit.GPU = func(s *telemetry.GPUSample) error {
		summary.AddGPU(s)
		return each(s)
	}
	stats, err := telemetry.ReadAll(ctx, in, name, opts, visit)
	if err != nil {
		return nil, err
	}
	o.read.Note(o.notes, stats)
	r := summary.Report(stats.Kind)
	f := &telemetryFile{Stats: stats, Report: r, Period: r.Period.Seconds()}
	if r.End > 0 {
		f.From, f.To = clockText(r.Start), clockText(r.End)
	}
	for _, g := range r.Longest {
		f.Longest = append(f.Longest, telemetryGap{g.Of, clockText(g.From), (g.To - g.From).Seconds()})
	}
	return f, nil
}

// clockText formats an instant since the Unix epoch.
func clockText(at time.Duration) string { return time.Unix(0, int64(at)).UTC().Format(time.RFC3339) }

func printTelemetry(w io.Writer, all *telemetryValidation) error {
	b := bufio.NewWriter(w)
	for i := range all.Files {
		if i > 0 {
			fmt.Fprintln(b)
		}
		printTelemetryFile(b, &all.Files[i])
	}
	return b.Flush()
}

func printTelemetryFile(w io.Writer, f *telemetryFile) {
	about := cmp.Or(strings.TrimSuffix(f.Format+", "+f.Compression, ", "), f.Format)
	fmt.Fprintf(w, "file        %s (%s)\n", f.File, about)
	fmt.Fprintf(w, "rows        %d, %d %s\n", f.Rows, f.Samples, f.Kind)
	switch f.Kind {
	case telemetry.GPUs:
		fmt.Fprintf(w, "GPUs        %d of %d nodes, %d jobs named by %d samples\n", f.GPUs, f.Nodes, f.Jobs, f.Named)
		for _, x := range []struct {
			n    int
			text string
		}{{f.Messages, "%d lines are repeated headers or messages\n"},
			{f.Numbered, "%d GPUs have no index: they are numbered in the order of the input or of their UUIDs\n"},
			{f.Renamed, "%d samples have the node of their GPU's samples before: its exporter has another host name\n"},
			{f.Exporters, "%d values have a pod only as a label of Prometheus: it is taken to be the exporter's\n"}} {
			if x.n > 0 {
				fmt.Fprintf(w, "note        "+x.text, x.n)
			}
		}
	case telemetry.Queues:
		fmt.Fprintf(w, "queues      %d\n", f.Queues)
	case telemetry.Iterations:
		fmt.Fprintf(w, "workers     %d of %d jobs\n", f.Workers, f.Jobs)
	}
	if f.From != "" {
		fmt.Fprintf(w, "span        %s to %s, %s\n", f.From, f.To, units.Duration((f.End - f.Start).Seconds()))
	}
	if f.Period > 0 {
		fmt.Fprintf(w, "period      %s\n", units.Duration(f.Period))
		fmt.Fprintf(w, "coverage    %.1f %%, %d gaps\n", 100*f.Coverage, f.Gaps)
	}
	for _, g := range f.Longest {
		fmt.Fprintf(w, "gap         %s: %s from %s\n", g.Of, units.Duration(g.Seconds), g.From)
	}
	for _, x := range []struct {
		name string
		n    int
	}{{"absent", f.Absent}, {"unsorted", f.Unsorted}, {"repeated", f.Repeated}, {"lost", f.Lost},
		{"Xid errors", f.Xids}} {
		if x.n > 0 {
			fmt.Fprintf(w, "%-12s%d\n", x.name, x.n)
		}
	}
	if len(f.Ignored) > 0 {
		fmt.Fprintf(w, "not read    columns %s\n", strings.Join(f.Ignored, ", "))
	}
	if len(f.Quantities) > 0 {
		t := cli.NewNumbers(w, "")
		fmt.Fprintf(t, "quantity\tsamples\tleast\tmean\tmost\t\n")
		for _, q := range f.Quantities {
			fmt.Fprintf(t, "%s\t%d\t%.4g\t%.4g\t%.4g\t\n", q.Name, q.Samples, q.Least, q.Mean, q.Most)
		}
		t.Flush()
	}
	if f.Rejected == 0 {
		return
	}
	fmt.Fprintf(w, "%d of %d rows rejected:\n", f.Rejected, f.Rows)
	for _, c := range f.Reasons {
		fmt.Fprintf(w, "  %6d x %s %s\n", c.Rows, c.Field, c.Reason)
	}
	for _, x := range f.First {
		fmt.Fprintf(w, "  %s\n", x)
	}
	if n := f.Rejected - len(f.First); n > 0 {
		fmt.Fprintf(w, "  ... and %d more (--show)\n", n)
	}
}
