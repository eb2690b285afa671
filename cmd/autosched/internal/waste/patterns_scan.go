package waste

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
)

// patternsScanOptions are the flags of patterns scan.
type patternsScanOptions struct {
	trace      string
	how        cli.ReadFlags
	telemetry  []string
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
	fl.StringVar(&o.trace, "trace", "", `trace of jobs: a file, or "sample"`)
	o.how.Add(cmd)
	fl.StringArrayVar(&o.telemetry, "telemetry", nil, "file of telemetry of any kind; repeat the flag for several")
	fl.StringArrayVar(&o.queue, "queue", nil, "file of samples of queues")
	fl.StringArrayVar(&o.iterations, "iterations", nil, "file of times of training steps")
	fl.StringVar(&o.messages, "messages", "",
		"CSV file of lines of logs and reasons of ends, with the columns time,job,node,source,message")
	o.guardrailFlag(fl)
	fl.StringVar(&o.labels, "labels", "", "CSV file of job_id,label: labels that rules name, such as interactive and hoard-ok")
	cli.ClusterFlags(cmd, &o.cluster)
	fl.StringVar(&o.described, "cluster", "",
		"JSON file of nodes and virtual clusters, instead of --nodes and --gpus-per-node")
	fl.StringVar(&o.rules, "rules", "", "YAML file of rules, instead of the built-in ones")
	fl.StringSliceVar(&o.only, "rule", nil, "apply these rules only")
	fl.DurationVar(&o.period, "period", 0, "time between two samples of a GPU (default: as the first file shows)")
	fl.Float64Var(&o.price, "price", 0, "price of a GPU-hour, in any currency")
	fl.Float64Var(&o.least, "min-confidence", 0, "leave out findings with less confidence, 0 to 1")
	fl.IntVar(&o.top, "top", 20, "findings to print")
	fl.StringVar(&o.jobs, "jobs-out", "",
		"write why each job waited and what limited it to this CSV file (.gz: compressed)")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

func (o *patternsScanOptions) guardrailFlag(fl *pflag.FlagSet) {
	fl.StringVar(&o.guardrails, "guardrails", "",
		"CSV file of what configurations must not worsen, with the columns "+patterns.GuardrailColumns)
}

// files are those of telemetry.
func (o *patternsScanOptions) files() []string {
	return slices.Concat(o.telemetry, o.queue, o.iterations)
}

func (o *patternsScanOptions) check() error {
	switch {
	case o.trace == "" && len(o.files()) == 0 && o.guardrails == "":
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
		} else { // a log of events has more than jobs
			x.Zero = time.Unix(0, 0).UTC()
			slices.SortStableFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
		}
		o.place(notes, &x, events, nodeNames(w, events))
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
	if err := o.peek(ctx, &x, o.trace != ""); err != nil {
		return nil, err
	}
	x.OnFinding, x.OnJob = r.add, r.job
	s, err := patterns.New(x)
	if err != nil {
		return nil, err
	}
	if err := o.feed(ctx, s, r, events, x.Zero); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	r.finish(s, x.Rules, o.least)
	if o.jobs != "" {
		if err := cli.WriteFile(o.jobs, "--jobs-out", r.writeJobs); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// size completes the cluster by what the trace shows.
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

// place gives the nodes of the cluster the names that the trace has. Where these cannot be its nodes,
// it is not known where jobs ran.
func (o *patternsScanOptions) place(notes io.Writer, x *patterns.Options, events []workload.Event, names []string) {
	why := ""
	for i := range o.cluster.Groups {
		if o.cluster.Groups[i].GPUsPerNode != o.cluster.Groups[0].GPUsPerNode {
			why = "the nodes of the cluster have different sizes"
		}
	}
	if n := o.cluster.Nodes(); n > 0 && len(names) > n {
		why = fmt.Sprintf("the trace names %d nodes, and the cluster has %d", len(names), n)
	}
	if len(names) == 0 || why == "" {
		x.Nodes = names
		return
	}
	fmt.Fprintf(notes, "note: %s: which node is which is not known, so samples are joined by their jobs only\n", why)
	for i := range events {
		events[i].Placement = nil
	}
}

// nodeNames are the names of the nodes that events name and jobs ran on, in order.
func nodeNames(w *workload.Workload, events []workload.Event) []string {
	seen := map[string]bool{}
	var note func(list []workload.Event)
	note = func(list []workload.Event) {
		for i := range list {
			if e := &list[i]; e.Node != "" {
				seen[e.Node] = true
			}
			for _, n := range list[i].Placement {
				seen[n.Node] = true
			}
			note(list[i].Active)
		}
	}
	note(events)
	lists := map[string]bool{}
	for i := range w.Jobs() {
		text := w.Jobs()[i].Nodes
		if text == "" || lists[text] {
			continue
		}
		lists[text] = true
		names, err := slurmtext.HostList(text)
		if err != nil {
			continue
		}
		for _, n := range names {
			seen[n] = true
		}
	}
	return cli.SortedKeys(seen)
}

// errPeeked ends the reading of a file whose beginning is enough.
var errPeeked = errors.New("enough")

// peeked is how many samples show a file's period.
const peeked = 20_000

// peek finds the period of samples, and the zero where there is no trace.
func (o *patternsScanOptions) peek(ctx context.Context, x *patterns.Options, traced bool) error {
	first := time.Duration(-1)
	var gaps []time.Duration
	for _, path := range o.files() {
		last := map[telemetry.GPU]time.Duration{}
		n := 0
		at := func(t time.Duration) error {
			if t > 0 && (first < 0 || t < first) {
				first = t
			}
			if n++; n > peeked {
				return errPeeked
			}
			return nil
		}
		_, err := readTelemetry(ctx, path, telemetry.Visit{
			GPU: func(g *telemetry.GPUSample) error {
				if was, ok := last[g.GPU]; ok && g.Time > was {
					gaps = append(gaps, g.Time-was)
				}
				last[g.GPU] = g.Time
				return at(g.Time)
			},
			Queue:     func(q *telemetry.QueueSample) error { return at(q.Time) },
			Iteration: func(i *telemetry.Iteration) error { return at(i.Time) },
		})
		if err != nil && !errors.Is(err, errPeeked) {
			return err
		}
	}
	if o.guardrails != "" && !traced {
		err := readGuardrails(o.guardrails, func(g *patterns.Guardrail) error {
			if at := cmp.Or(g.Applied, g.Time); first < 0 || at < first {
				first = at
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if x.Period == 0 && len(gaps) > 0 {
		slices.Sort(gaps)
		// Whole multiples of 15 s: the times of samples jitter.
		const grid = 15 * time.Second
		x.Period = min(time.Hour, max(grid, (gaps[len(gaps)/2]+grid-time.Second)/grid*grid))
	}
	if !traced && first > 0 {
		x.Zero = time.Unix(0, int64(first)).UTC().Truncate(24 * time.Hour)
	}
	return nil
}

func readTelemetry(ctx context.Context, path string, visit telemetry.Visit) (*telemetry.Stats, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return telemetry.ReadAll(ctx, f, filepath.Base(path), telemetry.Options{}, visit)
}

// dated is a record with its time since the zero of the scan.
type dated struct {
	at   time.Duration
	send func() error
}

// feed gives all records to the scanner in order of time.
func (o *patternsScanOptions) feed(ctx context.Context, s *patterns.Scanner, r *patternsScan, events []workload.Event,
	zero time.Time) error {
	base := time.Duration(zero.UnixNano())
	if zero.IsZero() {
		base = 0
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sources := []iter.Seq2[dated, error]{func(yield func(dated, error) bool) {
		for i := range events {
			if !yield(dated{events[i].Time, func() error { return s.Event(&events[i]) }}, nil) {
				return
			}
		}
	}}
	for _, list := range []struct {
		paths []string
		keep  func(*telemetry.Visit)
	}{
		{o.telemetry, func(*telemetry.Visit) {}},
		{o.queue, func(v *telemetry.Visit) { v.GPU, v.Iteration = nil, nil }},
		{o.iterations, func(v *telemetry.Visit) { v.GPU, v.Queue = nil, nil }},
	} {
		for _, path := range list.paths {
			sources = append(sources, r.samples(ctx, s, path, base, list.keep))
		}
	}
	if o.messages != "" {
		messages, err := readMessages(o.messages)
		if err != nil {
			return err
		}
		sources = append(sources, func(yield func(dated, error) bool) {
			for i := range messages {
				if !yield(dated{messages[i].Time - base, func() error { return s.Message(&messages[i]) }}, nil) {
					return
				}
			}
		})
	}
	if o.guardrails != "" {
		var all []patterns.Guardrail
		err := readGuardrails(o.guardrails, func(g *patterns.Guardrail) error {
			all = append(all, *g)
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortStableFunc(all, func(a, b patterns.Guardrail) int { return cmp.Compare(a.Time, b.Time) })
		sources = append(sources, func(yield func(dated, error) bool) {
			for i := range all {
				if !yield(dated{all[i].Time - base, func() error { return s.Guardrail(&all[i]) }}, nil) {
					return
				}
			}
		})
	}
	return merge(sources)
}

// readGuardrails reads the file of --guardrails.
func readGuardrails(path string, f func(*patterns.Guardrail) error) error {
	in, err := atomicfile.Open(path)
	if err == nil {
		defer in.Close()
		err = patterns.ReadGuardrails(in, f)
	}
	if err != nil {
		return fmt.Errorf("--guardrails: %s: %w", path, err)
	}
	return nil
}

// samples are those of a file. A record is valid until the next.
func (r *patternsScan) samples(ctx context.Context, s *patterns.Scanner, path string, base time.Duration,
	keep func(*telemetry.Visit)) iter.Seq2[dated, error] {
	return func(yield func(dated, error) bool) {
		one := func(at time.Duration, send func() error) error {
			r.Samples++
			if !yield(dated{at, send}, nil) {
				return errPeeked
			}
			return nil
		}
		var gpu *telemetry.GPUSample
		sendGPU := func() error { return s.GPU(gpu) }
		visit := telemetry.Visit{
			GPU: func(g *telemetry.GPUSample) error {
				gpu = g
				return one(g.Time-base, sendGPU)
			},
			Queue: func(q *telemetry.QueueSample) error {
				return one(q.Time-base, func() error { return s.Queue(q) })
			},
			Iteration: func(i *telemetry.Iteration) error {
				at := i.Time - base
				if i.Time == 0 {
					at = math.MaxInt64 // not known: after all that has a time
				}
				return one(at, func() error { return s.Iteration(i) })
			},
		}
		keep(&visit)
		stats, err := readTelemetry(ctx, path, visit)
		if stats != nil && stats.Rejected > 0 {
			r.rejected = append(r.rejected, fmt.Sprintf("%d of %d rows of %s rejected, first %s; see 'autosched telemetry "+
				"validate'", stats.Rejected, stats.Rows, path, stats.First[0]))
		}
		if err != nil && !errors.Is(err, errPeeked) {
			yield(dated{}, err)
		}
	}
}

// merge sends the records of sources, each in order of time, in the order of all.
func merge(sources []iter.Seq2[dated, error]) error {
	type head struct {
		dated
		next func() (dated, error, bool)
	}
	var heads []*head
	for _, source := range sources {
		next, stop := iter.Pull2(source)
		defer stop()
		h := &head{next: next}
		x, err, ok := next()
		if err != nil {
			return err
		}
		if ok {
			h.dated = x
			heads = append(heads, h)
		}
	}
	for len(heads) > 0 {
		first := slices.MinFunc(heads, func(a, b *head) int { return cmp.Compare(a.at, b.at) })
		if err := first.send(); err != nil {
			return err
		}
		x, err, ok := first.next()
		if err != nil {
			return err
		}
		if first.dated = x; !ok {
			heads = slices.DeleteFunc(heads, func(h *head) bool { return h == first })
		}
	}
	return nil
}
