package traces

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// traceValidateOptions are the flags of trace validate.
type traceValidateOptions struct{ traceInput }

func newTraceValidateCmd() *cobra.Command {
	var o traceValidateOptions
	cmd := &cobra.Command{
		Use:   "validate TRACE",
		Short: "Check every row of a trace",
		Long: `Validate reads a trace and reports on its rows. It exits with 1 if rows were
rejected, and names the first of them: line, field, value, reason.`,
		Example: `  autosched trace validate jobs.csv.gz
  autosched trace validate jobs.csv --show 100 --json | jq .reasons`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, failed := o.run(cmd.Context(), cmd.ErrOrStderr())
			if r == nil {
				return failed
			}
			print := func(w io.Writer) error { return printReport(w, r) }
			if err := cli.Show(cmd.OutOrStdout(), o.json, "trace-validation/v1", r, print); err != nil {
				return err
			}
			return failed
		},
	}
	o.add(cmd)
	return cmd
}

// run reads the trace. There is a report beside the error if rows were read.
func (o *traceValidateOptions) run(ctx context.Context, notes io.Writer) (*trace.Report, error) {
	r, err := o.report(ctx, notes)
	if err != nil && r != nil && r.Rows == 0 {
		return nil, err
	}
	if err == nil && r.Rejected > 0 {
		err = fmt.Errorf("trace %s: %d of %d rows rejected, first %s", r.File, r.Rejected, r.Rows, r.First[0])
	}
	return r, err
}

// printReport prints how a trace was read.
func printReport(w io.Writer, r *trace.Report) error {
	b := bufio.NewWriter(w)
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
	for _, x := range r.Columns {
		if x.Read != "" {
			fmt.Fprintf(b, "column      %s holds %s\n", x, x.Read)
		}
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(b, "not read    %s\n", strings.Join(r.Ignored, ", "))
	}
	fmt.Fprintf(b, "rows        %d\njobs        %d\nrejected    %d\n", r.Rows, r.Jobs, r.Rejected)
	if r.Running > 0 {
		fmt.Fprintf(b, "running     %d of the jobs had not ended: they hold GPUs as long as is known, and count in no "+
			"duration\n", r.Running)
	}
	if r.Pending > 0 {
		fmt.Fprintf(b, "pending     %d of the jobs had not started: how long they would run is taken from the others, and "+
			"they count in no duration\n", r.Pending)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(b, "left out    %d jobs: %s\n", r.LeftOut, leftOut(r))
	}
	if r.Merged > 0 {
		fmt.Fprintf(b, "merged      %d rows that add to another row's job or list machines\n", r.Merged)
	}
	if r.Expanded > 0 {
		fmt.Fprintf(b, "expanded    %d more jobs than rows: what waits of an array is one row\n", r.Expanded)
	}
	for _, m := range r.Machines {
		fmt.Fprintf(b, "machines    %d x %d GPUs %s\n", m.Nodes, m.GPUsPerNode, m.GPUModel)
	}
	printHeld(b, r)
	if r.Unsorted > 0 {
		fmt.Fprintf(b, "unsorted    %d, now sorted by submission\n", r.Unsorted)
	}
	if r.Rejected > 0 {
		printRejections(b, r)
	}
	return b.Flush()
}

// printHeld prints the GPU-hours of the jobs and the most GPUs that they held at once, beside the trace's cluster.
func printHeld(w io.Writer, r *trace.Report) {
	h := &r.Held
	if h.GPUHours > 0 {
		var kinds []string
		for _, k := range h.Kinds {
			kinds = append(kinds, fmt.Sprintf("%s %.4g", cmp.Or(k.Status, "without a status"), k.GPUHours))
		}
		fmt.Fprintf(w, "GPU-hours   %.5g: %s; %.1f %% in running jobs\n", h.GPUHours, strings.Join(kinds, ", "),
			100*h.Running)
	}
	if h.Peak > 0 {
		has := "compare it with the cluster's"
		if gpus := (workload.Cluster{Groups: r.Machines}).TotalGPUs(); gpus > 0 {
			has = fmt.Sprintf("the cluster has %d", gpus)
		}
		fmt.Fprintf(w, "most held   %.5g GPUs at once, at %s; %s\n", h.Peak, h.At.Format(time.RFC3339), has)
	}
}

// leftOut lists the reasons for which jobs without fault are not used.
func leftOut(r *trace.Report) string {
	var b strings.Builder
	for i, c := range r.LeftOutReasons {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s (%d)", c.Reason, c.Jobs)
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
