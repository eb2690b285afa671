package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// traceExportOptions are the flags of trace export.
type traceExportOptions struct {
	dir, id    string
	from, to   string
	out, nodes string
	json       bool
}

func newTraceExportCmd() *cobra.Command {
	var o traceExportOptions
	cmd := &cobra.Command{
		Use:   "export --dir DIR --id SCHEDULER --out FILE",
		Short: "Write the events that the service recorded of a scheduler as a trace",
		Long: `Export reads the directory of 'autosched serve', which must be stopped meanwhile, and
changes nothing in it. It writes the events of one scheduler in the format "events",
with the registered cluster, for every command that reads a trace: a job ran for as
long as it held GPUs, and its wait is known where it started once.

--from and --to choose events by their time. Jobs submitted before are then left out when
the trace is read, and jobs that end after count as running.

--node-events-out writes when nodes went down, were drained, came back or were added, for
--node-events. Nodes have the numbers of the registered cluster: those in their names,
the others in order of name.`,
		Example: `  autosched trace export --dir data --id demo --out demo.jsonl.gz
  autosched evaluate --trace demo.jsonl.gz --scheduler tiresias
  autosched trace export --dir data --id prod --from 2026-03-02 --to 2026-03-09 -o week.jsonl.zst \
      --node-events-out nodes.csv`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			var r *exportedEvents
			err := cli.WriteOutput(cmd, o.out, func(w io.Writer) (err error) {
				r, err = o.run(cmd.Context(), w, cmd.ErrOrStderr())
				return err
			})
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.json, "exported-events/v1", r, r.print)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "")
	f.StringVar(&o.id, "id", "", "")
	f.StringVar(&o.from, "from", "", "")
	f.StringVar(&o.to, "to", "", "")
	f.StringVarP(&o.out, "out", "o", "-", "file to write, compressed if it ends in .gz or .zst, - for standard output")
	f.StringVar(&o.nodes, "node-events-out", "", "")
	f.BoolVar(&o.json, "json", false, "")
	return cmd
}

// check checks all that needs no record.
func (o *traceExportOptions) check() error {
	switch {
	case o.dir == "":
		return cli.Usage(errors.New("--dir is missing: name the directory of the service's data"))
	case o.id == "":
		return cli.Usage(errors.New("--id is missing: name the scheduler; 'autosched scheduler list' shows them"))
	}
	return cmp.Or(cli.CheckID(o.id), checkOut("export", o.out, o.json), cli.CheckInstant("from", o.from),
		cli.CheckInstant("to", o.to))
}

// run writes the events of jobs to w and the events of nodes to their file. Notes go to notes.
func (o *traceExportOptions) run(ctx context.Context, w, notes io.Writer) (_ *exportedEvents, err error) {
	records, err := cli.OpenRecords(o.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	s, err := recordedScheduler(records, o.id)
	if err != nil {
		return nil, fmt.Errorf("--id: %w in %s", err, o.dir)
	}
	if s.Zero.IsZero() {
		return nil, fmt.Errorf("%s has no events of scheduler %s", o.dir, o.id)
	}
	from, to, err := o.window(s.Zero)
	if err != nil {
		return nil, err
	}
	out, err := trace.NewEventWriter(w, s.Zero, false, s.Cluster.Groups...)
	if err != nil {
		return nil, err
	}
	r := &exportedEvents{Out: o.out, Scheduler: o.id, Cluster: s.Cluster.String(), NodeEvents: -1}
	first, last := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	var nodes []workload.Event
	damage, err := controller.ReadEvents(ctx, records, s, func(e workload.Event) error {
		if e.Kind.OfNode() && e.Time < to { // events before define the nodes
			nodes = append(nodes, e)
		}
		if e.Time < from || e.Time >= to {
			return nil
		}
		r.Events++
		if e.Kind == workload.Submitted {
			r.Jobs++
		}
		first, last = min(first, e.Time), max(last, e.Time)
		return out.Write(&e)
	})
	if err != nil {
		return nil, err
	}
	for _, d := range damage {
		fmt.Fprintf(notes, "note: damaged records are left out: %v\n", d.Err)
	}
	if r.Events == 0 {
		return nil, fmt.Errorf("%s has no events of scheduler %s from %s to %s", o.dir, o.id, cmp.Or(o.from, "the first"),
			cmp.Or(o.to, "the last"))
	}
	r.First, r.Last = s.Zero.Add(first), s.Zero.Add(last)
	if o.nodes != "" {
		err = cli.WriteFile(o.nodes, "--node-events-out", func(w io.Writer) (err error) {
			r.NodeEvents, err = trace.WriteNodeEvents(w, s.Zero, s.Cluster, nodes)
			return err
		})
	}
	return r, err
}

// window reads --from and --to.
func (o *traceExportOptions) window(zero time.Time) (from, to time.Duration, err error) {
	from, to = math.MinInt64, math.MaxInt64
	none := workload.NewSorted("", zero, nil, false)
	if o.from != "" {
		if from, err = trace.ParseInstant(none, o.from); err != nil {
			return 0, 0, cli.Usage(fmt.Errorf("--from: %w", err))
		}
	}
	if o.to != "" {
		if to, err = trace.ParseInstant(none, o.to); err != nil {
			return 0, 0, cli.Usage(fmt.Errorf("--to: %w", err))
		}
	}
	if to <= from {
		return 0, 0, cli.Usage(fmt.Errorf("--to: %s is not after --from %s", o.to, o.from))
	}
	return from, to, nil
}

// recordedScheduler finds a scheduler.
func recordedScheduler(records *store.Reader, id string) (*controller.Scheduler, error) {
	saved, _, _, err := records.Load()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range saved {
		if saved[i].Scheduler.ID == id {
			return &saved[i].Scheduler, saved[i].Fault
		}
		names = append(names, saved[i].Scheduler.ID)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no scheduler is registered")
	}
	return nil, fmt.Errorf("%q is none of the schedulers %s", id, strings.Join(names, ", "))
}

// exportedEvents is the result of trace export.
type exportedEvents struct {
	Out       string    `json:"out"`
	Scheduler string    `json:"scheduler"`
	Cluster   string    `json:"cluster"`
	Events    int       `json:"events"`
	Jobs      int       `json:"jobs_submitted"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	// NodeEvents counts the events written by --node-events-out; -1 without the flag.
	NodeEvents int `json:"node_events"`
}

func (r *exportedEvents) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %s of scheduler %s from %s to %s, %s submitted, on %s\n", r.Out,
		units.Plural(r.Events, "event"), r.Scheduler, r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339),
		units.Plural(r.Jobs, "job"), r.Cluster)
	if err == nil && r.NodeEvents >= 0 {
		_, err = fmt.Fprintf(w, "changes of nodes: %d\n", r.NodeEvents)
	}
	return err
}
