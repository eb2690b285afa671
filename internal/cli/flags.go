package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
	"github.com/autosched/autosched/workload/trace"
)

// ReplayFlags are the flags of commands that replay a trace on a cluster.
type ReplayFlags struct {
	Trace       string
	how         ReadFlags
	from, to    string
	warmup      time.Duration
	Cluster     workload.Cluster
	ClusterFile string // file of the cluster
	Scheduler   string
	round       time.Duration
	Placement   string
	Seed        uint64
	nodes       string // file of node events
	skipWider   bool
	JSON        bool
	Quota       quotaFlags
	Models      ModelsFlag
	protect     ProtectFlags
	Given       func(flag string) bool
	changing    bool                  // the command replays node events
	narrowed    *schedulers.Scheduler // of --site, nil without
	// generate makes the trace instead of reading it.
	generate func(context.Context) (*workload.Workload, error)
}

// Add adds the flags of a trace, a cluster and its simulation.
func (f *ReplayFlags) Add(cmd *cobra.Command) {
	f.addTrace(cmd)
	f.addSimulation(cmd)
}

// addTrace adds the flags of the trace and the cluster.
func (f *ReplayFlags) addTrace(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.Trace, "trace", "", "")
	f.Cluster = workload.Uniform(0, 0)
	fl.StringVar(&f.ClusterFile, "cluster", "", "")
	fl.IntVar(&f.Cluster.Groups[0].Nodes, "nodes", 0, "")
	fl.IntVar(&f.Cluster.Groups[0].GPUsPerNode, "gpus-per-node", 0, "(default: as the history shows)")
	fl.BoolVar(&f.JSON, "json", false, "")
}

// addSimulation adds the flags of the window and the simulation.
func (f *ReplayFlags) addSimulation(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.Given = fl.Changed
	fl.StringVar(&f.from, "from", "", "")
	fl.StringVar(&f.Scheduler, "scheduler", "tiresias", "")
	fl.DurationVar(&f.round, "grid", 0, "decide only on this grid, as round-based schedulers do (0: at every event)")
	fl.StringVar(&f.Placement, "placement", "fewest",
		"how gangs are placed: fewest (nodes), whole (all but the last node empty), count (only count GPUs)")
	fl.BoolVar(&f.skipWider, "skip-wider", false,
		"leave out jobs that ask for more GPUs than the cluster has, and say how many")
	fl.Uint64Var(&f.Seed, "seed", 1, "")
	f.Quota.add(cmd)
	f.Models.Add(cmd)
	f.protect.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("scheduler",
		cobra.FixedCompletions(schedulers.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("placement",
		cobra.FixedCompletions([]string{"fewest", "whole", "count"}, cobra.ShellCompDirectiveNoFileComp))
}

// AddTo adds the end of the window, for commands that have one.
func (f *ReplayFlags) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.to, "to", "", "")
}

// AddNodeEvents adds the flag of node events, for commands that replay on one cluster.
func (f *ReplayFlags) AddNodeEvents(cmd *cobra.Command) {
	f.changing = true
	cmd.Flags().StringVar(&f.nodes, "node-events", "",
		"CSV file of what happens to nodes, with the columns time,node,event[,gpus]: time as in --from, nodes from 0, "+
			"events down, drain, up, add")
}

// ReplayInput is the meaning of the flags.
type ReplayInput struct {
	Trace      *workload.Workload
	From, To   time.Duration
	Warmup     time.Duration // before From
	Scheduler  *schedulers.Scheduler
	Options    simulator.Options
	NodeEvents int
}

// Load checks the flags and reads the trace. Notes for people go to notes.
func (f *ReplayFlags) Load(ctx context.Context, notes io.Writer) (*ReplayInput, error) {
	if f.Trace == "" {
		return nil, UsageError{fmt.Errorf(`--trace is missing: name a trace file, "sample" or "sample-shifts"`)}
	}
	if err := f.readCluster(); err != nil {
		return nil, err
	}
	if err := f.checkCluster(); err != nil {
		return nil, err
	}
	in := &ReplayInput{}
	var err error
	if in.Scheduler, err = f.Find(); err != nil {
		return nil, UsageError{err}
	}
	if err := f.how.Apply(&trace.Options{}); err != nil {
		return nil, err
	}
	if in.Options, err = f.Simulate(); err != nil {
		return nil, err
	}
	if err := f.Models.apply(&in.Options, &f.Cluster); err != nil {
		return nil, err
	}
	if err := f.Quota.check(&f.Cluster, &in.Options); err != nil {
		return nil, err
	}
	if err := cmp.Or(CheckInstant("from", f.from), CheckInstant("to", f.to)); err != nil {
		return nil, err
	}
	if f.warmup < 0 {
		return nil, UsageError{fmt.Errorf("--warmup: %v is negative", f.warmup)}
	}
	events := new(trace.NodeEvents)
	if f.nodes != "" {
		if events, err = trace.OpenNodeEvents(f.nodes); err != nil {
			return nil, UsageError{fmt.Errorf("--node-events: %w", err)}
		}
	}
	if err := f.open(ctx, notes, in); err != nil { // after all checks that need no trace
		return nil, err
	}
	all, changes, err := events.On(f.Cluster, in.Trace.Zero())
	if err != nil {
		return nil, UsageError{fmt.Errorf("--node-events: %w", err)}
	}
	in.NodeEvents = len(in.Options.Nodes) // that the trace shows
	if f.nodes != "" {
		in.Options.Nodes, in.NodeEvents = changes, events.Len()
	}
	if f.skipWider {
		if in.Trace, err = WithoutWider(notes, in.Trace, all); err != nil {
			return nil, err
		}
	}
	if in.From, in.To, err = ParseWindow(in.Trace, f.from, f.to); err != nil {
		return nil, err
	}
	in.Warmup = f.warmup
	first, last := in.Trace.Span()
	clock := func(d time.Duration) string { return in.Trace.Zero().Add(d).Format(time.RFC3339) }
	if in.To <= in.From {
		return nil, UsageError{fmt.Errorf("--to (%s) is not after --from (%s); %s has submissions from %s to %s",
			clock(in.To), clock(in.From), f.Trace, clock(first), clock(last))}
	}
	if early := first - in.From; early > 24*time.Hour { // evaluate has a round for each of these hours
		fmt.Fprintf(notes, "note: --from (%s) is %s before the first submission of %s (%s)\n", clock(in.From),
			units.Duration(early.Seconds()), f.Trace, clock(first))
	}
	if n := len(f.Cluster.Site.Reservations); n > 0 && in.Trace.Zero().Unix() <= 0 { // 1970 is undated
		fmt.Fprintf(notes, "note: %s has no dates, so that reservations (%d of the cluster) are not simulated\n",
			f.Trace, n)
	}
	if err := f.Quota.divide(&f.Cluster, in.Trace.Jobs()); err != nil {
		return nil, err
	}
	f.Cluster.Groups = all.Groups // quotas are of the nodes that --nodes counts
	if n := f.Cluster.TotalGPUs(); n <= workload.SmallCluster {
		fmt.Fprintf(notes, "note: the cluster has %s; with %d or fewer there is little to gain from tuning\n",
			units.Plural(n, "GPU"), workload.SmallCluster)
	}
	return in, nil
}

// readCluster reads --cluster.
func (f *ReplayFlags) readCluster() error {
	if f.ClusterFile == "" {
		return nil
	}
	if f.Given("nodes") || f.Given("gpus-per-node") {
		return UsageError{errors.New("--cluster and --nodes, --gpus-per-node exclude each other")}
	}
	text, err := os.ReadFile(f.ClusterFile)
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	c, err := workload.ParseCluster(text)
	if err != nil {
		return fmt.Errorf("--cluster: %s: %w", f.ClusterFile, err)
	}
	f.Cluster = c
	return nil
}

// checkCluster checks the size of the cluster as far as flags or a scenario give it.
func (f *ReplayFlags) checkCluster() error {
	c, g := workload.Uniform(1, 1), f.Cluster.Groups[0]
	if f.Given("nodes") || g.Nodes != 0 {
		c.Groups[0].Nodes = g.Nodes
	}
	if f.Given("gpus-per-node") || g.GPUsPerNode != 0 {
		c.Groups[0].GPUsPerNode = g.GPUsPerNode
	}
	if err := c.Validate(); err != nil {
		return UsageError{err}
	}
	return nil
}

// open reads or makes the trace, and completes the cluster by its evidence.
func (f *ReplayFlags) open(ctx context.Context, notes io.Writer, in *ReplayInput) (err error) {
	g := f.Cluster.Groups[0]
	e := capacity.Evidence{Nodes: g.Nodes, GPUsPerNode: g.GPUsPerNode}
	if f.generate != nil {
		in.Trace, err = f.generate(ctx)
	} else {
		var report *trace.Report
		if in.Trace, report, err = OpenTrace(ctx, notes, f.Trace, f.how); err == nil {
			e.Machines, e.Declared = report.Machines, report.Declared
		}
	}
	if err != nil {
		return err
	}
	if f.ClusterFile != "" {
		return nil
	}
	found, err := capacity.Infer(in.Trace, e)
	switch {
	case errors.Is(err, capacity.ErrUnknown):
		return UsageError{fmt.Errorf("--nodes is missing: %w; name the cluster with --nodes and --gpus-per-node", err)}
	case err != nil:
		return fmt.Errorf("%w; name the cluster with --nodes and --gpus-per-node", err)
	case found.Assumed || found.Source != capacity.Given:
		fmt.Fprintf(notes, "note: cluster: %s; --nodes and --gpus-per-node set it\n", found)
	}
	f.Cluster.Groups = found.Cluster.Groups
	if f.changing && in.Options.Placement != simulator.Count {
		in.Options.Nodes = found.Changes
	}
	return nil
}

// CheckInstant checks the text of an instant without its trace; "" is none.
func CheckInstant(flag, text string) error {
	if text == "" {
		return nil
	}
	if err := trace.CheckInstant(text); err != nil {
		return UsageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return nil
}

// ParseWindow reads --from and --to on a trace; "" is its first submission, and after
// its last.
func ParseWindow(w *workload.Workload, fromText, toText string) (from, to time.Duration, err error) {
	from, to = w.Span()
	to++
	if fromText != "" {
		if from, err = trace.ParseInstant(w, fromText); err != nil {
			return 0, 0, UsageError{fmt.Errorf("--from: %w", err)}
		}
	}
	if toText != "" {
		if to, err = trace.ParseInstant(w, toText); err != nil {
			return 0, 0, UsageError{fmt.Errorf("--to: %w", err)}
		}
	}
	return from, to, nil
}

// Find is the scheduler that the flags name.
func (f *ReplayFlags) Find() (*schedulers.Scheduler, error) {
	if f.narrowed != nil {
		return f.narrowed, nil
	}
	return schedulers.Find(f.Scheduler)
}

// Named is the scheduler of a name, that of the site in its ranges.
func (f *ReplayFlags) Named(name string) (*schedulers.Scheduler, error) {
	if f.narrowed != nil && f.narrowed.Name == name {
		return f.narrowed, nil
	}
	return schedulers.Find(name)
}

// Configured are the scheduler and the configuration that the flags name.
func (f *ReplayFlags) Configured(c *ConfigFlags) (*schedulers.Scheduler, space.Config, error) {
	s, err := f.Find()
	if err != nil {
		return nil, space.Config{}, UsageError{err}
	}
	config, err := c.Config(s)
	return s, config, err
}

// WithoutWider leaves out jobs that ask for more GPUs than the cluster has.
func WithoutWider(notes io.Writer, w *workload.Workload, c workload.Cluster) (*workload.Workload, error) {
	all, fitting := w.Jobs(), 0
	for i := range all {
		if c.Fits(&all[i]) {
			fitting++
		}
	}
	if fitting == len(all) {
		return w, nil
	}
	fit := make([]workload.Job, 0, fitting)
	for i := range all {
		if c.Fits(&all[i]) {
			fit = append(fit, all[i])
		}
	}
	fmt.Fprintf(notes, "note: %d of %d jobs ask for more GPUs than the cluster has and are left out\n",
		w.Len()-len(fit), w.Len())
	if len(fit) == 0 {
		return nil, fmt.Errorf("every job of %s asks for more GPUs than %s has", w.Name(), c)
	}
	return workload.NewSorted(w.Name(), w.Zero(), fit, w.Synthetic()), nil
}

// Simulate returns the options of simulations by the flags.
func (f *ReplayFlags) Simulate() (simulator.Options, error) {
	o := simulator.Options{Round: f.round}
	var err error
	if o.Protect, err = f.protect.Protection(); err != nil {
		return o, err
	}
	if f.round < 0 {
		return o, UsageError{fmt.Errorf("--grid: %v is negative", f.round)}
	}
	switch f.Placement {
	case "fewest":
		o.Placement = simulator.ConsolidateFewest
	case "whole":
		o.Placement = simulator.ConsolidateWhole
	case "count":
		o.Placement = simulator.Count
	default:
		return o, UsageError{fmt.Errorf("--placement: %q is not fewest, whole or count", f.Placement)}
	}
	return o, nil
}

// OpenTrace reads a trace and notes rejected rows and that it is synthetic.
func OpenTrace(ctx context.Context, notes io.Writer, path string, how ReadFlags) (
	*workload.Workload, *trace.Report, error) {
	line := NewProgressLine(notes)
	opts := trace.Options{KeepRejected: 1, Progress: line.Reading(path)}
	if err := how.Apply(&opts); err != nil {
		return nil, nil, err
	}
	w, report, err := trace.Open(ctx, path, opts)
	line.Clear()
	if err != nil && !how.added && strings.Contains(err.Error(), "--columns") {
		return nil, nil,
			fmt.Errorf("%w\n('autosched trace import' takes --columns and writes a trace that needs none)", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if report.Rejected > 0 {
		fmt.Fprintf(notes, "note: %s: %d of %d rows rejected, first %s; see 'autosched trace validate'\n", report.File,
			report.Rejected, report.Rows, report.First[0])
	}
	how.Note(notes, report)
	if report.Running > 0 {
		fmt.Fprintf(notes, "note: %s: %d of the jobs had not ended: they hold GPUs as long as is known, and count in no "+
			"mean\n", report.File, report.Running)
	}
	if report.Pending > 0 {
		fmt.Fprintf(notes, "note: %s: %d of the jobs had not started: they wait, then run as long as their users' jobs "+
			"do, and count in no mean\n", report.File, report.Pending)
	}
	if w.Synthetic() {
		fmt.Fprintf(notes, "note: %s is synthetic\n", report.File)
	}
	return w, report, nil
}

// ConfigFlags is --set, --preset, --config and --slurm-conf.
type ConfigFlags struct {
	Set    []string
	Preset string
	File   string
	slurm  string // slurm.conf
}

// Add adds the flags of a configuration.
func (f *ConfigFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.Set, "set", nil, "")
	cmd.Flags().StringVar(&f.Preset, "preset", "", "start from this preset of the scheduler instead of its default")
	cmd.Flags().StringVar(&f.File, "config", "",
		"start from the configuration in this YAML or JSON file: values by parameter, or what --json prints; of "+
			"evaluate or compare FILE:NAME, such as report.json:autosched")
	cmd.Flags().StringVar(&f.slurm, "slurm-conf", "", "")
}

// Given reports whether any of the flags is.
func (f *ConfigFlags) Given() bool {
	return len(f.Set) > 0 || f.Preset != "" || f.File != "" || f.slurm != ""
}

// Config returns the configuration that the flags describe, the default without any.
func (f *ConfigFlags) Config(s *schedulers.Scheduler) (space.Config, error) {
	base := s.Space.Default()
	switch {
	case f.Preset != "" && f.File != "" || f.slurm != "" && f.Preset+f.File != "":
		return base, UsageError{errors.New("--config, --preset and --slurm-conf exclude each other: start from one")}
	case f.slurm != "" && s.Name != "slurm":
		return base, UsageError{fmt.Errorf("--slurm-conf: the scheduler is %s: give --scheduler slurm", s.Name)}
	case f.slurm != "":
		var err error
		if base, err = readSlurmConf(f.slurm, s.Space); err != nil {
			return base, fmt.Errorf("--slurm-conf: %w", err)
		}
	case f.File != "":
		var err error
		if base, err = readConfig(f.File, s); err != nil {
			return base, fmt.Errorf("--config: %w", err)
		}
	}
	if f.Preset != "" {
		found := false
		var names []string
		for _, p := range s.Presets {
			names = append(names, p.Name)
			if p.Name == f.Preset {
				base, found = p.Config, true
			}
		}
		if !found {
			return base, UsageError{fmt.Errorf("--preset: %q is not a preset of %s; there are %s", f.Preset, s.Name,
				strings.Join(names, ", "))}
		}
	}
	c, err := s.Space.Parse(base, f.Set)
	if err != nil {
		return c, UsageError{fmt.Errorf("--set: %w", err)}
	}
	return c, nil
}

// readSlurmConf reads the settings of a slurm.conf, or of the output of scontrol show config. Parameters that a site
// adds are as the file says, or as they are at the site.
func readSlurmConf(path string, of *space.Space) (space.Config, error) {
	c, err := conf.Read(path, os.ReadFile)
	if err != nil {
		text, e := os.ReadFile(path)
		if e != nil || !bytes.HasPrefix(text, []byte("Configuration data")) {
			return space.Config{}, err
		}
		if c, err = conf.ReadShown(path, text); err != nil {
			return space.Config{}, err
		}
	}
	config, notes, err := c.Current()
	if err == nil && len(notes) > 0 {
		err = fmt.Errorf("%s: %s", path, notes[0])
	}
	added := func(p space.Param) bool { return strings.HasPrefix(p.ID, "QOS.") }
	if err != nil || !slices.ContainsFunc(of.Params(), added) {
		if err == nil && len(c.QOS()) > 0 {
			err = fmt.Errorf("%s: %s: is not tuned here: take the line out, as --cluster says it", path, c.QOS()[0])
		}
		return config, err
	}
	values, err := c.Values(c.QOS())
	if err != nil {
		return config, err
	}
	maps.Copy(values, native.ValuesOf(config))
	config, changes := of.Project(values)
	for _, x := range changes {
		if !x.From.IsZero() && !x.To.IsZero() {
			return config, fmt.Errorf("%s: %s is %s, which is not in the range that is tuned", path, x.Param, x.From)
		}
	}
	return config, nil
}

// readConfig reads a configuration, which may omit parameters but break no rule. Results
// with another scheduler are refused: its parameters may have the same names.
func readConfig(path string, s *schedulers.Scheduler) (space.Config, error) {
	text, scheduler, err := ReadConfigText(os.Stdin, path)
	if err != nil {
		return space.Config{}, err
	}
	if scheduler != "" && scheduler != s.Name {
		return space.Config{}, fmt.Errorf("%s is a configuration of %s, and the scheduler is %s: give --scheduler %s",
			path, scheduler, s.Name, scheduler)
	}
	c, changes, err := s.Space.LoadConfig(text)
	if err != nil {
		return c, ListViolations(path, err)
	}
	for _, x := range changes {
		if x.Rule != "missing" {
			return c, fmt.Errorf("%s: %s: %s is not allowed (%s); %s would be", path, x.Param, x.From, x.Rule, x.To)
		}
	}
	return c, nil
}

// RecordedFlag is --recorded-scheduler.
type RecordedFlag struct{ Name string }

// Add adds the flag of the scheduler that the trace was recorded under.
func (f *RecordedFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Name, "recorded-scheduler", fidelity.Unknown,
		"the scheduler that ran the history: a name as for --scheduler, "+fidelity.Other+", or "+fidelity.Unknown+
			"; if it is the one that is simulated, the simulation must describe the history")
	_ = cmd.RegisterFlagCompletionFunc("recorded-scheduler",
		OneOf(append(schedulers.Names(), fidelity.Other, fidelity.Unknown)...))
}

// Check checks the name of the scheduler.
func (f *RecordedFlag) Check() error {
	if err := fidelity.CheckRecorded(f.Name); err != nil {
		return UsageError{fmt.Errorf("--recorded-scheduler: %w", err)}
	}
	return nil
}

// quotaFlags are the virtual clusters.
type quotaFlags struct {
	vcs   []string
	Quota string
}

// QuotaNames are the ways to enforce quotas of virtual clusters.
var QuotaNames = []string{"off", "strict", "borrow"}

func (f *quotaFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.vcs, "vc", nil,
		"a tenant's virtual cluster, tenant=GPUs or tenant=GPUs:weight, repeatable; \"auto\" divides the cluster by "+
			"the tenants' shares of the trace's GPU-time; GPUs in no quota are shared")
	fl.StringVar(&f.Quota, "quota", "off",
		"what virtual clusters mean: off (one pool for all), strict (a tenant holds its quota, and shared GPUs "+
			"beyond it), borrow (anything that is free)")
	_ = cmd.RegisterFlagCompletionFunc("quota", cobra.FixedCompletions(QuotaNames, cobra.ShellCompDirectiveNoFileComp))
}

// Auto reports whether the quotas are inferred from the trace.
func (f *quotaFlags) Auto() bool { return len(f.vcs) == 1 && f.vcs[0] == "auto" }

// divide derives the virtual clusters from the jobs of the trace if the flag is
// auto, else it checks that the cluster has their GPUs.
func (f *quotaFlags) divide(c *workload.Cluster, jobs []workload.Job) error {
	if f.Auto() {
		c.VCs = workload.AutoVCs(jobs, c.TotalGPUs())
	}
	return checkQuotas(c)
}

func checkQuotas(c *workload.Cluster) error {
	sum := 0
	for _, v := range c.VCs {
		sum += v.GPUs
	}
	if sum > c.TotalGPUs() {
		return UsageError{fmt.Errorf("--vc: the quotas add up to %d GPUs and the cluster has %d", sum, c.TotalGPUs())}
	}
	return nil
}

// check sets the quota mode of the options and the virtual clusters of the
// cluster.
func (f *quotaFlags) check(c *workload.Cluster, o *simulator.Options) error {
	mode := slices.Index(QuotaNames, f.Quota)
	if mode < 0 {
		return UsageError{fmt.Errorf("--quota: %q is not one of %s", f.Quota, strings.Join(QuotaNames, ", "))}
	}
	o.Quota = simulator.Quota(mode)
	if f.Auto() {
		return nil
	}
	for _, s := range f.vcs {
		v, err := workload.ParseVC(s)
		if err != nil {
			return UsageError{fmt.Errorf("--vc: %w", err)}
		}
		if slices.ContainsFunc(c.VCs, func(o workload.VC) bool { return o.Tenant == v.Tenant }) {
			return UsageError{fmt.Errorf("--vc: %q is given twice", v.Tenant)}
		}
		c.VCs = append(c.VCs, v)
	}
	if len(c.VCs) == 0 && o.Quota != simulator.QuotaOff {
		return UsageError{fmt.Errorf("--quota %s needs virtual clusters: --vc tenant=GPUs, or --vc auto", f.Quota)}
	}
	if c.TotalGPUs() == 0 { // the trace shows the cluster
		return nil
	}
	return checkQuotas(c)
}

// ProtectFlags bound preemption of a job.
type ProtectFlags struct {
	MaxPreemptions int
	MinRun         time.Duration
}

// Add adds the flags that limit preemptions.
func (f *ProtectFlags) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&f.MaxPreemptions, "max-preemptions", 0,
		"a job that was stopped this often is not stopped again (0: any number)")
	fl.DurationVar(&f.MinRun, "min-run", 0, "a job that was started runs at least this long before it is stopped")
}

// Protection returns the limits on preemptions that the flags describe.
func (f *ProtectFlags) Protection() (simulator.Protection, error) {
	switch {
	case f.MaxPreemptions < 0:
		return simulator.Protection{}, UsageError{fmt.Errorf("--max-preemptions: %d is negative", f.MaxPreemptions)}
	case f.MinRun < 0:
		return simulator.Protection{}, UsageError{fmt.Errorf("--min-run: %v is negative", f.MinRun)}
	}
	return simulator.Protection{MaxPreemptions: f.MaxPreemptions, MinRun: f.MinRun}, nil
}

// ClusterFlags adds the flags of a cluster of equal nodes.
func ClusterFlags(cmd *cobra.Command, c *workload.Cluster) {
	*c = workload.Uniform(0, 0)
	cmd.Flags().IntVar(&c.Groups[0].Nodes, "nodes", 0, "")
	cmd.Flags().IntVar(&c.Groups[0].GPUsPerNode, "gpus-per-node", 8, "")
}

// SplitFileName splits FILE:NAME, the value of a flag.
func SplitFileName(flag, arg string) (path, name string, err error) {
	colon := strings.LastIndexByte(arg, ':')
	if colon <= 0 || colon == len(arg)-1 {
		return "", "", UsageError{fmt.Errorf("--%s: %q is not FILE:NAME", flag, arg)}
	}
	return arg[:colon], arg[colon+1:], nil
}

// SetScenario takes the window and the cluster from the scenario, unless a flag is given.
func (f *ReplayFlags) SetScenario(s *scenario.Scenario, given func(flag string) bool) {
	if s.Drawn() && !given("trace") {
		f.Trace, f.generate = s.Recipe, s.Generate
	}
	if !given("from") {
		f.from = s.Start
	}
	if !given("to") {
		f.to = s.End
	}
	if !given("nodes") {
		f.Cluster.Groups[0].Nodes = s.Nodes
	}
	if !given("gpus-per-node") {
		f.Cluster.Groups[0].GPUsPerNode = s.GPUsPerNode
	}
	if !given("node-events") {
		f.nodes = s.NodeEvents
	}
}
