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
	"github.com/autosched/autosched/workload/synth"
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

// traceSynthOptions are the flags of trace synth.
type traceSynthOptions struct {
	synth.Options // with the zero and the cluster after check
	recipe        string
	start, out    string
	json          bool

	given func(flag string) bool
}

func newTraceSynthCmd() *cobra.Command {
	var o traceSynthOptions
	cmd := &cobra.Command{
		Use:   "synth --days N --out FILE",
		Short: "Generate a trace that resembles a published one",
		Long: `Synth draws a trace from published statistics: durations, GPUs and GPU-time by
size, batches (sweeps) or recurring jobs, daily and weekly arrivals, users,
tenants and status. The trace is labelled synthetic, and so is every result
computed from it. The same options give the same trace. Profiles:

` + profileHelp() + `
--load sets the offered load: the requested GPU-time over the capacity of --nodes
of --gpus-per-node. At 0.8 jobs seldom queue, above 1 they must. --job-count sets their
number instead. Without either the profile's own rate counts. Given a cluster, no
job is wider than it, and the file names it: commands that replay the trace need no
--nodes.

A few jobs run for weeks, as they do in reality. --max-duration keeps them from
dominating a short trace.

--recipe composes a trace of parts instead: jobs of a profile at a load, bursts of equal
jobs, each on some days. The recipe has all but the cluster; --seed draws another
trace of it.`,
		Example: `  autosched trace synth --profile philly --days 14 --load 1.2 --nodes 70 --gpus-per-node 8 --seed 1 --out philly-like.csv.gz
  autosched trace synth --profile pai --days 7 --job-count 5000 --seed 3 -o pai-like.csv.gz
  autosched trace synth --days 3 --job-count 2000 --max-duration 96h | autosched trace stats -
  autosched trace synth --recipe examples/scenarios.json:flash-crowd --nodes 20 --seed 7 -o crowd-7.csv.gz`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage(fmt.Errorf("trace synth takes no argument, but got %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			w, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return writeAndShow(cmd, o.out, o.json, w, o.Cluster.Groups)
		},
	}
	o.add(cmd)
	return cmd
}

func (o *traceSynthOptions) add(cmd *cobra.Command) {
	o.given = cmd.Flags().Changed
	f := cmd.Flags()
	f.StringVar(&o.recipe, "recipe", "", "FILE:NAME, a recipe of a JSON file of scenarios, instead of a profile")
	f.StringVar(&o.Profile, "profile", "philly",
		"published cluster to resemble: one of "+strings.Join(synth.Profiles(), ", "))
	f.IntVar(&o.Days, "days", 7, "days of arrivals")
	f.IntVar(&o.Jobs, "job-count", 0, "number of jobs (default: the profile's rate)")
	f.Float64Var(&o.Load, "load", 0, "offered load on the cluster, instead of --job-count")
	f.DurationVar(&o.MaxDuration, "max-duration", 0, "longest job (default: the profile's)")
	f.Uint64Var(&o.Seed, "seed", 1, "")
	f.StringVar(&o.start, "start", "2017-10-09",
		"date or RFC 3339 time of the first instant, a Monday by default")
	f.BoolVar(&o.json, "json", false, "")
	f.StringVarP(&o.out, "out", "o", "-", "file to write, compressed if it ends in .gz or .zst, - for standard output")
	cli.ClusterFlags(cmd, &o.Cluster)
}

func (o *traceSynthOptions) check() error {
	if err := checkOut("synth", o.out, o.json); err != nil {
		return err
	}
	var err error
	if o.Zero, err = time.Parse(time.DateOnly, o.start); err != nil {
		if o.Zero, err = time.Parse(time.RFC3339, o.start); err != nil {
			return cli.Usage(fmt.Errorf("--start: %q is neither a date (2017-10-09) nor an RFC 3339 time", o.start))
		}
	}
	if o.recipe != "" {
		for _, name := range []string{"profile", "days", "job-count", "load", "max-duration"} {
			if o.given(name) {
				return cli.Usage(fmt.Errorf("--recipe and --%s: the recipe has that; drop one", name))
			}
		}
		if o.Cluster.Nodes() == 0 {
			return cli.Usage(fmt.Errorf("--recipe needs --nodes, the cluster that its loads refer to"))
		}
	}
	if o.Cluster.Nodes() == 0 { // no cluster: --gpus-per-node has a default
		o.Cluster = workload.Cluster{}
	}
	return nil
}

// run draws the trace. Progress goes to notes.
func (o *traceSynthOptions) run(ctx context.Context, notes io.Writer) (*workload.Workload, error) {
	if o.recipe != "" {
		return o.fromRecipe(ctx)
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	options := o.Options
	options.Progress = func(jobs int) { line.Show("%d jobs drawn", jobs) }
	w, err := synth.Generate(ctx, options)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, cli.Usage(err)
	}
	return w, nil
}

func (o *traceSynthOptions) fromRecipe(ctx context.Context) (*workload.Workload, error) {
	r, name, err := readRecipe(o.recipe)
	if err != nil {
		return nil, err
	}
	if o.given("seed") {
		r.Seed = o.Seed
	}
	return r.Generate(ctx, name, o.Zero, o.Cluster)
}

func profileHelp() string {
	var b strings.Builder
	for _, name := range synth.Profiles() {
		fmt.Fprintf(&b, "  %-7s %s\n", name, synth.Title(name))
	}
	return b.String()
}
