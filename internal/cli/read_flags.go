package cli

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
