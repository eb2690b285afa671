package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/adapter/site/kube"
	slurmsite "github.com/autosched/autosched/adapter/slurm/site"
	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// HistoryFlags are the flags of commands that ask about a history: the jobs that count and those that warm up the
// cluster, the cluster or site, the scheduler, and the configuration in force.
type HistoryFlags struct {
	ReplayFlags
	InForce  ConfigFlags
	Recorded RecordedFlag
	Site     SiteFlag
	Guard    float64
	ignore   bool // fidelity
}

// Add adds the flags of all these commands.
func (f *HistoryFlags) Add(cmd *cobra.Command) {
	f.addTrace(cmd)
	f.AddBeside(cmd)
}

// AddBeside adds the flags to a command that has those of the trace and the cluster.
func (f *HistoryFlags) AddBeside(cmd *cobra.Command) {
	f.Recorded.Name = fidelity.Unknown
	f.addSimulation(cmd)
	f.AddTo(cmd)
	f.AddWarmup(cmd)
	f.InForce.Add(cmd)
	f.Site.Add(cmd)
}

// AddConclusion adds the flags of commands that conclude about the recorded cluster.
func (f *HistoryFlags) AddConclusion(cmd *cobra.Command) {
	f.Recorded.Add(cmd)
	cmd.Flags().BoolVar(&f.ignore, ignoreFidelity, false,
		"conclude about the simulated cluster even if the simulation does not describe the history")
	f.Guard = round.DefaultSettings().Guard
	AddGuard(cmd, &f.Guard)
}

// Ask asks whether the history justifies a configuration other than the one in force. Options have the goal, the one
// in force, its fidelity, further candidates and the workers. Progress goes to notes.
func (f *HistoryFlags) Ask(ctx context.Context, in *ReplayInput, o replay.AskOptions, notes io.Writer) (
	*replay.Verdict, error) {
	o.Assumed = in.Scheduler.Space.Default()
	if f.Site.Dir != "" {
		var err error
		if o.Assumed, err = readConfig(site.Folder(f.Site.Dir).Path(site.Current), in.Scheduler); err != nil {
			return nil, err
		}
	}
	line, began := NewProgressLine(notes), time.Now()
	defer line.Clear()
	o.Trace, o.From, o.To, o.Cluster, o.Scheduler = in.Trace, in.From, in.To, f.Cluster, in.Scheduler
	o.Simulate, o.Guard, o.Seed, o.Site = in.Options, f.Guard, f.Seed, f.Site.Dir
	o.Progress = func(done, of int) {
		left := time.Since(began).Seconds() * float64(of-done) / float64(done)
		line.Show("replay %d of %d of the history, about %s left", done, of, units.Duration(left))
	}
	return replay.Ask(ctx, o)
}

// PrintVerdict prints the answer: the sentences, the changes with their effects, and the flags.
func PrintVerdict(w io.Writer, v *replay.Verdict) error {
	table.Strong(w, v.Text)
	if v.Fidelity != nil {
		table.Prose(w, "", v.Fidelity.String()+".")
	}
	if len(v.Changes) == 0 {
		return nil
	}
	if e := v.Evictions; e != nil && e.After.Number <= e.Before.Number { // the text has the others
		table.Prose(w, "", "The change "+e.String()+".")
	}
	fmt.Fprintln(w, "\nSettings that change:")
	for _, c := range v.Changes {
		fmt.Fprintf(w, "  %s\n", c.Step)
		if c.Means != "" {
			table.Prose(w, "    ", c.Means)
		}
	}
	flags, whose := v.Flags, "Flags"
	if !v.Change {
		flags, whose = v.Refused.Flags, "Its flags"
	}
	_, err := fmt.Fprintf(w, "\n%s in simulate, tune, evaluate, compare, plan and recommend:\n  %s\n", whose, flags)
	return err
}

// GoalFlags are --objective and --subject-to.
type GoalFlags struct {
	Objective string
	SubjectTo []string
}

// Add adds the flags.
func (f *GoalFlags) Add(cmd *cobra.Command) {
	AddObjective(cmd, &f.Objective)
	AddSubjectTo(cmd, &f.SubjectTo)
}

// AddSubjectTo adds the constraints of a goal.
func AddSubjectTo(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "subject-to", nil, "")
}

// Goal reads the flags.
func (f *GoalFlags) Goal() (round.Goal, error) {
	g, err := round.ParseGoal(f.Objective)
	if err != nil {
		return g, UsageError{fmt.Errorf("--%w", err)}
	}
	for _, text := range f.SubjectTo {
		c, err := round.ParseConstraint(text)
		if err != nil {
			return g, UsageError{fmt.Errorf("--subject-to: %w", err)}
		}
		if !slices.Contains(g.Constraints, c) {
			g.Constraints = append(g.Constraints, c)
		}
	}
	return g, nil
}

const ignoreFidelity = "ignore-fidelity"

// Check checks all that needs no trace. It returns the scheduler and the configuration in force.
func (f *HistoryFlags) Check() (*schedulers.Scheduler, space.Config, error) {
	if err := cmp.Or(f.Site.Use(&f.ReplayFlags, &f.InForce, &f.Recorded), f.Recorded.Check()); err != nil {
		return nil, space.Config{}, err
	}
	return f.Configured(&f.InForce)
}

// Grade compares the simulation of the history under the configuration in force with the record. It is nil where a
// synthetic trace has no delays, and an error where nothing may be concluded. Every conclusion depends on it.
func (f *HistoryFlags) Grade(ctx context.Context, in *ReplayInput, w replay.Window, s *schedulers.Scheduler,
	inForce space.Config) (*fidelity.Graded, error) {
	if !slices.ContainsFunc(in.Trace.Window(w.From, w.To).Jobs(), func(j workload.Job) bool { return j.HasWait }) {
		if in.Trace.Synthetic() {
			return nil, nil
		}
		return &fidelity.Graded{Grade: fidelity.Incomparable, Why: fidelity.NoDelays}, nil
	}
	o := in.Options
	o.Past = replay.Past(in.Trace, f.Cluster, w.From-in.Warmup)
	r, err := fidelity.Quick(ctx, fidelity.Input{Trace: in.Trace, From: w.From, To: w.To, Warmup: in.Warmup,
		Cluster: f.Cluster, Scheduler: s, Config: inForce, Simulate: o, Recorded: f.Recorded.Name})
	if err != nil {
		return nil, err
	}
	if err := r.Refusal("--" + ignoreFidelity); err != nil && !f.ignore {
		return nil, err
	}
	return &r.Graded, nil
}

// AddWarmup adds the length of the warm-up.
func (f *ReplayFlags) AddWarmup(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.warmup, "warmup", round.Warmup,
		"jobs of this long before --from run, too, and do not count: they fill the cluster, which starts empty")
}

// Jobs are the submissions that are simulated: those that count and those of the warm-up.
func (in *ReplayInput) Jobs() *workload.Workload { return in.Trace.Window(in.From-in.Warmup, in.To) }

// Simulation are the options of a simulation of Jobs.
func (in *ReplayInput) Simulation(c workload.Cluster) simulator.Options {
	return replay.Warmed(in.Options, in.Trace, c, in.From, in.Warmup)
}

// Window is the window that counts.
func (in *ReplayInput) Window() replay.Window {
	clock := func(at time.Duration) string { return in.Trace.Zero().Add(at).Format("2006-01-02T15:04") }
	return replay.Window{Name: clock(in.From) + ".." + clock(in.To), From: in.From, To: in.To}
}

// SiteFlag is --site: a cluster as slurm init or autosched-kube init described it.
type SiteFlag struct {
	Dir  string
	out  string   // of the file of settings
	kind siteKind // of the folder
}

// Add adds the flag of the folder.
func (f *SiteFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Dir, "site", "",
		"folder that 'autosched slurm init' or 'autosched-kube init' wrote: in place of --cluster, --scheduler, --config "+
			"with the settings in force, --recorded-scheduler, and --node-events if it has them")
}

// AddOut adds the file of settings, for commands that recommend some.
func (f *SiteFlag) AddOut(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "conf-out", "",
		"write the recommended settings to this file, for 'autosched slurm apply', or as a script of kubectl; needs --site")
}

// Use fills in the folder's values where no flag is given.
func (f *SiteFlag) Use(r *ReplayFlags, config *ConfigFlags, recorded *RecordedFlag) error {
	switch {
	case f.Dir == "" && f.out != "":
		return UsageError{errors.New("--conf-out: the settings are those of a site: describe the cluster with --site")}
	case f.Dir == "":
		return nil
	case r.Given("cluster") || r.Given("nodes") || r.Given("gpus-per-node"):
		return UsageError{errors.New("--site and --cluster, --nodes, --gpus-per-node exclude each other")}
	}
	folder := site.Folder(f.Dir)
	name := "slurm" // where nothing says otherwise
	if text, err := os.ReadFile(folder.Path(site.Scheduler)); err == nil {
		var registered struct {
			Spec struct{ SchedulerType string }
		}
		_ = json.Unmarshal(text, &registered) // the space is read from it below
		name = cmp.Or(registered.Spec.SchedulerType, name)
	}
	var known bool
	if f.kind, known = siteKinds[name]; !known {
		return UsageError{fmt.Errorf("--site: describes a cluster under %s, which no command does", name)}
	}
	if path := folder.Missing(f.kind.own...); path != "" {
		return UsageError{fmt.Errorf("--site: %s is missing: name the folder that '%s init --out' wrote", path,
			f.kind.program)}
	}
	if r.Given("scheduler") && r.Scheduler != name {
		return UsageError{fmt.Errorf("--site: describes a cluster under %s, and --scheduler is %s", name, r.Scheduler)}
	}
	r.Scheduler, r.ClusterFile = name, folder.Path(site.Cluster)
	if config.File == "" && config.Preset == "" && config.slurm == "" {
		config.File = folder.Path(site.Current)
	}
	if !r.Given("recorded-scheduler") {
		recorded.Name = name
	}
	if r.changing && r.nodes == "" && folder.Has(site.NodeEvents) {
		r.nodes = folder.Path(site.NodeEvents)
	}
	var err error
	r.narrowed, err = narrowed(folder.Path(site.Scheduler), f.kind.narrow)
	return err
}

// siteKind is the part of a folder that depends on the scheduler.
type siteKind struct {
	own    []string // names of its files
	narrow func(*space.Space) (*schedulers.Scheduler, error)
	// change describes a change of the settings to a configuration, which a file of a name is to make.
	change func(f site.Folder, after space.Config, to string) (*replay.SettingsChange, error)
	// program writes the folder; out is the usual name of the file of settings, of is which file or objects it changes,
	// and where is where its commands run.
	program, out, of, where string
}

var siteKinds = map[string]siteKind{
	"slurm": {own: []string{slurmsite.Settings}, narrow: slurmsite.Narrow, change: slurmsite.Change,
		program: "autosched slurm", out: "tuned.conf", of: "the file that slurm.conf includes", where: "Where Slurm runs"},
	"kueue":   kubeSite(kube.Kueue, "the queues"),
	"volcano": kubeSite(kube.Volcano, "the scheduler's text and the queues"),
}

func kubeSite(s *kube.Scheduler, of string) siteKind {
	return siteKind{own: []string{kube.Queues}, narrow: s.Narrow, change: s.Change, program: "autosched-kube",
		out: "tuned.sh", of: of, where: "Where kubectl reaches the cluster"}
}

// narrowed is a scheduler with the parameters and ranges of a registration.
func narrowed(path string, narrow func(*space.Space) (*schedulers.Scheduler, error)) (*schedulers.Scheduler, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--site: %w", err)
	}
	registered, err := LoadSpace(text, path)
	if err != nil {
		return nil, ListViolations(path, err)
	}
	s, err := narrow(registered)
	return s, ListViolations(path, err)
}

// Change describes a change of the site's settings, and writes the file if one is named; nil without a site, and
// where the configurations are equal. The waits of jobs are simulated on all that the trace has from --from to --to.
func (f *SiteFlag) Change(ctx context.Context, in *ReplayInput, r *ReplayFlags, before, after space.Config) (
	*replay.SettingsChange, error) {
	if f.Dir == "" {
		return nil, nil
	}
	s, err := r.Find()
	if err != nil {
		return nil, err
	}
	if before.Equal(after) {
		return nil, nil
	}
	out, err := f.kind.change(site.Folder(f.Dir), after, cmp.Or(f.out, f.kind.out))
	if err != nil {
		return nil, err
	}
	clock := func(d time.Duration) string { return in.Trace.Zero().Add(d).Format(time.RFC3339) }
	w := in.Window()
	out.From, out.To = clock(w.From), clock(w.To)
	if out.Waits, err = replay.CompareWaits(ctx, replay.CompareOptions{Trace: in.Trace, Cluster: r.Cluster,
		Windows: []replay.Window{w}, Warmup: in.Warmup, Seed: r.Seed, Simulate: in.Options,
		Rows: []replay.Row{{Name: "current", Scheduler: s, Config: before}, {Name: "recommended", Scheduler: s,
			Config: after}}}); err != nil || f.out == "" {
		return out, err
	}
	return out, WriteFile(f.out, "--conf-out", func(w io.Writer) error {
		_, err := io.WriteString(w, out.Text)
		return err
	})
}

// PrintChange prints a change of settings: which jobs wait longer, the patch, and the commands that apply it.
func (f *SiteFlag) PrintChange(w io.Writer, c *replay.SettingsChange) error {
	if c == nil && f.out != "" {
		_, err := fmt.Fprintf(w, "\nNo other settings are recommended: %s is not written.\n", f.out)
		return err
	}
	if c == nil {
		return nil
	}
	fmt.Fprintf(w, "\nWhich jobs wait longer: all jobs from %s to %s,\nsimulated with the settings in force and with these. "+
		"slower is how many have\na JCT more than 1 %% longer, most by how much the wait of one grows.\n\n",
		c.From, c.To)
	t := table.Numbers(w, "\tjobs\tmean wait\tafter\tp95 wait\tafter\tslower\tmost\t")
	left := 0
	for _, g := range shownWaits(c.Waits, &left) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t\n", strings.TrimSpace(g.By+" "+g.Name), g.Jobs,
			units.Duration(g.Before.Mean), units.Duration(g.After.Mean), units.Duration(g.Before.P95),
			units.Duration(g.After.P95), g.Slower, units.Duration(g.Worst))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(w, "... %d more tenants and users, which lose less or gain; --json has all\n", left)
	}
	if c.Patch == "" {
		_, err := fmt.Fprintf(w, "\nThe settings of %s are these already.\n", f.Dir)
		return err
	}
	fmt.Fprintf(table.Whole(w), "\nThe change of %s:\n\n%s\n", f.kind.of, c.Patch)
	if len(c.QOS) > 0 {
		fmt.Fprintf(table.Whole(w), "Applied with it, for all clusters of the slurmdbd:\n  %s\n\n",
			strings.Join(c.QOS, "\n  "))
	}
	if f.out == "" {
		fmt.Fprintf(w, "With --conf-out %s the file is written. ", f.kind.out)
	} else {
		fmt.Fprintf(w, "%s is written. ", f.out)
	}
	fmt.Fprintf(w, "%s, check it, put it in force, and take it back:\n", f.kind.where)
	for _, command := range c.Commands {
		fmt.Fprintf(table.Whole(w), "  %s\n", command)
	}
	return nil
}

// shownWaits are the groups to print: of many tenants the ones whose jobs lose most time in all, in order of name, and
// of the users only losers.
func shownWaits(all []round.Group, left *int) []round.Group {
	lost := func(g round.Group) float64 { return float64(g.Jobs) * (g.After.Mean - g.Before.Mean) }
	drop := map[string]bool{}
	for by, most := range map[string]int{round.ByTenant: 12, round.ByUser: 5} {
		var groups []round.Group
		for _, g := range all {
			if g.By == by {
				groups = append(groups, g)
			}
		}
		slices.SortStableFunc(groups, func(a, b round.Group) int { return cmp.Compare(lost(b), lost(a)) })
		for i, g := range groups {
			if i >= most || by == round.ByUser && !g.Loses() {
				drop[by+" "+g.Name] = true
			}
		}
	}
	*left = len(drop)
	return slices.DeleteFunc(slices.Clone(all), func(g round.Group) bool { return drop[g.By+" "+g.Name] })
}
