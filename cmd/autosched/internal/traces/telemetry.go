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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload/trace"
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
  curl -s node7:9400/metrics | autosched telemetry validate - --at 2026-01-05T12:00:00Z`,
	}
	cmd.AddCommand(newTelemetryCollectCmd(), newTelemetryValidateCmd(), newTelemetryImportCmd(), newTelemetryShowCmd(),
		newTelemetryFetchCmd(),
		newTelemetryExportCmd())
	return cmd
}

// TelemetryFormatNames lists the formats of telemetry for a help text.
func TelemetryFormatNames() []string {
	var names []string
	for _, f := range telemetry.Formats() {
		names = append(names, f.Name)
	}
	return names
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
	files  []string
	format string
	at     string
	node   string
	names  string
	out    string
	zone   telemetryZone
	show   int
	json   bool
	stdin  io.Reader
	notes  io.Writer
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
			if err := o.check(); err != nil {
				return err
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
	f.StringVar(&o.format, "format", "", "format of the files (default: by their content)")
	f.StringVar(&o.at, "at", "", "when a scrape whose lines have no times was made, such as 2026-01-05T12:00:00Z")
	f.StringVar(&o.node, "node", "", "node of GPUs of which a scrape, or nvidia-smi, names none")
	metricsFlag(cmd, &o.names)
	f.StringVarP(&o.out, "out", "o", "", "write the samples of GPUs to this CSV file, - for standard output")
	o.zone.add(cmd)
	f.IntVar(&o.show, "show", 20, "name at most this many rejected rows per file; all are counted")
	f.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

func metricsFlag(cmd *cobra.Command, names *string) {
	cmd.Flags().StringVar(names, "metrics", "", "YAML file of a site's own metrics and labels of exporters")
}

// readNames reads the file of --metrics, nil without one.
func readNames(path string) (*telemetry.Names, error) {
	if path == "" {
		return nil, nil
	}
	names, err := cli.ReadFile(path, telemetry.ReadNames)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--metrics: %w", err))
	}
	return names, nil
}

func (o *telemetryValidateOptions) check() error {
	if _, err := o.instant(); err != nil {
		return cli.Usage(fmt.Errorf("--at: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", o.at))
	}
	if _, err := o.zone.zone(); err != nil {
		return err
	}
	if o.show < 1 {
		return cli.Usage(fmt.Errorf("--show: %d is not positive", o.show))
	}
	if o.format != "" {
		if names := TelemetryFormatNames(); !slices.Contains(names, o.format) {
			return cli.Usage(fmt.Errorf("--format: %q is not one of %s", o.format, strings.Join(names, ", ")))
		}
	}
	return nil
}

// telemetryZone is whose clock the times of nvidia-smi show.
type telemetryZone struct{ name string }

func (z *telemetryZone) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&z.name, "timezone", "",
		"zone whose clock the times of nvidia-smi show, such as Europe/Berlin (default: UTC)")
}

// zone is nil for the default.
func (z *telemetryZone) zone() (*time.Location, error) {
	if z.name == "" {
		return nil, nil
	}
	zone, err := trace.ParseZone(z.name)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--timezone: %w", err))
	}
	return zone, nil
}

// note says that the flag had no use.
func (z *telemetryZone) note(notes io.Writer, s *telemetry.Stats) {
	if z.name != "" && !strings.HasPrefix(s.Format, "nvidia-smi") {
		fmt.Fprintf(notes, "note: --timezone made no difference: %s has no time without a zone\n", s.File)
	}
}

// instant is --at since the Unix epoch.
func (o *telemetryValidateOptions) instant() (time.Duration, error) {
	if o.at == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339, o.at)
	return time.Duration(t.UnixNano()), err
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
	names, err := readNames(o.names)
	if err != nil {
		return nil, err
	}
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
		f, err := o.read(cmd.Context(), path, names, each)
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

func (o *telemetryValidateOptions) read(ctx context.Context, path string, names *telemetry.Names,
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
	at, _ := o.instant() // checked
	zone, _ := o.zone.zone()
	summary := telemetry.NewSummary()
	visit := summary.Visit()
	visit.GPU = func(s *telemetry.GPUSample) error {
		summary.AddGPU(s)
		return each(s)
	}
	stats, err := telemetry.ReadAll(ctx, in, name, telemetry.Options{Format: o.format, At: at, Node: o.node,
		Names: names,
		Zone:  zone, KeepRejected: o.show}, visit)
	if err != nil {
		return nil, err
	}
	o.zone.note(o.notes, stats)
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
