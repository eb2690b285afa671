package traces

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
)

// traceWindowOptions are the flags of trace window.
type traceWindowOptions struct {
	input  traceInput
	window traceWindow
	out    string
}

func newTraceWindowCmd() *cobra.Command {
	var o traceWindowOptions
	cmd := &cobra.Command{
		Use:   "window TRACE --from INSTANT --to INSTANT",
		Short: "Cut the jobs submitted in an interval out of a trace",
		Long: `Window writes the jobs submitted from --from (included) until --to (excluded),
on the zero of the whole trace. An instant is an RFC 3339 time, a date (midnight
UTC), seconds since the trace's zero, or a span since it such as 36h. The zero is
midnight UTC of the day of the first submission, or 1970-01-01 for traces in
seconds; trace stats shows it.

A window begins with an empty cluster: it has no jobs that were running before.`,
		Example: `  autosched trace window jobs.csv.gz --from 2017-10-02 --to 2017-10-09 --out week.csv.gz
  autosched trace window sample --from 24h --to 48h | autosched trace stats -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			w, machines, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return writeAndShow(cmd, o.out, o.input.json, w, machines)
		},
	}
	o.input.add(cmd)
	o.window.add(cmd)
	cmd.Flags().StringVarP(&o.out, "out", "o", "-",
		"file to write, compressed if it ends in .gz or .zst, - for standard output")
	return cmd
}

// check checks all that needs no trace.
func (o *traceWindowOptions) check() error {
	return cmp.Or(checkOut("window", o.out, o.input.json), o.input.check(), o.window.check())
}

// run reads the trace and cuts it, and returns the nodes of its cluster too, if they are
// known. Notes go to notes.
func (o *traceWindowOptions) run(ctx context.Context, notes io.Writer) (
	*workload.Workload, []workload.NodeGroup, error) {
	w, report, err := o.input.open(ctx, notes)
	if err != nil {
		return nil, nil, err
	}
	w, err = o.window.cut(w)
	return w, report.Machines, err
}

// traceWindow is the part of a trace that counts.
type traceWindow struct{ from, to string }

func (o *traceWindow) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.from, "from", "", "")
	cmd.Flags().StringVar(&o.to, "to", "", "")
}

func (o *traceWindow) check() error {
	return cmp.Or(cli.CheckInstant("from", o.from), cli.CheckInstant("to", o.to))
}

func (o *traceWindow) cut(w *workload.Workload) (*workload.Workload, error) {
	from, to, err := cli.ParseWindow(w, o.from, o.to)
	if err != nil {
		return nil, err
	}
	clock := func(at time.Duration) string { return w.Clock(at).Format(time.RFC3339) }
	if to <= from {
		return nil, cli.Usage(fmt.Errorf("--to: %s is not after --from %s", clock(to), clock(from)))
	}
	cut := w.Window(from, to)
	if cut.Len() == 0 {
		first, last := w.Span()
		return nil, fmt.Errorf("trace %s: no job was submitted from %s to %s; the trace goes from %s to %s", w.Name(),
			clock(from), clock(to), clock(first), clock(last))
	}
	return cut, nil
}
