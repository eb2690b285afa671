package waste

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
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
	top        int
	jobs       string
	json       bool
	plot       cli.PlotFlag
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
		RunE: cli.Report(&o.json, "patterns-scan/v1", o.check, o.scan,
			func(r *patternsScan, w io.Writer) error { return r.print(w, o.top) }),
	}
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.trace, "trace", "", "")
	fl.StringArrayVar(&o.telemetry, "telemetry", nil, "")
	fl.StringArrayVar(&o.queue, "queue", nil, "file of samples of queues")
	fl.StringArrayVar(&o.iterations, "iterations", nil, "file of times of training steps")
	o.read.Add(cmd)
	fl.StringVar(&o.messages, "messages", "",
		"CSV file of lines of logs and reasons of ends, with the columns time,job,node,source,message")
	fl.StringVar(&o.guardrails, "guardrails", "",
		"CSV file of what configurations must not worsen, with the columns "+patterns.GuardrailColumns)
	fl.StringVar(&o.labels, "labels", "", "CSV file of job_id,label: labels that rules name, such as interactive and hoard-ok")
	cli.ClusterFlags(cmd, &o.cluster)
	fl.StringVar(&o.described, "cluster", "", "")
	fl.StringVar(&o.rules, "rules", "", "")
	fl.StringSliceVar(&o.only, "rule", nil, "")
	fl.DurationVar(&o.period, "period", 0, "(default: as the first file shows)")
	fl.Float64Var(&o.price, "price", 0, "price of a GPU-hour, in any currency")
	fl.IntVar(&o.top, "top", 20, "")
	fl.StringVar(&o.jobs, "jobs-out", "", "")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

func (o *patternsScanOptions) check() error {
	switch {
	case o.trace == "" && len(o.telemetry)+len(o.queue)+len(o.iterations) == 0 && o.guardrails == "":
		return cli.Usage(errors.New("--trace, --telemetry, --guardrails: name a trace, telemetry, or several"))
	case o.period < 0 || o.period > time.Hour:
		return cli.Usage(fmt.Errorf("--period: %v is not from 0 to 1h", o.period))
	case !(o.price >= 0 && o.price < 1e9):
		return cli.Usage(fmt.Errorf("--price: %g is not from 0 to 1e9", o.price))
	case o.top < 1:
		return cli.Usage(fmt.Errorf("--top: %d is not positive", o.top))
	case o.described != "" && (o.given("nodes") || o.given("gpus-per-node")):
		return cli.Usage(errors.New("--cluster and --nodes, --gpus-per-node exclude each other"))
	case o.trace == "" && o.labels != "":
		return cli.Usage(errors.New("--labels: are of the jobs of --trace, which is missing"))
	}
	return o.plot.Check()
}

// scan is the run of the command patterns scan.
func (o *patternsScanOptions) scan(ctx context.Context, notes io.Writer) (*patternsScan, error) {
	r, err := o.run(ctx, notes)
	if err != nil {
		return nil, err
	}
	return r, o.plot.Write(func() (*chart.Page, error) { return r.page(o.top) })
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
	r.finish(s, slices.Concat(sent.Rejected, left, f.Notes()), x.Rules)
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

// patternsScan is the result of patterns scan.
type patternsScan struct {
	Trace     string `json:"trace,omitempty"`
	Synthetic bool   `json:"synthetic,omitempty"`
	Size      string `json:"cluster_size"`
	Jobs      int    `json:"jobs"`
	Samples   int    `json:"samples"`
	// Joins says how samples of GPUs were joined to the jobs of the trace.
	Joins *telemetry.JoinReport `json:"joins,omitempty"`
	// Findings are in order of wasted GPU-hours, most first.
	Findings []*patterns.Finding `json:"findings"`
	Wasted   float64             `json:"wasted_gpu_hours"`
	Cost     float64             `json:"cost,omitempty"`
	// Waits are the hours that jobs which ended had waited, by inferred cause, and Bottlenecks the
	// number of jobs of each class.
	Waits       map[string]float64 `json:"wait_hours"`
	Bottlenecks map[string]int     `json:"bottlenecks"`
	// Rules are the applied ones, Examined the ones whose inputs have come, Lacking the inputs that the
	// others lack, and Notes the rules that could not be examined.
	Rules    []string `json:"rules"`
	Examined []string `json:"examined"`
	Lacking  []string `json:"lacking"`
	Notes    []string `json:"notes"`

	titles  map[string]string // of the rules
	kept    map[string]int
	reports []*patterns.JobReport
}

// add keeps a finding as it was last reported.
func (r *patternsScan) add(f *patterns.Finding) {
	key := f.Rule + "\x00" + f.Entity.String() + "\x00" + strconv.FormatInt(f.Opened.UnixNano(), 10)
	i, ok := r.kept[key]
	if !ok {
		i = len(r.Findings)
		r.kept[key], r.Findings = i, append(r.Findings, nil)
	}
	r.Findings[i] = f.Clone()
}

func (r *patternsScan) job(j *patterns.JobReport) {
	for cause, d := range j.Waits {
		r.Waits[cause] += d.Hours()
	}
	r.Bottlenecks[j.Bottleneck]++
	r.reports = append(r.reports, j)
}

// finish ranks the findings.
func (r *patternsScan) finish(s *patterns.Scanner, notes []string, rules *patterns.RuleSet) {
	slices.SortStableFunc(r.Findings, func(a, b *patterns.Finding) int {
		return cmp.Or(cmp.Compare(b.WastedGPUHours, a.WastedGPUHours), cmp.Compare(b.Confidence, a.Confidence),
			a.Opened.Compare(b.Opened))
	})
	for i := range r.Findings {
		r.Wasted += r.Findings[i].WastedGPUHours
		r.Cost += r.Findings[i].Cost
	}
	if r.Findings == nil {
		r.Findings = []*patterns.Finding{}
	}
	r.titles = map[string]string{}
	for i := range rules.Rules {
		r.Rules = append(r.Rules, rules.Rules[i].ID)
		r.titles[rules.Rules[i].ID] = rules.Rules[i].Title
	}
	r.Examined, r.Notes = append([]string{}, s.Examined()...), notes
	if r.Notes == nil {
		r.Notes = []string{}
	}
	r.Lacking = append([]string{}, s.Lacking()...)
}

// verdict describes the extent of a scan without findings.
func verdict(examined, rules, lacking []string) string {
	lack := strings.Join(lacking, ", ")
	switch {
	case len(examined) == 0:
		return fmt.Sprintf("Nothing could be examined: all %d rules lack what they need: %s.", len(rules), lack)
	case len(examined) == len(rules):
		return fmt.Sprintf("Nothing is wrong: %d of %d rules had what they need, and none holds.", len(examined),
			len(rules))
	}
	return fmt.Sprintf("Nothing is wrong in what could be examined: %d of %d rules had what they need, and none holds; "+
		"the others lack: %s.", len(examined), len(rules), lack)
}

func (r *patternsScan) print(w io.Writer, top int) error {
	what := fmt.Sprintf("%s samples", units.Count(r.Samples))
	if r.Trace != "" {
		what = fmt.Sprintf("%s%s: %s jobs, %s", r.Trace, cli.SyntheticLabel(r.Synthetic), units.Count(r.Jobs), what)
	}
	if r.Joins != nil && r.Joins.Samples > 0 {
		what += fmt.Sprintf(" (%s of GPUs joined to jobs%s)", units.Count(r.Joins.Joined), r.Joins.How())
	}
	fmt.Fprintf(w, "%s, on %s\n\n", what, r.Size)
	causes := r.causes()
	table.Strong(w, r.message())
	for i := range causes[:min(top, len(causes))] {
		causes[i].print(w, i+1)
	}
	if n := len(causes) - top; n > 0 {
		fmt.Fprintf(w, "\n... and %s more (--top)\n", units.Plural(n, "cause"))
	}
	r.printWaits(w)
	if len(r.Notes) > 0 {
		fmt.Fprintln(w, "\nNot examined:")
		for _, n := range r.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
	return nil
}

// cause has the findings of a rule with one action, the largest waste first.
type cause struct {
	title        string
	wasted, cost float64
	findings     []*patterns.Finding
}

// causes folds the findings, the largest waste first.
func (r *patternsScan) causes() (out []cause) {
	at := map[[2]string]int{}
	for _, f := range r.Findings {
		key := [2]string{f.Rule, f.Action}
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			title := fmt.Sprintf("%s (%s)", r.titles[f.Rule], f.Rule)
			if r.titles[f.Rule] == "" {
				title = f.Rule
			}
			out = append(out, cause{title: title})
		}
		c := &out[i]
		c.wasted, c.cost, c.findings = c.wasted+f.WastedGPUHours, c.cost+f.Cost, append(c.findings, f)
	}
	slices.SortStableFunc(out, func(a, b cause) int { return cmp.Compare(b.wasted, a.wasted) })
	return out
}

func wasteText(hours, cost float64) string {
	text := fmt.Sprintf("%.1f GPU-hours", hours)
	if cost > 0 {
		text += fmt.Sprintf(" at a cost of %.2f", cost)
	}
	return text
}

// maxFolded bounds the lines of the findings of a cause besides the largest.
const maxFolded = 4

// print prints the largest finding of a cause, and a line for each of the next.
func (c *cause) print(w io.Writer, n int) {
	fmt.Fprintf(w, "\n%d. %s: %s, %s\n", n, c.title, units.Plural(len(c.findings), "finding"), wasteText(c.wasted,
		c.cost))
	first := c.findings[0]
	table.Prose(w, "   ", first.Words)
	for i, f := range c.findings[:min(len(c.findings), 1+maxFolded)] {
		until := f.Closed.Format(time.RFC3339)
		if f.Open {
			until = "now"
		}
		also := ""
		if i > 0 {
			also = "also "
		}
		fmt.Fprintf(w, "   %s%s: %s, found at %s, from %s to %s, confidence %.2f\n", also, f.Entity,
			wasteText(f.WastedGPUHours, f.Cost), f.Opened.Format(time.RFC3339), f.Began.Format(time.RFC3339), until,
			f.Confidence)
		if i > 0 {
			continue
		}
		for _, e := range f.Evidence {
			fmt.Fprintf(w, "   - %s\n", evidenceText(e.What, e.Value, e.Threshold, e.Unit))
		}
		if len(f.Affected) > 0 {
			fmt.Fprintf(w, "   affected: %s\n", strings.Join(f.Affected, ", "))
		}
	}
	if rest := len(c.findings) - 1 - maxFolded; rest > 0 {
		fmt.Fprintf(w, "   ... and %d more (--json)\n", rest)
	}
}

// plain has the numbers of evidence in words for people, with their units where the shown ones need a context.
var plain = map[string][2]string{
	"wait_hours":           {"time waited", "h"},
	"wait_over_usual":      {"wait, as a multiple of the longest usual one of jobs as wide", ""},
	"overtaken":            {"work of later jobs that started first, as a multiple of its own", ""},
	"run_hours":            {"time run", "h"},
	"run_over_usual":       {"run time, as a multiple of the longest usual one of its kind", ""},
	"beyond_limit_minutes": {"time beyond its limit", "min"},
	"silent_hours":         {"time since its last iteration or line of a log", "h"},
	"used_share":           {"share of the samples in which a GPU was used", ""},
	"used_run_minutes":     {"mean length of a spell of use", "min"},
	"wanted":               {"GPUs of the smallest waiting job that could run on the unused ones", "GPUs"},
	"busy":                 {"use of the GPUs, 0 to 1", ""},
	"power_excess":         {"power above that of an idle GPU", "W"},
	"processes":            {"processes on a GPU", ""},
	"memory":               {"share of the memory that is taken", ""},
	"clock":                {"clock, as a share of the application clock", ""},
	"throttled":            {"share of the time throttled", ""},
	"throttled_power":      {"share of the time throttled for power", ""},
	"throttled_thermal":    {"share of the time throttled for heat", ""},
	"throttled_hardware":   {"share of the time throttled by the hardware", ""},
	"blocked":              {"share of the time in which no waiting job fitted", ""},
	"quota_use":            {"use of the quota, 0 to 1", ""},
	"others_waiting":       {"share of the time in which jobs of others waited", ""},
	"arriving GPU-hours":   {"work that arrived, and the threshold is the work served", "GPU-hours"},
	"one-sided Mann-Kendall p of rising pending GPUs": {"chance that pending GPUs rise by accident", ""},
}

// statistics names the functions over a window that lead the name of a number.
var statistics = map[string]string{"mean": "mean ", "max": "highest ", "min": "lowest ", "quantile": "usual highest ",
	"share": "", "slope": "rise per hour of the "}

// evidenceText describes a number that a finding rests on, or an event, which has neither value nor threshold.
func evidenceText(name string, value, threshold float64, unit string) string {
	rest, gpus := strings.CutPrefix(name, "GPUs with ")
	fn, signal, found := strings.Cut(rest, " ")
	statistic, known := statistics[fn]
	if !found || !known {
		statistic, signal = "", rest
	}
	if words, ok := plain[signal]; ok && gpus {
		name = "GPUs that count by the " + statistic + words[0]
	} else if ok {
		name, unit = statistic+words[0], words[1]
	} else if unit == "" && value == 1 && threshold == 1 {
		return name
	}
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s: %s%s, threshold %s%s", name, cli.ThreeDigits(value), unit, cli.ThreeDigits(threshold), unit)
}

// printWaits prints the causes of waits and the bottlenecks of jobs.
func (r *patternsScan) printWaits(w io.Writer) {
	total := 0.
	for _, h := range r.Waits {
		total += h
	}
	if total > 0 {
		var parts []string
		causes := slices.Collect(maps.Keys(r.Waits))
		slices.SortFunc(causes, func(a, b string) int {
			return cmp.Or(cmp.Compare(r.Waits[b], r.Waits[a]), cmp.Compare(a, b))
		})
		for _, c := range causes {
			parts = append(parts, fmt.Sprintf("%s %s", strings.ReplaceAll(c, "_", " "),
				units.Percent(r.Waits[c]/total)))
		}
		fmt.Fprintf(w, "\nWhy jobs waited (%s in all), inferred from events: %s\n", units.Duration(3600*total),
			strings.Join(parts, ", "))
	}
	var classes []string
	for _, c := range slices.Sorted(maps.Keys(r.Bottlenecks)) {
		if c != "cannot_tell" {
			classes = append(classes, fmt.Sprintf("%s %d", strings.ReplaceAll(c, "_", " "), r.Bottlenecks[c]))
		}
	}
	if len(classes) > 0 {
		fmt.Fprintf(w, "What limited jobs: %s; cannot tell %d\n",
			strings.Join(classes, ", "), r.Bottlenecks["cannot_tell"])
	}
}

// writeJobs writes a row for each job that ended.
func (r *patternsScan) writeJobs(out io.Writer) error {
	w := csv.NewWriter(out)
	head := []string{"job_id", "bottleneck", "stability"}
	causes := slices.Sorted(maps.Keys(r.Waits))
	for _, c := range causes {
		head = append(head, "wait_"+c+"_s")
	}
	w.Write(head)
	for _, j := range r.reports {
		row := []string{j.Job, j.Bottleneck, j.Stability}
		for _, c := range causes {
			row = append(row, strconv.FormatFloat(j.Waits[c].Seconds(), 'f', -1, 64))
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
}

// readRows reads the file of a flag, a CSV with a header.
func readRows(path, flag string, columns []string, each func(map[string]string) error) error {
	in, err := atomicfile.Open(path)
	if err == nil {
		defer in.Close()
		if err = lines.Rows(in, columns, each); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// readLabels reads the labels of jobs.
func readLabels(path string) (func(*workload.Job) []string, error) {
	labels := map[string][]string{}
	err := readRows(path, "labels", []string{"job_id", "label"}, func(row map[string]string) error {
		if row["job_id"] == "" || row["label"] == "" {
			return fmt.Errorf("job_id, label: are empty")
		}
		labels[row["job_id"]] = append(labels[row["job_id"]], row["label"])
		return nil
	})
	return func(j *workload.Job) []string { return labels[j.ID] }, err
}

// readMessages reads lines of logs in order of time.
func readMessages(path string) (out []patterns.Message, err error) {
	err = readRows(path, "messages", []string{"time", "job", "message"}, func(row map[string]string) error {
		at, err := time.Parse(time.RFC3339, row["time"])
		if err != nil {
			return fmt.Errorf("time: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", row["time"])
		}
		out = append(out, patterns.Message{Time: time.Duration(at.UnixNano()), Job: row["job"], Node: row["node"],
			Source: row["source"], Text: row["message"]})
		return nil
	})
	slices.SortStableFunc(out, func(a, b patterns.Message) int { return cmp.Compare(a.Time, b.Time) })
	return out, err
}
