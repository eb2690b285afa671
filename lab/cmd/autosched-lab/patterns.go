package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/inject"
	"github.com/autosched/autosched/lab/score"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/workload"
)

// benchPatternsOptions are the flags of patterns.
type benchPatternsOptions struct {
	plot               cli.PlotFlag
	trace, test        string
	curves, testCurves string
	prevalence         []float64
	windows, days      int
	nodes, gpus        int
	load               float64
	period             time.Duration
	seed               uint64
	varied             bool
	ruleFile           string
	pods, iterations   string
	examples           int
	json               bool
	how                cli.ReadFlags
	rules              *patterns.RuleSet
}

func newBenchPatternsCmd() *cobra.Command {
	var o benchPatternsOptions
	cmd := &cobra.Command{
		Use:   "patterns",
		Short: "Measure the pattern rules on traces with injected cases",
		Long: `Places the jobs of a trace on a cluster by simulation, gives their GPUs
telemetry drawn from published distributions, injects cases of each pattern
beside hard negatives, scans the whole, and compares findings with labels. Half of
the cases lie within 30 % of a threshold of their rule. --test names a second
trace, which no threshold was chosen on.

Columns: F1 near counts only the cases near a threshold, and all false alerts;
PR-AUC is by the findings' confidence; balanced is the mean of the shares of cases
found and of other entities without an alert; minutes is the median from a
case's begin until it is found; false is alerts per 1,000 GPU-days; waste is the
share of the wasted GPU-hours that findings count. Rules with a star propose to
stop or shrink a job, or to hold jobs back. 95 % intervals are of a bootstrap over windows.

--pods scans recorded inference pods, in which hardly anything is wrong, and
--iterations recorded iteration times of jobs.`,
		Example: `  autosched-lab patterns --trace sample --windows 4 --prevalence 5
  autosched-lab patterns --trace philly.csv.gz --test pai.csv.gz --test-curves pai --windows 20 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "patterns-benchmark/v1", r,
				func() (*chart.Page, error) { return patternsPage(r, o.examples) },
				func(w io.Writer) error { return printPatternsBench(w, r, o.examples) })
		},
	}
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.trace, "trace", "", `trace file, or "sample" or "sample-shifts", synthetic ones that are built in (required)`)
	fl.StringVar(&o.test, "test", "", "second trace to measure the same rules on")
	fl.StringVar(&o.curves, "curves", "philly", "cluster whose telemetry is drawn: philly, pai, seren, kalos")
	fl.StringVar(&o.testCurves, "test-curves", "seren", "the same for --test")
	fl.Float64SliceVar(&o.prevalence, "prevalence", []float64{2, 5, 10},
		"percent of a rule's entities that are cases, comma-separated")
	fl.IntVar(&o.windows, "windows", 20, "windows of each trace")
	fl.IntVar(&o.days, "days", 2, "length of a window")
	fl.IntVar(&o.nodes, "nodes", 20, "nodes of the cluster")
	fl.IntVar(&o.gpus, "gpus-per-node", 8, "GPUs of a node")
	fl.Float64Var(&o.load, "load", 1.2, "GPU-time that the jobs ask for over capacity; a trace with more is thinned")
	fl.DurationVar(&o.period, "period", time.Minute, "time between two samples of a GPU")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of everything random")
	fl.BoolVar(&o.varied, "varied", false, "inject other shapes: waves, bursts, spells, heavy tails, two patterns at once; lose, repeat and delay samples")
	fl.StringVar(&o.ruleFile, "rules", "", "YAML file of rules instead of the built-in ones")
	fl.StringVar(&o.pods, "pods", "", "CSV file of unix,pod,gpu_util,gpu_memory_used_mib to scan for false alarms")
	fl.StringVar(&o.iterations, "iterations", "", "CSV file of job,worker,gpu_share_percent,iteration,batch_time to scan")
	fl.IntVar(&o.examples, "top", 0, "missed cases and false alerts to list")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

// check checks all that needs no trace.
func (o *benchPatternsOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	if o.trace == "" {
		return cli.Usage(errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`))
	}
	if len(o.prevalence) == 0 {
		return cli.Usage(errors.New("--prevalence: a number is missing"))
	}
	for _, p := range o.prevalence {
		if !(p > 0 && p <= 50) {
			return cli.Usage(fmt.Errorf("--prevalence: %g is not above 0 and at most 50 percent", p))
		}
	}
	if o.windows < 1 || o.days < 1 || o.nodes < 1 || o.gpus < 1 || o.examples < 0 {
		return cli.Usage(fmt.Errorf("--windows %d, --days %d, --nodes %d, --gpus-per-node %d, --top %d: want at least "+
			"1, 1, 1, 1 and 0", o.windows, o.days, o.nodes, o.gpus, o.examples))
	}
	o.rules = patterns.Builtin()
	if o.ruleFile != "" {
		var err error
		if o.rules, err = cli.ReadFile(o.ruleFile, func(r io.Reader) (*patterns.RuleSet, error) {
			return patterns.ReadRules(r, o.ruleFile)
		}); err != nil {
			return fmt.Errorf("--rules: %w", err)
		}
	}
	return nil
}

// patternsTable is the measures of a trace at a prevalence.
type patternsTable struct {
	Trace      string  `json:"trace"`
	Test       bool    `json:"test"`
	Curves     string  `json:"curves"`
	Prevalence float64 `json:"prevalence_percent"`
	*score.Report
}

// patternsBench is the result.
type patternsBench struct {
	Windows int               `json:"windows"`
	Days    int               `json:"days"`
	Seed    uint64            `json:"seed"`
	Tables  []patternsTable   `json:"tables"`
	Pods    *podsResult       `json:"pods,omitempty"`
	Steps   *iterationsResult `json:"iterations,omitempty"`
}

// run measures. Notes and progress go to notes.
func (o *benchPatternsOptions) run(ctx context.Context, notes io.Writer) (*patternsBench, error) {
	out := &patternsBench{Windows: o.windows, Days: o.days, Seed: o.seed}
	for i, path := range []string{o.trace, o.test} {
		if path == "" {
			continue
		}
		w, _, err := cli.OpenTrace(ctx, notes, path, o.how)
		if err != nil {
			return nil, err
		}
		curves := o.curves
		if i > 0 {
			curves = o.testCurves
		}
		for _, p := range o.prevalence {
			t, err := o.measure(ctx, notes, w, curves, p)
			if err != nil {
				return nil, err
			}
			t.Test = i > 0
			out.Tables = append(out.Tables, t)
		}
	}
	var err error
	if o.pods != "" {
		if out.Pods, err = scanPods(o.pods, o.rules); err != nil {
			return nil, fmt.Errorf("--pods: %w", err)
		}
	}
	if o.iterations != "" {
		if out.Steps, err = scanIterations(o.iterations, o.rules); err != nil {
			return nil, fmt.Errorf("--iterations: %w", err)
		}
	}
	return out, nil
}

// windowsOf are windows of a trace with about as many jobs from one begin to the next. They overlap
// where it is too short.
func windowsOf(w *workload.Workload, n, days int) ([][2]time.Duration, error) {
	first, last := w.Span()
	length := time.Duration(days) * 24 * time.Hour
	first = max(first, 0)
	if last-first < length {
		return nil, fmt.Errorf("%s: spans %v, less than a window of %d days: give --days", w.Name(),
			(last - first).Round(time.Hour), days)
	}
	out := make([][2]time.Duration, n)
	jobs := w.Jobs()
	for i := range out {
		from := min(max(jobs[i*len(jobs)/n].Submit.Truncate(time.Hour), first), last-length)
		out[i] = [2]time.Duration{from, from + length}
	}
	return out, nil
}

func (o *benchPatternsOptions) measure(ctx context.Context, notes io.Writer, w *workload.Workload, curves string,
	percent float64) (patternsTable, error) {
	t := patternsTable{Trace: w.Name(), Curves: curves, Prevalence: percent}
	windows, err := windowsOf(w, o.windows, o.days)
	if err != nil {
		return t, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	var b score.Bench
	for i, at := range windows {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		line.Show("%s at %g %%: window %d of %d", w.Name(), percent, i+1, len(windows))
		in := inject.Options{Trace: w, From: at[0], To: at[1], Nodes: o.nodes, GPUsPerNode: o.gpus,
			Load: o.load, Curves: curves, Period: o.period, Prevalence: percent / 100, Varied: o.varied,
			Seed: o.seed + uint64(i)<<20}
		s, err := inject.New(in)
		if err != nil {
			return t, err
		}
		quotas, err := inject.NewQuotas(in)
		if err != nil {
			return t, err
		}
		found, scanNotes, err := score.Scan(s, o.rules)
		if err != nil {
			return t, err
		}
		for _, n := range scanNotes {
			if !strings.HasSuffix(n, ": quota_hoarding") { // its streams are their own
				b.Note(n)
			}
		}
		ofQuotas, _, err := score.Scan(quotas, o.rules)
		if err != nil {
			return t, err
		}
		b.Add(s, found)
		b.Add(quotas, ofQuotas)
	}
	t.Report = b.Report(o.seed)
	return t, nil
}

func printPatternsBench(w io.Writer, r *patternsBench, examples int) error {
	for i, t := range r.Tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s, telemetry of %s, prevalence %g %%: %s of %s, %s, %.0f GPU-days\n\n", t.Trace, t.Curves,
			t.Prevalence, units.Plural(t.Streams, "window"), units.Plural(r.Days, "day"), units.Plural(t.Jobs, "job"),
			t.GPUDays)
		tw := table.Numbers(w,
			"rule\tcases\tof\tprecision\trecall\tF1\t95 %\tF1 near\tPR-AUC\tbalanced\tminutes\tfalse\twaste\t")
		for _, x := range t.Rules {
			name := x.Rule
			if x.Stops {
				name += "*"
			}
			fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, x.Cases, x.Units,
				scoreText(x.Precision, "%.3f"), scoreText(x.Recall, "%.3f"), scoreText(x.F1, "%.3f"),
				scoreInterval(x.F1), scoreText(x.F1Near, "%.3f"), scoreText(x.PRAUC, "%.3f"), scoreText(x.Balanced, "%.3f"),
				scoreText(x.Minutes, "%.0f"), scoreText(x.PerGPUDays, "%.2f"), scoreText(x.Waste, "%.2f"))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		for _, rule := range slices.Sorted(maps.Keys(t.Unjudged)) {
			fmt.Fprintf(w, "not judged: %s of %s on the trace's own queues and waiting jobs\n",
				units.Plural(t.Unjudged[rule], "finding"), rule)
		}
		for _, n := range t.Notes {
			fmt.Fprintf(w, "note: %s\n", n)
		}
		for _, m := range t.Missed[:min(examples, len(t.Missed))] {
			fmt.Fprintf(w, "missed: %s\n", m)
		}
		for _, m := range t.Wrong[:min(examples, len(t.Wrong))] {
			fmt.Fprintf(w, "false alert: %s\n", m)
		}
	}
	if p := r.Pods; p != nil {
		fmt.Fprintf(w, "\n%s: %s, %s\n", p.File, units.Plural(p.Pods, "pod"), units.Plural(p.Samples, "sample"))
		for _, rule := range slices.Sorted(maps.Keys(p.Findings)) {
			fmt.Fprintf(w, "  %s: %s\n", rule, strings.Join(p.Findings[rule], " "))
		}
	}
	if p := r.Steps; p != nil {
		fmt.Fprintf(w, "\n%s: %s\n", p.File, units.Plural(p.Rows, "row"))
		for _, rule := range slices.Sorted(maps.Keys(p.Findings)) {
			fmt.Fprintf(w, "  %s: %s\n", rule, strings.Join(p.Findings[rule], " "))
		}
	}
	return nil
}

func scoreText(n score.Number, format string) string {
	if !n.Known {
		return "-"
	}
	return fmt.Sprintf(format, n.Value)
}

func scoreInterval(n score.Number) string {
	if !n.Known {
		return "-"
	}
	return fmt.Sprintf("%.2f to %.2f", n.Low, n.High)
}
