package traces

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/telemetry/collect"
	"github.com/autosched/autosched/telemetry/remote"
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
	cmd.AddCommand(newTelemetryCollectCmd(), newTelemetryValidateCmd(), newTelemetryImportCmd(),
		newTelemetryFetchCmd(), newTelemetryExportCmd())
	return cmd
}

func telemetryFormats() string {
	var b strings.Builder
	for _, f := range telemetry.Formats() {
		name := f.Name
		for _, line := range table.Wrap(f.About, 64) {
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

// fourDigits has four digits, and all of those before the point.
func fourDigits(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func printTelemetryFile(w io.Writer, f *telemetryFile) {
	about := cmp.Or(strings.TrimSuffix(f.Format+", "+f.Compression, ", "), f.Format)
	fmt.Fprintf(w, "file        %s (%s)\n", f.File, about)
	fmt.Fprintf(w, "rows        %d, %d %s\n", f.Rows, f.Samples, f.Kind)
	switch f.Kind {
	case telemetry.GPUs:
		fmt.Fprintf(w, "GPUs        %d of %s, %s named by %s\n", f.GPUs, units.Plural(f.Nodes, "node"),
			units.Plural(f.Jobs, "job"), units.Plural(f.Named, "sample"))
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
		t := table.Numbers(w, "quantity\tsamples\tleast\tmean\tmost\t")
		for _, q := range f.Quantities {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t\n", q.Name, q.Samples, fourDigits(q.Least), fourDigits(q.Mean),
				fourDigits(q.Most))
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

// telemetryCollectOptions are the flags of telemetry collect.
type telemetryCollectOptions struct {
	out      string
	node     string
	interval time.Duration
	rounds   int
	pidMap   string
	scrape   []string
	buffer   int
	stdout   io.Writer
	// scheduler is whose samples they are, for the service; "" writes a file.
	scheduler string
	connect   cli.ConnectFlags
}

func newTelemetryCollectCmd() *cobra.Command {
	var o telemetryCollectOptions
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Sample the GPUs of this node",
		Long: `Collect samples every GPU and MIG instance of this node at an interval: utilisation,
memory, power, energy, temperature, clocks, throttle reasons, Xid errors, processes
and their job. It writes the project's CSV, or with --id sends the samples to the
service, and runs until it is interrupted.

The job is that of the processes' control group: the id of a Slurm job, or the UID of
a Kubernetes pod. --pid-map names a file with lines of PID JOB for others; it is read
again when it changes. A GPU whose processes belong to several jobs has none.

A GPU that is lost or whose driver does not answer has samples that say so; after a
reload of the driver sampling goes on. Samples that cannot be written or sent are kept
for later, up to --buffer, the oldest dropped first.

It needs NVIDIA's driver and a binary with the build tag nvml, which needs gcc:
  CGO_ENABLED=1 go build -tags nvml ./cmd/autosched

With --scrape, any binary takes the samples from exporters with DCGM's metrics in place
of the driver, of this node or others, with SM activity where they have it. An exporter
that does not answer gives no samples.`,
		Example: `  autosched telemetry collect --out gpus.csv
  autosched telemetry collect --id prod --server autosched:7443 --tls-ca ca.pem --token-file token
  autosched telemetry collect --scrape http://node7:9400/metrics --id prod
  autosched telemetry collect --rounds 4 --period 1s | autosched telemetry validate -`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdout = cmd.OutOrStdout()
			if err := o.check(); err != nil {
				return err
			}
			if len(o.scrape) > 0 {
				return o.run(cmd.Context(), nil, cmd.ErrOrStderr())
			}
			driver, err := collect.NewDriver()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), driver, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "-", "CSV file to append to, - for standard output")
	f.StringVar(&o.scheduler, "id", "", "")
	o.connect.Add(cmd)
	f.StringVar(&o.node, "node", "", "")
	f.DurationVar(&o.interval, "period", collect.DefaultPeriod, "")
	f.IntVar(&o.rounds, "rounds", 0, "end after this many samples of each GPU (default: when interrupted)")
	f.StringVar(&o.pidMap, "pid-map", "", "file with the jobs of processes: lines of PID JOB")
	f.StringSliceVar(&o.scrape, "scrape", nil, "URLs of exporters with DCGM's metrics, in place of the driver")
	f.IntVar(&o.buffer, "buffer", collect.DefaultBuffer, "keep at most this many samples that cannot be written yet")
	return cmd
}

// leastInterval is the shortest time that NVML's own averages make useful.
const leastInterval = 100 * time.Millisecond

func (o *telemetryCollectOptions) check() error {
	switch {
	case o.scheduler != "" && o.out != "-":
		return cli.Usage(errors.New("--out and --id exclude each other: write a file, or send to the service"))
	case o.interval < leastInterval || o.interval > time.Hour:
		return cli.Usage(fmt.Errorf("--period: %v is not from %v to 1h", o.interval, leastInterval))
	case len(o.scrape) > 0 && o.pidMap != "":
		return cli.Usage(errors.New("--pid-map: the processes are the driver's; exporters name jobs themselves"))
	case strings.ContainsAny(o.node, "\r\n"):
		return cli.Usage(fmt.Errorf("--node: %q has a line break", o.node))
	case o.rounds < 0:
		return cli.Usage(fmt.Errorf("--rounds: %d is negative", o.rounds))
	case o.buffer < 1 || o.buffer > 10_000_000:
		return cli.Usage(fmt.Errorf("--buffer: %d is not from 1 to 10000000", o.buffer))
	}
	for _, s := range o.scrape {
		if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return cli.Usage(fmt.Errorf("--scrape: %q is not a URL such as http://node7:9400/metrics", s))
		}
	}
	if o.node == "" && len(o.scrape) == 0 {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--node: the host has no name: %w", err)
		}
		o.node = name
	}
	return nil
}

// sink returns the destination of the samples and the function that closes it.
func (o *telemetryCollectOptions) sink(say func(string)) (collect.Sink, func() error, error) {
	if o.scheduler != "" {
		name, err := cli.SchedulerArg([]string{o.scheduler})
		if err != nil {
			return nil, nil, err
		}
		conn, err := o.connect.Dial()
		if err != nil {
			return nil, nil, err
		}
		return &telemetrySink{pb.NewTelemetryServiceClient(conn), name, say}, conn.Close, nil
	}
	csv := collect.NewCSV(o.stdout)
	if o.out != "-" {
		var err error
		if csv, err = collect.OpenCSV(o.out); err != nil {
			return nil, nil, fmt.Errorf("--out: %w", err)
		}
	}
	return csv, func() error {
		if err := csv.Close(); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		return nil
	}, nil
}

// source is the source of samples: exporters if there is no driver.
func (o *telemetryCollectOptions) source(driver collect.Driver, say func(string)) (collect.Source, error) {
	opts := collect.Options{Node: o.node, Notify: say}
	if driver == nil {
		return collect.NewScraper(o.scrape, opts), nil
	}
	jobs, err := collect.NewJobs(os.DirFS("/proc"), o.pidMap, say)
	if err != nil {
		return nil, fmt.Errorf("--pid-map: %w", err)
	}
	opts.Job = jobs.Of
	return collect.New(driver, opts), nil
}

// run samples until the context ends or all rounds are done.
func (o *telemetryCollectOptions) run(ctx context.Context, driver collect.Driver, notes io.Writer) error {
	var mu sync.Mutex
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(notes, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
	}
	source, err := o.source(driver, say)
	if err != nil {
		return err
	}
	sink, end, err := o.sink(say)
	if err != nil {
		return err
	}
	const base, sample = 24 << 20, 256 // bytes, with room for garbage
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(base + sample*int64(o.buffer)))
	began := time.Now()
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	ticks := make(chan time.Time)
	go func() { // the first round is at once
		defer close(ticks)
		for n, at := 1, began; ; n++ {
			select {
			case ticks <- at:
			case <-ctx.Done():
				return
			}
			if n == o.rounds {
				return
			}
			select {
			case at = <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	sender := collect.NewSender(sink, o.buffer, say)
	collect.Run(ctx, source, sender, ticks)
	if err := end(); err != nil {
		return err
	}
	sent, dropped, waiting := sender.Counts()
	say(fmt.Sprintf("%d samples written, %d dropped; CPU time %.3f s in %.0f s", sent, dropped,
		cputime.Process().Seconds(), time.Since(began).Seconds()))
	if waiting > 0 {
		return fmt.Errorf("%d samples could not be written or sent", waiting)
	}
	return nil
}

// telemetryFetchOptions are the flags of telemetry fetch.
type telemetryFetchOptions struct {
	server  *url.URL
	from    string
	to      string
	step    time.Duration
	match   string
	read    cli.TelemetryFlags
	headers string
	ca      string
	timeout time.Duration
	out     string
	notes   io.Writer
}

func newTelemetryFetchCmd() *cobra.Command {
	var o telemetryFetchOptions
	cmd := &cobra.Command{
		Use:   "fetch URL",
		Short: "Fetch the samples of GPUs that a Prometheus server has kept",
		Long: `Fetch asks a Prometheus server, or another with its API, for the metrics of GPUs that
'telemetry validate' reads, and writes the samples as this project's CSV. It asks for
two hours of a metric at a time at a step of a minute, and for less where that is too
much for the server. A request that fails is made again; what was written stays, and the
same command goes on there.

--header-file names a file with lines of NAME: VALUE, such as Authorization: Bearer
TOKEN. --match takes matchers of labels, such as cluster="a".`,
		Example: `  autosched telemetry fetch http://prometheus:9090 --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --out week.csv
  autosched telemetry fetch https://mimir.example.org/prometheus --header-file token.txt --match 'cluster="a"' \
      --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z --out day.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage(errors.New("name the server, such as http://prometheus:9090"))
			}
			u, err := url.Parse(args[0])
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return cli.Usage(fmt.Errorf("%q is not a URL such as http://prometheus:9090", args[0]))
			}
			o.server = u
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.notes = cmd.ErrOrStderr()
			n, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s samples written to %s\n", units.Count(n), o.out)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "(required)")
	f.StringVar(&o.to, "to", "", "(default: now)")
	f.DurationVar(&o.step, "period", time.Minute, "")
	f.StringVar(&o.match, "match", "", `label matchers, such as cluster="a"`)
	o.read.AddMetrics(cmd)
	f.StringVar(&o.headers, "header-file", "", "file with HTTP headers to send: lines of NAME: VALUE")
	f.StringVar(&o.ca, "tls-ca", "", "PEM file of the authorities that may sign the server's certificate (default: the system's)")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "")
	f.StringVarP(&o.out, "out", "o", "", "CSV file to write")
	return cmd
}

// prometheus is the server and the range that flags name.
func (o *telemetryFetchOptions) prometheus() (*remote.Prometheus, remote.Range, error) {
	var r remote.Range
	from, err := time.Parse(time.RFC3339, o.from)
	to := time.Now().Truncate(time.Second)
	if err == nil && o.to != "" {
		to, err = time.Parse(time.RFC3339, o.to)
	}
	switch {
	case err != nil:
		return nil, r, cli.Usage(errors.New("--from, --to: name RFC 3339 times such as 2026-03-01T00:00:00Z"))
	case !from.Before(to):
		return nil, r, cli.Usage(fmt.Errorf("--from: %s is not before --to", o.from))
	case o.step < time.Second || o.step > time.Hour:
		return nil, r, cli.Usage(fmt.Errorf("--period: %v is not from 1s to 1h", o.step))
	case o.timeout < time.Second:
		return nil, r, cli.Usage(fmt.Errorf("--timeout: %v is less than 1s", o.timeout))
	case o.out == "-":
		return nil, r, cli.NeedsPath(o.out, "--out", "a CSV file, in which the next call goes on")
	case o.out == "":
		return nil, r, cli.Usage(errors.New("--out: name the CSV file to write"))
	}
	p := &remote.Prometheus{URL: o.server, Header: http.Header{}, Matchers: strings.Trim(o.match, "{} "),
		Timeout: o.timeout}
	if p.Options, err = o.read.Options(); err != nil {
		return nil, r, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.ca != "" {
		text, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, r, fmt.Errorf("--tls-ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, r, fmt.Errorf("--tls-ca: %s has no certificate", o.ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	p.Client = &http.Client{Transport: transport}
	if o.headers != "" {
		file, err := os.Open(o.headers)
		if err != nil {
			return nil, r, fmt.Errorf("--header-file: %w", err)
		}
		defer file.Close()
		h, err := textproto.NewReader(bufio.NewReader(io.MultiReader(io.LimitReader(file, 1<<16),
			strings.NewReader("\n\n")))).ReadMIMEHeader()
		if err != nil {
			return nil, r, fmt.Errorf("--header-file: %s: has not only lines of NAME: VALUE", o.headers)
		}
		p.Header = http.Header(h)
	}
	return p, remote.Range{From: from.Truncate(o.step), To: to, Step: o.step}, nil
}

// fetched is how far a fetch came; it lies beside the CSV file until all is there.
type fetched struct {
	URL   string        `json:"url"`
	Match string        `json:"match,omitempty"`
	From  time.Time     `json:"from"`
	To    string        `json:"to,omitempty"` // as given
	Step  time.Duration `json:"step_ns"`
	Next  time.Time     `json:"next"`
	Bytes int64         `json:"bytes"`
	Rows  int           `json:"rows"`
}

// resume opens the output where an interrupted fetch of the same samples left it.
func (o *telemetryFetchOptions) resume(r *remote.Range) (*os.File, *fetched, error) {
	f := &fetched{URL: o.server.Redacted(), Match: o.match, From: r.From, To: o.to, Step: o.step, Next: r.From}
	text, err := os.ReadFile(o.out + ".fetch")
	if errors.Is(err, fs.ErrNotExist) {
		file, err := os.OpenFile(o.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			err = errors.New("it exists: name another file, or remove it")
		}
		return file, f, err
	}
	was := &fetched{}
	if err == nil {
		err = json.Unmarshal(text, was)
	}
	if err != nil {
		return nil, nil, err
	}
	if was.URL != f.URL || was.Match != f.Match || !was.From.Equal(f.From) || was.To != f.To || was.Step != f.Step {
		return nil, nil, fmt.Errorf("%s.fetch is of another fetch: name another file, or remove both", o.out)
	}
	file, err := os.OpenFile(o.out, os.O_WRONLY, 0)
	if err == nil {
		if err = file.Truncate(was.Bytes); err == nil {
			_, err = file.Seek(0, io.SeekEnd)
		}
	}
	fmt.Fprintf(o.notes, "note: goes on at %s\n", was.Next.Format(time.RFC3339))
	r.From = was.Next
	return file, was, err
}

// run fetches, and returns the number of samples.
func (o *telemetryFetchOptions) run(ctx context.Context) (int, error) {
	p, r, err := o.prometheus()
	if err != nil {
		return 0, err
	}
	names, others, err := p.Names(ctx, r)
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("%w: none of %d metrics of the server is known: --metrics names others",
			telemetry.ErrNothing,
			len(others))
	}
	began := r.From
	file, at, err := o.resume(&r)
	if err != nil {
		return 0, fmt.Errorf("--out: %w", err)
	}
	defer file.Close()
	progress := cli.NewProgressLine(o.notes)
	defer progress.Clear()
	w := telemetry.NewWriter(file)
	if at.Bytes > 0 {
		w.SkipHeader()
	}
	var all telemetry.Stats
	err = p.Fetch(ctx, names, r, w.Write, func(until time.Time, s *telemetry.Stats) error {
		all.Rejected += s.Rejected
		all.Rows += s.Rows
		if all.First == nil {
			all.First = s.First
		}
		if err := cmp.Or(w.Header(), w.Flush()); err != nil {
			return err
		}
		at.Next, at.Rows = until, at.Rows+s.Samples
		var err error
		if at.Bytes, err = file.Seek(0, io.SeekCurrent); err != nil {
			return err
		}
		progress.Show("%.0f %%, %d samples", 100*until.Sub(began).Seconds()/r.To.Sub(began).Seconds(), at.Rows)
		return atomicfile.Write(o.out+".fetch", func(w io.Writer) error { return json.NewEncoder(w).Encode(at) })
	})
	if err != nil {
		return at.Rows, err
	}
	if err := cmp.Or(file.Close(), os.Remove(o.out+".fetch")); err != nil {
		return at.Rows, err
	}
	progress.Clear()
	switch {
	case all.Rejected > 0:
		return at.Rows, fmt.Errorf("%d of %d values rejected, first %s", all.Rejected, all.Rows, all.First[0])
	case at.Rows == 0:
		return 0, fmt.Errorf("%w: the server has no values of %s then", telemetry.ErrNothing, strings.Join(names, ", "))
	}
	return at.Rows, nil
}
