package cli

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// ReadFlags describe a trace that does not describe itself. Only the commands of trace have these flags: trace import
// writes a trace that needs none.
type ReadFlags struct {
	added           bool
	shards          int
	gpusPerProc     float64
	requeueRestarts bool
	zone            string
	columns         string
	Events          func(*workload.Event) // gets the events of a log
}

// Add adds the flags to a command.
func (f *ReadFlags) Add(cmd *cobra.Command) {
	f.added = true
	fl := cmd.Flags()
	fl.StringVar(&f.columns, "columns", "",
		"what the columns of a table of no known format mean, such as submit=created,start=admitted,end=finished,"+
			"gpus=n_gpu or duration=run_ms:ms; 'autosched trace --help' lists the fields")
	fl.StringVar(&f.zone, "timezone", "", "")
	fl.IntVar(&f.shards, "shards-per-gpu", 0, "shards of a GPU, for a Slurm trace whose jobs ask for gres/shard")
	fl.Float64Var(&f.gpusPerProc, "gpus-per-proc", 0,
		"GPUs that go with a processor, for a trace in the Standard Workload Format, such as 0.25 (default: 1)")
	fl.BoolVar(&f.requeueRestarts, "requeue-restarts", true,
		"a job that Slurm requeued began anew: its last start is its run time; =false: starts add up, as those of jobs "+
			"that checkpoint")
}

// readFlags are those of ReadFlags.
var readFlags = func() *pflag.FlagSet {
	var cmd cobra.Command
	new(ReadFlags).Add(&cmd)
	return cmd.Flags()
}()

// Apply checks the flags and adds them to the options of a reader.
func (f *ReadFlags) Apply(o *trace.Options) error {
	if f.shards < 0 {
		return UsageError{fmt.Errorf("--shards-per-gpu: %d is negative", f.shards)}
	}
	if f.gpusPerProc != 0 {
		if err := trace.CheckGPUsPerProc(f.gpusPerProc); err != nil {
			return UsageError{fmt.Errorf("--gpus-per-proc: %w", err)}
		}
	}
	var err error
	if f.columns != "" {
		if o.Columns, err = trace.ParseColumns(f.columns); err != nil {
			return UsageError{fmt.Errorf("--columns: %w", err)}
		}
	}
	if f.zone != "" {
		if o.Zone, err = trace.ParseZone(f.zone); err != nil {
			return UsageError{fmt.Errorf("--timezone: %w", err)}
		}
	}
	o.Shards, o.RequeueRestarts, o.Events = f.shards, f.requeueRestarts || !f.added, f.Events
	o.GPUsPerProc = f.gpusPerProc
	return nil
}

// Note says what the reader had to assume, and which flags had no use.
func (f *ReadFlags) Note(notes io.Writer, r *trace.Report) {
	for _, note := range r.Notes {
		fmt.Fprintf(notes, "note: %s: %s\n", r.File, note)
	}
	if f.zone != "" && r.Zone == "" {
		fmt.Fprintf(notes, "note: --timezone made no difference: %s has no time without a zone\n", r.File)
	}
}

// limitHeap says that the rows of a trace stay until the end. Where they take most of the
// memory, a collector that waits for the heap to double would double it for nothing.
func limitHeap(rows int) {
	if rows >= 1<<20 {
		debug.SetGCPercent(20)
	}
}

// TelemetryFlags say how files of telemetry are read.
type TelemetryFlags struct{ format, at, node, names, zone string }

// Add adds the flags of files whose samples may lack a node or a time.
func (f *TelemetryFlags) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.at, "scrape-time", "", "when a scrape whose lines have no times was made, such as 2026-01-05T12:00:00Z")
	fl.StringVar(&f.node, "node", "", "")
	f.AddMetrics(cmd)
}

// AddClock adds the flags of the format and the clock of files of telemetry.
func (f *TelemetryFlags) AddClock(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "", "")
	cmd.Flags().StringVar(&f.zone, "timezone", "", "")
}

// AddMetrics adds the flag of a site's own names.
func (f *TelemetryFlags) AddMetrics(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.names, "metrics", "", "YAML file of a site's own metrics and labels of exporters")
}

// Options checks the flags and reads the files that they name.
func (f *TelemetryFlags) Options() (o telemetry.Options, err error) {
	o.Format, o.Node = f.format, f.node
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return o, Usage(fmt.Errorf("--scrape-time: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", f.at))
		}
		o.At = time.Duration(at.UnixNano())
	}
	if f.zone != "" {
		if o.Zone, err = trace.ParseZone(f.zone); err != nil {
			return o, Usage(fmt.Errorf("--timezone: %w", err))
		}
	}
	if names := TelemetryFormatNames(); f.format != "" && !slices.Contains(names, f.format) {
		return o, Usage(fmt.Errorf("--format: %q is not one of %s", f.format, strings.Join(names, ", ")))
	}
	if f.names != "" {
		if o.Names, err = ReadFile(f.names, telemetry.ReadNames); err != nil {
			return o, Usage(fmt.Errorf("--metrics: %w", err))
		}
	}
	return o, nil
}

// Note says that --timezone had no use.
func (f *TelemetryFlags) Note(notes io.Writer, s *telemetry.Stats) {
	if f.zone != "" && !strings.HasPrefix(s.Format, "nvidia-smi") {
		fmt.Fprintf(notes, "note: --timezone made no difference: %s has no time without a zone\n", s.File)
	}
}

// TelemetryFormatNames lists the formats of telemetry.
func TelemetryFormatNames() []string {
	var names []string
	for _, f := range telemetry.Formats() {
		names = append(names, f.Name)
	}
	return names
}
