package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/plan"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// planOptions are the flags of plan.
type planOptions struct {
	plot    cli.PlotFlag
	history cli.HistoryFlags
	keep    []string
	moves   []string
	group   string

	// After check.
	start  space.Config
	bounds []round.Constraint
	quotas []plan.Move
}

func newPlanCmd() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Find how many nodes keep a bound, and what a node or a moved quota changes",
		Long: `Simulates a history on clusters of other sizes, under one configuration of a
scheduler: on the cluster as it is, with one node less and one more, and with each
--move-quota. With --subject-to it searches for the least number of nodes that keeps all
bounds.

Intervals hold 95 % of 400 draws of the history's blocks (weeks, or days or hours
of a short history). Of the number of nodes, they are the numbers that keep the
bounds in 2.5 % and in 97.5 % of the draws.

Of several groups of nodes, --node-group says whose number varies. Jobs are submitted as
recorded, whatever the queue; all nodes are up.
docs/compare.md says more.`,
		Example: `  autosched plan --trace sample --scheduler tiresias --subject-to 'p95_queue<=6h'
  autosched plan --trace jobs.csv.gz --nodes 70 --scheduler fifo --set backfill=true --subject-to 'p95_queue<=1h' --subject-to 'avg_jct<=1.05*incumbent'
  autosched plan --trace sample --scheduler kueue --vc auto --quota borrow --move-quota vc-h:vc-a:8 --json`,
		Args: cli.NoArgs,
		RunE: cli.Report(&o.history.JSON, "plan/v1", o.check, o.run, (*planReport).print),
	}
	o.history.Add(cmd)
	o.history.AddConclusion(cmd)
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&o.keep, "subject-to", nil, "")
	fl.StringArrayVar(&o.moves, "move-quota", nil,
		"FROM:TO:GPUS, repeatable: try that number of GPUs of one tenant's quota with another")
	fl.StringVar(&o.group, "node-group", "", "group of nodes whose number varies: its place from 1 on, its name, partition "+
		"or GPU model (default: the one with the most GPUs)")
	return cmd
}

// check checks all that needs no trace.
func (o *planOptions) check() error {
	var err error
	if _, o.start, err = o.history.Check(); err != nil {
		return err
	}
	for _, text := range o.keep {
		c, err := round.ParseConstraint(text)
		if err != nil {
			return cli.Usage(fmt.Errorf("--subject-to: %w", err))
		}
		if round.Metered(c.Metric) {
			return cli.Usage(fmt.Errorf("--subject-to: %s: %w", c, round.ErrNoMeter))
		}
		if c.Factor != 0 && round.PerTenant(c.Metric) {
			return cli.Usage(fmt.Errorf("--subject-to: %s is of tenants: give a number, as in %s<=1h", c, c.Metric))
		}
		o.bounds = append(o.bounds, c)
	}
	for _, text := range o.moves {
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			return cli.Usage(fmt.Errorf("--move-quota: %q is not FROM:TO:GPUS", text))
		}
		gpus, err := strconv.Atoi(parts[2])
		if err != nil || gpus < 1 || gpus > workload.MaxGPUs {
			return cli.Usage(fmt.Errorf("--move-quota: %q: %q is not a number of GPUs", text, parts[2]))
		}
		if parts[0] == parts[1] {
			return cli.Usage(fmt.Errorf("--move-quota: %q names one tenant twice", text))
		}
		o.quotas = append(o.quotas, plan.Move{From: parts[0], To: parts[1], GPUs: gpus})
	}
	if len(o.moves) > 0 && o.history.Quota.Quota == cli.QuotaNames[simulator.QuotaOff] {
		return cli.Usage(errors.New("--move-quota needs quotas: --vc with --quota strict or borrow"))
	}
	return o.plot.Check()
}

// run simulates. Notes and progress go to notes.
func (o *planOptions) run(ctx context.Context, notes io.Writer) (*planReport, error) {
	in, err := o.history.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	cluster := o.history.Cluster
	group, err := groupNamed(cluster, o.group)
	if err != nil {
		return nil, err
	}
	if in.Trace.Window(in.From, in.To).Ended() == 0 {
		return nil, fmt.Errorf("no job of %s that ended is submitted between --from and --to", in.Trace.Name())
	}
	graded, err := o.history.Grade(ctx, in, in.Window(), in.Scheduler, o.start)
	if err != nil {
		return nil, err
	}
	w := in.Jobs()
	line := cli.NewProgressLine(notes)
	r, err := plan.Run(ctx, plan.Options{
		Trace: w, Cluster: cluster, Group: group, Scheduler: in.Scheduler, Config: o.start,
		Simulate: in.Simulation(cluster),
		Keep:     o.bounds, Moves: o.quotas, AutoVCs: o.history.Quota.Auto(), Seed: o.history.Seed,
		Progress: func(n int, c workload.Cluster) { line.Show("simulation %d: %s", n, c) },
	})
	line.Clear()
	if err != nil {
		return nil, err
	}
	out := &planReport{
		Trace: in.Trace.Name(), Synthetic: in.Trace.Synthetic(),
		From: in.Trace.Clock(in.From).Format(time.RFC3339), To: in.Trace.Clock(in.To).Format(time.RFC3339),
		Cluster: cluster.String(), Scheduler: in.Scheduler.Name,
		Configuration: o.start, Seed: o.history.Seed, Report: r, group: cluster.Groups[group],
	}
	if out.Verdict, err = o.history.Ask(ctx, in, replay.AskOptions{Goal: round.Minimise(round.Objectives[0]),
		InForce: o.start, Fidelity: graded}, notes); err != nil {
		return nil, err
	}
	for _, c := range o.bounds {
		out.Keep = append(out.Keep, c.String())
	}
	if len(cluster.Groups) > 1 {
		g := cluster
		g.Groups = g.Groups[group : group+1]
		out.Group = g.String()
	}
	out.Assumptions = assumptions(w, o.history.Quota.Auto(), len(out.Group) > 0)
	return out, o.plot.Write(out.page)
}

// groupNamed finds a group by its place, name, partition or GPU model; "" is the one with
// the most GPUs.
func groupNamed(c workload.Cluster, name string) (int, error) {
	most := 0
	for i, g := range c.Groups {
		if name != "" && (name == strconv.Itoa(i+1) || name == g.Name || name == g.Partition || name == g.GPUModel) {
			return i, nil
		}
		if m := c.Groups[most]; g.Nodes*g.GPUsPerNode > m.Nodes*m.GPUsPerNode {
			most = i
		}
	}
	if name != "" {
		return 0, cli.Usage(fmt.Errorf("--node-group: %q is none of %s: name its place (1 is the first), its name, "+
			"partition or GPU model", name, c))
	}
	return most, nil
}

// assumptions returns the assumptions of a plan.
func assumptions(w *workload.Workload, auto, groups bool) []string {
	out := []string{"jobs are submitted as recorded, with the recorded run times, whatever the queue",
		"the cluster is empty before the warm-up, and all nodes are up throughout",
		"more nodes keep what fewer keep"}
	if groups {
		out = append(out, "the other groups of nodes stay as they are")
	}
	if auto {
		out = append(out, "quotas are divided anew for every number of nodes, by shares of the GPU-time")
	}
	if w.Synthetic() {
		out = append(out, "the history is synthetic")
	}
	return out
}

// planReport is the result of plan.
type planReport struct {
	Trace         string       `json:"trace"`
	Synthetic     bool         `json:"synthetic"`
	From          string       `json:"from"`
	To            string       `json:"to"`
	Cluster       string       `json:"cluster"`
	Group         string       `json:"group,omitempty"` // whose number varies, of several
	Scheduler     string       `json:"scheduler"`
	Configuration space.Config `json:"configuration"`
	Keep          []string     `json:"subject_to,omitempty"`
	Seed          uint64       `json:"seed"`
	// Verdict is whether other settings are better on the cluster as it is.
	Verdict *replay.Verdict `json:"verdict"`
	*plan.Report
	Assumptions []string `json:"assumptions"`

	group workload.NodeGroup
}

func (r *planReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s%s, %s .. %s\n%s jobs on %s, scheduler %s, %s\n", r.Trace, cli.SyntheticLabel(r.Synthetic),
		r.From, r.To,
		units.Count(r.Jobs), r.Cluster, r.Scheduler, r.Configuration)
	if r.Group != "" {
		fmt.Fprintf(w, "The number of %s varies.\n", r.Group)
	}
	fmt.Fprintln(w)
	t := table.Numbers(w, "")
	fmt.Fprint(t, "what if\tnodes\tGPUs\t")
	for _, m := range r.Cases[0].Metrics {
		fmt.Fprintf(t, "%s\tinterval\t", m.Metric)
	}
	fmt.Fprintln(t, "utilisation\tkept\t")
	for i := range r.Cases {
		c := &r.Cases[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t", c.Name, c.Nodes, c.GPUs)
		for k := range r.Cases[0].Metrics {
			if c.Refused != "" {
				fmt.Fprint(t, "\t\t")
				continue
			}
			m := &c.Metrics[k]
			fmt.Fprintf(t, "%s\t%s\t", formatPlanned(m.Metric, m.Value), r.interval(m))
		}
		kept, used := map[bool]string{true: "yes", false: "no"}[c.Keeps], units.Percent(c.Utilization)
		if len(r.Keep) == 0 {
			kept = ""
		}
		if c.Refused != "" {
			used = ""
		}
		fmt.Fprintf(t, "%s\t%s\t\n", used, kept)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for i := range r.Cases {
		r.explainCase(w, &r.Cases[i])
	}
	if r.Answer != nil {
		table.Strong(w, r.answer())
	}
	fmt.Fprintln(w, "\nOn the cluster as it is:")
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	fmt.Fprintln(w)
	intervals := fmt.Sprintf("95 %% of draws of %d blocks of %s, seed %d", r.Blocks, r.Block, r.Seed)
	if r.Short {
		intervals = "none, as all jobs are submitted within a quarter of an hour"
	}
	table.Prose(w, "", fmt.Sprintf("Intervals: %s; %s.", intervals, units.Plural(r.Simulations, "simulation")))
	table.Prose(w, "", fmt.Sprintf("Assumed: %s.", strings.Join(r.Assumptions, "; ")))
	return nil
}

func (r *planReport) interval(e *plan.Estimate) string {
	if r.Short {
		return "-"
	}
	return formatPlanned(e.Metric, e.Low) + " .. " + formatPlanned(e.Metric, e.High)
}

// explainCase says why a case is refused, and how a move affects its tenants.
func (r *planReport) explainCase(w io.Writer, c *plan.Case) {
	if c.Refused != "" {
		table.Prose(w, "", fmt.Sprintf("%s: %s.", c.Name, strings.TrimPrefix(c.Refused, "simulate: ")))
	}
	for _, t := range c.Tenants {
		table.Prose(w, "", fmt.Sprintf("%s: %s has %d GPUs instead of %d, and %s %s (%s) instead of %s (%s).", c.Name,
			t.Tenant, t.After, t.Before, t.Is.Metric, formatPlanned(t.Is.Metric, t.Is.Value), r.interval(&t.Is),
			formatPlanned(t.Was.Metric, t.Was.Value), r.interval(&t.Was)))
	}
}

// answer is the number of nodes in words.
func (r *planReport) answer() string {
	a, keep := r.Answer, strings.Join(r.Keep, " and ")
	if a.Nodes == 0 {
		if r.Group != "" {
			return fmt.Sprintf("No number of these nodes keeps %s: with %d, no job needs to wait for one of them.",
				keep, a.Most)
		}
		return fmt.Sprintf("No number of nodes keeps %s: with %d, no job needs to wait for a GPU.", keep, a.Most)
	}
	number := func(n int) string {
		if n == 0 {
			return fmt.Sprintf("more than %d", a.Most)
		}
		return strconv.Itoa(n)
	}
	interval := fmt.Sprintf(" (95 %% interval: %s .. %s nodes)", number(a.Low), number(a.High))
	if r.Short {
		interval = ""
	}
	text := fmt.Sprintf("%s of %d GPUs %s %s%s; there are %d.", units.Plural(a.Nodes, "node"), r.group.GPUsPerNode,
		map[bool]string{true: "keeps", false: "keep"}[a.Nodes == 1], keep, interval, r.group.Nodes)
	if len(a.Broken) > 0 {
		text += fmt.Sprintf(" Yet %v, which are more, do not: the order of jobs differs by luck; see the interval.",
			a.Broken)
	}
	return text
}

// formatPlanned formats spans in words, which are long here, and other metrics as everywhere.
func formatPlanned(metric string, v float64) string {
	if round.Unit(metric) == "s" {
		return units.Duration(v)
	}
	return round.FormatMetric(metric, v)
}
