package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/telemetry/collect"
)

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
