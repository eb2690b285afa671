package waste

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
)

// patternsScanOptions are the flags of patterns scan.
type patternsScanOptions struct {
	trace      string
	how        cli.ReadFlags
	telemetry  []string
	read       cli.TelemetryFlags
	queue      []string
	iterations []string
	messages   string
	guardrails string
	labels     string
	cluster    workload.Cluster
	described  string
	rules      string
	only       []string
	period     time.Duration
	price      float64
	least      float64
	top        int
	jobs       string
	json       bool
	given      func(string) bool
}

func newPatternsScanCmd() *cobra.Command { return patternsScanCommand(&patternsScanOptions{}) }

func patternsScanCommand(o *patternsScanOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scan",
		Short: "Find what wastes a cluster in a history of jobs and telemetry",
		Long: `Applies rules to a trace of jobs and to telemetry, and prints what they find, most
wasted GPU-hours first: the numbers that a finding rests on, how sure it is, and what to
do. It says when nothing is wrong, and what could not be examined: without samples of
GPUs no job is idle, it is unknown.

Of a log of events of the API (simulate --events-out) preemptions, resizes, nodes and changes of
the configuration count as well.

Files of telemetry are any that 'autosched telemetry' reads, in order of time. Samples
that do not name their job are joined to it by node and time, where the trace has nodes and a
job holds all GPUs of a node, or events number the GPUs that it holds. Why jobs waited is
inferred from the state of the cluster once a minute.`,
		Example: `  autosched patterns scan --trace sacct.psv --nodes 40 --gpus-per-node 8
  autosched patterns scan --trace jobs.csv.gz --telemetry gpus.csv.zst --queue queue.csv --price 2.5
  autosched patterns scan --iterations steps.csv.gz --rule straggler --json | jq '.findings[].entity'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "patterns-scan/v1", r,
				func(w io.Writer) error { return r.print(w, o.top) })
		},
	}
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringVar(&o.trace, "trace", "", "")
	fl.StringArrayVar(&o.telemetry, "telemetry", nil, "")
	fl.StringArrayVar(&o.queue, "queue", nil, "file of samples of queues")
	fl.StringArrayVar(&o.iterations, "iterations", nil, "file of times of training steps")
	o.read.Add(cmd)
	fl.StringVar(&o.messages, "messages", "",
		"CSV file of lines of logs and reasons of ends, with the columns time,job,node,source,message")
	o.guardrailFlag(fl)
	fl.StringVar(&o.labels, "labels", "", "CSV file of job_id,label: labels that rules name, such as interactive and hoard-ok")
	cli.ClusterFlags(cmd, &o.cluster)
	fl.StringVar(&o.described, "cluster", "", "")
	fl.StringVar(&o.rules, "rules", "", "")
	fl.StringSliceVar(&o.only, "rule", nil, "")
	fl.DurationVar(&o.period, "period", 0, "(default: as the first file shows)")
	fl.Float64Var(&o.price, "price", 0, "price of a GPU-hour, in any currency")
	fl.Float64Var(&o.least, "min-confidence", 0, "leave out findings with less confidence, 0 to 1")
	fl.IntVar(&o.top, "top", 20, "")
	fl.StringVar(&o.jobs, "jobs-out", "", "")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

func (o *patternsScanOptions) guardrailFlag(fl *pflag.FlagSet) {
	fl.StringVar(&o.guardrails, "guardrails", "",
		"CSV file of what configurations must not worsen, with the columns "+patterns.GuardrailColumns)
}

func (o *patternsScanOptions) check() error {
	switch {
	case o.trace == "" && len(o.telemetry)+len(o.queue)+len(o.iterations) == 0 && o.guardrails == "":
		return cli.Usage(errors.New("--trace, --telemetry, --guardrails: name a trace, telemetry, or several"))
	case o.period < 0 || o.period > time.Hour:
		return cli.Usage(fmt.Errorf("--period: %v is not from 0 to 1h", o.period))
	case !(o.price >= 0 && o.price < 1e9):
		return cli.Usage(fmt.Errorf("--price: %g is not from 0 to 1e9", o.price))
	case !(o.least >= 0 && o.least <= 1):
		return cli.Usage(fmt.Errorf("--min-confidence: %g is not from 0 to 1", o.least))
	case o.top < 1:
		return cli.Usage(fmt.Errorf("--top: %d is not positive", o.top))
	case o.described != "" && (o.given("nodes") || o.given("gpus-per-node")):
		return cli.Usage(errors.New("--cluster and --nodes, --gpus-per-node exclude each other"))
	case o.trace == "" && o.labels != "":
		return cli.Usage(errors.New("--labels: are of the jobs of --trace, which is missing"))
	}
	return nil
}

// describe reads the file of the cluster, if one is named.
func (o *patternsScanOptions) describe() error {
	if o.described == "" {
		return nil
	}
	text, err := os.ReadFile(o.described)
	if err == nil {
		o.cluster, err = workload.ParseCluster(text)
	}
	if err != nil {
		return fmt.Errorf("--cluster: %s: %w", o.described, err)
	}
	return nil
}

// run scans.
func (o *patternsScanOptions) run(ctx context.Context, notes io.Writer) (*patternsScan, error) {
	x := patterns.Options{Price: o.price, Period: o.period}
	var err error
	if x.Rules, err = cli.ReadRules("--rules", o.rules, o.only); err != nil {
		return nil, err
	}
	if err := o.describe(); err != nil {
		return nil, err
	}
	r := &patternsScan{kept: map[string]int{}, Waits: map[string]float64{}, Bottlenecks: map[string]int{}}
	files, err := o.files()
	if err != nil {
		return nil, err
	}
	var events []workload.Event
	if o.trace != "" {
		o.how.Events = func(e *workload.Event) { events = append(events, *e) }
		w, report, err := cli.OpenTrace(ctx, notes, o.trace, o.how)
		if err != nil {
			return nil, err
		}
		e := capacity.Evidence{Machines: report.Machines, Declared: report.Declared}
		if err := o.size(notes, w, e); err != nil {
			return nil, err
		}
		r.Trace, r.Synthetic, r.Jobs = w.Name(), w.Synthetic(), w.Len()
		if x.Zero = w.Zero(); events == nil {
			events = patterns.Events(w)
			files.Joiner = telemetry.NewJoiner(w, o.cluster)
		} else { // a log of events has more than jobs
			x.Zero = time.Unix(0, 0).UTC()
			slices.SortStableFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
		}
		names := feed.NodeNames(w, events)
		if why := feed.Places(o.cluster, names, events); why == "" {
			x.Nodes = names
		} else {
			fmt.Fprintf(notes, "note: %s: which node is which is not known, so samples are joined by their jobs only\n",
				why)
		}
		if o.labels != "" {
			if x.Labels, err = readLabels(o.labels); err != nil {
				return nil, err
			}
		}
	} else if o.described == "" && !o.given("nodes") {
		o.cluster = workload.Cluster{}
	}
	x.Cluster = o.cluster
	r.Size = "an unknown cluster"
	if len(o.cluster.Groups) > 0 {
		r.Size = o.cluster.String()
	}
	if err := o.peek(ctx, &x, files); err != nil {
		return nil, err
	}
	x.OnFinding, x.OnJob = r.add, r.job
	s, err := patterns.New(x)
	if err != nil {
		return nil, err
	}
	files.Events = events
	f := feed.New(s, patterns.Lateness(x.Period))
	sent, err := files.Send(ctx, f, x.Zero)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	r.Samples = sent.Samples
	var left []string
	if files.Joiner != nil {
		if err := files.Joiner.Nothing(); err != nil {
			return nil, fmt.Errorf("--telemetry: %w", err)
		}
		r.Joins = files.Joiner.Report()
		left = r.Joins.Left
	} else if joins := s.Joins(); sent.Samples > 0 {
		r.Joins = joins.Report()
		left = r.Joins.Left
	}
	r.finish(s, slices.Concat(sent.Rejected, left, f.Notes()), x.Rules, o.least)
	if o.jobs != "" {
		if err := cli.WriteFile(o.jobs, "--jobs-out", r.writeJobs); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// size completes the cluster from the trace.
func (o *patternsScanOptions) size(notes io.Writer, w *workload.Workload, e capacity.Evidence) error {
	if o.described != "" {
		return nil
	}
	e.Nodes = o.cluster.Groups[0].Nodes
	if o.given("gpus-per-node") {
		e.GPUsPerNode = o.cluster.Groups[0].GPUsPerNode
	}
	found, err := capacity.Infer(w, e)
	switch {
	case errors.Is(err, capacity.ErrUnknown):
		fmt.Fprintln(notes, "note: the size of the cluster is not known: --nodes and --gpus-per-node name it")
		o.cluster = workload.Cluster{}
		return nil
	case err != nil:
		return fmt.Errorf("%w; name the cluster with --nodes and --gpus-per-node", err)
	case found.Assumed || found.Source != capacity.Given:
		fmt.Fprintf(notes, "note: cluster: %s; --nodes and --gpus-per-node set it\n", found)
	}
	o.cluster = found.Cluster
	return nil
}

// peek finds the period of samples, and the zero where there is no trace.
func (o *patternsScanOptions) peek(ctx context.Context, x *patterns.Options, files *feed.Files) error {
	period, first, err := files.Peek(ctx)
	if err != nil {
		return err
	}
	x.Period = cmp.Or(x.Period, period)
	if o.trace != "" {
		return nil
	}
	for i := range files.Guardrails {
		g := &files.Guardrails[i]
		if at := cmp.Or(g.Applied, g.Time); first < 0 || at < first {
			first = at
		}
	}
	if first > 0 {
		x.Zero = time.Unix(0, int64(first)).UTC().Truncate(24 * time.Hour)
	}
	return nil
}

// readGuardrails reads the file of --guardrails in order of time.
func readGuardrails(path string) (all []patterns.Guardrail, err error) {
	in, err := atomicfile.Open(path)
	if err == nil {
		defer in.Close()
		err = patterns.ReadGuardrails(in, func(g *patterns.Guardrail) error {
			all = append(all, *g)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("--guardrails: %s: %w", path, err)
	}
	slices.SortStableFunc(all, func(a, b patterns.Guardrail) int { return cmp.Compare(a.Time, b.Time) })
	return all, nil
}

// files are the streams of a scan but its events.
func (o *patternsScanOptions) files() (f *feed.Files, err error) {
	f = &feed.Files{Telemetry: o.telemetry, Queue: o.queue, Iterations: o.iterations}
	if f.Options, err = o.read.Options(); err != nil {
		return nil, err
	}
	if o.messages != "" {
		if f.Messages, err = readMessages(o.messages); err != nil {
			return nil, err
		}
	}
	if o.guardrails != "" {
		f.Guardrails, err = readGuardrails(o.guardrails)
	}
	return f, err
}
